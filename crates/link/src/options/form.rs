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
    /// Since CUDA 13: `.note.nv.tkinfo` and `.note.nv.cuinfo` say it, and an attribute has the
    /// number of barriers.
    Notes,
}

impl FileForm {
    /// The form that the release `dialect` writes for `target`.
    pub(crate) fn of(dialect: &Dialect, target: &Arch) -> Self {
        match target.flavour {
            Flavour::Classic if dialect.all_in_header => FileForm::Header,
            _ => FileForm::Notes,
        }
    }
}
