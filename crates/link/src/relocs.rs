//! Phase 10: every relocation resolved to bits of the output, or kept for the driver.
//!
//! In: everything placed. Out: [`Relocated`]: per relocation section the records that stay, and
//! per section the patches. Guaranteed: every patch lies inside its section.
//!
//! Resolved: constants, shared variables, sections without addresses. Kept: functions, global
//! variables, what is undefined, and types that only the driver can apply. Records come out last
//! read first, as nvlink prepends them.

use culd_cubin::elf::{sht, stb, sto, stt};
use culd_cubin::{RelocEntry, Section, SectionIndex, Symbol, SymbolSection};
use culd_reloc::{Observed, RelocDesc, Value};

use crate::Session;
use crate::callgraph::CallGraph;
use crate::constants;
use crate::diag::{Diagnostics, Failed, Message};
use crate::draft::{Kind, RelocSection, RelocSource};
use crate::id::{Id, IdVec, NodeId, ObjectId, OutSymbolId, RelocId, SectionId, SymbolId};
use crate::merge::{Merged, Placed, Target};
use crate::objects::{Object, Objects, is_internal, is_unified_table};
use crate::shared::SharedLayout;
use crate::symbols::{Symbols, space};
use crate::textures::TextureSlots;
use crate::void::{VoidRecords, is_line_table};

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

/// What a record comes to.
enum Outcome {
    Dropped,
    Kept(OutSymbolId),
    Patched(Patched),
    Fatal(Message),
}

/// Whether and how an applied record is told.
#[derive(Debug, Clone, Copy)]
enum Named {
    /// Not at all.
    Nothing,
    /// As one of symbol 0.
    Null,
    Symbol(OutSymbolId),
}

impl Named {
    /// By the symbol, if the output has one.
    fn by(symbol: Option<OutSymbolId>) -> Self {
        symbol.map_or(Named::Nothing, Named::Symbol)
    }
}

/// A record that is applied.
struct Patched {
    /// V, S alone where the addend is in the place.
    value: Value,
    /// What `.nv.resolvedrela` says of it, and where that file's part of what is named starts.
    named: Named,
    base: u64,
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
    /// Bytes of constant variables, if there is a bank of them.
    pub(crate) constants_size: Option<u64>,
    /// What is applied is recorded.
    pub(crate) preserve: bool,
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
    Ok(Relocated { sections, by_target, clears: clears(resolver.merged) })
}

/// The places about dead functions; those that run past their section are left alone.
fn clears(merged: &Merged<'_>) -> IdVec<SectionId, Vec<Patch>> {
    let draft = &merged.draft;
    let mut clears = IdVec::filled(Vec::new(), draft.sections.len());
    for clear in &draft.clears {
        let Some(row) = culd_reloc::cuda(clear.kind) else { continue };
        let void = merged.void_dead.get(&clear.function).is_some_and(|&by| clear.object < by);
        if void || row.observed != Observed::Clears {
            continue;
        }
        let end = clear.offset.saturating_add(row.span_bytes() as u64);
        if end <= draft.sections[clear.section].size {
            let (offset, value, write) = (clear.offset, Value::default(), Write::Clear);
            clears[clear.section].push(Patch { offset, row, value, write });
        }
    }
    clears
}

impl<'d> Resolver<'_, 'd> {
    fn section(&self, reloc: &RelocSection) -> Resolved {
        let mut resolved = Resolved::default();
        let function = self.merged.draft.sections[reloc.target].function;
        let function = function.and_then(|out| self.merged.draft.symbols[out].program);
        let place = PlaceContext {
            function: function.and_then(|program| self.graph.node(program)),
            target: reloc.target,
            is_line_table: is_line_table(self.name(reloc.target)),
            is_constant: matches!(self.merged.draft.sections[reloc.target].kind, Kind::Constant(_)),
        };
        for source in reloc.sources.iter().rev() {
            let object = &self.objects[source.object];
            let section = object.section(source.section);
            if self.preserve {
                let (object, section, records) = (source.object, source.section, Vec::new());
                resolved.applied.push(Applied { object, section, records });
            }
            for record in section.relocations().iter().rev() {
                let (id, target) = (source.object, source.target);
                if self.void.contains(self.symbols, id, object, target, record) {
                    continue;
                }
                self.record(&mut resolved, &place, source, (object, section), record);
                if resolved.problem.is_some() {
                    return resolved;
                }
            }
        }
        resolved
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
        let row = culd_reloc::cuda(record.kind);
        let plain =
            |row: &'static RelocDesc| row.unified.and_then(|plain| plain.desc()).unwrap_or(row);
        let row = row.map(|row| if self.relocatable() { row } else { plain(row) });
        let kind = row.map_or(record.kind, |row| row.code.0);
        let write = if section.sh_type == sht::REL { Write::Add } else { Write::Set };
        let query = Query { place, source, object, record, row, write };
        let offset = self.merged.moved.offset(place.target, source.base + record.offset);
        let outcome = self.outcome(&query);
        let applied = row.filter(|row| row.is_applicable());
        let span = applied.map_or(1, |row| row.span_bytes() as u64);
        if !matches!(outcome, Outcome::Dropped | Outcome::Fatal(_))
            && offset.saturating_add(span) > self.merged.draft.sections[place.target].size
        {
            resolved.problem = Some(query.bad("its place is not in the linked section"));
            return;
        }
        match outcome {
            Outcome::Dropped => {}
            Outcome::Kept(symbol) => {
                let symbol = Some(symbol);
                resolved.kept.push(Kept { offset, symbol, kind, addend: record.addend });
            }
            Outcome::Fatal(problem) => resolved.problem = Some(problem),
            Outcome::Patched(Patched { value, named, base }) => match row {
                Some(row) if row.is_applicable() => {
                    resolved.patches.push(Patch { offset, row, value, write });
                    let symbol = match named {
                        Named::Nothing => return,
                        Named::Null => None,
                        Named::Symbol(symbol) => Some(symbol),
                    };
                    if let Some(applied) = resolved.applied.last_mut() {
                        let addend = record.addend.wrapping_add_unsigned(base);
                        applied.records.push(Kept { offset, symbol, kind: record.kind, addend });
                    }
                }
                Some(row) if row.observed != Observed::Rejected => {
                    let what = "its type cannot be applied to a symbol of this kind";
                    resolved.problem = Some(query.bad(what));
                }
                _ => resolved.problem = Some(Message::Internal { what: "unexpected NVRS" }),
            },
        }
    }

    fn outcome(&self, query: &Query<'_, 'd>) -> Outcome {
        let (id, record) = (query.source.object, query.record);
        let symbol = query.object.symbol(record.symbol);
        if symbol.kind() == stt::SECTION {
            return self.section_symbol(query, symbol);
        }
        if symbol.kind() == stt::NOTYPE {
            return self.label(query, symbol);
        }
        let Some(program) = self.symbols.of(id, record.symbol) else { return Outcome::Dropped };
        if is_internal(symbol) && symbol.defined_in().is_none() && !self.relocatable() {
            return self.system_value(query, symbol);
        }
        if symbol.is_function() {
            if self.graph.node(program).is_none() || self.is_void(query, program) {
                return Outcome::Dropped;
            }
            if query.row.is_some_and(|row| row.observed == Observed::Clears) {
                return Outcome::Dropped;
            }
        }
        if self.is_forgotten(query, symbol, program) {
            return Outcome::Dropped;
        }
        match self.merged.targets[program] {
            Target::None => Outcome::Dropped,
            Target::Internal { placed, value } => match placed {
                Placed::At { section, base } => self.in_section(query, section, base + value, None),
                Placed::Bank(bank) => {
                    let bank = &self.merged.banks[bank];
                    constant(query, bank.offset + value, bank.number, None)
                }
                Placed::No | Placed::Lost(_) | Placed::Waiting => Outcome::Dropped,
            },
            Target::Symbol(out) => self.symbol(query, symbol, out),
        }
    }

    /// Records about a function in tables of addresses, read before its copy was replaced.
    fn is_void(&self, query: &Query<'_, 'd>, program: SymbolId) -> bool {
        let replaced_by = match query.write {
            Write::Set => self.merged.void_debug.get(&program),
            _ => self.merged.void_rel.get(&(program, query.place.target)),
        };
        query.place.is_line_table && replaced_by.is_some_and(|&by| query.source.object < by)
    }

    /// The same defect as in [`VoidRecords::contains`]: constants forget global variables
    /// that are replaced by a later file.
    fn is_forgotten(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>, program: SymbolId) -> bool {
        let info = &self.symbols.all[program];
        query.place.is_constant
            && !symbol.is_function()
            && space(symbol) == sto::SPACE_GLOBAL
            && info.replaced
            && info.definition.is_some_and(|site| query.source.object < site.object)
    }

    /// A symbol without type: a label of debug information. nvlink takes one that ptxas forgot to
    /// define for symbol 0.
    fn label(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>) -> Outcome {
        if symbol.section == SymbolSection::Undefined && symbol.binding() == stb::LOCAL {
            let named = if query.record.symbol.0 == 0 { Named::Nothing } else { Named::Null };
            return query.patched(self.merged.draft.null_value, 0, named);
        }
        Outcome::Fatal(query.bad("its symbol has no type"))
    }

    /// A number that ptxas leaves for the linker to fill in, as a symbol that no file defines.
    fn system_value(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>) -> Outcome {
        if symbol.name != constants::SIZE_SYMBOL {
            return Outcome::Fatal(query.bad("its symbol is local and undefined"));
        }
        query.patched(self.constants_size.unwrap_or(constants::NO_BANK), 0, Named::Nothing)
    }

    /// A section symbol: the part that this file's section became.
    fn section_symbol(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>) -> Outcome {
        let Some(index) = symbol.defined_in() else { return Outcome::Dropped };
        let Placed::At { section, base } = self.merged.placed(query.source.object, index) else {
            return Outcome::Dropped;
        };
        let output = &self.merged.draft.sections[section];
        if output.kind.is_alloc() {
            return output.symbol.map_or(Outcome::Dropped, Outcome::Kept);
        }
        let value = query.value(base, 0);
        Outcome::Patched(Patched { value, named: Named::by(output.symbol), base })
    }

    fn symbol(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>, out: OutSymbolId) -> Outcome {
        if is_unified_table(symbol.name) {
            // Without unified tables these names mean nothing; the place keeps its bytes.
            return Outcome::Dropped;
        }
        let draft = &self.merged.draft;
        let entry = &draft.symbols[out];
        if let Some(slot) = self.slots.offset(out) {
            return query.patched(slot, 0, Named::Nothing);
        }
        if let Some(index) = entry.shared.filter(|_| !self.relocatable()) {
            return self.shared(query, index, out);
        }
        match entry.section {
            Some(section) => self.in_section(query, section, entry.value, Some(out)),
            None => Outcome::Kept(out),
        }
    }

    /// A symbol at `value` of an output section.
    fn in_section(
        &self,
        query: &Query<'_, 'd>,
        section: SectionId,
        value: u64,
        out: Option<OutSymbolId>,
    ) -> Outcome {
        let output = &self.merged.draft.sections[section];
        match output.kind {
            Kind::Constant(bank) if !self.relocatable() => constant(query, value, bank, out),
            // An alias stands for the function whose code it names.
            Kind::Text => output.function.or(out).map_or(Outcome::Dropped, Outcome::Kept),
            _ => out.or(output.symbol).map_or(Outcome::Dropped, |out| match query.row {
                Some(row) if row.needs_function() => Outcome::Fatal(
                    query.bad("its type describes a function, but its symbol is a variable"),
                ),
                _ => Outcome::Kept(out),
            }),
        }
    }

    fn shared(&self, query: &Query<'_, 'd>, index: u32, out: OutSymbolId) -> Outcome {
        if let Some(row) = query.row {
            if row.kept_for_constants() || row.needs_function() {
                return Outcome::Fatal(DELETED);
            }
            if row.is_pc_relative() {
                return Outcome::Fatal(Message::Internal { what: PC_RELATIVE });
            }
        }
        let address = self.shared.address(index, query.place.function);
        let known = self.shared.is_extern_of(index, query.place.function);
        let named = match self.merged.draft.symbols[out].dropped {
            _ if known || !self.preserve => Named::Nothing,
            false => Named::Symbol(out),
            // nvlink deletes such symbols of a pool and then looks for them.
            true if self.shared.has_pool() => return Outcome::Fatal(DELETED),
            true => Named::Nothing,
        };
        query.patched(address, 0, named)
    }
}

const DELETED: Message = Message::Internal { what: "reference to deleted symbol" };

const PC_RELATIVE: &str = "PC relative branch address should be in the same section";

/// A symbol in a constant bank, at `value` bytes.
fn constant(query: &Query<'_, '_>, value: u64, bank: u8, out: Option<OutSymbolId>) -> Outcome {
    if let Some(row) = query.row {
        if row.kept_for_constants() {
            return match out {
                Some(out) => Outcome::Kept(out),
                None => Outcome::Fatal(query.bad("its type needs a symbol that the output has")),
            };
        }
        if row.needs_function() {
            let what = "its type describes a function, but its symbol is a constant";
            return Outcome::Fatal(query.bad(what));
        }
        if row.is_pc_relative() {
            return Outcome::Fatal(Message::Internal { what: PC_RELATIVE });
        }
    }
    query.patched(value, bank, Named::by(out))
}

/// What all records of one relocation section share.
struct PlaceContext {
    target: SectionId,
    /// The function whose code is patched.
    function: Option<NodeId>,
    /// The section is a table of code addresses, whose records about lost copies are void.
    is_line_table: bool,
    is_constant: bool,
}

/// One record on its way.
struct Query<'q, 'd> {
    place: &'q PlaceContext,
    source: &'q RelocSource,
    object: &'q Object<'d>,
    record: RelocEntry,
    row: Option<&'static RelocDesc>,
    write: Write,
}

impl Query<'_, '_> {
    /// The value of a symbol at `address`, with the addend that the record carries.
    fn value(&self, address: u64, bank: u8) -> Value {
        Value { address: address.wrapping_add_signed(self.record.addend), bank }
    }

    fn patched(&self, address: u64, bank: u8, named: Named) -> Outcome {
        Outcome::Patched(Patched { value: self.value(address, bank), named, base: 0 })
    }

    fn bad(&self, what: &str) -> Message {
        let section = self.object.section(self.source.section).name;
        Message::BadRelocation {
            file: self.object.name.to_owned(),
            section: String::from_utf8_lossy(section).into_owned(),
            offset: self.record.offset,
            what: format!("{}: {what}", culd_reloc::RelocType(self.record.kind)),
        }
    }
}
