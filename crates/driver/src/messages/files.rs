//! Messages about outputs and options, as values.

use std::io;
use std::path::Path;

use culd_link::Severity;
use thiserror::Error;

use super::line::Line;
use crate::options::IgnoredOption;

/// Messages about outputs and options. Texts are nvlink's if it has one.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("Could not open output file '{0}'")]
    Output(String),
    #[error("Could not write '{path}' (--{option}): it is an input")]
    InputPlace { path: String, option: &'static str },
    #[error("Could not write '{path}' (--{option}): it is the file of '--{other}' too")]
    SharedPlace { path: String, option: &'static str, other: &'static str },
    #[error("Internal error: writing file")]
    Writing,
    #[error("--verify: {0}; this is a defect of culd, and nothing was written")]
    Unsound(String),
    #[error("--verify: {0}; ptxas made it, and nothing was written")]
    UnsoundCode(String),
    #[error("Could not read file '{0}'")]
    Changed(String),
    #[error("Cannot open file '{0}'")]
    Time(String),
    #[error(
        "Option '--preserve-relocs' is not fully implemented for gpu archtecture '{0}' and may not \
         work as expected"
    )]
    PreserveRelocs(String),
    #[error("incompatible redefinition for option '{0}', the last value of this option was used")]
    Redefined(&'static str),
    #[error("{}", match .0 {
        IgnoredOption::HostInfo =>
            "ignore -use-host-info because -kernels-used or -variables-used is specified",
        IgnoredOption::ThreadsOfLink =>
            "Incompatible options '-emit-ptx' and '-split-compile-extended', using \
             '-split-compile'",
    })]
    Ignored(IgnoredOption),
}

impl FileError {
    /// The line about a report that would take the place of an input.
    pub(crate) fn input_at(path: &Path, option: &'static str) -> Line {
        let path = culd_text::name(path);
        Line::new(Severity::Fatal, FileError::InputPlace { path, option })
    }

    /// The line about an output that could not be written.
    pub(crate) fn output(path: &Path, error: &io::Error) -> Line {
        let path = culd_text::name(path);
        // nvlink has another line about a full disk, without a path.
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match full {
            true => Line::new(Severity::Fatal, FileError::Writing)
                .with_notes(vec![format!("'{path}': {error}")]),
            false => Line::new(Severity::Fatal, FileError::Output(path))
                .with_notes(vec![error.to_string()]),
        }
    }
}
