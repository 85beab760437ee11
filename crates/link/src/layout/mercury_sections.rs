//! The sections of the Mercury half: their order, offsets and headers.
//!
//! In: the order of the machine code's sections. Out: [`MercurySections`]. They follow all other
//! sections, in groups; each group has the order of its counterparts. Some have no bytes of their
//! own and share the offset of the counterpart.

use culd_cubin::elf::{self, shf, sht, stt};
use culd_cubin::encode::{RESERVED_INDEX, SectionHeader};
use hashbrown::HashMap;

use super::contents::SyntheticContents;
use super::file_map::{FileMap, FileTable, RangeContent};
use super::numbers::{Numbers, SYMTAB_INDEX};
use super::strings::StringTable;
use crate::base::half::{BothHalves, Half};
use crate::base::id::{IdVec, OutSymbolId, SectionId};
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::section::{OutSection, OutSymbol};
use crate::options::dialect::Dialect;

/// The name of the symbol table.
const SYMTAB: &[u8] = b".nv.merc.symtab";

/// The sections of the Mercury half.
pub(crate) struct MercurySections {
    /// Sections in file order, each named by its counterpart.
    pub(crate) order: Vec<SectionId>,
    /// Section header index by counterpart; 0 if there is none.
    index: IdVec<SectionId, u32>,
    /// File offset and size by counterpart, bytes.
    places: IdVec<SectionId, (u64, u64)>,
    /// Offset of each name in `.shstrtab`, in file order; the symbol table's is last.
    names: Vec<u32>,
    /// Section header index of the symbol table.
    symtab: u32,
    /// File offset of the symbol table.
    pub(crate) symbols_at: u64,
}

/// The group of a section kind, in file order, in a dialect; `None` for a kind without counterpart.
fn group(kind: SectionKind, dialect: &Dialect) -> Option<u8> {
    Some(match kind {
        SectionKind::Text | SectionKind::JumpSlots if !dialect.new_writer => 0,
        SectionKind::Debug => 1,
        SectionKind::FunctionTable | SectionKind::FileInfo => 2,
        SectionKind::Index
        | SectionKind::FunctionInfo
        | SectionKind::FunctionIds
        | SectionKind::VariableIds => 3,
        SectionKind::CallGraph if dialect.mercury_callgraph => 4,
        SectionKind::Prototype if dialect.mercury_callgraph => 5,
        SectionKind::Reloc | SectionKind::Resolved => 6,
        SectionKind::Constant(_) => 7,
        SectionKind::Text | SectionKind::JumpSlots => 8,
        SectionKind::GlobalInit | SectionKind::UnifiedData => 9,
        SectionKind::ReservedShared => 10,
        SectionKind::HighIndices => 11,
        _ => return None,
    })
}

/// Drops the tables of section indices, unless both halves together have too many sections. Returns
/// their section if it is kept.
pub(crate) fn keep_high_indices(draft: &mut Draft<'_>) -> Option<SectionId> {
    let is_table = |id: &SectionId| draft.sections[*id].kind == SectionKind::HighIndices;
    let id = draft.sections.ids().rfind(is_table)?;
    let (mut others, mut counterparts) = (0, 0);
    for section in draft.sections.values().filter(|section| !section.dropped) {
        if section.kind != SectionKind::HighIndices {
            others += 1;
            counterparts += usize::from(group(section.kind, draft.dialect).is_some());
        }
    }
    // The null section, three tables, and the Mercury half's symbol table.
    if 4 + others + counterparts + 1 >= RESERVED_INDEX {
        return Some(id);
    }
    draft.sections[id].dropped = true;
    draft.section_strings.remove(draft.sections[id].name);
    None
}

/// The contents of both tables of section indices: an index that does not fit `st_shndx`, or 0.
/// That of machine code is all 0, because that half has few enough sections. The Mercury half's has
/// the same length, although it has fewer symbols.
pub(crate) fn high_indices(
    draft: &Draft<'_>,
    numbers: &Numbers,
    mercury_sections: Option<&MercurySections>,
) -> BothHalves<Vec<u8>> {
    let sass = vec![0; 4 * numbers.symbol_count()];
    let mut mercury = sass.clone();
    let Some(mercury_sections) = mercury_sections else { return BothHalves { sass, mercury } };
    for (&symbol, entry) in numbers.symbols.iter().zip(mercury.chunks_exact_mut(4).skip(1)) {
        let section = draft.symbols[symbol].section;
        let index = section.map_or(0, |section| mercury_sections.index(section));
        if index as usize > RESERVED_INDEX {
            entry.copy_from_slice(&index.to_le_bytes());
        }
    }
    BothHalves { sass, mercury }
}

impl MercurySections {
    /// Orders the counterparts of `order`, whose indices end before `next_index`, and appends their
    /// names to `section_strings`. No two sections share a string, except in CUDA 13.5.
    pub(crate) fn new(
        draft: &Draft<'_>,
        order: &[SectionId],
        next_index: u32,
        section_strings: &mut StringTable,
    ) -> Self {
        let counterpart =
            |&id: &SectionId| Some((group(draft.sections[id].kind, draft.dialect)?, id));
        let mut counterparts: Vec<(u8, SectionId)> = order.iter().filter_map(counterpart).collect();
        counterparts.sort_by_key(|counterpart| counterpart.0);
        let mut index = IdVec::filled(0, draft.sections.len());
        let mut names = Vec::with_capacity(counterparts.len() + 1);
        let first = draft.dialect.new_writer;
        section_strings.reserve(counterparts.len());
        let symtab_name = first.then(|| section_strings.append_text(SYMTAB));
        let symtab = if first { next_index } else { next_index + counterparts.len() as u32 };
        // Only CUDA 13.5 shares a string between sections of one name.
        let mut written: HashMap<(&[u8], &[u8]), u32> = HashMap::new();
        for (&(_, id), next) in counterparts.iter().zip(next_index + u32::from(first)..) {
            index[id] = next;
            let code =
                matches!(draft.sections[id].kind, SectionKind::Text | SectionKind::JumpSlots);
            let prefix: &'static [u8] = if code { b".nv.capmerc" } else { b".nv.merc" };
            let name = draft.sections[id].name;
            let mut append = || section_strings.append(prefix, name, &draft.names);
            names.push(match first {
                true => *written.entry((prefix, draft.names.get(name))).or_insert_with(append),
                false => append(),
            });
        }
        names.push(symtab_name.unwrap_or_else(|| section_strings.append_text(SYMTAB)));
        MercurySections {
            symtab,
            order: counterparts.into_iter().map(|counterpart| counterpart.1).collect(),
            index,
            places: IdVec::filled((0, 0), draft.sections.len()),
            names,
            symbols_at: 0,
        }
    }

    /// Places all sections and the symbol table with `symbols` entries; `counterpart` gives the
    /// file offset of a counterpart.
    pub(crate) fn place(
        &mut self,
        draft: &Draft<'_>,
        contents: &SyntheticContents,
        symbols: u64,
        counterpart: impl Fn(SectionId) -> u64,
        pieces: &mut FileMap,
    ) {
        let first = draft.dialect.new_writer;
        if first {
            self.symbols_at = pieces.add_table(FileTable::MercurySymbols, symbols, 8);
        }
        for &id in &self.order {
            let section = &draft.sections[id];
            self.places[id] = if section.shares_bytes() {
                if draft.dialect.aligns_shared_bytes {
                    pieces.skip(0, align(section));
                }
                (counterpart(id), section.size)
            } else {
                let size = contents.size(id).unwrap_or_else(|| section.size_in(Half::Mercury));
                // In CUDA 13.5 the system's part of shared memory takes no room in the file (case
                // mercury/reserved-shared).
                let is_empty = first && section.kind == SectionKind::ReservedShared;
                let size = if is_empty { 0 } else { size };
                let what = RangeContent::Section(Half::Mercury, id);
                (pieces.add(what, size, align(section)), size)
            };
        }
        if !first {
            self.symbols_at = pieces.add_table(FileTable::MercurySymbols, symbols, 8);
        }
    }

    /// Lowest offset of their names in `.shstrtab`.
    pub(crate) fn first_name(&self) -> u32 {
        self.names.iter().min().copied().unwrap_or(0)
    }

    /// Header index of the counterpart of `section`; 0 where it has none.
    pub(crate) fn index(&self, section: SectionId) -> u32 {
        self.index[section]
    }

    /// File offset and size of the counterpart of `section`, bytes.
    pub(crate) fn range(&self, section: SectionId) -> (u64, u64) {
        self.places[section]
    }

    /// Entries of the symbol table, symbol 0 included.
    pub(crate) fn symbol_count(numbers: &Numbers) -> usize {
        numbers.symbols.len() + 1
    }

    /// Number of sections, with the symbol table.
    pub(crate) fn count(&self) -> usize {
        self.order.len() + 1
    }

    /// The header at `place` in file order; the symbol table's is last, in CUDA 13.5 first.
    pub(crate) fn header(
        &self,
        draft: &Draft<'_>,
        numbers: &Numbers,
        place: usize,
    ) -> SectionHeader {
        let place = match draft.dialect.new_writer {
            true => place.checked_sub(1).unwrap_or(self.order.len()),
            false => place,
        };
        let name = self.names.get(place).copied().unwrap_or(0);
        let Some(&id) = self.order.get(place) else { return self.symtab_header(numbers, name) };
        let section = &draft.sections[id];
        let (offset, mut size) = self.range(id);
        if section.kind == SectionKind::ReservedShared {
            size = section.size_in(Half::Mercury);
        }
        let HeaderFields { sh_type, flags, link, info } = self.form(draft, numbers, id);
        let entsize = match section.kind {
            // As for other code since 13.5.
            SectionKind::JumpSlots if draft.dialect.new_writer => 0,
            SectionKind::JumpSlots | SectionKind::HighIndices => section.entsize(),
            _ => elf::entsize(sh_type),
        };
        SectionHeader {
            name,
            sh_type,
            flags: flags | shf::MERCURY,
            offset,
            size,
            link,
            info,
            align: align(section),
            entsize,
        }
    }

    fn symtab_header(&self, numbers: &Numbers, name: u32) -> SectionHeader {
        SectionHeader {
            name,
            sh_type: sht::MERCURY_SYMTAB,
            flags: shf::MERCURY,
            offset: self.symbols_at,
            size: 24 * Self::symbol_count(numbers) as u64,
            link: 2,
            info: numbers.first_global,
            align: 8,
            entsize: 24,
        }
    }

    /// The header fields of the counterpart of section `id` that depend on its kind.
    fn form(&self, draft: &Draft<'_>, numbers: &Numbers, id: SectionId) -> HeaderFields {
        let section = &draft.sections[id];
        let symtab = self.symtab;
        let owner = section.owner.map_or(0, |owner| self.index(owner));
        let (sh_type, flags, link, info) = match section.kind {
            SectionKind::Text | SectionKind::JumpSlots => {
                let function = named_by(draft, id).map_or(0, |symbol| numbers.symbol_index(symbol));
                (sht::MERCURY_CODE, 0, symtab, function)
            }
            SectionKind::FileInfo => (sht::MERCURY_INFO, 0, symtab, 0),
            SectionKind::FunctionInfo => (sht::MERCURY_INFO, shf::INFO_LINK, symtab, owner),
            SectionKind::CallGraph => (sht::MERCURY_CALLGRAPH, 0, symtab, 0),
            SectionKind::Prototype => (sht::MERCURY_PROTOTYPE, 0, symtab, 0),
            SectionKind::Reloc => (sht::MERCURY_RELA, shf::INFO_LINK, symtab, owner),
            SectionKind::Resolved => (sht::MERCURY_RESOLVED_RELA, shf::INFO_LINK, symtab, owner),
            SectionKind::Constant(4) => (sht::MERCURY_CONSTANT_PIC, shf::ALLOC, 0, 0),
            SectionKind::Constant(_) if section.owner.is_none() => {
                (sht::MERCURY_CONSTANT_USER, shf::ALLOC, 0, 0)
            }
            SectionKind::Constant(0) => {
                (sht::MERCURY_CONSTANT_IMAGES, shf::ALLOC | shf::INFO_LINK, 0, owner)
            }
            SectionKind::Constant(_) => {
                (sht::MERCURY_CONSTANT_OPTIMIZER, shf::ALLOC | shf::INFO_LINK, 0, owner)
            }
            SectionKind::FunctionTable => (sht::CUDA_UFT_ENTRY, 0, 0, 0),
            SectionKind::FunctionIds => {
                (sht::CUDA_UFT_ENTRY, 0, self.stale_link(draft, numbers, id), 0)
            }
            SectionKind::VariableIds => {
                (sht::CUDA_UDT_ENTRY, 0, self.stale_link(draft, numbers, id), 0)
            }
            SectionKind::Index => (sht::CUDA_UIDX, 0, 0, 0),
            SectionKind::UnifiedData => (sht::CUDA_UDT, shf::ALLOC | shf::WRITE, 0, 0),
            SectionKind::HighIndices => (sht::SYMTAB_SHNDX, 0, symtab, 0),
            SectionKind::GlobalInit => (sht::CUDA_GLOBAL_INIT, shf::ALLOC | shf::WRITE, 0, 0),
            SectionKind::ReservedShared => {
                (sht::CUDA_SHARED_RESERVED, shf::ALLOC | shf::WRITE, 0, 0)
            }
            _ => (sht::PROGBITS, 0, 0, 0),
        };
        HeaderFields { sh_type, flags, link, info }
    }

    /// `sh_link` from the stale link of section `id`: the counterpart of the section with that
    /// index, if it has one.
    fn stale_link(&self, draft: &Draft<'_>, numbers: &Numbers, id: SectionId) -> u32 {
        match draft.mercury.stale_links.get(&id) {
            None | Some(&SYMTAB_INDEX) => self.symtab,
            Some(&link) => {
                let named = link.checked_sub(numbers.first_index());
                let counterpart = named.and_then(|at| numbers.order.get(at as usize));
                counterpart
                    .map(|&counterpart| self.index(counterpart))
                    .filter(|&counterpart| counterpart != 0)
                    .unwrap_or(link)
            }
        }
    }
}

/// The fields of a section header that depend on the kind of section.
struct HeaderFields {
    sh_type: u32,
    flags: u64,
    link: u32,
    info: u32,
}

/// The function that Mercury code of section `id` is named after. For the table of jump slots it is
/// the slot that was read first, in 13.5 the slot at the start (case unified/called).
fn named_by(draft: &Draft<'_>, id: SectionId) -> Option<OutSymbolId> {
    let section = &draft.sections[id];
    if section.kind != SectionKind::JumpSlots || !draft.dialect.new_writer {
        return section.function;
    }
    let starts = |(_, symbol): &(OutSymbolId, &OutSymbol)| {
        symbol.section == Some(id) && symbol.info & 15 == stt::FUNC && symbol.value == 0
    };
    draft.symbols.iter().find(starts).map(|(id, _)| id)
}

/// The alignment of the counterpart of `section`.
pub(crate) fn align(section: &OutSection<'_>) -> u64 {
    match section.kind {
        SectionKind::Text | SectionKind::JumpSlots => 16,
        SectionKind::Debug => 1,
        _ => section.align,
    }
}
