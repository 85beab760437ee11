//! Constant variables that do not fit their bank: a second, tighter layout.
//!
//! In: the merged draft. Out: nothing, or `.nv.constant3` laid out anew. nvlink chains the files'
//! sections up, and only when that is over the limit places every *variable* by itself, which
//! saves padding and the bytes of weak copies that lost (docs/rules/diagnostics.md, 4.1; cases
//! errors-limits/*).

use culd_cubin::elf::{stb, sto, stt};
use hashbrown::HashSet;

use crate::LinkOptions;
use crate::draft::{Draft, Kind};
use crate::finish::BANK_LIMIT;
use crate::id::{NameId, OutSymbolId, SectionId};
use crate::merge::{Merged, Placed};
use crate::moved::Move;
use crate::objects::Objects;
use crate::sort::list_sort;
use crate::symbols::Symbols;

/// The symbol that stands for the size of the bank of constant variables: what `isspacep.const`
/// compares with (case constant/size-of-bank).
pub(crate) const SIZE_SYMBOL: &[u8] = b".nv.ptx.const0.size";

/// That size in a program without such a bank (case constant/size-of-no-bank).
pub(crate) const NO_BANK: u64 = u64::MAX;

/// `-r`: gives the symbols that stand for the size of the bank the size so far.
pub(crate) fn tell_size(draft: &mut Draft<'_>) {
    let Some(name) = draft.names.lookup(SIZE_SYMBOL) else { return };
    let size = draft.constant_variables().map_or(NO_BANK, |bank| draft.sections[bank].size);
    let symbols = draft.symbols.values_mut().filter(|symbol| symbol.name == name);
    symbols.for_each(|symbol| symbol.value = size);
}

/// With a selection of kernels nvlink makes the bank of constant variables a second time, which takes an index (case
/// selection/kernels-used behind many sections).
pub(crate) fn count_second(draft: &mut Draft<'_>) {
    if draft.constant_variables().is_some() {
        draft.add_unlisted();
    }
}

/// Lays the bank of constant variables out anew if it is too large. Where kernels are selected, constants that nothing
/// uses are left out then, and only then (case errors-limits/unused-constants).
pub(crate) fn tighten<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    merged: &mut Merged<'d>,
    options: &LinkOptions,
) {
    let too_large = |&bank: &SectionId| merged.draft.sections[bank].size > BANK_LIMIT;
    let Some(bank) = merged.draft.constant_variables().filter(too_large) else { return };
    let unused = match options.effective_selection().is_active() {
        true => leave_out_unused(objects, symbols, merged, bank, options),
        false => HashSet::new(),
    };
    let draft = &mut merged.draft;
    // Variables of the local list come with key 0, so that they follow the others.
    let variable = |key_of: fn(u64) -> u64| {
        let (symbols, unused) = (&draft.symbols, &unused);
        move |&id: &OutSymbolId| {
            let symbol = &symbols[id];
            (!unused.contains(&id)
                && symbol.section == Some(bank)
                && symbol.info & 15 != stt::SECTION)
                .then(|| (id, key_of(symbol.size), symbol.size))
        }
    };
    let locals = draft.locals.iter().filter_map(variable(|_| 0));
    let globals = draft.globals.iter().filter_map(variable(|size| size.min(8)));
    let variables: Vec<(OutSymbolId, u64, u64)> = locals.chain(globals).collect();
    let sorted = list_sort(&variables, &|a, b| a.1 > b.1 || (a.1 == b.1 && a.2 <= b.2));
    let mut moves = Vec::new();
    let mut end = 0u64;
    for &(id, _, size) in &sorted {
        let to = end.next_multiple_of(size.clamp(1, 8));
        end = to + size;
        let symbol = &mut draft.symbols[id];
        let from = std::mem::replace(&mut symbol.value, to);
        moves.push(Move { from, to, size });
    }
    let section = &mut draft.sections[bank];
    merged.moved.rearrange(bank, section, moves);
    section.size = end;
    section.align = sorted.iter().map(|variable| variable.1).max().unwrap_or(0).max(1);
    if sorted.is_empty() {
        section.dropped = true;
        let name = section.name;
        draft.section_strings.remove(name);
        draft.local_strings.remove(name);
    }
}

/// Drops the variables of `bank` that neither a live function nor other data names, and nothing outside of the program.
fn leave_out_unused<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    merged: &mut Merged<'d>,
    bank: SectionId,
    options: &LinkOptions,
) -> HashSet<OutSymbolId> {
    let mut used = HashSet::new();
    for (id, object) in objects.iter() {
        for (_, input, target) in object.reloc_sections() {
            let Placed::At { section, .. } = merged.placed(id, target) else { continue };
            if merged.draft.sections[section].kind == Kind::Debug {
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
            // Its symbol stays as it was.
            symbol.other |= sto::INTERNAL;
            continue;
        }
        symbol.dropped = true;
    }
    let left = draft.symbols.values().filter(|symbol| !symbol.dropped);
    let left: HashSet<NameId> = left.map(|symbol| symbol.name).collect();
    let gone = unused.iter().map(|&id| draft.symbols[id].name).filter(|name| !left.contains(name));
    for name in gone.collect::<HashSet<_>>() {
        draft.local_strings.remove(name);
        draft.global_strings.remove(name);
    }
    unused
}
