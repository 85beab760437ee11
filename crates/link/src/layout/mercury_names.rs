//! Section names that differ between the halves.
//!
//! In: the finished draft. Out: [`MercuryNames::renamed`](crate::draft::MercuryNames), and names at
//! the end of the string tables. nvlink links under the Mercury half's names. At the end it renames
//! sections of machine code in place, so a name keeps its length: in `.shstrtab` NULs follow the
//! shorter name, in `.strtab` a gap follows the table.

use std::collections::BTreeMap;

use crate::base::half;
use crate::base::id::{NameId, SectionId};
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::section::OutSymbol;
use crate::objects::counterparts::{ADDRESSES, OPTIMIZER, USER};

/// Section names in the Mercury half, without `.nv.merc`, and in the machine code.
const RENAMED: [(&[u8], &[u8]); 4] = [
    (USER, b".nv.constant3"),
    (ADDRESSES, b".nv.constant4"),
    (OPTIMIZER, b".nv.constant2."),
    (half::TEXTURE_SLOTS, b".nv.constant0."),
];

/// Bytes of the gap after `.shstrtab`: the length of the names `.symtab_shndx` and
/// `.nv.merc.symtab_shndx`, which are there instead if both halves together have too many sections.
/// ptxas leaves the gap too.
pub(crate) const GAP: u64 = 36;

/// The prefix of the section's name in machine code, and the length of the prefix it replaces;
/// `None` if the names are equal.
fn prefixes(name: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (prefix, rest): (&[u8], _) = match name.strip_prefix(b".rela") {
        Some(rest) => (b".rela", rest),
        None => (b"", name),
    };
    let (mercury, own) = RENAMED.iter().find(|(mercury, _)| rest.starts_with(mercury))?;
    Some(([prefix, own].concat(), prefix.len() + mercury.len()))
}

/// The section's name in machine code, if it differs.
fn sass_name(name: &[u8]) -> Option<Vec<u8>> {
    let (own, prefix) = prefixes(name)?;
    Some([&own, &name[prefix..]].concat())
}

/// Finds the machine code's names of all sections, and adds them at the end of `.strtab`.
pub(crate) fn rename(draft: &mut Draft<'_>) {
    let ids: Vec<SectionId> = draft.sections.ids().collect();
    for id in ids {
        let section = &draft.sections[id];
        let is_constant = |kind| matches!(kind, SectionKind::Constant(_));
        let patches_one =
            || section.owner.is_some_and(|owner| is_constant(draft.sections[owner].kind));
        let has_other =
            is_constant(section.kind) || section.kind == SectionKind::Reloc && patches_one();
        if section.dropped || !has_other {
            continue;
        }
        if let Some(own) = sass_name(draft.names.get(section.name)) {
            // Two sections of one name have a string each (literals/equal-banks), except in CUDA
            // 13.4 and later.
            let own = match draft.dialect.new_writer {
                true => draft.names.join(&[&own]),
                false => draft.names.intern_separate(&[&own]),
            };
            draft.mercury.renamed.insert(id, own);
        }
    }
    for place in 0..draft.locals.len() {
        let symbol = &draft.symbols[draft.locals[place]];
        if let Some(own) = own_name(draft, symbol) {
            draft.mercury.late_strings.add(own);
        }
    }
    for place in 0..draft.mercury.trailing.len() {
        let name = draft.symbols[draft.mercury.trailing[place]].name;
        draft.mercury.late_strings.add(name);
    }
}

/// The name of a section symbol in machine code, if it differs.
pub(crate) fn own_name(draft: &Draft<'_>, symbol: &OutSymbol) -> Option<NameId> {
    let section = symbol.section.filter(|_| symbol.program.is_none())?;
    let own = draft.mercury.renamed.get(&section)?;
    (draft.sections[section].name == symbol.name).then_some(*own)
}

/// The name of a symbol in machine code's symbol table.
pub(crate) fn symbol_name(draft: &Draft<'_>, symbol: &OutSymbol) -> NameId {
    // CUDA 13.5 does not rename the symbols of literals.
    let keeps = draft.dialect.new_writer && draft.names.get(symbol.name).starts_with(OPTIMIZER);
    own_name(draft, symbol).filter(|_| !keeps).unwrap_or(symbol.name)
}

/// Bytes of the gap after `.strtab`: the old names' bytes, less those of the new names.
pub(crate) fn gap(draft: &Draft<'_>) -> u64 {
    let length = |name: NameId| draft.names.get(name).len() as u64;
    if draft.dialect.new_writer {
        return 0;
    }
    let mut gap = 0u64;
    for (&id, &own) in &draft.mercury.renamed {
        let section = &draft.sections[id];
        let named = if section.symbol.is_some() { length(own) + 1 } else { 0 };
        gap += length(section.name).saturating_sub(named);
    }
    gap
}

/// New bytes for the names of the sections `renamed`, which are in file order, by offset in
/// `.shstrtab`. Of two sections that share a string, the second finds the renamed string and takes
/// its end for the function's name (literals/equal-banks).
pub(crate) fn overwritten(
    draft: &Draft<'_>,
    renamed: &[SectionId],
    offset: impl Fn(NameId) -> u32,
) -> Vec<(u32, Vec<u8>)> {
    let mut places: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for &id in renamed {
        let name = draft.names.get(draft.sections[id].name);
        let Some((own, prefix)) = prefixes(name) else { continue };
        let place = places.entry(offset(draft.sections[id].name)).or_insert_with(|| name.to_vec());
        let tail = place[prefix..].split(|&byte| byte == 0).next().unwrap_or_default();
        let own = [&own[..], tail].concat();
        place.fill(0);
        place[..own.len()].copy_from_slice(&own);
    }
    places.into_iter().collect()
}
