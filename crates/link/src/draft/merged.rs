//! The draft after merging, and where each input section and symbol went.

use culd_cubin::arch::Flavour;
use culd_cubin::attr::Record;
use culd_cubin::elf::{stb, stt};
use culd_cubin::{RelocEntry, SectionIndex};
use hashbrown::{HashMap, HashSet};

use super::kind::SectionKind;
use super::offset_map::OffsetMaps;
use super::relocs::{PatchedRange, RelocSource};
use super::section::InputChunk;
use super::unified::UnifiedTables;
use super::{Draft, FixedSections};
use crate::base::id::{
    AllocationId, BankId, IdVec, NodeId, ObjectId, OutSymbolId, SectionId, SharedId, SymbolId,
};
use crate::base::names::Names;
use crate::callgraph::CallGraph;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::options::LinkOptions;
use crate::symbols::Symbols;

/// The place of an input section in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionPlacement {
    /// Nowhere.
    Dropped,
    /// Into an output section, starting at `base` bytes.
    At { section: SectionId, base: u64 },
    /// Later into the constant banks of all entries that reach its function.
    Bank(BankId),
    /// Not decided yet: literals of a copy that lost, which are kept if nothing takes their place.
    LosersLiterals,
    /// Nowhere: code that lost to another copy of this function.
    Lost(OutSymbolId),
}

/// Kernels that only the driver defines and that are entries.
#[derive(Default)]
pub(crate) struct UndefinedEntries {
    /// In the order of their creation; none from 12.9 on.
    pub(crate) all: Vec<OutSymbolId>,
    /// The one of them that is the only entry of the program.
    pub(crate) single: Option<OutSymbolId>,
}

impl UndefinedEntries {
    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.single.is_none()
    }
}

/// The meaning of relocations against a program symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolTarget {
    /// It is not in the output.
    None,
    /// A symbol of the output, or one that was created and then dropped.
    Symbol(OutSymbolId),
    /// A symbol that ptxas made for its own use: only its place counts.
    Internal { placement: SectionPlacement, value: u64 },
}

/// Identifies a constant bank of a function, by the function's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BankKey {
    pub(crate) code: SectionId,
    pub(crate) number: u8,
}

/// A constant bank of a function that is not an entry.
#[derive(Debug, Clone)]
pub(crate) struct FunctionBank<'d> {
    pub(crate) node: NodeId,
    pub(crate) number: u8,
    /// The accepted copy's bytes, and behind them those of copies that lost. Empty if the function
    /// was replaced by a copy without a bank.
    pub(crate) chunks: Vec<InputChunk<'d>>,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// Offset in the banks of the entries, bytes; set when banks are merged.
    pub(crate) offset: u64,
    /// The function was replaced, and no bytes have been added since.
    pub(crate) emptied: bool,
    /// Offset in the bank of the last literals of a copy that lost, bytes.
    pub(crate) lost_at: Option<u64>,
    /// Relocation records that patch the bank, in file order: Mercury's jump tables have some.
    /// Those of replaced copies are kept, except in 13.5 (case literals/jump-tables-of-copies).
    pub(crate) sources: Vec<RelocSource>,
    /// Offsets of its literals with records, and of copies that lost, bytes.
    pub(crate) literal_starts: Vec<u64>,
    /// Only of a function of the driver: its section. That stays empty until the bank has been
    /// appended to those of other entries; then literals of functions that this one calls go there.
    pub(crate) driver_section: Option<SectionId>,
    /// Only of a function of the driver: banks of functions that it calls, which follow its own
    /// literals.
    pub(crate) appended: Vec<AppendedBank>,
}

/// A bank inside the bank of a function of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendedBank {
    pub(crate) bank: BankId,
    /// Bytes from the start of the outer bank.
    pub(crate) offset: u64,
}

impl FunctionBank<'_> {
    /// The records, grouped by literal. The output lists the groups in reverse order.
    pub(crate) fn records(&self) -> Vec<RelocSource> {
        let mut starts = self.literal_starts.clone();
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([self.size]);
        let literal = |(start, end): (&u64, u64)| {
            let part = move |source: &RelocSource| {
                let within = PatchedRange {
                    start: start.saturating_sub(source.base).max(source.within.start),
                    end: end.saturating_sub(source.base).min(source.within.end),
                };
                (within.start < within.end).then_some(RelocSource { within, ..*source })
            };
            self.sources.iter().filter_map(part).collect::<Vec<_>>()
        };
        starts.iter().zip(ends).flat_map(literal).collect()
    }

    pub(crate) fn new(node: NodeId, number: u8) -> Self {
        FunctionBank {
            node,
            number,
            chunks: Vec::new(),
            size: 0,
            align: 1,
            offset: 0,
            emptied: false,
            lost_at: None,
            sources: Vec::new(),
            literal_starts: Vec::new(),
            driver_section: None,
            appended: Vec::new(),
        }
    }
}

/// A shared variable, by name. Shared memory without a symbol counts as a variable of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedVariable {
    pub(crate) defined: bool,
    /// Bytes.
    pub(crate) size: u64,
    /// Its allocation, as long as it is an `extern` array without size.
    pub(crate) unsized_allocation: Option<AllocationId>,
}

/// What an allocation in shared memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocationKind {
    /// A definition of a variable, or an `extern` array without size.
    Variable,
    /// A kernel's section of shared memory for which an object of nvlink has no symbol.
    Unnamed,
    /// A kernel's section of a whole program: ptxas has placed the variables in it.
    WholeProgram,
}

/// A piece of shared memory that the linker places as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedAllocation {
    pub(crate) kind: AllocationKind,
    pub(crate) variable: SharedId,
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes.
    pub(crate) align: u64,
    /// False for an `extern` array without size.
    pub(crate) defined: bool,
    /// The code section of the kernel inside which it was declared; `None` for the pool.
    pub(crate) kernel_code: Option<SectionId>,
    /// The offset that ptxas gave a variable in the memory of a whole program's kernel, bytes.
    pub(crate) fixed_offset: Option<u64>,
}

impl SharedAllocation {
    /// True for a variable that no kernel declares: it can have several users.
    pub(crate) fn is_pool(&self) -> bool {
        self.kernel_code.is_none()
    }
}

/// All shared variables, and what is allocated for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedVariables {
    pub(crate) variables: IdVec<SharedId, SharedVariable>,
    /// In order of creation.
    pub(crate) allocations: IdVec<AllocationId, SharedAllocation>,
    /// Some allocation was created for an array without size.
    pub(crate) any_extern: bool,
    /// A whole program has a section for such arrays, perhaps without a symbol.
    pub(crate) whole_pool: bool,
}

impl SharedVariables {
    /// Allocates `size` bytes of shared memory without a symbol for the kernel with the code
    /// section `kernel_code`.
    pub(crate) fn allocate_unnamed(
        &mut self,
        kind: AllocationKind,
        kernel_code: Option<SectionId>,
        size: u64,
        align: u64,
    ) {
        let variable = SharedVariable { defined: true, size, unsized_allocation: None };
        let variable = self.variables.push(variable);
        self.allocations.push(SharedAllocation {
            kind,
            variable,
            size,
            align,
            defined: true,
            kernel_code,
            fixed_offset: None,
        });
    }
}

/// A tentative definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommonVariable {
    pub(crate) out: OutSymbolId,
    /// The alignment of the first definition seen, bytes.
    pub(crate) align: u64,
}

/// A record of the output's `.nv.info`, in reading order. Nearly all records are about functions,
/// so the other variants are boxed to keep those small. Without the boxes: 1 % more memory on
/// many1000, 32 bytes for each record instead of 16.
#[derive(Debug)]
pub(crate) enum FileRecord<'d> {
    /// A record about a function: attribute code and number.
    About { code: u8, function: OutSymbolId, number: u32 },
    /// A record whose payload begins with a texture, sampler or surface reference.
    Reference { symbol: OutSymbolId, record: Box<Record<'d>> },
    /// Any other record.
    Other(Box<Record<'d>>),
}

/// The result of merging.
pub(crate) struct MergeResult<'d> {
    pub(crate) draft: Draft<'d>,
    pub(crate) fixed: FixedSections,
    pub(crate) targets: IdVec<SymbolId, SymbolTarget>,
    pub(crate) placements: Vec<SectionPlacement>,
    /// Where debug sections start in the Mercury half, bytes; indexed like `placements`.
    pub(crate) mercury_bases: Vec<u64>,
    pub(crate) section_starts: IdVec<ObjectId, usize>,
    pub(crate) banks: IdVec<BankId, FunctionBank<'d>>,
    pub(crate) shared: SharedVariables,
    pub(crate) unified: UnifiedTables,
    pub(crate) commons: Vec<CommonVariable>,
    pub(crate) file_records: Vec<FileRecord<'d>>,
    /// The input attribute list of each function that has one.
    pub(crate) function_infos: IdVec<NodeId, Option<InfoSource>>,
    /// Functions with attributes, in the order in which their lists were read; lists of replaced
    /// copies do not count.
    pub(crate) info_order: Vec<NodeId>,
    /// Functions of which a copy with relocations was replaced, and the file that replaced it:
    /// records about them in `.rela.debug_*` of earlier files are discarded.
    pub(crate) discarded_debug: HashMap<SymbolId, ObjectId>,
    /// The same for `.rel.debug_*`, by function and patched section.
    pub(crate) discarded_rel: HashMap<(SymbolId, SectionId), ObjectId>,
    /// Dead functions of which a copy with relocations was replaced, and the file that replaced it:
    /// records about them in earlier files clear nothing.
    pub(crate) discarded_dead: HashMap<SymbolId, ObjectId>,
    /// New offsets of constant variables that did not fit at first.
    pub(crate) constant_offsets: OffsetMaps,
    /// The relocation section for the texture slots of each parameter bank.
    pub(crate) slot_relocs: HashMap<SectionId, SectionId>,
    /// Functions without name of releases before 13.0, whatever nvlink calls them.
    pub(crate) nameless: HashSet<OutSymbolId>,
    /// The sections of the banks of entries.
    pub(crate) entry_banks: HashMap<BankKey, SectionId>,
}

/// Source and destination of a function's attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InfoSource {
    pub(crate) section: SectionId,
    pub(crate) object: ObjectId,
    pub(crate) input: SectionIndex,
    /// Bytes of the input section.
    pub(crate) size: usize,
    /// Number of the list, in reading order.
    pub(crate) read: u32,
}

impl<'d> MergeResult<'d> {
    /// Where input section `index` of `object` went.
    pub(crate) fn placement(&self, object: ObjectId, index: SectionIndex) -> SectionPlacement {
        self.placements[self.section_starts[object] + index.0 as usize]
    }

    /// Where input section `index` of `object`, which went to `base`, starts in the Mercury half.
    pub(crate) fn mercury_base(&self, object: ObjectId, index: SectionIndex, base: u64) -> u64 {
        let at = self.section_starts[object] + index.0 as usize;
        match self.mercury_bases.get(at) {
            Some(&mercury_base) if mercury_base != u64::MAX => mercury_base,
            _ => base,
        }
    }

    /// True for a record without addend against a section symbol, if this file's chunk is not the
    /// first of the output section: the start of the chunk becomes the addend.
    pub(crate) fn gets_addend(
        &self,
        id: ObjectId,
        object: &InputObject<'_>,
        record: RelocEntry,
    ) -> bool {
        let symbol = object.symbol(record.symbol);
        let section = symbol.defined_in().filter(|_| symbol.kind() == stt::SECTION);
        let placed = section.map(|section| self.placement(id, section));
        matches!(placed, Some(SectionPlacement::At { base, .. }) if base != 0)
    }

    /// The output symbol of a program symbol.
    pub(crate) fn out_symbol(&self, symbol: SymbolId) -> Option<OutSymbolId> {
        match self.targets[symbol] {
            SymbolTarget::Symbol(out) => Some(out),
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
        let section = self.draft.symbols[function].section;
        section.is_some_and(|section| self.draft.sections[section].kind == SectionKind::JumpSlots)
    }

    /// True for a live function that is one of a jump slot.
    pub(crate) fn is_slot(&self, graph: &CallGraph, node: NodeId) -> bool {
        self.is_jump_slot(self.function(graph, node))
    }

    /// Kernels that only the driver defines, as far as they are entries. If one kernel of the
    /// program is selected, it is the only entry; else, before 12.9, they all are, with a selection
    /// too (cases syscalls/undefined-kernels, syscalls/undefined-kernels-selected,
    /// syscalls/undefined-kernel-alone and dialects/undefined-kernel-alone-12-8).
    pub(crate) fn undefined_entries(&self) -> UndefinedEntries {
        let mut found = UndefinedEntries::default();
        let Some(selection) = self.draft.undefined_entries else { return found };
        let kernels = || self.draft.symbols.iter().filter(|(_, symbol)| symbol.is_entry());
        let undefined = kernels().filter(|(_, symbol)| symbol.section.is_none());
        found.all = undefined.map(|(id, _)| id).collect();
        if found.all.is_empty() {
            return found;
        }
        let matcher = selection.matcher();
        let mut selected = kernels().filter(|(_, symbol)| {
            let name = self.draft.names.get(symbol.name);
            matcher.keeps_kernel(name, symbol.info >> 4 == stb::LOCAL)
        });
        if let (Some((only, _)), None) = (selected.next(), selected.next()) {
            found.all.retain(|&id| id == only);
            found.single = found.all.first().copied();
        }
        if !self.draft.dialect.has_undefined_entries {
            found.all.clear();
        }
        found
    }

    /// True for the function of the jump slot that was read first: the section of all slots is
    /// named after it.
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
        let code = self.code(graph, entry)?;
        self.entry_banks.get(&BankKey { code, number }).copied()
    }
}

impl<'d> MergeResult<'d> {
    /// An empty result, with room for what the files have.
    pub(crate) fn empty(
        objects: &InputObjects<'d>,
        symbols: &Symbols,
        graph: &CallGraph,
        names: Names<'d>,
        options: &'d LinkOptions,
    ) -> Self {
        let unified_functions = objects.iter().any(|(_, object)| object.has_unified_functions());
        let (mut draft, fixed) = Draft::new(names, options, unified_functions);
        let total = objects.iter().map(|(_, object)| object.cubin.sections.len()).sum();
        // The output has about what the inputs have, and reserved memory that is not used costs
        // nothing (docs/PERFORMANCE.md, memory). Without the room: +0.5 % instructions on many1000,
        // +2.5 % on many100.
        draft.sections.reserve(total);
        draft.symbols.reserve(symbols.all.len() + total / 2);
        draft.locals.reserve(symbols.all.len() + total / 2);
        draft.relocs.reserve(total / 2);
        draft.reserve_names(total);
        let counterparts = if draft.flavour == Flavour::Mercury { total } else { 0 };
        MergeResult {
            draft,
            fixed,
            targets: IdVec::filled(SymbolTarget::None, symbols.all.len()),
            placements: Vec::with_capacity(total),
            mercury_bases: Vec::with_capacity(counterparts),
            section_starts: IdVec::new(),
            banks: IdVec::new(),
            shared: SharedVariables::default(),
            unified: UnifiedTables::default(),
            commons: Vec::new(),
            // FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE and REGCOUNT of each function.
            file_records: Vec::with_capacity(4 * graph.nodes.len()),
            function_infos: IdVec::filled(None, graph.nodes.len()),
            info_order: Vec::new(),
            discarded_debug: HashMap::new(),
            discarded_rel: HashMap::new(),
            discarded_dead: HashMap::new(),
            constant_offsets: OffsetMaps::default(),
            slot_relocs: HashMap::new(),
            nameless: HashSet::new(),
            entry_banks: HashMap::new(),
        }
    }
}
