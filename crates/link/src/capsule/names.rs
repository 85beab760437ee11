//! Names that differ between the halves.
//!
//! In: the finished draft. Out: [`Draft::renamed`] and the names that come last in the string tables. nvlink
//! links under Mercury's names and renames sections of machine code at the end, in place: the names keep the
//! length they had, in `.shstrtab` as NULs behind them, in `.strtab` as a gap behind the table.

use std::collections::BTreeMap;

use crate::draft::{Draft, Kind, OutSymbol};
use crate::id::{NameId, SectionId};

use super::twins::{ADDRESSES, OPTIMIZER, USER};

/// What stands for a section in Mercury, and what the machine code's half calls it.
const RENAMED: [(&[u8], &[u8]); 4] = [
    (USER, b".nv.constant3"),
    (ADDRESSES, b".nv.constant4"),
    (OPTIMIZER, b".nv.constant2."),
    (super::IMAGES, b".nv.constant0."),
];

/// Bytes that follow `.shstrtab`, as long as the names `.symtab_shndx` and `.nv.merc.symtab_shndx` that are there if
/// both halves together have too many sections; ptxas leaves them too.
pub(crate) const GAP: u64 = 36;

/// What the machine code's section is called before the function's name, and how long that is in Mercury's; `None` if
/// there is no other name.
fn fronts(name: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (front, rest): (&[u8], _) = match name.strip_prefix(b".rela") {
        Some(rest) => (b".rela", rest),
        None => (b"", name),
    };
    let (mercury, own) = RENAMED.iter().find(|(mercury, _)| rest.starts_with(mercury))?;
    Some(([front, own].concat(), front.len() + mercury.len()))
}

/// The name of the machine code's section, if it is another one.
fn sass_name(name: &[u8]) -> Option<Vec<u8>> {
    let (own, front) = fronts(name)?;
    Some([&own, &name[front..]].concat())
}

/// Finds the names of machine code for all sections of the file, and puts them behind all others.
pub(crate) fn rename(draft: &mut Draft<'_>) {
    let ids: Vec<SectionId> = draft.sections.ids().collect();
    for id in ids {
        let section = &draft.sections[id];
        let is_constant = |kind| matches!(kind, Kind::Constant(_));
        let patches_one =
            || section.owner.is_some_and(|owner| is_constant(draft.sections[owner].kind));
        let has_other = is_constant(section.kind) || section.kind == Kind::Reloc && patches_one();
        if section.dropped || !has_other {
            continue;
        }
        if let Some(own) = sass_name(draft.names.get(section.name)) {
            // Two sections of one name have a string each (literals/equal-banks), but for CUDA 13.4 and later.
            let own = match draft.dialect.new_writer {
                true => draft.names.join(&[&own]),
                false => draft.names.separate(&[&own]),
            };
            draft.renamed.insert(id, own);
        }
    }
    for place in 0..draft.locals.len() {
        let symbol = &draft.symbols[draft.locals[place]];
        if let Some(own) = own_name(draft, symbol) {
            draft.late_strings.add(own);
        }
    }
    for place in 0..draft.trailing.len() {
        let name = draft.symbols[draft.trailing[place]].name;
        draft.late_strings.add(name);
    }
}

/// The name that a section's own symbol has in machine code's half, if it is another one.
pub(crate) fn own_name(draft: &Draft<'_>, symbol: &OutSymbol) -> Option<NameId> {
    let section = symbol.section.filter(|_| symbol.program.is_none())?;
    let own = draft.renamed.get(&section)?;
    (draft.sections[section].name == symbol.name).then_some(*own)
}

/// What machine code's table of symbols calls a symbol.
pub(crate) fn symbol_name(draft: &Draft<'_>, symbol: &OutSymbol) -> NameId {
    // CUDA 13.5 leaves the symbols of literals their name.
    let keeps = draft.dialect.new_writer && draft.names.get(symbol.name).starts_with(OPTIMIZER);
    own_name(draft, symbol).filter(|_| !keeps).unwrap_or(symbol.name)
}

/// Bytes that renaming leaves behind `.strtab`: those of the names before, less those of the new ones.
pub(crate) fn gap(draft: &Draft<'_>) -> u64 {
    let length = |name: NameId| draft.names.get(name).len() as u64;
    if draft.dialect.new_writer {
        return 0;
    }
    let mut gap = 0u64;
    for (&id, &own) in &draft.renamed {
        let section = &draft.sections[id];
        let named = if section.symbol.is_some() { length(own) + 1 } else { 0 };
        gap += length(section.name).saturating_sub(named);
    }
    gap
}

/// What the names of the sections `renamed`, which are in file order, become in the section name table, by offset. Of two sections that share
/// one string the second finds what the first left, and takes the end of that for the function's name (literals/equal-banks).
pub(crate) fn overwritten(
    draft: &Draft<'_>,
    renamed: &[SectionId],
    offset: impl Fn(NameId) -> u32,
) -> Vec<(u32, Vec<u8>)> {
    let mut places: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for &id in renamed {
        let name = draft.names.get(draft.sections[id].name);
        let Some((own, front)) = fronts(name) else { continue };
        let place = places.entry(offset(draft.sections[id].name)).or_insert_with(|| name.to_vec());
        let tail = place[front..].split(|&byte| byte == 0).next().unwrap_or_default();
        let own = [&own[..], tail].concat();
        place.fill(0);
        place[..own.len()].copy_from_slice(&own);
    }
    places.into_iter().collect()
}
