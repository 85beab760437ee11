//! Constant variables that do not fit their bank: a second, tighter layout.
//!
//! In: the merged draft. Out: nothing, or `.nv.constant3` laid out anew. nvlink chains the files'
//! sections up, and only when that is over the limit places every *variable* by itself, which
//! saves padding and the bytes of weak copies that lost (docs/rules/diagnostics.md, 4.1; cases
//! errors-limits/*).

use crate::draft::{Draft, OutSection, Part};
use crate::finish::BANK_LIMIT;
use crate::id::{OutSymbolId, SectionId};
use crate::merge::Merged;
use crate::sort::list_sort;

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

/// A range of old offsets that went elsewhere.
#[derive(Debug, Clone, Copy)]
struct Move {
    from: u64,
    to: u64,
}

/// Where the bytes of a section went.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    section: Option<SectionId>,
    /// By old offset.
    moves: Vec<Move>,
}

impl Moved {
    /// The new offset of byte `offset` of `section`.
    pub(crate) fn offset(&self, section: SectionId, offset: u64) -> u64 {
        if self.section != Some(section) {
            return offset;
        }
        // Bytes of copies that lost go with the variable before them (case
        // errors-limits/bank3-tables).
        let at = self.moves.partition_point(|entry| entry.from <= offset);
        match at.checked_sub(1).map(|at| self.moves[at]) {
            Some(entry) => entry.to + (offset - entry.from),
            None => offset,
        }
    }
}

/// Lays the bank of constant variables out anew if it is too large.
pub(crate) fn tighten(merged: &mut Merged<'_>) {
    let too_large = |&bank: &SectionId| merged.draft.sections[bank].size > BANK_LIMIT;
    let Some(bank) = merged.draft.constant_variables().filter(too_large) else { return };
    let draft = &mut merged.draft;
    // Variables of the local list come with key 0, so that they follow the others.
    let variable = |key_of: fn(u64) -> u64| {
        let symbols = &draft.symbols;
        move |&id: &OutSymbolId| {
            let symbol = &symbols[id];
            (symbol.section == Some(bank) && symbol.info & 15 != culd_cubin::elf::stt::SECTION)
                .then(|| (id, key_of(symbol.size), symbol.size))
        }
    };
    let locals = draft.locals.iter().filter_map(variable(|_| 0));
    let globals = draft.globals.iter().filter_map(variable(|size| size.min(8)));
    let variables: Vec<(OutSymbolId, u64, u64)> = locals.chain(globals).collect();
    let sorted = list_sort(&variables, &|a, b| a.1 > b.1 || (a.1 == b.1 && a.2 <= b.2));
    let mut parts = Vec::new();
    let mut moves = Vec::new();
    let mut end = 0u64;
    for &(id, _, size) in &sorted {
        let to = end.next_multiple_of(size.clamp(1, 8));
        end = to + size;
        let symbol = &mut draft.symbols[id];
        let from = std::mem::replace(&mut symbol.value, to);
        copy(&draft.sections[bank], from, size, to, &mut parts);
        moves.push(Move { from, to });
    }
    moves.sort_unstable_by_key(|entry| entry.from);
    let section = &mut draft.sections[bank];
    section.parts = parts;
    section.size = end;
    section.align = sorted.iter().map(|variable| variable.1).max().unwrap_or(0).max(1);
    merged.moved = Moved { section: Some(bank), moves };
}

/// Adds the parts of `from..from + size` of a section, moved to `to`.
fn copy<'d>(section: &OutSection<'d>, from: u64, size: u64, to: u64, out: &mut Vec<Part<'d>>) {
    let first = section.parts.partition_point(|part| part.offset <= from).saturating_sub(1);
    for part in &section.parts[first..] {
        let start = from.max(part.offset);
        let end = (from + size).min(part.offset + part.bytes.len() as u64);
        if start < end {
            let bytes = &part.bytes[(start - part.offset) as usize..(end - part.offset) as usize];
            out.push(Part { offset: to + (start - from), bytes });
        } else if part.offset >= from + size {
            break;
        }
    }
}
