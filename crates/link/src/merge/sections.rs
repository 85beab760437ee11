//! Merging: the places of input sections.

use culd_cubin::{Section, SectionIndex};

use super::Merger;
use super::banks::{InputBank, looked_up};
use super::unlisted::UnlistedSection;
use crate::base::derived_names::Prefix;
use crate::base::half::HalfBytes;
use crate::base::id::ObjectId;
use crate::draft::kind::SectionKind;
use crate::draft::merged::SectionPlacement;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;

impl<'d> Merger<'_, 'd> {
    /// Places a data section in its output section, once. Returns [`SectionPlacement::Dropped`] if
    /// it belongs to a function that is not in the output.
    pub(super) fn place(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        index: SectionIndex,
    ) -> SectionPlacement {
        let before = self.placement(id, index);
        if before != SectionPlacement::Dropped {
            return before;
        }
        let input = object.section(index);
        let placed = match (object.role(index), input.info_section()) {
            (SectionRole::Constant(number), Some(text)) => {
                self.owned_bank(InputBank { id, object, index, number }, text)
            }
            (SectionRole::Constant(bank), None) => {
                let placed = self.append(SectionKind::Constant(bank), input, &[]);
                if let SectionPlacement::At { base, .. } = placed
                    && self.selecting
                    && bank == 3
                    && self.merged.draft.dialect.looks_constants_up
                    && looked_up(input)
                {
                    self.merged.draft.null_value = Some(base);
                }
                placed
            }
            (SectionRole::Global, _) => self.append(SectionKind::Global, input, &[]),
            (SectionRole::GlobalInit, _) => self.append(SectionKind::GlobalInit, input, &[]),
            (SectionRole::UnifiedData, _) => {
                self.append(SectionKind::UnifiedData, input, object.counterpart_data(index))
            }
            (SectionRole::ReservedShared, _) => {
                self.append(SectionKind::ReservedShared, input, &[])
            }
            (SectionRole::PoolShared, _) => {
                SectionPlacement::At { section: self.shared_pool(), base: 0 }
            }
            (SectionRole::OwnShared, Some(text)) => self.own_shared(id, object, text, input),
            _ => SectionPlacement::Dropped,
        };
        self.set_placement(id, index, placed);
        placed
    }

    /// Appends a section to the output section of the same name.
    fn append(
        &mut self,
        kind: SectionKind,
        input: &Section<'d>,
        mercury: &'d [u8],
    ) -> SectionPlacement {
        let name = self.merged.draft.names.intern(input.name);
        let section = self.find(name).unwrap_or_else(|| self.create(name, kind, input.flags, 1));
        let output = &mut self.merged.draft.sections[section];
        output.align = output.align.max(input.align());
        let base = output.append_halves(
            HalfBytes { sass: input.data, mercury },
            input.size,
            input.align(),
        );
        SectionPlacement::At { section, base }
    }

    /// Places the shared memory of an entry in a section that exists already; copies that lost
    /// share it.
    fn own_shared(
        &mut self,
        id: ObjectId,
        object: &InputObject<'d>,
        text: SectionIndex,
        input: &Section<'d>,
    ) -> SectionPlacement {
        let function = match self.placement(id, text) {
            SectionPlacement::At { section, .. } => self.merged.draft.sections[section].function,
            SectionPlacement::Lost(function) => Some(function),
            _ => None,
        };
        let Some(function) = function else {
            // The section of a kernel that is left out leaves its name behind.
            let name = self.merged.draft.names.intern(input.name);
            self.merged.draft.intern_section_name(name);
            self.count_of_dead(id, object, text, UnlistedSection::Shared);
            return SectionPlacement::Dropped;
        };
        let name = self.merged.draft.symbols[function].name;
        let name = self.merged.draft.names.derived(Prefix::Shared, name);
        let section = self.find(name).or_else(|| {
            // A kernel that was not selected gets its section now.
            let code = self.merged.draft.symbols[function].section?;
            Some(self.shared_section(name, code))
        });
        section
            .map_or(SectionPlacement::Dropped, |section| SectionPlacement::At { section, base: 0 })
    }

    /// Appends debug sections to each other; merges banks and variables that no symbol named, and
    /// sections of unified functions and variables.
    pub(super) fn remaining_sections(&mut self, id: ObjectId, object: &InputObject<'d>) {
        for &index in &object.outline.unnamed {
            let input = object.section(index);
            match object.role(index) {
                SectionRole::Debug => {
                    let name = self.merged.draft.names.intern(input.name);
                    let section = self
                        .find(name)
                        .unwrap_or_else(|| self.create(name, SectionKind::Debug, 0, input.align()));
                    let output = &mut self.merged.draft.sections[section];
                    output.align = output.align.max(input.align());
                    let mercury_base = output.mercury_size;
                    let (sass, mercury) = (input.data, object.counterpart_data(index));
                    let halves = HalfBytes { sass, mercury };
                    let base = output.append_halves(halves, input.size, 1);
                    self.set_mercury_base(id, index, mercury_base);
                    self.set_placement(id, index, SectionPlacement::At { section, base });
                }
                SectionRole::Index => self.index_file(input),
                SectionRole::FunctionIds | SectionRole::VariableIds => {
                    self.entries(id, object, index)
                }
                SectionRole::Constant(_) | SectionRole::GlobalInit | SectionRole::UnifiedData => {
                    match self.place(id, object, index) {
                        SectionPlacement::LosersLiterals => self.lost_literals(id, object, index),
                        SectionPlacement::Dropped => self.name_dead_loser(id, object, index),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }
}
