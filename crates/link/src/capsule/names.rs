//! Names that differ between the halves.
//!
//! In: the finished draft. Out: [`Draft::renamed`] and the names that come last in the string tables. nvlink
//! links under Mercury's names and renames sections of machine code at the end, in place: the names keep the
//! length they had, in `.shstrtab` as NULs behind them, in `.strtab` as a gap behind the table.

use crate::draft::{Draft, OutSymbol};
use crate::id::{NameId, SectionId};

use super::twins::{OPTIMIZER, USER};

/// What the machine code's half calls a section, and what stands for it in Mercury.
const RENAMED: [(&[u8], &[u8]); 3] =
    [(USER, b".nv.constant3"), (OPTIMIZER, b".nv.constant2."), (super::IMAGES, b".nv.constant0.")];

/// Bytes that follow `.shstrtab`, as long as the names `.symtab_shndx` and `.nv.merc.symtab_shndx` that are there if
/// both halves together have too many sections; ptxas leaves them too.
pub(crate) const GAP: u64 = 36;

/// The name of the machine code's section, if it is another one.
fn sass_name(name: &[u8]) -> Option<Vec<u8>> {
    let (front, rest): (&[u8], _) = match name.strip_prefix(b".rela") {
        Some(rest) => (b".rela", rest),
        None => (b"", name),
    };
    let (own, tail) =
        RENAMED.iter().find_map(|(mercury, own)| Some((own, rest.strip_prefix(*mercury)?)))?;
    Some([front, own, tail].concat())
}

/// Finds the names of machine code for all sections of the file, and puts them behind all others.
pub(crate) fn rename(draft: &mut Draft<'_>) {
    let ids: Vec<SectionId> = draft.sections.ids().collect();
    for id in ids {
        let section = &draft.sections[id];
        if section.dropped || draft.renamed.contains_key(&section.name) {
            continue;
        }
        if let Some(own) = sass_name(draft.names.get(section.name)) {
            let name = section.name;
            let own = draft.names.join(&[&own]);
            draft.renamed.insert(name, own);
        }
    }
    for place in 0..draft.locals.len() {
        let symbol = &draft.symbols[draft.locals[place]];
        let listed = symbol.section.is_some_and(|section| !draft.sections[section].dropped);
        if symbol.program.is_none()
            && listed
            && let Some(&own) = draft.renamed.get(&symbol.name)
        {
            draft.late_strings.add(own);
        }
    }
    for place in 0..draft.trailing.len() {
        let name = draft.symbols[draft.trailing[place]].name;
        draft.late_strings.add(name);
    }
}

/// What machine code's table of symbols calls a symbol.
pub(crate) fn symbol_name(draft: &Draft<'_>, symbol: &OutSymbol) -> NameId {
    let own = draft.renamed.get(&symbol.name).filter(|_| symbol.program.is_none());
    // CUDA 13.5 leaves the symbols of literals their name.
    let keeps = draft.dialect.new_writer && draft.names.get(symbol.name).starts_with(OPTIMIZER);
    own.filter(|_| !keeps).copied().unwrap_or(symbol.name)
}

/// Bytes that renaming leaves behind `.strtab`: those of the names before, less those of the new ones.
pub(crate) fn gap(draft: &Draft<'_>, order: &[SectionId]) -> u64 {
    let length = |name: NameId| draft.names.get(name).len() as u64;
    if draft.dialect.new_writer {
        return 0;
    }
    let mut gap = 0u64;
    for section in order.iter().map(|&id| &draft.sections[id]) {
        let Some(&own) = draft.renamed.get(&section.name) else { continue };
        let named = if section.symbol.is_some() { length(own) + 1 } else { 0 };
        gap += length(section.name).saturating_sub(named);
    }
    gap
}

/// Overwrites the names of `order` in the section name table.
pub(crate) fn overwrite(
    draft: &Draft<'_>,
    order: &[SectionId],
    bytes: &mut [u8],
    offset: impl Fn(NameId) -> u32,
) {
    for &id in order {
        let name = draft.sections[id].name;
        let Some(&own) = draft.renamed.get(&name) else { continue };
        let own = draft.names.get(own);
        let at = offset(name) as usize;
        if let Some(place) = bytes.get_mut(at..at + draft.names.get(name).len()) {
            place.fill(0);
            place[..own.len()].copy_from_slice(own);
        }
    }
}
