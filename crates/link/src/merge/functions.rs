//! Merging, first step of a file: its functions, in symbol order but code before its aliases.

use culd_cubin::elf::{shf, stb, sto};
use culd_cubin::{SectionIndex, Symbol};
use thin_vec::thin_vec;

use super::{Merge, Placed, Target};
use crate::draft::{Kind, OutSymbol, Part};
use crate::id::{NameId, NodeId, ObjectId, OutSymbolId, SectionId, SymbolId};
use crate::names::Front;
use crate::objects::{Function, Object, Role};
use crate::symbols::{Fate, Site};
use crate::void::LINE_TABLES;

impl<'d> Merge<'_, 'd> {
    pub(super) fn functions(&mut self, id: ObjectId, object: &Object<'d>) {
        for function in &object.outline.functions {
            let &Function { index, names_code, is_system_call, .. } = function;
            let symbol = object.symbol(index);
            let Some(program) = self.symbols.of(id, index) else { continue };
            let Some(node) = self.graph.node(program) else {
                if self.host_references && symbol.is_entry() && symbol.defined_in().is_some() {
                    // A kernel that no host code refers to leaves a name behind.
                    let name = self.symbols.all[program].name;
                    let name = self.merged.draft.names.derived(Front::Shared, name);
                    self.merged.draft.intern_section_name(name);
                }
                if names_code && self.symbols.fate(id, index).accepted() {
                    // With options a kernel that is left out gets its sections like a function.
                    let entry = symbol.is_entry() && self.host_references;
                    self.count_dead(program, entry || is_system_call);
                }
                self.note_dead_copy(object, Site { object: id, index }, program);
                continue;
            };
            let out = self.function_symbol(node, symbol);
            let Some(text) = symbol.defined_in() else { continue };
            self.strong_seen[program] |= symbol.binding() != stb::WEAK;
            let site = Site { object: id, index };
            if object.role(text) == Role::JumpSlot && !self.merged.draft.relocatable {
                self.jump_slot(site, symbol, object.section(text), out);
            } else if self.symbols.fate(id, index).accepted() {
                self.code(object, site, (text, function), (node, out));
            } else if names_code && self.placed(id, text) == Placed::No {
                self.set_placed(id, text, Placed::Lost(out));
            }
        }
    }

    /// A dead function of which a copy with relocations is replaced: what earlier files say
    /// about it is void (case weak/dead-copies).
    fn note_dead_copy(&mut self, object: &Object<'d>, site: Site, program: SymbolId) {
        let info = &self.symbols.all[program];
        if !info.replaced || !self.symbols.fate(site.object, site.index).accepted() {
            return;
        }
        if self.dead_with_relocations.contains(&program) {
            self.merged.void_dead.insert(program, site.object);
        }
        let text = object.symbol(site.index).defined_in();
        if text.is_some_and(|text| object.is_patched(text)) {
            self.dead_with_relocations.insert(program);
        }
    }

    /// The output symbol of a function, created on first sight: a weak one stays in the local
    /// list whatever comes later (case weak/weak-seen-as-extern).
    fn function_symbol(&mut self, node: NodeId, symbol: &Symbol<'d>) -> OutSymbolId {
        let program = self.graph.nodes[node];
        if let Target::Symbol(out) = self.merged.targets[program] {
            return out;
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
            draft.global_strings.add(name);
            draft.globals.push(out);
        } else {
            draft.local_strings.add(name);
            draft.locals.push(out);
        }
        self.merged.targets[program] = Target::Symbol(out);
        out
    }

    /// The code of an accepted definition: a new section, or a new content of the one that an
    /// earlier weak copy made.
    fn code(
        &mut self,
        object: &Object<'d>,
        site: Site,
        (text, function): (SectionIndex, &Function<'d>),
        (node, out): (NodeId, OutSymbolId),
    ) {
        let (symbol, main) = (object.symbol(site.index), function.names_code);
        let input = object.section(text);
        let names = &mut self.merged.draft.names;
        let own_name = self.symbols.all[self.graph.nodes[node]].name;
        let name = match main && object.role(text) != Role::JumpSlot {
            true => names.derived_input(input.name, Front::Text, own_name),
            false => names.intern(input.name),
        };
        let existing = match self.placed(site.object, text) {
            Placed::At { section, .. } => Some(section),
            _ if symbol.binding() == stb::LOCAL => None,
            _ => self.find(name),
        };
        let kind = match object.role(text) {
            Role::JumpSlot => Kind::JumpSlots,
            _ => Kind::Text,
        };
        let section = existing.unwrap_or_else(|| self.new_code(symbol, name, kind, input.align()));
        if existing.is_some() && main {
            self.replace_code(section, site, node);
        }
        let chosen = self.symbols.fate(site.object, site.index) == Fate::Chosen;
        let draft = &mut self.merged.draft;
        if chosen {
            let entry = &mut draft.symbols[out];
            entry.info = symbol.info;
            // The bit of a unified function that its own file calls is that of the first sight (case
            // unified/called).
            let first = entry.other & sto::MANAGED;
            entry.other = symbol.other & !(sto::SPACE | sto::MANAGED) | first;
            entry.value = symbol.value;
            // Beside Mercury, machine code of an object tells a size of an alias that came first in it; the next link goes by
            // Mercury's (case alias/other-file in steps).
            let twin = if main { None } else { object.mercury_symbol(site.index) };
            entry.size = twin.map_or(symbol.size, |twin| twin.size);
        }
        draft.symbols[out].section = Some(section);
        if main || existing.is_none() {
            let code = &mut draft.sections[section];
            code.size = input.size;
            // A copy that takes over keeps the alignment of the one before.
            code.align = code.align.max(input.align());
            code.registers = (input.info >> 24) as u8;
            code.flags = code.flags & !shf::BARRIERS | input.flags & shf::BARRIERS;
            code.twin_size = function.twin.len() as u64;
            code.parts = thin_vec![Part { offset: 0, bytes: input.data, twin: function.twin }];
            self.set_placed(site.object, text, Placed::At { section, base: 0 });
        }
        if main {
            self.merged.draft.sections[section].function = Some(out);
            self.node_of_text.insert(section, node);
        }
        // A function of the program with the name of a system call is treated like an entry, a
        // kernel that is none so far is not.
        let entry = symbol.is_entry() && self.graph.is_known_entry(node);
        if entry || function.is_system_call {
            self.entry_sections(own_name, section);
        }
    }

    fn new_code(&mut self, symbol: &Symbol<'d>, name: NameId, kind: Kind, align: u64) -> SectionId {
        let flags = shf::ALLOC | shf::EXECINSTR;
        if symbol.binding() == stb::LOCAL {
            self.merged.draft.add_section(name, kind, flags, align)
        } else {
            self.create(name, kind, flags, align)
        }
    }

    /// A later copy takes over: the relocations of the earlier one are void, and so are records
    /// about the function in tables of addresses if an earlier copy had any.
    fn replace_code(&mut self, section: SectionId, site: Site, node: NodeId) {
        let forgot = self.discard_literals(section, node);
        let name = self.merged.draft.sections[section].name;
        for front in [Front::Rel, Front::Rela] {
            let name = self.merged.draft.names.derived(front, name);
            if let Some(reloc) = self.find_relocs(name, section) {
                self.merged.draft.relocs[reloc].sources.clear();
            }
        }
        // So are those about one whose literals had some, if these are void (case literals/equal-banks by 13.5).
        if forgot || self.had_relocs.get(section).is_some() {
            let program = self.graph.nodes[node];
            self.merged.void_debug.insert(program, site.object);
            for name in LINE_TABLES {
                self.void_rel_records(name, program, site.object);
            }
        }
    }

    /// The same for `.rel.debug_*`, where the RELA section of the table was created first (case
    /// weak/line-tables-rela-first; weak/line-tables-rel-only is the opposite).
    fn void_rel_records(&mut self, name: &[u8], program: SymbolId, object: ObjectId) {
        let names = &self.merged.draft.names;
        let table = names.lookup(name).and_then(|name| self.find(name));
        let Some(table) = table else { return };
        let created = |prefix: &[u8]| {
            let name = names.lookup(&[prefix, name].concat())?;
            self.find_relocs(name, table)
        };
        if created(b".rela").is_some_and(|rela| created(b".rel").is_none_or(|rel| rela < rel)) {
            self.merged.void_rel.insert((program, table), object);
        }
    }

    /// An entry's attribute and shared sections exist from the start. Entries of the same name in
    /// several files, which then are local ones, share the section of shared memory.
    fn entry_sections(&mut self, function: NameId, code: SectionId) {
        if self.info_of_code.get(code).is_none() {
            let info = self.merged.draft.names.derived(Front::Info, function);
            self.info_section(info, code);
        }
        let shared = self.merged.draft.names.derived(Front::Shared, function);
        if self.find(shared).is_none() {
            self.shared_section(shared, code);
        }
    }

    /// Creates the shared section of the kernel whose code is `code`.
    pub(super) fn shared_section(&mut self, name: NameId, code: SectionId) -> SectionId {
        let flags = shf::WRITE | shf::ALLOC | shf::INFO_LINK;
        let section = self.create(name, Kind::Shared, flags, 1);
        self.merged.draft.sections[section].owner = Some(code);
        section
    }
}
