//! A stable text form of a cubin and a readable difference of two.
//!
//! In: the bytes of cubins. Out: lines of text in which sections, symbols, relocation types and
//! attributes have names. Guaranteed: the same bytes give the same text; a malformed file gives a
//! one-line error, never a panic.
#![forbid(unsafe_code)]

pub mod abi;
pub mod diff;
pub mod name;
pub mod rules;
pub mod text;
pub mod view;
pub mod words;

use std::io::{self, Write};

/// Writes `text` to the standard output. A reader that has seen enough and closes the pipe is no
/// trouble. Errors: what the system says.
pub fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}
