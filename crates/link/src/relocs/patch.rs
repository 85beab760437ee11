//! Bits to be written into an output section.

use culd_reloc::{RelocDesc, RelocValue};

/// Bits to be written into an output section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldPatch {
    /// Offset in the output section, bytes.
    pub(crate) offset: u64,
    pub(crate) desc: &'static RelocDesc,
    pub(crate) value: RelocValue,
    pub(crate) mode: PatchMode,
}

/// How a patch changes the bits of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchMode {
    /// Overwrites the field: the record has the addend (RELA).
    Set,
    /// Adds to the field: the field has the addend (REL).
    Add,
    /// Clears the field: it refers to a dead function.
    Clear,
    /// Overwrites a field that only old programs get.
    Hint,
}

impl FieldPatch {
    /// Writes the bits into the bytes of the output section.
    pub(crate) fn apply(&self, bytes: &mut [u8]) {
        let offset = self.offset as usize;
        let done = match self.mode {
            PatchMode::Set => self.desc.apply(bytes, offset, self.value),
            PatchMode::Add => self.desc.add(bytes, offset, self.value),
            PatchMode::Clear => self.desc.clear(bytes, offset),
            PatchMode::Hint => self.desc.apply_hint(bytes, offset, self.value),
        };
        done.expect("type and place of every patch are checked when it is made");
    }

    /// The bits of the first field before the patch.
    pub(super) fn held_bits(&self, bytes: &[u8]) -> u64 {
        let held = self.desc.first_field(bytes, self.offset as usize);
        held.expect("type and place of every patch are checked when it is made")
    }
}
