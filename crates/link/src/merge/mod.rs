//! Phase `merge`: the inputs merged into one draft, file by file.
//!
//! In: [`Objects`], [`Symbols`], [`CallGraph`]. Out: [`Merged`]: the draft with every section,
//! symbol and string in nvlink's order of creation, and where each input section and symbol went.
//! Guaranteed: cannot fail, not for files whose names clash either, which is looked for beside it; after it no input file adds
//! a section or a symbol.
//!
//! The order inside one file is nvlink's (docs/LINKING.md, order of creation): functions;
//! other symbols, whose sections are created on first use; remaining sections; attributes;
//! relocation sections.

mod functions;
mod jump_tables;
mod relocs;
mod sections;
mod unified;
mod unlisted;
mod variables;

use culd_cubin::arch::Flavour;
use culd_cubin::attr::Record;
use culd_cubin::elf::stt;
use culd_cubin::{RelocEntry, SectionIndex};
use hashbrown::{HashMap, HashSet};
pub(crate) use relocs::RESOLVED;
pub(crate) use sections::{may_name_reference, names_reference};

use crate::LinkOptions;
use crate::callgraph::CallGraph;
use crate::draft::{Draft, Fixed, Kind, Part, RelocSource};
use crate::id::{
    BankId, IdMap, IdVec, NameId, NodeId, ObjectId, OutSymbolId, RelocId, SectionId, SymbolId,
};
use crate::moved::Moved;
use crate::names::{NameList, Names};
use crate::objects::{Object, Objects};
use crate::shared;
use crate::symbols::Symbols;
use crate::unified::Tables;
use crate::void::VoidRecords;
use unlisted::Unlisted;

/// Where an input section went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nowhere.
    No,
    /// Into an output section, starting at `base` bytes.
    At { section: SectionId, base: u64 },
    /// Into the constant banks of all entries that reach its function, later.
    Bank(BankId),
    /// Nowhere yet: literals of a copy that lost, kept if nothing else takes their place.
    Waiting,
    /// Code that lost to another copy of this function.
    Lost(OutSymbolId),
}

/// What relocations against a program symbol mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// It is not in the output.
    None,
    /// A symbol of the output, or one that only had to be created.
    Symbol(OutSymbolId),
    /// A symbol that ptxas made for itself: only its place counts.
    Internal { placed: Placed, value: u64 },
}

/// A constant bank of a function that is no entry.
#[derive(Debug, Clone)]
pub(crate) struct Bank<'d> {
    pub(crate) node: NodeId,
    pub(crate) number: u8,
    /// The accepted copy's bytes, and behind them those of copies that lost; empty when the
    /// function was replaced by a copy without a bank.
    pub(crate) parts: Vec<Part<'d>>,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// Offset in the banks of the entries, bytes; set when banks are merged.
    pub(crate) offset: u64,
    /// The function was replaced and no bytes have come since.
    pub(crate) emptied: bool,
    /// Where in the bank the last literals of a copy that lost are, bytes.
    pub(crate) lost_at: Option<u64>,
    /// Records that patch it, in the order of files: jump tables have some in Mercury. Those of copies that were
    /// replaced stay but for 13.5 (case literals/jump-tables-of-copies).
    pub(crate) sources: Vec<RelocSource>,
    /// Where its literals with records start, and copies that lost.
    pub(crate) starts: Vec<u64>,
}

impl Bank<'_> {
    /// The records of one literal after the other, the first to be listed last.
    pub(crate) fn records(&self) -> Vec<RelocSource> {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([self.size]);
        let literal = |(start, end): (&u64, u64)| {
            let part = move |source: &RelocSource| {
                let within = (start.saturating_sub(source.base), end.saturating_sub(source.base));
                (within.1 != 0).then_some(RelocSource { within, ..*source })
            };
            self.sources.iter().filter_map(part).collect::<Vec<_>>()
        };
        starts.iter().zip(ends).flat_map(literal).collect()
    }

    pub(crate) fn new(node: NodeId, number: u8) -> Self {
        Bank {
            node,
            number,
            parts: Vec::new(),
            size: 0,
            align: 1,
            offset: 0,
            emptied: false,
            lost_at: None,
            sources: Vec::new(),
            starts: Vec::new(),
        }
    }
}

/// What is known about a name of a shared variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedGroup {
    pub(crate) defined: bool,
    /// Bytes.
    pub(crate) size: u64,
    /// Its node while it is an `extern` array without size.
    pub(crate) unsized_node: Option<usize>,
}

/// One thing to be laid out in shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedNode {
    /// The variable, see [`crate::draft::OutSymbol::shared`].
    pub(crate) group: u32,
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// False for an `extern` array without size.
    pub(crate) defined: bool,
    /// The entry it belongs to, if it was declared inside one: its code section.
    pub(crate) own: Option<SectionId>,
}

/// All shared variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedVariables {
    pub(crate) groups: Vec<SharedGroup>,
    /// In order of creation.
    pub(crate) nodes: Vec<SharedNode>,
    /// Some node was made for an array without size.
    pub(crate) any_extern: bool,
}

/// A tentative definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommonVariable {
    pub(crate) out: OutSymbolId,
    /// The alignment of the first one seen, bytes.
    pub(crate) align: u64,
}

/// A record of the output's `.nv.info`, in reading order. Nearly all are about functions: the others must not make
/// those larger.
#[derive(Debug)]
pub(crate) enum FileRecord<'d> {
    /// A record about a function: code and number.
    About { code: u8, function: OutSymbolId, number: u32 },
    /// A record about a texture, sampler or surface reference, which its payload begins with.
    Reference { symbol: OutSymbolId, record: Box<Record<'d>> },
    /// Any other record.
    Other(Box<Record<'d>>),
}

/// The result of merging.
pub(crate) struct Merged<'d> {
    pub(crate) draft: Draft<'d>,
    pub(crate) fixed: Fixed,
    pub(crate) targets: IdVec<SymbolId, Target>,
    placed: Vec<Placed>,
    /// Where debug sections start in the Mercury half, bytes, by the same place as `placed`.
    twin_bases: Vec<u64>,
    section_starts: IdVec<ObjectId, usize>,
    pub(crate) banks: IdVec<BankId, Bank<'d>>,
    pub(crate) shared: SharedVariables,
    pub(crate) unified: Tables,
    pub(crate) commons: Vec<CommonVariable>,
    pub(crate) file_records: Vec<FileRecord<'d>>,
    /// Input of the attributes of each function that has some.
    pub(crate) function_infos: IdVec<NodeId, Option<InfoSource>>,
    /// Functions with attributes in the order in which their lists were read; a copy that is
    /// replaced was read in vain.
    pub(crate) info_order: Vec<NodeId>,
    /// Functions of which a copy with relocations was replaced: records about them in
    /// `.rela.debug_*` of files before this one are void.
    pub(crate) void_debug: HashMap<SymbolId, ObjectId>,
    /// The same for `.rel.debug_*`, by function and patched section.
    pub(crate) void_rel: HashMap<(SymbolId, SectionId), ObjectId>,
    /// Dead functions of which a copy with relocations was replaced: records about them in files
    /// before this one clear nothing.
    pub(crate) void_dead: HashMap<SymbolId, ObjectId>,
    /// Where constant variables went that did not fit at first.
    pub(crate) moved: Moved,
    /// Relocation section for the texture slots of a parameter bank.
    pub(crate) slot_relocs: HashMap<SectionId, SectionId>,
    /// Bank section of an entry: by code section and bank number.
    pub(crate) entry_banks: HashMap<(SectionId, u8), SectionId>,
}

/// Where the attributes of a function come from and go to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InfoSource {
    pub(crate) section: SectionId,
    pub(crate) object: ObjectId,
    pub(crate) input: SectionIndex,
    /// Bytes of that.
    pub(crate) size: usize,
    /// Number of the list in order of reading.
    read: u32,
}

impl<'d> Merged<'d> {
    /// Where input section `index` of `object` went.
    pub(crate) fn placed(&self, object: ObjectId, index: SectionIndex) -> Placed {
        self.placed[self.section_starts[object] + index.0 as usize]
    }

    /// Where input section `index` of `object`, which went to `base`, starts in the other half.
    pub(crate) fn twin_base(&self, object: ObjectId, index: SectionIndex, base: u64) -> u64 {
        let at = self.section_starts[object] + index.0 as usize;
        match self.twin_bases.get(at) {
            Some(&twin_base) if twin_base != u64::MAX => twin_base,
            _ => base,
        }
    }

    /// True for a record without addend against the symbol of a section of which this file's part is not the
    /// first: where that starts becomes its addend.
    pub(crate) fn gets_addend(
        &self,
        id: ObjectId,
        object: &Object<'_>,
        record: RelocEntry,
    ) -> bool {
        let symbol = object.symbol(record.symbol);
        let section = symbol.defined_in().filter(|_| symbol.kind() == stt::SECTION);
        let placed = section.map(|section| self.placed(id, section));
        matches!(placed, Some(Placed::At { base, .. }) if base != 0)
    }

    /// The output symbol of a program symbol.
    pub(crate) fn out_symbol(&self, symbol: SymbolId) -> Option<OutSymbolId> {
        match self.targets[symbol] {
            Target::Symbol(out) => Some(out),
            _ => None,
        }
    }

    /// The output symbol of a live function.
    pub(crate) fn function(&self, graph: &CallGraph, node: NodeId) -> OutSymbolId {
        self.out_symbol(graph.nodes[node])
            .expect("merging creates a symbol for every live function")
    }

    /// The code section of a live function, if the program defines it.
    pub(crate) fn code(&self, graph: &CallGraph, node: NodeId) -> Option<SectionId> {
        self.draft.symbols[self.function(graph, node)].section
    }

    /// True for the function of a jump slot.
    pub(crate) fn is_jump_slot(&self, function: OutSymbolId) -> bool {
        // Most programs have no such section.
        if self.unified.slots_table.is_none() {
            return false;
        }
        let section = self.draft.symbols[function].section;
        section.is_some_and(|section| self.draft.sections[section].kind == Kind::JumpSlots)
    }

    /// True for the function of the jump slot that was read first, after which the section of all is named.
    pub(crate) fn is_first_slot(&self, function: OutSymbolId) -> bool {
        self.unified.slots.first().is_some_and(|slot| slot.stub == function)
    }

    /// Constant bank `number` of an entry, if it has one.
    pub(crate) fn entry_bank(
        &self,
        graph: &CallGraph,
        entry: NodeId,
        number: u8,
    ) -> Option<SectionId> {
        self.entry_banks.get(&(self.code(graph, entry)?, number)).copied()
    }
}

/// Everything merging looks at and builds.
struct Merge<'a, 'd> {
    objects: &'a Objects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    void: &'a VoidRecords,
    merged: Merged<'d>,
    /// Sections of names that all files share.
    by_name: IdMap<NameId, SectionId>,
    /// The last relocation section created for a section; the others are found from there.
    relocs_of: IdMap<SectionId, RelocId>,
    /// The names of unified tables stay in the output.
    keeps_table_names: bool,
    /// Relocations that are applied are recorded.
    preserve: bool,
    /// Sections for what is applied, by name: places in [`Draft::resolved`].
    resolved_ids: HashMap<NameId, usize>,
    /// Shared variables that code names, if their symbols stay.
    named_shared: Option<HashSet<SymbolId>>,
    /// Kernels may be left out.
    selecting: bool,
    /// Kernels may be left out because no host code refers to them.
    host_references: bool,
    /// A strong definition of this entry or function has been merged.
    strong_seen: IdVec<SymbolId, bool>,
    /// Names that have been seen as tentative definitions.
    common_seen: HashSet<SymbolId>,
    /// Sections of literals whose only owners lost, by code and bank number.
    loser_banks: HashMap<(SectionId, u8), SectionId>,
    /// Second sections of a name, by code and bank number of the kernel.
    second_banks: HashMap<(SectionId, u8), SectionId>,
    /// In an object, the symbols of literals of accepted copies, by their section.
    literal_symbols: HashMap<SectionId, Vec<OutSymbolId>>,
    /// The attribute section of a function, by its code.
    info_of_code: IdMap<SectionId, SectionId>,
    /// The bank of a function, by its number.
    bank_of: HashMap<(NodeId, u8), BankId>,
    /// Where literals of a file went in the bank of a function, bytes.
    bank_parts: HashMap<(ObjectId, SectionIndex), (BankId, u64)>,
    /// Entries of jump tables of accepted copies.
    tables: jump_tables::Tables<'d>,
    /// The node whose code a section is.
    node_of_text: IdMap<SectionId, NodeId>,
    /// Dead functions with an accepted copy that had relocations.
    dead_with_relocations: HashSet<SymbolId>,
    /// Attribute lists read so far.
    infos_read: u32,
    /// Code sections of which some copy had relocations.
    had_relocs: IdMap<SectionId, ()>,
    /// Sections of dead functions that have taken an index.
    counted: HashSet<(SymbolId, Unlisted)>,
}

/// Merges all files.
pub(crate) fn merge<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    void: &VoidRecords,
    (names, prototypes): (Names<'d>, NameList),
    options: &'d LinkOptions,
) -> Merged<'d> {
    let mut merged = Merged::empty(objects, symbols, graph, names, options);
    merged.draft.prototype_strings = prototypes;
    let named_shared = options.keeps_shared_symbols().then(|| shared::named(objects, symbols));
    let mut merge = Merge::new(objects, (symbols, graph, void), merged, named_shared, options);
    for (id, object) in objects.iter() {
        merge.file(id, object);
    }
    merge.finish()
}

impl<'d> Merged<'d> {
    /// Nothing, with room for what the files have.
    fn empty(
        objects: &Objects<'d>,
        symbols: &Symbols,
        graph: &CallGraph,
        names: Names<'d>,
        options: &'d LinkOptions,
    ) -> Self {
        let unified_functions = objects.iter().any(|(_, object)| object.has_unified_functions());
        let (mut draft, fixed) = Draft::new(names, options, unified_functions);
        let total = objects.iter().map(|(_, object)| object.cubin.sections.len()).sum();
        // What inputs have is about what the output has. Room that is not used is not taken.
        draft.sections.reserve(total);
        draft.symbols.reserve(symbols.all.len() + total / 2);
        draft.locals.reserve(symbols.all.len() + total / 2);
        draft.relocs.reserve(total / 2);
        draft.reserve_names(total);
        let twins = if draft.flavour == Flavour::Mercury { total } else { 0 };
        Merged {
            draft,
            fixed,
            targets: IdVec::filled(Target::None, symbols.all.len()),
            placed: Vec::with_capacity(total),
            twin_bases: Vec::with_capacity(twins),
            section_starts: IdVec::new(),
            banks: IdVec::new(),
            shared: SharedVariables::default(),
            unified: Tables::default(),
            commons: Vec::new(),
            // FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE and REGCOUNT of each.
            file_records: Vec::with_capacity(4 * graph.nodes.len()),
            function_infos: IdVec::filled(None, graph.nodes.len()),
            info_order: Vec::new(),
            void_debug: HashMap::new(),
            void_rel: HashMap::new(),
            void_dead: HashMap::new(),
            moved: Moved::default(),
            slot_relocs: HashMap::new(),
            entry_banks: HashMap::new(),
        }
    }
}

impl<'a, 'd> Merge<'a, 'd> {
    fn new(
        objects: &'a Objects<'d>,
        (symbols, graph, void): (&'a Symbols, &'a CallGraph, &'a VoidRecords),
        merged: Merged<'d>,
        named_shared: Option<HashSet<SymbolId>>,
        options: &LinkOptions,
    ) -> Self {
        Merge {
            objects,
            symbols,
            graph,
            void,
            merged,
            by_name: IdMap::default(),
            relocs_of: IdMap::default(),
            preserve: options.preserve_relocs,
            keeps_table_names: options.keeps_unified(),
            resolved_ids: HashMap::new(),
            named_shared,
            selecting: options.effective_selection().is_active(),
            host_references: options.effective_selection().is_host(),
            strong_seen: IdVec::filled(false, symbols.all.len()),
            common_seen: HashSet::new(),
            loser_banks: HashMap::new(),
            second_banks: HashMap::new(),
            literal_symbols: HashMap::new(),
            info_of_code: IdMap::default(),
            bank_of: HashMap::new(),
            bank_parts: HashMap::new(),
            tables: HashMap::new(),
            node_of_text: IdMap::default(),
            dead_with_relocations: HashSet::new(),
            infos_read: 0,
            had_relocs: IdMap::default(),
            counted: HashSet::new(),
        }
    }

    fn finish(self) -> Merged<'d> {
        let mut merged = self.merged;
        // Lists of copies that were replaced were read in vain.
        let mut order = vec![None; self.infos_read as usize];
        for (node, source) in merged.function_infos.iter() {
            if let Some(source) = source {
                order[source.read as usize] = Some(node);
            }
        }
        merged.info_order = order.into_iter().flatten().collect();
        merged
    }
}

impl<'d> Merge<'_, 'd> {
    fn file(&mut self, id: ObjectId, object: &Object<'d>) {
        self.merged.section_starts.push(self.merged.placed.len());
        let sections = object.cubin.sections.len();
        self.merged.placed.resize(self.merged.placed.len() + sections, Placed::No);
        if self.merged.draft.flavour == Flavour::Mercury {
            self.merged.twin_bases.resize(self.merged.placed.len(), u64::MAX);
        }
        self.functions(id, object);
        self.variables(id, object);
        self.remaining_sections(id, object);
        self.attributes(id, object);
        self.relocations(id, object);
    }

    fn placed(&self, object: ObjectId, index: SectionIndex) -> Placed {
        self.merged.placed(object, index)
    }

    fn set_placed(&mut self, object: ObjectId, index: SectionIndex, placed: Placed) {
        let at = self.merged.section_starts[object] + index.0 as usize;
        self.merged.placed[at] = placed;
    }

    /// Notes where a section starts in the Mercury half.
    fn set_twin_base(&mut self, object: ObjectId, index: SectionIndex, base: u64) {
        let at = self.merged.section_starts[object] + index.0 as usize;
        if let Some(entry) = self.merged.twin_bases.get_mut(at) {
            *entry = base;
        }
    }

    /// The section that all files call `name`, if it exists.
    fn find(&self, name: NameId) -> Option<SectionId> {
        self.by_name.get(name)
    }

    /// Creates the section that all files call `name`.
    fn create(&mut self, name: NameId, kind: Kind, flags: u64, align: u64) -> SectionId {
        let section = self.merged.draft.add_section(name, kind, flags, align);
        self.by_name.insert(name, section);
        section
    }
}
