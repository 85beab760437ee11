//! Phase 4: the inputs merged into one draft, file by file.
//!
//! In: [`Objects`], [`Symbols`], [`CallGraph`]. Out: [`Merged`]: the draft with every section,
//! symbol and string in nvlink's order of creation, and where each input section and symbol went.
//! Guaranteed: cannot fail; after it no input file adds a section or a symbol.
//!
//! The order inside one file is nvlink's (docs/LINKING.md, order of creation): functions;
//! other symbols, whose sections are created on first use; remaining sections; attributes;
//! prototypes; relocation sections.

mod functions;
mod relocs;
mod sections;
mod variables;

use culd_cubin::SectionIndex;
use culd_cubin::attr::Record;
use hashbrown::{HashMap, HashSet};

use crate::LinkOptions;
use crate::callgraph::CallGraph;
use crate::draft::{Draft, Fixed, Kind};
use crate::id::{
    BankId, Id, IdVec, NameId, NodeId, ObjectId, OutSymbolId, RelocId, SectionId, SymbolId,
};
use crate::names::Names;
use crate::objects::{Object, Objects};
use crate::symbols::Symbols;

/// Where an input section went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Nowhere.
    No,
    /// Into an output section, starting at `base` bytes.
    At { section: SectionId, base: u64 },
    /// Into the constant banks of all entries that reach its function, later.
    Bank(BankId),
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bank<'d> {
    pub(crate) node: NodeId,
    pub(crate) number: u8,
    pub(crate) bytes: &'d [u8],
    pub(crate) align: u64,
    /// Offset in the banks of the entries, bytes; set when banks are merged.
    pub(crate) offset: u64,
}

/// A shared variable of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedVariable {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) defined: bool,
    /// The entry it belongs to, if it was declared inside one: its code section.
    pub(crate) own: Option<SectionId>,
}

/// A tentative definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommonVariable {
    pub(crate) out: OutSymbolId,
    /// The alignment of the first one seen, bytes.
    pub(crate) align: u64,
}

/// A record of the output's `.nv.info`, in reading order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileRecord<'d> {
    /// A record about a function: code and number.
    About { code: u8, function: OutSymbolId, number: u32 },
    /// Any other record.
    Other(Record<'d>),
}

/// The result of merging.
pub(crate) struct Merged<'d> {
    pub(crate) draft: Draft<'d>,
    pub(crate) fixed: Fixed,
    pub(crate) targets: IdVec<SymbolId, Target>,
    placed: Vec<Placed>,
    section_starts: IdVec<ObjectId, usize>,
    pub(crate) banks: IdVec<BankId, Bank<'d>>,
    pub(crate) shared: Vec<SharedVariable>,
    pub(crate) commons: Vec<CommonVariable>,
    pub(crate) file_records: Vec<FileRecord<'d>>,
    /// Input of the attributes of each function that has some.
    pub(crate) function_infos: IdVec<NodeId, Option<InfoSource>>,
    /// Attribute sections of functions in order of creation.
    pub(crate) info_order: Vec<NodeId>,
    /// Functions of which a copy with relocations was replaced: records about them in
    /// `.rela.debug_*` of files before this one are void.
    pub(crate) void_debug: HashMap<SymbolId, ObjectId>,
    /// Bank section of an entry: by code section and bank number.
    pub(crate) entry_banks: HashMap<(SectionId, u8), SectionId>,
}

/// Where the attributes of a function come from and go to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InfoSource {
    pub(crate) section: SectionId,
    pub(crate) object: ObjectId,
    pub(crate) input: SectionIndex,
}

impl<'d> Merged<'d> {
    /// Where input section `index` of `object` went.
    pub(crate) fn placed(&self, object: ObjectId, index: SectionIndex) -> Placed {
        self.placed[self.section_starts[object] + index.0 as usize]
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
}

/// Everything merging looks at and builds.
struct Merge<'a, 'd> {
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    merged: Merged<'d>,
    /// Sections of names that all files share.
    by_name: IdVec<NameId, Option<SectionId>>,
    /// Relocation sections by name and patched section.
    reloc_ids: HashMap<(NameId, SectionId), RelocId>,
    /// A strong definition of this entry or function has been merged.
    strong_seen: IdVec<SymbolId, bool>,
    /// Names that have been seen as tentative definitions.
    common_seen: HashSet<SymbolId>,
    /// The node whose code a section is.
    node_of_text: HashMap<SectionId, NodeId>,
    /// The present copy of this code had RELA records.
    had_rela: HashMap<SectionId, bool>,
}

/// Merges all files.
pub(crate) fn merge<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    graph: &CallGraph,
    names: Names<'d>,
    options: &LinkOptions,
) -> Merged<'d> {
    let (draft, fixed) = Draft::new(names, options.target.has_compat);
    let total = objects.iter().map(|(_, object)| object.cubin.sections.len()).sum();
    let merged = Merged {
        draft,
        fixed,
        targets: IdVec::filled(Target::None, symbols.all.len()),
        placed: Vec::with_capacity(total),
        section_starts: IdVec::new(),
        banks: IdVec::new(),
        shared: Vec::new(),
        commons: Vec::new(),
        file_records: Vec::new(),
        function_infos: IdVec::filled(None, graph.nodes.len()),
        info_order: Vec::new(),
        void_debug: HashMap::new(),
        entry_banks: HashMap::new(),
    };
    let mut merge = Merge {
        symbols,
        graph,
        merged,
        by_name: IdVec::new(),
        reloc_ids: HashMap::new(),
        strong_seen: IdVec::filled(false, symbols.all.len()),
        common_seen: HashSet::new(),
        node_of_text: HashMap::new(),
        had_rela: HashMap::new(),
    };
    for (id, object) in objects.iter() {
        merge.file(id, object);
    }
    merge.merged
}

impl<'d> Merge<'_, 'd> {
    fn file(&mut self, id: ObjectId, object: &Object<'d>) {
        self.merged.section_starts.push(self.merged.placed.len());
        let sections = object.cubin.sections.len();
        self.merged.placed.resize(self.merged.placed.len() + sections, Placed::No);
        self.functions(id, object);
        self.variables(id, object);
        self.remaining_sections(id, object);
        self.attributes(id, object);
        self.prototypes(object);
        self.relocations(id, object);
    }

    fn placed(&self, object: ObjectId, index: SectionIndex) -> Placed {
        self.merged.placed(object, index)
    }

    fn set_placed(&mut self, object: ObjectId, index: SectionIndex, placed: Placed) {
        let at = self.merged.section_starts[object] + index.0 as usize;
        self.merged.placed[at] = placed;
    }

    /// The section that all files call `name`, if it exists.
    fn find(&self, name: NameId) -> Option<SectionId> {
        if name.index() < self.by_name.len() { self.by_name[name] } else { None }
    }

    /// Creates the section that all files call `name`.
    fn create(&mut self, name: NameId, kind: Kind, flags: u64, align: u64) -> SectionId {
        let section = self.merged.draft.add_section(name, kind, flags, align);
        if self.by_name.len() <= name.index() {
            self.by_name.resize(self.merged.draft.names.len(), None);
        }
        self.by_name[name] = Some(section);
        section
    }

    /// Strings of prototypes come first in `.strtab`, dead functions' ones too.
    fn prototypes(&mut self, object: &Object<'d>) {
        use culd_cubin::callgraph::Edge;
        let indirect = object.edges.iter().filter_map(|edge| match *edge {
            Edge::AddressTaken { prototype, .. } | Edge::IndirectCall { prototype, .. } => {
                Some(prototype)
            }
            _ => None,
        });
        let direct = object.prototypes.iter().map(|&(_, prototype)| prototype);
        for offset in indirect.chain(direct) {
            let name = self.merged.draft.names.intern(object.prototype(offset));
            self.merged.draft.prototype_strings.add(name);
        }
    }
}
