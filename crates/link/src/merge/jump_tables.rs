//! Merging: jump tables in the machine code of copies that lost, beside Mercury.
//!
//! In: the banks of literals of accepted copies, then those of copies that lost. Out: the bytes that the latter have in
//! machine code. nvlink links Mercury's tables, in which there are only relocations, and computes machine code's for the
//! code that counts: a relocation of any copy becomes the place of that label of the accepted copy, and 0 where the
//! accepted copy's own table does not name it (case literals/jump-tables-of-copies).

use culd_cubin::SectionIndex;
use culd_cubin::arch::Flavour;
use hashbrown::HashMap;

use super::Merge;
use crate::draft::{Content, Part};
use crate::id::SectionId;
use crate::objects::Object;

/// `R_MERCURY_PROG_REL32`: an entry of a table.
const ENTRY: u32 = 0x10008;
/// Bytes of an entry of machine code.
const ENTRY_SIZE: usize = 4;

/// The entries of accepted copies by code and number of the bank, then by label of Mercury code.
pub(super) type Tables<'d> = HashMap<(SectionId, u8), HashMap<i64, &'d [u8]>>;

/// Offset and label of each entry of bank `index`.
fn entries(object: &Object<'_>, index: SectionIndex) -> Vec<(u64, i64)> {
    if !object.is_patched(index) {
        return Vec::new();
    }
    let tables = object.reloc_sections().filter(|&(.., target)| target == index);
    let mut entries = Vec::new();
    for (_, section, _) in tables {
        let records = section.relocations();
        let records = records.iter().filter(|record| record.kind == ENTRY);
        entries.extend(records.map(|record| (record.offset, record.addend)));
    }
    entries
}

impl<'d> Merge<'_, 'd> {
    /// True when machine code is computed from Mercury.
    pub(super) fn computes_tables(&self) -> bool {
        self.merged.draft.flavour == Flavour::Mercury
    }

    /// Notes the labels of the bank `index` of an accepted copy of `code`.
    pub(super) fn note_tables(
        &mut self,
        object: &Object<'d>,
        index: SectionIndex,
        code: SectionId,
        number: u8,
    ) {
        if !self.computes_tables() {
            return;
        }
        let data = object.section(index).data;
        let label = |(offset, label)| {
            let at = usize::try_from(offset).ok()?;
            Some((label, data.get(at..at.checked_add(ENTRY_SIZE)?)?))
        };
        let labels: HashMap<_, _> = entries(object, index).into_iter().filter_map(label).collect();
        if !labels.is_empty() {
            self.tables.insert((code, number), labels);
        }
    }

    /// The bank `index` of a copy of `code` that lost.
    pub(super) fn lost_content(
        &self,
        object: &Object<'d>,
        index: SectionIndex,
        code: SectionId,
        number: u8,
    ) -> Content<'d> {
        let (input, twin) = (object.section(index), object.twin_data(index));
        if !self.computes_tables() {
            return Content::whole(input, twin);
        }
        let mut parts = vec![Part { offset: 0, bytes: twin, twin }];
        let label = |(offset, label): (u64, i64)| {
            let bytes = *self.tables.get(&(code, number))?.get(&label)?;
            let inside = offset.checked_add(ENTRY_SIZE as u64)? <= input.size;
            inside.then_some(Part { offset, bytes, twin: &[] })
        };
        parts.extend(entries(object, index).into_iter().filter_map(label));
        Content { parts, size: input.size, align: input.align() }
    }
}
