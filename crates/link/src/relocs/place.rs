//! The places of records: what all records of an output section share, and what those of one of its
//! input sections share.
//!
//! In: the draft. Out: [`PlaceContext`], [`InputRecords`], and the offset of a record's bytes in
//! the output section. Guaranteed: nothing here depends on a record's type or symbol.

use culd_cubin::elf::sht;
use culd_cubin::{Section, SectionIndex, SymbolIndex};

use super::kept::{self, FastSymbol, KeptSection};
use super::resolver::RelocResolver;
use crate::base::half::Half;
use crate::base::id::{NodeId, SectionId};
use crate::draft::jump_slots;
use crate::draft::kind::SectionKind;
use crate::draft::offset_map::{self, MovedRange};
use crate::draft::relocs::{PatchedRange, RelocSection, RelocSource};
use crate::objects::object::InputObject;
use crate::options::dialect::Dialect;
use crate::symbols::discarded::is_line_table;

/// Facts that all records of an output relocation section share.
pub(super) struct PlaceContext {
    pub(super) target: SectionId,
    /// The function, if the section is code.
    pub(super) function: Option<NodeId>,
    /// The section is a table of code addresses, and some records against lost copies are
    /// discarded.
    pub(super) has_discarded_records: bool,
    pub(super) is_constant: bool,
    /// The section is code.
    pub(super) is_code: bool,
    /// The section is Mercury code, which is compressed; the table of jump slots is such a section.
    pub(super) in_capsule: bool,
    /// The section is `.debug_frame` of machine code, whose records are derived from those of the
    /// Mercury half.
    pub(super) is_frames: bool,
    /// The section is a bank of literals; its bytes may be gone, because the copy they belong to
    /// was replaced.
    pub(super) is_emptied: bool,
    /// Limit for offsets in the section, bytes. Offsets in Mercury code count before compression;
    /// phase `objects` has checked them.
    pub(super) size: u64,
}

/// The records of an input section, with their shared facts.
pub(super) struct InputRecords<'a, 'd> {
    pub(super) source: &'a RelocSource,
    pub(super) object: &'a InputObject<'d>,
    /// The relocation section.
    pub(super) section: &'a Section<'d>,
    index: SectionIndex,
    /// Some definition of the file lost, so some records may be discarded.
    pub(super) any_discarded: bool,
    /// The fast symbols of the file.
    pub(super) fast_symbols: &'a [FastSymbol],
    offsets: OffsetMapping<'a>,
}

/// How offsets in an input section translate to offsets in the output section.
#[derive(Clone, Copy)]
enum OffsetMapping<'a> {
    /// The output section is rebuilt from ranges of the input section.
    Rebuilt(&'a [MovedRange]),
    /// The input section starts at byte `base` of the output section, whose ranges may have moved
    /// afterwards.
    At { base: u64, moves: &'a [MovedRange] },
    /// As `At`, in the Mercury half's table of jump slots.
    Slots { base: u64, moves: &'a [MovedRange], dialect: &'static Dialect },
}

impl InputRecords<'_, '_> {
    /// The most records that can be kept, for a capacity; 0 if the source is only a part of a
    /// section, because many sources may share one section.
    pub(super) fn max_kept(&self) -> usize {
        if self.source.within == PatchedRange::WHOLE { self.section.relocations().len() } else { 0 }
    }

    /// All records of the section, if a kept record changes in offset and symbol only.
    pub(super) fn kept_section(&self) -> Option<kept::KeptSectionRecords> {
        let OffsetMapping::At { base, moves: [] } = self.offsets else { return None };
        let whole = self.source.within == PatchedRange::WHOLE && self.section.sh_type == sht::RELA;
        let whole = whole && !self.any_discarded;
        let total = u32::try_from(self.section.relocations().len()).ok().filter(|_| whole)?;
        let whole = KeptSection::new(self.source.object, self.index, total);
        Some(kept::KeptSectionRecords::new(whole, base))
    }

    /// The offset in the output section for byte `offset` of the input section; `None` if that byte
    /// is dropped.
    pub(super) fn translate(&self, offset: u64) -> Option<u64> {
        match self.offsets {
            OffsetMapping::At { base, moves: [] } => Some(base + offset),
            OffsetMapping::Rebuilt(ranges) => offset_map::translate(ranges, offset),
            OffsetMapping::At { base, moves } => {
                Some(offset_map::translate_between(moves, base + offset))
            }
            OffsetMapping::Slots { base, moves, dialect } => Some(jump_slots::mercury_place(
                offset_map::translate_between(moves, base + offset),
                dialect,
            )),
        }
    }

    /// The fast symbol for a symbol of the file.
    pub(super) fn fast_symbol(&self, symbol: SymbolIndex) -> FastSymbol {
        self.fast_symbols.get(symbol.0 as usize).copied().flatten()
    }
}

impl<'a, 'd> RelocResolver<'a, 'd> {
    pub(super) fn context(&self, reloc: &RelocSection) -> PlaceContext {
        let draft = &self.merged.draft;
        let section = &draft.sections[reloc.target];
        let program = section.function.and_then(|out| draft.symbols[out].program);
        let in_capsule = self.half == Half::Mercury
            && matches!(section.kind, SectionKind::Text | SectionKind::JumpSlots);
        PlaceContext {
            function: program.and_then(|program| self.graph.node(program)),
            target: reloc.target,
            has_discarded_records: section.kind == SectionKind::Debug
                && !(self.merged.discarded_debug.is_empty()
                    && self.merged.discarded_rel.is_empty())
                && is_line_table(draft.names.get(section.name)),
            is_constant: matches!(section.kind, SectionKind::Constant(_)),
            is_code: section.kind == SectionKind::Text,
            in_capsule,
            is_frames: self.half == Half::Sass && self.rebuilt.is_frames(reloc.target),
            is_emptied: section.emptied,
            size: if in_capsule { u64::MAX } else { self.size(reloc.target) },
        }
    }

    /// Bytes of an output section in this half.
    pub(super) fn size(&self, section: SectionId) -> u64 {
        let rebuilt = self.rebuilt.size(section).filter(|_| self.half == Half::Sass);
        rebuilt.unwrap_or_else(|| self.merged.draft.sections[section].size_in(self.half))
    }

    /// The records of `source` in this half; `None` if only the other half has some.
    pub(super) fn input_records<'s>(
        &self,
        place: &PlaceContext,
        source: &'s RelocSource,
    ) -> Option<InputRecords<'s, 'd>>
    where
        'a: 's,
    {
        let is_leading = self.half == Half::leading(self.merged.draft.flavour);
        let section = match is_leading || place.is_frames {
            true => source.section,
            false => self.objects[source.object].counterparts.of(source.section)?,
        };
        Some(self.input_records_in(place, source, section))
    }

    /// The records in relocation section `section` for the patched section of `source`.
    pub(super) fn input_records_in<'s>(
        &self,
        place: &PlaceContext,
        source: &'s RelocSource,
        section: SectionIndex,
    ) -> InputRecords<'s, 'd>
    where
        'a: 's,
    {
        let object = &self.objects[source.object];
        InputRecords {
            source,
            object,
            section: object.section(section),
            index: section,
            any_discarded: self.discarded.any_in_object(source.object),
            fast_symbols: &self.fast_symbols[source.object],
            offsets: self.offset_mapping(place, source),
        }
    }

    /// How offsets in the patched section of `source` translate.
    fn offset_mapping(&self, place: &PlaceContext, source: &RelocSource) -> OffsetMapping<'a> {
        if self.half == Half::Sass && self.rebuilt.contains(place.target) {
            return OffsetMapping::Rebuilt(self.rebuilt.copied(source.object, source.target));
        }
        let moves = self.merged.constant_offsets.moves(place.target);
        let base = source.base(self.half);
        let is_slot = self.merged.draft.sections[place.target].kind == SectionKind::JumpSlots;
        match is_slot && self.half == Half::Mercury && !self.relocatable() {
            true => OffsetMapping::Slots { base, moves, dialect: self.merged.draft.dialect },
            false => OffsetMapping::At { base, moves },
        }
    }
}
