//! Jump slots of unified functions beside Mercury.
//!
//! In: objects, each slot in both halves; where the slots go in `.nv.uft`. Out: the table's bytes in either half, and
//! what places in it are called there. In an object a slot is a function like any other: six instructions, and behind
//! them the two of the padding that ends each function's code. nvlink runs its finalizer over the table as over one
//! function: in place of each padding the instruction before it is repeated, and one padding as long as a slot ends
//! the table (docs/MERCURY.md). Guaranteed by [`odd`]: a slot that gets here has that form.

use culd_cubin::arch::Flavour;
use culd_cubin::capmerc::{self, Capsule, Kind as Form, Record};
use culd_cubin::unified::SLOT;
use culd_cubin::{Cubin, Malformed, RelocEntry, Section, SectionIndex, Symbol};

use super::twins::Twins;
use crate::merge::Merged;
use crate::objects::{Failure, Objects, Role};

/// Instructions of a slot, and those that are not padding.
const INSTRUCTIONS: usize = (SLOT / capmerc::INSTRUCTION) as usize;
const OWN: usize = 6;
/// Where the record of a slot's jump is in its Mercury code.
const JUMP: u64 = 0x18;
/// Bytes of a slot before compression, as nvlink counts them in relocations of the table.
const EXPANDED: u64 = 0xa0;
/// A group of two instructions and one of eight, without records: what stands for padding.
const PADDING: [u8; 2] = [0x50, 1];
const LAST_PADDING: [u8; 2] = [0x50, 4];
/// The entries of a slot with a frame, and its padding, three instructions.
const FRAMED: [Form; 5] = [Form::Elided, Form::Short, Form::Elided, Form::Elided, Form::Elided];
const FRAMED_PADDING: [u8; 2] = [0xd0, 1];

/// Bytes of machine code behind the last slot.
pub(crate) fn tail(flavour: Flavour) -> u64 {
    match flavour {
        Flavour::Classic => 0,
        Flavour::Mercury => SLOT,
    }
}

/// What a relocation of Mercury calls the slot that is `offset` bytes behind the start of the table.
pub(crate) fn mercury_place(offset: u64) -> u64 {
    offset / SLOT * EXPANDED
}

/// Value and size of the function of the slot at `value` in the symbol table of machine code, where nvlink takes the offset of Mercury
/// for one in the expanded code (a defect, kept: docs/DIFFERENCES.md, slots-of-mercury).
pub(crate) fn machine_symbol(value: u64, table: u64) -> (u64, u64) {
    let start = machine_place(value);
    let next = value + SLOT;
    let end = if value == 0 || next + SLOT >= table { table } else { machine_place(next) };
    (start, end - start)
}

/// What `.debug_frame` has for the length of the slot at the start of a table.
pub(crate) fn first_length(table: u64) -> u64 {
    if table == 2 * SLOT { table } else { machine_place(SLOT) }
}

/// The instruction, as an offset in machine code, that starts at `offset` of the expanded code or next behind it. The
/// jump takes three units of the ten that a slot has there, every other instruction one.
fn machine_place(offset: u64) -> u64 {
    let units = offset / capmerc::INSTRUCTION;
    let of_slot = EXPANDED / capmerc::INSTRUCTION;
    let (slot, unit) = (units / of_slot, units % of_slot);
    let instruction = match unit {
        0 => 0,
        1..=3 => 1,
        _ => unit - 2,
    };
    slot * SLOT + instruction * capmerc::INSTRUCTION
}

/// Both halves of the table, machine code first.
pub(crate) fn table(objects: &Objects<'_>, merged: &Merged<'_>) -> (Vec<u8>, Vec<u8>) {
    let mut slots = Vec::with_capacity(merged.unified.slots.len());
    for slot in &merged.unified.slots {
        let object = &objects[slot.object];
        if let Some(section) = object.symbol(slot.function).defined_in() {
            let place = merged.draft.symbols[slot.stub].value;
            slots.push((place, object.section(section).data, object.twin_data(section)));
        }
    }
    slots.sort_unstable_by_key(|slot| slot.0);
    let mut code = Vec::with_capacity(SLOT as usize * (slots.len() + 1));
    let mut entries: Vec<Option<&[u8]>> = Vec::with_capacity(8 * slots.len() + 1);
    for (_, own, twin) in &slots {
        let instructions = own.chunks_exact(capmerc::INSTRUCTION as usize).take(OWN);
        let repeated = instructions.clone().next_back().into_iter().cycle();
        instructions
            .chain(repeated)
            .take(INSTRUCTIONS)
            .for_each(|word| code.extend_from_slice(word));
        let records = Capsule::parse(b"", twin).into_iter().flat_map(|capsule| capsule.records());
        entries.extend(
            records.take(OWN).map(|record| twin.get(record.bytes).filter(|b| !b.is_empty())),
        );
        entries.extend([None; INSTRUCTIONS - OWN]);
    }
    if let Some((_, own, _)) = slots.first() {
        let padding = own.chunks_exact(capmerc::INSTRUCTION as usize).skip(OWN);
        let repeated = padding.clone().next_back().into_iter().cycle();
        padding.chain(repeated).take(INSTRUCTIONS).for_each(|word| code.extend_from_slice(word));
        entries.push(Some(&LAST_PADDING));
    }
    (code, capmerc::encode(&entries))
}

/// Why the slots of an object have not the form that [`table`] knows. Errors: damaged Mercury code.
pub(super) fn odd(
    cubin: &Cubin<'_>,
    roles: &[Role],
    twins: &Twins,
) -> Result<Option<Failure>, Malformed> {
    for ((index, slot), _) in
        cubin.section_indices().zip(roles).filter(|(_, role)| **role == Role::JumpSlot)
    {
        let twin = twins.of(index).and_then(|twin| Some((twin, cubin.section(twin)?)));
        let Some((twin, mercury)) = twin else { continue };
        let records: Vec<Record> = Capsule::parse(mercury.name, mercury.data)?.records().collect();
        if has_frame(mercury, &records) {
            let section = String::from_utf8_lossy(slot.name);
            let reason = format!(
                "section '{section}' is a jump slot with a frame, which the table of slots has no form for"
            );
            return Ok(Some(Failure::Unsupported(reason)));
        }
        if !has_form(mercury, &records) {
            let what = "Mercury code of a jump slot that is not six instructions and padding";
            return Ok(Some(Malformed::section(mercury.name, 0, what).into()));
        }
        for (target, section, place) in [(index, slot, 0), (twin, mercury, JUMP)] {
            if !has_jump(cubin, target, place) {
                let what = format!("a jump slot without its one relocation, at {place:#x}");
                return Ok(Some(Malformed::section(section.name, place, what).into()));
            }
        }
    }
    Ok(None)
}

/// True for a slot whose one relocation is about a function, at `place`.
fn has_jump(cubin: &Cubin<'_>, target: SectionIndex, place: u64) -> bool {
    let tables = cubin.sections.iter().filter(|section| section.info_section() == Some(target));
    let all: Vec<RelocEntry> =
        tables.flat_map(|table| table.relocations().iter().collect::<Vec<_>>()).collect();
    let [record] = all[..] else { return false };
    record.offset == place && cubin.symbol(record.symbol).is_some_and(Symbol::is_function)
}

/// Six entries of an instruction each, and the padding.
fn has_form(section: &Section<'_>, records: &[Record]) -> bool {
    let Some((padding, own)) = records.split_last() else { return false };
    own.len() == OWN
        && own.iter().all(|record| matches!(record.kind, Form::Elided | Form::Short))
        && section.data.get(padding.bytes.clone()) == Some(&PADDING)
}

/// The form of slots of functions with parameters on the stack: the frame in front of the jump, and one instruction more of
/// padding. nvlink takes out the padding of all but the last slot, so that the others are not where their entries say,
/// and puts the relocation on the frame (docs/DIFFERENCES.md, slots-with-frames).
fn has_frame(section: &Section<'_>, records: &[Record]) -> bool {
    let Some((padding, own)) = records.split_last() else { return false };
    let forms: Vec<Form> = own.iter().map(|record| record.kind).collect();
    forms == FRAMED && section.data.get(padding.bytes.clone()) == Some(&FRAMED_PADDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nvlink 13.0.88 has for nine slots, and for one.
    #[test]
    fn symbols_of_slots_are_those_of_nvlink() {
        let starts = [0, 0x60, 0xc0, 0x120, 0x190, 0x200, 0x260, 0x2c0, 0x320];
        let table = SLOT * 10;
        for (slot, start) in (0..).zip(starts) {
            let next = starts.get(slot as usize + 1).copied().unwrap_or(table);
            let size = if slot == 0 { table } else { next - start };
            assert_eq!(machine_symbol(SLOT * slot, table), (start, size), "slot {slot}");
            assert_eq!(mercury_place(SLOT * slot + 0x18), 0xa0 * slot);
        }
        assert_eq!(machine_symbol(0, 2 * SLOT), (0, 2 * SLOT));
        assert_eq!((first_length(table), first_length(2 * SLOT)), (0x60, 2 * SLOT));
    }
}
