//! Links every recorded case (testdata/cases) and compares the output with nvlink's.
//!
//! In: cases, `testdata/known-diffs.toml`. Out: one test per case, one per tolerated difference.
//! Guaranteed: all bytes count except the payload of the linker's own tool record; a tolerated
//! difference that is gone fails. `UNDER_TEST=PATH/culd.exe` runs the command of Windows, by wine.

use anyhow::{Context, Result, bail, ensure};
use culd_inspect::diff::{self, DiffReport};
use culd_inspect::view::View;
use culd_testkit::fixtures::case::{self, Case};
use culd_testkit::reference::compare;
use culd_tests::{PROGRAM, case_options, command, link, root, run_trials, windows_program};
use libtest_mimic::{Failed, Trial};
use serde::Deserialize;
use std::fs;
use std::process::ExitCode;

const CULD: &str = env!("CARGO_BIN_EXE_culd-under-test");
/// Lines of each group in a report.
const REPORTED: usize = 12;

/// `testdata/known-diffs.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownDiffs {
    #[serde(default)]
    diff: Vec<KnownDiff>,
}

/// One tolerated difference.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownDiff {
    /// `<topic>/<name>` of the case.
    case: String,
    /// The difference: the start of a line of culd-diff, such as `symbol.value foo`.
    key: String,
    /// Why it is tolerated.
    reason: String,
}

fn main() -> ExitCode {
    run_trials("cases", trials)
}

fn trials() -> Result<Vec<Trial>> {
    let path = root().join("testdata/known-diffs.toml");
    let known: KnownDiffs = toml::from_str(&fs::read_to_string(&path)?)?;
    let cases = case::all()?;
    let mut trials = Vec::new();
    for diff in &known.diff {
        ensure!(!diff.reason.trim().is_empty(), "known difference of {}: no reason", diff.case);
        let case = cases.iter().find(|case| case.name == diff.case).cloned();
        let case = case.with_context(|| format!("known difference: no case {}", diff.case))?;
        let diff = diff.clone();
        let name = format!("known-diffs/{}/{}", diff.case, diff.key);
        trials.push(Trial::test(name, move || failed(still_differs(&case, &diff))));
    }
    for case in cases {
        let known = known.diff.iter().filter(|diff| diff.case == case.name).cloned();
        let known: Vec<KnownDiff> = known.collect();
        trials.push(Trial::test(case.name.clone(), move || failed(check(&case, &known))));
    }
    Ok(trials)
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

/// Checks the command's status, messages and output, and the library's output with one thread and
/// two.
fn check(case: &Case, known: &[KnownDiff]) -> Result<()> {
    let inputs = case.inputs()?;
    let expect = case.expect()?;
    let expected = case.expected_output()?;
    let dir = tempfile::tempdir()?;
    for (name, bytes) in inputs.iter().chain(&case.index_files()?) {
        fs::write(dir.path().join(name), bytes)?;
    }
    let mut arguments = case.arguments();
    arguments.extend(["-o", "out.cubin"].map(str::to_owned));
    let program = windows_program().unwrap_or_else(|| CULD.into());
    let run = command(&program, PROGRAM, &arguments, dir.path())?;
    let lines = case::plain_lines(&run.stderr, PROGRAM);
    let expected_lines = case::stack_warnings_once(expect.stderr.clone());
    ensure!(lines == expected_lines, "messages {lines:#?}\ninstead of {expected_lines:#?}");
    ensure!(run.status == expect.status, "exit status {} not {}", run.status, expect.status);
    ensure!(run.stdout.is_empty(), "standard output: {}", run.stdout);
    let out = dir.path().join("out.cubin");
    let actual = if out.exists() { Some(fs::read(out)?) } else { None };
    match (&expected, &actual) {
        (Some(expected), Some(actual)) => {
            compared(case, expected, actual, known)?;
            readable(actual).context("goblin")?;
        }
        (None, None) => {}
        (Some(_), None) => bail!("no output"),
        (None, Some(_)) => bail!("an output although the link failed"),
    }
    let options = case_options(case, &case.arguments())?;
    let alone = link(&options, &inputs, 1)?;
    let together = link(&options, &inputs, 2)?;
    ensure!(alone.image == together.image, "two threads give other bytes than one");
    ensure!(alone.diagnostics == together.diagnostics, "two threads give other messages than one");
    let library_lines = case::plain_lines(&culd_tests::lines(&alone).join("\n"), PROGRAM);
    ensure!(library_lines == lines, "the library says {library_lines:#?}, the command {lines:#?}");
    match (&actual, &alone.image) {
        (Some(command), Some(library)) => {
            let what = compare::cubins(command, library);
            ensure!(what.is_none(), "library and command: {}", what.unwrap_or_default());
        }
        (None, None) => {}
        _ => bail!("only one of library and command has an output"),
    }
    Ok(())
}

/// Equal but for known differences.
fn compared(case: &Case, expected: &[u8], actual: &[u8], known: &[KnownDiff]) -> Result<()> {
    let objects: Vec<Vec<u8>> = case.inputs()?.into_iter().map(|(_, bytes)| bytes).collect();
    let Err(first) = compare::outputs(&case.arguments(), || objects, expected, actual) else {
        return Ok(());
    };
    let difference = difference(expected, actual)?;
    let tolerated = |line: &String| known.iter().any(|diff| line.starts_with(&diff.key));
    let mut lines = difference.groups.iter().flat_map(|group| &group.lines).peekable();
    if lines.peek().is_some() && lines.all(tolerated) {
        return Ok(());
    }
    let mut text = String::new();
    difference.write(&mut text, REPORTED)?;
    bail!("{first}\nculd-diff (left: nvlink's, right: ours):\n{text}")
}

fn difference(expected: &[u8], actual: &[u8]) -> Result<DiffReport> {
    let expected = View::parse(expected).context("the expected output")?;
    let actual = View::parse(actual).context("our output")?;
    Ok(diff::compare(&expected, &actual, diff::DiffOptions { tool: false }))
}

/// A tolerated difference must exist.
fn still_differs(case: &Case, known: &KnownDiff) -> Result<()> {
    let options = case_options(case, &case.arguments())?;
    let image = link(&options, &case.inputs()?, 1)?.image.context("no output")?;
    let expected = case.expected_output()?.context("no output is expected")?;
    let difference = difference(&expected, &image)?;
    let mut lines = difference.groups.iter().flat_map(|group| &group.lines);
    let found = lines.any(|line| line.starts_with(&known.key));
    ensure!(found, "nothing differs any more: remove the entry from testdata/known-diffs.toml");
    Ok(())
}

/// Checks that an independent reader finds every section, symbol and relocation in range.
fn readable(bytes: &[u8]) -> Result<()> {
    let elf = goblin::elf::Elf::parse(bytes)?;
    for (index, section) in elf.section_headers.iter().enumerate() {
        let name = elf.shdr_strtab.get_at(section.sh_name);
        ensure!(name.is_some(), "section {index}: no name");
        if let Some(range) = section.file_range() {
            ensure!(range.end <= bytes.len(), "section {index}: past the end");
        }
        ensure!((section.sh_link as usize) < elf.section_headers.len(), "section {index}: link");
    }
    for (index, symbol) in elf.syms.iter().enumerate() {
        ensure!(elf.strtab.get_at(symbol.st_name).is_some(), "symbol {index}: no name");
        let reserved = symbol.st_shndx >= 0xff00;
        let exists = symbol.st_shndx < elf.section_headers.len();
        ensure!(reserved || exists, "symbol {index}: section {}", symbol.st_shndx);
    }
    for (index, records) in &elf.shdr_relocs {
        let section = &elf.section_headers[*index];
        let target = elf.section_headers.get(section.sh_info as usize);
        let target = target.with_context(|| format!("section {index}: patches nothing"))?;
        for record in records.iter() {
            let at = record.r_offset;
            ensure!(record.r_sym < elf.syms.len(), "section {index}, {at:#x}: symbol");
            ensure!(at < target.sh_size, "section {index}: {at:#x} is past the end");
        }
    }
    for (index, segment) in elf.program_headers.iter().enumerate() {
        ensure!(segment.file_range().end <= bytes.len(), "segment {index}: past the end");
    }
    Ok(())
}
