//! Merging, last step of a file: its relocation sections, in section order.
//!
//! Only the names that they bring and the records about dead functions are dealt with here;
//! the records themselves are resolved when all places are known ([`crate::relocs`]).

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{shf, sht};
use culd_cubin::{RelocEntry, Section, SectionIndex};

use super::{Merge, Placed};
use crate::capsule::Half;
use crate::draft::{ALL, Clear, Kind, RelocSection, RelocSource, ResolvedSection};
use crate::id::{NameId, ObjectId, RelocId, SectionId, SymbolId};
use crate::names::Front;
use crate::objects::{Object, Open, Patch};

/// What is put in front of a section's name to name that which tells what was applied to it.
pub(crate) const RESOLVED: &[u8] = b".nv.resolvedrela";

/// How relocation sections are called.
#[derive(Clone, Copy)]
struct RelocNames<'d> {
    /// What they patch.
    patched: NameId,
    /// What the input's name begins with, which ends with that, and its bytes.
    own: Option<(Front, &'d [u8])>,
}

impl<'d> Merge<'_, 'd> {
    pub(super) fn relocations(&mut self, id: ObjectId, object: &Object<'d>) {
        for &Patch { section, target, open } in &object.outline.patches {
            let input = object.section(section);
            let source = |base, twin_base| RelocSource {
                object: id,
                section,
                target,
                base,
                twin_base,
                within: ALL,
                moved: false,
            };
            if let Placed::At { section, base } = self.placed(id, target) {
                let twin_base = self.merged.twin_base(id, target, base);
                self.read(object, (input, open), source(base, twin_base), section);
            } else if let Some(&(bank, base)) = self.bank_parts.get(&(id, target)) {
                // Literals of machine code have none, and nvlink looks for none (case literals/of-losers-86).
                if self.merged.draft.flavour == Flavour::Classic {
                    continue;
                }
                if !input.relocations().is_empty() {
                    if self.preserve {
                        // Only the name is left of what tells about a function's literals (case preserve/literals).
                        let name = object.section(target).name;
                        let name = self.merged.draft.names.join(&[RESOLVED, name]);
                        self.merged.draft.intern_section_name(name);
                    }
                    // Literals of copies that lost are copied in one piece.
                    let lost = self.placed(id, target) == Placed::Waiting;
                    let bank = &mut self.merged.banks[bank];
                    bank.sources.push(source(base, base));
                    let starts = object.literal_starts(target).filter(|_| !lost);
                    bank.starts.extend(starts.map(|start| base + start).chain([base]));
                }
            } else {
                self.count_dead_relocations(id, object, input, target);
            }
        }
    }

    /// The relocation section called `name` for `target`.
    /// Forgets the records that patch section `target`; true when there were any.
    pub(super) fn clear_relocs(&mut self, target: SectionId) -> bool {
        let draft = &mut self.merged.draft;
        let mut any = false;
        let mut next = self.relocs_of.get(target);
        while let Some(reloc) = next {
            any |= !draft.relocs[reloc].sources.is_empty();
            draft.relocs[reloc].sources.clear();
            next = draft.relocs[reloc].previous;
        }
        any
    }

    pub(super) fn find_relocs(&self, name: NameId, target: SectionId) -> Option<RelocId> {
        let draft = &self.merged.draft;
        let of = |id: &RelocId| draft.relocs[*id].previous;
        let mut all = std::iter::successors(self.relocs_of.get(target), of);
        all.find(|&id| draft.sections[draft.relocs[id].section].name == name)
    }

    fn reloc_section(&mut self, name: NameId, sh_type: u32, target: SectionId) -> RelocId {
        if let Some(reloc) = self.find_relocs(name, target) {
            return reloc;
        }
        let is_second = self.is_second_bank(target);
        let draft = &mut self.merged.draft;
        if is_second {
            // The first bank of that name may lose the name of its relocations (case literals/replaced-tables).
            draft.intern_section_name_again(name);
        }
        let section = draft.add_section(name, Kind::Reloc, shf::INFO_LINK, 8);
        let output = &mut draft.sections[section];
        output.sh_type = sh_type;
        output.owner = Some(target);
        let sources = Vec::new();
        let previous = self.relocs_of.get(target);
        let reloc = draft.relocs.push(RelocSection { section, target, previous, sources });
        self.relocs_of.insert(target, reloc);
        if self.preserve {
            self.resolved_section(target);
        }
        reloc
    }

    /// The section for what is applied to `target` comes with its first relocation section.
    fn resolved_section(&mut self, target: SectionId) {
        let draft = &mut self.merged.draft;
        let name = draft.names.prefixed(RESOLVED, draft.sections[target].name);
        // Local functions of one name share it (case local/kernels).
        if let Some(&at) = self.resolved_ids.get(&name) {
            let targets = &mut draft.resolved[at].targets;
            if !targets.contains(&target) {
                targets.push(target);
            }
            // nvlink makes another one, which only counts (case preserve/local-kernels-75 behind many sections).
            draft.add_unlisted();
            return;
        }
        let section = draft.add_section(name, Kind::Resolved, shf::INFO_LINK, 8);
        draft.sections[section].owner = Some(target);
        self.resolved_ids.insert(name, draft.resolved.len());
        draft.resolved.push(ResolvedSection { section, targets: vec![target] });
    }

    /// How relocation sections for `section` are called, where `input` of `object` patches `patched`. Jump slots are one
    /// section of another name.
    fn reloc_names(
        &mut self,
        object: &Object<'d>,
        (input, patched): (&Section<'d>, SectionIndex),
        section: SectionId,
    ) -> RelocNames<'d> {
        let draft = &mut self.merged.draft;
        let output = &draft.sections[section];
        let (front, bytes): (_, &[u8]) = match input.sh_type {
            sht::RELA => (Front::Rela, b".rela"),
            _ => (Front::Rel, b".rel"),
        };
        if output.kind == Kind::JumpSlots {
            return RelocNames { patched: output.name, own: None };
        }
        let own = Some((front, input.name));
        let name = draft.names.get(output.name);
        // Mostly this file's section gave its name to that of the output: then the bytes need not be read.
        if std::ptr::eq(name, object.section(patched).name) {
            return RelocNames { patched: output.name, own };
        }
        // Phase `objects` has checked that it begins so, and ends with the name of what it patches.
        let tail = input.name.strip_prefix(bytes).unwrap_or(input.name);
        let patched = if name == tail { output.name } else { draft.names.intern(tail) };
        RelocNames { patched, own }
    }

    /// The name of the relocation section that begins with `front`.
    fn reloc_name(&mut self, front: Front, of: RelocNames<'d>) -> NameId {
        let names = &mut self.merged.draft.names;
        match of.own {
            Some((own, name)) if own == front => names.derived_input(name, front, of.patched),
            _ => names.derived(front, of.patched),
        }
    }

    /// Creates the relocation sections that `input` brings, notes it as their source, and what its records clear.
    fn read(
        &mut self,
        object: &Object<'d>,
        (input, open): (&Section<'d>, Open),
        source: RelocSource,
        section: SectionId,
    ) {
        let rela = input.sh_type == sht::RELA;
        if rela && self.graph.all_alive() && !self.void.any_in(source.object) {
            self.read_whole(object, (input, open), source, section);
        } else {
            self.read_records(object, input, source, section);
        }
    }

    /// Creates the sections for RELA records that are neither void nor about something dead: what brings a section is
    /// then told by few of them.
    fn read_whole(
        &mut self,
        object: &Object<'d>,
        (input, open): (&Section<'d>, Open),
        source: RelocSource,
        section: SectionId,
    ) {
        let records = input.relocations();
        if records.is_empty() {
            return;
        }
        let called = self.reloc_names(object, (input, source.target), section);
        let name = self.reloc_name(Front::Rela, called);
        let reloc = self.reloc_section(name, sht::RELA, section);
        if self.merged.draft.dialect.rel_twin_names {
            let id = source.object;
            let mut rest = records.iter().skip(1).filter(|record| record.addend == 0);
            let stays = |record| !self.merged.gets_addend(id, object, record);
            if open == Open::Yes || open == Open::MayBe && rest.any(stays) {
                self.rel_twin(called, section);
            }
        }
        self.had_relocs.insert(section, ());
        let sources = &mut self.merged.draft.relocs[reloc].sources;
        // Most sections have one source only, and empty ones none.
        match sources.is_empty() {
            true => *sources = vec![source],
            false => sources.push(source),
        }
    }

    /// Creates the REL section that nvlink creates, and leaves empty, for a RELA record that has no
    /// addend in the output either and is not the section's first (cases headers-and-order/*, deadcode/functions).
    fn rel_twin(&mut self, called: RelocNames<'d>, section: SectionId) {
        let name = self.reloc_name(Front::Rel, called);
        self.reloc_section(name, sht::REL, section);
    }

    /// Walks the records: what speaks of an accepted copy of a dead function is cleared later. A REL record that gets
    /// an addend goes into the RELA section (case relocations/rel-sections-90). Void records do not count.
    fn read_records(
        &mut self,
        object: &Object<'d>,
        input: &Section<'d>,
        source: RelocSource,
        section: SectionId,
    ) {
        let id = source.object;
        let rela = input.sh_type == sht::RELA;
        let called = self.reloc_names(object, (input, source.target), section);
        let (mut reloc, mut moved_reloc, mut interned) = (None, None, false);
        let mut alive = false;
        for record in input.relocations().iter() {
            if self.void.contains(self.symbols, id, object, source.target, record) {
                continue;
            }
            let moved = !rela && self.merged.gets_addend(id, object, record);
            let reloc = if moved { &mut moved_reloc } else { &mut reloc };
            let first = reloc.is_none();
            if first {
                let (front, sh_type) = match rela || moved {
                    true => (Front::Rela, sht::RELA),
                    false => (Front::Rel, sht::REL),
                };
                let name = self.reloc_name(front, called);
                *reloc = Some(self.reloc_section(name, sh_type, section));
            }
            match self.dead_function(object, id, record) {
                Some(function) if self.symbols.fate(id, record.symbol).accepted() => {
                    let shown = Half::shown(self.merged.draft.flavour);
                    let (offset, kind) = (source.base(shown) + record.offset, record.kind);
                    let twin_offset = source.base(Half::Sass) + record.offset;
                    let clear = Clear { section, offset, twin_offset, kind, object: id, function };
                    self.merged.draft.clears.push(clear);
                }
                Some(_) => {}
                None => alive = true,
            }
            let twin_names = self.merged.draft.dialect.rel_twin_names;
            let open = twin_names && rela && !first && record.addend == 0 && !interned;
            if open && !self.merged.gets_addend(id, object, record) {
                interned = true;
                self.rel_twin(called, section);
            }
        }
        if alive {
            self.had_relocs.insert(section, ());
        }
        for (reloc, moved) in [(reloc, false), (moved_reloc, true)] {
            if let Some(reloc) = reloc {
                self.merged.draft.relocs[reloc].sources.push(RelocSource { moved, ..source });
            }
        }
    }

    /// The function that `record` speaks of, if that is dead.
    fn dead_function(
        &self,
        object: &Object<'d>,
        id: ObjectId,
        record: RelocEntry,
    ) -> Option<SymbolId> {
        if !object.symbol(record.symbol).is_function() {
            return None;
        }
        let function = self.symbols.of(id, record.symbol)?;
        self.graph.node(function).is_none().then_some(function)
    }
}
