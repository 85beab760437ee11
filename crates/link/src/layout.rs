//! Phase `layout`: order, indices, offsets. Nothing else chooses any.
//!
//! In: the finished draft. Out: [`Layout`]: sections in file order with index and offset, symbols
//! in table order, both string tables. Guaranteed: after it no section changes size.

use std::ops::RangeInclusive;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{stb, stt};
use culd_cubin::encode::{ProgramHeader, RESERVED_INDEX};

use crate::callgraph::CallGraph;
use crate::capsule::Half;
use crate::capsule::names;
use crate::capsule::sections::Capsules;
use crate::content::{self, Contents};
use crate::draft::{CATEGORIES, Draft, Kind, OutSection, OutSymbol};
use crate::id::{Id, IdVec, NameId, OutSymbolId, SectionId};
use crate::pieces::{Piece, Pieces, Table, What};
use crate::strings::Strings;

/// What nvlink counts before the first section of a draft: null and the four tables.
const CREATED_BEFORE: usize = 5;

/// The index that nvlink gives a section when it is created. Before the first section of an input
/// it counts one that is in no file, but not with `-r` (docs/LINKING.md, large programs).
pub(crate) fn creation_index(draft: &Draft<'_>, section: SectionId) -> u32 {
    let unseen = !draft.relocatable && section.index() >= draft.fixed_sections;
    (CREATED_BEFORE + section.index() + usize::from(unseen)) as u32
}

/// Bytes of the file header and of a program header.
const FILE_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;

/// Where the tables in front of the content are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tables {
    pub(crate) section_strings: u64,
    pub(crate) strings: u64,
    pub(crate) symbols: u64,
    pub(crate) high_indices: Option<u64>,
}

/// The shape of the output file.
pub(crate) struct Layout {
    /// Content sections in file order; the first has index [`Layout::first_index`].
    pub(crate) order: Vec<SectionId>,
    /// Section header index by section.
    index: IdVec<SectionId, Option<u32>>,
    /// File offset by section, bytes.
    pub(crate) offsets: IdVec<SectionId, u64>,
    /// Symbols in table order, without symbol 0.
    pub(crate) symbols: Vec<OutSymbolId>,
    symbol_index: IdVec<OutSymbolId, u32>,
    /// Index of the first symbol of the global list.
    pub(crate) first_global: u32,
    pub(crate) section_strings: Strings,
    pub(crate) strings: Strings,
    pub(crate) tables: Tables,
    pub(crate) program_headers: Vec<ProgramHeader>,
    pub(crate) section_headers_at: u64,
    pub(crate) program_headers_at: u64,
    /// The Mercury half.
    pub(crate) capsules: Option<Capsules>,
    /// Symbols behind all others, in the machine code's table only.
    pub(crate) trailing: Vec<OutSymbolId>,
    /// A section's name is not in the table of names, which would make a file that cannot be read.
    pub(crate) is_nameless: bool,
    /// What is where, in file order.
    pub(crate) pieces: Vec<Piece>,
    /// Size of the file, bytes.
    pub(crate) size: u64,
}

/// What nothing that is made of numbers needs: it can be made beside.
pub(crate) struct Sections {
    names: Strings,
    /// The Mercury half.
    pub(crate) capsules: Option<Capsules>,
}

/// Sizes of sections whose content is made after the symbols are numbered.
pub(crate) struct Order {
    layout: Layout,
}

impl Order {
    /// Orders sections and symbols and makes the table of the symbols' names.
    pub(crate) fn new(draft: &Draft<'_>, graph: &CallGraph) -> Self {
        let order = order_sections(draft);
        let (symbols, first_global) = order_symbols(draft);
        let mut symbol_index = IdVec::filled(0, draft.symbols.len());
        for (&symbol, index) in symbols.iter().chain(&draft.trailing).zip(1u32..) {
            symbol_index[symbol] = index;
        }
        let lists = [
            &draft.prototype_strings,
            &draft.local_strings,
            &draft.global_strings,
            &draft.late_strings,
        ];
        let new_writer = draft.flavour == Flavour::Mercury && draft.dialect.new_writer;
        let strings = match new_writer {
            true => Strings::default(),
            false => Strings::new(draft, &lists),
        };
        let layout = Layout {
            index: IdVec::filled(None, draft.sections.len()),
            offsets: IdVec::filled(0, draft.sections.len()),
            symbols,
            symbol_index,
            first_global,
            section_strings: Strings::default(),
            strings,
            tables: Tables::default(),
            program_headers: Vec::new(),
            is_nameless: false,
            pieces: Vec::new(),
            section_headers_at: 0,
            program_headers_at: 0,
            capsules: None,
            trailing: draft.trailing.clone(),
            size: 0,
            order,
        };
        let mut order = Order { layout };
        order.number(draft);
        if new_writer {
            order.collect_names(draft, &content::prototypes(graph));
        }
        order
    }

    /// The names of the machine code's half as they are written, in place of those of the draft.
    fn collect_names(&mut self, draft: &Draft<'_>, prototypes: &[NameId]) {
        let layout = &mut self.layout;
        let symbols =
            || layout.symbols.iter().chain(&layout.trailing).map(|&id| &draft.symbols[id]);
        let own = symbols().map(|symbol| names::symbol_name(draft, symbol));
        let mercury = layout.symbols.iter().map(|&id| draft.symbols[id].name);
        let all = own.chain(mercury).chain(prototypes.iter().copied());
        let all = all.map(|name| (name, name));
        layout.strings = Strings::collected(draft, all);
    }

    /// The table of the sections' names, and the Mercury half, which comes behind everything else, as its names do.
    pub(crate) fn sections(&self, draft: &Draft<'_>) -> Sections {
        let layout = &self.layout;
        if draft.flavour == Flavour::Classic {
            let names = Strings::new(draft, &[&draft.section_strings]);
            return Sections { names, capsules: None };
        }
        let new_writer = draft.dialect.new_writer;
        let mut names = match new_writer {
            true => self.collected_names(draft),
            false => Strings::new(draft, &[&draft.section_strings]),
        };
        if !new_writer {
            let mut renamed: Vec<SectionId> = draft.renamed.keys().copied().collect();
            renamed.sort_unstable_by_key(|&id| layout.index[id]);
            names.replace(names::overwritten(draft, &renamed, |name| names.offset(name)));
        }
        let next = layout.section_count() as u32;
        let capsules = Capsules::new(draft, &layout.order, next, &mut names);
        if new_writer && !layout.is_wide(draft) {
            // The gap of the releases before is a part of the table.
            names.bytes.resize(names.bytes.len() + names::GAP as usize, 0);
        }
        Sections { names, capsules: Some(capsules) }
    }

    /// The names of the machine code's sections as they are written.
    fn collected_names(&self, draft: &Draft<'_>) -> Strings {
        let layout = &self.layout;
        let high = layout.tables.high_indices.is_some().then_some(&b".symtab_shndx"[..]);
        let tables = [&b".shstrtab"[..], b".strtab", b".symtab"].into_iter().chain(high);
        let tables = tables.filter_map(|name| draft.names.lookup(name));
        let sections = layout.order.iter().map(|&id| {
            let name = draft.sections[id].name;
            (name, draft.renamed.get(&id).copied().unwrap_or(name))
        });
        let tables = tables.map(|name| (name, name));
        Strings::collected(draft, tables.chain(sections))
    }

    fn number(&mut self, draft: &Draft<'_>) {
        let layout = &mut self.layout;
        // nvlink makes room for wide indices by the sections that were created, not by those
        // that are left.
        // Beside Mercury, parameters come after all others, as the table itself does.
        let late = match draft.flavour {
            Flavour::Classic => None,
            Flavour::Mercury => {
                draft.sections.values().rposition(|section| section.kind == Kind::HighIndices)
            }
        };
        let count = late.unwrap_or(draft.sections.len());
        let created = creation_index(draft, SectionId::from_index(count));
        if created as usize > RESERVED_INDEX {
            layout.tables.high_indices = Some(0);
        }
        for (&section, index) in layout.order.iter().zip(layout.first_index()..) {
            layout.index[section] = Some(index);
        }
    }

    /// Index of a symbol in the table.
    pub(crate) fn symbol_index(&self, symbol: OutSymbolId) -> u32 {
        self.layout.symbol_index[symbol]
    }

    /// The order so far: sections and symbols have their indices, but no places.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Offset of a string of the symbol string table, bytes.
    pub(crate) fn string(&self, name: NameId) -> u32 {
        self.layout.strings.offset(name)
    }

    /// Places everything in the file. Below this line no section changes size.
    pub(crate) fn place(
        self,
        draft: &Draft<'_>,
        sections: Sections,
        mercury: Option<&Contents>,
    ) -> Layout {
        let mut layout = self.layout;
        (layout.section_strings, layout.capsules) = (sections.names, sections.capsules);
        let mut pieces = Pieces::new(FILE_HEADER, layout.section_count() + 8);
        let names = layout.section_strings.len() as u64;
        layout.tables.section_strings = pieces.add_table(Table::SectionStrings, names, 1);
        let new_writer = draft.dialect.new_writer && layout.capsules.is_some();
        if layout.capsules.is_some() && !new_writer && !layout.is_wide(draft) {
            pieces.skip(names::GAP, 1);
        }
        let strings = layout.strings.len() as u64;
        layout.tables.strings = pieces.add_table(Table::Strings, strings, 1);
        if layout.capsules.is_some() {
            pieces.skip(names::gap(draft), 1);
        }
        let symbols = layout.symbol_count() as u64;
        layout.tables.symbols = pieces.add_table(Table::Symbols, symbols, 8);
        if layout.tables.high_indices.is_some() {
            layout.tables.high_indices = Some(pieces.add_table(Table::HighIndices, symbols, 4));
        }
        for &id in &layout.order {
            let section = &draft.sections[id];
            let bytes = if section.kind.is_nobits() { 0 } else { section.size };
            layout.is_nameless |= layout.section_strings.offset(section.name) == 0;
            let what = What::Section(Half::Sass, id);
            layout.offsets[id] = pieces.add(what, bytes, section.align.max(1));
        }
        let symbols = |capsules: &Capsules| capsules.symbol_count(&layout) as u64;
        let symbols = layout.capsules.as_ref().map_or(0, symbols);
        if let (Some(capsules), Some(contents)) = (&mut layout.capsules, mercury) {
            let offsets = &layout.offsets;
            capsules.place(draft, contents, symbols, |id| offsets[id], &mut pieces);
        }
        let align = if new_writer { 1 } else { 8 };
        let sections = layout.section_count() as u64;
        layout.section_headers_at = pieces.add_table(Table::SectionHeaders, sections, align);
        if !draft.relocatable {
            layout.program_headers_at = pieces.end();
            layout.program_headers = program_headers(draft, &layout);
            let size = PROGRAM_HEADER * layout.program_headers.len() as u64;
            pieces.add(What::ProgramHeaders, size, 1);
        }
        layout.size = pieces.end();
        layout.pieces = pieces.finish();
        layout
    }
}

/// Bytes of shared memory in front of every block's own, on GPUs that have Mercury.
pub(crate) const RESERVED_SHARED: u64 = 0x400;

/// Sections by category, then by creation, without what is not in the file.
fn order_sections(draft: &Draft<'_>) -> Vec<SectionId> {
    let mut categories: [Vec<SectionId>; CATEGORIES] = Default::default();
    for (id, section) in draft.sections.iter().filter(|(_, section)| !section.dropped) {
        categories[usize::from(section.kind.category())].push(id);
    }
    categories.concat()
}

/// The local list, then the global list, without what is not in the file, and how many come before the global ones.
fn order_symbols(draft: &Draft<'_>) -> (Vec<OutSymbolId>, u32) {
    let mut symbols: Vec<OutSymbolId> = Vec::with_capacity(draft.symbols.len());
    symbols.extend(draft.locals.iter().filter(|&&id| is_listed(draft, &draft.symbols[id])));
    // Only CUDA 13.5 moves what has become local in the meantime, beside Mercury (cases debug/shared-with-g, debug/placed-twice-g).
    let sorts = draft.dialect.new_writer && draft.flavour == Flavour::Mercury;
    let is_global = |id: &OutSymbolId| !sorts || draft.symbols[*id].info >> 4 != stb::LOCAL;
    let globals = || draft.globals.iter().filter(|&&id| !draft.symbols[id].dropped);
    symbols.extend(globals().filter(|id| !is_global(id)));
    let first_global = symbols.len() as u32 + 1;
    symbols.extend(globals().filter(|id| is_global(id)));
    (symbols, first_global)
}

/// Section symbols go with their section, and with its bytes where those are optional.
fn is_listed(draft: &Draft<'_>, symbol: &OutSymbol) -> bool {
    if symbol.dropped {
        return false;
    }
    if symbol.info != stb::LOCAL << 4 | stt::SECTION {
        return true;
    }
    symbol.section.is_some_and(|id| {
        let section = &draft.sections[id];
        let shared = matches!(section.kind, Kind::Shared | Kind::PoolShared);
        let optional = shared || section.kind == Kind::Debug;
        // Beside Mercury, what only has the system's part counts as empty.
        let reserved = shared && !draft.relocatable && draft.flavour == Flavour::Mercury;
        let empty = if reserved { RESERVED_SHARED } else { 0 };
        let size = section.size_in(Half::shown(draft.flavour));
        !(section.dropped || optional && size <= empty)
    })
}

/// The section that the symbol table is.
pub(crate) const SYMTAB_INDEX: u32 = 3;

/// Bytes of output that are always allowed.
const FREE_SIZE: u64 = 32 << 20;

impl Layout {
    /// What of the file does not fit its format, or is out of all proportion to the inputs:
    /// damaged sizes and alignments must not take all memory.
    pub(crate) fn problem(&self, inputs_size: u64) -> Option<String> {
        if self.size > FREE_SIZE.saturating_add(inputs_size.saturating_mul(16)) {
            return Some(format!("{:#x} bytes from {inputs_size:#x} bytes of input", self.size));
        }
        let strings = self.strings.len().max(self.section_strings.len());
        if u32::try_from(strings).is_err() {
            return Some(format!("{strings:#x} bytes of names"));
        }
        if self.capsules.is_some() && self.tables.high_indices.is_some() {
            let most = RESERVED_INDEX - 1;
            return Some(format!("more than {most} sections of machine code beside Mercury"));
        }
        // Code keeps its function's index in 24 bits.
        let symbols = self.symbols.len();
        (symbols >= 1 << 24).then(|| format!("{symbols} symbols"))
    }

    /// The sections of some categories, see [`Kind::category`].
    fn of(&self, draft: &Draft<'_>, categories: RangeInclusive<u8>) -> &[SectionId] {
        let category = |id: &SectionId| draft.sections[*id].kind.category();
        let start = self.order.partition_point(|id| category(id) < *categories.start());
        let end = self.order.partition_point(|id| category(id) <= *categories.end());
        &self.order[start..end]
    }

    /// Whether the tables of section indices beside Mercury are in the file.
    fn is_wide(&self, draft: &Draft<'_>) -> bool {
        let category = Kind::HighIndices.category();
        !self.of(draft, category..=category).is_empty()
    }

    /// Section header index of the first content section.
    pub(crate) fn first_index(&self) -> u32 {
        if self.tables.high_indices.is_some() { 5 } else { 4 }
    }

    pub(crate) fn section_count(&self) -> usize {
        let capsules = self.capsules.as_ref().map_or(0, Capsules::count);
        self.order.len() + self.first_index() as usize + capsules
    }

    /// Entries of the symbol table, symbol 0 included.
    pub(crate) fn symbol_count(&self) -> usize {
        self.symbols.len() + self.trailing.len() + 1
    }

    /// The symbol at a place in the table; none for symbol 0.
    pub(crate) fn symbol(&self, row: usize) -> Option<OutSymbolId> {
        let place = row.checked_sub(1)?;
        let trailing = || self.trailing.get(place - self.symbols.len());
        self.symbols.get(place).or_else(trailing).copied()
    }

    /// `sh_info` of the symbol table: the first symbol that is not local.
    pub(crate) fn symbols_info(&self) -> u32 {
        if self.trailing.is_empty() { self.first_global } else { self.symbol_count() as u32 }
    }

    /// Section header index, 0 for a section that is not in the file.
    pub(crate) fn index(&self, section: SectionId) -> u32 {
        self.index[section].unwrap_or(0)
    }

    pub(crate) fn symbol_index(&self, symbol: OutSymbolId) -> u32 {
        self.symbol_index[symbol]
    }

    /// `sh_link`; `stale` is what entries of unified functions and variables have in its place.
    pub(crate) fn link(
        &self,
        section: &OutSection<'_>,
        tkinfo: SectionId,
        stale: Option<u32>,
    ) -> u32 {
        match section.kind {
            Kind::CuInfo => self.index(tkinfo),
            Kind::FunctionIds | Kind::VariableIds => stale.unwrap_or(SYMTAB_INDEX),
            Kind::FileInfo
            | Kind::FunctionInfo
            | Kind::CallGraph
            | Kind::Prototype
            | Kind::Reloc
            | Kind::Resolved
            | Kind::HighIndices
            | Kind::Text
            | Kind::JumpSlots => SYMTAB_INDEX,
            _ => 0,
        }
    }

    /// `sh_info`: a section, or for code the function's symbol under its register count.
    pub(crate) fn info(&self, section: &OutSection<'_>) -> u32 {
        match section.function {
            Some(function) => u32::from(section.registers) << 24 | self.symbol_index(function),
            None => section.owner.map_or(0, |owner| self.index(owner)),
        }
    }
}

const PT_LOAD: u32 = 1;
const PT_PHDR: u32 = 6;
const READ: u32 = 4;
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;

/// The headers' own segment, constants and code, data, and the headers again; beside Mercury these come
/// first, constants stand alone, and parameters come last.
fn program_headers(draft: &Draft<'_>, layout: &Layout) -> Vec<ProgramHeader> {
    let mut loads = Vec::new();
    let start = |id: SectionId| layout.offsets[id];
    let file_end = |id: SectionId| {
        let section = &draft.sections[id];
        start(id) + if section.kind.is_nobits() { 0 } else { section.size }
    };
    let span = |first: Kind, last: Kind, flags| {
        let sections = layout.of(draft, first.category()..=last.category());
        let (&first, &last) = sections.first().zip(sections.last())?;
        let (offset, size) = (start(first), file_end(last) - start(first));
        Some(ProgramHeader { p_type: PT_LOAD, flags, offset, file_size: size, memory_size: size })
    };
    const CONSTANT: Kind = Kind::Constant(0);
    match draft.flavour {
        Flavour::Classic => loads.extend(span(CONSTANT, Kind::Text, READ_EXECUTE)),
        Flavour::Mercury => {
            loads.extend(span(CONSTANT, CONSTANT, READ));
            loads.extend(span(Kind::Text, Kind::Text, READ_EXECUTE));
        }
    }
    let data = layout.of(draft, Kind::GlobalInit.category()..=Kind::Global.category());
    if let (Some(&first), Some(&last)) = (data.first(), data.last()) {
        let offset = start(first);
        let mut memory = file_end(last);
        let file_size = memory - offset;
        for section in data.iter().map(|&id| &draft.sections[id]) {
            if section.kind.is_nobits() {
                memory = memory.next_multiple_of(section.align) + section.size;
            }
        }
        let (p_type, flags, memory_size) = (PT_LOAD, READ_WRITE, memory - offset);
        loads.push(ProgramHeader { p_type, flags, offset, file_size, memory_size });
    }
    loads.extend(span(Kind::Parameters, Kind::Parameters, READ));
    let size = PROGRAM_HEADER * (loads.len() as u64 + 2);
    let classic = draft.flavour == Flavour::Classic;
    let own = |p_type| ProgramHeader {
        p_type,
        flags: if classic { READ_EXECUTE } else { READ },
        offset: layout.program_headers_at,
        file_size: size,
        memory_size: size,
    };
    let mut headers = vec![own(PT_PHDR)];
    if classic {
        headers.extend(loads);
        headers.push(own(PT_LOAD));
    } else {
        headers.push(own(PT_LOAD));
        headers.extend(loads);
    }
    headers
}
