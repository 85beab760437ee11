//! Suite `e2e`: the programs of `testdata/e2e`, built by nvcc, by CMake, by Meson and by
//! Clang once with nvlink and once with culd.
//!
//! In: the toolkit, and a shadow of it that `culd install-shadow` makes. Out: a line for each
//! comparison. Guaranteed: the commands of both builds differ only in the path of the toolkit. The
//! exit code is 1 if the files differ outside the linkers' own notes, if the output of the programs
//! differs, or if culd was not the linker.

mod callers;
mod clang;
mod cmake;
mod linked;
mod meson;
mod nvcc;
mod packer;
mod shadow;

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::Checks;
use crate::workspace::lock;
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::fixtures::case::{plain_lines, stack_warnings_once};
use culd_testkit::reference::compare::embedded;
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::reference::oracle::process::{self, Run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "e2e",
    about: "programs built by nvcc, CMake, Meson and Clang with both linkers",
    takes: &[Common::Release],
    help: "\
Operands: 'cmake', 'callers', 'clang', 'linked', 'meson', 'packer', 'shadow' and the variants of 'nvcc/...'; without any, all are
built. By 11.8 and 12.4, with their toolkits in the folder of CULD_TOOLKITS: 'cmake' and 'nvcc/...'.
",
    run,
};

/// Time limit of one command; a slow machine must not look like a failure.
const LIMIT: Duration = Duration::from_secs(600);

/// A CUDA toolkit with the linker to build with.
#[derive(Clone, Debug)]
struct BuildToolkit {
    dir: PathBuf,
    /// The name of the linker in the note of its outputs.
    linker: &'static str,
}

/// The data of the builds.
struct BuildBench {
    reference: BuildToolkit,
    candidate: BuildToolkit,
    /// The linker under test, unless it is the oracle, and the oracle's toolkit.
    culd: Option<(PathBuf, PathBuf)>,
    /// The example of that name, in the folder of the linker under test; `None` if that is the
    /// oracle.
    pack: Option<PathBuf>,
    /// The linkers write their names into their outputs, as those of CUDA 13 do.
    noted: bool,
    /// Everything is built below this folder.
    work: PathBuf,
    report: Mutex<Checks>,
}

impl BuildToolkit {
    /// A command that runs a tool of the toolkit in `dir`.
    fn command(&self, tool: &str, dir: &Path) -> Command {
        let mut command = Command::new(self.dir.join("bin").join(tool));
        command.current_dir(dir).env_remove("LD_LIBRARY_PATH");
        // culd only replaces nvlink: whole files are compared, and culd's own host object has other
        // code than the host compiler's. Suite device-link compares that.
        command.env("CULD_NVCC", "off");
        // 11.8 refuses later host compilers.
        command.env("NVCC_APPEND_FLAGS", "-allow-unsupported-compiler");
        command
    }
}

impl BuildBench {
    /// Counts and reports the result of one comparison.
    fn check(&self, name: &str, result: Result<()>) {
        let problem = result.err().map(|error| format!("{error:#}"));
        lock(&self.report).add(name, problem.as_deref());
    }

    /// Compares the same file of both builds: it must be equal except for the notes of its linkers,
    /// have `cubins` cubins, and each from its linker where that can be seen.
    fn same_files(&self, expected: &Path, actual: &Path, cubins: usize) -> Result<()> {
        let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
        let (theirs, ours) = (read(expected)?, read(actual)?);
        for (toolkit, file) in [(&self.reference, &theirs), (&self.candidate, &ours)] {
            let linkers = embedded::linkers(file);
            let noted = if self.noted { cubins } else { 0 };
            ensure!(linkers == vec![toolkit.linker; noted], "linked by {linkers:?}");
        }
        match embedded::files(&theirs, &ours) {
            Some(what) => bail!("{} and {}: {what}", expected.display(), actual.display()),
            None => Ok(()),
        }
    }
}

/// Checks that both runs have the same status and output, except for culd's notes.
fn same_words(expected: &Run, actual: &Run) -> Result<()> {
    let (theirs, ours) = (expected.stderr_text(), actual.stderr_text());
    let (status, other) = (expected.status, actual.status);
    ensure!(status == other, "{other} instead of {status}:\n{ours}");
    ensure!(expected.stdout == actual.stdout, "standard output differs");
    let lines = |text: &str| stack_warnings_once(plain_lines(text, "nvlink"));
    let (theirs, ours) = (lines(&theirs), lines(&ours));
    let at = (0..theirs.len().max(ours.len())).find(|&at| theirs.get(at) != ours.get(at));
    let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_default();
    match at {
        Some(at) => bail!("it says '{}' instead of '{}'", line(&ours, at), line(&theirs, at)),
        None => Ok(()),
    }
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) -> Result<Run> {
    process::succeed(command, LIMIT)
}

fn finish(command: &mut Command) -> Result<Run> {
    process::run(command, LIMIT).with_context(|| format!("cannot start {command:?}"))
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let wanted = setup.args.operands()?;
    let (tools, work) = (setup.tools_with_nvcc()?, setup.keep);
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let work = work.canonicalize()?;
    let nvlink = tools.oracle.tool("nvlink");
    let under_test = tools.candidate != nvlink;
    let culd = under_test.then(|| (tools.candidate.clone(), tools.oracle.toolkit().to_owned()));
    let pack = under_test.then(|| tools.candidate.with_file_name("examples").join("pack"));
    let (reference, candidate) = if !under_test {
        let toolkit = BuildToolkit { dir: tools.oracle.toolkit().to_owned(), linker: "nvlink" };
        (toolkit.clone(), toolkit)
    } else {
        let candidate = shadow(&tools, &work, "culd")?;
        let reference = shadow(&tools, &work, "nvlink")?;
        // The programs of the toolkit that culd replaces.
        for tool in ["nvlink", "nvcc", "fatbinary"] {
            let program = reference.dir.join("bin").join(tool);
            fs::remove_file(&program)?;
            std::os::unix::fs::symlink(tools.oracle.tool(tool), program)?;
        }
        (reference, candidate)
    };
    let noted = tools.oracle.release().is_of_13();
    let report = Mutex::default();
    let bench = BuildBench { reference, candidate, culd, pack, noted, work, report };
    execute(&bench, &wanted)?;
    let checks = *lock(&bench.report);
    Ok(checks.end())
}

/// A shadow toolkit with culd in it. The paths of all have one length: the linkers' notes have the
/// options, and with them the toolkit's library folder.
fn shadow(tools: &Tools, work: &Path, linker: &'static str) -> Result<BuildToolkit> {
    let dir = work.join(format!("cuda-{linker:->6}"));
    let mut command = Command::new(&tools.candidate);
    succeed(command.arg("install-shadow").arg(&dir).arg("--cuda").arg(tools.oracle.toolkit()))?;
    Ok(BuildToolkit { dir, linker })
}

/// Runs the wanted builds, CMake in parallel with nvcc.
fn execute(bench: &BuildBench, wanted: &[String]) -> Result<()> {
    let is_wanted =
        |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.starts_with(word));
    let variants: Vec<_> =
        nvcc::VARIANTS.iter().filter(|variant| is_wanted(variant.name)).collect();
    let (with_cmake, with_callers) = (is_wanted(cmake::NAME), is_wanted(callers::NAME));
    let pack = bench.pack.as_deref().filter(|_| is_wanted(packer::NAME));
    let (with_linked, with_clang) = (is_wanted(linked::NAME), is_wanted(clang::NAME));
    let with_meson = is_wanted(meson::NAME);
    let culd = bench.culd.as_ref().filter(|_| is_wanted(shadow::NAME));
    let others =
        with_callers || with_linked || with_clang || with_meson || culd.is_some() || pack.is_some();
    let any = with_cmake || others || !variants.is_empty();
    ensure!(any, "nothing is called {wanted:?}");
    thread::scope(|scope| {
        if with_cmake {
            scope.spawn(|| cmake::run(bench));
        }
        scope.spawn(|| {
            variants.iter().for_each(|variant| nvcc::run(bench, variant));
            if with_callers {
                callers::run(bench);
            }
            if with_linked {
                linked::run(bench);
            }
            if with_clang {
                clang::run(bench);
            }
            if with_meson {
                meson::run(bench);
            }
            if let Some((culd, toolkit)) = culd {
                shadow::run(bench, culd, toolkit);
            }
            if let Some(pack) = pack {
                packer::run(bench, pack);
            }
        });
    });
    Ok(())
}
