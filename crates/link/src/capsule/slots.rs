//! Jump slots of unified functions beside Mercury.
//!
//! In: objects, each slot in both halves; where the slots go in `.nv.uft`. Out: the table's bytes in either half, and
//! what places in it are called there. In an object a slot is a function like any other: six instructions, and behind
//! them the two of the padding that ends each function's code. nvlink runs its finalizer over the table as over one
//! function: in place of each padding the instruction before it is repeated, and one padding as long as a slot ends
//! the table (docs/MERCURY.md). Since CUDA 13.1 each slot keeps its padding, and ptxas leaves out what fills a slot up to it:
//! nvlink's finalizer adds that, in objects too ([`Slot::read`]). Guaranteed by [`odd`]: a slot that gets here has that form.

use culd_cubin::arch::Flavour;
use culd_cubin::capmerc::{self, Capsule, Kind as Form, Record};
use culd_cubin::unified::SLOT;
use culd_cubin::{Cubin, Malformed, RelocEntry, Section, SectionIndex, Symbol};
use std::borrow::Cow;

use super::twins::Twins;
use crate::Dialect;
use crate::draft::Kind;
use crate::id::SectionId;
use crate::merge::Merged;
use crate::objects::{Failure, Objects, Role};
use crate::symbols::Symbols;

/// Instructions of a slot, and those that are not padding.
const INSTRUCTIONS: usize = (SLOT / capmerc::INSTRUCTION) as usize;
const OWN: usize = 6;
/// How the record of a slot's jump starts.
const JUMP_RECORD: [u8; 2] = [0x42, 0x0a];
/// Where the record of a slot's jump is in its Mercury code.
const JUMP: u64 = 0x18;
/// Bytes of a slot before compression, as nvlink counts them in relocations of the table.
const EXPANDED: u64 = 0xa0;
/// A group of two instructions and one of eight, without records: what stands for padding.
const PADDING: [u8; 2] = [0x50, 1];
const LAST_PADDING: [u8; 2] = [0x50, 4];

/// What fills a slot: an instruction that does nothing, as nvlink's finalizer has it in code without `-g`.
const FILLER: [u8; 16] = [0x18, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe2, 0x0f, 0];

/// Bytes of machine code behind the last slot.
pub(crate) fn tail(flavour: Flavour, dialect: &Dialect) -> u64 {
    match flavour {
        Flavour::Mercury if !dialect.slots_keep_padding => SLOT,
        _ => 0,
    }
}

/// What a relocation of Mercury calls the slot that is `offset` bytes behind the start of the table.
pub(crate) fn mercury_place(offset: u64, dialect: &Dialect) -> u64 {
    offset / SLOT * if dialect.slots_keep_padding { SLOT } else { EXPANDED }
}

/// Value and size of the function of the slot at `value` in the symbol table of machine code, where nvlink takes the offset of Mercury
/// for one in the expanded code (a defect, kept: docs/DIFFERENCES.md, slots-of-mercury).
pub(crate) fn machine_symbol(value: u64, table: u64, dialect: &Dialect) -> (u64, u64) {
    if dialect.slots_keep_padding {
        return (value, if value == 0 { table } else { SLOT });
    }
    let start = machine_place(value);
    let next = value + SLOT;
    let end = if value == 0 || next + SLOT >= table { table } else { machine_place(next) };
    (start, end - start)
}

/// What `.debug_frame` has for the length of the slot at the start of a table.
pub(crate) fn first_length(table: u64, dialect: &Dialect) -> u64 {
    if dialect.slots_keep_padding {
        return SLOT;
    }
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

/// Both halves of the table, machine code first. In a link `for_debugger` padding stays as it is (docs/DIFFERENCES.md,
/// slots-for-debugger).
pub(crate) fn table(
    objects: &Objects<'_>,
    merged: &Merged<'_>,
    for_debugger: bool,
) -> (Vec<u8>, Vec<u8>) {
    let keeps_padding = merged.draft.dialect.slots_keep_padding;
    let mut slots = Vec::with_capacity(merged.unified.slots.len());
    for slot in &merged.unified.slots {
        let object = &objects[slot.object];
        if let Some(section) = object.symbol(slot.function).defined_in() {
            let place = merged.draft.symbols[slot.stub].value;
            let size = object.mercury_symbol(slot.function).map_or(SLOT, |symbol| symbol.size);
            let halves = (object.section(section).data, object.twin_data(section));
            slots.push((place, Slot::read_again(halves, size)));
        }
    }
    slots.sort_unstable_by_key(|slot| slot.0);
    let mut code = Vec::with_capacity(SLOT as usize * (slots.len() + 1));
    let mut entries: Vec<Option<&[u8]>> = Vec::with_capacity(INSTRUCTIONS * slots.len() + 1);
    for (_, slot) in &slots {
        let instructions = || slot.own.chunks_exact(capmerc::INSTRUCTION as usize);
        let (kept, repeated) = match keeps_padding {
            true if for_debugger => (INSTRUCTIONS, None),
            true => (OWN, instructions().next_back()),
            false => (OWN, instructions().nth(OWN - 1)),
        };
        let whole = instructions().take(kept).chain(repeated.into_iter().cycle());
        whole.take(INSTRUCTIONS).for_each(|word| code.extend_from_slice(word));
        let records = slot.records.iter().take(OWN);
        entries.extend(records.map(|record| slot.bytes(record).filter(|b| !b.is_empty())));
        match keeps_padding {
            true => entries.push(Some(&PADDING)),
            false => entries.extend([None; INSTRUCTIONS - OWN]),
        }
    }
    if let (Some((_, first)), false) = (slots.first(), keeps_padding) {
        let padding = first.own.chunks_exact(capmerc::INSTRUCTION as usize).skip(OWN);
        let repeated = padding.clone().next_back().into_iter().cycle();
        padding.chain(repeated).take(INSTRUCTIONS).for_each(|word| code.extend_from_slice(word));
        entries.push(Some(&LAST_PADDING));
    }
    (code, capmerc::encode(&entries))
}

/// Both halves of the slots that stay sections of their own, in an object.
pub(crate) fn in_object(
    objects: &Objects<'_>,
    symbols: &Symbols,
    merged: &Merged<'_>,
) -> Vec<(SectionId, Vec<u8>, Vec<u8>)> {
    let sections = merged.draft.sections.iter();
    let slots = sections.filter(|(_, section)| section.kind == Kind::JumpSlots && !section.dropped);
    let halves = slots.filter_map(|(id, section)| {
        let program = merged.draft.symbols[section.function?].program?;
        let site = symbols.all[program].definition?;
        let size = objects[site.object].mercury_symbol(site.index)?.size;
        let part = section.parts.first()?;
        let slot = Slot::read_again((part.bytes, part.twin), size);
        Some((id, slot.own.into_owned(), slot.twin.into_owned()))
    });
    halves.collect()
}

/// One slot as it goes into the output.
struct Slot<'d> {
    /// Machine code.
    own: Cow<'d, [u8]>,
    /// Mercury code; empty where a file has none.
    twin: Cow<'d, [u8]>,
    /// The records of that.
    records: Vec<Record>,
}

impl<'d> Slot<'d> {
    /// The slot with this code, which has `expanded` bytes before compression: what it has less is filled up in front of its
    /// padding, which has as much more (cases unified/frames and unified/relocatable by CUDA 13.1). Errors: damaged Mercury
    /// code, of the section called `name`.
    fn read(
        name: &[u8],
        (own, twin): (&'d [u8], &'d [u8]),
        expanded: u64,
    ) -> Result<Self, Malformed> {
        if twin.is_empty() {
            return Ok(Slot { own: own.into(), twin: twin.into(), records: Vec::new() });
        }
        let records: Vec<Record> = Capsule::parse(name, twin)?.records().collect();
        match fill((own, twin), &records, expanded) {
            None => Ok(Slot { own: own.into(), twin: twin.into(), records }),
            Some((own, twin)) => {
                let records = Capsule::parse(name, &twin)?.records().collect();
                Ok(Slot { own: own.into(), twin: twin.into(), records })
            }
        }
    }

    /// The same of one that phase `objects` has read.
    fn read_again(halves: (&'d [u8], &'d [u8]), expanded: u64) -> Self {
        Slot::read(b"", halves, expanded).expect("phase `objects` has read it")
    }

    /// The bytes of a record.
    fn bytes(&self, record: &Record) -> Option<&[u8]> {
        self.twin.get(record.bytes.clone())
    }

    /// The record of the padding, and those in front of it.
    fn split(&self) -> Option<(&[u8], &[Record])> {
        let (padding, own) = self.records.split_last()?;
        Some((self.bytes(padding)?, own))
    }

    /// Why it has not the form that [`table`] knows; `halves` are its sections, and where its jump has a relocation.
    fn oddity(
        &self,
        cubin: &Cubin<'_>,
        halves: [(SectionIndex, &Section<'_>, u64); 2],
    ) -> Option<Failure> {
        let [(_, slot, _), (_, mercury, _)] = halves;
        if self.has_frame() {
            let section = String::from_utf8_lossy(slot.name);
            let reason = format!(
                "section '{section}' is a jump slot with a frame, which the table of slots has no form for"
            );
            return Some(Failure::Unsupported(reason));
        }
        if !self.has_form() {
            let what = "Mercury code of a jump slot that is not six instructions and padding";
            return Some(Malformed::section(mercury.name, 0, what).into());
        }
        let (_, section, place) =
            halves.into_iter().find(|&(target, _, place)| !has_jump(cubin, target, place))?;
        let what = format!("a jump slot without its one relocation, at {place:#x}");
        Some(Malformed::section(section.name, place, what).into())
    }

    /// Six entries of an instruction each, and the padding.
    fn has_form(&self) -> bool {
        let plain = |record: &Record| matches!(record.kind, Form::Elided | Form::Short);
        self.split().is_some_and(|(padding, own)| {
            own.len() == OWN && own.iter().all(plain) && padding == PADDING
        })
    }

    /// The form of slots of functions with parameters on the stack: in front of the jump the frame, one instruction or, where a
    /// parameter is aligned to 16 bytes, three, and the less padding. nvlink takes out the padding of all but the last slot, so that the others are not where
    /// their entries say, and puts the relocation on the frame, or does not end (docs/DIFFERENCES.md, slots-with-frames).
    fn has_frame(&self) -> bool {
        let Some((padding, own)) = self.split() else { return false };
        // sm_120 since 13.3 has a record for what makes the frame, too.
        let is_jump =
            |record: &Record| self.bytes(record).is_some_and(|b| b.starts_with(&JUMP_RECORD));
        padding_of(padding).is_some_and(|padding| own.len() + padding == INSTRUCTIONS)
            && own.iter().position(is_jump).is_some_and(|jump| jump > 0)
            && own.iter().all(|record| matches!(record.kind, Form::Elided | Form::Short))
    }
}

/// Both halves of a slot with what is missing, if something is and the padding has room for it.
fn fill(
    (own, twin): (&[u8], &[u8]),
    records: &[Record],
    expanded: u64,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let missing = (SLOT.checked_sub(expanded)? / capmerc::INSTRUCTION) as usize;
    let (padding, front) = records.split_last()?;
    let there = padding_of(twin.get(padding.bytes.clone())?)?;
    if missing == 0 || there <= missing || front.len() + there != INSTRUCTIONS {
        return None;
    }
    let padding = padding_bytes(there - missing);
    let records =
        front.iter().map(|record| twin.get(record.bytes.clone()).filter(|b| !b.is_empty()));
    let entries: Vec<Option<&[u8]>> =
        records.chain(std::iter::repeat_n(None, missing)).chain([Some(&padding[..])]).collect();
    let (start, padding) = own.split_at_checked(front.len() * capmerc::INSTRUCTION as usize)?;
    let padding = padding.get(..(there - missing) * capmerc::INSTRUCTION as usize)?;
    let own = [start, &FILLER.repeat(missing), padding].concat();
    Some((own, capmerc::encode(&entries)))
}

/// How many instructions a record that stands for padding stands for.
fn padding_of(record: &[u8]) -> Option<usize> {
    let value = u16::from_le_bytes(record.try_into().ok()?);
    (value & 0x7f == 0x50).then_some(usize::from(value >> 7))
}

/// The record that stands for `count` instructions of padding, at most those of a slot.
fn padding_bytes(count: usize) -> [u8; 2] {
    ((count as u16) << 7 | 0x50).to_le_bytes()
}

/// Why a slot of an object has not the form that [`table`] knows; the first of them. Errors: damaged Mercury code, of any slot.
pub(super) fn odd(
    cubin: &Cubin<'_>,
    roles: &[Role],
    twins: &Twins,
) -> Result<Option<Failure>, Malformed> {
    let mut first = None;
    for ((index, slot), _) in
        cubin.section_indices().zip(roles).filter(|(_, role)| **role == Role::JumpSlot)
    {
        let twin = twins.of(index).and_then(|twin| Some((twin, cubin.section(twin)?)));
        let Some((twin, mercury)) = twin else { continue };
        let own = |symbol: &&Symbol<'_>| symbol.defined_in() == Some(twin) && symbol.is_function();
        let size = cubin.mercury_symbols.iter().find(own).map_or(SLOT, |symbol| symbol.size);
        // All are read, though one may be odd: an object that is linked again keeps them.
        let read = Slot::read(mercury.name, (slot.data, mercury.data), size)?;
        first = first.or_else(|| read.oddity(cubin, [(index, slot, 0), (twin, mercury, JUMP)]));
    }
    Ok(first)
}

/// True for a slot whose one relocation is about a function, at `place`.
fn has_jump(cubin: &Cubin<'_>, target: SectionIndex, place: u64) -> bool {
    let tables = cubin.sections.iter().filter(|section| section.info_section() == Some(target));
    let all: Vec<RelocEntry> =
        tables.flat_map(|table| table.relocations().iter().collect::<Vec<_>>()).collect();
    let [record] = all[..] else { return false };
    record.offset == place && cubin.symbol(record.symbol).is_some_and(Symbol::is_function)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of ptxas by their records; a frame of three instructions is that of 13.1 and later.
    #[test]
    fn slots_with_frames_are_told_from_others() {
        const JUMP: Option<&[u8]> = Some(&[0x42, 0x0a, 2, 0x0e]);
        let form = |entries: &[Option<&[u8]>]| {
            let code = capmerc::encode(entries);
            let slot = Slot::read_again((&[], &code), SLOT);
            (slot.has_form(), slot.has_frame())
        };
        let padding = |count| padding_bytes(count);
        assert_eq!(form(&[JUMP, None, None, None, None, None, Some(&padding(2))]), (true, false));
        assert_eq!(form(&[None, JUMP, None, None, None, Some(&padding(3))]), (false, true));
        assert_eq!(form(&[None, None, None, JUMP, None, Some(&padding(3))]), (false, true));
        const ADD: Option<&[u8]> = Some(&[0x42, 0x0c, 0x42, 6]);
        assert_eq!(form(&[ADD, JUMP, None, Some(&padding(5))]), (false, true));
        const OTHER: Option<&[u8]> = Some(&[0x42, 0x33, 0, 0x0e]);
        assert_eq!(form(&[JUMP, OTHER, None, None, None, None, Some(&padding(2))]), (true, false));
        // No jump, one too few instructions.
        assert_eq!(form(&[None, None, None, None, None, Some(&padding(3))]), (false, false));
        assert_eq!(form(&[None, JUMP, None, None, Some(&padding(3))]), (false, false));
    }

    /// What nvlink 13.0.88 has for nine slots, and for one.
    #[test]
    fn symbols_of_slots_are_those_of_nvlink() {
        let old = Dialect::oldest();
        let starts = [0, 0x60, 0xc0, 0x120, 0x190, 0x200, 0x260, 0x2c0, 0x320];
        let table = SLOT * 10;
        for (slot, start) in (0..).zip(starts) {
            let next = starts.get(slot as usize + 1).copied().unwrap_or(table);
            let size = if slot == 0 { table } else { next - start };
            assert_eq!(machine_symbol(SLOT * slot, table, old), (start, size), "slot {slot}");
            assert_eq!(mercury_place(SLOT * slot + 0x18, old), 0xa0 * slot);
        }
        assert_eq!(machine_symbol(0, 2 * SLOT, old), (0, 2 * SLOT));
        assert_eq!((first_length(table, old), first_length(2 * SLOT, old)), (0x60, 2 * SLOT));
    }
}
