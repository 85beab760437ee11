//! Shared memory of an object (`-r`).
//!
//! In: the merged draft. Out: sizes and alignments of the shared sections.

use hashbrown::HashMap;

use crate::base::id::SectionId;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{MergeResult, SharedAllocation};

/// The alignment of the section of arrays without size.
const POOL_ALIGN: u64 = 16;

/// With `-r`: variables get no places, since only the final link knows their users. A section is as
/// large as the sum of its variables, by [`size_in_object`].
pub(crate) fn keep(merged: &mut MergeResult<'_>) {
    let mut members: HashMap<Option<SectionId>, Vec<&SharedAllocation>> = HashMap::new();
    for allocation in merged.shared.allocations.values().filter(|allocation| allocation.defined) {
        members.entry(allocation.kernel_code).or_default().push(allocation);
    }
    let align_of =
        |members: &[&SharedAllocation]| members.iter().map(|allocation| allocation.align).max();
    // A kernel's section has at least the alignment of the pool (case dialects/object).
    let pool_align = members.get(&None).and_then(|members| align_of(members)).unwrap_or(1);
    for id in merged.draft.category_of(SectionKind::Shared).to_vec() {
        let section = &mut merged.draft.sections[id];
        let members = match section.kind {
            SectionKind::Shared => section.owner.and_then(|code| members.get(&Some(code))),
            SectionKind::PoolShared => members.get(&None),
            SectionKind::ReservedShared => {
                section.mercury_size = section.size;
                continue;
            }
            _ => continue,
        };
        let members = members.map_or(&[][..], Vec::as_slice);
        // The pool of a whole program stays without a symbol, too (case
        // whole-program/unused-array-80).
        let whole = section.kind == SectionKind::PoolShared && merged.shared.whole_pool;
        let least = if whole { POOL_ALIGN } else { 1 };
        section.align = align_of(members).unwrap_or(1).max(pool_align).max(least);
        let sum = members.iter().map(|allocation| allocation.size).sum();
        section.size = size_in_object(sum, section.align);
        section.dropped = members.is_empty() && !whole;
        // With nothing in it, that of a whole program's kernel has no symbol.
        if let Some(symbol) = section.symbol.filter(|_| sum == 0) {
            merged.draft.symbols[symbol].dropped = true;
        }
    }
}

/// The size of a shared section in an object, bytes. The rule is that of ptxas and looks odd, but
/// no later step depends on it (case relocatable/pool-sizes).
fn size_in_object(sum: u64, align: u64) -> u64 {
    if sum <= align { sum + align } else { sum }
}
