//! Interfaces of PTX: the command `abi-check`, and the same check of PTX inputs before they are
//! compiled.
//!
//! In: PTX texts and their names. Out: lines. Guaranteed: any text is read without a panic; nothing
//! is compiled or linked.

use std::ffi::{OsStr, OsString};

use culd_abi::check::{Finding, NamedModule, check};
use culd_abi::ptx::Module;
use culd_cubin::text_of;
use culd_fatbin::{Format, sniff};
use culd_link::Severity;

use crate::messages::{Cause, Line, RunOutcome};
use crate::os::files;

const USAGE: &str = "\
usage: culd abi-check FILE...
Hold the declarations of PTX files against each other and against the documented ABI: what a name is,
its state space, parameters and return values, sizes and alignments, system calls, duplicate definitions.
Prints a line for each fault, with file and line. Exit status: 0 without errors, 255 with some, 1 for a file
that cannot be read.
";

/// Lines about the PTX `texts` of one link. Faults that the linker reports itself, with more
/// knowledge, are left out.
pub(crate) fn before_compiling(texts: &[(&str, &[u8])], severity: Severity) -> Vec<Line> {
    let read = |&(name, text): &(&str, &[u8])| (name.to_owned(), Module::parse(&text_of(text)));
    let modules: Vec<(String, Module)> = texts.iter().map(read).collect();
    let found = findings(&modules).into_iter().filter(|one| !one.fault.is_reported_by_linker());
    found.map(|finding| line(finding, severity)).collect()
}

fn findings(modules: &[(String, Module)]) -> Vec<Finding> {
    let named: Vec<NamedModule<'_>> =
        modules.iter().map(|(name, module)| NamedModule { name, module }).collect();
    check(&named)
}

fn line(finding: Finding, severity: Severity) -> Line {
    let notes = finding.other.iter().map(|(place, says)| format!("{place}: {says}")).collect();
    Line::about(severity, Cause::Interface(Box::new(finding))).with_notes(notes)
}

/// Runs the command; `words` stand behind its name.
pub(crate) fn abi_check(words: &[OsString]) -> (String, RunOutcome) {
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return (USAGE.to_owned(), RunOutcome::success());
    }
    if let Some(option) = words.iter().find(|word| word.as_encoded_bytes().starts_with(b"-")) {
        let option = culd_text::name(option);
        return (String::new(), RunOutcome::fatal(format!("abi-check: unknown option '{option}'")));
    }
    if words.is_empty() {
        return (String::new(), RunOutcome::fatal("abi-check: name PTX files"));
    }
    let mut modules = Vec::new();
    for path in words {
        match module(path) {
            Ok(module) => modules.push((culd_text::name(path), module)),
            Err(line) => return (String::new(), RunOutcome::fatal_line(line)),
        }
    }
    let mut lines = Vec::new();
    for (name, module) in &modules {
        lines.extend(module.unread.iter().map(|unread| {
            let text = format!(
                "{name}, line {}: '{}' is not understood and was not checked",
                unread.line, unread.found
            );
            Line::new(Severity::Warning, text)
        }));
    }
    let found = findings(&modules);
    let status = if found.is_empty() { 0 } else { 255 };
    lines.extend(found.into_iter().map(|finding| line(finding, Severity::Error)));
    (String::new(), RunOutcome { status, lines })
}

fn module(path: &OsStr) -> Result<Module, Line> {
    let fatal = |text: String| Line::new(Severity::Fatal, text);
    let name = culd_text::name(path);
    let (bytes, _) = files::read(path).map_err(|error| {
        fatal(format!("Could not open input file '{name}'")).with_notes(vec![error.to_string()])
    })?;
    if sniff(&bytes) != Format::Ptx {
        return Err(fatal(format!("'{name}' is no PTX text")));
    }
    // A compiler reads up to the first NUL.
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(Module::parse(&text_of(text)))
}
