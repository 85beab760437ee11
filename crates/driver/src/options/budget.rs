//! Limits of the options files and lists of one command line, for nvlink's grammar and nvcc's.
//!
//! In: the path of an options file, or the text of a list. Out: its words. Guaranteed: all files
//! and lists of a line together stay within the limits.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{UsageError, response};
use crate::os::files::{self, Kinds};

/// The number of options files that may be open at once, one naming the next; nvlink's number.
const MAX_DEPTH: usize = 15;
/// Options files in all. Each use of a file counts, because a few bytes can name others thousands
/// of times. A link of 100,000 objects stays below.
const MAX_FILES: usize = 1000;
/// Bytes of all options files.
pub(super) const MAX_BYTES: u64 = 32 << 20;
/// Words of options files, and elements of lists.
pub(crate) const MAX_WORDS: usize = 1 << 18;

/// What the options files and lists of a command line may still take.
pub(crate) struct WordBudget {
    files: usize,
    bytes: u64,
    words: usize,
}

impl Default for WordBudget {
    fn default() -> Self {
        WordBudget { files: MAX_FILES, bytes: MAX_BYTES, words: MAX_WORDS }
    }
}

impl WordBudget {
    /// The words of the options file at `path`, if `depth` others are open, each naming the next.
    pub(crate) fn file(&mut self, path: &OsStr, depth: usize) -> Result<Vec<OsString>, UsageError> {
        let shown = || culd_text::name(path);
        if depth == MAX_DEPTH || self.files == 0 {
            return Err(UsageError::TooManyOptionsFiles(shown()));
        }
        self.files -= 1;
        // One that another one names is not waited for.
        let kinds = if depth == 0 { Kinds::FilesAndPipes } else { Kinds::Files };
        let text = files::read_limited(Path::new(path), kinds, self.bytes);
        let text = text.map_err(|error| UsageError::OptionsFile {
            path: shown(),
            reason: error.to_string(),
        })?;
        self.bytes -= text.len() as u64;
        let words = response::words(&text, self.words)?;
        self.words -= words.len();
        Ok(words)
    }

    /// The elements of a list.
    pub(crate) fn list(&mut self, list: &OsStr) -> Result<Vec<OsString>, UsageError> {
        let elements = response::elements(list, self.words)?;
        self.words -= elements.len();
        Ok(elements)
    }
}
