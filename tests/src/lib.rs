//! Helpers of the tests: links through the library and through the command.
//!
//! In: a command line and inputs. Out: the result of the link. Guaranteed: both ways have the same
//! names and options.
#![forbid(unsafe_code)]

pub mod crafted;
pub mod elf;
pub mod fuzz;
pub mod lto_folder;
pub mod public_api;
pub mod transcript;
pub mod world;

use anyhow::{Context, Result, bail};
use culd_driver::Request;
use culd_link::{Dialect, IndexFile, Input, LinkOptions, LinkOutcome, Session};
use culd_testkit::fixtures::case::Case;
use culd_testkit::reference::oracle::process::{self, Run, Status};
use libtest_mimic::{Arguments, Trial};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Much longer than any test link takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

const WINE: &str = "wine";

/// How lines begin that wine writes to a program's standard error.
pub const OF_WINE: [&str; 3] = ["wine: ", "wine client error:", "wineserver: "];

/// The name by which the command is started.
pub const PROGRAM: &str = "culd";

/// A finished command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCommand {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What culd, the file `program`, prints on standard output for `words` in the folder `dir`.
///
/// # Panics
/// When it does not succeed.
pub fn printed(program: &Path, words: &[&str], dir: &Path) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let run = command(program, PROGRAM, &words, dir).expect("it runs");
    assert_eq!(run.status, 0, "{words:?}: {}", run.stderr);
    run.stdout
}

/// Runs the command `program`, whose lines start with `name`, in the folder `dir`.
///
/// # Errors
/// As [`finish`].
pub fn command(
    program: &Path,
    name: &str,
    arguments: &[String],
    dir: &Path,
) -> Result<FinishedCommand> {
    let mut command = started_as(program, name);
    command.args(arguments).current_dir(dir);
    // Every link of a test is verified.
    if name == PROGRAM && arguments.iter().any(|word| word == "-o") {
        command.arg("--verify");
    }
    finish(&mut command)
}

/// The program of Windows that the variable `UNDER_TEST` names, to be tested in the place of this
/// system's.
pub fn windows_program() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("UNDER_TEST")?);
    is_of_windows(&path).then_some(path)
}

fn is_of_windows(program: &Path) -> bool {
    program.extension().is_some_and(|extension| extension == "exe")
}

/// A command that starts `program` by the name `name`: a program of Windows by wine and by its own
/// name.
pub fn started_as(program: &Path, name: &str) -> Command {
    if is_of_windows(program) {
        let mut command = Command::new(WINE);
        // What wine itself has to say is not the linker's.
        command.env("WINEDEBUG", "-all").arg(program);
        return command;
    }
    let mut command = Command::new(program);
    command.arg0(name);
    command
}

/// What wine says if it cannot run a program: its status is 1 then, as that of a link with errors,
/// and a test that expects such a link must not take one for the other. It happens when wine's
/// server ends while the program is starting; `cargo xtask hosts` keeps a server.
fn failure_of_wine(status: i32, stderr: &str) -> Option<&str> {
    let of_wine = |line: &str| OF_WINE.iter().any(|start| line.starts_with(start));
    let last = stderr.lines().next_back()?;
    (status != 0 && stderr.lines().all(of_wine)).then_some(last)
}

/// Runs a linker to its end.
///
/// # Errors
/// When it cannot be started, ends by a signal or does not end, or wine fails.
pub fn finish(command: &mut Command) -> Result<FinishedCommand> {
    command.env_remove("LD_LIBRARY_PATH");
    let run: Run = process::run(command, LIMIT).context("cannot start the linker")?;
    let stderr = run.stderr_text();
    let Status::Exit(status) = run.status else { bail!("{}: {stderr}", run.status) };
    if command.get_program() == WINE
        && let Some(line) = failure_of_wine(status, &stderr)
    {
        bail!("wine has failed, status {status}: {line}");
    }
    Ok(FinishedCommand {
        status,
        stdout: String::from_utf8_lossy(&run.stdout).into_owned(),
        stderr,
    })
}

/// The library options of a command line without output. Its inputs matter only for the tool note
/// of a link with `-g`, and may be left out.
///
/// # Errors
/// When it is not the command line of a link.
pub fn link_options(arguments: &[String]) -> Result<LinkOptions> {
    let mut line = arguments.to_vec();
    line.extend(["-o", "out.cubin"].map(str::to_owned));
    if !arguments.iter().any(|argument| argument.ends_with(".cubin")) {
        line.push("some.cubin".to_owned());
    }
    let Request::Link(options) = culd_driver::parse(&line).request? else { bail!("no link") };
    let target = options.target.context("no architecture")?;
    let dialect = culd_driver::named_dialect(&options).unwrap_or(Dialect::usual());
    Ok(culd_driver::link_options(&options, target.arch(), dialect))
}

/// The library options of the recorded `case` with `arguments`, with its index file.
///
/// # Errors
/// As [`link_options`], and when the index file is missing or malformed.
pub fn case_options(case: &Case, arguments: &[String]) -> Result<LinkOptions> {
    let mut options = link_options(arguments)?;
    if let Some(at) = arguments.iter().position(|word| word == "-uidx") {
        let name = arguments.get(at + 1).context("-uidx without a name")?;
        let file = case.index_files()?.into_iter().find(|(file, _)| file == name);
        let (_, bytes) = file.with_context(|| format!("no {name}"))?;
        options.index = Some(IndexFile::parse(bytes).map_err(anyhow::Error::msg)?);
    }
    Ok(options)
}

/// Links in memory.
///
/// # Errors
/// When the image is not sound.
pub fn link(
    options: &LinkOptions,
    inputs: &[(String, Vec<u8>)],
    threads: usize,
) -> Result<LinkOutcome> {
    let session = Session::with_threads(threads);
    let inputs: Vec<Input<'_>> =
        inputs.iter().map(|(name, bytes)| Input { name, bytes, system: false }).collect();
    let outcome = culd_link::link(&session, &inputs, options);
    if let Some(image) = &outcome.image {
        culd_driver::verify(image).map_err(anyhow::Error::msg).context("--verify")?;
    }
    Ok(outcome)
}

/// The lines of an outcome, as the command prints them after its name, without notes.
pub fn lines(outcome: &LinkOutcome) -> Vec<String> {
    let line = |diagnostic: &culd_link::LinkDiagnostic| {
        culd_driver::line(diagnostic.clone()).show("").trim_start().to_owned()
    };
    outcome.diagnostics.iter().map(line).collect()
}

/// Runs the tests that `trials` finds, as the test program `name`.
pub fn run_trials(name: &str, trials: impl FnOnce() -> Result<Vec<Trial>>) -> ExitCode {
    let arguments = Arguments::from_args();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Root of the source tree.
pub fn root() -> PathBuf {
    culd_testkit::fixtures::case::source_root()
}
