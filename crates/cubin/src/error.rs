//! The one error of this crate: the part of a file that violates the format, and its place.

use std::borrow::Cow;
use std::fmt;

/// A part of the input that contradicts the format.
///
/// The display form is one line, "`section '.nv.info', offset 0x10: ...`"; the caller adds the name
/// of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Name of the section, unprintable bytes escaped, or `None` for the ELF header and the header
    /// tables.
    pub section: Option<String>,
    /// Offset in bytes: inside the section when there is one, else inside the file.
    pub offset: u64,
    /// The violation, in words.
    pub what: Cow<'static, str>,
}

impl Malformed {
    /// A defect at `offset` of the file.
    pub fn file(offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Malformed { section: None, offset, what: what.into() }
    }

    /// A defect at `offset` of the section called `name`.
    pub fn section(name: &[u8], offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        let name = name.escape_ascii().to_string();
        Malformed { section: Some(name), offset, what: what.into() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.section {
            Some(name) => write!(f, "section '{name}', offset {:#x}: {}", self.offset, self.what),
            None => write!(f, "offset {:#x}: {}", self.offset, self.what),
        }
    }
}

impl std::error::Error for Malformed {}
