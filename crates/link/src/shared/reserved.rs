//! Where the system's variables of shared memory lie, `.nv.shared.reserved.0`.
//!
//! In: the merged draft, in which the value of each is its alignment, as ptxas has it. Out: their places in the section, and
//! its size, in Mercury's count; machine code has them [`SYSTEM_SHARED`] bytes higher. They are ordered like other shared variables
//! (case mercury/reserved-variables).

use std::cmp::Reverse;

use crate::draft::Kind;
use crate::id::OutSymbolId;
use crate::merge::Merged;
use crate::sort::list_sort;

/// Places the variables of a program.
pub(super) fn place(merged: &mut Merged<'_>) {
    let draft = &mut merged.draft;
    let Some(section) = draft.first_of(Kind::ReservedShared) else { return };
    let symbols = draft.symbols.iter();
    let inside = symbols.filter(|(_, symbol)| symbol.section == Some(section));
    let members: Vec<OutSymbolId> =
        inside.filter(|(_, symbol)| symbol.program.is_some()).map(|(id, _)| id).collect();
    let key = |id: OutSymbolId| (Reverse(draft.symbols[id].value), draft.symbols[id].size);
    let mut end = 0u64;
    for id in list_sort(&members, &|a, b| key(a) <= key(b)) {
        let symbol = &mut draft.symbols[id];
        let align = if symbol.value.is_power_of_two() { symbol.value } else { 1 };
        symbol.value = end.next_multiple_of(align);
        end = symbol.value + symbol.size;
    }
    draft.sections[section].size = end;
}
