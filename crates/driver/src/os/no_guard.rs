//! The end of the command by a system without signals.
//!
//! In: as for the module of signals. Out: nothing. Guaranteed: panics are printed; no file is
//! mapped ([`super::host::MAPS`]), so none can become shorter. Temporary files of a process that
//! the system ends stay.

use std::path::Path;

pub(crate) fn watch(_: &[u8], _: &Path) {}

pub(crate) fn has_maps() -> bool {
    false
}

pub(crate) fn temporary(_: Option<&Path>) {}

/// A folder that nobody lists.
#[derive(Clone, Copy)]
pub(crate) struct ListedFolder;

impl ListedFolder {
    pub(crate) fn new(_: &Path, _: &[&str]) -> Option<Self> {
        None
    }

    pub(crate) fn gone(self) {}
}

pub(crate) fn set_up() {}

pub(crate) fn hold_panics(_: bool) {}
