//! Relocation sections of the output, and the input sections that their records come from.

use culd_cubin::SectionIndex;

use crate::base::half::Half;
use crate::base::id::{ObjectId, RelocId, SectionId, SymbolId};

/// An input relocation section whose records go into an output one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelocSource {
    pub(crate) object: ObjectId,
    pub(crate) section: SectionIndex,
    /// The section it patches, in the same file.
    pub(crate) target: SectionIndex,
    /// Where the chunk of the patched section starts in the output section, bytes.
    pub(crate) base: u64,
    /// The same in the Mercury half.
    pub(crate) mercury_base: u64,
    /// Only records with offsets in this range of the patched section.
    pub(crate) within: (u64, u64),
    /// Of a REL section: only the records that got an addend if true, only the others if false.
    pub(crate) moved: bool,
}

/// The range of a whole section.
pub(crate) const WHOLE_SECTION: (u64, u64) = (0, u64::MAX);

impl RelocSource {
    /// Where the chunk of the patched section starts in the output section of a half, bytes.
    pub(crate) fn base(&self, half: Half) -> u64 {
        match half {
            Half::Sass => self.base,
            Half::Mercury => self.mercury_base,
        }
    }
}

/// A relocation section of the output.
#[derive(Debug)]
pub(crate) struct RelocSection {
    pub(crate) section: SectionId,
    pub(crate) target: SectionId,
    /// The relocation section that was created before for the same target. With a list for each
    /// target in a hash table instead: +1.4 % instructions on many100.
    pub(crate) previous: Option<RelocId>,
    pub(crate) sources: Vec<RelocSource>,
}

/// The section that records which relocations were applied to `targets`, all of one name.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedRelaSection {
    pub(crate) section: SectionId,
    pub(crate) targets: Vec<SectionId>,
}

/// A field to be zeroed, because the function that its record names is dead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadReference {
    pub(crate) section: SectionId,
    /// Offset in the leading half, bytes.
    pub(crate) offset: u64,
    /// Offset in the SASS half, bytes.
    pub(crate) sass_offset: u64,
    pub(crate) kind: u32,
    /// The file of the record, and the function that it names.
    pub(crate) object: ObjectId,
    pub(crate) function: SymbolId,
}
