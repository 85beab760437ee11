//! Where records lie: what all records of an output section share, and all those of an input section that goes into it.
//!
//! In: the draft. Out: [`PlaceContext`], [`Origin`], and the place of a record's bytes in the output section.
//! Guaranteed: nothing here looks at a record's type or symbol.

use culd_cubin::elf::sht;
use culd_cubin::{Section, SectionIndex, SymbolIndex};

use super::Resolver;
use super::kept::{self, Whole};
use super::usual::Usual;
use crate::Dialect;
use crate::capsule::Half;
use crate::capsule::rebuilt::{self, Piece};
use crate::capsule::slots;
use crate::draft::{ALL, Kind, RelocSection, RelocSource};
use crate::id::{NodeId, SectionId};
use crate::moved::{self, Move};
use crate::objects::Object;
use crate::void::is_line_table;

/// What all records of one relocation section share.
pub(super) struct PlaceContext {
    pub(super) target: SectionId,
    /// The function whose code is patched.
    pub(super) function: Option<NodeId>,
    /// The section is a table of code addresses, whose records about lost copies are void, and there are some.
    pub(super) has_void_records: bool,
    pub(super) is_constant: bool,
    /// The section is code.
    pub(super) is_code: bool,
    /// Mercury code, which is compressed, that of jump slots too.
    pub(super) in_capsule: bool,
    /// The section is `.debug_frame` of machine code, whose records are made of Mercury's.
    pub(super) is_frames: bool,
    /// The section is a literal bank whose bytes may be gone, because the copy that they are of was replaced.
    pub(super) is_emptied: bool,
    /// Bytes that places in the section may have. Those in Mercury code count before compression; phase `objects` has
    /// checked them.
    pub(super) size: u64,
}

/// The records of an input section, and what they share.
pub(super) struct Origin<'a, 'd> {
    pub(super) source: &'a RelocSource,
    pub(super) object: &'a Object<'d>,
    /// What has the records.
    pub(super) section: &'a Section<'d>,
    index: SectionIndex,
    /// Some definition of the file lost, so that some records may be void.
    pub(super) any_void: bool,
    /// What symbols of the file usually are.
    pub(super) symbols: &'a [Usual],
    places: Places<'a>,
}

/// How places in an input section become places in the output section.
#[derive(Clone, Copy)]
enum Places<'a> {
    /// The output section is put together of pieces of it.
    Rebuilt(&'a [Piece]),
    /// It starts at byte `base` of the output section, whose bytes may have been moved then.
    At { base: u64, moves: &'a [Move] },
    /// The same in Mercury's table of jump slots.
    Slots { base: u64, moves: &'a [Move], dialect: &'static Dialect },
}

impl Origin<'_, '_> {
    /// How many records there are at most, where their number is of use: several sources may stand for parts of one
    /// section.
    pub(super) fn most(&self) -> usize {
        if self.source.within == ALL { self.section.relocations().len() } else { 0 }
    }

    /// Its records, if all that become of them is another place and symbol.
    pub(super) fn whole(&self) -> Option<kept::Source> {
        let Places::At { base, moves: [] } = self.places else { return None };
        let whole = self.source.within == ALL && self.section.sh_type == sht::RELA;
        let whole = whole && !self.any_void;
        let total = u32::try_from(self.section.relocations().len()).ok().filter(|_| whole)?;
        let whole = Whole::new(self.source.object, self.index, total);
        Some(kept::Source::new(whole, base))
    }

    /// Where byte `offset` of a file's section is in the output section; `None` where that part is left out.
    #[inline]
    pub(super) fn place(&self, offset: u64) -> Option<u64> {
        match self.places {
            Places::At { base, moves: [] } => Some(base + offset),
            Places::Rebuilt(pieces) => rebuilt::moved(pieces, offset),
            Places::At { base, moves } => Some(moved::moved(moves, base + offset)),
            Places::Slots { base, moves, dialect } => {
                Some(slots::mercury_place(moved::moved(moves, base + offset), dialect))
            }
        }
    }

    /// The same where most places are asked for in their order.
    #[inline]
    pub(super) fn place_from(&self, cursor: &mut rebuilt::Cursor, offset: u64) -> Option<u64> {
        match self.places {
            Places::Rebuilt(pieces) => cursor.moved(pieces, offset),
            _ => self.place(offset),
        }
    }

    /// What a symbol of the file usually is.
    pub(super) fn usual(&self, symbol: SymbolIndex) -> Usual {
        self.symbols.get(symbol.0 as usize).copied().flatten()
    }
}

impl<'a, 'd> Resolver<'a, 'd> {
    pub(super) fn context(&self, reloc: &RelocSection) -> PlaceContext {
        let draft = &self.merged.draft;
        let section = &draft.sections[reloc.target];
        let program = section.function.and_then(|out| draft.symbols[out].program);
        let in_capsule =
            self.half == Half::Mercury && matches!(section.kind, Kind::Text | Kind::JumpSlots);
        PlaceContext {
            function: program.and_then(|program| self.graph.node(program)),
            target: reloc.target,
            has_void_records: section.kind == Kind::Debug
                && !(self.merged.void_debug.is_empty() && self.merged.void_rel.is_empty())
                && is_line_table(draft.names.get(section.name)),
            is_constant: matches!(section.kind, Kind::Constant(_)),
            is_code: section.kind == Kind::Text,
            in_capsule,
            is_frames: self.half == Half::Sass && self.rebuilt.is_frames(reloc.target),
            is_emptied: section.emptied,
            size: if in_capsule { u64::MAX } else { self.size(reloc.target) },
        }
    }

    /// Bytes of a section of the output in this half.
    pub(super) fn size(&self, section: SectionId) -> u64 {
        let rebuilt = self.rebuilt.size(section).filter(|_| self.half == Half::Sass);
        rebuilt.unwrap_or_else(|| self.merged.draft.sections[section].size_in(self.half))
    }

    /// The records of this half that `source` stands for; none where only the other half has some.
    pub(super) fn origin<'s>(
        &self,
        place: &PlaceContext,
        source: &'s RelocSource,
    ) -> Option<Origin<'s, 'd>>
    where
        'a: 's,
    {
        let shown = self.half == Half::shown(self.merged.draft.flavour);
        let section = match shown || place.is_frames {
            true => source.section,
            false => self.objects[source.object].twins.of(source.section)?,
        };
        Some(self.origin_in(place, source, section))
    }

    /// The records in `section` for what `source` stands for.
    pub(super) fn origin_in<'s>(
        &self,
        place: &PlaceContext,
        source: &'s RelocSource,
        section: SectionIndex,
    ) -> Origin<'s, 'd>
    where
        'a: 's,
    {
        let object = &self.objects[source.object];
        Origin {
            source,
            object,
            section: object.section(section),
            index: section,
            any_void: self.void.any_in(source.object),
            symbols: &self.usual[source.object],
            places: self.places(place, source),
        }
    }

    fn places(&self, place: &PlaceContext, source: &RelocSource) -> Places<'a> {
        if self.half == Half::Sass && self.rebuilt.contains(place.target) {
            return Places::Rebuilt(self.rebuilt.pieces(source.object, source.target));
        }
        let moves = self.merged.moved.moves(place.target);
        let base = source.base(self.half);
        let is_slot = self.merged.draft.sections[place.target].kind == Kind::JumpSlots;
        match is_slot && self.half == Half::Mercury && !self.relocatable() {
            true => Places::Slots { base, moves, dialect: self.merged.draft.dialect },
            false => Places::At { base, moves },
        }
    }
}
