//! Phase `attributes`: the attributes of functions, and what entries inherit from the functions
//! they reach.
//!
//! In: the merged draft, the call graph. Out: [`Attributes`]: the final contents of `.nv.info` and
//! of every `.nv.info.<function>`. Rules: docs/LINKING.md, attributes; cases attributes/*.

pub(crate) mod attribute;
mod barriers;
mod by_rank;
pub(crate) mod file;
mod granularity;
mod inherit;
mod largest;
mod launches;
pub(crate) mod lists;
mod propagate;
mod rules;
mod slots;

use culd_cubin::attr::{Record, code, format};
use culd_cubin::{SymbolIndex, SymbolSection};
use hashbrown::HashSet;

use self::attribute::OutAttribute;
use self::barriers::FlagBarriers;
use self::file::FileAttributes;
use self::lists::{AttributeLists, ListBlock, ListTraits, TraitsByCode};
use crate::base::id::{IdVec, NodeId, ObjectId, OutSymbolId};
use crate::base::session::{LIST_WORK, LISTS_PER_TASK, Session};
use crate::callgraph::CallGraph;
use crate::diag::{Diagnostics, Failed, Message};
use crate::draft::merged::{FileRecord, InfoSource, MergeResult, SectionPlacement};
use crate::objects::{InputObjects, records};
use crate::symbols::Symbols;

/// Resource needs of an entry with all that it calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryFacts {
    /// Registers of its call tree.
    pub(crate) registers: u32,
    /// Minimum bytes of stack; `None` if no number is enough.
    pub(crate) stack: Option<u32>,
    /// It can reach recursion by calls that have records.
    pub(crate) is_recursive: bool,
    /// Its limit, MAX_STACK_SIZE, bytes; 0 without a limit.
    pub(crate) stack_limit: u32,
}

/// The attributes of the output.
pub(crate) struct Attributes<'d> {
    /// Records of `.nv.info` in output order. The stack sizes of entries are not among them: they
    /// follow in symbol order.
    pub(crate) file: FileAttributes<'d>,
    /// Attributes by function; empty for functions without an attribute section.
    pub(crate) functions: AttributeLists<'d>,
    /// Attributes of the jump slots of an executable, which share one section.
    pub(crate) slots: Vec<OutAttribute<'d>>,
    /// In the order of [`CallGraph::entries`].
    pub(crate) entries: Vec<EntryFacts>,
    /// Registers of each function without its callees.
    pub(crate) registers: IdVec<NodeId, u32>,
    /// Bytes of stack of each function without its callees.
    pub(crate) frames: IdVec<NodeId, u32>,
    pub(crate) flag_barriers: FlagBarriers,
    /// Entries that use tensor memory both for one block and for a pair of blocks.
    pub(crate) mixed_groups: Vec<NodeId>,
}

impl<'d> Attributes<'d> {
    pub(crate) fn build(
        session: &Session,
        objects: &InputObjects<'d>,
        symbols: &Symbols,
        graph: &CallGraph,
        merged: &MergeResult<'d>,
        diags: &mut Diagnostics,
    ) -> Result<Self, Failed> {
        if slots::are_unknown(graph, merged) {
            return Err(diags.fatal(Message::SlotsNotKnown { release: merged.draft.dialect }));
        }
        let numbers = ResourceUse::collect(graph, merged);
        let relocatable = merged.draft.relocatable;
        let entries =
            if relocatable { numbers.own_facts(graph) } else { numbers.entry_facts(graph) };
        let mut functions = read_all(session, objects, symbols, merged);
        if functions.any(ListTraits::STACKS) {
            return Err(diags.fatal(Message::Internal { what: "conflicting crs_stack attribute" }));
        }
        let (mut slots, mixed_groups) = match relocatable {
            true => Default::default(),
            false => propagate::propagate(graph, merged, &numbers.unbounded, &mut functions),
        };
        let flag_barriers = barriers::add(objects, symbols, graph, merged, &mut functions);
        launches::add(graph, merged, &mut functions);
        slots.retain(|attribute| !attribute.is_empty());
        for node in functions.nodes() {
            if functions.has(node).any(ListTraits::NO_EXTERNS) {
                functions.retain(node, |attribute| !attribute.is_empty());
            }
        }
        for &entry in graph.entries() {
            functions.retain(entry, |attribute| !attribute.is_empty());
        }
        let mut file = FileAttributes::new(graph, &entries);
        largest::gather(objects, merged, &mut file, &mut functions);
        let ResourceUse { frames, registers, .. } = numbers;
        let attributes = Attributes {
            file,
            functions,
            slots,
            entries,
            registers,
            frames,
            flag_barriers,
            mixed_groups,
        };
        match attributes.problem(graph) {
            Some(what) => Err(diags.fatal(Message::TooLarge { what })),
            None => Ok(attributes),
        }
    }

    /// Describes an attribute that is too large for its record, if there is one. Only inheritance
    /// makes attributes longer.
    fn problem(&self, graph: &CallGraph) -> Option<String> {
        let size = |attribute: &OutAttribute<'_>| match attribute {
            OutAttribute::Externs(functions) => 4 * functions.len(),
            _ => attribute.bytes().len(),
        };
        let entries = graph.entries().iter().flat_map(|&entry| &self.functions[entry]);
        let mut all = entries.chain(&self.slots);
        let large = all.find(|attribute| size(attribute) > usize::from(u16::MAX))?;
        Some(format!("attribute {:#04x} of {:#x} bytes", large.code(), size(large)))
    }

    /// The resource needs of a kernel. For a kernel that is not an entry: its own, without callees.
    pub(crate) fn kernel_facts(&self, graph: &CallGraph, kernel: NodeId) -> EntryFacts {
        let entry = graph.entries().binary_search(&kernel);
        entry.map_or_else(
            |_| EntryFacts {
                registers: self.registers[kernel],
                stack: Some(self.frames[kernel]),
                is_recursive: false,
                stack_limit: 0,
            },
            |place| self.entries[place],
        )
    }

    /// False if no input gives the function a NUM_BARRIERS.
    pub(crate) fn may_have_barriers(&self, node: NodeId) -> bool {
        self.functions.has(node).any(ListTraits::BARRIERS)
    }

    /// The value of a function's first attribute `code`.
    pub(crate) fn number(&self, node: NodeId, code: u8) -> Option<u32> {
        self.functions[node].iter().find(|a| a.code() == code).map(OutAttribute::number)
    }
}

/// Reads the attribute lists of all functions.
fn read_all<'d>(
    session: &Session,
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    merged: &MergeResult<'d>,
) -> AttributeLists<'d> {
    /// The fewest bytes of an attribute in a file. Without room for all: +0.7 % instructions on
    /// many100.
    const BYTES: usize = 4;
    let codes = TraitsByCode::new(merged.draft.dialect);
    let infos = merged.function_infos.values().as_slice();
    let pieces: Vec<&[Option<InfoSource>]> = infos.chunks(LISTS_PER_TASK).collect();
    let piece = |place: usize| {
        let sources = pieces[place];
        let bytes: usize = sources.iter().flatten().map(|source| source.size).sum();
        let mut piece = ListBlock::with_capacity(sources.len(), bytes / BYTES);
        for source in sources {
            let object = source.map(|source| source.object);
            let records = source.map(|source| objects[source.object].info_records(source.input));
            piece.push(&codes, records.into_iter().flatten(), |record| {
                special_attribute(objects, symbols, merged, object?, record)
            });
        }
        piece
    };
    let work = LIST_WORK * merged.info_order.len();
    let pieces = session.map(pieces.len(), work, piece);
    AttributeLists::new(codes, infos.len(), pieces)
}

/// The attribute for a record that may name a symbol; `None` if the record is dropped. `object` is
/// the file that has it.
fn special_attribute<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    merged: &MergeResult<'d>,
    object: ObjectId,
    record: Record<'d>,
) -> Option<OutAttribute<'d>> {
    Some(match record.code {
        // EIATTR 0 marks an error; nvlink drops it.
        0 => return None,
        code::PARAM_CBANK if record.format == format::SIZED => {
            let symbol = SymbolIndex(record.word(0)?);
            let symbol = section_symbol(objects, merged, object, symbol)?;
            OutAttribute::About { code: record.code, symbol, rest: record.payload.get(4..)? }
        }
        code::KPARAM_INFO | code::KPARAM_INFO_V2
            if record.format == format::SIZED
                && record.word(0) == Some(0)
                && symbols.nameless_of(object).is_some() =>
        {
            // A record without a reference names symbol 0, which stands for the function without
            // name.
            let nameless = symbols.nameless_of(object);
            match nameless.and_then(|nameless| merged.out_symbol(nameless)) {
                Some(symbol) => {
                    let rest = record.payload.get(4..)?;
                    OutAttribute::About { code: record.code, symbol, rest }
                }
                None => OutAttribute::Record(record),
            }
        }
        _ if records::names_reference(&record) => {
            let symbol = symbols.of(object, SymbolIndex(record.word(0)?))?;
            let symbol = merged.out_symbol(symbol)?;
            OutAttribute::About { code: record.code, symbol, rest: record.payload.get(4..)? }
        }
        code::EXTERNS if record.format == format::SIZED => {
            let words = record.words().map(SymbolIndex);
            let out = words.filter_map(|word| merged.out_symbol(symbols.of(object, word)?));
            OutAttribute::Externs(out.filter(|&out| is_open(merged, out)).collect())
        }
        _ => OutAttribute::Record(record),
    })
}

/// True for a function that stays in EXTERNS: an undefined one, or an entry, because a kernel that
/// another one launches stays external.
fn is_open(merged: &MergeResult<'_>, out: OutSymbolId) -> bool {
    let symbol = &merged.draft.symbols[out];
    symbol.section.is_none() || symbol.is_entry()
}

pub(crate) fn section_symbol(
    objects: &InputObjects<'_>,
    merged: &MergeResult<'_>,
    object: ObjectId,
    symbol: SymbolIndex,
) -> Option<OutSymbolId> {
    let SymbolSection::In(section) = objects[object].symbol(symbol).section else { return None };
    match merged.placement(object, section) {
        SectionPlacement::At { section, .. } => merged.draft.sections[section].symbol,
        _ => None,
    }
}

/// Numbers about functions from records of `.nv.info`; the last record read counts.
struct ResourceUse {
    frames: IdVec<NodeId, u32>,
    registers: IdVec<NodeId, u32>,
    stack_limits: IdVec<NodeId, u32>,
    /// Functions whose stack has no bound according to ptxas. In whole programs ptxas has seen who
    /// calls whom, and no record of calls is left. nvlink does not warn about them (case
    /// whole-program/stacks).
    unbounded: HashSet<NodeId>,
}

impl ResourceUse {
    fn collect(graph: &CallGraph, merged: &MergeResult<'_>) -> Self {
        let mut numbers = ResourceUse {
            frames: IdVec::filled(0, graph.nodes.len()),
            registers: IdVec::filled(0, graph.nodes.len()),
            stack_limits: IdVec::filled(0, graph.nodes.len()),
            unbounded: HashSet::new(),
        };
        for record in &merged.file_records {
            let FileRecord::About { code, function, number } = *record else { continue };
            let program = merged.draft.symbols[function].program;
            let Some(node) = program.and_then(|program| graph.node(program)) else { continue };
            match code {
                code::FRAME_SIZE => numbers.frames[node] = number,
                code::REGCOUNT => numbers.registers[node] = number,
                code::MAX_STACK_SIZE => numbers.stack_limits[node] = number,
                code::MIN_STACK_SIZE if number == u32::MAX => {
                    numbers.unbounded.insert(node);
                }
                _ => {}
            }
        }
        numbers
    }

    fn entry_facts(&self, graph: &CallGraph) -> Vec<EntryFacts> {
        let registers = graph.fold_entries(0, |node| self.registers[node], |a, b| *a.max(b));
        let stack = graph.longest(|node| self.frames[node]);
        let facts = |((&entry, registers), stack): ((&NodeId, u32), Option<u32>)| EntryFacts {
            registers,
            stack: stack.filter(|_| !self.unbounded.contains(&entry)),
            is_recursive: stack.is_none(),
            stack_limit: self.stack_limits[entry],
        };
        graph.entries().iter().zip(registers).zip(stack).map(facts).collect()
    }

    /// With `-r`: the needs of entries alone, since what they call is not final.
    fn own_facts(&self, graph: &CallGraph) -> Vec<EntryFacts> {
        let facts = |&entry: &NodeId| EntryFacts {
            registers: self.registers[entry],
            stack: None,
            is_recursive: false,
            stack_limit: 0,
        };
        graph.entries().iter().map(facts).collect()
    }
}
