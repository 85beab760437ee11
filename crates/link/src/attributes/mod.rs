//! Phase `attributes`: attributes of functions, and what entries take over from the functions they reach.
//!
//! In: the merged draft, the call graph. Out: [`Attributes`]: the final contents of `.nv.info`
//! and every `.nv.info.<function>`. Rules: docs/LINKING.md, attributes; cases attributes/*.

mod barriers;
mod granularity;
mod largest;
mod lists;
mod propagate;
mod several;
mod slots;

use culd_cubin::attr::{Record, code, format};
use culd_cubin::{SymbolIndex, SymbolSection};

use crate::Session;
use crate::callgraph::CallGraph;
use crate::content::{LIST_WORK, PIECE};
use crate::diag::{Diagnostics, Failed, Message};
use crate::id::{IdVec, NodeId, ObjectId, OutSymbolId};
use crate::merge::{self, FileRecord, InfoSource, Merged, Placed};
use crate::objects::Objects;
use crate::symbols::Symbols;

pub(crate) use self::lists::Lists;
use self::lists::{Codes, Has, Piece};

/// One attribute of a function on its way to the output.
#[derive(Debug, Clone)]
pub(crate) enum Attribute<'d> {
    /// Passed on as it is.
    Record(Record<'d>),
    /// A record that begins with a symbol, and the rest of its payload.
    About { code: u8, symbol: OutSymbolId, rest: &'d [u8] },
    /// EXTERNS: functions that the program leaves undefined, and entries.
    Externs(Vec<OutSymbolId>),
    /// A number in one of the formats.
    Number { format: u8, code: u8, value: u32 },
    /// Bytes collected from several functions.
    Bytes { code: u8, bytes: Vec<u8> },
}

impl Attribute<'_> {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Attribute::Record(record) => record.code,
            Attribute::Externs(_) => code::EXTERNS,
            Attribute::Number { code, .. }
            | Attribute::Bytes { code, .. }
            | Attribute::About { code, .. } => *code,
        }
    }

    fn number(&self) -> u32 {
        match self {
            Attribute::Record(record) => record.number(),
            Attribute::Number { value, .. } => *value,
            _ => 0,
        }
    }

    /// The same attribute with another value, in the format it has.
    pub(crate) fn with_number(&self, value: u32) -> Self {
        let format = match self {
            Attribute::Record(record) => record.format,
            Attribute::Number { format, .. } => *format,
            _ => format::SIZED,
        };
        Attribute::Number { format, code: self.code(), value }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Attribute::Record(record) => record.payload,
            Attribute::Bytes { bytes, .. } => bytes,
            _ => &[],
        }
    }

    /// Appends the record; `index` gives the output index of a symbol.
    pub(crate) fn write(&self, out: &mut Vec<u8>, index: &impl Fn(OutSymbolId) -> u32) {
        let mut sized = |code: u8, len: usize| {
            out.extend_from_slice(&[format::SIZED, code]);
            out.extend_from_slice(&(len as u16).to_le_bytes());
        };
        match self {
            Attribute::Record(record) => record.write(out),
            Attribute::About { code, symbol, rest } => {
                sized(*code, 4 + rest.len());
                out.extend_from_slice(&index(*symbol).to_le_bytes());
                out.extend_from_slice(rest);
            }
            Attribute::Externs(functions) => {
                sized(code::EXTERNS, 4 * functions.len());
                for &function in functions {
                    out.extend_from_slice(&index(function).to_le_bytes());
                }
            }
            Attribute::Number { format: format::SIZED, code, value } => {
                sized(*code, 4);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Attribute::Number { format, code, value } => {
                out.extend_from_slice(&[*format, *code]);
                out.extend_from_slice(&(*value as u16).to_le_bytes());
            }
            Attribute::Bytes { code, bytes } => {
                sized(*code, bytes.len());
                out.extend_from_slice(bytes);
            }
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Attribute::Externs(functions) if functions.is_empty())
    }
}

/// A record of the output's `.nv.info`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileAttribute<'d> {
    About { code: u8, function: OutSymbolId, number: u32 },
    Reference { code: u8, symbol: OutSymbolId, rest: &'d [u8] },
    Record(Record<'d>),
}

impl FileAttribute<'_> {
    /// Appends the record; `index` gives the output index of a symbol.
    pub(crate) fn write(&self, out: &mut Vec<u8>, index: &impl Fn(OutSymbolId) -> u32) {
        match *self {
            FileAttribute::Record(record) => record.write(out),
            FileAttribute::Reference { code, symbol, rest } => {
                Attribute::About { code, symbol, rest }.write(out, index);
            }
            FileAttribute::About { code, function, number } => {
                out.extend_from_slice(&[format::SIZED, code, 8, 0]);
                out.extend_from_slice(&index(function).to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// `.nv.info`: last read first, with the register counts of entries raised; an executable has stack sizes of its
/// own in place of limits. There are a few for each function, so they are made when they are written.
pub(crate) struct FileList<'d> {
    /// Registers that entries need with all that they call.
    raised: IdVec<NodeId, Option<u32>>,
    /// Records of attribute 0x64 are left out ([`largest`]).
    without_64: bool,
    /// A record behind all others.
    last: Option<Record<'d>>,
}

impl<'d> FileList<'d> {
    fn new(graph: &CallGraph, entries: &[EntryFacts]) -> Self {
        let mut raised = IdVec::filled(None, graph.nodes.len());
        for (&entry, facts) in graph.entries().iter().zip(entries) {
            raised[entry] = Some(facts.registers);
        }
        FileList { raised, without_64: false, last: None }
    }

    /// All records.
    pub(crate) fn records<'a>(
        &'a self,
        graph: &'a CallGraph,
        merged: &'a Merged<'d>,
    ) -> impl Iterator<Item = FileAttribute<'d>> + 'a {
        let relocatable = merged.draft.relocatable;
        let record = move |record: &FileRecord<'d>| match record {
            FileRecord::Other(record) if self.without_64 && largest::is_gathered(record) => None,
            FileRecord::Other(record) => Some(FileAttribute::Record(**record)),
            FileRecord::Reference { symbol, record } => {
                let rest = record.payload.get(4..).unwrap_or_default();
                Some(FileAttribute::Reference { code: record.code, symbol: *symbol, rest })
            }
            FileRecord::About { code: code::MAX_STACK_SIZE, .. } if !relocatable => None,
            &FileRecord::About { code, function, number } => {
                let counts = code == code::REGCOUNT;
                let raised = counts.then(|| self.raised(graph, merged, function)).flatten();
                Some(FileAttribute::About { code, function, number: raised.unwrap_or(number) })
            }
        };
        let last = self.last.into_iter().map(FileAttribute::Record);
        merged.file_records.iter().rev().filter_map(record).chain(last)
    }

    /// The registers of an entry.
    fn raised(&self, graph: &CallGraph, merged: &Merged<'_>, function: OutSymbolId) -> Option<u32> {
        let node = graph.node(merged.draft.symbols[function].program?)?;
        self.raised[node].filter(|_| merged.function(graph, node) == function)
    }
}

/// What is known about an entry at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryFacts {
    /// Registers that its call tree needs.
    pub(crate) registers: u32,
    /// Bytes of stack that it needs at least; `None` when recursion can be reached.
    pub(crate) stack: Option<u32>,
    /// The most that it may need, MAX_STACK_SIZE; 0 where that is not limited.
    pub(crate) stack_limit: u32,
}

/// Final attributes.
pub(crate) struct Attributes<'d> {
    /// Records of `.nv.info` in output order, without the stack sizes of entries, which follow
    /// in the order of symbols.
    pub(crate) file: FileList<'d>,
    /// Attributes by function; functions without an attribute section have none.
    pub(crate) functions: Lists<'d>,
    /// Attributes of all jump slots of an executable, which have one section.
    pub(crate) slots: Vec<Attribute<'d>>,
    /// By place in [`CallGraph::entries`].
    pub(crate) entries: Vec<EntryFacts>,
    /// Registers of each function itself.
    pub(crate) registers: IdVec<NodeId, u32>,
    /// Bytes of stack of each function itself.
    pub(crate) frames: IdVec<NodeId, u32>,
    /// Functions whose barriers are an attribute now, and no longer flags of their code.
    pub(crate) told_barriers: Vec<NodeId>,
    /// Entries that use tensor memory for one block and for a pair of blocks.
    pub(crate) mixed_groups: Vec<NodeId>,
}

impl<'d> Attributes<'d> {
    pub(crate) fn build(
        session: &Session,
        objects: &Objects<'d>,
        symbols: &Symbols,
        graph: &CallGraph,
        merged: &Merged<'d>,
        diags: &mut Diagnostics,
    ) -> Result<Self, Failed> {
        let numbers = Numbers::collect(graph, merged);
        let relocatable = merged.draft.relocatable;
        let entries =
            if relocatable { numbers.own_facts(graph) } else { numbers.entry_facts(graph) };
        let mut functions = read_all(session, objects, symbols, merged);
        if functions.any(Has::STACKS) {
            return Err(diags.fatal(Message::Internal { what: "conflicting crs_stack attribute" }));
        }
        let (mut slots, mixed_groups) = match relocatable {
            true => Default::default(),
            false => propagate::propagate(graph, merged, &mut functions),
        };
        let told_barriers = barriers::add(objects, symbols, graph, merged, &mut functions);
        slots.retain(|attribute| !attribute.is_empty());
        for node in functions.nodes() {
            if functions.has(node).any(Has::NO_EXTERNS) {
                functions.retain(node, |attribute| !attribute.is_empty());
            }
        }
        for &entry in graph.entries() {
            functions.retain(entry, |attribute| !attribute.is_empty());
        }
        let mut file = FileList::new(graph, &entries);
        largest::gather(objects, merged, &mut file, &mut functions);
        let Numbers { frames, registers, .. } = numbers;
        let attributes = Attributes {
            file,
            functions,
            slots,
            entries,
            registers,
            frames,
            told_barriers,
            mixed_groups,
        };
        match attributes.problem(graph) {
            Some(what) => Err(diags.fatal(Message::TooLarge { what })),
            None => Ok(attributes),
        }
    }

    /// An attribute that does not fit its record. Only what entries take over makes any longer.
    fn problem(&self, graph: &CallGraph) -> Option<String> {
        let size = |attribute: &Attribute<'_>| match attribute {
            Attribute::Externs(functions) => 4 * functions.len(),
            _ => attribute.bytes().len(),
        };
        let entries = graph.entries().iter().flat_map(|&entry| &self.functions[entry]);
        let mut all = entries.chain(&self.slots);
        let large = all.find(|attribute| size(attribute) > usize::from(u16::MAX))?;
        Some(format!("attribute {:#04x} of {:#x} bytes", large.code(), size(large)))
    }

    /// What is known about a kernel; one that is no entry stands for itself alone.
    pub(crate) fn kernel_facts(&self, graph: &CallGraph, kernel: NodeId) -> EntryFacts {
        let entry = graph.entries().binary_search(&kernel);
        entry.map_or_else(
            |_| EntryFacts {
                registers: self.registers[kernel],
                stack: Some(self.frames[kernel]),
                stack_limit: 0,
            },
            |place| self.entries[place],
        )
    }

    /// The first attribute `code` of a function as a number.
    pub(crate) fn number(&self, node: NodeId, code: u8) -> Option<u32> {
        self.functions[node].iter().find(|a| a.code() == code).map(Attribute::number)
    }
}

/// The attributes of all functions.
fn read_all<'d>(
    session: &Session,
    objects: &Objects<'d>,
    symbols: &Symbols,
    merged: &Merged<'d>,
) -> Lists<'d> {
    /// About as many bytes an attribute has in a file.
    const BYTES: usize = 12;
    let codes = Codes::new(merged.draft.dialect);
    let infos = merged.function_infos.values().as_slice();
    let pieces: Vec<&[Option<InfoSource>]> = infos.chunks(PIECE).collect();
    let piece = |place: usize| {
        let sources = pieces[place];
        let bytes: usize = sources.iter().flatten().map(|source| source.size).sum();
        let mut piece = Piece::with_capacity(sources.len(), bytes / BYTES);
        for source in sources {
            let object = source.map(|source| source.object);
            let records = source.map(|source| objects[source.object].info_records(source.input));
            piece.push(&codes, records.into_iter().flatten(), |record| {
                special(objects, symbols, merged, object?, record)
            });
        }
        piece
    };
    let work = LIST_WORK * merged.info_order.len();
    let pieces = session.map(pieces.len(), work, piece);
    Lists::new(codes, infos.len(), pieces)
}

/// What becomes of a record of a function in file `object` that may name something, or nothing.
fn special<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    merged: &Merged<'d>,
    object: ObjectId,
    record: Record<'d>,
) -> Option<Attribute<'d>> {
    Some(match record.code {
        // EIATTR 0 is an error marker that nvlink leaves out.
        0 => return None,
        code::PARAM_CBANK if record.format == format::SIZED => {
            let symbol = SymbolIndex(record.word(0)?);
            let symbol = section_symbol(objects, merged, object, symbol)?;
            Attribute::About { code: record.code, symbol, rest: record.payload.get(4..)? }
        }
        _ if merge::names_reference(&record) => {
            let symbol = symbols.of(object, SymbolIndex(record.word(0)?))?;
            let symbol = merged.out_symbol(symbol)?;
            Attribute::About { code: record.code, symbol, rest: record.payload.get(4..)? }
        }
        code::EXTERNS if record.format == format::SIZED => {
            let words = record.words().map(SymbolIndex);
            let out = words.filter_map(|word| merged.out_symbol(symbols.of(object, word)?));
            Attribute::Externs(out.filter(|&out| is_open(merged, out)).collect())
        }
        _ => Attribute::Record(record),
    })
}

/// EXTERNS keep what is undefined, and entries: a launched kernel stays external.
fn is_open(merged: &Merged<'_>, out: OutSymbolId) -> bool {
    let symbol = &merged.draft.symbols[out];
    symbol.section.is_none() || symbol.is_entry()
}

pub(crate) fn section_symbol(
    objects: &Objects<'_>,
    merged: &Merged<'_>,
    object: ObjectId,
    symbol: SymbolIndex,
) -> Option<OutSymbolId> {
    let SymbolSection::In(section) = objects[object].symbol(symbol).section else { return None };
    match merged.placed(object, section) {
        Placed::At { section, .. } => merged.draft.sections[section].symbol,
        _ => None,
    }
}

/// Numbers that records of `.nv.info` tell of functions; the last read counts.
struct Numbers {
    frames: IdVec<NodeId, u32>,
    registers: IdVec<NodeId, u32>,
    stack_limits: IdVec<NodeId, u32>,
}

impl Numbers {
    fn collect(graph: &CallGraph, merged: &Merged<'_>) -> Self {
        let mut numbers = Numbers {
            frames: IdVec::filled(0, graph.nodes.len()),
            registers: IdVec::filled(0, graph.nodes.len()),
            stack_limits: IdVec::filled(0, graph.nodes.len()),
        };
        for record in &merged.file_records {
            let FileRecord::About { code, function, number } = *record else { continue };
            let program = merged.draft.symbols[function].program;
            let Some(node) = program.and_then(|program| graph.node(program)) else { continue };
            match code {
                code::FRAME_SIZE => numbers.frames[node] = number,
                code::REGCOUNT => numbers.registers[node] = number,
                code::MAX_STACK_SIZE => numbers.stack_limits[node] = number,
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
            stack,
            stack_limit: self.stack_limits[entry],
        };
        graph.entries().iter().zip(registers).zip(stack).map(facts).collect()
    }

    /// What an object tells of its entries: nothing about what they call is final.
    fn own_facts(&self, graph: &CallGraph) -> Vec<EntryFacts> {
        let facts = |&entry: &NodeId| EntryFacts {
            registers: self.registers[entry],
            stack: None,
            stack_limit: 0,
        };
        graph.entries().iter().map(facts).collect()
    }
}
