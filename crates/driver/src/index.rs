//! The index file of unified functions and variables (`-uidx`).
//!
//! In: the options. Out: the file, checked, or the line that ends the run. nvlink reads it before
//! it looks at any input (docs/rules/command-line.md).

use culd_link::{IndexFile, Message, Severity};

use crate::messages::{InputError, Line};
use crate::options::{CommandOptions, OptionId};
use crate::os::files;

/// Reads the index file, if there is one.
pub(crate) fn read(options: &CommandOptions) -> Result<Option<IndexFile>, Line> {
    let Some(path) = options.path(OptionId::Uidx) else { return Ok(None) };
    let place = files::below(options.path(OptionId::Chroot), path);
    let name = culd_text::name(path);
    let fatal = |message: InputError, note| {
        Err(Line::about(Severity::Fatal, message).with_notes(vec![note]))
    };
    let bytes = match files::read(place) {
        Ok((bytes, _)) => bytes,
        // nvlink's line about a folder is `Memory allocation failure`.
        Err(error) => return fatal(InputError::Open(name), error.to_string()),
    };
    if bytes.is_empty() {
        return fatal(InputError::Read(name), "it is empty".to_owned());
    }
    let index = IndexFile::parse(bytes.to_vec());
    let named = |message: Message| {
        Line::new(Severity::Fatal, message).with_notes(vec![format!("in the index file '{name}'")])
    };
    index.map(Some).map_err(|defect| named(defect.into()))
}
