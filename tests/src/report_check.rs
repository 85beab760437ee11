//! Holds a report that the command wrote as JSON against the library's report of the same link.
//!
//! In: the JSON file, and the words of the link: those with the ending of an input are inputs,
//! others options. Out: exit status 1 and the first difference. Guaranteed: the file is read as a
//! report; its bytes are those that `serde_json` makes of that report, and of the library's with
//! the output, the options, the times and the messages of the command. The command has all messages
//! of the library but those of -v.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use culd::report::{Report, ReportMessage};
use culd::{Linker, Options};

/// Endings of inputs.
const INPUTS: &[&str] = &[".cubin", ".fatbin", ".o", ".a", ".ptx"];

fn main() -> ExitCode {
    match check() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let path = words.next().context("usage: culd-report-check FILE.json WORD...")?;
    let json = std::fs::read(&path).context(path)?;
    let whole = Report::from_json(&json).context("the file is no report")?;
    same(&json, &serde_json::to_vec(&whole)?, "the report that was read")?;
    let is_input = |word: &String| {
        !word.starts_with('-') && INPUTS.iter().any(|ending| word.ends_with(ending))
    };
    let (files, options): (Vec<String>, Vec<String>) = words.partition(is_input);
    let mut linker = Linker::new(Options::parse(&options)?);
    for file in files {
        linker.add_file(file);
    }
    let mut own = linker.link()?.report();
    let (of_command, of_library) = (whole.link.as_ref(), own.link.as_mut());
    let (of_command, of_library) = of_command.zip(of_library).context("no link")?;
    of_library.output.clone_from(&of_command.output);
    of_library.options.clone_from(&of_command.options);
    of_library.phases.clone_from(&of_command.phases);
    // The command has warnings about options besides, and the library what -v prints.
    let is_shown = |message: &&ReportMessage| message.severity != "info";
    let missing =
        own.messages.iter().filter(is_shown).find(|message| !whole.messages.contains(message));
    ensure!(missing.is_none(), "message {missing:?} is not in {:?}", whole.messages);
    own.messages.clone_from(&whole.messages);
    same(&json, &serde_json::to_vec(&own)?, "the library's report")
}

fn same(json: &[u8], expected: &[u8], of: &str) -> Result<()> {
    let at = json.iter().zip(expected).position(|(a, b)| a != b);
    let at = at.unwrap_or(json.len().min(expected.len()));
    let shown = |json: &[u8]| {
        let part = &json[at.saturating_sub(60)..json.len().min(at + 60)];
        String::from_utf8_lossy(part).into_owned()
    };
    let (a, b) = (shown(json), shown(expected));
    ensure!(json == expected, "JSON at {at}: {a}, that of serde_json for {of}: {b}");
    Ok(())
}
