//! The form of a linked file: where it says which release and which target it is for.
//!
//! In: the release and the target. Out: a [`FileForm`]. Everything that follows from the form asks
//! for it: the file header, the sections that every file has, and where barriers of functions
//! stand.

use culd_cubin::arch::{Arch, Flavour};

use super::dialect::Dialect;

/// The form of a linked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileForm {
    /// CUDA 12 and older for sm_90a and older: the header says everything, and no note or
    /// `.nv.compat` exists. The flags of code have the number of barriers.
    Header,
    /// CUDA 12.8 and 12.9 for sm_100 and later: as the next, but `.note.nv.cuver` has the place of
    /// `.note.nv.cuinfo`, notes have no symbols, and `.nv.compat` is created late and has few
    /// attributes.
    Version,
    /// Since CUDA 13: `.note.nv.tkinfo` and `.note.nv.cuinfo` say it, and an attribute has the
    /// number of barriers.
    Notes,
}

impl FileForm {
    /// The form that the release `dialect` writes for `target`.
    pub(crate) fn of(dialect: &Dialect, target: &Arch) -> Self {
        match target.flavour {
            _ if !dialect.all_in_header => FileForm::Notes,
            Flavour::Classic => FileForm::Header,
            Flavour::Mercury => FileForm::Version,
        }
    }
}
