//! Phase 10: every relocation resolved to bits of the output, or kept for the driver.
//!
//! In: everything placed. Out: [`Relocated`]: per relocation section the records that stay, and
//! per section the patches. Guaranteed: every patch lies inside its section.
//!
//! Resolved: constants, shared variables, sections without addresses. Kept: functions, global
//! variables, what is undefined, and types that only the driver can apply. Records come out last
//! read first, as nvlink prepends them. What a single record comes to is told in [`outcome`].

mod outcome;

use culd_cubin::elf::sht;
use culd_cubin::{RelocEntry, Section, SectionIndex};
use culd_reloc::{Observed, RelocDesc, Value};

use crate::Session;
use crate::callgraph::CallGraph;
use crate::capsule::Half;
use crate::capsule::code;
use crate::capsule::rebuilt::{ADDRESS, Rebuilt};
use crate::diag::{Diagnostics, Failed, Message};
use crate::draft::{Kind, RelocSection, RelocSource};
use crate::id::{Id, IdVec, ObjectId, OutSymbolId, RelocId, SectionId};
use crate::merge::Merged;
use crate::objects::{Object, Objects};
use crate::shared::SharedLayout;
use crate::symbols::Symbols;
use crate::textures::TextureSlots;
use crate::void::{VoidRecords, is_line_table};

use self::outcome::{Named, Outcome, Patched, PlaceContext, Query, Stays};

/// A record of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) offset: u64,
    /// `None` for symbol 0.
    pub(crate) symbol: Option<OutSymbolId>,
    pub(crate) kind: u32,
    pub(crate) addend: i64,
}

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
}

/// The result for one relocation section.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) kept: Vec<Kept>,
    /// With `--preserve-relocs`: what is applied, by input section, last first.
    applied: Vec<Applied>,
    patches: Vec<Patch>,
    /// In Mercury code, whose places have to be found: the records that the patches are of.
    patched: Vec<RelocEntry>,
    problem: Option<Message>,
}

/// What is applied of one input relocation section.
#[derive(Debug)]
struct Applied {
    object: ObjectId,
    section: SectionIndex,
    records: Vec<Kept>,
}

/// All relocations resolved.
pub(crate) struct Relocated {
    pub(crate) sections: IdVec<RelocId, Resolved>,
    /// Which relocation sections patch a section.
    by_target: IdVec<SectionId, Vec<RelocId>>,
    /// Places about dead functions.
    clears: IdVec<SectionId, Vec<Patch>>,
}

impl Relocated {
    /// What is applied to `sections`, last read first, whatever sections it was read from.
    pub(crate) fn applied(&self, sections: &[SectionId]) -> Vec<Kept> {
        let relocs = sections.iter().flat_map(|&section| &self.by_target[section]);
        let mut parts: Vec<&Applied> = relocs.flat_map(|&id| &self.sections[id].applied).collect();
        parts.sort_by_key(|part| std::cmp::Reverse((part.object, part.section)));
        parts.iter().flat_map(|part| part.records.iter().copied()).collect()
    }

    /// All patches of `section`, in the order in which they are to be applied.
    pub(crate) fn patches(&self, section: SectionId) -> impl Iterator<Item = &Patch> {
        let resolved = self.by_target[section].iter();
        self.clears[section].iter().chain(resolved.flat_map(|&id| &self.sections[id].patches))
    }
}

/// Everything that resolution looks at.
pub(crate) struct Resolver<'a, 'd> {
    pub(crate) objects: &'a Objects<'d>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) graph: &'a CallGraph,
    pub(crate) merged: &'a Merged<'d>,
    pub(crate) shared: &'a SharedLayout,
    pub(crate) slots: &'a TextureSlots,
    pub(crate) void: &'a VoidRecords,
    /// Unified functions and variables stay for a later link or the driver.
    pub(crate) unified: bool,
    /// Bytes of constant variables, if there is a bank of them.
    pub(crate) constants_size: Option<u64>,
    /// What is applied is recorded.
    pub(crate) preserve: bool,
    /// The half whose records are resolved.
    pub(crate) half: Half,
    /// Debug sections of machine code that are not copies.
    pub(crate) rebuilt: &'a Rebuilt,
}

/// Resolves all relocations.
pub(crate) fn resolve(
    session: &Session,
    resolver: &Resolver<'_, '_>,
    diags: &mut Diagnostics,
) -> Result<Relocated, Failed> {
    let draft = &resolver.merged.draft;
    let records: usize = resolver.objects.iter().map(|(_, object)| object.reloc_bytes()).sum();
    let sections: IdVec<RelocId, Resolved> = session
        .map(draft.relocs.len(), records, |i| {
            resolver.section(&draft.relocs[RelocId::from_index(i)])
        })
        .into_iter()
        .collect();
    if let Some(problem) = sections.values().find_map(|resolved| resolved.problem.clone()) {
        return Err(diags.fatal(problem));
    }
    let mut by_target = IdVec::filled(Vec::new(), draft.sections.len());
    for (id, reloc) in draft.relocs.iter() {
        by_target[reloc.target].push(id);
    }
    Ok(Relocated { sections, by_target, clears: clears(resolver.merged, resolver.half) })
}

/// The places about dead functions, which the half that is shown has; those that run past their section are left
/// alone.
fn clears(merged: &Merged<'_>, half: Half) -> IdVec<SectionId, Vec<Patch>> {
    let draft = &merged.draft;
    let mut clears = IdVec::filled(Vec::new(), draft.sections.len());
    if half != Half::shown(draft.flavour) {
        return clears;
    }
    for clear in &draft.clears {
        let Some(row) = culd_reloc::lookup(clear.kind) else { continue };
        let void = merged.void_dead.get(&clear.function).is_some_and(|&by| clear.object < by);
        if void || row.observed != Observed::Clears {
            continue;
        }
        let end = clear.offset.saturating_add(row.span_bytes() as u64);
        if end <= draft.sections[clear.section].size_in(half) {
            let (offset, value, write) = (clear.offset, Value::default(), Write::Clear);
            clears[clear.section].push(Patch { offset, row, value, write });
        }
    }
    clears
}

impl<'a, 'd> Resolver<'a, 'd> {
    fn section(&self, reloc: &RelocSection) -> Resolved {
        let mut resolved = Resolved::default();
        let function = self.merged.draft.sections[reloc.target].function;
        let function = function.and_then(|out| self.merged.draft.symbols[out].program);
        let place = PlaceContext {
            function: function.and_then(|program| self.graph.node(program)),
            target: reloc.target,
            is_line_table: is_line_table(self.name(reloc.target)),
            is_constant: matches!(self.merged.draft.sections[reloc.target].kind, Kind::Constant(_)),
            is_code: self.merged.draft.sections[reloc.target].kind == Kind::Text,
            is_frames: self.half == Half::Sass && self.rebuilt.is_frames(reloc.target),
        };
        for source in reloc.sources.iter().rev() {
            let object = &self.objects[source.object];
            let Some(section) = self.records(&place, source) else { continue };
            let first_patch = resolved.patches.len();
            if self.preserve {
                let (object, section, records) = (source.object, source.section, Vec::new());
                resolved.applied.push(Applied { object, section, records });
            }
            let (start, end) = source.within;
            for record in section.relocations().iter().rev() {
                if record.offset < start || record.offset >= end {
                    continue;
                }
                let moved = section.sh_type == sht::REL
                    && self.merged.gets_addend(source.object, object, record);
                if moved != source.moved {
                    continue;
                }
                let (id, target) = (source.object, source.target);
                if self.void.contains(self.symbols, id, object, target, record) {
                    continue;
                }
                self.record(&mut resolved, &place, source, (object, section), record);
                if resolved.problem.is_some() {
                    return resolved;
                }
            }
            if self.half == Half::Mercury && place.is_code {
                let patches = resolved.patches.split_off(first_patch);
                let records = std::mem::take(&mut resolved.patched);
                match self.stored(&place, source, &records, patches) {
                    Ok(patches) => resolved.patches.extend(patches),
                    Err(problem) => resolved.problem = Some(problem),
                }
            }
        }
        if self.rebuilt.is_lines(reloc.target) && self.half == Half::Sass {
            reloc.sources.iter().for_each(|source| self.headers(&mut resolved, &place, source));
            resolved.kept.sort_by_key(|record| record.offset);
        }
        resolved
    }

    /// The patches of Mercury code, which is compressed.
    fn stored(
        &self,
        place: &PlaceContext,
        source: &RelocSource,
        records: &[RelocEntry],
        patches: Vec<Patch>,
    ) -> Result<Vec<Patch>, Message> {
        if patches.is_empty() {
            return Ok(patches);
        }
        let object = &self.objects[source.object];
        let twin = |index| object.twins.of(index).map(|twin| object.section(twin));
        let (Some(code), Some(capsule)) = (twin(source.section), twin(source.target)) else {
            return Err(Message::Internal { what: "Mercury code without machine code" });
        };
        let resolved = |record: &RelocEntry| {
            let (row, write) = (culd_reloc::lookup(record.kind), Write::Set);
            let query = Query { place, source, object, record: *record, row, write };
            matches!(self.outcome(&query), Outcome::Patched(_))
        };
        let code: Vec<RelocEntry> = code.relocations().iter().filter(resolved).collect();
        code::stored(capsule, &code, records, patches)
            .map_err(|defect| Message::Malformed { file: object.name.to_owned(), defect })
    }

    /// The records of this half that `source` stands for.
    fn records(&self, place: &PlaceContext, source: &RelocSource) -> Option<&'a Section<'d>> {
        let object = &self.objects[source.object];
        let shown = self.half == Half::shown(self.merged.draft.flavour);
        if shown || place.is_frames {
            return Some(object.section(source.section));
        }
        object.twins.of(source.section).map(|twin| object.section(twin))
    }

    /// Headers of units in tables of lines are those of Mercury.
    fn headers(&self, resolved: &mut Resolved, place: &PlaceContext, source: &RelocSource) {
        let object = &self.objects[source.object];
        for record in object.section(source.section).relocations().iter() {
            let Some(offset) = self.rebuilt.header(source.object, source.target, record.offset)
            else {
                continue;
            };
            let (row, write) = (culd_reloc::lookup(record.kind), Write::Set);
            let query = Query { place, source, object, record, row, write };
            if let Outcome::Patched(Patched { row, value, .. }) = self.outcome(&query) {
                resolved.patches.push(Patch { offset, row, value, write });
            }
        }
    }

    /// Where byte `offset` of a file's section is in the output section; `None` where that part is left out.
    fn place(&self, place: &PlaceContext, source: &RelocSource, offset: u64) -> Option<u64> {
        if self.half == Half::Sass && self.rebuilt.contains(place.target) {
            return self.rebuilt.offset(source.object, source.target, offset);
        }
        Some(self.merged.moved.offset(place.target, source.base(self.half) + offset))
    }

    /// Bytes that places in the section may have. Those in Mercury code count before compression; phase 1 has
    /// checked them.
    fn size(&self, place: &PlaceContext) -> u64 {
        if place.is_code && self.half == Half::Mercury {
            return u64::MAX;
        }
        self.merged.draft.sections[place.target].size_in(self.half)
    }

    /// Addresses in constant and shared memory, texture slots and sizes of banks are only known
    /// when the program is complete.
    fn relocatable(&self) -> bool {
        self.merged.draft.relocatable
    }

    fn name(&self, section: SectionId) -> &[u8] {
        self.merged.draft.names.get(self.merged.draft.sections[section].name)
    }

    fn record(
        &self,
        resolved: &mut Resolved,
        place: &PlaceContext,
        source: &RelocSource,
        (object, section): (&Object<'d>, &Section<'d>),
        record: RelocEntry,
    ) {
        let row = culd_reloc::lookup(record.kind);
        let plain =
            |row: &'static RelocDesc| row.unified.and_then(|plain| plain.desc()).unwrap_or(row);
        let row = row.map(|row| if self.unified { row } else { plain(row) });
        let in_place = section.sh_type == sht::REL && !source.moved;
        let write = if in_place { Write::Add } else { Write::Set };
        let query = Query { place, source, object, record, row, write };
        let Some(offset) = self.place(place, source, record.offset) else { return };
        let outcome = self.outcome(&query);
        let applied = row.filter(|row| row.is_applicable());
        let span = applied.map_or(1, |row| row.span_bytes() as u64);
        if !matches!(outcome, Outcome::Dropped | Outcome::Fatal(_))
            && offset.saturating_add(span) > self.size(place)
        {
            resolved.problem = Some(query.bad("its place is not in the linked section"));
            return;
        }
        match outcome {
            Outcome::Dropped => {}
            Outcome::Kept(Stays { symbol, base, kind }) => {
                let addend = record.addend.wrapping_add_unsigned(base);
                let kind = if place.is_frames { ADDRESS } else { kind };
                resolved.kept.push(Kept { offset, symbol, kind, addend });
            }
            Outcome::Fatal(problem) => resolved.problem = Some(problem),
            Outcome::Patched(patched) => {
                if let Some(overflow) = query.overflow(&patched) {
                    resolved.problem = Some(overflow);
                    return;
                }
                let Patched { row, value, write, named, base } = patched;
                resolved.patches.push(Patch { offset, row, value, write });
                if place.is_code && self.half == Half::Mercury {
                    resolved.patched.push(record);
                }
                let symbol = match named {
                    Named::Nothing => return,
                    Named::Null => None,
                    Named::Symbol(symbol) => Some(symbol),
                };
                if let Some(applied) = resolved.applied.last_mut() {
                    let addend = record.addend.wrapping_add_unsigned(base);
                    applied.records.push(Kept { offset, symbol, kind: row.code.0, addend });
                }
            }
        }
    }
}
