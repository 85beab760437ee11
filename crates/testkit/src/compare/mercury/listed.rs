//! Bytes that differ because nvlink leaves what makes no sense, or knows more (docs/DIFFERENCES.md).
//!
//! In: two linked cubins. Out: the same bytes in both where an entry says so. Guaranteed: places follow from relocations and
//! attributes, never from what differs.

use super::inputs::{COMPAT, Inputs, devices, finalizer};
use culd_cubin::SectionIndex;
use culd_cubin::elf::sht;
use culd_inspect::view::View;
use std::collections::HashMap;

/// Bytes of an entry of a jump table.
const ENTRY: usize = 4;

/// Clears entries of jump tables that several copies of a function fill: nvlink computes those of the copy that counts
/// first, and then the other's (jump-tables-of-replaced). True if there are some that differ.
pub(super) fn tables(view: &View<'_>, theirs: &mut [u8], ours: &mut [u8]) -> bool {
    let mut any = false;
    let code =
        view.cubin.section_indices().filter(|(_, section)| section.constant_bank() == Some(2));
    let banks: HashMap<&[u8], SectionIndex> = code
        .filter_map(|(index, section)| Some((section.name.strip_prefix(b".nv.constant2.")?, index)))
        .collect();
    for table in view.cubin.sections.iter().filter(|s| s.sh_type == sht::MERCURY_RELA) {
        let function = table.name.strip_prefix(b".nv.merc.rela.nv.constant.optimizer.");
        let bank = function.and_then(|function| banks.get(function));
        let raw = bank.and_then(|&SectionIndex(bank)| view.tables.sections.get(bank as usize));
        let Some(raw) = raw else { continue };
        let mut labels = HashMap::new();
        for record in table.relocations().iter() {
            let label = *labels.entry(record.offset).or_insert(record.addend);
            let at = (raw.offset + record.offset) as usize;
            let (Some(theirs), Some(ours)) =
                (theirs.get_mut(at..at + ENTRY), ours.get_mut(at..at + ENTRY))
            else {
                continue;
            };
            if label != record.addend {
                any |= theirs != ours;
                theirs.fill(0);
                ours.fill(0);
            }
        }
    }
    any
}

/// Takes over what nvlink tells of the devices that machine code is good for, if code may be the reason that is not in the
/// program (family-of-dead-code). True if it was taken over.
pub(super) fn family(
    (theirs, ours): (&View<'_>, &View<'_>),
    inputs: &Inputs,
    expected: &[u8],
    actual: &mut [u8],
) -> bool {
    let (Some(all), Some(own)) = (devices(&theirs.cubin), devices(&ours.cubin)) else {
        return false;
    };
    let more = all & !own;
    if more == 0 || own & !all != 0 || !inputs.may_suit(more, &ours.cubin) {
        return false;
    }
    let (Some(from), Some(to)) = (place(theirs), place(ours)) else { return false };
    match (expected.get(from..from + 8), actual.get_mut(to..to + 8)) {
        (Some(from), Some(to)) => to.copy_from_slice(from),
        _ => return false,
    }
    true
}

/// Where the attribute's value is in the file.
fn place(view: &View<'_>) -> Option<usize> {
    let (index, section) =
        view.cubin.section_indices().find(|(_, section)| section.name == COMPAT)?;
    let raw = view.tables.sections.get(index.0 as usize)?;
    let record = finalizer(section)?;
    let inside = record.payload.as_ptr() as usize - section.data.as_ptr() as usize;
    Some(raw.offset as usize + inside)
}
