//! Contents that the linker makes itself, once symbols have numbers.
//!
//! In: attributes, call graph, resolved relocations, the order of symbols. Out: the bytes of
//! every section that is not copied from inputs.

use culd_cubin::attr::code;
use culd_cubin::callgraph::LISTS;
use culd_cubin::elf::sht;
use culd_cubin::encode;
use culd_cubin::unified::ENTRY_SIZE;

use crate::attributes::{Attribute, Attributes, FileAttribute};
use crate::callgraph::CallGraph;
use crate::capsule::Half;
use crate::draft::Draft;
use crate::id::{IdVec, NodeId, OutSymbolId, SectionId};
use crate::layout::Order;
use crate::merge::Merged;
use crate::relocs::Relocated;
use crate::textures::TextureSlots;
use crate::unified::TableEntry;

/// Made content by section; sections without are copied from inputs.
pub(crate) type Contents = IdVec<SectionId, Option<Vec<u8>>>;

/// The 16 bytes of `.nv.rel.action`, the same in every file nvlink was seen to make.
pub(crate) const REL_ACTION: [u8; 16] =
    [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

/// Everything content is made of.
pub(crate) struct Maker<'a, 'd> {
    pub(crate) graph: &'a CallGraph,
    pub(crate) merged: &'a Merged<'d>,
    pub(crate) attributes: &'a Attributes<'d>,
    /// Attributes of functions in the half that is made.
    pub(crate) functions: &'a IdVec<NodeId, Vec<Attribute<'d>>>,
    pub(crate) relocated: &'a Relocated,
    /// The half that is made.
    pub(crate) half: Half,
    pub(crate) slots: &'a TextureSlots,
    pub(crate) order: &'a Order,
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
        let mut out = Vec::new();
        let index = |symbol| self.symbol(symbol);
        self.attributes.file.iter().for_each(|record| record.write(&mut out, &index));
        if self.merged.draft.relocatable {
            return out;
        }
        let mut stacks: Vec<(u32, FileAttribute<'_>)> = self
            .graph
            .entries()
            .iter()
            .zip(&self.attributes.entries)
            .map(|(&entry, facts)| {
                let function = self.merged.function(self.graph, entry);
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
    pub(crate) fn function_infos(&self, contents: &mut Contents) {
        for &node in &self.merged.info_order {
            if let Some(source) = self.merged.function_infos[node] {
                contents[source.section] = Some(self.function_info(node));
            }
        }
    }

    /// `.nv.info.<function>`.
    fn function_info(&self, node: NodeId) -> Vec<u8> {
        let mut out = Vec::new();
        for attribute in &self.functions[node] {
            attribute.write(&mut out, &|symbol| self.symbol(symbol));
        }
        out
    }

    /// `.nv.info..nv.uft`: the attributes of all jump slots.
    pub(crate) fn slots_info(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for attribute in &self.attributes.slots {
            attribute.write(&mut out, &|symbol| self.symbol(symbol));
        }
        out
    }

    /// `.nv.uft.entry` or `.nv.udt.entry`.
    pub(crate) fn unified_entries(&self, entries: &[TableEntry]) -> Vec<u8> {
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
            let kept = &self.relocated.sections[id].kept;
            let mut out = Vec::with_capacity(kept.len() * 24);
            for record in kept {
                let symbol = record.symbol.map_or(0, |symbol| self.symbol(symbol));
                if rela {
                    encode::write_rela(&mut out, record.offset, symbol, record.kind, record.addend);
                } else {
                    encode::write_rel(&mut out, record.offset, symbol, record.kind);
                }
            }
            contents[reloc.section] = Some(out);
        }
        for resolved in &draft.resolved {
            let mut out = Vec::new();
            for record in self.relocated.applied(&resolved.targets) {
                let symbol = record.symbol.map_or(0, |symbol| self.symbol(symbol));
                encode::write_rela(&mut out, record.offset, symbol, record.kind, record.addend);
            }
            contents[resolved.section] = Some(out);
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
            contents[user.relocs] = Some(out);
        }
    }
}
