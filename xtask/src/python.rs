//! `xtask python`: tests the Python package as pip installs it.
//!
//! In: a wheel, and the recorded cases. Out: what pytest and mypy say. Guaranteed: the environment
//! is empty before the wheel is installed, and has no culd in its PATH but the wheel's.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::fixtures::case;
use culd_testkit::reference::oracle::wheels::Environment;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask python [options]
  --wheel FILE   the wheel (default the one in <target>/dist/packages: 'cargo xtask dist --wheel')
  --links N      links of the test of memory (default 5000)
  --packages     the tests with cuda-python, cuda-core and NVIDIA's compilers instead: 600 MB of PyPI";

/// The tools of the tests.
const TOOLS: &[&str] = &["mypy==2.1.0", "pytest==9.2.0"];
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
    args.finish()?;
    let wheel = named.map_or_else(built, Ok)?;
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
    let run = |words: &[&str]| -> Result<bool> {
        let mut python = Command::new(environment.program("python"));
        python.args(["-B", "-m"]).args(words).current_dir(&source);
        python.env("CULD_CASES", &cases).env("CULD_LINKS", links.to_string());
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
        let wheels = [&[wheel.as_str(), "pytest==9.2.0"], packages].concat();
        let environment = Environment::install(&folder.join(release), &wheels)?;
        let mut python = Command::new(environment.program("python"));
        python.args(["-B", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "packages"]);
        python.current_dir(workspace::root().join("crates/python")).env_clear();
        python.env("PATH", "/usr/bin:/bin").env("CULD_RELEASE", release);
        passed &= python.status()?.success();
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
