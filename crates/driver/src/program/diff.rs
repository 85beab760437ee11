//! `culd report diff`: the changes between two reports.
//!
//! In: two JSON files. Out: lines, and an exit status: 0, 3 where a threshold is exceeded, 1 where
//! a file is no report.

use std::ffi::OsString;
use std::path::Path;

use culd_link::Severity;
use culd_report::{Diff, Report, Threshold};

use super::{refused, value_of};
use crate::messages::{Line, RunOutcome};
use crate::os::files::{self, Kinds};

const USAGE: &str = "\
usage: culd report diff [--max FIGURE=N[%]]... BEFORE.json AFTER.json
Print what changed from one report (culd --report=FILE.json, culd size --report=FILE.json) to another.
  --max FIGURE=N[%]  exit status 3 where a figure got worse by more than N, or by more than N percent:
                     bytes, code, registers, stack, shared, occupancy, came, went; code counts in
                     all and of each kernel
";

/// The exit status where a threshold is exceeded.
const EXCEEDED: u8 = 3;

/// The most bytes of a report.
const MAX_REPORT: u64 = 4 << 30;

/// Runs the command; `words` stand behind its name.
pub(crate) fn report(words: &[OsString]) -> (String, RunOutcome) {
    match words.split_first() {
        Some((word, rest)) if word == "diff" => diff(rest),
        Some((word, _)) if word == "-h" || word == "--help" => {
            (USAGE.to_owned(), RunOutcome::success())
        }
        _ => refused("report: the only command is 'report diff BEFORE.json AFTER.json'"),
    }
}

fn diff(words: &[OsString]) -> (String, RunOutcome) {
    let (mut paths, mut thresholds) = (Vec::new(), Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "-h" || word == "--help" {
            return (USAGE.to_owned(), RunOutcome::success());
        }
        if let Some(value) = value_of("--max", word, &mut rest) {
            let text = value.map(culd_text::name).unwrap_or_default();
            match text.parse::<Threshold>() {
                Ok(threshold) => thresholds.push(threshold),
                Err(error) => return refused(format!("report diff: {error}")),
            }
        } else if word.as_encoded_bytes().starts_with(b"-") {
            return refused(format!("report diff: unknown option '{}'", culd_text::name(word)));
        } else {
            paths.push(word);
        }
    }
    let [before, after] = paths[..] else { return refused("report diff: name two reports") };
    let (before, after) = match (read(before), read(after)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(line), _) | (_, Err(line)) => return (String::new(), RunOutcome::fatal_line(line)),
    };
    let diff = Diff::of(&before, &after);
    let lines = diff.lines().into_iter().map(|line| format!("{}\n", culd_text::escaped(&line)));
    let exceeded = diff.exceeded(&thresholds);
    let status = if exceeded.is_empty() { 0 } else { EXCEEDED };
    let errors = exceeded.into_iter().map(|text| Line::new(Severity::Error, text));
    (lines.collect(), RunOutcome { status, lines: errors.collect() })
}

fn read(path: &OsString) -> Result<Report, Line> {
    let name = culd_text::name(path);
    let fatal = |note: String| {
        Line::new(Severity::Fatal, format!("Could not read report '{name}'")).with_notes(vec![note])
    };
    let bytes = files::read_limited(Path::new(path), Kinds::Any, MAX_REPORT)
        .map_err(|error| fatal(error.to_string()))?;
    Report::from_json(&bytes).map_err(|error| fatal(error.to_string()))
}
