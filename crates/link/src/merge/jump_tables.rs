//! Merging: jump tables in the machine code of copies that lost, beside Mercury.
//!
//! In: the banks of literals of accepted copies, then those of copies that lost. Out: the bytes that the latter have in
//! machine code. nvlink links Mercury's tables, in which there are only relocations, and computes machine code's for the
//! code that counts: a relocation of any copy becomes the place of that label of the accepted copy, and 0 where the
//! accepted copy's own table does not name it (case literals/jump-tables-of-copies), nor what it jumps to without a table. So do entries of a replaced copy that
//! its successor's shorter table leaves in place (case literals/left-behind).

use culd_cubin::SectionIndex;
use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;
use hashbrown::HashMap;

use super::Merge;
use crate::draft::{Content, Part};
use crate::id::SectionId;
use crate::objects::Object;

/// `R_MERCURY_PROG_REL32`: an entry of a table.
const ENTRY: u32 = 0x10008;
/// Bytes of an entry of machine code.
const ENTRY_SIZE: usize = 4;

/// The jump tables of functions by code and number of the bank.
pub(super) type Tables<'d> = HashMap<(SectionId, u8), Table<'d>>;

/// Offset and label of Mercury code.
type Entry = (u64, i64);

/// The tables in a bank of the accepted copy.
#[derive(Default)]
pub(super) struct Table<'d> {
    entries: Vec<Entry>,
    /// What machine code has for a label.
    places: HashMap<i64, &'d [u8]>,
    /// Entries of copies that were replaced, in the same bank.
    left: Vec<Entry>,
}

impl<'d> Table<'d> {
    /// What entries of another copy are in machine code of the one that counts.
    fn filled<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = Part<'d>> + 'a {
        let place = |&(offset, label): &Entry| {
            self.places.get(&label).map(|&bytes| Part { offset, bytes, twin: &[] })
        };
        entries.iter().filter_map(place)
    }
}

/// The entries of bank `index`.
fn entries(object: &Object<'_>, index: SectionIndex) -> Vec<Entry> {
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

    /// Notes the tables of the bank `index` of an accepted copy of `code`.
    pub(super) fn note_tables(
        &mut self,
        object: &Object<'d>,
        index: SectionIndex,
        code: SectionId,
        number: u8,
    ) {
        let entries = if self.computes_tables() { entries(object, index) } else { Vec::new() };
        if entries.is_empty() {
            return;
        }
        let data = object.section(index).data;
        let place = |&(offset, label): &Entry| {
            let at = usize::try_from(offset).ok()?;
            Some((label, data.get(at..at.checked_add(ENTRY_SIZE)?)?))
        };
        let table = self.tables.entry((code, number)).or_default();
        table.places = entries.iter().filter_map(place).collect();
        table.entries = entries;
    }

    /// The accepted copy of `code` is replaced; `stays`: its bank is left where it is.
    pub(super) fn replace_tables(&mut self, code: SectionId, number: u8, stays: bool) {
        if !stays {
            self.tables.remove(&(code, number));
        } else if let Some(table) = self.tables.get_mut(&(code, number)) {
            table.left.append(&mut table.entries);
            table.places.clear();
        }
    }

    /// What entries of replaced copies are in machine code of the one that counts, which come behind them.
    pub(super) fn left_parts(&self, code: SectionId, number: u8) -> Vec<Part<'d>> {
        let table = self.tables.get(&(code, number));
        table.map_or(Vec::new(), |table| table.filled(&table.left).collect())
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
        let inside = |&(offset, _): &Entry| {
            offset.checked_add(ENTRY_SIZE as u64).is_some_and(|end| end <= input.size)
        };
        let of_jumps = Table { places: self.jump_places(code), ..Table::default() };
        let table = self.tables.get(&(code, number)).unwrap_or(&of_jumps);
        let entries: Vec<Entry> = entries(object, index).into_iter().filter(inside).collect();
        parts.extend(table.filled(&entries));
        Content { parts, size: input.size, align: input.align() }
    }
}

/// The words of what an attribute tells of jumps through registers: place, 0, number of labels, labels.
const JUMP_HEAD: usize = 3;

impl<'d> Merge<'_, 'd> {
    /// Where the labels of an accepted copy without tables are in its machine code, if it jumps otherwise (case
    /// literals/jumps-without-table).
    fn jump_places(&self, code: SectionId) -> HashMap<i64, &'d [u8]> {
        let node = self.node_of_text.get(code);
        let source = node.and_then(|node| self.merged.function_infos[node].as_ref());
        let Some((object, list)) =
            source.map(|source| (&self.objects[source.object], source.input))
        else {
            return HashMap::new();
        };
        let Some(twin) = object.twins.of(list) else { return HashMap::new() };
        let jumps = |list| {
            let records = object.info_records(list);
            let records = records.filter(|record| record.code == code::INDIRECT_BRANCH_TARGETS);
            records.flat_map(|record| labels(record.payload)).collect::<Vec<_>>()
        };
        let (mercury, own) = (jumps(list), jumps(twin));
        let label =
            |bytes: &[u8]| bytes.first_chunk().map(|word| i64::from(u32::from_le_bytes(*word)));
        mercury.into_iter().zip(own).filter_map(|(key, place)| Some((label(key)?, place))).collect()
    }
}

/// The labels that such an attribute names.
fn labels(payload: &[u8]) -> Vec<&[u8]> {
    let mut rest: Vec<&[u8]> = payload.chunks_exact(ENTRY_SIZE).collect();
    let mut labels = Vec::new();
    while let Some(count) = rest.get(JUMP_HEAD - 1).and_then(|word| word.first_chunk()) {
        let end = JUMP_HEAD.saturating_add(u32::from_le_bytes(*count) as usize).min(rest.len());
        labels.extend_from_slice(&rest[JUMP_HEAD..end]);
        rest.drain(..end);
    }
    labels
}

/// Leaves of machine code's tables in `parts` what Mercury has: relocations that are computed anew.
pub(super) fn clear(parts: &mut [Part<'_>]) {
    parts.iter_mut().for_each(|part| part.bytes = part.twin);
}
