//! Merging, first step of a file: its functions, in symbol order, but code before its aliases.

use culd_cubin::elf::{shf, stb, sto, stt};
use culd_cubin::{SectionIndex, Symbol};

use super::Merger;
use crate::base::derived_names::Prefix;
use crate::base::id::{NameId, NodeId, ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::{SectionPlacement, SymbolTarget};
use crate::draft::section::{InputChunk, OutSymbol};
use crate::objects::object::InputObject;
use crate::objects::outline::FunctionOutline;
use crate::objects::roles::SectionRole;
use crate::symbols::discarded::LINE_TABLES;
use crate::symbols::{Fate, SymbolSite};

/// The name of the section that is the fifth among nvlink's names, whether or not there is one.
pub(super) const UNIFIED_TABLE: &[u8] = b".nv.uft.entry";

impl<'d> Merger<'_, 'd> {
    pub(super) fn functions(&mut self, id: ObjectId, object: &InputObject<'d>) {
        for function in &object.outline.functions {
            let &FunctionOutline { index, names_code, is_driver_function, .. } = function;
            let symbol = object.symbol(index);
            let Some(program) = self.symbols.of(id, index) else { continue };
            let Some(node) = self.graph.node(program) else {
                self.name_dead_function(program);
                let unused_kernel = self.selected_late && symbol.is_entry();
                let three = self.merged.draft.dialect.has_three_lists;
                if three && (unused_kernel || is_driver_function) && symbol.defined_in().is_some() {
                    // A kernel that host code does not refer to leaves a name behind, and so does a
                    // definition with the name of a function of the driver.
                    let name = self.symbols.all[program].name;
                    let name = self.merged.draft.names.derived(Prefix::Shared, name);
                    self.merged.draft.intern_section_name(name);
                }
                if names_code && self.symbols.fate(id, index).accepted() {
                    // If options select kernels, a kernel that is left out gets only the sections
                    // of a function.
                    let entry = symbol.is_entry() && self.selected_late;
                    self.count_dead(program, entry || is_driver_function);
                }
                self.note_dead_copy(object, SymbolSite { object: id, index }, program);
                continue;
            };
            let out = self.function_symbol(node, symbol, id);
            let Some(text) = symbol.defined_in() else { continue };
            self.strong_seen[program] |= symbol.binding() != stb::WEAK;
            let site = SymbolSite { object: id, index };
            if object.role(text) == SectionRole::JumpSlot && !self.merged.draft.relocatable {
                self.jump_slot(site, symbol, object.section(text), out);
            } else if self.symbols.fate(id, index).accepted() {
                self.code(object, site, text, function, node, out);
            } else if names_code && self.placement(id, text) == SectionPlacement::Dropped {
                self.set_placement(id, text, SectionPlacement::Lost(out));
            }
        }
    }

    /// Notes a dead function of which a copy with relocations is replaced: records about it in
    /// earlier files are discarded (case weak/dead-copies).
    fn note_dead_copy(&mut self, object: &InputObject<'d>, site: SymbolSite, program: SymbolId) {
        let info = &self.symbols.all[program];
        if self.merged.draft.dialect.keeps_lost_addresses {
            return;
        }
        if !info.replaced || !self.symbols.fate(site.object, site.index).accepted() {
            return;
        }
        if self.dead_with_relocations.contains(&program) {
            self.merged.discarded_dead.insert(program, site.object);
        }
        let text = object.symbol(site.index).defined_in();
        if text.is_some_and(|text| object.is_patched(text)) {
            self.dead_with_relocations.insert(program);
        }
    }

    /// The output symbol of a function, created on first sight. A symbol that is first seen weak
    /// remains in the local list (case weak/weak-seen-as-extern).
    fn function_symbol(
        &mut self,
        node: NodeId,
        symbol: &Symbol<'d>,
        object: ObjectId,
    ) -> OutSymbolId {
        let program = self.graph.nodes[node];
        if let SymbolTarget::Symbol(out) = self.merged.targets[program] {
            return out;
        }
        if let Some(nameless) = self.symbols.nameless_before(program) {
            self.nameless_function(nameless, object);
        }
        let draft = &mut self.merged.draft;
        let name = self.symbols.all[program].name;
        let out = draft.symbols.push(OutSymbol {
            name,
            info: symbol.info,
            other: symbol.other & !sto::SPACE,
            section: None,
            value: 0,
            size: 0,
            program: Some(program),
            shared: None,
            dropped: false,
        });
        if draft.is_global(symbol.binding()) {
            draft.add_global_name(name);
            draft.globals.push(out);
        } else {
            draft.local_strings.add(name);
            draft.locals.push(out);
        }
        self.merged.targets[program] = SymbolTarget::Symbol(out);
        out
    }

    /// Adds the name of a dead function, for releases with one list of all names.
    fn name_dead_function(&mut self, program: SymbolId) {
        if let Some(nameless) = self.symbols.nameless_before(program) {
            let name = self.symbols.all[nameless].name;
            self.merged.draft.add_lost_name(name);
        }
        let name = self.symbols.all[program].name;
        self.merged.draft.add_lost_name(name);
    }

    /// Creates a function without name, unless it is dead.
    fn nameless_function(&mut self, program: SymbolId, object: ObjectId) {
        if self.graph.node(program).is_none() {
            let name = self.symbols.all[program].name;
            self.merged.draft.add_lost_name(name);
            return;
        }
        let empty = self.symbols.all[program].name;
        let name = self.name_of_nameless(empty, object).unwrap_or(empty);
        let draft = &mut self.merged.draft;
        draft.local_strings.add(name);
        let out = draft.symbols.push(OutSymbol {
            name,
            info: stb::LOCAL << 4 | stt::FUNC,
            other: 0,
            section: None,
            value: 0,
            size: 0,
            program: Some(program),
            shared: None,
            dropped: false,
        });
        draft.locals.push(out);
        self.merged.nameless.insert(out);
        self.merged.targets[program] = SymbolTarget::Symbol(out);
    }

    /// The name that a function without name gets where a file before `object` has `empty` among
    /// its prototypes, as for a kernel whose address it takes: nvlink finds the string of the
    /// prototype then, and takes its place in the table for the number of a section's or local
    /// symbol's name. `.nv.uft.entry` is the fifth, and a parameter counts for each kernel that has
    /// it. If there are fewer so far, the names of nvlink's output are one byte off, which culd's
    /// are not. Once one of these functions has no name, none of the later ones has (case
    /// dialects/names-of-nameless-12-4).
    fn name_of_nameless(&self, empty: NameId, object: ObjectId) -> Option<NameId> {
        let draft = &self.merged.draft;
        let counted = draft.local_strings.counted();
        if counted.is_empty() || draft.local_strings.contains(empty) {
            return None;
        }
        let found = self.empty_prototype.get_or_init(|| self.first_prototype(empty));
        let (_, number) = found.filter(|&(file, _)| file < object)?;
        match number {
            ..5 => counted.get(number - 1).copied(),
            5 => draft.names.lookup(UNIFIED_TABLE),
            6.. => counted.get(number - 2).copied(),
        }
    }

    /// The first file that has a record with the prototype `name`, and the offset of its string in
    /// bytes among those of prototypes.
    fn first_prototype(&self, name: NameId) -> Option<(ObjectId, usize)> {
        let draft = &self.merged.draft;
        let bytes = draft.names.get(name);
        let (file, _) = self.objects.iter().find(|&(id, file)| {
            self.listed_prototypes(id, file).any(|prototype| file.prototype(prototype) == bytes)
        })?;
        let before = draft.prototype_strings.iter().take_while(|&before| before != name);
        Some((file, 1 + before.map(|name| draft.names.get(name).len() + 1).sum::<usize>()))
    }

    /// Places the code of an accepted definition in a new section, or in the section of an earlier
    /// weak copy, whose contents it replaces.
    fn code(
        &mut self,
        object: &InputObject<'d>,
        site: SymbolSite,
        text: SectionIndex,
        function: &FunctionOutline<'d>,
        node: NodeId,
        out: OutSymbolId,
    ) {
        let (symbol, main) = (object.symbol(site.index), function.names_code);
        let input = object.section(text);
        let names = &mut self.merged.draft.names;
        let own_name = self.symbols.all[self.graph.nodes[node]].name;
        let name = match main && object.role(text) != SectionRole::JumpSlot {
            true => names.derived_input(input.name, Prefix::Text, own_name),
            false => names.intern(input.name),
        };
        let existing = match self.placement(site.object, text) {
            SectionPlacement::At { section, .. } => Some(section),
            _ if symbol.binding() == stb::LOCAL => None,
            _ => self.find(name),
        };
        let kind = match object.role(text) {
            SectionRole::JumpSlot => SectionKind::JumpSlots,
            _ => SectionKind::Text,
        };
        let section = existing.unwrap_or_else(|| self.new_code(symbol, name, kind, input.align()));
        if existing.is_some() && main {
            self.replace_code(section, site, node);
        }
        if self.symbols.fate(site.object, site.index) == Fate::Chosen {
            self.define_function(object, site, main, out);
        }
        let draft = &mut self.merged.draft;
        draft.symbols[out].section = Some(section);
        if main || existing.is_none() {
            let code = &mut draft.sections[section];
            code.size = input.size;
            // A replacing copy does not lower the alignment.
            code.align = code.align.max(input.align());
            code.registers = input.registers_of_code();
            code.flags = code.flags & !shf::BARRIERS | input.flags & shf::BARRIERS;
            code.mercury_size = function.mercury.len() as u64;
            code.chunks =
                vec![InputChunk { offset: 0, bytes: input.data, mercury: function.mercury }];
            self.set_placement(site.object, text, SectionPlacement::At { section, base: 0 });
        }
        if main {
            self.merged.draft.sections[section].function = Some(out);
            self.node_of_text.insert(section, node);
        }
        // A function of the program that has the name of a function of the driver is treated like
        // an entry. A kernel that is not known to be an entry is not.
        let entry = symbol.is_entry() && self.graph.is_known_entry(node);
        if entry || function.is_driver_function {
            self.entry_sections(own_name, section);
        }
    }

    /// Gives the symbol of a function the values of its definition at `site`. `names_code` is true
    /// for the function that the code is named after.
    fn define_function(
        &mut self,
        object: &InputObject<'d>,
        site: SymbolSite,
        names_code: bool,
        out: OutSymbolId,
    ) {
        let symbol = object.symbol(site.index);
        let entry = &mut self.merged.draft.symbols[out];
        entry.info = symbol.info;
        // The bit MANAGED, which a unified function has if its own file calls it, is that of the
        // first symbol seen (case unified/called).
        let first = entry.other & sto::MANAGED;
        entry.other = symbol.other & !(sto::SPACE | sto::MANAGED) | first;
        entry.value = symbol.value;
        // With Mercury, the machine code of an object has another size for an alias that came
        // before its code. The next link uses Mercury's size (case alias/other-file in steps).
        let own = names_code || object.outer_function(site.index).is_some();
        let mercury = if own { None } else { object.mercury_symbol(site.index) };
        entry.size = mercury.map_or(symbol.size, |mercury| mercury.size);
    }

    fn new_code(
        &mut self,
        symbol: &Symbol<'d>,
        name: NameId,
        kind: SectionKind,
        align: u64,
    ) -> SectionId {
        let flags = shf::ALLOC | shf::EXECINSTR;
        if symbol.binding() == stb::LOCAL {
            self.merged.draft.add_section(name, kind, flags, align)
        } else {
            self.create(name, kind, flags, align)
        }
    }

    /// Prepares a code section for a replacing copy. The relocations of the earlier copy are
    /// discarded. So are records about the function in tables of addresses, if an earlier copy had
    /// relocations.
    fn replace_code(&mut self, section: SectionId, site: SymbolSite, node: NodeId) {
        let discarded_relocs = self.discard_literals(section, node);
        let name = self.merged.draft.sections[section].name;
        for front in [Prefix::Rel, Prefix::Rela] {
            let name = self.merged.draft.names.derived(front, name);
            if let Some(reloc) = self.find_relocs(name, section) {
                self.merged.draft.relocs[reloc].sources.clear();
            }
        }
        if self.merged.draft.dialect.keeps_lost_addresses {
            return;
        }
        // The same if the literals had relocations and these are discarded
        // (case literals/equal-banks by 13.5).
        if discarded_relocs || self.had_relocs.get(section).is_some() {
            let program = self.graph.nodes[node];
            self.merged.discarded_debug.insert(program, site.object);
            for name in LINE_TABLES {
                self.discard_rel_records(name, program, site.object);
            }
        }
    }

    /// Discards such records in `.rel.debug_*`, if the RELA section of the table was created first
    /// (case weak/line-tables-rela-first; weak/line-tables-rel-only is the opposite).
    fn discard_rel_records(&mut self, name: &[u8], program: SymbolId, object: ObjectId) {
        let names = &self.merged.draft.names;
        let table = names.lookup(name).and_then(|name| self.find(name));
        let Some(table) = table else { return };
        let created = |prefix: &[u8]| {
            let name = names.lookup(&[prefix, name].concat())?;
            self.find_relocs(name, table)
        };
        if created(b".rela").is_some_and(|rela| created(b".rel").is_none_or(|rel| rela < rel)) {
            self.merged.discarded_rel.insert((program, table), object);
        }
    }

    /// Creates an entry's attribute and shared sections, which exist from the start. Local entries
    /// of one name in several files share the section of shared memory.
    fn entry_sections(&mut self, function: NameId, code: SectionId) {
        if self.info_of_code.get(code).is_none() {
            let info = self.merged.draft.names.derived(Prefix::Info, function);
            self.info_section(info, code);
        }
        let shared = self.merged.draft.names.derived(Prefix::Shared, function);
        if self.find(shared).is_none() {
            self.shared_section(shared, code);
        }
    }

    /// Creates the shared section of the kernel whose code is `code`.
    pub(super) fn shared_section(&mut self, name: NameId, code: SectionId) -> SectionId {
        let flags = shf::WRITE | shf::ALLOC | shf::INFO_LINK;
        let section = self.create(name, SectionKind::Shared, flags, 1);
        self.merged.draft.sections[section].owner = Some(code);
        section
    }
}
