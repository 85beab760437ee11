//! Merging: jump slots and entries of unified functions and variables.
//!
//! In an executable, all slots are in one section. The place of each is decided when all are known
//! ([`crate::data::unified`]).

use culd_cubin::elf::shf;
use culd_cubin::unified::SLOT;
use culd_cubin::{Section, SectionIndex, Symbol};

use super::Merger;
use crate::base::derived_names::Prefix;
use crate::base::half::HalfBytes;
use crate::base::id::{NodeId, ObjectId, OutSymbolId, SectionId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SectionPlacement;
use crate::draft::unified::{JumpSlot, UnifiedEntry};
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::symbols::SymbolSite;

impl<'d> Merger<'_, 'd> {
    /// Appends the jump slot of function `symbol` to the section of all slots. The first slot
    /// creates that section and its attributes.
    pub(super) fn jump_slot(
        &mut self,
        site: SymbolSite,
        symbol: &Symbol<'d>,
        input: &Section<'d>,
        out: OutSymbolId,
    ) {
        let name = self.merged.draft.names.intern(b".nv.uft");
        let section = self.find(name).unwrap_or_else(|| {
            let flags = shf::ALLOC | shf::EXECINSTR;
            let section = self.create(name, SectionKind::JumpSlots, flags, SLOT);
            let output = &mut self.merged.draft.sections[section];
            output.function = Some(out);
            output.registers = input.registers_of_code();
            self.merged.unified.slots_table = Some(section);
            if !self.merged.draft.dialect.slots_are_aliases {
                let info = self.merged.draft.names.intern(b".nv.info..nv.uft");
                self.merged.unified.slots_info = Some(self.info_section(info, section));
            }
            section
        });
        let base = self.merged.draft.sections[section].append(input.data, input.size, SLOT);
        let entry = &mut self.merged.draft.symbols[out];
        entry.section = Some(section);
        entry.value = base;
        entry.size = symbol.size;
        if let Some(slot) = symbol.defined_in() {
            self.set_placement(site.object, slot, SectionPlacement::At { section, base });
        }
        let (object, function) = (site.object, site.index);
        let size = input.size;
        self.merged.unified.slots.push(JumpSlot { object, function, stub: out, base, size });
    }

    /// Appends the index file that an input was linked with to the index file of this link (a
    /// defect of nvlink, kept: docs/DIFFERENCES.md, index-of-objects).
    pub(super) fn index_file(&mut self, input: &Section<'d>) {
        let draft = &mut self.merged.draft;
        let section = match draft.first_of(SectionKind::Index) {
            Some(section) => section,
            None => {
                let name = draft.names.intern(input.name);
                draft.add_section(name, SectionKind::Index, 0, input.align())
            }
        };
        draft.sections[section].append_halves(
            HalfBytes::same(input.data),
            input.size,
            input.align(),
        );
    }

    /// The attributes of all jump slots of a program in which they are those of the first slot.
    /// They are created where the first attributes of a slot are read.
    pub(super) fn first_slots_info(&mut self, table: SectionId) -> SectionId {
        let draft = &mut self.merged.draft;
        let first = draft.sections[table].function;
        let name = first.map_or(draft.sections[table].name, |first| draft.symbols[first].name);
        let name = draft.names.derived(Prefix::Info, name);
        let section = self.info_section(name, table);
        self.merged.unified.slots_info = Some(section);
        section
    }

    /// The function of the jump slot that an attribute list is about.
    pub(super) fn slot_node(
        &self,
        id: ObjectId,
        object: &InputObject<'d>,
        input: &Section<'d>,
    ) -> Option<NodeId> {
        let text =
            input.info_section().filter(|&text| object.role(text) == SectionRole::JumpSlot)?;
        let function = self.symbols.of(id, object.code_function(text)?)?;
        self.graph.node(function)
    }

    /// Merges a section of entries. In an executable, the section for functions exists from the
    /// start.
    pub(super) fn entries(&mut self, id: ObjectId, object: &InputObject<'d>, index: SectionIndex) {
        let input = object.section(index);
        let functions = object.role(index) == SectionRole::FunctionIds;
        let name = self.merged.draft.names.intern(input.name);
        let section = match self.merged.fixed.function_table.filter(|_| functions) {
            Some(section) => section,
            None => {
                let kind =
                    if functions { SectionKind::FunctionIds } else { SectionKind::VariableIds };
                self.find(name).unwrap_or_else(|| self.create(name, kind, 0, input.align()))
            }
        };
        let draft = &mut self.merged.draft;
        if let (true, Some(mercury)) = (draft.dialect.new_writer, object.counterparts.of(index)) {
            let link = SectionIndex(object.section(mercury).link);
            draft.mercury.stale_links.entry(section).or_insert_with(|| object.mercury_number(link));
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
            let base = match section.map(|section| self.placement(id, section)) {
                Some(SectionPlacement::At { base, .. }) => base,
                _ => 0,
            };
            let entry = UnifiedEntry {
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
