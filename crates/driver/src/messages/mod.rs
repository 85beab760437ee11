//! Messages as values, the lines that they become, and the exit status.
//!
//! [`input`] and [`files`] have the messages of the driver, [`line`] has lines; messages of the
//! link are `culd_link`'s.

pub(crate) mod files;
pub(crate) mod input;
pub(crate) mod line;

use std::io;

use culd_link::Severity;

pub(crate) use files::FileError;
pub use input::{Ignored, InputError};
pub use line::{Cause, Line, LineKind, NOTE};
pub(crate) use line::{InputPlace, warning_severity};

use crate::options::{CommandOptions, OptionId, UsageError};

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// 0, 1 after a fatal line, 255 after errors.
    pub status: u8,
    /// Lines for standard error.
    pub lines: Vec<Line>,
}

impl RunOutcome {
    /// Success without lines.
    pub(crate) fn success() -> Self {
        RunOutcome { status: 0, lines: Vec::new() }
    }

    /// One fatal line.
    pub(crate) fn fatal(text: impl ToString) -> Self {
        RunOutcome::fatal_line(Line::new(Severity::Fatal, text))
    }

    /// One line, which is fatal.
    pub(crate) fn fatal_line(line: Line) -> Self {
        RunOutcome { status: 1, lines: vec![line] }
    }

    /// The same after its text could not be written to standard output.
    #[must_use]
    pub fn with_lost_text(mut self, error: &io::Error) -> Self {
        let line = Line::new(Severity::Fatal, "Could not write to standard output");
        self.lines.push(line.with_notes(vec![error.to_string()]));
        RunOutcome { status: 1, ..self }
    }
}

/// The text that a command was started for, in pieces. They are not put together: the fresh memory
/// for a megabyte of lines costs the system more than to write each piece.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Product(Vec<Vec<u8>>);

/// Smaller pieces are put together: each is written by one system call.
const PIECE: usize = 1 << 16;

impl Product {
    /// The pieces, one behind the other.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Appends text.
    pub(crate) fn push(&mut self, mut text: Vec<u8>) {
        match self.0.last_mut() {
            Some(last) if last.len() + text.len() <= PIECE => last.append(&mut text),
            _ => self.0.push(text),
        }
    }
}

impl From<String> for Product {
    fn from(text: String) -> Self {
        Product(vec![text.into()])
    }
}

impl From<UsageError> for RunOutcome {
    fn from(error: UsageError) -> Self {
        RunOutcome::fatal(error)
    }
}

/// The lines of a link in the making.
#[derive(Clone)]
pub(crate) struct LineList {
    lines: Vec<Line>,
    /// ` (target: sm_90)` with `-report-arch`.
    suffix: String,
    notes: bool,
}

impl LineList {
    /// No lines yet, of a link for the target called `target`.
    pub(crate) fn new(options: &CommandOptions, target: &str) -> Self {
        let target_name = Some(target).filter(|_| options.flag(OptionId::ReportArch));
        LineList { notes: !options.flag(OptionId::NoNotes), ..LineList::of(target_name) }
    }

    /// No lines yet; each will name the target `target_name`.
    pub(crate) fn of(target_name: Option<&str>) -> Self {
        let suffix = target_name.map(|target| format!(" (target: {target})")).unwrap_or_default();
        LineList { lines: Vec::new(), suffix, notes: true }
    }

    pub(crate) fn push(&mut self, mut line: Line) {
        if line.kind != LineKind::Dump {
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

    /// Forgets all lines but the first `lines`.
    pub(crate) fn truncate(&mut self, lines: usize) {
        self.lines.truncate(lines);
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

    /// All lines so far.
    pub(crate) fn so_far(&self) -> &[Line] {
        &self.lines
    }

    /// The same as [`LineList::end`] with at most `most` errors; 0 is no limit.
    pub(crate) fn end_within(self, most: Option<i32>) -> RunOutcome {
        let mut outcome = self.end();
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(0);
        let is_error = |line: &Line| line.severity() == Some(Severity::Error);
        let errors = outcome.lines.iter().filter(|line| is_error(line)).count();
        if most == 0 || errors <= most {
            return outcome;
        }
        let mut seen = 0;
        outcome.lines.retain(|line| {
            seen += usize::from(is_error(line));
            !is_error(line) || seen <= most
        });
        let hidden = errors - most;
        let text =
            format!("too many errors: {hidden} more are not shown (--error-limit=0 shows all)");
        outcome.lines.push(Line::new(Severity::Error, text));
        outcome
    }

    pub(crate) fn end(self) -> RunOutcome {
        let status = match self.worst() {
            Some(Severity::Fatal) => 1,
            Some(Severity::Error) => 255,
            _ => 0,
        };
        RunOutcome { status, lines: self.lines }
    }
}
