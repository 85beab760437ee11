//! Symbols of shared variables, for the options that keep them (`-g`, `--preserve-relocs`).
//!
//! In: the layout. Out: section and value of every shared symbol that has a place. All others are
//! dropped, and their names too. Rules: docs/LINKING.md, -g and --preserve-relocs.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::sto;
use hashbrown::HashSet;

use super::{KernelNumber, NOWHERE, SharedLayout};
use crate::base::id::{IdVec, NameId, SectionId, SharedId};
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{MergeResult, SharedVariables};
use crate::options::LinkOptions;

/// Gives the symbols of placed variables a section and a value, and drops the others. `own` has the
/// shared section of each kernel and jump slot; all slots share one section of code (case
/// unified/shared-single).
pub(super) fn place(
    merged: &mut MergeResult<'_>,
    own: &[Option<SectionId>],
    layout: &SharedLayout,
    variables: &SharedVariables,
    users: &IdVec<SharedId, Vec<KernelNumber>>,
    referenced: &IdVec<SharedId, bool>,
    options: &LinkOptions,
) {
    // The Mercury half counts from the program's own part. Phase `write` adds the reserved part for
    // the machine code.
    let reserved = match options.target.flavour {
        Flavour::Classic => options.target.reserved_shared,
        Flavour::Mercury => 0,
    };
    let pool = merged.draft.first_of(SectionKind::PoolShared);
    // 11.8 loses the symbols of variables that move from the pool into the section of an entry
    // (cases debug/shared-with-g and placed-twice-g).
    let loses_moved = options.for_debugger() && !options.dialect.keeps_moved_shared;
    let allocations = variables.allocations.values().filter(|_| loses_moved);
    let of_pool = allocations.filter(|allocation| allocation.is_pool());
    let moved: HashSet<SharedId> = of_pool.map(|allocation| allocation.variable).collect();
    for id in merged.draft.symbols.ids() {
        let Some(variable) = merged.draft.symbols[id].shared else { continue };
        let (section, value) = if layout.is_extern[variable] {
            let base = if layout.pool_end == 0 { 0 } else { reserved };
            let value = layout.extern_values.as_ref().map_or(NOWHERE, |values| values[variable]);
            let value = value.wrapping_add(base);
            // A symbol without its own value is kept only if the reserved part changes its value.
            (pool.filter(|_| value != NOWHERE), value)
        } else if layout.offsets[variable] == NOWHERE {
            (None, 0)
        } else {
            let section = match users[variable][..] {
                [_] if moved.contains(&variable) => None,
                [entry] => own[entry],
                _ if users[variable].len() > 1 || referenced[variable] => pool,
                _ => None,
            };
            // nvlink adds the reserved part once for every placed definition (case shared/weak).
            (section, reserved * layout.placements[variable] + layout.offsets[variable])
        };
        let symbol = &mut merged.draft.symbols[id];
        symbol.section = section;
        symbol.value = value;
        if !options.for_debugger() {
            symbol.other |= sto::INTERNAL;
        }
        symbol.dropped |= section.is_none();
        let own = section.is_some() && section != pool;
        if own && options.dialect.own_shared_is_local {
            symbol.info &= 0xf;
        }
    }
    remove_names(&mut merged.draft);
}

/// Removes the names of dropped shared variables from the string tables.
fn remove_names(draft: &mut Draft<'_>) {
    let symbols = || draft.symbols.values();
    let alive: HashSet<NameId> = symbols().filter(|s| !s.dropped).map(|s| s.name).collect();
    let gone = symbols().filter(|symbol| symbol.dropped && symbol.shared.is_some());
    let gone: Vec<NameId> = gone.map(|s| s.name).filter(|name| !alive.contains(name)).collect();
    for name in gone {
        draft.remove_name(name);
    }
}
