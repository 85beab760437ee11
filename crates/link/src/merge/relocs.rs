//! Merging, last step of a file: its relocation sections, in section order.
//!
//! This step only creates the names that they bring, and notes records about dead functions. The
//! records themselves are resolved when all places are known ([`crate::relocs`]).

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{shf, sht};
use culd_cubin::{RelocEntry, Section, SymbolIndex};

use super::Merger;
use super::banks::BankOffset;
use crate::base::derived_names::Prefix;
use crate::base::half::Half;
use crate::base::id::{NameId, ObjectId, RelocId, SectionId, SymbolId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SectionPlacement;
use crate::draft::relocs::{
    DeadReference, PatchedRange, RecordForm, RelocSection, RelocSource, ResolvedRelaSection,
};
use crate::objects::object::InputObject;
use crate::objects::outline::{MissingAddend, RelocSectionRef};
use crate::symbols::Fate;
use crate::symbols::discarded::PatchedSection;

/// First part of the name of a section of applied relocations; the name of the patched section
/// follows.
pub(crate) const RESOLVED: &[u8] = b".nv.resolvedrela";

/// Names of the output relocation sections for one input relocation section.
#[derive(Clone, Copy)]
struct RelocNames<'d> {
    /// The name of the patched section.
    patched: NameId,
    /// Prefix and bytes of the input section's name, if it ends with the name of the patched
    /// section.
    own: Option<(Prefix, &'d [u8])>,
}

impl<'d> Merger<'_, 'd> {
    pub(super) fn relocations(&mut self, id: ObjectId, object: &InputObject<'d>) {
        for &RelocSectionRef { section, target, missing_addend: missing } in
            &object.outline.reloc_sections
        {
            let input = object.section(section);
            let source = |base, mercury_base| RelocSource {
                object: id,
                section,
                target,
                base,
                mercury_base,
                within: PatchedRange::WHOLE,
                form: RecordForm::AsInInput,
            };
            if let SectionPlacement::At { section, base } = self.placement(id, target) {
                let mercury_base = self.merged.mercury_base(id, target, base);
                self.read(object, input, missing, source(base, mercury_base), section);
            } else if let Some(&at) = self.banks.offsets.get(&(id, target)) {
                let BankOffset { bank, offset: base } = at;
                // Literals of machine code have no relocations, and nvlink looks for none
                // (case literals/of-losers-86).
                if self.merged.draft.flavour == Flavour::Classic {
                    // Where names stay, that of a section with records stays (case
                    // dialects/literal-records-12-3). On sm_90, ptxas makes empty ones.
                    if !input.relocations().is_empty() {
                        self.merged.draft.add_lost_section_name(input.name);
                    }
                    continue;
                }
                if !input.relocations().is_empty() {
                    if self.preserve {
                        // Of the section of applied relocations of a function's literals, only the
                        // name remains (case preserve/literals).
                        let name = object.section(target).name;
                        let name = self.merged.draft.names.join(&[RESOLVED, name]);
                        self.merged.draft.intern_section_name(name);
                    }
                    // Literals of copies that lost are copied in one piece.
                    let lost = self.placement(id, target) == SectionPlacement::LosersLiterals;
                    let bank = &mut self.merged.banks[bank];
                    bank.sources.push(source(base, base));
                    let starts = object.literal_starts(target).filter(|_| !lost);
                    bank.literal_starts.extend(starts.map(|start| base + start).chain([base]));
                }
            } else {
                self.count_dead_relocations(id, object, input, target);
            }
        }
    }

    /// Discards the records that patch section `target`; returns true if there were any.
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

    /// The relocation section called `name` for `target`.
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
            // The first bank of that name may lose the name of its relocations
            // (case literals/replaced-tables).
            draft.intern_section_name_again(name);
        }
        let section = draft.add_section(name, SectionKind::Reloc, shf::INFO_LINK, 8);
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

    /// Creates the section of relocations applied to `target`, which comes with the first
    /// relocation section of `target`.
    fn resolved_section(&mut self, target: SectionId) {
        let draft = &mut self.merged.draft;
        let name = draft.names.prefixed(RESOLVED, draft.sections[target].name);
        // Local functions of one name share it (case local/kernels).
        if let Some(&at) = self.resolved_ids.get(&name) {
            let targets = &mut draft.resolved_relas[at].targets;
            if !targets.contains(&target) {
                targets.push(target);
            }
            // nvlink creates another one, which only takes an index (case preserve/local-kernels-75
            // behind many sections).
            draft.unlisted += 1;
            draft.local_strings.count(name);
            return;
        }
        let section = draft.add_section(name, SectionKind::Resolved, shf::INFO_LINK, 8);
        draft.sections[section].owner = Some(target);
        self.resolved_ids.insert(name, draft.resolved_relas.len());
        draft.resolved_relas.push(ResolvedRelaSection { section, targets: vec![target] });
    }

    /// The names of the relocation sections that `input` brings for output section `section`. Jump
    /// slots go into one section with another name.
    fn reloc_names(&mut self, input: &Section<'d>, section: SectionId) -> RelocNames<'d> {
        let draft = &mut self.merged.draft;
        let output = &draft.sections[section];
        let (front, bytes): (_, &[u8]) = match input.sh_type {
            sht::RELA => (Prefix::Rela, b".rela"),
            _ => (Prefix::Rel, b".rel"),
        };
        if output.kind == SectionKind::JumpSlots {
            return RelocNames { patched: output.name, own: None };
        }
        let own = Some((front, input.name));
        let name = draft.names.get(output.name);
        // Phase `objects` has checked that this is the prefix, followed by the name of the patched
        // section.
        let tail = input.name.strip_prefix(bytes).unwrap_or(input.name);
        let patched = if name == tail { output.name } else { draft.names.intern(tail) };
        RelocNames { patched, own }
    }

    /// The name of the relocation section with prefix `front`.
    fn reloc_name(&mut self, front: Prefix, of: RelocNames<'d>) -> NameId {
        let names = &mut self.merged.draft.names;
        match of.own {
            Some((own, name)) if own == front => names.derived_input(name, front, of.patched),
            _ => names.derived(front, of.patched),
        }
    }

    /// Creates the relocation sections that `input` brings, adds it to their sources, and notes the
    /// fields that its records clear.
    fn read(
        &mut self,
        object: &InputObject<'d>,
        input: &Section<'d>,
        missing: MissingAddend,
        source: RelocSource,
        section: SectionId,
    ) {
        let rela = input.sh_type == sht::RELA;
        if rela && self.graph.all_alive() && !self.discarded.any_in_object(source.object) {
            self.read_all_counting(object, input, missing, source, section);
        } else {
            self.read_records(object, input, source, section);
        }
    }

    /// Fast path for a RELA section without discarded records and without records about dead
    /// functions: a few facts decide which sections it brings. Without it: +4.2 % instructions on
    /// many1000.
    fn read_all_counting(
        &mut self,
        object: &InputObject<'d>,
        input: &Section<'d>,
        missing: MissingAddend,
        source: RelocSource,
        section: SectionId,
    ) {
        let records = input.relocations();
        if records.is_empty() {
            return;
        }
        let called = self.reloc_names(input, section);
        let name = self.reloc_name(Prefix::Rela, called);
        let reloc = self.reloc_section(name, sht::RELA, section);
        if self.merged.draft.dialect.leaves_rel_names {
            let id = source.object;
            let mut rest = records.iter().skip(1).filter(|record| record.addend == 0);
            let stays = |record| !self.merged.gets_addend(id, object, record);
            if missing == MissingAddend::Some
                || missing == MissingAddend::SectionSymbolsOnly && rest.any(stays)
            {
                self.empty_rel_section(called, section);
            }
        }
        self.had_relocs.insert(section, ());
        let sources = &mut self.merged.draft.relocs[reloc].sources;
        // Most sections have one source only, and empty ones none. With `push` alone: 1.9 % more
        // memory on many1000, because the first `push` makes room for four.
        match sources.is_empty() {
            true => *sources = vec![source],
            false => sources.push(source),
        }
    }

    /// Creates the empty REL section that nvlink creates if a RELA record that is not the first of
    /// its section has no addend, in the output either (cases headers-and-order/*,
    /// deadcode/functions).
    fn empty_rel_section(&mut self, called: RelocNames<'d>, section: SectionId) {
        let name = self.reloc_name(Prefix::Rel, called);
        self.reloc_section(name, sht::REL, section);
    }

    /// Walks the records. Fields of records about an accepted copy of a dead function are cleared
    /// later. A REL record that gets an addend goes into the RELA section
    /// (case relocations/rel-sections-90). Discarded records do not count.
    fn read_records(
        &mut self,
        object: &InputObject<'d>,
        input: &Section<'d>,
        source: RelocSource,
        section: SectionId,
    ) {
        let id = source.object;
        let rela = input.sh_type == sht::RELA;
        let called = self.reloc_names(input, section);
        let (mut same_form, mut rela_of_rel, mut has_empty_rel) = (None, None, false);
        let mut alive = false;
        let patched = PatchedSection { id, object, target: source.target };
        for record in input.relocations().iter() {
            if self.discarded.contains(self.symbols, patched, record) {
                continue;
            }
            let gets_addend = !rela && self.merged.gets_addend(id, object, record);
            let reloc = if gets_addend { &mut rela_of_rel } else { &mut same_form };
            let first = reloc.is_none();
            if first {
                let (front, sh_type) = match rela || gets_addend {
                    true => (Prefix::Rela, sht::RELA),
                    false => (Prefix::Rel, sht::REL),
                };
                let name = self.reloc_name(front, called);
                *reloc = Some(self.reloc_section(name, sh_type, section));
            }
            match self.dead_function(object, id, record) {
                Some(function) if self.clears(id, record.symbol) => {
                    let leading = Half::leading(self.merged.draft.flavour);
                    let (offset, kind) = (source.base(leading) + record.offset, record.kind);
                    let sass_offset = source.base(Half::Sass) + record.offset;
                    let clear =
                        DeadReference { section, offset, sass_offset, kind, object: id, function };
                    self.merged.draft.dead_references.push(clear);
                }
                Some(_) => {}
                None => alive = true,
            }
            let leaves_names = self.merged.draft.dialect.leaves_rel_names;
            let missing = leaves_names && rela && !first && record.addend == 0 && !has_empty_rel;
            if missing && !self.merged.gets_addend(id, object, record) {
                has_empty_rel = true;
                self.empty_rel_section(called, section);
            }
        }
        if alive {
            self.had_relocs.insert(section, ());
        }
        let relocs = [(same_form, RecordForm::AsInInput), (rela_of_rel, RecordForm::RelaOfRel)];
        for (reloc, form) in relocs {
            if let Some(reloc) = reloc {
                self.merged.draft.relocs[reloc].sources.push(RelocSource { form, ..source });
            }
        }
    }

    /// True if fields of records about `symbol`, a dead function, are cleared. For a copy that
    /// lost, only releases that keep such records do so.
    fn clears(&self, id: ObjectId, symbol: SymbolIndex) -> bool {
        let keeps = self.merged.draft.dialect.keeps_lost_addresses;
        self.symbols.fate(id, symbol).accepted()
            || keeps && self.symbols.fate(id, symbol) == Fate::Lost
    }

    /// The function that `record` names, if it is dead.
    fn dead_function(
        &self,
        object: &InputObject<'d>,
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
