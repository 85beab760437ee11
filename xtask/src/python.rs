//! `xtask python`: tests the Python package as pip installs it.
//!
//! In: a wheel, and the recorded cases. Out: what pytest and mypy say. Guaranteed: the environment
//! is empty before the wheel is installed, and has no culd in its PATH but the wheel's.
//!
//! The environment is one of this machine, or lies in another system's folder.

use crate::args::Args;
use crate::dist::paths::Folders;
use crate::dist::zig::OldGlibc;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::fixtures::case;
use culd_testkit::reference::oracle::wheels::Environment;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask python [options]
  --wheel FILE   the wheel (default the one in <target>/dist/packages: 'cargo xtask dist --wheel')
  --links N      links of the test of memory (default 5000)
  --time         time links against the same links in Rust, too: builds examples/repeat.rs as what ships
  --root DIR     test the wheel in the system in DIR, which has Python with venv, without types; as root.
                 One of another machine runs by qemu-user: packaging/try says how it is made
  --packages     the tests with cuda-python, cuda-core and NVIDIA's compilers instead: 600 MB of PyPI";

/// The tools of the tests.
const TOOLS: &[&str] = &["mypy==2.1.0", PYTEST];
const PYTEST: &str = "pytest==9.2.0";
/// What a user of NVIDIA's Python packages has beside culd, of a major release.
const PACKAGES: [(&str, &str, &[&str]); 2] = [
    (
        "13",
        "[lto,ptx]",
        &["cuda-bindings==13.5.0", "cuda-core==1.2.2", "nvidia-cuda-nvrtc==13.5.37"],
    ),
    (
        "12",
        "[ptx12]",
        &[
            "cuda-bindings==12.9.10",
            "nvidia-cuda-nvrtc-cu12==12.9.86",
            "nvidia-nvjitlink-cu12==12.9.86",
        ],
    ),
];

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let named = args.option::<PathBuf>("--wheel")?;
    let links = args.option::<u32>("--links")?.unwrap_or(5000);
    let packages = args.flag("--packages");
    let time = args.flag("--time");
    let root = args.option::<PathBuf>("--root")?;
    args.finish()?;
    let wheel = named.map_or_else(built, Ok)?;
    if let Some(root) = root {
        return in_root(&root, &wheel, links);
    }
    let folder = workspace::target().join("python");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    if packages {
        return with_packages(&wheel, &folder);
    }
    // Installed as a user does it: into a new environment, by pip, with nothing else.
    let path = wheel.to_str().context("the wheel's path is no text")?;
    let environment =
        Environment::install(&folder.join("environment"), &[&[path], TOOLS].concat())?;
    let cases = folder.join("cases");
    let count = write_cases(&cases)?;
    println!("{} with {count} recorded cases", wheel.display());
    let source = workspace::root().join("crates/python");
    let repeat = if time { Some(repeat()?) } else { None };
    let run = |words: &[&str]| -> Result<bool> {
        let mut python = Command::new(environment.program("python"));
        python.args(["-B", "-m"]).args(words).current_dir(&source);
        python.env("CULD_CASES", &cases).env("CULD_LINKS", links.to_string());
        if let Some(repeat) = &repeat {
            python.env("CULD_REPEAT", repeat);
        }
        Ok(python.status()?.success())
    };
    let tests = run(&["pytest", "-q", "-rA", "-p", "no:cacheprovider"])?;
    let types = run(&["mypy", "--cache-dir", "/dev/null"])?;
    // What pip installed is gone without a rest.
    let pip =
        Command::new(environment.program("pip")).args(["uninstall", "-qy", "culd"]).status()?;
    ensure!(pip.success(), "pip cannot remove culd");
    for place in [environment.program("culd"), environment.program("culd-lto")] {
        ensure!(!place.exists(), "{} is left", place.display());
    }
    ensure!(environment.package("culd").is_err(), "the package's folder is left");
    Ok(if tests && types { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tests with NVIDIA's packages of each major release, in an environment with nothing that
/// names a toolkit.
fn with_packages(wheel: &Path, folder: &Path) -> Result<ExitCode> {
    let mut passed = true;
    for (release, extras, packages) in PACKAGES {
        let wheel = format!("{}{extras}", wheel.display());
        let wheels = [&[wheel.as_str(), PYTEST], packages].concat();
        let environment = Environment::install(&folder.join(release), &wheels)?;
        let mut python = Command::new(environment.program("python"));
        python.args(["-B", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "packages"]);
        python.current_dir(workspace::root().join("crates/python")).env_clear();
        python.env("PATH", "/usr/bin:/bin").env("CULD_RELEASE", release);
        passed &= python.status()?.success();
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program that times links in Rust, as `xtask dist` builds what ships.
fn repeat() -> Result<PathBuf> {
    let built = workspace::target().join("dist-build");
    let zig = OldGlibc::install(std::env::consts::ARCH, &built)?;
    let mut cargo = zig.cargo("build", &Folders::find(&built)?)?;
    cargo.args(["-p", "culd", "--example", "repeat"]);
    ensure!(cargo.status()?.success(), "no examples/repeat.rs");
    Ok(zig.file("examples/repeat"))
}

/// The folder of the tests in another system.
const STAGE: &str = "culd-python";

/// pytest in the system in `root`: it installs the wheel into a new environment and removes it.
fn in_root(root: &Path, wheel: &Path, links: u32) -> Result<ExitCode> {
    let stage = root.join(STAGE);
    // The tests find their files from their own place, as in the source tree.
    for folder in ["crates/python/tests", "testdata/quickstart"] {
        workspace::keep_tree(&workspace::root().join(folder), &stage.join(folder))?;
    }
    let project = "crates/python/pyproject.toml";
    fs::copy(workspace::root().join(project), stage.join(project))?;
    let count = write_cases(&stage.join("cases"))?;
    let name = wheel.file_name().and_then(OsStr::to_str).context("the wheel's name is no text")?;
    fs::copy(wheel, stage.join(name))?;
    println!("{name} with {count} recorded cases, in {}", root.display());
    // pytest and what it needs are Python without compiled parts: this machine's pip can get them,
    // and the other system needs no network.
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--only-binary=:all:", "-d"]);
    ensure!(pip.arg(stage.join("wheels")).arg(PYTEST).status()?.success(), "pip");
    let own = name.ends_with(&format!("{}.whl", std::env::consts::ARCH));
    let emulated = if own { "" } else { "CULD_EMULATED=1" };
    let script = format!(
        "cd /{STAGE}; python3 -m venv new; \
         new/bin/pip -q install --no-index --find-links wheels ./{name} {PYTEST}; \
         cd /{STAGE}/crates/python; status=0; CULD_CASES=/{STAGE}/cases CULD_LINKS={links} {emulated} \
         /{STAGE}/new/bin/python -B -m pytest -q -rA -p no:cacheprovider || status=$?; \
         /{STAGE}/new/bin/pip -q uninstall -y culd; cd /{STAGE}; \
         for left in new/bin/culd new/bin/culd-lto new/lib/python*/site-packages/culd; do \
         if [ -e $left ]; then echo $left is left; status=1; fi; done; \
         exit $status"
    );
    // Mounts are those of this command alone, and go with it.
    let enter = "mount -t proc proc \"$0/proc\"; mount -t tmpfs tmpfs \"$0/tmp\"; exec chroot \"$0\" \
                 /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin /bin/sh -ec \"$1\"";
    let mut chroot = Command::new("unshare");
    chroot.args(["--mount", "/bin/sh", "-ec", enter]).arg(root).arg(&script);
    let status = chroot.status().context("unshare")?;
    fs::remove_dir_all(&stage)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The wheel of `cargo xtask dist` for this machine.
fn built() -> Result<PathBuf> {
    let folder = workspace::target().join("dist/packages");
    let suffix = format!("{}.whl", std::env::consts::ARCH);
    let files = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
    let wheel =
        files.map(|entry| entry.path()).find(|path| path.display().to_string().ends_with(&suffix));
    match wheel {
        Some(wheel) => Ok(wheel),
        None => bail!("no wheel in {}: 'cargo xtask dist --wheel' makes it", folder.display()),
    }
}

/// Writes the inputs of all recorded cases without files of other kinds; returns how many.
fn write_cases(folder: &Path) -> Result<usize> {
    let mut list: Vec<Value> = Vec::new();
    for case in case::all()?.iter().filter(|case| case.recipe.uidx.is_empty()) {
        let inputs = case.inputs()?;
        let own = folder.join(&case.name);
        fs::create_dir_all(&own)?;
        let mut names = Vec::new();
        for (name, bytes) in inputs {
            fs::write(own.join(&name), bytes)?;
            names.push(format!("{}/{name}", case.name));
        }
        let options: Vec<String> = case.options().into_iter().skip(1).collect();
        let arch = &case.recipe.arch;
        list.push(json!({ "arch": arch, "options": options, "inputs": names }));
    }
    fs::write(folder.join("cases.json"), serde_json::to_string(&list)?)?;
    Ok(list.len())
}
