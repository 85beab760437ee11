//! Relocation sections of the output, and the input sections that their records come from.

use culd_cubin::SectionIndex;

use crate::base::half::Half;
use crate::base::id::{ObjectId, RelocId, SectionId, SymbolId};

/// Records of an input relocation section that go into an output one.
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
    /// Only the records with offsets in this range of the patched section.
    pub(crate) within: PatchedRange,
    /// Only the records that have this form in the output.
    pub(crate) form: RecordForm,
}

/// A range of the section that records patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PatchedRange {
    /// Bytes.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) end: u64,
}

impl PatchedRange {
    pub(crate) const WHOLE: PatchedRange = PatchedRange { start: 0, end: u64::MAX };

    pub(crate) fn contains(self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }
}

/// The form of a record in the output. A REL section of an input may have records of both forms
/// (case relocations/rel-sections-90).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordForm {
    /// REL or RELA, as in the input.
    AsInInput,
    /// RELA for a REL record: it gets an addend, see
    /// [`crate::draft::merged::MergeResult::gets_addend`].
    RelaOfRel,
}

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
