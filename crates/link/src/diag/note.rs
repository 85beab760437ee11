//! Explanations that culd adds below a line, as values, with their texts.
//!
//! nvlink's lines name the error; notes name its place and reason. A note is one line of text
//! without a prefix, and the printer sets it apart from lines that tools search for. A name is
//! given as in the input, or as in the source if it is mangled (`name`, `place`).

use std::fmt;

use culd_abi::prototype::Prototype;
use thiserror::Error;

use super::demangle::demangle;
use crate::options::dialect::Dialect;

/// One line of explanation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Note {
    #[error("'{symbol}' is '{name}'")]
    SourceName { symbol: String, name: String },
    #[error("--dialect={release} follows the rules of a release that takes it")]
    TryDialect { release: &'static Dialect },
    #[error("'{file}' was made by CUDA {}.{}", made_by / 10, made_by % 10)]
    MadeBy { file: String, made_by: u16 },
    #[error("link the files that it was made of, or make it with culd -r")]
    MakeObjectAnew,
    #[error("'{file}' was made for sm_{sm}")]
    MadeFor { file: String, sm: u32 },

    // Where a name is defined or declared.
    #[error("{standing} in '{file}', section '{section}', {size:#x} bytes{}", line(source_line))]
    Defined {
        standing: &'static str,
        file: String,
        section: String,
        size: u64,
        source_line: Option<String>,
    },
    #[error("declared in '{file}'{}", bytes(*size))]
    Declared { file: String, size: u64 },
    #[error("'{file}' and '{first}' are the same object")]
    SameObject { file: String, first: String },
    #[error("both have the same bytes: what a header defines wants 'inline' or 'static'")]
    SameBytes,
    #[error("'{file}' says '{prototype}'{}", decoded(prototype))]
    Prototype { file: String, prototype: String },

    // References to a name, and similar names.
    #[error(
        "referenced by {file}:({place}+{offset:#x}){}{}",
        line(source_line),
        if *dead { ", which no kernel reaches" } else { "" }
    )]
    ReferencedBy {
        file: String,
        place: String,
        offset: u64,
        source_line: Option<String>,
        dead: bool,
    },
    #[error("and by {count} more places")]
    MoreReferences { count: usize },
    #[error("declared in '{file}'; nothing refers to it")]
    Unreferenced { file: String },
    #[error("'{file}' defines it for itself only: static, or in a namespace without name")]
    LocalElsewhere { file: String },
    #[error("'{file}' defines '{name}': {likeness}")]
    Similar { name: String, file: String, likeness: NameLikeness },

    // Calls.
    #[error("recursion: {}{}", chain(cycle), reached(path))]
    Recursion { cycle: Vec<CallStep>, path: Vec<CallStep> },
    #[error("and {count} more cycles")]
    MoreRecursion { count: usize },
    #[error("reaches recursion that is shown for '{entry}'")]
    KnownRecursion { entry: String },
    #[error("called by: {}", chain(path))]
    CallPath { path: Vec<CallStep> },
    #[error("deepest calls: {}", joined(&with_frames(path, frames)))]
    DeepestCalls { path: Vec<CallStep>, frames: Vec<u32> },

    // Limits.
    #[error("'{name}' takes {size:#x} bytes{}", line(source_line))]
    Large { name: String, size: u64, source_line: Option<String> },
    #[error("and {count} smaller variables {size:#x} bytes")]
    Smaller { count: usize, size: u64 },
}

/// A line of the source, if the debug information has it.
fn line(source_line: &Option<String>) -> String {
    source_line.as_ref().map(|line| format!(", {line}")).unwrap_or_default()
}

/// The prototype in the syntax of PTX, if it can be parsed.
fn decoded(prototype: &str) -> String {
    Prototype::parse(prototype)
        .map(|prototype| format!(", which is {prototype}"))
        .unwrap_or_default()
}

/// How a defined name resembles an undefined one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error)]
#[allow(missing_docs, reason = "the texts say what the variants are")]
pub enum NameLikeness {
    #[error("other parameters")]
    Parameters,
    #[error("only one side is extern \"C\"")]
    Linkage,
    #[error("another scope")]
    Scope,
    #[error("a similar name")]
    Spelling,
}

/// A function on a call path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStep {
    /// Its name.
    pub name: String,
    /// The call may go through a pointer.
    pub indirect: bool,
    /// The line in which its code begins, if the debug information has it.
    pub source_line: Option<String>,
}

impl fmt::Display for CallStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.indirect {
            true => write!(f, "(*{})", self.name)?,
            false => f.write_str(&self.name)?,
        }
        match &self.source_line {
            Some(line) => write!(f, " ({line})"),
            None => Ok(()),
        }
    }
}

impl Note {
    /// A note that gives a mangled name as it is in the source.
    pub(super) fn source_name(mangled: &str) -> Option<Note> {
        demangle(mangled).map(|name| Note::SourceName { symbol: mangled.to_owned(), name })
    }
}

/// Functions of the longest path that is shown whole; of a longer one both ends are shown.
const LONGEST_PATH: usize = 12;

fn chain(path: &[CallStep]) -> String {
    joined(&path.iter().map(CallStep::to_string).collect::<Vec<_>>())
}

fn joined(steps: &[String]) -> String {
    if steps.len() <= LONGEST_PATH {
        return steps.join(" -> ");
    }
    let (head, rest) = steps.split_at(LONGEST_PATH / 2);
    let (left_out, tail) = rest.split_at(rest.len() - LONGEST_PATH / 2);
    format!("{} -> ({} more) -> {}", head.join(" -> "), left_out.len(), tail.join(" -> "))
}

fn with_frames(path: &[CallStep], frames: &[u32]) -> Vec<String> {
    let steps = path.iter().zip(frames);
    steps.map(|(step, frame)| format!("{step} {frame:#x} bytes")).collect()
}

fn reached(path: &[CallStep]) -> String {
    if path.len() < 2 { String::new() } else { format!(", reached by {}", chain(path)) }
}

fn bytes(size: u64) -> String {
    if size == 0 { String::new() } else { format!(" with {size:#x} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(length: usize) -> Vec<CallStep> {
        let step = |n| CallStep { name: format!("f{n}"), indirect: n == 1, source_line: None };
        (0..length).map(step).collect()
    }

    #[test]
    fn long_paths_are_shown_by_their_ends() {
        assert_eq!(chain(&path(3)), "f0 -> (*f1) -> f2");
        let long = chain(&path(40));
        assert!(long.contains("f5 -> (28 more) -> f34"), "{long}");
        assert!(long.starts_with("f0 -> ") && long.ends_with(" -> f39"));
        let all = Note::CallPath { path: path(LONGEST_PATH) }.to_string();
        assert!(!all.contains("more"), "{all}");
    }

    #[test]
    fn a_cycle_of_the_entry_itself_is_reached_by_nobody() {
        let note = Note::Recursion { cycle: path(2), path: path(1) };
        assert_eq!(note.to_string(), "recursion: f0 -> (*f1)");
    }
}
