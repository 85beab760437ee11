//! What is printed to standard error, and the exit status.

use std::borrow::Cow;
use std::fmt;

use culd_abi::check::Finding;
use culd_link::{Message, Severity};

use crate::input::{Ignored, InputError};
use crate::options::{Id, Options, UsageError};

/// What a note begins with: as in lld and mold, and nothing that tools search for.
pub const NOTE: &str = "  >>> ";

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message.
    Message(Severity),
    /// What another program printed.
    Tool,
    /// Something that was asked for, such as the call graph.
    Dump,
}

/// What a line is about, for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The link.
    Link(Box<Message>),
    /// An input.
    Input(InputError),
    /// An input that is not linked.
    Ignored(Ignored),
    /// The interfaces of PTX inputs.
    Interface(Box<Finding>),
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

/// One line for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub text: String,
    /// Lines below it that explain it.
    pub notes: Vec<String>,
    /// The same as a value; lines about options and outputs have none.
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
        Line { kind: Kind::Message(severity), text, notes: Vec::new(), cause: None }
    }

    /// The same line with notes below it.
    #[must_use]
    pub fn with_notes(self, notes: Vec<String>) -> Self {
        Line { notes, ..self }
    }

    /// A line that is printed as it is.
    pub(crate) fn plain(kind: Kind, text: String) -> Self {
        Line { kind, text, notes: Vec::new(), cause: None }
    }

    /// How bad it is, if it is a message.
    pub fn severity(&self) -> Option<Severity> {
        match self.kind {
            Kind::Message(severity) => Some(severity),
            Kind::Tool | Kind::Dump => None,
        }
    }

    /// The line as the program `program` prints it, with nvlink's padding and
    /// [escaped](culd_text::escaped); without notes.
    pub fn show(&self, program: &str) -> String {
        let severity = match self.severity() {
            None => return culd_text::escaped(&self.text).into_owned(),
            Some(Severity::Info) => "info   ",
            Some(Severity::Warning) => "warning",
            Some(Severity::Error) => "error  ",
            Some(Severity::Fatal) => "fatal  ",
        };
        let line = format!("{program} {severity} : {}", self.text);
        if let Some(Cause::Input(InputError::NvvmLog(_))) = self.cause {
            // It has lines of its own.
            return line.split('\n').map(culd_text::escaped).collect::<Vec<_>>().join("\n");
        }
        match culd_text::escaped(&line) {
            Cow::Borrowed(_) => line,
            Cow::Owned(escaped) => escaped,
        }
    }

    /// The notes as they are printed.
    pub fn show_notes(&self) -> impl Iterator<Item = String> {
        self.notes.iter().map(|note| format!("{NOTE}{}", culd_text::escaped(note)))
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// 0, 1 after a fatal line, 255 after errors.
    pub status: u8,
    /// What to print to standard error.
    pub lines: Vec<Line>,
}

impl Outcome {
    /// Nothing to say.
    pub(crate) fn success() -> Self {
        Outcome { status: 0, lines: Vec::new() }
    }

    /// One fatal line.
    pub(crate) fn fatal(text: impl ToString) -> Self {
        Outcome::fatal_line(Line::new(Severity::Fatal, text))
    }

    /// One line, which is fatal.
    pub(crate) fn fatal_line(line: Line) -> Self {
        Outcome { status: 1, lines: vec![line] }
    }
}

impl From<UsageError> for Outcome {
    fn from(error: UsageError) -> Self {
        Outcome::fatal(error)
    }
}

/// What a warning of nvlink's is.
pub(crate) fn warning_severity(options: &Options) -> Severity {
    match options.flag(Id::WarningsAreErrors) {
        true => Severity::Error,
        false => Severity::Warning,
    }
}

/// The lines of a link in the making.
#[derive(Clone)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    /// ` (target: sm_90)` with `-report-arch`.
    suffix: String,
    notes: bool,
}

impl Lines {
    /// No lines yet, of a link for the target called `target`.
    pub(crate) fn new(options: &Options, target: &str) -> Self {
        let told = Some(target).filter(|_| options.flag(Id::ReportArch));
        Lines { notes: !options.flag(Id::NoNotes), ..Lines::of(told) }
    }

    /// No lines yet; each will tell the target `told`.
    pub(crate) fn of(told: Option<&str>) -> Self {
        let suffix = told.map(|target| format!(" (target: {target})")).unwrap_or_default();
        Lines { lines: Vec::new(), suffix, notes: true }
    }

    pub(crate) fn push(&mut self, mut line: Line) {
        if line.kind != Kind::Dump {
            line.text.push_str(&self.suffix);
        }
        if !self.notes {
            line.notes.clear();
        }
        self.lines.push(line);
    }

    pub(crate) fn extend(&mut self, lines: impl IntoIterator<Item = Line>) {
        lines.into_iter().for_each(|line| self.push(line));
    }

    /// True when there is an error.
    pub(crate) fn failed(&self) -> bool {
        self.worst() >= Some(Severity::Error)
    }

    /// True when a line ended the link.
    pub(crate) fn fatal(&self) -> bool {
        self.worst() == Some(Severity::Fatal)
    }

    fn worst(&self) -> Option<Severity> {
        self.lines.iter().filter_map(Line::severity).max()
    }

    pub(crate) fn end(self) -> Outcome {
        let status = match self.worst() {
            Some(Severity::Fatal) => 1,
            Some(Severity::Error) => 255,
            _ => 0,
        };
        Outcome { status, lines: self.lines }
    }
}
