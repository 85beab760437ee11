//! Phase `relocations`: every relocation resolved to bits of the output, or kept for the driver.
//!
//! In: everything placed. Out: [`Relocated`]: per relocation section the records that stay, and
//! per section the patches. Guaranteed: every patch lies inside its section.
//!
//! Resolved: constants, shared variables, sections without addresses. Kept: functions, global
//! variables, what is undefined, and types that only the driver can apply. Records come out last
//! read first, as nvlink prepends them. What a single record comes to is told in [`outcome`].

mod kept;
mod outcome;
mod place;
mod usual;

use std::cmp::Reverse;
use std::sync::Arc;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::sht;
use culd_cubin::{Malformed, RelocEntry, SectionIndex};
use culd_reloc::{Observed, RelocDesc, Value};

use hashbrown::HashMap;

use crate::Session;
use crate::callgraph::CallGraph;
use crate::capsule::code;
use crate::capsule::rebuilt::{ADDRESS, Cursor, Rebuilt};
use crate::capsule::{Half, Halves};
use crate::diag::Message;
use crate::draft::{ALL, Draft, Kind, RelocSection, RelocSource};
use crate::id::{Id, IdMap, IdVec, ObjectId, OutSymbolId, RelocId, SectionId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::program::Placed;
use crate::shared::SharedLayout;
use crate::symbols::Symbols;
use crate::textures::TextureSlots;
use crate::void::VoidRecords;

pub(crate) use self::kept::Kept;
use self::kept::{Records, Whole};
use self::outcome::{Named, Outcome, Patched, Query, Stays};
use self::place::{Origin, PlaceContext};

/// Bits to be written into an output section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patch {
    /// Offset in the output section, bytes.
    pub(crate) offset: u64,
    pub(crate) row: &'static RelocDesc,
    pub(crate) value: Value,
    pub(crate) write: Write,
}

/// How a patch changes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// The record carries the addend (RELA).
    Set,
    /// The addend is in the place (REL).
    Add,
    /// The function that the place speaks of is dead.
    Clear,
}

impl Patch {
    /// Writes the bits into the bytes of the output section.
    pub(crate) fn apply(&self, bytes: &mut [u8]) {
        let offset = self.offset as usize;
        let done = match self.write {
            Write::Set => self.row.apply(bytes, offset, self.value),
            Write::Add => self.row.add(bytes, offset, self.value),
            Write::Clear => self.row.clear(bytes, offset),
        };
        done.expect("type and place of every patch are checked when it is made");
    }

    /// The bits of its first field, as they are.
    fn held(&self, bytes: &[u8]) -> u64 {
        let held = self.row.first_field(bytes, self.offset as usize);
        held.expect("type and place of every patch are checked when it is made")
    }
}

/// The result for one relocation section. There are many, and few are more than a name for records of the inputs.
#[derive(Debug)]
pub(crate) enum Resolved {
    Nothing,
    /// All records of an input section stay, at the places that they have there.
    Whole(Whole),
    Mixed(Box<Mixed>),
}

/// Records that stay, and what is applied.
#[derive(Debug, Default)]
pub(crate) struct Mixed {
    kept: Records,
    /// By input section, last first.
    applied: Vec<Applied>,
}

impl Resolved {
    /// How many records stay.
    pub(crate) fn count(&self) -> usize {
        match self {
            Resolved::Nothing => 0,
            Resolved::Whole(whole) => whole.len(),
            Resolved::Mixed(mixed) => mixed.kept.len(),
        }
    }

    fn applied(&self) -> &[Applied] {
        match self {
            Resolved::Mixed(mixed) => &mixed.applied,
            _ => &[],
        }
    }

    fn applied_mut(&mut self) -> &mut [Applied] {
        match self {
            Resolved::Mixed(mixed) => &mut mixed.applied,
            _ => &mut [],
        }
    }
}

impl From<Mixed> for Resolved {
    fn from(mixed: Mixed) -> Self {
        match mixed.kept.unchanged() {
            Some(whole) if mixed.applied.is_empty() => Resolved::Whole(whole),
            _ => Resolved::Mixed(Box::new(mixed)),
        }
    }
}

/// What is applied of one input relocation section.
#[derive(Debug)]
struct Applied {
    object: ObjectId,
    section: SectionIndex,
    /// Its first record: 0, unless some records of the section are REL and others RELA in the output.
    first: usize,
    patches: Vec<Patch>,
    /// With `--preserve-relocs`: the records that tell of patches.
    records: Vec<Told>,
}

/// An input section while its records are resolved.
struct Part<'r> {
    resolved: &'r mut Mixed,
    applied: Applied,
    /// How many patches there can be, where they come one after the other; 0 where records of the other pass are between
    /// them: room for all of them each time would be quadratic.
    room: usize,
    /// In Mercury code, whose places have to be found: the records that the patches are of.
    patched: Vec<RelocEntry>,
}

/// A record that tells what was applied.
#[derive(Debug)]
struct Told {
    record: Kept,
    /// For a REL record: the place of its patch, which knows the addend once the section has its bytes.
    in_place: Option<usize>,
}

/// All relocations resolved.
pub(crate) struct Relocated {
    pub(crate) sections: IdVec<RelocId, Resolved>,
    /// Which relocation sections with patches there are for a section: pairs in order.
    by_target: Vec<(SectionId, RelocId)>,
    /// The first pair of a section.
    first_pairs: IdMap<SectionId, u32>,
    /// Places about dead functions.
    clears: HashMap<SectionId, Vec<Patch>>,
    /// What symbols of records that stay as they are have become.
    usual: Arc<usual::Table>,
}

impl Part<'_> {
    fn patch(&mut self, patch: Patch) {
        if self.applied.patches.capacity() == 0 {
            self.applied.patches.reserve_exact(self.room);
        }
        self.applied.patches.push(patch);
    }
}

impl Applied {
    fn new(source: &RelocSource, patches: Vec<Patch>) -> Self {
        let (object, section, records) = (source.object, source.section, Vec::new());
        Applied { object, section, first: 0, patches, records }
    }

    /// Applies the patches to `bytes`, the output section so far; what is told of REL records gets its addend.
    fn replay(&mut self, bytes: &mut [u8]) {
        let mut waiting = self.records.iter_mut().filter(|told| told.in_place.is_some()).peekable();
        for (at, patch) in self.patches.iter().enumerate() {
            if let Some(told) = waiting.next_if(|told| told.in_place == Some(at)) {
                told.record.addend = patch.held(bytes) as i64;
            }
            patch.apply(bytes);
        }
    }
}

impl Relocated {
    /// How many patches there are, and how many records stay.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sections = || self.sections.values();
        let applied = sections().flat_map(Resolved::applied);
        let patches = applied.map(|part| part.patches.len()).sum();
        (patches, sections().map(Resolved::count).sum())
    }

    /// Calls `visit` with the records of a section that stay.
    pub(crate) fn each_kept(&self, objects: &Objects<'_>, id: RelocId, visit: impl FnMut(Kept)) {
        let inputs = (objects, &*self.usual);
        match &self.sections[id] {
            Resolved::Nothing => {}
            Resolved::Whole(whole) => whole.each(inputs, visit),
            Resolved::Mixed(mixed) => mixed.kept.each(inputs, visit),
        }
    }

    /// What is applied to `sections`, as places in `Resolved::applied`: last read first, REL and RELA mixed as they were
    /// read (case preserve/rel-75).
    fn order(&self, sections: &[SectionId]) -> Vec<(RelocId, usize)> {
        let relocs = sections.iter().flat_map(|&section| {
            let first = self.first_pairs.get(section).map(|first| first as usize);
            let pairs = first.map_or(&[][..], |first| &self.by_target[first..]);
            let own = pairs.iter().take_while(move |pair| pair.0 == section);
            own.map(|pair| pair.1)
        });
        let places = |id| (0..self.sections[id].applied().len()).map(move |at| (id, at));
        let mut order: Vec<(RelocId, usize)> = relocs.flat_map(places).collect();
        order.sort_by_key(|&(id, at)| {
            let part = &self.sections[id].applied()[at];
            Reverse((part.object, part.section, part.first))
        });
        order
    }

    fn parts<'s>(&'s self, sections: &[SectionId]) -> impl Iterator<Item = &'s Applied> + use<'s> {
        self.order(sections).into_iter().map(|(id, at)| &self.sections[id].applied()[at])
    }

    /// The records that tell what is applied to `sections`.
    pub(crate) fn applied(&self, sections: &[SectionId]) -> Vec<Kept> {
        self.parts(sections).flat_map(|part| &part.records).map(|told| told.record).collect()
    }

    /// Applies all patches of `section` to its bytes.
    pub(crate) fn patch(&self, section: SectionId, bytes: &mut [u8]) {
        self.clears.get(&section).into_iter().flatten().for_each(|clear| clear.apply(bytes));
        if self.first_pairs.get(section).is_some() {
            let patches = self.parts(&[section]).flat_map(|part| &part.patches);
            patches.for_each(|patch| patch.apply(bytes));
        }
    }

    /// Gives what is told of REL records an addend: the bits of the field when it is applied, after what was applied
    /// before (case preserve/rel-75).
    fn tell_addends(&mut self, draft: &Draft<'_>) {
        for (id, section) in draft.sections.iter() {
            let order = self.order(&[id]);
            let waits = |&(reloc, at): &(RelocId, usize)| {
                let records = &self.sections[reloc].applied()[at].records;
                records.iter().any(|told| told.in_place.is_some())
            };
            if !order.iter().any(waits) {
                continue;
            }
            let mut bytes = vec![0; section.size as usize];
            section.copy_parts(&mut bytes);
            self.clears.get(&id).into_iter().flatten().for_each(|clear| clear.apply(&mut bytes));
            for (reloc, at) in order {
                self.sections[reloc].applied_mut()[at].replay(&mut bytes);
            }
        }
    }
}

/// Everything that resolution looks at.
#[derive(Clone, Copy)]
struct Resolver<'a, 'd> {
    objects: &'a Objects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    merged: &'a Merged<'d>,
    shared: &'a SharedLayout,
    slots: &'a TextureSlots,
    void: &'a VoidRecords,
    /// Unified functions and variables stay for a later link or the driver.
    unified: bool,
    /// Bytes of constant variables, if there is a bank of them.
    constants_size: Option<u64>,
    /// What is applied is recorded.
    preserve: bool,
    /// `-g`.
    debug: bool,
    /// The half whose records are resolved.
    half: Half,
    /// Debug sections of machine code that are not copies.
    rebuilt: &'a Rebuilt,
    /// What most symbols are.
    usual: &'a Arc<usual::Table>,
}

/// Resolves all relocations, those of either half, which are `work` bytes.
pub(crate) fn resolve(
    session: &Session,
    program: Placed<'_, '_>,
    rebuilt: &Rebuilt,
    work: usize,
) -> Result<Halves<Relocated>, Box<Message>> {
    let usual = Arc::default();
    let resolver = Resolver::new(program, rebuilt, &usual);
    let usual = Arc::new(usual::find(session, &resolver, work));
    let half = |half| resolve_half(session, &Resolver { half, usual: &usual, ..resolver }, work);
    let own = half(Half::Sass)?;
    let mercury = match program.options.target.flavour {
        Flavour::Classic => None,
        Flavour::Mercury => Some(half(Half::Mercury)?),
    };
    Ok(Halves { own, mercury })
}

/// Resolves the records of a half, which are `work` bytes.
fn resolve_half(
    session: &Session,
    resolver: &Resolver<'_, '_>,
    work: usize,
) -> Result<Relocated, Box<Message>> {
    let draft = &resolver.merged.draft;
    let resolve = |i| resolver.section(&draft.relocs[RelocId::from_index(i)]);
    let resolved = session.map(draft.relocs.len(), work, resolve);
    let sections: IdVec<RelocId, Resolved> = resolved.into_iter().collect::<Result<_, _>>()?;
    let mut by_target: Vec<(SectionId, RelocId)> = draft
        .relocs
        .iter()
        .filter(|(id, _)| !sections[*id].applied().is_empty())
        .map(|(id, reloc)| (reloc.target, id))
        .collect();
    by_target.sort_unstable();
    let mut first_pairs = IdMap::default();
    for (at, &(section, _)) in by_target.iter().enumerate().rev() {
        first_pairs.insert(section, at as u32);
    }
    let clears = clears(resolver);
    let usual = Arc::clone(resolver.usual);
    let mut relocated = Relocated { sections, by_target, first_pairs, clears, usual };
    // No compiler writes REL beside Mercury.
    if resolver.preserve && draft.flavour == Flavour::Classic {
        relocated.tell_addends(draft);
    }
    Ok(relocated)
}

/// The places about dead functions, which the half that is shown has, and those in the other half's debug information,
/// of which nvlink makes both; those that run past their section are left alone.
fn clears(resolver: &Resolver<'_, '_>) -> HashMap<SectionId, Vec<Patch>> {
    let (merged, half) = (resolver.merged, resolver.half);
    let draft = &merged.draft;
    let mut clears: HashMap<SectionId, Vec<Patch>> = HashMap::new();
    let shown = half == Half::shown(draft.flavour);
    for clear in &draft.clears {
        let copied = draft.sections[clear.section].kind == Kind::Debug
            && !resolver.rebuilt.contains(clear.section);
        if !shown && !copied {
            continue;
        }
        let Some(row) = culd_reloc::lookup(clear.kind) else { continue };
        let void = merged.void_dead.get(&clear.function).is_some_and(|&by| clear.object < by);
        if void || row.observed != Observed::Clears {
            continue;
        }
        let offset = if shown { clear.offset } else { clear.twin_offset };
        let end = offset.saturating_add(row.span_bytes() as u64);
        if end <= resolver.size(clear.section) {
            let (value, write) = (Value::default(), Write::Clear);
            clears.entry(clear.section).or_default().push(Patch { offset, row, value, write });
        }
    }
    clears
}

impl<'a, 'd> Resolver<'a, 'd> {
    fn new(program: Placed<'a, 'd>, rebuilt: &'a Rebuilt, usual: &'a Arc<usual::Table>) -> Self {
        let draft = &program.merged.draft;
        Resolver {
            objects: program.objects,
            symbols: program.symbols,
            graph: program.graph,
            merged: program.merged,
            shared: &program.data.shared,
            slots: &program.data.slots,
            void: program.void,
            unified: program.options.keeps_unified(),
            constants_size: draft.constant_variables().map(|bank| draft.sections[bank].size),
            preserve: program.options.preserve_relocs,
            debug: program.options.for_debugger(),
            half: Half::Sass,
            rebuilt,
            usual,
        }
    }

    fn section(&self, reloc: &RelocSection) -> Result<Resolved, Box<Message>> {
        // Many sections are there for their names only.
        if reloc.sources.is_empty() {
            return Ok(Resolved::Nothing);
        }
        let place = self.context(reloc);
        let single = match &reloc.sources[..] {
            [source] => self.origin(&place, source),
            _ => None,
        };
        let mut whole = None;
        if let Some(origin) = &single
            && let Some(records) = origin.whole()
        {
            let others = self.others(&place, origin);
            let unchanged = records.unchanged().filter(|_| others.is_empty());
            if let Some(unchanged) = unchanged.filter(|_| !self.has_images(&place)) {
                return Ok(Resolved::Whole(unchanged));
            }
            whole = Some((records, others));
        }
        let mut resolved = Mixed::default();
        if let Some(origin) = single {
            let (kept, others) = match whole {
                Some((records, others)) => (Records::Of(records), Some(others)),
                None => (Records::Listed(Vec::with_capacity(origin.most())), None),
            };
            resolved.kept = kept;
            self.records(&mut resolved, &place, &origin, others)?;
        } else {
            let origins =
                || reloc.sources.iter().rev().filter_map(|source| self.origin(&place, source));
            // Most records stay.
            let most = origins().map(|origin| origin.most()).sum();
            resolved.kept = Records::Listed(Vec::with_capacity(most));
            for origin in origins() {
                self.records(&mut resolved, &place, &origin, None)?;
            }
        }
        if self.rebuilt.is_lines(reloc.target) && self.half == Half::Sass {
            let headers = reloc.sources.iter();
            let headers = headers.map(|source| Applied::new(source, self.headers(&place, source)));
            resolved.applied.extend(headers);
            resolved.kept.sort();
        }
        Ok(resolved.into())
    }

    /// Resolves the records of an input section, the last one first; of [`Records::Of`] only `others`.
    fn records(
        &self,
        resolved: &mut Mixed,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        others: Option<Vec<u32>>,
    ) -> Result<(), Box<Message>> {
        let Origin { source, section, .. } = *origin;
        let records = section.relocations();
        let (applied, patched) = (Applied::new(source, Vec::new()), Vec::new());
        let one_pass = section.sh_type != sht::REL;
        let room = |records: usize| if one_pass { records } else { 0 };
        let mut part = Part { resolved, applied, room: room(records.len()), patched };
        if let Some(others) = others {
            part.room = room(others.len());
            for number in others.into_iter().rev() {
                if let Some(record) = records.get(number as usize) {
                    self.next(&mut part, place, origin, (number as usize, record))?;
                }
            }
        } else {
            let plain = source.within == ALL && section.sh_type == sht::RELA && !source.moved;
            let plain = plain && !origin.any_void;
            let mut cursor = Cursor::default();
            let numbers = (0..records.len()).rev();
            let mut all = numbers.zip(records.iter().rev());
            all.try_for_each(|(number, record)| {
                if plain {
                    // Nothing that [`Resolver::next`] asks for can be so.
                    let offset = origin.place_from(&mut cursor, record.offset);
                    return self.placed(&mut part, place, origin, offset, (number, record));
                }
                self.next(&mut part, place, origin, (number, record))
            })?;
        }
        let Part { resolved, applied: mut part, patched, .. } = part;
        if !patched.is_empty() {
            let patches = std::mem::take(&mut part.patches);
            part.patches = self.stored(place, source, &patched, patches)?;
        }
        if self.has_images(place) {
            part.patches.extend(self.image_loads(origin)?);
        }
        if !part.patches.is_empty() || !part.records.is_empty() {
            // Of a section with many records few may be applied.
            part.patches.shrink_to_fit();
            resolved.applied.push(part);
        }
        Ok(())
    }

    /// The numbers of those records of [`Records::Of`] that do not stay as they are. Nearly all do.
    fn others(&self, place: &PlaceContext, origin: &Origin<'_, 'd>) -> Vec<u32> {
        let size = place.size.saturating_sub(origin.source.base(self.half));
        let records = origin.section.relocations();
        let mut others = Vec::new();
        if place.has_void_records {
            others.extend(0..records.len() as u32);
            return others;
        }
        let (symbols, mut number) = (origin.symbols, 0);
        records.iter().for_each(|record| {
            let span = usual::span(record.kind);
            let symbol = symbols.get(record.symbol.0 as usize).copied().flatten();
            let inside = record.offset.saturating_add(span) <= size;
            if span == 0 || !inside || symbol.is_none() {
                others.push(number);
            } else {
                debug_assert!(self.stays_unchanged(place, origin, record));
            }
            number += 1;
        });
        others
    }

    /// What a record with addend comes to.
    fn outcome_of(
        &self,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        record: RelocEntry,
    ) -> Outcome {
        let (row, write) = (culd_reloc::lookup(record.kind), Write::Set);
        self.outcome(&Query { place, origin, record, row, write })
    }

    /// Resolves one record, the one before the last.
    fn next(
        &self,
        part: &mut Part<'_>,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        (number, record): (usize, RelocEntry),
    ) -> Result<(), Box<Message>> {
        let Origin { source, object, section, .. } = *origin;
        let (start, end) = source.within;
        if record.offset < start || record.offset >= end {
            return Ok(());
        }
        let moved =
            section.sh_type == sht::REL && self.merged.gets_addend(source.object, object, record);
        if moved != source.moved {
            // The other kind's records come between.
            if !part.applied.patches.is_empty() {
                let rest = Applied::new(source, Vec::new());
                let applied = std::mem::replace(&mut part.applied, rest);
                part.resolved.applied.push(Applied { first: number + 1, ..applied });
            }
            return Ok(());
        }
        let (id, target) = (source.object, source.target);
        if origin.any_void && self.void.contains(self.symbols, id, object, target, record) {
            return Ok(());
        }
        let offset = origin.place(record.offset);
        self.placed(part, place, origin, offset, (number, record))
    }

    /// Resolves one record that counts and whose place is at `offset` of the output section, if it is there.
    #[inline]
    fn placed(
        &self,
        part: &mut Part<'_>,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        offset: Option<u64>,
        (number, record): (usize, RelocEntry),
    ) -> Result<(), Box<Message>> {
        let fate = match offset.map(|offset| (offset, self.quick(place, origin, offset, &record))) {
            None => None,
            Some((_, Some(fate))) => fate,
            Some((offset, None)) => self.slow(part, place, origin, offset, (number, record))?,
        };
        part.resolved.kept.note(number, fate);
        Ok(())
    }

    /// The fate of a record that [`Resolver::quick`] does not know.
    fn slow(
        &self,
        part: &mut Part<'_>,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        offset: u64,
        (number, record): (usize, RelocEntry),
    ) -> Result<Option<Kept>, Box<Message>> {
        let count = part.applied.patches.len();
        let fate = self.record(part, place, origin, offset, record)?;
        if place.in_capsule && part.applied.patches.len() != count {
            if !place.is_code {
                let what = format!(
                    "Mercury code of a jump slot is compressed: a relocation of type {:#x} cannot be applied to it",
                    record.kind
                );
                let defect = Malformed::section(origin.section.name, 24 * number as u64, what);
                let file = origin.object.name.to_owned();
                return Err(Box::new(Message::Malformed { file, defect }));
            }
            part.patched.push(record);
        }
        Ok(fate)
    }

    /// The patches of Mercury code, which is compressed.
    fn stored(
        &self,
        place: &PlaceContext,
        source: &RelocSource,
        records: &[RelocEntry],
        patches: Vec<Patch>,
    ) -> Result<Vec<Patch>, Box<Message>> {
        let object = &self.objects[source.object];
        let twin = |index| object.twins.of(index).map(|twin| object.section(twin));
        let (Some(code), Some(capsule)) = (twin(source.section), twin(source.target)) else {
            let what = "Mercury code without machine code";
            return Err(Box::new(Message::Internal { what }));
        };
        let Some(origin) = self.origin(place, source) else { return Ok(patches) };
        let resolved = |record: &RelocEntry| {
            let row = culd_reloc::lookup(record.kind);
            if row.is_some_and(|row| usual::stays(place, &origin, row, record).is_some()) {
                return false;
            }
            matches!(self.outcome_of(place, &origin, *record), Outcome::Patched(_))
        };
        let code: Vec<RelocEntry> = code.relocations().iter().filter(resolved).collect();
        code::stored(capsule, &code, records, patches)
            .map_err(|defect| Message::Malformed { file: object.name.to_owned(), defect })
            .map_err(Box::new)
    }

    /// Whether there may be such loads as [`Resolver::image_loads`] finds.
    fn has_images(&self, place: &PlaceContext) -> bool {
        self.half == Half::Sass && place.is_code && self.slots.images().is_some()
    }

    /// The loads of code from slots of textures, for which nobody has a record beside Mercury: they count from the
    /// first slot, which in machine code is behind the largest bank of parameters (case textures/in-registers).
    fn image_loads(&self, origin: &Origin<'_, 'd>) -> Result<Vec<Patch>, Box<Message>> {
        let Some(base) = self.slots.images() else { return Ok(Vec::new()) };
        let Origin { source, object, .. } = *origin;
        let Some(twin) = object.twins.of(source.target) else { return Ok(Vec::new()) };
        let patches = code::image_loads(object.section(twin), object.section(source.target), base)
            .map_err(|defect| Message::Malformed { file: object.name.to_owned(), defect })?;
        let at = |patch: Patch| Some(Patch { offset: origin.place(patch.offset)?, ..patch });
        Ok(patches.into_iter().filter_map(at).collect())
    }

    /// Headers of units in tables of lines are those of Mercury.
    fn headers(&self, place: &PlaceContext, source: &RelocSource) -> Vec<Patch> {
        let mut patches = Vec::new();
        let origin = self.origin_in(place, source, source.section);
        for record in origin.section.relocations().iter() {
            let Some(offset) = self.rebuilt.header(source.object, source.target, record.offset)
            else {
                continue;
            };
            let outcome = self.outcome_of(place, &origin, record);
            if let Outcome::Patched(Patched { row, value, .. }) = outcome {
                patches.push(Patch { offset, row, value, write: Write::Set });
            }
        }
        patches
    }

    /// Addresses in constant and shared memory, texture slots and sizes of banks are only known
    /// when the program is complete.
    fn relocatable(&self) -> bool {
        self.merged.draft.relocatable
    }

    /// Whether `--preserve-relocs` tells an applied record: beside Mercury, only those of code against shared variables
    /// (case preserve/records on sm_100).
    fn tells(&self, place: &PlaceContext, symbol: Option<OutSymbolId>) -> bool {
        let draft = &self.merged.draft;
        let shared = || symbol.is_some_and(|symbol| draft.symbols[symbol].shared.is_some());
        draft.flavour == Flavour::Classic || place.is_code && shared()
    }

    /// What becomes of a record, `None` if it does not stay; patches and what is told of them go to `part`.
    fn record(
        &self,
        part: &mut Part<'_>,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        offset: u64,
        record: RelocEntry,
    ) -> Result<Option<Kept>, Box<Message>> {
        let row = culd_reloc::lookup(record.kind);
        let plain =
            |row: &'static RelocDesc| row.unified.and_then(|plain| plain.desc()).unwrap_or(row);
        let row = row.map(|row| if self.unified { row } else { plain(row) });
        let in_place = origin.section.sh_type == sht::REL && !origin.source.moved;
        let write = if in_place { Write::Add } else { Write::Set };
        let query = Query { place, origin, record, row, write };
        let outcome = self.outcome(&query);
        let applied = row.filter(|row| row.is_applicable());
        let span = applied.map_or(1, |row| row.span_bytes() as u64);
        if !matches!(outcome, Outcome::Dropped | Outcome::Fatal(_))
            && offset.saturating_add(span) > place.size
        {
            // Literals of a copy that was replaced are gone.
            if place.is_emptied {
                return Ok(None);
            }
            return Err(query.bad("its place is not in the linked section"));
        }
        match outcome {
            Outcome::Dropped => Ok(None),
            Outcome::Kept(Stays { symbol, base, kind, holder }) => {
                if let Some((row, value)) = holder {
                    part.patch(Patch { offset, row, value, write });
                }
                let addend = record.addend.wrapping_add_unsigned(base);
                let kind = if place.is_frames { ADDRESS } else { kind };
                Ok(Some(Kept { offset, symbol, kind, addend }))
            }
            Outcome::Fatal(problem) => Err(problem),
            Outcome::Patched(patched) => {
                if let Some(overflow) = query.overflow(&patched) {
                    return Err(Box::new(overflow));
                }
                let Patched { row, value, write, named, base } = patched;
                part.patch(Patch { offset, row, value, write });
                let symbol = match named {
                    Named::Nothing => return Ok(None),
                    Named::Null => None,
                    Named::Symbol(symbol) => Some(symbol),
                };
                if self.preserve && self.tells(place, symbol) {
                    let addend = record.addend.wrapping_add_unsigned(base);
                    let record = Kept { offset, symbol, kind: row.code.0, addend };
                    let applied = &mut part.applied;
                    let in_place = (write == Write::Add).then(|| applied.patches.len() - 1);
                    applied.records.push(Told { record, in_place });
                }
                Ok(None)
            }
        }
    }
}
