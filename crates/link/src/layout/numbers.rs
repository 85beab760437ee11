//! Indices: which sections and symbols are in the file, and in what order.
//!
//! In: the finished draft. Out: [`Numbers`], and the table of symbol names. Guaranteed: no other
//! code chooses an index; contents that name symbols use these.

use std::ops::RangeInclusive;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{stb, stt};
use culd_cubin::encode::RESERVED_INDEX;

use super::mercury_names;
use super::strings::StringTable;
use crate::base::half::{Half, RESERVED_SHARED};
use crate::base::id::{DenseId, IdVec, NameId, OutSymbolId, SectionId};
use crate::callgraph::{CallGraph, prototypes};
use crate::draft::Draft;
use crate::draft::kind::{CATEGORIES, SectionKind};
use crate::draft::section::{OutSection, OutSymbol};
use crate::options::form::FileForm;

/// Sections that nvlink creates before the first one of a draft: the null section and four tables.
const CREATED_BEFORE: usize = 5;

/// The index that nvlink gives a section when it creates it (docs/LINKING.md, large programs).
pub(crate) fn creation_index(draft: &Draft<'_>, section: SectionId) -> u32 {
    creation_index_at(section.index(), draft.sections[section].unlisted_before)
}

/// The index of a section that is created after `sections` of the draft and `unlisted` others.
fn creation_index_at(sections: usize, unlisted: u32) -> u32 {
    (CREATED_BEFORE + sections) as u32 + unlisted
}

/// Section index of the symbol table.
pub(crate) const SYMTAB_INDEX: u32 = 3;

/// Order and indices of sections and symbols; offsets follow in [`crate::layout::place`].
pub(crate) struct Numbers {
    /// Sections with contents in file order; the first has index [`Numbers::first_index`].
    pub(crate) order: Vec<SectionId>,
    /// Section header index by section.
    index: IdVec<SectionId, Option<u32>>,
    /// Symbols in table order, without symbol 0.
    pub(crate) symbols: Vec<OutSymbolId>,
    symbol_index: IdVec<OutSymbolId, u32>,
    /// Index of the first symbol of the global list.
    pub(crate) first_global: u32,
    /// Symbols after all others, only in the machine code's symbol table.
    trailing: Vec<OutSymbolId>,
    /// The file has a table of section indices that do not fit `st_shndx`.
    pub(crate) has_high_indices: bool,
    /// The table of symbol names.
    pub(crate) strings: StringTable,
    /// `sh_link` of sections with symbols.
    pub(crate) symbols_link: u32,
    form: FileForm,
}

impl Numbers {
    /// Orders sections and symbols, and makes the table of symbol names.
    pub(crate) fn new(draft: &Draft<'_>, graph: &CallGraph) -> Self {
        let order = order_sections(draft);
        let (symbols, first_global) = order_symbols(draft);
        let mut symbol_index = IdVec::filled(0, draft.symbols.len());
        for (&symbol, index) in symbols.iter().chain(&draft.mercury.trailing).zip(1u32..) {
            symbol_index[symbol] = index;
        }
        let mut numbers = Numbers {
            order,
            index: IdVec::filled(None, draft.sections.len()),
            symbols,
            symbol_index,
            first_global,
            trailing: draft.mercury.trailing.clone(),
            has_high_indices: needs_high_indices(draft),
            strings: StringTable::default(),
            symbols_link: draft.dialect.symbols_link,
            form: draft.form,
        };
        for (&section, index) in numbers.order.iter().zip(numbers.first_index()..) {
            numbers.index[section] = Some(index);
        }
        let lists = [
            &draft.prototype_strings,
            &draft.local_strings,
            &draft.global_strings,
            &draft.mercury.late_strings,
        ];
        numbers.strings = match draft.flavour == Flavour::Mercury && draft.dialect.new_writer {
            true => numbers.collect_names(draft, &prototypes(graph)),
            false => StringTable::new(draft, &lists),
        };
        numbers
    }

    /// The table of symbol names as CUDA 13.5 writes it: names in order of use, instead of the
    /// draft's lists.
    fn collect_names(&self, draft: &Draft<'_>, prototypes: &[NameId]) -> StringTable {
        let symbols = self.symbols.iter().chain(&self.trailing).map(|&id| &draft.symbols[id]);
        let own = symbols.map(|symbol| mercury_names::symbol_name(draft, symbol));
        let mercury = self.symbols.iter().map(|&id| draft.symbols[id].name);
        let all = own.chain(mercury).chain(prototypes.iter().copied());
        StringTable::collected(draft, all.map(|name| (name, name)))
    }

    /// The sections of some categories, see [`SectionKind::category`].
    pub(super) fn in_categories(
        &self,
        draft: &Draft<'_>,
        categories: RangeInclusive<u8>,
    ) -> &[SectionId] {
        let category = |id: &SectionId| draft.sections[*id].kind.category();
        let start = self.order.partition_point(|id| category(id) < *categories.start());
        let end = self.order.partition_point(|id| category(id) <= *categories.end());
        &self.order[start..end]
    }

    /// True if a file with a Mercury half has tables of section indices.
    pub(super) fn is_wide(&self, draft: &Draft<'_>) -> bool {
        let category = SectionKind::HighIndices.category();
        !self.in_categories(draft, category..=category).is_empty()
    }

    /// Section header index of the first content section.
    pub(crate) fn first_index(&self) -> u32 {
        if self.has_high_indices { 5 } else { 4 }
    }

    /// Number of section headers without the Mercury half.
    pub(crate) fn section_count(&self) -> usize {
        self.order.len() + self.first_index() as usize
    }

    /// Entries of the symbol table, with symbol 0.
    pub(crate) fn symbol_count(&self) -> usize {
        self.symbols.len() + self.trailing.len() + 1
    }

    /// The symbol in a row of the table; `None` for symbol 0.
    pub(crate) fn symbol(&self, row: usize) -> Option<OutSymbolId> {
        let place = row.checked_sub(1)?;
        let trailing = || self.trailing.get(place - self.symbols.len());
        self.symbols.get(place).or_else(trailing).copied()
    }

    /// `sh_info` of the symbol table: the first symbol that is not local; since CUDA 13 behind all
    /// symbols if local ones come last.
    pub(crate) fn symbols_info(&self) -> u32 {
        let counts_all = !self.trailing.is_empty() && self.form == FileForm::Notes;
        if counts_all { self.symbol_count() as u32 } else { self.first_global }
    }

    /// Section header index; 0 for a section that is not in the file.
    pub(crate) fn index(&self, section: SectionId) -> u32 {
        self.index[section].unwrap_or(0)
    }

    pub(crate) fn symbol_index(&self, symbol: OutSymbolId) -> u32 {
        self.symbol_index[symbol]
    }

    /// `sh_link`; `stale` replaces it for the tables of unified functions and variables.
    pub(crate) fn link(
        &self,
        section: &OutSection<'_>,
        tkinfo: Option<SectionId>,
        stale: Option<u32>,
    ) -> u32 {
        match section.kind {
            SectionKind::CuInfo => tkinfo.map_or(0, |tkinfo| self.index(tkinfo)),
            SectionKind::FunctionIds | SectionKind::VariableIds => {
                stale.unwrap_or(self.symbols_link)
            }
            SectionKind::FileInfo
            | SectionKind::FunctionInfo
            | SectionKind::CallGraph
            | SectionKind::Prototype
            | SectionKind::Reloc
            | SectionKind::Resolved
            | SectionKind::HighIndices
            | SectionKind::Text
            | SectionKind::JumpSlots => self.symbols_link,
            _ => 0,
        }
    }

    /// `sh_info`: the index of a section; for code the register count in the highest byte, and the
    /// index of the function's symbol.
    pub(crate) fn info(&self, section: &OutSection<'_>) -> u32 {
        match section.function {
            Some(function) => u32::from(section.registers) << 24 | self.symbol_index(function),
            None => section.owner.map_or(0, |owner| self.index(owner)),
        }
    }

    /// Offset of a name in the table of symbol names, bytes.
    pub(crate) fn string(&self, name: NameId) -> u32 {
        self.strings.offset(name)
    }
}

/// True if the file needs the table of section indices. nvlink counts the sections that were
/// created, not those in the file. In files with a Mercury half, parameter banks are created after
/// the table, and do not count.
fn needs_high_indices(draft: &Draft<'_>) -> bool {
    let is_table = |id: &SectionId| draft.sections[*id].kind == SectionKind::HighIndices;
    let table = match draft.flavour {
        Flavour::Classic => None,
        Flavour::Mercury => draft.sections.ids().rfind(is_table),
    };
    let next = match table {
        Some(table) => creation_index(draft, table),
        None => creation_index_at(draft.sections.len(), draft.unlisted),
    };
    next as usize > RESERVED_INDEX
}

/// The sections in the file, by category, then in order of creation.
fn order_sections(draft: &Draft<'_>) -> Vec<SectionId> {
    let mut categories: [Vec<SectionId>; CATEGORIES] = Default::default();
    for (id, section) in draft.sections.iter().filter(|(_, section)| !section.dropped) {
        categories[usize::from(section.kind.category())].push(id);
    }
    categories.concat()
}

/// The symbols in the file, the local list before the global list; and the index of the first
/// global one.
fn order_symbols(draft: &Draft<'_>) -> (Vec<OutSymbolId>, u32) {
    let mut symbols: Vec<OutSymbolId> = Vec::with_capacity(draft.symbols.len());
    symbols.extend(draft.locals.iter().filter(|&&id| is_listed(draft, &draft.symbols[id])));
    // Only CUDA 13.5 moves symbols that became local after they were created, in files with a
    // Mercury half (cases debug/shared-with-g, debug/placed-twice-g).
    let sorts = draft.dialect.new_writer && draft.flavour == Flavour::Mercury;
    let is_global = |id: &OutSymbolId| !sorts || draft.symbols[*id].info >> 4 != stb::LOCAL;
    let globals = || draft.globals.iter().filter(|&&id| !draft.symbols[id].dropped);
    symbols.extend(globals().filter(|id| !is_global(id)));
    let first_global = symbols.len() as u32 + 1;
    symbols.extend(globals().filter(|id| is_global(id)));
    (symbols, first_global)
}

/// True for a symbol in the file. A section symbol is dropped with its section; for some kinds also
/// if the section is empty.
fn is_listed(draft: &Draft<'_>, symbol: &OutSymbol) -> bool {
    if symbol.dropped {
        return false;
    }
    if symbol.info != stb::LOCAL << 4 | stt::SECTION {
        return true;
    }
    symbol.section.is_some_and(|id| {
        let section = &draft.sections[id];
        let shared = matches!(section.kind, SectionKind::Shared | SectionKind::PoolShared);
        let optional = shared || section.kind == SectionKind::Debug;
        // In files with a Mercury half, a section with only the system's part counts as empty.
        let reserved = shared && !draft.relocatable && draft.flavour == Flavour::Mercury;
        let empty = if reserved { RESERVED_SHARED } else { 0 };
        let size = section.size_in(Half::leading(draft.flavour));
        !(section.dropped || optional && size <= empty)
    })
}
