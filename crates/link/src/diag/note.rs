//! What culd adds below a line, as values, and how it is worded.
//!
//! nvlink's lines say what is wrong; these say where and why. A note is one line of text without
//! prefix; whoever prints it sets it apart from lines that tools search for. No text begins like
//! one of those.

use thiserror::Error;

use super::demangle;

/// One line of explanation. Names are as in the source where they can be told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Note {
    #[error("'{symbol}' is '{name}'")]
    SourceName { symbol: String, name: String },
}

impl Note {
    /// What a mangled name of the message stands for.
    pub(super) fn source_name(mangled: &str) -> Option<Note> {
        demangle(mangled).map(|name| Note::SourceName { symbol: mangled.to_owned(), name })
    }
}
