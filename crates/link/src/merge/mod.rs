//! Phase `merge`: the inputs merged into one draft, file by file.
//!
//! In: [`InputObjects`], [`Symbols`], [`CallGraph`]. Out: [`MergeResult`]: the draft with every
//! section, symbol and string in nvlink's order of creation, and where each input section and
//! symbol went. Guaranteed: infallible, because [`crate::check::clash`] reports definitions that
//! disagree, in parallel with this phase; afterwards no input file adds a section or a symbol.
//!
//! The order inside one file is nvlink's (docs/LINKING.md, order of creation): functions;
//! other symbols, whose sections are created on first use; remaining sections; attributes;
//! relocation sections.

mod attributes;
mod banks;
mod functions;
mod jump_tables;
pub(crate) mod relocs;
mod sections;
mod unified;
mod unlisted;
mod variables;

use std::cell::OnceCell;

use culd_cubin::SectionIndex;
use culd_cubin::arch::Flavour;
use culd_cubin::callgraph::Edge;
use hashbrown::{HashMap, HashSet};

use self::banks::Banks;
use self::unlisted::UnlistedSection;
use crate::base::id::{IdMap, IdVec, NameId, NodeId, ObjectId, RelocId, SectionId, SymbolId};
use crate::base::name_list::NameList;
use crate::base::names::Names;
use crate::callgraph::CallGraph;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{MergeResult, SectionPlacement};
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::options::LinkOptions;
use crate::symbols::discarded::DiscardedRecords;
use crate::symbols::{Fate, Symbols, shared_uses};

/// The inputs of merging, and its state.
struct Merger<'a, 'd> {
    objects: &'a InputObjects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    discarded: &'a DiscardedRecords,
    merged: MergeResult<'d>,
    /// Sections by name, for names that all files share.
    by_name: IdMap<NameId, SectionId>,
    /// The last relocation section created for each section; it leads to the earlier ones.
    relocs_of: IdMap<SectionId, RelocId>,
    /// The output keeps the names of unified tables.
    keeps_table_names: bool,
    /// Relocations that are applied are recorded.
    preserve: bool,
    /// Shared memory of kernels is laid out if an object has no variable in it.
    counts_unnamed_shared: bool,
    /// Sections that record applied relocations, by name: indices into
    /// [`crate::draft::Draft::resolved_relas`].
    resolved_ids: HashMap<NameId, usize>,
    /// Shared variables that code names, if shared variables keep their symbols.
    named_shared: Option<HashSet<SymbolId>>,
    /// Shared variables are laid out by their symbols.
    for_debugger: bool,
    /// Kernels may be left out.
    selecting: bool,
    /// Kernels may be left out, but which ones is known only when all files have been read.
    selected_late: bool,
    /// A strong definition of this entry or function has been merged.
    strong_seen: IdVec<SymbolId, bool>,
    /// Symbols of which a tentative definition was seen.
    common_seen: HashSet<SymbolId>,
    /// The attribute section of a function, by its code.
    info_of_code: IdMap<SectionId, SectionId>,
    banks: Banks<'d>,
    /// The node of each code section.
    node_of_text: IdMap<SectionId, NodeId>,
    /// Dead functions with an accepted copy that had relocations.
    dead_with_relocations: HashSet<SymbolId>,
    /// Attribute lists read so far.
    infos_read: u32,
    /// Code sections of which a copy had relocations.
    had_relocs: IdMap<SectionId, ()>,
    /// Sections of dead functions that have taken an index.
    counted: HashSet<(SymbolId, UnlistedSection)>,
    /// Where the prototype without name is, once a function without name asks for it.
    empty_prototype: OnceCell<Option<(ObjectId, usize)>>,
}

/// The results of the phases before merging.
pub(crate) struct ResolvedProgram {
    pub(crate) symbols: Symbols,
    pub(crate) graph: CallGraph,
    pub(crate) discarded: DiscardedRecords,
}

/// Names of symbols, and the strings of prototypes in the order of the output.
pub(crate) struct ProgramNames<'d> {
    pub(crate) names: Names<'d>,
    pub(crate) prototypes: NameList,
}

/// Merges all files.
pub(crate) fn merge<'d>(
    objects: &InputObjects<'d>,
    resolved: &ResolvedProgram,
    names: ProgramNames<'d>,
    options: &'d LinkOptions,
) -> MergeResult<'d> {
    let ResolvedProgram { symbols, graph, .. } = resolved;
    let mut merged = MergeResult::empty(objects, symbols, graph, names.names, options);
    if options.dialect.has_three_lists {
        merged.draft.prototype_strings = names.prototypes;
        merged.draft.keep_counted_names(functions::UNIFIED_TABLE);
    }
    let named_shared =
        options.keeps_shared_symbols().then(|| shared_uses::named_variables(objects, symbols));
    let mut merge = Merger::new(objects, resolved, merged, named_shared, options);
    for (id, object) in objects.iter() {
        merge.file(id, object);
    }
    merge.finish()
}

impl<'a, 'd> Merger<'a, 'd> {
    fn new(
        objects: &'a InputObjects<'d>,
        resolved: &'a ResolvedProgram,
        merged: MergeResult<'d>,
        named_shared: Option<HashSet<SymbolId>>,
        options: &LinkOptions,
    ) -> Self {
        let ResolvedProgram { symbols, graph, discarded } = resolved;
        Merger {
            objects,
            symbols,
            graph,
            discarded,
            merged,
            by_name: IdMap::default(),
            relocs_of: IdMap::default(),
            preserve: options.preserve_relocs,
            counts_unnamed_shared: options.dialect.counts_unnamed_shared
                && !options.relocatable
                && !options.for_debugger(),
            keeps_table_names: options.keeps_unified(),
            resolved_ids: HashMap::new(),
            named_shared,
            for_debugger: options.for_debugger(),
            selecting: options.effective_selection().is_active(),
            selected_late: options.effective_selection().comes_late(),
            strong_seen: IdVec::filled(false, symbols.all.len()),
            common_seen: HashSet::new(),
            info_of_code: IdMap::default(),
            banks: Banks::default(),
            node_of_text: IdMap::default(),
            dead_with_relocations: HashSet::new(),
            infos_read: 0,
            had_relocs: IdMap::default(),
            counted: HashSet::new(),
            empty_prototype: OnceCell::new(),
        }
    }

    fn finish(self) -> MergeResult<'d> {
        let mut merged = self.merged;
        // Lists of replaced copies do not count.
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

impl<'d> Merger<'_, 'd> {
    fn file(&mut self, id: ObjectId, object: &InputObject<'d>) {
        self.merged.section_starts.push(self.merged.placements.len());
        let sections = object.cubin.sections.len();
        self.merged
            .placements
            .resize(self.merged.placements.len() + sections, SectionPlacement::Dropped);
        if self.merged.draft.flavour == Flavour::Mercury {
            self.merged.mercury_bases.resize(self.merged.placements.len(), u64::MAX);
        }
        self.functions(id, object);
        self.variables(id, object);
        self.remaining_sections(id, object);
        self.attributes(id, object);
        if !self.merged.draft.dialect.has_three_lists {
            self.prototype_names(id, object);
        }
        self.relocations(id, object);
        // Sections of nvlink's objects are laid out with the variables if nvlink counts them; those
        // of dead kernels are met here all the same (case whole-program/selected by 13.5).
        let counted = !object.is_extensible() && self.counts_unnamed(object);
        if object.is_extensible() && object.roles.contains(&SectionRole::PoolShared) {
            self.shared_pool();
            self.merged.shared.whole_pool = true;
        }
        for &index in &object.outline.laid_out {
            if counted {
                self.place(id, object, index);
            } else {
                self.laid_out_shared(id, object, index);
            }
        }
    }

    /// Adds the prototypes of a file, for releases with one list of all names: they stand where the
    /// file's records are read.
    fn prototype_names(&mut self, id: ObjectId, object: &InputObject<'d>) {
        for prototype in self.listed_prototypes(id, object).collect::<Vec<_>>() {
            let draft = &mut self.merged.draft;
            let name = draft.names.intern(object.prototype(prototype));
            draft.local_strings.add(name);
        }
    }

    /// The places of the prototypes of a file that the string table gets, in its strings.
    fn listed_prototypes<'o>(
        &'o self,
        id: ObjectId,
        object: &'o InputObject<'d>,
    ) -> impl Iterator<Item = u32> + 'o {
        let lost = move |function| self.symbols.fate(id, function) == Fate::Lost;
        let listed = object.edges().filter_map(move |edge| match edge {
            Edge::AddressTaken { function, prototype }
            | Edge::IndirectCall { function, prototype } => (!lost(function)).then_some(prototype),
            Edge::Call { .. } | Edge::Reference { .. } => None,
        });
        listed.chain(object.prototypes().map(|(_, prototype)| prototype))
    }

    fn placement(&self, object: ObjectId, index: SectionIndex) -> SectionPlacement {
        self.merged.placement(object, index)
    }

    fn set_placement(&mut self, object: ObjectId, index: SectionIndex, placed: SectionPlacement) {
        let at = self.merged.section_starts[object] + index.0 as usize;
        self.merged.placements[at] = placed;
    }

    /// Notes where a section starts in the Mercury half.
    fn set_mercury_base(&mut self, object: ObjectId, index: SectionIndex, base: u64) {
        let at = self.merged.section_starts[object] + index.0 as usize;
        if let Some(entry) = self.merged.mercury_bases.get_mut(at) {
            *entry = base;
        }
    }

    /// The section called `name` that all files share, if it exists.
    fn find(&self, name: NameId) -> Option<SectionId> {
        self.by_name.get(name)
    }

    /// Creates the section called `name` that all files share.
    fn create(&mut self, name: NameId, kind: SectionKind, flags: u64, align: u64) -> SectionId {
        let section = self.merged.draft.add_section(name, kind, flags, align);
        self.by_name.insert(name, section);
        section
    }
}
