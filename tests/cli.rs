//! Command lines and what comes of them (testdata/cli): exit status, both outputs, the files left behind.
//!
//! In: `testdata/cli/*.toml` ([`Transcript`]). Out: one test per run. Guaranteed: each run has a folder of its own with
//! exactly the files it names. The command is the one built here; `UNDER_TEST=nvlink` runs the real nvlink instead,
//! with the runs that say `nvlink = true`, so that what they expect is known to be true.

use anyhow::{Context, Result, ensure};
use culd_testkit::case;
use culd_testkit::compare;
use culd_testkit::oracle::Oracle;
use culd_tests::{command, root};
use libtest_mimic::{Arguments, Failed, Trial};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// A file of transcripts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transcript {
    run: Vec<Run>,
}

/// One run of the command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// Name of the test.
    name: String,
    /// Words after the program's name, separated by blanks.
    args: String,
    /// The case of testdata/cases whose inputs are in the folder.
    case: Option<String>,
    /// Further files in the folder, with their text.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Exit status.
    status: i32,
    /// Lines on standard error; `PROGRAM` stands for the name of the program. nvlink may repeat a warning about a stack.
    #[serde(default)]
    stderr: Vec<String>,
    /// The lines include culd's notes; otherwise these are not compared.
    #[serde(default)]
    notes: bool,
    /// Lines on standard output.
    #[serde(default)]
    stdout: Vec<String>,
    /// Only some lines of standard output are given.
    #[serde(default)]
    more_stdout: bool,
    /// Files that the run leaves and that were not there before.
    #[serde(default)]
    creates: Vec<String>,
    /// The file that must hold what the case expects.
    output: Option<String>,
    /// nvlink does the same.
    #[serde(default)]
    nvlink: bool,
}

/// The command under test.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    name: &'static str,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("cli: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn program() -> Result<Program> {
    match std::env::var("UNDER_TEST").as_deref() {
        Err(_) | Ok("culd") => Ok(Program { path: CULD.into(), name: "culd" }),
        Ok("nvlink" | "oracle") => {
            let target = Path::new(CULD).ancestors().nth(2).context("no target folder")?;
            let existing = std::env::var_os("CULD_ORACLE");
            let oracle = Oracle::locate(&target.join("oracle"), existing.as_deref())?;
            Ok(Program { path: oracle.tool("nvlink"), name: "nvlink" })
        }
        Ok(other) => anyhow::bail!("UNDER_TEST={other}: culd or nvlink"),
    }
}

fn trials() -> Result<Vec<Trial>> {
    let program = program()?;
    ensure!(case::NOTE == culd_driver::NOTE, "notes begin otherwise than transcripts expect");
    let mut trials = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("testdata/cli"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    for path in files {
        let text = fs::read_to_string(&path)?;
        let transcript: Transcript =
            toml::from_str(&text).with_context(|| path.display().to_string())?;
        let topic = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for run in transcript.run {
            let name = format!("{topic}/{}", run.name);
            let program = program.clone();
            let skipped = program.name == "nvlink" && !run.nvlink;
            let check = move || check(&program, &run).map_err(|e| Failed::from(format!("{e:#}")));
            trials.push(Trial::test(name, check).with_ignored_flag(skipped));
        }
    }
    Ok(trials)
}

fn check(program: &Program, run: &Run) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let case = run.case.as_deref().map(case::named).transpose()?;
    if let Some(case) = &case {
        for (name, bytes) in case.inputs()? {
            fs::write(dir.path().join(name), bytes)?;
        }
    }
    for (name, text) in &run.files {
        fs::write(dir.path().join(name), text)?;
    }
    let before = list(dir.path())?;
    let arguments: Vec<String> = run.args.split_whitespace().map(str::to_owned).collect();
    let done = command(&program.path, program.name, &arguments, dir.path())?;

    let mut stderr: Vec<String> = done.stderr.lines().map(str::to_owned).collect();
    let mut expected: Vec<String> =
        run.stderr.iter().map(|line| line.replace("PROGRAM", program.name)).collect();
    if program.name == "nvlink" {
        stderr = case::told_once(stderr);
    }
    if program.name == "nvlink" || !run.notes {
        for lines in [&mut stderr, &mut expected] {
            lines.retain(|line| !line.starts_with(case::NOTE));
        }
    }
    ensure!(stderr == expected, "standard error {stderr:#?}\ninstead of {expected:#?}");
    let stdout: Vec<&str> = done.stdout.lines().collect();
    if run.more_stdout {
        for line in &run.stdout {
            ensure!(stdout.contains(&line.as_str()), "no line {line:?} in {stdout:#?}");
        }
    } else {
        ensure!(stdout == run.stdout, "standard output {stdout:#?}");
    }
    ensure!(done.status == run.status, "exit status {}", done.status);

    let mut created = list(dir.path())?;
    created.retain(|name| !before.contains(name));
    ensure!(created == run.creates, "it left {created:?}");
    for (name, text) in &run.files {
        if run.output.as_ref() != Some(name) {
            ensure!(fs::read_to_string(dir.path().join(name))? == *text, "{name} has changed");
        }
    }
    if let Some(output) = &run.output {
        let case = case.context("an output is compared with a case")?;
        let expected = case.expected_output()?.context("the case has no output")?;
        let what = compare::cubins(&expected, &fs::read(dir.path().join(output))?);
        ensure!(what.is_none(), "{output}: {}", what.unwrap_or_default());
    }
    Ok(())
}

/// Names of the files in a folder, sorted.
fn list(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
