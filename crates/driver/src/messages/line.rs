//! A line for the user: its kind, text, notes and cause.
//!
//! In: messages as values. Out: lines as programs print them.

use std::borrow::Cow;
use std::fmt;

use culd_abi::check::Finding;
use culd_link::{Message, Severity};

use super::input::{Ignored, InputError};
use crate::options::{CommandOptions, OptionId};

/// The start of a note: as in lld and mold, and not a text that tools search for.
pub const NOTE: &str = "  >>> ";

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A message.
    Message(Severity),
    /// A line of another program.
    Tool,
    /// Something that was asked for, such as the call graph.
    Dump,
}

/// The message of a line as a value, for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Cause {
    /// A message of the linker.
    Link(Box<Message>),
    /// A message about an input.
    Input(InputError),
    /// An input that is not linked.
    Ignored(Ignored),
    /// A fault in the interfaces of PTX inputs.
    Interface(#[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))] Box<Finding>),
}

/// Serializes a value as its text.
#[cfg(feature = "serde")]
fn as_text<T: fmt::Display, S: serde::Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl From<InputError> for Cause {
    fn from(error: InputError) -> Self {
        Cause::Input(error)
    }
}

impl From<Ignored> for Cause {
    fn from(ignored: Ignored) -> Self {
        Cause::Ignored(ignored)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Link(message) => message.fmt(f),
            Cause::Input(error) => error.fmt(f),
            Cause::Ignored(ignored) => ignored.fmt(f),
            Cause::Interface(finding) => finding.fmt(f),
        }
    }
}

/// Columns of a severity.
const SEVERITY: usize = 7;

/// One line for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its kind.
    pub kind: LineKind,
    /// Its text.
    pub text: String,
    /// Lines below it that explain it.
    pub notes: Vec<String>,
    /// The message as a value; lines about options and outputs have none.
    pub cause: Option<Cause>,
}

impl Line {
    /// A line about an input or the link, without notes.
    pub fn about(severity: Severity, cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        Line { cause: Some(cause.clone()), ..Line::new(severity, cause) }
    }

    /// A line without notes.
    pub fn new(severity: Severity, text: impl ToString) -> Self {
        let text = text.to_string();
        Line { kind: LineKind::Message(severity), text, notes: Vec::new(), cause: None }
    }

    /// Sets the notes below the line.
    #[must_use]
    pub fn with_notes(self, notes: Vec<String>) -> Self {
        Line { notes, ..self }
    }

    /// A line that is printed as it is.
    pub(crate) fn plain(kind: LineKind, text: String) -> Self {
        Line { kind, text, notes: Vec::new(), cause: None }
    }

    /// The severity, if it is a message.
    pub fn severity(&self) -> Option<Severity> {
        match self.kind {
            LineKind::Message(severity) => Some(severity),
            LineKind::Tool | LineKind::Dump => None,
        }
    }

    /// The line as the program `program` prints it, with nvlink's padding and
    /// [escaped](culd_text::escaped); without notes.
    pub fn show(&self, program: &str) -> String {
        let escaped_lines =
            |text: &str| text.split('\n').map(culd_text::escaped).collect::<Vec<_>>().join("\n");
        let severity = match self.severity() {
            // What ptxas says in two lines is one message.
            None if self.kind == LineKind::Tool => return escaped_lines(&self.text),
            None => return culd_text::escaped(&self.text).into_owned(),
            Some(Severity::Info) => "info   ",
            Some(Severity::Warning) => "warning",
            Some(Severity::Error) => "error  ",
            Some(Severity::Fatal) => "fatal  ",
        };
        let line = format!("{program} {severity} : {}", self.text);
        if let Some(Cause::Input(InputError::NvvmLog(_))) = self.cause {
            // The text has several lines.
            return escaped_lines(&line);
        }
        match culd_text::escaped(&line) {
            Cow::Borrowed(_) => line,
            Cow::Owned(escaped) => escaped,
        }
    }

    /// The same as [`Line::show`], with the severity in colour for a terminal.
    pub fn show_in_colour(&self, program: &str) -> String {
        let line = self.show(program);
        let colour = match self.severity() {
            Some(Severity::Fatal | Severity::Error) => "1;31",
            Some(Severity::Warning) => "1;35",
            Some(Severity::Info) => "1;36",
            None => return line,
        };
        let head = culd_text::escaped(program).len() + 1;
        match (line.get(..head), line.get(head..head + SEVERITY), line.get(head + SEVERITY..)) {
            (Some(head), Some(word), Some(rest)) => {
                format!("{head}\x1b[{colour}m{word}\x1b[0m{rest}")
            }
            _ => line,
        }
    }

    /// The notes as they are printed.
    pub fn show_notes(&self) -> impl Iterator<Item = String> {
        self.notes.iter().map(|note| format!("{NOTE}{}", culd_text::escaped(note)))
    }
}

/// The severity of a warning that `-Werror` turns into an error; `None` where `-w` silences it.
pub(crate) fn warning_severity(options: &CommandOptions) -> Option<Severity> {
    let silences = options.release.is_some_and(|release| release.silences_warnings);
    match options.flag(OptionId::WarningsAreErrors) {
        _ if silences && options.flag(OptionId::DisableWarnings) => None,
        true => Some(Severity::Error),
        false => Some(Severity::Warning),
    }
}
/// The place of an input: how many inputs of the link and how many lines are in front of it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct InputPlace {
    pub(crate) inputs: usize,
    pub(crate) lines: usize,
}
