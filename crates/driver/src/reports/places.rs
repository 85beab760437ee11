//! Places of side outputs.
//!
//! In: options, and the store of the files that were read. Out: an error, or nothing. Guaranteed:
//! no report takes the place of an input, of the output or of another report; devices, pipes and
//! standard output have room for several.

use std::path::{Path, PathBuf};

use culd_link::Severity;

use super::{OWN_FILES, any, is_standard_output};
use crate::input::Store;
use crate::messages::{FileError, Line};
use crate::options::{CommandOptions, OptionId, OptionRow};
use crate::os::output;

/// Outputs that nvlink has too. It writes them over each other and over inputs, and so does culd.
const NVLINK_FILES: [OptionId; 3] = [OptionId::Output, OptionId::RegisterFile, OptionId::Time];

/// Checks the places of the reports.
pub(crate) fn check(options: &CommandOptions, store: &Store) -> Result<(), Line> {
    if !any(options, OWN_FILES) {
        return Ok(());
    }
    let mut taken: Vec<(OptionId, PathBuf)> = Vec::new();
    let nvlink = NVLINK_FILES.iter().map(|&id| (id, options.list(id)));
    for (id, paths) in nvlink {
        let path = paths.last().map(Path::new).filter(|path| !is_standard_output(path));
        taken.extend(path.and_then(output::file_at).map(|place| (id, place)));
    }
    for &id in OWN_FILES {
        for path in options.list(id).iter().map(Path::new) {
            let Some(place) = output::file_at(path).filter(|_| !is_standard_output(path)) else {
                continue;
            };
            let option = OptionRow::of(id).long;
            if store.has_read(&place) {
                return Err(FileError::input_at(path, option));
            }
            if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
                let (path, other) = (culd_text::name(path), OptionRow::of(*other).long);
                let error = FileError::SharedPlace { path, option, other };
                return Err(Line::new(Severity::Fatal, error));
            }
            taken.push((id, place));
        }
    }
    Ok(())
}
