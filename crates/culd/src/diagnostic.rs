//! Messages of a link, as values.
//!
//! In: lines of the driver. Out: [`Diagnostic`]s, and the error of a link that failed.

use std::fmt;

use culd_driver::{Cause, Line, LineKind};
use culd_link::{Message, Severity};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The text: nvlink's words for situations that nvlink has a message for.
    pub text: String,
    /// Lines that explain it, in reading order.
    pub notes: Vec<String>,
    /// The message as a value. Lines that a compiler printed have none.
    pub cause: Option<Cause>,
}

/// A link that failed: all its messages, the last of which is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LinkError {
    /// All messages in order, warnings included.
    pub diagnostics: Vec<Diagnostic>,
}

impl Diagnostic {
    fn is_cancelled(&self) -> bool {
        matches!(&self.cause, Some(Cause::Link(message)) if **message == Message::Cancelled)
    }
}

impl Diagnostic {
    pub(crate) fn of(line: Line) -> Self {
        let Line { kind, text, notes, cause } = line;
        let severity = match kind {
            LineKind::Message(severity) => severity,
            LineKind::Tool => severity_of_tool(&text),
            LineKind::Dump => Severity::Info,
        };
        Diagnostic { severity, text, notes, cause }
    }
}

/// The severity of a line that ptxas printed. A separate line says that the link failed.
fn severity_of_tool(text: &str) -> Severity {
    let words =
        [("fatal", Severity::Error), ("error", Severity::Error), ("warning", Severity::Warning)];
    let says = |word: &str| text.contains(&format!("{word:<7} :"));
    words.into_iter().find(|(word, _)| says(word)).map_or(Severity::Info, |(_, severity)| severity)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Fatal => "fatal",
        };
        write!(f, "{severity}: {}", culd_text::escaped(&self.text))?;
        let mut notes = self.notes.iter().map(|note| culd_text::escaped(note));
        notes.try_for_each(|note| write!(f, "\n{}{note}", culd_driver::NOTE))
    }
}

impl LinkError {
    /// Errors only.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|line| line.severity >= Severity::Error)
    }

    /// True if another thread cancelled the link ([`Cancel`](crate::Cancel)).
    pub fn is_cancelled(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_cancelled)
    }

    /// The same error. Of a cancelled link, only the message that says so stays: cancelling may
    /// have caused the others.
    pub(crate) fn or_cancelled(mut self) -> Self {
        if self.is_cancelled() {
            self.diagnostics.retain(Diagnostic::is_cancelled);
        }
        self
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, line) in self.errors().enumerate() {
            if place != 0 {
                writeln!(f)?;
            }
            line.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for LinkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ptxas_keep_their_severity() {
        assert_eq!(severity_of_tool("ptxas info    : 0 bytes gmem"), Severity::Info);
        assert_eq!(
            severity_of_tool("ptxas application ptx input, line 3; error   : no"),
            Severity::Error
        );
        assert_eq!(severity_of_tool("ptxas warning : hm"), Severity::Warning);
        assert_eq!(severity_of_tool("ptxas fatal   : no"), Severity::Error);
    }

    #[test]
    fn an_error_is_shown_with_its_notes() {
        let line = Line::new(Severity::Fatal, "no\r").with_notes(vec!["because\x1b[m".to_owned()]);
        let info = Line::new(Severity::Info, "yes");
        let error = LinkError { diagnostics: vec![Diagnostic::of(info), Diagnostic::of(line)] };
        assert_eq!(error.to_string(), "fatal: no\\r\n  >>> because\\x1b[m");
    }
}
