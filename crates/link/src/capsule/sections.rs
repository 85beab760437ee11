//! The sections of the Mercury half: which, in what order, where, and their headers.
//!
//! In: the order of the machine code's sections. Out: [`Capsules`]. They stand behind all others, group by
//! group, each group in the order of its twins; some have no bytes of their own but lie where the twin lies.

use culd_cubin::elf::{self, shf, sht, stt};
use culd_cubin::encode::{RESERVED_INDEX, SectionHeader};

use crate::Dialect;
use crate::content::Contents;
use crate::draft::{Draft, Kind, OutSection, OutSymbol};
use crate::id::{IdVec, OutSymbolId, SectionId};
use crate::layout::{Layout, SYMTAB_INDEX};
use crate::pieces::{Pieces, Table, What};
use crate::strings::Strings;
use hashbrown::HashMap;

/// The name of the symbol table.
const SYMTAB: &[u8] = b".nv.merc.symtab";

/// The second half of a file.
pub(crate) struct Capsules {
    /// Sections in file order, known by their twins.
    pub(crate) order: Vec<SectionId>,
    /// Section header index by twin; 0 where there is none.
    index: IdVec<SectionId, u32>,
    /// File offset and size by twin, bytes.
    places: IdVec<SectionId, (u64, u64)>,
    /// Offset of each name in `.shstrtab`, in file order, and that of the symbol table last.
    names: Vec<u32>,
    /// Section header index of the symbol table.
    symtab: u32,
    /// Where the symbol table is.
    pub(crate) symbols_at: u64,
}

/// The groups, in file order, as the release has it.
fn group(kind: Kind, dialect: &Dialect) -> Option<u8> {
    Some(match kind {
        Kind::Text | Kind::JumpSlots if !dialect.new_writer => 0,
        Kind::Debug => 1,
        Kind::FunctionTable | Kind::FileInfo => 2,
        Kind::Index | Kind::FunctionInfo | Kind::FunctionIds | Kind::VariableIds => 3,
        Kind::CallGraph if dialect.mercury_callgraph => 4,
        Kind::Prototype if dialect.mercury_callgraph => 5,
        Kind::Reloc | Kind::Resolved => 6,
        Kind::Constant(_) => 7,
        Kind::Text | Kind::JumpSlots => 8,
        Kind::GlobalInit | Kind::UnifiedData => 9,
        Kind::ReservedShared => 10,
        Kind::HighIndices => 11,
        _ => return None,
    })
}

/// Creates the tables of section indices that do not fit symbols; they are in the file if
/// [`keep_high_indices`] says so.
pub(crate) fn add_high_indices(draft: &mut Draft<'_>) {
    // A second name beside the one that every file has.
    let name = draft.names.separate(&[b".symtab_shndx"]);
    draft.section_strings.add(name);
    draft.push_section(name, Kind::HighIndices, 0, 4);
}

/// Drops these tables unless both halves together have too many sections. Returns which section they are.
pub(crate) fn keep_high_indices(draft: &mut Draft<'_>) -> Option<SectionId> {
    let is_table = |id: &SectionId| draft.sections[*id].kind == Kind::HighIndices;
    let id = draft.sections.ids().rfind(is_table)?;
    let (mut others, mut twins) = (0, 0);
    for section in draft.sections.values().filter(|section| !section.dropped) {
        if section.kind != Kind::HighIndices {
            others += 1;
            twins += usize::from(group(section.kind, draft.dialect).is_some());
        }
    }
    // The null section and three tables, and Mercury's symbol table.
    if 4 + others + twins + 1 >= RESERVED_INDEX {
        return Some(id);
    }
    draft.sections[id].dropped = true;
    draft.section_strings.remove(draft.sections[id].name);
    None
}

/// The contents of these tables: the indices that do not fit, 0 for all others. That of machine code is as empty
/// as that half is small; Mercury's has its length, although it has fewer symbols.
pub(crate) fn high_indices(
    draft: &Draft<'_>,
    layout: &Layout,
    capsules: Option<&Capsules>,
) -> (Vec<u8>, Vec<u8>) {
    let sass = vec![0; 4 * layout.symbol_count()];
    let mut mercury = sass.clone();
    let Some(capsules) = capsules else { return (sass, mercury) };
    for (&symbol, entry) in layout.symbols.iter().zip(mercury.chunks_exact_mut(4).skip(1)) {
        let section = draft.symbols[symbol].section;
        let index = section.map_or(0, |section| capsules.index(section));
        if index as usize > RESERVED_INDEX {
            entry.copy_from_slice(&index.to_le_bytes());
        }
    }
    (sass, mercury)
}

impl Capsules {
    /// Orders the twins of `order`, whose indices end before `next_index`, and puts their names behind those of
    /// `section_strings`. No name is shared, not even by sections of one name.
    pub(crate) fn new(
        draft: &Draft<'_>,
        order: &[SectionId],
        next_index: u32,
        section_strings: &mut Strings,
    ) -> Self {
        let twin = |&id: &SectionId| Some((group(draft.sections[id].kind, draft.dialect)?, id));
        let mut twins: Vec<(u8, SectionId)> = order.iter().filter_map(twin).collect();
        twins.sort_by_key(|twin| twin.0);
        let mut index = IdVec::filled(0, draft.sections.len());
        let mut names = Vec::with_capacity(twins.len() + 1);
        let first = draft.dialect.new_writer;
        section_strings.reserve(twins.len());
        let symtab_name = first.then(|| section_strings.append_text(SYMTAB));
        let symtab = if first { next_index } else { next_index + twins.len() as u32 };
        // Sections of one name share it only by CUDA 13.5.
        let mut written: HashMap<(&[u8], &[u8]), u32> = HashMap::new();
        for (&(_, id), next) in twins.iter().zip(next_index + u32::from(first)..) {
            index[id] = next;
            let code = matches!(draft.sections[id].kind, Kind::Text | Kind::JumpSlots);
            let prefix: &'static [u8] = if code { b".nv.capmerc" } else { b".nv.merc" };
            let name = draft.sections[id].name;
            let mut append = || section_strings.append(prefix, name, &draft.names);
            names.push(match first {
                true => *written.entry((prefix, draft.names.get(name))).or_insert_with(append),
                false => append(),
            });
        }
        names.push(symtab_name.unwrap_or_else(|| section_strings.append_text(SYMTAB)));
        Capsules {
            symtab,
            order: twins.into_iter().map(|twin| twin.1).collect(),
            index,
            places: IdVec::filled((0, 0), draft.sections.len()),
            names,
            symbols_at: 0,
        }
    }

    /// Places all sections and the table of `symbols` symbols; `twin` tells where the twin is.
    pub(crate) fn place(
        &mut self,
        draft: &Draft<'_>,
        contents: &Contents,
        symbols: u64,
        twin: impl Fn(SectionId) -> u64,
        pieces: &mut Pieces,
    ) {
        let first = draft.dialect.new_writer;
        if first {
            self.symbols_at = pieces.add_table(Table::MercurySymbols, symbols, 8);
        }
        for &id in &self.order {
            let section = &draft.sections[id];
            self.places[id] = if section.shares_bytes() {
                (twin(id), section.size)
            } else {
                let size =
                    contents.size(id).unwrap_or_else(|| section.size_in(super::Half::Mercury));
                // By CUDA 13.5 the system's part of shared memory takes no room (case mercury/reserved-shared).
                let is_empty = first && section.kind == Kind::ReservedShared;
                let size = if is_empty { 0 } else { size };
                let what = What::Section(super::Half::Mercury, id);
                (pieces.add(what, size, align(section)), size)
            };
        }
        if !first {
            self.symbols_at = pieces.add_table(Table::MercurySymbols, symbols, 8);
        }
    }

    /// Offset of the first of their names.
    pub(crate) fn first_name(&self) -> u32 {
        self.names.iter().min().copied().unwrap_or(0)
    }

    /// Header index of the twin of `section`; 0 where it has none.
    pub(crate) fn index(&self, section: SectionId) -> u32 {
        self.index[section]
    }

    /// File offset and size of the twin of `section`, bytes.
    pub(crate) fn range(&self, section: SectionId) -> (u64, u64) {
        self.places[section]
    }

    /// Entries of the symbol table, symbol 0 included.
    pub(crate) fn symbol_count(&self, layout: &Layout) -> usize {
        layout.symbols.len() + 1
    }

    /// Number of sections, the symbol table included.
    pub(crate) fn count(&self) -> usize {
        self.order.len() + 1
    }

    /// The header at `place` in file order, that of the symbol table last or, by CUDA 13.5, first.
    pub(crate) fn header(&self, draft: &Draft<'_>, layout: &Layout, place: usize) -> SectionHeader {
        let place = match draft.dialect.new_writer {
            true => place.checked_sub(1).unwrap_or(self.order.len()),
            false => place,
        };
        let name = self.names.get(place).copied().unwrap_or(0);
        let Some(&id) = self.order.get(place) else { return self.symtab_header(layout, name) };
        let section = &draft.sections[id];
        let (offset, mut size) = self.range(id);
        if section.kind == Kind::ReservedShared {
            size = section.size_in(super::Half::Mercury);
        }
        let Form { sh_type, flags, link, info } = self.form(draft, layout, id);
        let entsize = match section.kind {
            // Since 13.5 as other code.
            Kind::JumpSlots if draft.dialect.new_writer => 0,
            Kind::JumpSlots | Kind::HighIndices => section.entsize(),
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

    fn symtab_header(&self, layout: &Layout, name: u32) -> SectionHeader {
        SectionHeader {
            name,
            sh_type: sht::MERCURY_SYMTAB,
            flags: shf::MERCURY,
            offset: self.symbols_at,
            size: 24 * self.symbol_count(layout) as u64,
            link: 2,
            info: layout.first_global,
            align: 8,
            entsize: 24,
        }
    }

    /// What the header of the twin of section `id` has by its kind.
    fn form(&self, draft: &Draft<'_>, layout: &Layout, id: SectionId) -> Form {
        let section = &draft.sections[id];
        let symtab = self.symtab;
        let owner = section.owner.map_or(0, |owner| self.index(owner));
        let (sh_type, flags, link, info) = match section.kind {
            Kind::Text | Kind::JumpSlots => {
                let function = named_by(draft, id).map_or(0, |symbol| layout.symbol_index(symbol));
                (sht::MERCURY_CODE, 0, symtab, function)
            }
            Kind::FileInfo => (sht::MERCURY_INFO, 0, symtab, 0),
            Kind::FunctionInfo => (sht::MERCURY_INFO, shf::INFO_LINK, symtab, owner),
            Kind::CallGraph => (sht::MERCURY_CALLGRAPH, 0, symtab, 0),
            Kind::Prototype => (sht::MERCURY_PROTOTYPE, 0, symtab, 0),
            Kind::Reloc => (sht::MERCURY_RELA, shf::INFO_LINK, symtab, owner),
            Kind::Resolved => (sht::MERCURY_RESOLVED_RELA, shf::INFO_LINK, symtab, owner),
            Kind::Constant(4) => (sht::MERCURY_CONSTANT_PIC, shf::ALLOC, 0, 0),
            Kind::Constant(_) if section.owner.is_none() => {
                (sht::MERCURY_CONSTANT_USER, shf::ALLOC, 0, 0)
            }
            Kind::Constant(0) => {
                (sht::MERCURY_CONSTANT_IMAGES, shf::ALLOC | shf::INFO_LINK, 0, owner)
            }
            Kind::Constant(_) => {
                (sht::MERCURY_CONSTANT_OPTIMIZER, shf::ALLOC | shf::INFO_LINK, 0, owner)
            }
            Kind::FunctionTable => (sht::CUDA_UFT_ENTRY, 0, 0, 0),
            Kind::FunctionIds => (sht::CUDA_UFT_ENTRY, 0, self.stale_link(draft, layout, id), 0),
            Kind::VariableIds => (sht::CUDA_UDT_ENTRY, 0, self.stale_link(draft, layout, id), 0),
            Kind::Index => (sht::CUDA_UIDX, 0, 0, 0),
            Kind::UnifiedData => (sht::CUDA_UDT, shf::ALLOC | shf::WRITE, 0, 0),
            Kind::HighIndices => (sht::SYMTAB_SHNDX, 0, symtab, 0),
            Kind::GlobalInit => (sht::CUDA_GLOBAL_INIT, shf::ALLOC | shf::WRITE, 0, 0),
            Kind::ReservedShared => (sht::CUDA_SHARED_RESERVED, shf::ALLOC | shf::WRITE, 0, 0),
            _ => (sht::PROGBITS, 0, 0, 0),
        };
        Form { sh_type, flags, link, info }
    }

    /// The twin of the section that has the number that section `id` links to, if it has one.
    fn stale_link(&self, draft: &Draft<'_>, layout: &Layout, id: SectionId) -> u32 {
        match draft.stale_links.get(&id) {
            None | Some(&SYMTAB_INDEX) => self.symtab,
            Some(&link) => {
                let named = link.checked_sub(layout.first_index());
                let twin = named.and_then(|at| layout.order.get(at as usize));
                twin.map(|&twin| self.index(twin)).filter(|&twin| twin != 0).unwrap_or(link)
            }
        }
    }
}

/// Fields of a section header that depend on the kind of section.
struct Form {
    sh_type: u32,
    flags: u64,
    link: u32,
    info: u32,
}

/// The function that the Mercury code of section `id` is of: of a table of slots it is that which was read first, by 13.5 that at
/// the start (case unified/called).
fn named_by(draft: &Draft<'_>, id: SectionId) -> Option<OutSymbolId> {
    let section = &draft.sections[id];
    if section.kind != Kind::JumpSlots || !draft.dialect.new_writer {
        return section.function;
    }
    let starts = |(_, symbol): &(OutSymbolId, &OutSymbol)| {
        symbol.section == Some(id) && symbol.info & 15 == stt::FUNC && symbol.value == 0
    };
    draft.symbols.iter().find(starts).map(|(id, _)| id)
}

/// Mercury code and debug information have alignments of their own.
pub(super) fn align(section: &OutSection<'_>) -> u64 {
    match section.kind {
        Kind::Text | Kind::JumpSlots => 16,
        Kind::Debug => 1,
        _ => section.align,
    }
}
