//! Encodes the contents of synthetic sections.
//!
//! In: attributes, call graph, resolved relocations, symbol indices. Out: the bytes of every
//! section that is not copied from the inputs.

use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;
use culd_cubin::callgraph::LISTS;
use culd_cubin::elf::sht;
use culd_cubin::encode;
use culd_cubin::unified::ENTRY_SIZE;

use super::contents::{RELA_SIZE, SyntheticContent, SyntheticContents, record_writer};
use super::numbers::Numbers;
use super::sass_attributes::{ListMaker, SassAttributes};
use crate::attributes::Attributes;
use crate::attributes::attribute::OutAttribute;
use crate::attributes::file::FileAttribute;
use crate::base::half::Half;
use crate::base::id::{NodeId, OutSymbolId, SectionId};
use crate::base::session::{LIST_WORK, LISTS_PER_TASK, Session};
use crate::callgraph::CallGraph;
use crate::data::textures::{SlotRecord, TextureSlots};
use crate::draft::Draft;
use crate::draft::merged::MergeResult;
use crate::draft::unified::UnifiedEntry;
use crate::options::driver_functions::is_driver_function;
use crate::relocs::relocated::ResolvedRelocs;

/// Bytes of an attribute of `.nv.info` about a function.
const ABOUT_SIZE: usize = 12;

/// The sources of contents.
#[derive(Clone, Copy)]
pub(crate) struct ContentMaker<'a, 'd> {
    pub(crate) graph: &'a CallGraph,
    pub(crate) merged: &'a MergeResult<'d>,
    pub(crate) attributes: &'a Attributes<'d>,
    /// Attributes of functions in machine code, if they differ from `attributes`.
    pub(crate) sass: Option<&'a SassAttributes<'a, 'd>>,
    pub(crate) relocated: &'a ResolvedRelocs,
    /// The half of the contents.
    pub(crate) half: Half,
    /// The attributes of jump slots in this half.
    pub(crate) jump_slots: &'a [OutAttribute<'d>],
    pub(crate) slots: &'a TextureSlots,
    pub(crate) numbers: &'a Numbers,
}

impl ContentMaker<'_, '_> {
    fn symbol(&self, symbol: OutSymbolId) -> u32 {
        self.numbers.symbol_index(symbol)
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
        // nvlink's finalizer treats all jump slots as one function, with the number of the last one
        // (case unified/attributes-order on sm_100).
        let finalized = self.half == Half::Sass && self.merged.draft.flavour == Flavour::Mercury;
        let is_slot = |entry| self.merged.is_slot(self.graph, entry);
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
        // Case dialects/undefined-kernels-12-8.
        let undefined = self.merged.undefined_entries();
        stacks.extend(undefined.all.into_iter().map(|function| {
            let code = code::MIN_STACK_SIZE;
            (self.symbol(function), FileAttribute::About { code, function, number: 0 })
        }));
        stacks.sort_unstable_by_key(|stack| stack.0);
        let count = undefined.single.map(|function| FileAttribute::About {
            code: code::REGCOUNT,
            function,
            number: 0,
        });
        let (before, behind) = match self.merged.draft.dialect.counts_registers_first {
            true => (count, None),
            false => (None, count),
        };
        let stacks = stacks.iter().map(|(_, record)| record);
        let records = before.iter().chain(stacks).chain(&behind);
        records.for_each(|record| record.write(&mut out, &index));
        if self.merged.draft.dialect.counts_registers_of_slots {
            // The register count of the jump slot that is an entry (case dialects/slots-12-6).
            // Programs with several are refused ([`crate::attributes`]).
            if let Some((&entry, facts)) = facts().find(|fact| is_slot(*fact.0)) {
                let (function, number) = (self.merged.function(self.graph, entry), facts.registers);
                let code = code::REGCOUNT;
                FileAttribute::About { code, function, number }.write(&mut out, &index);
            }
        }
        out
    }

    /// All `.nv.info.<function>`.
    pub(crate) fn function_infos(&self, session: &Session, contents: &mut SyntheticContents) {
        let functions = &self.merged.info_order;
        let pieces: Vec<&[NodeId]> = functions.chunks(LISTS_PER_TASK).collect();
        let make = |place: usize| self.function_info(pieces[place]);
        for (list, sizes) in session.map(pieces.len(), functions.len() * LIST_WORK, make) {
            let piece = contents.lists.len() as u32;
            contents.lists.push(list);
            let mut start = 0;
            for (section, len) in sizes {
                contents.sections[section] = Some(SyntheticContent::List { piece, start, len });
                start += len;
            }
        }
    }

    /// The concatenated lists of `functions`, and the bytes of each list.
    fn function_info(&self, functions: &[NodeId]) -> (Vec<u8>, Vec<(SectionId, u32)>) {
        let sources = functions.iter().filter_map(|&node| self.merged.function_infos[node]);
        let mut out = Vec::with_capacity(sources.map(|source| source.size).sum());
        let mut sizes = Vec::with_capacity(functions.len());
        let mut sass = self.sass.map(|sass| (sass, ListMaker::default()));
        for &node in functions {
            let Some(source) = self.merged.function_infos[node] else { continue };
            let list = match &mut sass {
                Some((sass, maker)) => sass.list(node, source, maker),
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

    /// `.nv.uft.entry`, `.nv.udt.entry` and the attributes of jump slots.
    pub(crate) fn unified(&self, contents: &mut SyntheticContents) {
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
    fn unified_entries(&self, entries: &[UnifiedEntry]) -> Vec<u8> {
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
        let string = |name| self.numbers.string(name);
        for list in LISTS {
            if list == -4 && !self.merged.draft.dialect.lists_references {
                continue;
            }
            pair(0, list as u32);
            for node in nodes() {
                let function = self.function(node);
                match list {
                    -1 => {
                        // Cases weak/address-of-loser and indirect/revived-address by 12.0.
                        if self.merged.draft.dialect.lists_indirect_calls {
                            let targets = self.graph.indirect_targets(node);
                            targets.for_each(|to| pair(function, self.function(to)));
                        }
                        let listed = self.graph.calls(node).filter(|&to| self.lists_call(to));
                        listed.for_each(|to| pair(function, self.function(to)));
                    }
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

    /// True if `.nv.callgraph` lists calls of `callee`.
    fn lists_call(&self, callee: NodeId) -> bool {
        let draft = &self.merged.draft;
        let symbol = &draft.symbols[self.merged.function(self.graph, callee)];
        let name = || draft.names.get(symbol.name);
        draft.dialect.lists_system_calls
            || symbol.section.is_some()
            || !is_driver_function(name(), draft.dialect)
    }

    /// `.nv.prototype`: prototypes of functions whose address is not taken.
    pub(crate) fn prototypes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut record = |symbol: u32, prototype| {
            out.extend_from_slice(&symbol.to_le_bytes());
            out.extend_from_slice(&self.numbers.string(prototype).to_le_bytes());
        };
        let mut dead = self.graph.dead_aliases().iter().peekable();
        for (place, node) in self.graph.nodes.ids().enumerate() {
            while let Some(alias) = dead.next_if(|alias| alias.nodes_before <= place) {
                record(0, alias.prototype);
            }
            let listed = !self.graph.is_address_taken(node);
            if let Some(prototype) = self.graph.prototype(node).filter(|_| listed) {
                record(self.function(node), prototype);
            }
        }
        dead.for_each(|alias| record(0, alias.prototype));
        out
    }

    /// Relocation sections: kept records, applied records with `--preserve-relocs`, and texture
    /// slots.
    pub(crate) fn relocations(&self, draft: &Draft<'_>, contents: &mut SyntheticContents) {
        for (id, reloc) in draft.relocs.iter() {
            let rela = draft.sections[reloc.section].sh_type == sht::RELA;
            let count = self.relocated.sections[id].count() as u32;
            contents.sections[reloc.section] =
                Some(SyntheticContent::Records { reloc: id, count, rela });
        }
        for resolved in &draft.resolved_relas {
            let applied = self.relocated.applied(&resolved.targets);
            let mut bytes = vec![0; RELA_SIZE * applied.len()];
            let write = record_writer(true, |symbol| self.symbol(symbol), &mut bytes);
            applied.into_iter().for_each(write);
            contents.set(resolved.section, bytes);
        }
        for user in &self.slots.users {
            let mut out = Vec::new();
            for slot in self.slots.filled_for(user).rev() {
                let SlotRecord { offset, relocation_type } = self.slots.record(slot, self.half);
                let symbol = self.symbol(slot.symbol);
                match draft.sections[user.relocs].sh_type {
                    sht::RELA => encode::write_rela(&mut out, offset, symbol, relocation_type, 0),
                    _ => encode::write_rel(&mut out, offset, symbol, relocation_type),
                }
            }
            contents.set(user.relocs, out);
        }
    }
}
