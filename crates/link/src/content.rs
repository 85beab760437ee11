//! Contents that the linker makes itself, once symbols have numbers.
//!
//! In: attributes, call graph, resolved relocations, the order of symbols. Out: the bytes of
//! every section that is not copied from inputs.

use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;
use culd_cubin::callgraph::LISTS;
use culd_cubin::elf::sht;
use culd_cubin::encode;
use culd_cubin::unified::ENTRY_SIZE;

use crate::Session;
use crate::attributes::{Attribute, Attributes, FileAttribute};
use crate::callgraph::CallGraph;
use crate::capsule::Half;
use crate::capsule::attributes::{ListMaker, Sass};
use crate::draft::Draft;
use crate::id::{IdVec, NameId, NodeId, OutSymbolId, RelocId, SectionId};
use crate::layout::Order;
use crate::merge::Merged;
use crate::objects::Objects;
use crate::relocs::{Kept, Relocated};
use crate::textures::TextureSlots;
use crate::unified::TableEntry;

/// Made content by section; sections without are copied from inputs.
pub(crate) struct Contents {
    sections: IdVec<SectionId, Option<Content>>,
    /// The bytes of all [`Content::List`]s, as they were made.
    lists: Vec<Vec<u8>>,
    /// Those of all [`Content::Bytes`].
    bytes: Vec<Vec<u8>>,
}

impl Contents {
    pub(crate) fn new(draft: &Draft<'_>) -> Self {
        let sections = IdVec::filled(None, draft.sections.len());
        Contents { sections, lists: Vec::new(), bytes: Vec::new() }
    }

    /// Gives `section` its bytes.
    pub(crate) fn set(&mut self, section: SectionId, bytes: Vec<u8>) {
        self.sections[section] = Some(Content::Bytes { place: self.bytes.len() as u32 });
        self.bytes.push(bytes);
    }

    /// Bytes of what was made for `section`, if something was.
    pub(crate) fn size(&self, section: SectionId) -> Option<u64> {
        self.sections[section].map(|content| self.size_of(content))
    }

    fn size_of(&self, content: Content) -> u64 {
        match content {
            Content::Bytes { place } => self.bytes[place as usize].len() as u64,
            Content::List { len, .. } => u64::from(len),
            Content::Records { count, rela, .. } => u64::from(count) * record_size(rela) as u64,
        }
    }

    /// All sections with something made, and how many bytes that is.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (SectionId, u64)> {
        let size = |content: Content| self.size_of(content);
        self.sections.iter().filter_map(move |(id, content)| Some((id, content.map(size)?)))
    }

    /// Writes what was made for `section` into its bytes; false where nothing was. `symbol` gives the output index of a
    /// symbol.
    pub(crate) fn write(
        &self,
        section: SectionId,
        (objects, relocated): (&Objects<'_>, &Relocated),
        symbol: impl Fn(OutSymbolId) -> u32,
        bytes: &mut [u8],
    ) -> bool {
        match self.sections[section] {
            None => return false,
            Some(Content::Bytes { place }) => bytes.copy_from_slice(&self.bytes[place as usize]),
            Some(Content::List { piece, start, len }) => {
                bytes
                    .copy_from_slice(&self.lists[piece as usize][start as usize..][..len as usize]);
            }
            Some(Content::Records { reloc, rela, .. }) => {
                let mut write = record_writer(rela, symbol, bytes);
                relocated.each_kept(objects, reloc, &mut write);
            }
        }
        true
    }
}

/// Content that the linker makes, in few bytes: most sections have some.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// One of [`Contents::bytes`].
    Bytes { place: u32 },
    /// The attributes of a function, which are few bytes each: a range of one of [`Contents::lists`].
    List { piece: u32, start: u32, len: u32 },
    /// The records that stay of a relocation section: they are many, and get their form when they are written.
    Records {
        reloc: RelocId,
        count: u32,
        /// They have addends.
        rela: bool,
    },
}

/// Bytes of a relocation record.
fn record_size(rela: bool) -> usize {
    if rela { RELA_SIZE } else { REL_SIZE }
}

/// Writes one relocation record after the other into `bytes`, with addends if `rela`; `symbol` gives the output index of
/// a symbol.
fn record_writer<'b>(
    rela: bool,
    symbol: impl Fn(OutSymbolId) -> u32 + 'b,
    bytes: &'b mut [u8],
) -> impl FnMut(Kept) + 'b {
    let mut places = bytes.chunks_exact_mut(record_size(rela));
    move |record: Kept| {
        let Some(bytes) = places.next() else { return };
        let Kept { offset, symbol: named, kind, addend } = record;
        let symbol = named.map_or(0, &symbol);
        if rela {
            bytes.copy_from_slice(&encode::rela(offset, symbol, kind, addend));
        } else {
            bytes.copy_from_slice(&encode::rel(offset, symbol, kind));
        }
    }
}

/// Bytes of an attribute about a function.
const ABOUT_SIZE: usize = 12;

/// Bytes of a record with and without addend.
const RELA_SIZE: usize = 24;
const REL_SIZE: usize = 16;

/// Functions whose attributes are written by one thread without asking for more, and what one is worth in bytes of
/// work ([`Session::map`]).
pub(crate) const PIECE: usize = 256;
pub(crate) const LIST_WORK: usize = 256;

/// The 16 bytes of `.nv.rel.action`, the same in every file nvlink was seen to make.
pub(crate) const REL_ACTION: [u8; 16] =
    [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

/// Everything content is made of.
#[derive(Clone, Copy)]
pub(crate) struct Maker<'a, 'd> {
    pub(crate) graph: &'a CallGraph,
    pub(crate) merged: &'a Merged<'d>,
    pub(crate) attributes: &'a Attributes<'d>,
    /// Attributes of functions in machine code's half, where those are not the ones of `attributes`.
    pub(crate) sass: Option<&'a Sass<'a, 'd>>,
    pub(crate) relocated: &'a Relocated,
    /// The half that is made.
    pub(crate) half: Half,
    /// Attributes of jump slots in that half.
    pub(crate) jump_slots: &'a [Attribute<'d>],
    pub(crate) slots: &'a TextureSlots,
    pub(crate) order: &'a Order,
}

/// Prototypes in the order in which the call graph and `.nv.prototype` tell them.
pub(crate) fn prototypes(graph: &CallGraph) -> Vec<NameId> {
    let taken = |&node: &NodeId| graph.is_address_taken(node);
    let nodes = || graph.nodes.ids();
    let addresses = nodes().filter(taken).filter_map(|node| graph.prototype(node));
    let calls = nodes().flat_map(|node| graph.indirect(node));
    let others = nodes().filter(|node| !taken(node)).filter_map(|node| graph.prototype(node));
    addresses.chain(calls).chain(others).collect()
}

impl Maker<'_, '_> {
    fn symbol(&self, symbol: OutSymbolId) -> u32 {
        self.order.symbol_index(symbol)
    }

    fn function(&self, node: NodeId) -> u32 {
        self.symbol(self.merged.function(self.graph, node))
    }

    /// `.nv.info`: records, then the stack size of every entry in symbol order.
    pub(crate) fn file_info(&self) -> Vec<u8> {
        let records = self.merged.file_records.len() + self.graph.entries().len();
        let mut out = Vec::with_capacity(ABOUT_SIZE * records);
        let index = |symbol| self.symbol(symbol);
        let records = self.attributes.file.records(self.graph, self.merged);
        records.for_each(|record| record.write(&mut out, &index));
        if self.merged.draft.relocatable {
            return out;
        }
        let facts = || self.graph.entries().iter().zip(&self.attributes.entries);
        // nvlink's finalizer takes all jump slots for one function, and the last number counts (case
        // unified/attributes-order on sm_100).
        let finalized = self.half == Half::Sass && self.merged.draft.flavour == Flavour::Mercury;
        let is_slot = |entry| self.merged.is_jump_slot(self.merged.function(self.graph, entry));
        let slots = facts().filter(|fact| finalized && is_slot(*fact.0));
        let last_slot =
            slots.max_by_key(|fact| self.symbol(self.merged.function(self.graph, *fact.0)));
        let mut stacks: Vec<(u32, FileAttribute<'_>)> = facts()
            .map(|(&entry, facts)| {
                let function = self.merged.function(self.graph, entry);
                let facts = last_slot.filter(|_| is_slot(entry)).map_or(facts, |slot| slot.1);
                let number = facts.stack.unwrap_or(u32::MAX);
                let code = code::MIN_STACK_SIZE;
                (self.symbol(function), FileAttribute::About { code, function, number })
            })
            .collect();
        stacks.sort_unstable_by_key(|stack| stack.0);
        stacks.iter().for_each(|(_, record)| record.write(&mut out, &index));
        out
    }

    /// All `.nv.info.<function>`.
    pub(crate) fn function_infos(&self, session: &Session, contents: &mut Contents) {
        let functions = &self.merged.info_order;
        let pieces: Vec<&[NodeId]> = functions.chunks(PIECE).collect();
        let make = |place: usize| self.function_info(pieces[place]);
        for (list, sizes) in session.map(pieces.len(), functions.len() * LIST_WORK, make) {
            let piece = contents.lists.len() as u32;
            contents.lists.push(list);
            let mut start = 0;
            for (section, len) in sizes {
                contents.sections[section] = Some(Content::List { piece, start, len });
                start += len;
            }
        }
    }

    /// The lists of some functions one behind the other, and the bytes of each.
    fn function_info(&self, functions: &[NodeId]) -> (Vec<u8>, Vec<(SectionId, u32)>) {
        // Most lists are about as long as in the input.
        let source = |&node: &NodeId| self.merged.function_infos[node];
        let read = functions.iter().filter_map(source).map(|source| source.size);
        let mut out = Vec::with_capacity(read.sum::<usize>() * 9 / 8);
        let mut sizes = Vec::with_capacity(functions.len());
        let mut maker = ListMaker::default();
        for &node in functions {
            let Some(source) = self.merged.function_infos[node] else { continue };
            let list = match self.sass {
                Some(sass) => sass.list(node, source, &mut maker),
                None => &self.attributes.functions[node],
            };
            let start = out.len();
            for attribute in list {
                attribute.write(&mut out, &|symbol| self.symbol(symbol));
            }
            sizes.push((source.section, (out.len() - start) as u32));
        }
        (out, sizes)
    }

    /// The tables of unified functions and variables, and the attributes of jump slots.
    pub(crate) fn unified(&self, contents: &mut Contents) {
        let tables = &self.merged.unified;
        if let Some(section) = tables.slots_info {
            let mut out = Vec::new();
            for attribute in self.jump_slots {
                attribute.write(&mut out, &|symbol| self.symbol(symbol));
            }
            contents.set(section, out);
        }
        let lists =
            [(tables.function_ids, &tables.functions), (tables.variable_ids, &tables.variables)];
        for (section, entries) in lists {
            if let Some(section) = section {
                contents.set(section, self.unified_entries(entries));
            }
        }
    }

    /// `.nv.uft.entry` or `.nv.udt.entry`.
    fn unified_entries(&self, entries: &[TableEntry]) -> Vec<u8> {
        let mut out = Vec::with_capacity(ENTRY_SIZE * entries.len());
        for entry in entries {
            entry.record(|symbol| self.symbol(symbol)).write(&mut out);
        }
        out
    }

    /// `.nv.callgraph`: all four lists, each in node order.
    pub(crate) fn call_graph(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut pair = |first: u32, second: u32| {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&second.to_le_bytes());
        };
        let nodes = || self.graph.nodes.ids();
        let string = |name| self.order.string(name);
        for list in LISTS {
            pair(0, list as u32);
            for node in nodes() {
                let function = self.function(node);
                match list {
                    -1 => self.graph.calls(node).for_each(|to| pair(function, self.function(to))),
                    -2 if self.graph.is_address_taken(node) => {
                        pair(function, self.graph.prototype(node).map_or(0, string));
                    }
                    -3 => self.graph.indirect(node).for_each(|name| pair(function, string(name))),
                    -4 => {
                        let known = self.graph.references(node);
                        known.for_each(|to| pair(function, self.function(to)));
                    }
                    _ => {}
                }
            }
        }
        out
    }

    /// `.nv.prototype`: functions that are called directly only.
    pub(crate) fn prototypes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for node in self.graph.nodes.ids().filter(|&node| !self.graph.is_address_taken(node)) {
            if let Some(prototype) = self.graph.prototype(node) {
                out.extend_from_slice(&self.function(node).to_le_bytes());
                out.extend_from_slice(&self.order.string(prototype).to_le_bytes());
            }
        }
        out
    }

    /// Relocation sections: what was kept, and the slots of textures.
    pub(crate) fn relocations(&self, draft: &Draft<'_>, contents: &mut Contents) {
        for (id, reloc) in draft.relocs.iter() {
            let rela = draft.sections[reloc.section].sh_type == sht::RELA;
            let count = self.relocated.sections[id].count() as u32;
            contents.sections[reloc.section] = Some(Content::Records { reloc: id, count, rela });
        }
        for resolved in &draft.resolved {
            let applied = self.relocated.applied(&resolved.targets);
            let mut bytes = vec![0; RELA_SIZE * applied.len()];
            let write = record_writer(true, |symbol| self.symbol(symbol), &mut bytes);
            applied.into_iter().for_each(write);
            contents.set(resolved.section, bytes);
        }
        for user in &self.slots.users {
            let mut out = Vec::new();
            for slot in self.slots.filled_for(user).rev() {
                let (offset, kind) = self.slots.record(slot, self.half);
                let symbol = self.symbol(slot.symbol);
                match draft.sections[user.relocs].sh_type {
                    sht::RELA => encode::write_rela(&mut out, offset, symbol, kind, 0),
                    _ => encode::write_rel(&mut out, offset, symbol, kind),
                }
            }
            contents.set(user.relocs, out);
        }
    }
}
