//! Merging: sections that are in no file but take an index.
//!
//! nvlink creates the sections of dead functions, and the banks of functions that are no entries,
//! like all others and removes them later. They only show in the creation indices of all later
//! sections (docs/LINKING.md, large programs).

use culd_cubin::elf::sht;
use culd_cubin::{Section, SectionIndex};

use super::Merger;
use crate::base::id::{ObjectId, SymbolId};
use crate::draft::merged::SectionPlacement;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;

/// A section of a dead function. Copies in several files share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum UnlistedSection {
    Code,
    Attributes,
    Shared,
    Bank(u8),
    /// Relocations of the code, or of a bank.
    Relocations {
        bank: Option<u8>,
        rela: bool,
    },
}

/// A copy of a dead function.
#[derive(Debug, Clone, Copy)]
struct DeadCopy {
    function: SymbolId,
    /// The first one, or one that replaced the copy before.
    accepted: bool,
}

impl<'d> Merger<'_, 'd> {
    /// Counts the sections that a dead function brings in the functions step.
    pub(super) fn count_dead(&mut self, function: SymbolId, entry: bool) {
        self.count(function, UnlistedSection::Code);
        if entry {
            self.count(function, UnlistedSection::Attributes);
            self.count(function, UnlistedSection::Shared);
        }
    }

    /// Counts the section `kind` of code `text` if that code is dead: its attributes, or the shared
    /// memory of a kernel that is left out.
    pub(super) fn count_of_dead(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        text: SectionIndex,
        kind: UnlistedSection,
    ) {
        if let Some(function) = self.dead_function_of(id, object, text) {
            self.count(function, kind);
        }
    }

    /// Counts a bank of code `text` if that code is dead. A parameter bank brings a section for
    /// relocations of texture slots.
    pub(super) fn count_dead_bank(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        text: SectionIndex,
        bank: u8,
    ) {
        let Some(function) = self.dead_function_of(id, object, text) else { return };
        self.count(function, UnlistedSection::Bank(bank));
        if bank == 0 {
            self.count(function, UnlistedSection::Relocations { bank: Some(0), rela: false });
        }
    }

    /// Counts relocation section `input`, which patches `target`, if `target` is code or a bank of
    /// a dead function.
    pub(super) fn count_dead_relocations(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        input: &Section<'d>,
        target: SectionIndex,
    ) {
        let (text, bank) = match object.role(target) {
            SectionRole::Text => (Some(target), None),
            SectionRole::Constant(bank) => (object.section(target).info_section(), Some(bank)),
            _ => return,
        };
        let dead = text.and_then(|text| self.dead_function_of(id, object, text));
        let Some(function) = dead else { return };
        let records = input.relocations();
        if records.is_empty() {
            return;
        }
        let rela = input.sh_type == sht::RELA;
        self.count(function, UnlistedSection::Relocations { bank, rela });
        // The same REL section as for a live function.
        if rela && records.iter().skip(1).any(|record| record.addend == 0) {
            self.count(function, UnlistedSection::Relocations { bank, rela: false });
        }
    }

    /// The dead function with the accepted copy `text`.
    fn dead_function_of(
        &self,
        id: ObjectId,
        object: &InputObject<'d>,
        text: SectionIndex,
    ) -> Option<SymbolId> {
        self.dead_copy(id, object, text).filter(|copy| copy.accepted).map(|copy| copy.function)
    }

    /// The dead function whose copy in this file, with the bank `bank`, lost to one that was met
    /// before.
    fn dead_loser(
        &self,
        id: ObjectId,
        object: &InputObject<'d>,
        bank: SectionIndex,
    ) -> Option<SymbolId> {
        let copy = self.dead_copy(id, object, object.section(bank).info_section()?)?;
        (!copy.accepted).then_some(copy.function)
    }

    fn dead_copy(
        &self,
        id: ObjectId,
        object: &InputObject<'d>,
        text: SectionIndex,
    ) -> Option<DeadCopy> {
        let index = object.code_function(text)?;
        let function = self.symbols.of(id, index)?;
        let accepted = self.symbols.fate(id, index).accepted();
        self.graph.node(function).is_none().then_some(DeadCopy { function, accepted })
    }

    /// True for literals in `bank` of which releases with one list of names keep no name: those of
    /// copies that lost.
    pub(super) fn are_nameless(
        &self,
        id: ObjectId,
        object: &InputObject<'d>,
        bank: SectionIndex,
        placed: SectionPlacement,
    ) -> bool {
        placed == SectionPlacement::LosersLiterals || self.dead_loser(id, object, bank).is_some()
    }

    /// Adds the name of the bank of a dead function's copy that lost. Releases with one list of
    /// names meet it with the sections that no symbol names, as that of a live function (generated
    /// program 66 by 12.3).
    pub(super) fn name_dead_loser(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        bank: SectionIndex,
    ) {
        let SectionRole::Constant(number @ 1..) = object.role(bank) else { return };
        if self.merged.draft.dialect.has_three_lists {
            return;
        }
        let Some(function) = self.dead_loser(id, object, bank) else { return };
        if self.counted.insert((function, UnlistedSection::Bank(number))) {
            self.name_dead(function, UnlistedSection::Bank(number));
        }
    }

    fn count(&mut self, function: SymbolId, section: UnlistedSection) {
        if self.counted.insert((function, section)) {
            self.merged.draft.unlisted += 1;
            if !self.merged.draft.dialect.has_three_lists {
                self.name_dead(function, section);
            }
        }
    }

    /// Adds the name of a section of a dead function to both string tables: releases with one list
    /// of names look for dead functions after merging.
    fn name_dead(&mut self, function: SymbolId, section: UnlistedSection) {
        let draft = &mut self.merged.draft;
        let own = draft.names.get(self.symbols.all[function].name).to_vec();
        let bank_name = |bank: u8| format!(".nv.constant{bank}.").into_bytes();
        let prefix = match section {
            UnlistedSection::Code => b".text.".to_vec(),
            UnlistedSection::Attributes => b".nv.info.".to_vec(),
            UnlistedSection::Shared => b".nv.shared.".to_vec(),
            UnlistedSection::Bank(bank) => bank_name(bank),
            UnlistedSection::Relocations { bank, rela } => {
                let front: &[u8] = if rela { b".rela" } else { b".rel" };
                let of = bank.map_or_else(|| b".text.".to_vec(), bank_name);
                [front, &of].concat()
            }
        };
        let name = draft.names.join(&[&prefix, &own]);
        if section == UnlistedSection::Bank(0) {
            // As for live kernels, the relocations come first in one table.
            let relocations = draft.names.join(&[b".rel", &prefix, &own]);
            draft.local_strings.add(relocations);
        }
        draft.intern_section_name(name);
    }
}
