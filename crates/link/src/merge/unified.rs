//! Merging: jump slots and entries of unified functions and variables.
//!
//! In an executable all slots are one section; where each goes is decided when all are known
//! ([`crate::unified`]).

use culd_cubin::elf::shf;
use culd_cubin::unified::SLOT;
use culd_cubin::{Section, SectionIndex, Symbol};

use super::{Merge, Placed};
use crate::draft::Kind;
use crate::id::{NodeId, ObjectId, OutSymbolId};
use crate::objects::{Object, Role};
use crate::symbols::Site;
use crate::unified::{JumpSlot, TableEntry};

impl<'d> Merge<'_, 'd> {
    /// Appends the jump slot of function `symbol` to the section of all slots, which comes with its
    /// attributes.
    pub(super) fn jump_slot(
        &mut self,
        site: Site,
        symbol: &Symbol<'d>,
        input: &Section<'d>,
        out: OutSymbolId,
    ) {
        let name = self.merged.draft.names.intern(b".nv.uft");
        let section = self.find(name).unwrap_or_else(|| {
            let flags = shf::ALLOC | shf::EXECINSTR;
            let section = self.create(name, Kind::JumpSlots, flags, SLOT);
            let output = &mut self.merged.draft.sections[section];
            output.function = Some(out);
            output.registers = (input.info >> 24) as u8;
            let info = self.merged.draft.names.intern(b".nv.info..nv.uft");
            self.merged.unified.slots_table = Some(section);
            self.merged.unified.slots_info = Some(self.info_section(info, section));
            section
        });
        let base = self.merged.draft.sections[section].append(input.data, input.size, SLOT);
        let entry = &mut self.merged.draft.symbols[out];
        entry.section = Some(section);
        entry.value = base;
        entry.size = symbol.size;
        if let Some(slot) = symbol.defined_in() {
            self.set_placed(site.object, slot, Placed::At { section, base });
        }
        let (object, function) = (site.object, site.index);
        let size = input.size;
        self.merged.unified.slots.push(JumpSlot { object, function, stub: out, base, size });
    }

    /// The index file with which an object was made goes behind that of this link (a defect of
    /// nvlink, kept: docs/DIFFERENCES.md, index-of-objects).
    pub(super) fn index_file(&mut self, input: &Section<'d>) {
        let draft = &mut self.merged.draft;
        let section = match draft.first_of(Kind::Index) {
            Some(section) => section,
            None => {
                let name = draft.names.intern(input.name);
                draft.add_section(name, Kind::Index, 0, input.align())
            }
        };
        draft.sections[section].append_halves((input.data, input.data), input.size, input.align());
    }

    /// The function of the jump slot that an attribute list is about.
    pub(super) fn slot_node(
        &self,
        id: ObjectId,
        object: &Object<'d>,
        input: &Section<'d>,
    ) -> Option<NodeId> {
        let text = input.info_section().filter(|&text| object.role(text) == Role::JumpSlot)?;
        let function = self.symbols.of(id, object.code_function(text)?)?;
        self.graph.node(function)
    }

    /// Takes over an entry section. That of functions is there from the start in an executable.
    pub(super) fn entries(&mut self, id: ObjectId, object: &Object<'d>, index: SectionIndex) {
        let input = object.section(index);
        let functions = object.role(index) == Role::FunctionIds;
        let name = self.merged.draft.names.intern(input.name);
        let section = match self.merged.fixed.function_table.filter(|_| functions) {
            Some(section) => section,
            None => {
                let kind = if functions { Kind::FunctionIds } else { Kind::VariableIds };
                self.find(name).unwrap_or_else(|| self.create(name, kind, 0, input.align()))
            }
        };
        let draft = &mut self.merged.draft;
        if let (true, Some(twin)) = (draft.dialect.new_writer, object.twins.of(index)) {
            let link = SectionIndex(object.section(twin).link);
            draft.stale_links.entry(section).or_insert_with(|| object.mercury_number(link));
        }
        let tables = &mut self.merged.unified;
        let known = if functions { &mut tables.function_ids } else { &mut tables.variable_ids };
        *known = Some(section);
        let lists = object.unified.iter().filter(|entries| entries.section == index);
        for entry in lists.flat_map(|entries| &entries.list) {
            let program = self.symbols.of(id, entry.symbol);
            let Some(symbol) = program.and_then(|program| self.merged.out_symbol(program)) else {
                continue;
            };
            let section = object.symbol(entry.symbol).defined_in().filter(|_| !functions);
            let base = match section.map(|section| self.placed(id, section)) {
                Some(Placed::At { base, .. }) => base,
                _ => 0,
            };
            let entry = TableEntry {
                object: id,
                symbol,
                flags: entry.flags,
                offset: base.saturating_add(entry.offset),
                id: entry.id,
            };
            let tables = &mut self.merged.unified;
            let list = if functions { &mut tables.functions } else { &mut tables.variables };
            list.push(entry);
        }
    }
}
