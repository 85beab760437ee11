//! The system's variables in shared memory, `.nv.shared.reserved.0`.
//!
//! In: the merged draft; as in the objects, the value of each such symbol is its alignment. Out:
//! their offsets in the section, and its size, both as the Mercury half counts. Machine code has
//! them [`crate::base::half::system_shared`] bytes higher. They are sorted like other shared
//! variables (case mercury/reserved-variables).

use std::cmp::Reverse;

use crate::base::id::OutSymbolId;
use crate::base::sort::list_sort;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;

/// Places the variables of an executable.
pub(super) fn place(merged: &mut MergeResult<'_>) {
    let draft = &mut merged.draft;
    let Some(section) = draft.first_of(SectionKind::ReservedShared) else { return };
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
