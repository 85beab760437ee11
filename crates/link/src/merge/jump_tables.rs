//! Merging for files with Mercury: jump tables in the machine code of copies that lost.
//!
//! In: the literal banks of accepted copies, then those of copies that lost. Out: the bytes of the
//! latter in machine code. nvlink links Mercury's tables, which hold relocations only, and computes
//! machine code's tables for the code that counts. A relocation of any copy becomes the place of
//! its label in the accepted copy. It becomes 0 if the accepted copy names the label neither in its
//! own table (case literals/jump-tables-of-copies) nor in a jump without a table. Entries of a
//! replaced copy that its successor's shorter table leaves in place are computed in the same way
//! (case literals/left-behind).

use culd_cubin::SectionIndex;
use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;
use hashbrown::HashMap;

use super::Merger;
use crate::base::id::SectionId;
use crate::draft::merged::BankKey;
use crate::draft::section::{InputChunk, InputContent};
use crate::objects::object::InputObject;

/// `R_MERCURY_PROG_REL32`: an entry of a jump table.
const ENTRY: u32 = 0x10008;
/// Bytes of an entry of machine code.
const ENTRY_SIZE: usize = 4;

/// Jump tables by bank.
pub(super) type JumpTables<'d> = HashMap<BankKey, BankTables<'d>>;

/// An entry of a jump table: offset in the bank, and label in Mercury code.
type JumpTableEntry = (u64, i64);

/// The jump tables in a bank of an accepted copy.
#[derive(Default)]
pub(super) struct BankTables<'d> {
    entries: Vec<JumpTableEntry>,
    /// The bytes that machine code has for a label.
    places: HashMap<i64, &'d [u8]>,
    /// Entries of replaced copies in the same bank.
    left: Vec<JumpTableEntry>,
}

impl<'d> BankTables<'d> {
    /// The bytes that entries of another copy have in machine code, for the code that counts.
    fn filled<'a>(
        &'a self,
        entries: &'a [JumpTableEntry],
    ) -> impl Iterator<Item = InputChunk<'d>> + 'a {
        let place = |&(offset, label): &JumpTableEntry| {
            self.places.get(&label).map(|&bytes| InputChunk { offset, bytes, mercury: &[] })
        };
        entries.iter().filter_map(place)
    }
}

/// The jump table entries of bank `index`.
fn entries(object: &InputObject<'_>, index: SectionIndex) -> Vec<JumpTableEntry> {
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

impl<'d> Merger<'_, 'd> {
    /// True if machine code's tables are computed from Mercury's.
    pub(super) fn computes_tables(&self) -> bool {
        self.merged.draft.flavour == Flavour::Mercury
    }

    /// Notes the jump tables of bank `index` of an accepted copy, as those of bank `key`.
    pub(super) fn note_tables(
        &mut self,
        object: &InputObject<'d>,
        index: SectionIndex,
        key: BankKey,
    ) {
        let entries = if self.computes_tables() { entries(object, index) } else { Vec::new() };
        if entries.is_empty() {
            return;
        }
        let data = object.section(index).data;
        let place = |&(offset, label): &JumpTableEntry| {
            let at = usize::try_from(offset).ok()?;
            Some((label, data.get(at..at.checked_add(ENTRY_SIZE)?)?))
        };
        let table = self.banks.tables.entry(key).or_default();
        table.places = entries.iter().filter_map(place).collect();
        table.entries = entries;
    }

    /// Forgets the jump tables of bank `key`, whose contents are removed with the replaced copy.
    pub(super) fn forget_tables(&mut self, key: BankKey) {
        self.banks.tables.remove(&key);
    }

    /// Makes the jump tables of bank `key` those of a replaced copy, whose contents stay.
    pub(super) fn retire_tables(&mut self, key: BankKey) {
        if let Some(table) = self.banks.tables.get_mut(&key) {
            table.left.append(&mut table.entries);
            table.places.clear();
        }
    }

    /// The bytes that entries of replaced copies have in machine code, for the code that counts.
    /// The chunks of the accepted copy must follow them.
    pub(super) fn left_parts(&self, key: BankKey) -> Vec<InputChunk<'d>> {
        let table = self.banks.tables.get(&key);
        table.map_or(Vec::new(), |table| table.filled(&table.left).collect())
    }

    /// The contents of bank `index` of a copy that lost to the copy with bank `key`.
    pub(super) fn lost_content(
        &self,
        object: &InputObject<'d>,
        index: SectionIndex,
        key: BankKey,
    ) -> InputContent<'d> {
        let (input, mercury) = (object.section(index), object.counterpart_data(index));
        if !self.computes_tables() {
            return InputContent::whole(input, mercury);
        }
        let mut parts = vec![InputChunk { offset: 0, bytes: mercury, mercury }];
        let inside = |&(offset, _): &JumpTableEntry| {
            offset.checked_add(ENTRY_SIZE as u64).is_some_and(|end| end <= input.size)
        };
        let of_jumps = BankTables { places: self.jump_places(key.code), ..BankTables::default() };
        let table = self.banks.tables.get(&key).unwrap_or(&of_jumps);
        let entries: Vec<JumpTableEntry> =
            entries(object, index).into_iter().filter(inside).collect();
        parts.extend(table.filled(&entries));
        InputContent { chunks: parts, size: input.size, align: input.align() }
    }
}

/// The words in front of the labels in an attribute about jumps through registers: place, 0, number
/// of labels.
const JUMP_HEAD: usize = 3;

impl<'d> Merger<'_, 'd> {
    /// The places of labels in the machine code of an accepted copy that jumps without tables
    /// (case literals/jumps-without-table).
    fn jump_places(&self, code: SectionId) -> HashMap<i64, &'d [u8]> {
        let node = self.node_of_text.get(code);
        let source = node.and_then(|node| self.merged.function_infos[node].as_ref());
        let Some((object, list)) =
            source.map(|source| (&self.objects[source.object], source.input))
        else {
            return HashMap::new();
        };
        let Some(mercury) = object.counterparts.of(list) else { return HashMap::new() };
        let jumps = |list| {
            let records = object.info_records(list);
            let records = records.filter(|record| record.code == code::INDIRECT_BRANCH_TARGETS);
            records.flat_map(|record| labels(record.payload)).collect::<Vec<_>>()
        };
        let (mercury, own) = (jumps(list), jumps(mercury));
        let label =
            |bytes: &[u8]| bytes.first_chunk().map(|word| i64::from(u32::from_le_bytes(*word)));
        mercury.into_iter().zip(own).filter_map(|(key, place)| Some((label(key)?, place))).collect()
    }
}

/// The labels in the payload of such an attribute.
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

/// Resets machine code's tables in `parts` to Mercury's bytes: relocations that are computed anew.
pub(super) fn clear(parts: &mut [InputChunk<'_>]) {
    parts.iter_mut().for_each(|part| part.bytes = part.mercury);
}
