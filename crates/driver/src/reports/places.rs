//! Places of side outputs.
//!
//! In: options, and the store of the files that were read. Out: an error, or nothing. Guaranteed:
//! no report takes the place of an input, of the output or of another report; devices, pipes and
//! standard output have room for several, but no file that standard output leads to has room for
//! one that is named besides.

use std::path::{Path, PathBuf};

use culd_link::Severity;

use super::{OWN_FILES, STANDARD_OUTPUT, any, is_standard_output};
use crate::input::Store;
use crate::messages::{FileError, Line};
use crate::options::{CommandOptions, OptionId, OptionRow};
use crate::os::output;

/// Outputs that nvlink has too. It writes them over each other and over inputs, and so does culd.
const NVLINK_FILES: [OptionId; 3] = [OptionId::Output, OptionId::RegisterFile, OptionId::Time];

/// Reports that are printed.
const PRINTED: [OptionId; 5] = [
    OptionId::Cref,
    OptionId::WhyLive,
    OptionId::TraceSymbol,
    OptionId::PrintGcSections,
    OptionId::PrintMemoryUsage,
];

/// Where standard output leads to.
const STANDARD_OUTPUT_LINK: &str = "/dev/stdout";

/// Checks the places of the reports.
pub(crate) fn check(options: &CommandOptions, store: &Store) -> Result<(), Line> {
    if !any(options, OWN_FILES) && !any(options, &PRINTED) {
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
                return Err(shared_place(path, id, *other));
            }
            taken.push((id, place));
        }
    }
    // A shell opened it; bytes for the path would go over what is printed.
    let Some(id) = printed(options) else { return Ok(()) };
    let standard = output::file_at(Path::new(STANDARD_OUTPUT_LINK));
    match taken.iter().find(|(_, place)| Some(place) == standard.as_ref()) {
        Some((other, _)) => Err(shared_place(Path::new(STANDARD_OUTPUT), id, *other)),
        None => Ok(()),
    }
}

/// An option for text on standard output.
fn printed(options: &CommandOptions) -> Option<OptionId> {
    let is_printed =
        |id: OptionId| options.list(id).iter().any(|path| is_standard_output(Path::new(path)));
    let file = OWN_FILES.iter().copied().find(|&id| is_printed(id));
    file.or_else(|| PRINTED.into_iter().find(|&id| options.values(id).is_some()))
}

fn shared_place(path: &Path, option: OptionId, other: OptionId) -> Line {
    let (path, option) = (culd_text::name(path), OptionRow::of(option).long);
    let error = FileError::SharedPlace { path, option, other: OptionRow::of(other).long };
    Line::new(Severity::Fatal, error)
}
