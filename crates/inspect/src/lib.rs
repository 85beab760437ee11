//! The device code in any file; a stable text form of a cubin and a readable difference of two.
//!
//! In: the bytes of cubins, and of files that hold them. Out: lists of images; lines of text in
//! which sections, symbols, relocation types and attributes have names. Guaranteed: the same bytes
//! give the same text; a malformed file gives a one-line error, never a panic.
#![forbid(unsafe_code)]

pub mod abi;
pub mod command;
pub mod diff;
pub mod images;
pub mod name;
pub mod rules;
pub mod text;
pub mod view;
pub mod words;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};

/// The most bytes that are read from what has no size of its own: a pipe or device may have no end.
const MAX_PIPE: u64 = 1 << 30;

/// The bytes of the file at `path`, which stay until the process ends. Errors: a line with its
/// name.
pub fn read(path: &OsString) -> Result<&'static [u8], String> {
    let read = || {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let limit = if meta.is_file() { meta.len().max(MAX_PIPE) } else { MAX_PIPE };
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > limit {
            true => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
            false => Ok(bytes),
        }
    };
    match read() {
        Ok(bytes) => Ok(bytes.leak()),
        Err(error) => Err(about(path, error)),
    }
}

/// A line about the file at `path`.
pub fn about(path: &OsString, what: impl std::fmt::Display) -> String {
    format!("{}: {what}", culd_text::name(path))
}

/// What `program --version` prints, if the command line asks for it.
pub fn asked_version(program: &str) -> Option<String> {
    let asked = std::env::args_os().skip(1).any(|word| word == "--version");
    asked.then(|| format!("{program} {}\n", env!("CARGO_PKG_VERSION")))
}

/// Writes why there is no result to the standard error, and the usage below it if that was wrong.
pub fn complain(program: &str, error: &str, usage: &str) {
    let line = format!("{program}: {error}");
    // Nobody needs to listen.
    let _ = writeln!(io::stderr(), "{}", culd_text::escaped(&line));
    let _ = io::stderr().write_all(usage.as_bytes());
}

/// Writes `text` to the standard output. A reader that has seen enough and closes the pipe is no
/// trouble. Errors: what the system says.
pub fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}
