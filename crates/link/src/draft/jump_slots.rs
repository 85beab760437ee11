//! Offsets in the table of jump slots of a file with Mercury.
//!
//! In: the offset of a slot in the draft. Out: the offset by which the symbol table, relocations
//! and `.debug_frame` name that slot in either half. The contents of slots are not read here.

use culd_cubin::arch::Flavour;
use culd_cubin::capmerc;
use culd_cubin::unified::SLOT;

use super::Draft;
use super::kind::SectionKind;
use super::section::OutSymbol;
use crate::options::dialect::Dialect;

/// Bytes of a slot before compression, as nvlink counts them in relocations of the table.
const EXPANDED: u64 = 0xa0;

/// Bytes of machine code behind the last slot.
pub(crate) fn tail(flavour: Flavour, dialect: &Dialect) -> u64 {
    match flavour {
        Flavour::Mercury if !dialect.slots_keep_padding => SLOT,
        _ => 0,
    }
}

/// The offset by which a relocation of Mercury names the slot at `offset` in the table.
pub(crate) fn mercury_place(offset: u64, dialect: &Dialect) -> u64 {
    offset / SLOT * if dialect.slots_keep_padding { SLOT } else { EXPANDED }
}

/// Value and size of `symbol` in the symbol table of machine code, if it is the function of a slot
/// in the table of a program with Mercury.
pub(crate) fn symbol_of_slot(draft: &Draft<'_>, symbol: &OutSymbol) -> Option<(u64, u64)> {
    let is_moved = draft.flavour == Flavour::Mercury && !draft.relocatable;
    if !is_moved || symbol.program.is_none() {
        return None;
    }
    let table = &draft.sections[symbol.section?];
    let is_slot = table.kind == SectionKind::JumpSlots;
    is_slot.then(|| machine_symbol(symbol.value, table.size, draft.dialect))
}

/// Value and size, in the symbol table of machine code, of the function of the slot at `value`.
/// nvlink takes the Mercury offset for an offset in the expanded code (a defect, kept:
/// docs/DIFFERENCES.md, slots-of-mercury).
fn machine_symbol(value: u64, table: u64, dialect: &Dialect) -> (u64, u64) {
    if dialect.slots_keep_padding {
        return (value, if value == 0 { table } else { SLOT });
    }
    let start = machine_place(value);
    let next = value + SLOT;
    let end = if value == 0 || next + SLOT >= table { table } else { machine_place(next) };
    (start, end - start)
}

/// The length that `.debug_frame` has for the first slot of a table.
pub(crate) fn first_length(table: u64, dialect: &Dialect) -> u64 {
    if dialect.slots_keep_padding {
        return SLOT;
    }
    if table == 2 * SLOT { table } else { machine_place(SLOT) }
}

/// The offset in machine code of the instruction that starts at `offset` of the expanded code, or
/// next behind it. Of the ten units of an expanded slot the jump takes three, every other
/// instruction one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of nvlink 13.0.88 for nine slots, and for one.
    #[test]
    fn symbols_of_slots_are_those_of_nvlink() {
        let old = Dialect::usual();
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
