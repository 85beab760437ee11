//! What one record comes to: dropped, kept for the driver, or applied with a value.
//!
//! In: the record, its type's row, its symbol and where that is in the output. Out: an [`Outcome`].
//! Guaranteed: nothing is written here; a cell of the table in docs/LINKING.md, relocations, that culd does
//! not link is a [`Outcome::Fatal`] that names file, section and offset.

use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{RelocEntry, SectionIndex, Symbol, SymbolSection};
use culd_reloc::{Observed, Reference, RelocDesc, Value};

use super::{Resolver, Write};
use crate::capsule::Half;
use crate::constants;
use crate::diag::Message;
use crate::draft::{Kind, RelocSource};
use crate::id::{NodeId, OutSymbolId, SectionId, SymbolId};
use crate::merge::{Placed, Target};
use crate::objects::{Object, is_internal, is_unified_table};
use crate::symbols::space;

/// What a record comes to.
pub(super) enum Outcome {
    Dropped,
    Kept(OutSymbolId),
    /// Kept for a section symbol, from where this file's part of the section starts.
    KeptFrom(OutSymbolId, u64),
    Patched(Patched),
    Fatal(Message),
}

/// Whether and how an applied record is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named {
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
pub(super) struct Patched {
    /// V, S alone where the addend is in the place.
    pub(super) value: Value,
    /// What `.nv.resolvedrela` says of it, and where that file's part of what is named starts.
    pub(super) named: Named,
    pub(super) base: u64,
}

impl<'d> Resolver<'_, 'd> {
    pub(super) fn outcome(&self, query: &Query<'_, 'd>) -> Outcome {
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
            return query.patched(self.merged.draft.null_value(), 0, named);
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
        let named = Named::by(output.symbol);
        if self.half == Half::Sass && self.rebuilt.contains(section) {
            return self.rebuilt_place(query, index, section, named);
        }
        let base = match self.half {
            Half::Sass => base,
            Half::Mercury => self.merged.twin_base(query.source.object, index, base),
        };
        if let (Some(row), Some(symbol)) = (query.row, output.symbol)
            && row.kept_for_constants()
        {
            return Outcome::KeptFrom(symbol, base);
        }
        Outcome::Patched(Patched { value: query.value(base, 0), named, base })
    }

    /// A place in a section of machine code that is made anew: 0 for what is left out. What entries of
    /// `.debug_frame` say of each other was set when they were placed.
    fn rebuilt_place(
        &self,
        query: &Query<'_, 'd>,
        index: SectionIndex,
        section: SectionId,
        named: Named,
    ) -> Outcome {
        if self.rebuilt.is_frames(section) && query.place.target == section {
            return Outcome::Dropped;
        }
        let offset = query.record.addend as u64;
        let address = self.rebuilt.offset(query.source.object, index, offset).unwrap_or(0);
        Outcome::Patched(Patched { value: Value { address, bank: 0 }, named, base: 0 })
    }

    fn symbol(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>, out: OutSymbolId) -> Outcome {
        // Without unified tables these names mean nothing; the place keeps its bytes. One of them,
        // which ptxas uses for all indirect calls, needs unified functions (case unified/plain).
        let slots = || self.merged.unified.function_ids.is_some();
        let means = |name: &[u8]| self.unified && (name != b"__UFT_OFFSET" || slots());
        if is_unified_table(symbol.name) && !means(symbol.name) {
            return Outcome::Dropped;
        }
        if symbol.is_reference() {
            return self.reference(query, out);
        }
        let draft = &self.merged.draft;
        let entry = &draft.symbols[out];
        if let Some(index) = entry.shared.filter(|_| !self.relocatable()) {
            return self.shared(query, index, out);
        }
        match entry.section {
            Some(section) => self.in_section(query, section, entry.value, Some(out)),
            None => Outcome::Kept(out),
        }
    }

    /// A texture, sampler or surface reference (docs/LINKING.md, textures).
    fn reference(&self, query: &Query<'_, 'd>, out: OutSymbolId) -> Outcome {
        let Some(row) = query.row.filter(|_| !self.relocatable()) else {
            return Outcome::Kept(out);
        };
        if row.is_pc_relative() {
            return Outcome::Fatal(Message::Internal { what: PC_RELATIVE });
        }
        match row.against_reference() {
            Reference::Slot => query.patched(self.slots.offset(out), 0, Named::Nothing),
            Reference::Zero => query.patched(0, 0, Named::Nothing),
            Reference::Kept => Outcome::Kept(out),
            Reference::Unsafe => Outcome::Fatal(
                query.bad("its type means nothing for a texture, sampler or surface reference"),
            ),
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
            Kind::JumpSlots => out.map_or(Outcome::Dropped, Outcome::Kept),
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
pub(super) struct PlaceContext {
    pub(super) target: SectionId,
    /// The function whose code is patched.
    pub(super) function: Option<NodeId>,
    /// The section is a table of code addresses, whose records about lost copies are void.
    pub(super) is_line_table: bool,
    pub(super) is_constant: bool,
    /// The section is code.
    pub(super) is_code: bool,
}

/// One record on its way.
pub(super) struct Query<'q, 'd> {
    pub(super) place: &'q PlaceContext,
    pub(super) source: &'q RelocSource,
    pub(super) object: &'q Object<'d>,
    pub(super) record: RelocEntry,
    pub(super) row: Option<&'static RelocDesc>,
    pub(super) write: Write,
}

impl Query<'_, '_> {
    /// The value of a symbol at `address`, with the addend that the record carries.
    fn value(&self, address: u64, bank: u8) -> Value {
        Value { address: address.wrapping_add_signed(self.record.addend), bank }
    }

    fn patched(&self, address: u64, bank: u8, named: Named) -> Outcome {
        Outcome::Patched(Patched { value: self.value(address, bank), named, base: 0 })
    }

    pub(super) fn bad(&self, what: &str) -> Message {
        let section = self.object.section(self.source.section).name;
        Message::BadRelocation {
            file: self.object.name.to_owned(),
            section: String::from_utf8_lossy(section).into_owned(),
            offset: self.record.offset,
            what: format!("{}: {what}", culd_reloc::RelocType(self.record.kind)),
        }
    }
}
