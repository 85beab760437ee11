//! Command lines and their results (testdata/cli): exit status, both outputs, the files that they
//! leave.
//!
//! In: `testdata/cli/*.toml` ([`Transcript`]). Out: one test per run. Guaranteed: each run has its
//! own folder with exactly the files it names. The command is the one built here.
//! `UNDER_TEST=nvlink` runs the real nvlink instead, for runs with `nvlink = true`, and so confirms
//! their expectations. `UNDER_TEST=PATH/culd.exe` runs the command of Windows, by wine; there the
//! words of the system's errors do not count, and `testdata/hosts/windows.toml` has the runs that
//! must differ.

use anyhow::{Context, Result, ensure};
use culd_testkit::fixtures::case::{self, Case};
use culd_testkit::fixtures::recipe::Recipes;
use culd_testkit::reference::compare;
use culd_testkit::reference::oracle::{Oracle, Release};
use culd_tests::transcript::{ExpectedRun, Transcript, TranscriptRun, matches, words};
use culd_tests::{
    FinishedCommand, OF_WINE, PROGRAM, finish, root, run_trials, started_as, windows_program,
};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use tempfile::TempDir;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");

/// Recipes for all transcripts.
const RECIPES: &str = "recipes.toml";

/// Runs that differ on Windows, and why.
const WINDOWS: &str = "testdata/hosts/windows.toml";

/// The command under test.
#[derive(Clone, Debug)]
struct CommandUnderTest {
    path: PathBuf,
    name: &'static str,
    /// Folder of the CUDA tools, if they are installed.
    tools: Option<PathBuf>,
    /// It is a program of Windows.
    is_of_windows: bool,
}

/// A finished run.
struct FinishedRun {
    dir: TempDir,
    finished: FinishedCommand,
    before: Snapshot,
    after: Snapshot,
}

/// Names of everything in a folder, and the contents of files.
type Snapshot = BTreeMap<String, Option<Vec<u8>>>;

fn main() -> ExitCode {
    run_trials("cli", trials)
}

fn program() -> Result<CommandUnderTest> {
    let target = Path::new(CULD).ancestors().nth(2).context("no target folder")?;
    let existing = std::env::var_os("CULD_ORACLE");
    let folder = target.join("oracle");
    match std::env::var("UNDER_TEST").as_deref() {
        Err(_) | Ok("culd") => {
            let oracle = Oracle::installed(Release::usual(), &folder, existing.as_deref())?;
            Ok(CommandUnderTest {
                path: CULD.into(),
                name: "culd",
                tools: oracle.map(|o| o.tool("")),
                is_of_windows: false,
            })
        }
        Ok("nvlink" | "oracle") => {
            let oracle = Oracle::locate(Release::usual(), &folder, existing.as_deref())?;
            let tools = Some(oracle.tool(""));
            Ok(CommandUnderTest {
                path: oracle.tool("nvlink"),
                name: "nvlink",
                tools,
                is_of_windows: false,
            })
        }
        Ok(other) => {
            let path = windows_program();
            let path = path.with_context(|| format!("UNDER_TEST={other}: culd or nvlink"))?;
            Ok(CommandUnderTest { path, name: PROGRAM, tools: None, is_of_windows: true })
        }
    }
}

fn trials() -> Result<Vec<Trial>> {
    let program = program()?;
    ensure!(case::NOTE == culd_driver::NOTE, "notes begin otherwise than transcripts expect");
    let differences = fs::read_to_string(root().join("docs/DIFFERENCES.md"))?;
    let recipes: Recipes =
        toml::from_str(&fs::read_to_string(root().join("testdata/cli").join(RECIPES))?)?;
    let mut foreign: BTreeMap<String, String> = BTreeMap::new();
    if program.is_of_windows {
        foreign = toml::from_str(&fs::read_to_string(root().join(WINDOWS))?)?;
    }
    let mut trials = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("testdata/cli"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    let toml = |path: &Path| path.extension().is_some_and(|extension| extension == "toml");
    files.retain(|path| toml(path) && !path.ends_with(RECIPES));
    files.sort();
    for path in files {
        let text = fs::read_to_string(&path)?;
        let transcript = Arc::new(Transcript::read(&path, &text, &recipes, &differences)?);
        let topic = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for at in 0..transcript.run.len() {
            let (program, transcript) = (program.clone(), transcript.clone());
            let run = &transcript.run[at];
            let no_tools = run.ptxas && program.tools.is_none();
            // A program of Windows has one name, and files without permissions.
            let of_unix = run.called.is_some() || run.umask.is_some();
            let skipped = no_tools
                || (program.name == "nvlink" && !run.nvlink)
                || (program.is_of_windows && of_unix);
            let name = format!("{topic}/{}", run.name);
            let differs: Option<String> = foreign.remove(&name);
            let check = move || {
                let done = check(&program, &transcript, &transcript.run[at]);
                match differs {
                    None => done.map_err(|error| Failed::from(format!("{error:#}"))),
                    Some(_) if done.is_err() => Ok(()),
                    Some(why) => Err(format!("the same as on Unix, in spite of: {why}").into()),
                }
            };
            trials.push(Trial::test(name, check).with_ignored_flag(skipped));
        }
    }
    ensure!(foreign.is_empty(), "{WINDOWS} has unknown runs: {foreign:?}");
    Ok(trials)
}

fn check(program: &CommandUnderTest, transcript: &Transcript, run: &TranscriptRun) -> Result<()> {
    let done = perform(program, transcript, run)?;
    let expected = run.expected(program.name == "culd");
    let came = came(program, run, &done, &expected)?;
    let wanted = shown(program, run, &done, expected)?;
    ensure!(
        same_lines(&wanted.stderr, &came.stderr)
            && (run.more_stdout || same_lines(&wanted.stdout, &came.stdout))
            && (wanted.status, &wanted.creates, &wanted.writes)
                == (came.status, &came.creates, &came.writes),
        "expected\n{}\nbut\n{}",
        toml::to_string_pretty(&wanted)?,
        toml::to_string_pretty(&came)?
    );
    for line in wanted.stdout.iter().filter(|_| run.more_stdout) {
        let printed = came.stdout.iter().any(|came| matches(line, came));
        ensure!(printed, "no line {line:?} in {:#?}", came.stdout);
    }
    let may_change =
        |name: &String| run.output.as_ref() == Some(name) || wanted.writes.contains_key(name);
    for (name, bytes) in &done.before {
        ensure!(done.after.get(name) == Some(bytes) || may_change(name), "{name} has changed");
    }
    for (name, mode) in &run.modes {
        let mode = u32::from_str_radix(mode, 8).context("a mode")?;
        let is = fs::metadata(done.dir.path().join(name))?.permissions().mode() & 0o777;
        ensure!(is == mode, "mode {is:o} of {name}");
    }
    let Some(output) = &run.output else { return Ok(()) };
    if wanted.status != 0 || (program.name == "nvlink" && run.like_is_for_culd()) {
        return Ok(());
    }
    let differs = compare::cubins(&reference(program, transcript, run)?, &bytes(&done, output)?);
    ensure!(differs.is_none(), "{output}: {}", differs.unwrap_or_default());
    Ok(())
}

/// Makes the files of a run and runs it.
fn perform(
    program: &CommandUnderTest,
    transcript: &Transcript,
    run: &TranscriptRun,
) -> Result<FinishedRun> {
    let dir = tempfile::Builder::new().prefix("run").tempdir()?;
    if let Some(case) = opened(run.case.as_deref())? {
        for (name, bytes) in case.inputs()? {
            fs::write(dir.path().join(name), bytes)?;
        }
    }
    for (name, text) in &run.files {
        fs::write(dir.path().join(name), text)?;
    }
    let recipes = run.make.or(&transcript.make);
    for name in run.make.names().chain(run.names(&transcript.make)) {
        recipes.make(name, dir.path())?;
    }
    if let Some(tools) = program.tools.as_ref().filter(|_| run.nvvm) {
        let folder = dir.path().join("nvvm/lib64");
        fs::create_dir_all(&folder)?;
        symlink(tools.join("../lib/libnvvm.so.4"), folder.join("libnvvm.so"))?;
    }
    for line in &run.before {
        let words: Vec<String> = words(line).collect();
        let first = finish(&mut command(program, run, &words, dir.path()))?;
        ensure!(first.status == 0, "{line}: status {}\n{}", first.status, first.stderr);
    }
    let before = snapshot(dir.path())?;
    let finished = finish(&mut command(program, run, &run.arguments(), dir.path()))?;
    let after = snapshot(dir.path())?;
    Ok(FinishedRun { dir, finished, before, after })
}

fn command(
    program: &CommandUnderTest,
    run: &TranscriptRun,
    arguments: &[String],
    dir: &Path,
) -> Command {
    let mut command = match &run.umask {
        None => started_as(&program.path, run.called.as_deref().unwrap_or(program.name)),
        Some(umask) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(&program.path);
            shell
        }
    };
    command.args(arguments).envs(&run.env).current_dir(dir.join(&run.dir));
    if let Some(tools) = program.tools.as_ref().filter(|_| run.ptxas) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", tools.display()));
    }
    command
}

/// The result of a run, in the form of a transcript.
fn came(
    program: &CommandUnderTest,
    run: &TranscriptRun,
    done: &FinishedRun,
    expected: &ExpectedRun,
) -> Result<ExpectedRun> {
    let mut stderr: Vec<String> = done.finished.stderr.lines().map(str::to_owned).collect();
    if program.name == "nvlink" {
        stderr = case::stack_warnings_once(stderr);
    }
    if !has_notes(program, run) {
        stderr.retain(|line| !line.starts_with(case::NOTE));
    }
    if program.is_of_windows {
        // Its services say there what happens to them. If culd fails, its status shows it.
        stderr.retain(|line| !OF_WINE.iter().any(|start| line.starts_with(start)));
        stderr = without_words_of_the_system(stderr);
    }
    let created = done.after.keys().filter(|name| !done.before.contains_key(*name));
    let mut writes = BTreeMap::new();
    for name in expected.writes.keys() {
        writes.insert(name.clone(), String::from_utf8_lossy(&bytes(done, name)?).into_owned());
    }
    Ok(ExpectedRun {
        status: done.finished.status,
        stderr,
        stdout: done.finished.stdout.lines().map(str::to_owned).collect(),
        creates: created.filter(|name| run.output.as_ref() != Some(name)).cloned().collect(),
        writes,
    })
}

/// The expected result, with names and places filled in.
fn shown(
    program: &CommandUnderTest,
    run: &TranscriptRun,
    done: &FinishedRun,
    mut expected: ExpectedRun,
) -> Result<ExpectedRun> {
    let called = run.called.as_deref().unwrap_or(program.name);
    let called = called.rsplit('/').next().unwrap_or_default();
    let place = done.dir.path().join(&run.dir).canonicalize()?;
    // wine's drive Z is the whole system.
    let drive = if program.is_of_windows { "Z:" } else { "" };
    let place = format!("{drive}{}", place.display());
    let place = place.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let fill = |text: &String| text.replace("PROGRAM", called).replace("PLACE", &place);
    expected.stderr = expected.stderr.iter().map(fill).collect();
    expected.stdout = expected.stdout.iter().map(fill).collect();
    expected.writes =
        expected.writes.iter().map(|(name, text)| (name.clone(), fill(text))).collect();
    expected.creates.retain(|name| run.output.as_ref() != Some(name));
    if !has_notes(program, run) {
        expected.stderr.retain(|line| !line.starts_with(case::NOTE));
    }
    if program.is_of_windows {
        expected.stderr = without_words_of_the_system(expected.stderr);
    }
    Ok(expected)
}

/// The lines without what a system says about an error, and its number.
fn without_words_of_the_system(lines: Vec<String>) -> Vec<String> {
    let of_system = |line: &str| line.starts_with(case::NOTE) && line.contains(" (os error ");
    let shown =
        |line: String| if of_system(&line) { format!("{}(os error)", case::NOTE) } else { line };
    lines.into_iter().map(shown).collect()
}

fn has_notes(program: &CommandUnderTest, run: &TranscriptRun) -> bool {
    run.notes && program.name == "culd"
}

fn same_lines(expected: &[String], came: &[String]) -> bool {
    expected.len() == came.len() && expected.iter().zip(came).all(|(e, c)| matches(e, c))
}

/// The bytes that the output of a run must have, except the tool note.
fn reference(
    program: &CommandUnderTest,
    transcript: &Transcript,
    run: &TranscriptRun,
) -> Result<Vec<u8>> {
    if let Some(name) = &run.same_output_as {
        let other = transcript.run.iter().find(|other| other.name == *name);
        let other = other.with_context(|| format!("no run {name}"))?;
        let output = other.output.as_ref().with_context(|| format!("{name} has no output"))?;
        return bytes(&perform(program, transcript, other)?, output);
    }
    let case = opened(run.like(program.name == "culd"))?;
    let case = case.context("an output is compared with a case or another run")?;
    case.expected_output()?.context("the case has no output")
}

fn opened(name: Option<&str>) -> Result<Option<Case>> {
    name.map(case::named).transpose()
}

fn bytes(done: &FinishedRun, name: &str) -> Result<Vec<u8>> {
    fs::read(done.dir.path().join(name)).with_context(|| format!("no file {name}"))
}

fn snapshot(dir: &Path) -> Result<Snapshot> {
    let mut found = Snapshot::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let name = path.to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            found.insert(name, kind.is_file().then(|| fs::read(dir.join(&path))).transpose()?);
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(found)
}
