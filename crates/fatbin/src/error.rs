//! The one error of this crate: the fault of a file, and its offset.

use std::borrow::Cow;

/// Something in the input that contradicts its format or a limit.
///
/// The display form is one line, "`offset 0x10: ...`"; the names of file, archive member and
/// section are added by whoever knows them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x}: {what}")]
pub struct Error {
    /// Offset in bytes in the slice that was given.
    pub offset: u64,
    /// The fault, in words.
    pub what: Cow<'static, str>,
}

impl Error {
    /// A defect at `offset`.
    pub fn new(offset: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Error { offset: offset as u64, what: what.into() }
    }

    /// The same defect seen from a slice in which this one starts at `base`.
    #[must_use]
    pub fn at(self, base: u64) -> Self {
        Error { offset: self.offset.saturating_add(base), what: self.what }
    }
}
