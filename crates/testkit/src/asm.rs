//! The assembler of test fixtures: the text form of a cubin (docs/TEXT-FORMAT.md) back to bytes.
//!
//! In: text, as `culd-dump` prints it or a person writes it. Out: the bytes of the file.
//! Guaranteed: what `culd-dump` made of a file becomes that file again, byte for byte; text that
//! is no such form gives an [`Error`] with the line and what was expected there, never a panic.

mod body;
mod file;
mod keys;
mod parse;
mod strings;
mod symbols;

use std::fmt;

/// The largest file that is made, bytes. A slip in an offset must not fill the memory.
pub const MAX_SIZE: u64 = 1 << 30;

/// Text that cannot be assembled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Line number, from 1; 0 when the text as a whole is meant.
    pub line: usize,
    /// What is wrong or was expected, in words.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Error {}

/// An error at `line`.
fn error<T>(line: usize, what: impl Into<String>) -> Result<T, Error> {
    Err(Error { line, what: what.into() })
}

/// The bytes of the file that `text` describes.
///
/// ```
/// let text = "\
/// cubin 1
/// file type=rel sm=90
/// section .shstrtab strtab
///   rest
/// section .nv.global.init nv_global_init flags=write+alloc align=8
///   0x0000 01020304
/// ";
/// let bytes = culd_testkit::asm::assemble(text)?;
/// assert_eq!(&bytes[..4], b"\x7fELF");
/// # Ok::<(), culd_testkit::asm::Error>(())
/// ```
pub fn assemble(text: &str) -> Result<Vec<u8>, Error> {
    file::write(&parse::document(text)?)
}
