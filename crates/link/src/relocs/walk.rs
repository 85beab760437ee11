//! The walk over the records of a relocation section, from the last to the first.
//!
//! In: the sources of an output section. Out: its kept records and patches. Each record is resolved
//! once: on the fast path if possible ([`crate::relocs::fast_path`]), else by
//! [`crate::relocs::resolution`].

use culd_cubin::arch::Flavour;
use culd_cubin::elf::sht;
use culd_cubin::{Malformed, RelocEntry};
use culd_reloc::RelocDesc;

use super::context::RelocContext;
use super::debug::ADDRESS;
use super::fast_path::FastResolution;
use super::kept::{KeptRelocs, KeptSection, OutRecord};
use super::patch::{FieldPatch, PatchMode};
use super::place::{InputRecords, PlaceContext};
use super::relocated::{AppliedSource, RecordedReloc, RelocatedSection, ResolvedSection};
use super::resolution::{AppliedRecord, KeptRecord, RecordedAs, Resolution};
use super::resolver::RelocResolver;
use super::{fast_path, mercury};
use crate::base::half::Half;
use crate::base::id::OutSymbolId;
use crate::diag::Message;
use crate::draft::relocs::{PatchedRange, RecordForm, RelocSection, RelocSource};
use crate::symbols::discarded::PatchedSection;

impl<'a, 'd> RelocResolver<'a, 'd> {
    /// Resolves all records of a relocation section of the output.
    pub(super) fn resolve_section(
        &self,
        reloc: &RelocSection,
    ) -> Result<ResolvedSection, Box<Message>> {
        // Many sections exist for their names only.
        if reloc.sources.is_empty() {
            return Ok(ResolvedSection::Nothing);
        }
        let place = self.context(reloc);
        let single = match &reloc.sources[..] {
            [source] => self.input_records(&place, source),
            _ => None,
        };
        let mut resolved = match single {
            Some(input) => match self.resolve_single(&place, &input)? {
                SingleSource::Unchanged(section) => return Ok(ResolvedSection::Whole(section)),
                SingleSource::Resolved(resolved) => resolved,
            },
            None => self.resolve_many(&place, &reloc.sources)?,
        };
        if self.rebuilt.is_lines(reloc.target) && self.half == Half::Sass {
            let headers = reloc.sources.iter();
            let headers = headers
                .map(|source| AppliedSource::new(source, self.header_patches(&place, source)));
            resolved.applied.extend(headers);
            resolved.kept.sort();
        }
        Ok(resolved.into())
    }

    /// Resolves the records of the only source of a section.
    fn resolve_single(
        &self,
        place: &PlaceContext,
        input: &InputRecords<'_, 'd>,
    ) -> Result<SingleSource, Box<Message>> {
        let Some(records) = input.kept_section() else {
            let kept = KeptRelocs::List(Vec::with_capacity(input.max_kept()));
            let mut resolved = RelocatedSection { kept, applied: Vec::new() };
            InputWalk::new(self, place, input, &mut resolved).resolve_all()?;
            return Ok(SingleSource::Resolved(resolved));
        };
        let exceptions = self.exceptions(place, input);
        if exceptions.is_empty()
            && !self.has_texture_loads(place)
            && let Some(unchanged) = records.unchanged()
        {
            return Ok(SingleSource::Unchanged(unchanged));
        }
        let kept = KeptRelocs::Section(records);
        let mut resolved = RelocatedSection { kept, applied: Vec::new() };
        InputWalk::new(self, place, input, &mut resolved).resolve_exceptions(exceptions)?;
        Ok(SingleSource::Resolved(resolved))
    }

    /// Resolves the records of several sources, the last source first.
    fn resolve_many(
        &self,
        place: &PlaceContext,
        sources: &[RelocSource],
    ) -> Result<RelocatedSection, Box<Message>> {
        let inputs = || sources.iter().rev().filter_map(|source| self.input_records(place, source));
        // Most records are kept.
        let most = inputs().map(|input| input.max_kept()).sum();
        let kept = KeptRelocs::List(Vec::with_capacity(most));
        let mut resolved = RelocatedSection { kept, applied: Vec::new() };
        for input in inputs() {
            InputWalk::new(self, place, &input, &mut resolved).resolve_all()?;
        }
        Ok(resolved)
    }

    /// The numbers of the records that are exceptions of [`KeptRelocs::Section`]; few are.
    fn exceptions(&self, place: &PlaceContext, input: &InputRecords<'_, 'd>) -> Vec<u32> {
        let size = place.size.saturating_sub(input.source.base(self.half));
        let records = input.section.relocations();
        let mut exceptions = Vec::new();
        if place.has_discarded_records {
            exceptions.extend(0..records.len() as u32);
            return exceptions;
        }
        let (symbols, mut number) = (input.fast_symbols, 0);
        records.iter().for_each(|record| {
            let span = fast_path::span(record.kind);
            let symbol = symbols.get(record.symbol.0 as usize).copied().flatten();
            let inside = record.offset.saturating_add(span) <= size;
            if span == 0 || !inside || symbol.is_none() {
                exceptions.push(number);
            } else {
                debug_assert!(self.is_kept_unchanged(place, input, record));
            }
            number += 1;
        });
        exceptions
    }

    /// Translates patches of Mercury code to its compressed bytes.
    fn compressed_patches(
        &self,
        place: &PlaceContext,
        source: &RelocSource,
        records: &[RelocEntry],
        patches: Vec<FieldPatch>,
    ) -> Result<Vec<FieldPatch>, Box<Message>> {
        let object = &self.objects[source.object];
        let counterpart =
            |index| object.counterparts.of(index).map(|counterpart| object.section(counterpart));
        let (Some(code), Some(capsule)) = (counterpart(source.section), counterpart(source.target))
        else {
            let what = "Mercury code without machine code";
            return Err(Box::new(Message::Internal { what }));
        };
        let Some(input) = self.input_records(place, source) else { return Ok(patches) };
        let resolved = |record: &RelocEntry| {
            let desc = culd_reloc::lookup(record.kind);
            if desc
                .is_some_and(|desc| fast_path::kept_symbol(place, &input, desc, record).is_some())
            {
                return false;
            }
            matches!(self.resolution_of(place, &input, *record), Resolution::Applied(_))
        };
        let code: Vec<RelocEntry> = code.relocations().iter().filter(resolved).collect();
        mercury::compressed_patches(capsule, &code, records, patches)
            .map_err(|defect| Message::malformed(object.name, defect))
            .map_err(Box::new)
    }

    /// The description of a relocation type. Without unified tables, a type for unified addresses
    /// means the plain one.
    fn desc_of(&self, kind: u32) -> Option<&'static RelocDesc> {
        let desc = culd_reloc::lookup(kind)?;
        let plain = || desc.unified.and_then(|plain| plain.desc()).unwrap_or(desc);
        Some(if self.unified { desc } else { plain() })
    }

    /// True if [`RelocResolver::texture_loads`] may find some.
    fn has_texture_loads(&self, place: &PlaceContext) -> bool {
        self.half == Half::Sass && place.is_code && self.slots.start_with_mercury().is_some()
    }

    /// Patches for loads of machine code from texture slots. In files with a Mercury half such
    /// loads have no record. They count from the first slot, which in machine code follows the
    /// largest parameter bank (case textures/in-registers).
    fn texture_loads(&self, input: &InputRecords<'_, 'd>) -> Result<Vec<FieldPatch>, Box<Message>> {
        let Some(base) = self.slots.start_with_mercury() else { return Ok(Vec::new()) };
        let InputRecords { source, object, .. } = *input;
        let Some(counterpart) = object.counterparts.of(source.target) else {
            return Ok(Vec::new());
        };
        let patches = mercury::texture_loads(
            object.section(counterpart),
            object.section(source.target),
            base,
        )
        .map_err(|defect| Message::malformed(object.name, defect))?;
        let at = |patch: FieldPatch| {
            Some(FieldPatch { offset: input.translate(patch.offset)?, ..patch })
        };
        Ok(patches.into_iter().filter_map(at).collect())
    }

    /// Patches for the unit headers in line tables of machine code, which are those of the Mercury
    /// half.
    fn header_patches(&self, place: &PlaceContext, source: &RelocSource) -> Vec<FieldPatch> {
        let mut patches = Vec::new();
        let input = self.input_records_in(place, source, source.section);
        for record in input.section.relocations().iter() {
            let Some(offset) = self.rebuilt.header(source.object, source.target, record.offset)
            else {
                continue;
            };
            let resolution = self.resolution_of(place, &input, record);
            if let Resolution::Applied(AppliedRecord { desc, value, .. }) = resolution {
                patches.push(FieldPatch { offset, desc, value, mode: PatchMode::Set });
            }
        }
        patches
    }

    /// True if `--preserve-relocs` lists an applied record. In files with a Mercury half it lists
    /// only records of code against shared variables (case preserve/records on sm_100).
    fn is_recorded(&self, place: &PlaceContext, symbol: Option<OutSymbolId>) -> bool {
        let draft = &self.merged.draft;
        let shared = || symbol.is_some_and(|symbol| draft.symbols[symbol].shared.is_some());
        draft.flavour == Flavour::Classic || place.is_code && shared()
    }
}

/// The result for a section with one source.
enum SingleSource {
    /// All records of this input section are kept, with their offsets.
    Unchanged(KeptSection),
    Resolved(RelocatedSection),
}

/// The walk over the records of one input section.
struct InputWalk<'w, 'a, 'd> {
    resolver: &'w RelocResolver<'a, 'd>,
    place: &'w PlaceContext,
    input: &'w InputRecords<'w, 'd>,
    /// The result for the output section so far.
    resolved: &'w mut RelocatedSection,
    applied: AppliedSource,
    /// Capacity for patches if all follow each other; 0 if records of the other form come in
    /// between, where reserving for all of them each time would be quadratic.
    room: usize,
    /// In Mercury code: the record of each patch, to find its place in the compressed bytes.
    patched: Vec<RelocEntry>,
}

/// A record of an input section, with its number.
#[derive(Clone, Copy)]
struct NumberedRecord {
    number: usize,
    record: RelocEntry,
}

impl<'w, 'a, 'd> InputWalk<'w, 'a, 'd> {
    fn new(
        resolver: &'w RelocResolver<'a, 'd>,
        place: &'w PlaceContext,
        input: &'w InputRecords<'w, 'd>,
        resolved: &'w mut RelocatedSection,
    ) -> Self {
        let applied = AppliedSource::new(input.source, Vec::new());
        InputWalk { resolver, place, input, resolved, applied, room: 0, patched: Vec::new() }
    }

    fn patch(&mut self, patch: FieldPatch) {
        if self.applied.patches.capacity() == 0 {
            self.applied.patches.reserve_exact(self.room);
        }
        self.applied.patches.push(patch);
    }

    /// Resolves all records, from last to first.
    fn resolve_all(mut self) -> Result<(), Box<Message>> {
        let InputRecords { source, section, .. } = *self.input;
        let records = section.relocations();
        self.room = self.room_for(records.len());
        // True if [`InputWalk::resolve`] would not skip any record.
        let plain = source.within == PatchedRange::WHOLE
            && section.sh_type == sht::RELA
            && source.form == RecordForm::AsInInput
            && !self.input.any_discarded;
        let numbers = (0..records.len()).rev();
        let mut all = numbers.zip(records.iter().rev());
        all.try_for_each(|(number, record)| {
            let record = NumberedRecord { number, record };
            if plain {
                let offset = self.input.translate(record.record.offset);
                return self.resolve_at(offset, record);
            }
            self.resolve(record)
        })?;
        self.finish()
    }

    /// Resolves the records with the numbers `exceptions`, from last to first.
    fn resolve_exceptions(mut self, exceptions: Vec<u32>) -> Result<(), Box<Message>> {
        let records = self.input.section.relocations();
        self.room = self.room_for(exceptions.len());
        for number in exceptions.into_iter().rev() {
            let number = number as usize;
            if let Some(record) = records.get(number) {
                self.resolve(NumberedRecord { number, record })?;
            }
        }
        self.finish()
    }

    /// The [`InputWalk::room`] for the patches of `records` records.
    fn room_for(&self, records: usize) -> usize {
        let one_form = self.input.section.sh_type != sht::REL;
        if one_form { records } else { 0 }
    }

    /// Adds the applied records to the result.
    fn finish(self) -> Result<(), Box<Message>> {
        let InputWalk { resolver, place, input, resolved, mut applied, patched, .. } = self;
        if !patched.is_empty() {
            let patches = std::mem::take(&mut applied.patches);
            applied.patches =
                resolver.compressed_patches(place, input.source, &patched, patches)?;
        }
        if resolver.has_texture_loads(place) {
            applied.patches.extend(resolver.texture_loads(input)?);
        }
        if !applied.patches.is_empty() || !applied.records.is_empty() {
            // Of many records, few may have been applied.
            applied.patches.shrink_to_fit();
            resolved.applied.push(applied);
        }
        Ok(())
    }

    /// Resolves one record, unless it is outside of the source, of the other form, or discarded.
    /// Records are visited from last to first.
    fn resolve(&mut self, record: NumberedRecord) -> Result<(), Box<Message>> {
        let InputRecords { source, object, section, any_discarded, .. } = *self.input;
        let RelocResolver { merged, discarded, symbols, .. } = *self.resolver;
        let NumberedRecord { number, record: entry } = record;
        if !source.within.contains(entry.offset) {
            return Ok(());
        }
        let gets_addend =
            section.sh_type == sht::REL && merged.gets_addend(source.object, object, entry);
        let form = if gets_addend { RecordForm::RelaOfRel } else { RecordForm::AsInInput };
        if form != source.form {
            // Records of the other form come in between.
            if !self.applied.patches.is_empty() {
                let rest = AppliedSource::new(source, Vec::new());
                let applied = std::mem::replace(&mut self.applied, rest);
                self.resolved.applied.push(AppliedSource { first: number + 1, ..applied });
            }
            return Ok(());
        }
        let patched = PatchedSection { id: source.object, object, target: source.target };
        if any_discarded && discarded.contains(symbols, patched, entry) {
            return Ok(());
        }
        let offset = self.input.translate(entry.offset);
        self.resolve_at(offset, record)
    }

    /// Resolves a record with its place at `offset` of the output section; `None` if that byte was
    /// dropped.
    fn resolve_at(
        &mut self,
        offset: Option<u64>,
        record: NumberedRecord,
    ) -> Result<(), Box<Message>> {
        let kept = match offset {
            None => None,
            Some(offset) => {
                match self.resolver.resolve_fast(self.place, self.input, offset, &record.record) {
                    FastResolution::Kept(kept) => Some(kept),
                    FastResolution::Dropped => None,
                    FastResolution::Undecided => self.resolve_slow(offset, record)?,
                }
            }
        };
        self.resolved.kept.note(record.number, kept);
        Ok(())
    }

    /// Resolves a record for which [`RelocResolver::resolve_fast`] has no answer; returns the kept
    /// record.
    fn resolve_slow(
        &mut self,
        offset: u64,
        NumberedRecord { number, record }: NumberedRecord,
    ) -> Result<Option<OutRecord>, Box<Message>> {
        let count = self.applied.patches.len();
        let kept = self.resolve_by_table(offset, record)?;
        if self.place.in_capsule && self.applied.patches.len() != count {
            if !self.place.is_code {
                let what = format!(
                    "Mercury code of a jump slot is compressed: a relocation of type {:#x} cannot be applied to it",
                    record.kind
                );
                let defect = Malformed::section(self.input.section.name, 24 * number as u64, what);
                let file = self.input.object.name.to_owned();
                return Err(Box::new(Message::Malformed { file, defect }));
            }
            self.patched.push(record);
        }
        Ok(kept)
    }

    /// Resolves a record by [`RelocResolver::resolution`]. Returns the kept record, if it is kept.
    /// Adds its patch, and the record of that patch, to the applied ones.
    fn resolve_by_table(
        &mut self,
        offset: u64,
        record: RelocEntry,
    ) -> Result<Option<OutRecord>, Box<Message>> {
        let (resolver, place, input) = (self.resolver, self.place, self.input);
        let desc = resolver.desc_of(record.kind);
        let in_place =
            input.section.sh_type == sht::REL && input.source.form == RecordForm::AsInInput;
        let mode = if in_place { PatchMode::Add } else { PatchMode::Set };
        let context = RelocContext { place, input, record, desc, mode };
        let resolution = resolver.resolution(&context);
        let applied = desc.filter(|desc| desc.is_applicable());
        let span = applied.map_or(1, |desc| desc.span_bytes() as u64);
        if !matches!(resolution, Resolution::Dropped | Resolution::Fatal(_))
            && offset.saturating_add(span) > place.size
        {
            // The literals of a replaced copy are gone.
            if place.is_emptied {
                return Ok(None);
            }
            return Err(context.bad("its place is not in the linked section"));
        }
        match resolution {
            Resolution::Dropped => Ok(None),
            Resolution::Fatal(problem) => Err(problem),
            Resolution::Kept(kept) => {
                if let Some((desc, value)) = kept.placeholder {
                    self.patch(FieldPatch { offset, desc, value, mode });
                }
                Ok(Some(self.kept_record(offset, record, kept)))
            }
            Resolution::Applied(applied) => {
                if let Some(overflow) = context.overflow(&applied) {
                    return Err(Box::new(overflow));
                }
                self.add_applied(offset, record, applied);
                Ok(None)
            }
        }
    }

    /// The kept form of `record`.
    fn kept_record(&self, offset: u64, record: RelocEntry, kept: KeptRecord) -> OutRecord {
        let KeptRecord { symbol, base, kind, .. } = kept;
        let (own_addend, kind) = match self.place.is_frames {
            true => {
                let object = self.input.object;
                (object.place_in_machine_code(record.symbol, record.addend), ADDRESS)
            }
            false => (record.addend, kind),
        };
        let addend = own_addend.wrapping_add_unsigned(base);
        // By 11.8 the types for unified addresses stay (testdata/cuda12/11.8-sm_60).
        let keeps_type = self.resolver.merged.draft.dialect.keeps_unified_types
            && culd_reloc::lookup(record.kind)
                .is_some_and(|desc| desc.unified.is_some_and(|plain| plain.0 == kind));
        let kind = if keeps_type { record.kind } else { kind };
        OutRecord { offset, symbol, kind, addend }
    }

    /// Adds the patch of an applied record, and the record that `--preserve-relocs` lists for it.
    fn add_applied(&mut self, offset: u64, record: RelocEntry, applied: AppliedRecord) {
        let AppliedRecord { desc, value, mode, recorded_as, base } = applied;
        self.patch(FieldPatch { offset, desc, value, mode });
        let symbol = match recorded_as {
            RecordedAs::Nothing => return,
            RecordedAs::Null => None,
            RecordedAs::Symbol(symbol) => Some(symbol),
        };
        if self.resolver.preserve && self.resolver.is_recorded(self.place, symbol) {
            let addend = record.addend.wrapping_add_unsigned(base);
            let record = OutRecord { offset, symbol, kind: desc.code.0, addend };
            let patches = self.applied.patches.len();
            let in_place = (mode == PatchMode::Add).then(|| patches - 1);
            self.applied.records.push(RecordedReloc { record, in_place });
        }
    }
}
