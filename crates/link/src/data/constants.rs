//! A second, tighter layout for constant variables that do not fit their bank.
//!
//! In: the merged draft. Out: `.nv.constant3` laid out anew, if it was too large. nvlink first
//! concatenates the files' sections. Only if the result is over the limit, it places every
//! *variable* by itself, which saves padding and the bytes of weak copies that lost
//! (docs/rules/diagnostics.md, 4.1; cases errors-limits/*).

use culd_cubin::elf::{stb, sto, stt};
use hashbrown::HashSet;

use crate::base::id::{NameId, OutSymbolId, SectionId};
use crate::base::sort::list_sort;
use crate::draft::Draft;
use crate::draft::kind::BANK_LIMIT;
use crate::draft::merged::{MergeResult, SectionPlacement};
use crate::draft::offset_map::MovedRange;
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::options::dialect::SecondLayout;
use crate::symbols::Symbols;

/// The symbol whose value is the size of the bank of constant variables; code compares it with an
/// address for `isspacep.const` (case constant/size-of-bank).
pub(crate) const SIZE_SYMBOL: &[u8] = b".nv.ptx.const0.size";

/// Its value in a program without such a bank (case constant/size-of-no-bank).
pub(crate) const NO_BANK: u64 = u64::MAX;

/// With `-r`: sets the symbols named [`SIZE_SYMBOL`] to the present size of the bank.
pub(crate) fn define_size_symbol(draft: &mut Draft<'_>) {
    let Some(name) = draft.names.lookup(SIZE_SYMBOL) else { return };
    let size = draft.constant_variables().map_or(NO_BANK, |bank| draft.sections[bank].size);
    let symbols = draft.symbols.values_mut().filter(|symbol| symbol.name == name);
    symbols.for_each(|symbol| symbol.value = size);
}

/// With a selection of kernels, nvlink creates the bank of constant variables twice. The second one
/// only takes up a section index (case selection/kernels-used behind many sections).
pub(crate) fn add_second_index(draft: &mut Draft<'_>) {
    if draft.constant_variables().is_some() {
        draft.unlisted += 1;
        // The name that it has until it becomes the bank (case selection/constants by 12.3).
        draft.add_lost_section_name(b"TEMP_MERGED_CONSTANTS");
    }
}

/// A constant variable in the second layout.
#[derive(Clone, Copy)]
struct PlacedAnew {
    id: OutSymbolId,
    /// What it is sorted by, the largest first.
    key: u64,
    /// Bytes.
    size: u64,
    align: u64,
}

/// Lays out the bank of constant variables anew if it is too large. Only then, and only with a
/// selection of kernels, unused constants are dropped (case errors-limits/unused-constants).
/// Returns true if it did.
pub(crate) fn tighten<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    merged: &mut MergeResult<'d>,
    options: &LinkOptions,
) -> bool {
    if !options.dialect.lays_constants_out_again {
        return false;
    }
    let too_large = |&bank: &SectionId| merged.draft.sections[bank].size > BANK_LIMIT;
    let Some(bank) = merged.draft.constant_variables().filter(too_large) else { return false };
    let unused = match options.effective_selection().is_active() {
        true => drop_unused(objects, symbols, merged, bank, options),
        false => HashSet::new(),
    };
    let draft = &mut merged.draft;
    // Since 12.3, variables of the local list have the sort key 0, so they follow the others.
    let SecondLayout { key_of_local, of_local, of_global } = draft.dialect.second_layout;
    let variable = |key: u64, most: u64| {
        let (symbols, unused) = (&draft.symbols, &unused);
        move |&id: &OutSymbolId| {
            let symbol = &symbols[id];
            let size = symbol.size;
            (!unused.contains(&id)
                && symbol.section == Some(bank)
                && symbol.info & 15 != stt::SECTION)
                .then(|| PlacedAnew { id, key: size.min(key), size, align: size.clamp(1, most) })
        }
    };
    let locals = draft.locals.iter().filter_map(variable(key_of_local, of_local));
    let globals = draft.globals.iter().filter_map(variable(of_global, of_global));
    let variables: Vec<PlacedAnew> = locals.chain(globals).collect();
    let sorted =
        list_sort(&variables, &|a, b| a.key > b.key || (a.key == b.key && a.size <= b.size));
    let mut moves = Vec::new();
    let mut end = 0u64;
    for &PlacedAnew { id, size, align, .. } in &sorted {
        let to = end.next_multiple_of(align);
        end = to + size;
        let symbol = &mut draft.symbols[id];
        let from = std::mem::replace(&mut symbol.value, to);
        moves.push(MovedRange { from, to, size });
    }
    let section = &mut draft.sections[bank];
    merged.constant_offsets.rearrange(bank, section, moves);
    section.size = end;
    section.align = sorted.iter().map(|variable| variable.key).max().unwrap_or(0).max(1);
    if sorted.is_empty() {
        section.dropped = true;
        let name = section.name;
        draft.section_strings.remove(name);
        draft.remove_name(name);
    }
    true
}

/// Drops the variables of `bank` that no live function, no other data and no code outside of the
/// program refers to.
fn drop_unused<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    merged: &mut MergeResult<'d>,
    bank: SectionId,
    options: &LinkOptions,
) -> HashSet<OutSymbolId> {
    let mut used = HashSet::new();
    for (id, object) in objects.iter() {
        for (_, input, target) in object.reloc_sections() {
            if !matches!(merged.placement(id, target), SectionPlacement::At { .. }) {
                continue;
            }
            for record in input.relocations().iter() {
                let symbol = symbols.of(id, record.symbol);
                used.extend(symbol.and_then(|symbol| merged.out_symbol(symbol)));
            }
        }
    }
    let draft = &mut merged.draft;
    let selection = options.selection.matcher();
    let unused: HashSet<OutSymbolId> = draft
        .symbols
        .iter()
        .filter(|(id, symbol)| {
            let local = symbol.info >> 4 == stb::LOCAL;
            symbol.section == Some(bank)
                && symbol.info & 15 != stt::SECTION
                && !used.contains(id)
                && !selection.keeps_constant(draft.names.get(symbol.name), local)
        })
        .map(|(id, _)| id)
        .collect();
    for &id in &unused {
        let symbol = &mut draft.symbols[id];
        if options.preserve_relocs {
            // The symbol is kept and only marked as internal.
            symbol.other |= sto::INTERNAL;
            continue;
        }
        symbol.dropped = true;
    }
    let left = draft.symbols.values().filter(|symbol| !symbol.dropped);
    let left: HashSet<NameId> = left.map(|symbol| symbol.name).collect();
    let gone = unused.iter().map(|&id| draft.symbols[id].name).filter(|name| !left.contains(name));
    for name in gone.collect::<HashSet<_>>() {
        draft.remove_name(name);
    }
    unused
}
