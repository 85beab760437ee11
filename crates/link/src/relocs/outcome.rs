//! What one record comes to: dropped, kept for the driver, or applied with a value.
//!
//! In: the record, its type's row, its symbol and where that is in the output. Out: an [`Outcome`].
//! Guaranteed: nothing is written here. What a symbol *is* ([`Meaning`]) is found without looking at the type; type
//! and meaning meet in [`Resolver::outcome`] and [`known_place`] only. A cell of the table in docs/LINKING.md,
//! relocations, that culd does not link is an [`Outcome::Fatal`] that names file, section and offset.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{RelocEntry, SectionIndex, Symbol, SymbolSection};
use culd_reloc::{Observed, Reference, RelocDesc, Value};

use super::place::{Origin, PlaceContext};
use super::{Resolver, Write};
use crate::capsule::rebuilt;
use crate::capsule::{Half, SYSTEM_SHARED};
use crate::constants;
use crate::diag::{self, Message};
use crate::draft::Kind;
use crate::id::{OutSymbolId, SectionId, SymbolId};
use crate::merge::{Placed, Target};
use crate::objects::{Role, is_internal, takes_part};
use crate::symbols::space;
use crate::system_names::{is_descriptor_size, is_reserved_shared, is_unified_table};

/// `R_CUDA_NONE`.
const NONE: u32 = 0;

/// What a record comes to.
pub(super) enum Outcome {
    Dropped,
    /// It stays, with the type and the symbol told.
    Kept(Stays),
    Patched(Patched),
    Fatal(Box<Message>),
}

impl Outcome {
    /// With what the record stays, if it does.
    pub(super) fn kept(&self) -> Option<Stays> {
        match self {
            Outcome::Kept(stays) => Some(*stays),
            _ => None,
        }
    }
}

/// A record that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stays {
    /// `None` for symbol 0.
    pub(super) symbol: Option<OutSymbolId>,
    /// Where that file's part of what the symbol names starts; goes into the addend.
    pub(super) base: u64,
    pub(super) kind: u32,
    /// What is left in its place.
    pub(super) holder: Option<(&'static RelocDesc, Value)>,
}

/// A record that is applied.
pub(super) struct Patched {
    pub(super) row: &'static RelocDesc,
    /// V, S alone where the addend is in the place.
    pub(super) value: Value,
    pub(super) write: Write,
    /// What `.nv.resolvedrela` says of it, and where that file's part of what is named starts.
    pub(super) named: Named,
    pub(super) base: u64,
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

/// What a symbol is to the linker, whatever the type of the record that names it.
pub(super) enum Meaning {
    /// Gone, and records about it go too.
    Gone,
    /// A function, whose address only the driver knows.
    Function(OutSymbolId),
    /// A function that is not called and not defined; it is not in the output.
    Uncalled,
    /// A place in global memory, whose address only the driver knows: `base` bytes behind the symbol.
    Address { symbol: OutSymbolId, base: u64 },
    /// A name of the system's: a part of shared memory, the size of a descriptor.
    Reserved(OutSymbolId),
    /// A texture, sampler or surface reference.
    Reference(OutSymbolId),
    /// A place that the linker knows.
    Known(Known),
    /// The record cannot be resolved, whatever its type.
    Fatal(Box<Message>),
}

/// A place that the linker knows.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// S.
    address: u64,
    /// The constant bank that it is in.
    bank: Option<u8>,
    /// What records that have to stay name.
    symbol: Anchor,
    /// Where that file's part of what is named starts; part of `address`.
    base: u64,
    /// What `.nv.resolvedrela` says.
    named: Named,
}

/// What a record about a known place can name in the output.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Symbol(OutSymbolId),
    Null,
    /// A symbol that is only there because of `--preserve-relocs`.
    Told(OutSymbolId),
    /// Its symbol was deleted.
    Deleted,
    /// A section that is not in the output under its name.
    Nothing,
}

impl<'d> Resolver<'_, 'd> {
    /// A cell of the table in docs/LINKING.md, relocations.
    pub(super) fn outcome(&self, query: &Query<'_, 'd>) -> Outcome {
        let observed = query.row.map(|row| row.observed);
        let stays =
            |symbol, base| Outcome::Kept(Stays { symbol, base, kind: query.kind(), holder: None });
        if self.half == Half::Mercury && observed == Some(Observed::Rejected) {
            return Outcome::Fatal(Box::new(UNEXPECTED_MERCURY));
        }
        match self.meaning(query) {
            Meaning::Gone if observed == Some(Observed::FunctionOnly) => {
                Outcome::Fatal(query.bad(NO_FUNCTION))
            }
            Meaning::Uncalled if observed == Some(Observed::Clears) => query.cleared(),
            Meaning::Gone | Meaning::Uncalled => Outcome::Dropped,
            Meaning::Fatal(problem) => Outcome::Fatal(problem),
            Meaning::Function(symbol) => match observed {
                Some(Observed::NoEffect | Observed::Clears) => Outcome::Dropped,
                _ => stays(Some(symbol), 0),
            },
            // A record of nothing is left behind.
            Meaning::Reserved(_) | Meaning::Address { .. }
                if observed == Some(Observed::Clears)
                    && query.names_system()
                    && self.merged.draft.flavour == Flavour::Classic =>
            {
                Outcome::Kept(Stays { symbol: None, base: 0, kind: NONE, holder: None })
            }
            Meaning::Reserved(_) if observed == Some(Observed::Clears) => Outcome::Dropped,
            Meaning::Reserved(_) if observed == Some(Observed::FunctionOnly) => {
                Outcome::Fatal(query.bad(NO_FUNCTION))
            }
            Meaning::Reserved(symbol) => stays(Some(symbol), 0),
            Meaning::Reference(symbol) => self.reference(query, symbol),
            Meaning::Address { symbol, base } => match observed {
                Some(Observed::FunctionOnly) => Outcome::Fatal(query.bad(NO_FUNCTION)),
                _ => stays(Some(symbol), base),
            },
            Meaning::Known(_) if query.names_wrong_slot() => {
                Outcome::Fatal(query.bad("its type numbers a slot, but its symbol is no texture"))
            }
            Meaning::Known(known) => known_place(query, known),
        }
    }

    /// A texture, sampler or surface reference (docs/LINKING.md, textures).
    fn reference(&self, query: &Query<'_, 'd>, out: OutSymbolId) -> Outcome {
        let kept =
            Outcome::Kept(Stays { symbol: Some(out), base: 0, kind: query.kind(), holder: None });
        let Some(row) = query.row else { return kept };
        if self.relocatable() {
            return self.unresolved_reference(query, out, row);
        }
        let patched = |address| {
            let (value, write) = (query.value(address, 0), query.write);
            Outcome::Patched(Patched { row, value, write, named: Named::Nothing, base: 0 })
        };
        if row.is_pc_relative() {
            return Outcome::Fatal(Box::new(PC_RELATIVE));
        }
        let read = culd_reloc::lookup(query.record.kind).unwrap_or(row);
        match read.against_reference() {
            Reference::Slot => patched(self.slots.value(out, self.half, row)),
            Reference::Zero => patched(0),
            Reference::Kept => kept,
            Reference::Unsafe => Outcome::Fatal(
                query.bad("its type means nothing for a texture, sampler or surface reference"),
            ),
        }
    }

    /// The same in an object: the record stays, and machine code beside Mercury has something in its place.
    fn unresolved_reference(
        &self,
        query: &Query<'_, 'd>,
        out: OutSymbolId,
        row: &'static RelocDesc,
    ) -> Outcome {
        let slot = row.against_reference() == Reference::Slot
            && self.half == Half::Sass
            && query.place.is_code;
        let held = self.slots.place_holder(row).filter(|_| slot);
        let holder = held.map(|address| (row, query.value(address, 0)));
        Outcome::Kept(Stays { symbol: Some(out), base: 0, kind: query.kind(), holder })
    }

    fn meaning(&self, query: &Query<'_, 'd>) -> Meaning {
        let (id, record) = (query.origin.source.object, query.record);
        let symbol = query.origin.object.symbol(record.symbol);
        if symbol.kind() == stt::SECTION {
            return self.section_symbol(query, symbol);
        }
        if !takes_part(symbol) {
            return self.label(query, symbol);
        }
        let Some(program) = self.symbols.of(id, record.symbol) else { return Meaning::Gone };
        if is_internal(symbol) && symbol.defined_in().is_none() && !self.relocatable() {
            return self.system_value(query, symbol);
        }
        let dead = symbol.is_function() && self.graph.node(program).is_none();
        if dead && self.symbols.all[program].definition.is_none() {
            return Meaning::Uncalled;
        }
        let void = symbol.is_function() && self.is_void(query, program);
        if dead || void || self.is_forgotten(query, symbol, program) {
            return Meaning::Gone;
        }
        match self.merged.targets[program] {
            // The shared memory of a kernel that is left out is nowhere (case debug/shared-of-unused).
            Target::None if symbol.is_shared() && symbol.defined_in().is_some() => {
                Meaning::Known(Known::at(u64::MAX, Anchor::Deleted))
            }
            Target::None => Meaning::Gone,
            Target::Internal { placed, value } => match placed {
                Placed::At { section, base } => self.in_section(section, base + value, None),
                Placed::Bank(bank) => {
                    let bank = &self.merged.banks[bank];
                    Meaning::Known(Known::in_bank(bank.offset + value, bank.number, None))
                }
                Placed::No | Placed::Lost(_) | Placed::Waiting => Meaning::Gone,
            },
            Target::Symbol(out) => self.symbol(query, symbol, out),
        }
    }

    /// Records about a function in tables of addresses, read before its copy was replaced.
    fn is_void(&self, query: &Query<'_, 'd>, program: SymbolId) -> bool {
        if !query.place.has_void_records {
            return false;
        }
        let replaced_by = match query.write {
            Write::Set => self.merged.void_debug.get(&program),
            _ => self.merged.void_rel.get(&(program, query.place.target)),
        };
        replaced_by.is_some_and(|&by| query.origin.source.object < by)
    }

    /// The same defect as in [`VoidRecords::contains`]: constants forget global variables
    /// that are replaced by a later file.
    fn is_forgotten(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>, program: SymbolId) -> bool {
        let info = &self.symbols.all[program];
        query.place.is_constant
            && !symbol.is_function()
            && space(symbol) == sto::SPACE_GLOBAL
            && info.replaced
            && info.definition.is_some_and(|site| query.origin.source.object < site.object)
    }

    /// A symbol without type: a label of debug information. nvlink takes one that ptxas forgot to
    /// define for symbol 0. That it takes all others for it too is no example to follow
    /// (docs/DIFFERENCES.md, bad-relocation).
    fn label(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>) -> Meaning {
        let in_frames = self.half == Half::Mercury && self.rebuilt.is_frames(query.place.target);
        if in_frames && query.record.symbol.0 == 0 {
            return Meaning::Fatal(query.bad("it names no symbol"));
        }
        if symbol.section == SymbolSection::Undefined && symbol.binding() == stb::LOCAL {
            let known = Known::at(self.merged.draft.null_value(), Anchor::Null);
            return Meaning::Known(Known { named: Named::Null, ..known });
        }
        Meaning::Fatal(query.bad("its symbol has no type"))
    }

    /// A number that ptxas leaves for the linker to fill in, as a symbol that no file defines.
    fn system_value(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>) -> Meaning {
        if symbol.name != constants::SIZE_SYMBOL {
            return Meaning::Fatal(query.bad("its symbol is local and undefined"));
        }
        Meaning::Known(Known::at(
            self.constants_size.unwrap_or(constants::NO_BANK),
            Anchor::Deleted,
        ))
    }

    /// A section symbol: the part that this file's section became. One whose section is not in the
    /// output is 0 (case relocations/section-symbols-90).
    fn section_symbol(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>) -> Meaning {
        let Some(index) = symbol.defined_in() else {
            return Meaning::Known(Known { named: Named::Null, ..Known::at(0, Anchor::Null) });
        };
        let placed = self.merged.placed(query.origin.source.object, index);
        let Placed::At { section, base } = placed else {
            return match query.origin.object.role(index) {
                Role::Text if matches!(placed, Placed::Lost(_)) => self.code_of_winner(placed),
                Role::Text => Meaning::Known(Known::at(0, Anchor::Deleted)),
                Role::Constant(_) | Role::OwnShared | Role::PoolShared => {
                    Meaning::Known(Known::at(0, Anchor::Nothing))
                }
                _ => Meaning::Fatal(query.bad("its symbol is a section that the linker rewrites")),
            };
        };
        let output = &self.merged.draft.sections[section];
        // What entries of `.debug_frame` say of each other was set when they were placed. Whatever else names a place
        // among them, which no compiler does, means Mercury's in both halves (`xtask probe --place twin`).
        let frames = self.rebuilt.is_frames(section);
        if self.half == Half::Sass && frames && query.place.target == section {
            return Meaning::Gone;
        }
        if self.half == Half::Sass && self.rebuilt.is_lines(section) {
            return self.rebuilt_place(query, index, output.symbol);
        }
        let base = match self.half {
            Half::Sass if !frames => base,
            _ => self.merged.twin_base(query.origin.source.object, index, base),
        };
        let symbol = output.symbol.map_or(Anchor::Nothing, Anchor::Symbol);
        let known = Known { base, named: Named::by(output.symbol), ..Known::at(base, symbol) };
        match output.kind {
            Kind::Constant(_) if self.relocatable() => {
                output.symbol.map_or(Meaning::Gone, |symbol| Meaning::Address { symbol, base })
            }
            Kind::Constant(bank) => Meaning::Known(Known { bank: Some(bank), ..known }),
            Kind::Global | Kind::GlobalInit | Kind::UnifiedData => {
                output.symbol.map_or(Meaning::Gone, |symbol| Meaning::Address { symbol, base })
            }
            Kind::Shared | Kind::PoolShared
                if !self.relocatable() && (output.dropped || output.kind == Kind::PoolShared) =>
            {
                Meaning::Known(Known { symbol: Anchor::Nothing, ..known })
            }
            _ => Meaning::Known(known),
        }
    }

    /// The section symbol of code that lost is that of the copy that counts (case weak/section-of-loser-86).
    fn code_of_winner(&self, placed: Placed) -> Meaning {
        let draft = &self.merged.draft;
        let code = match placed {
            Placed::Lost(function) => draft.symbols[function].section,
            _ => None,
        };
        let symbol = code.and_then(|code| draft.sections[code].symbol);
        Meaning::Known(Known::at(0, symbol.map_or(Anchor::Deleted, Anchor::Symbol)))
    }

    /// A place in a table of lines of machine code, which is made anew: 0 for what is left out.
    fn rebuilt_place(
        &self,
        query: &Query<'_, 'd>,
        index: SectionIndex,
        symbol: Option<OutSymbolId>,
    ) -> Meaning {
        let addend = query.record.addend as u64;
        let pieces = self.rebuilt.pieces(query.origin.source.object, index);
        let place = rebuilt::moved(pieces, addend).unwrap_or(0);
        let address = place.wrapping_sub(addend);
        // With -r the unit's place is one in this object only (case debug/mixed with -r).
        if let Some(symbol) = symbol.filter(|_| self.relocatable()) {
            return Meaning::Address { symbol, base: address };
        }
        Meaning::Known(Known { named: Named::by(symbol), ..Known::at(address, Anchor::Nothing) })
    }

    fn symbol(&self, query: &Query<'_, 'd>, symbol: &Symbol<'d>, out: OutSymbolId) -> Meaning {
        // Without unified tables these names mean nothing; the place keeps its bytes. One of them,
        // which ptxas uses for all indirect calls, needs unified functions (case unified/plain).
        let slots = || self.merged.unified.function_ids.is_some();
        let is_offset = symbol.name == b"__UFT_OFFSET";
        if is_unified_table(symbol.name) {
            let describes = |row: &RelocDesc| row.observed == Observed::FunctionOnly;
            return if query.row.is_some_and(describes) {
                Meaning::Fatal(query.bad(NO_FUNCTION))
            } else if self.unified && (!is_offset || slots()) {
                Meaning::Address { symbol: out, base: 0 }
            } else if query.wants_unified() && !is_offset {
                Meaning::Fatal(Box::new(DELETED))
            } else {
                Meaning::Gone
            };
        }
        if symbol.is_reference() {
            return Meaning::Reference(out);
        }
        let shared = self.merged.draft.symbols[out].shared;
        if let Some(index) = shared.filter(|_| !self.relocatable()) {
            return self.shared(query, index, out);
        }
        self.ordinary(symbol, out)
    }

    /// A symbol of the output that is neither special nor shared, which no record tells anything about.
    pub(super) fn ordinary(&self, symbol: &Symbol<'d>, out: OutSymbolId) -> Meaning {
        let entry = &self.merged.draft.symbols[out];
        match entry.section {
            Some(section) => self.in_section(section, entry.value, Some(out)),
            None if symbol.is_function() => Meaning::Function(out),
            None => self.undefined(symbol, out),
        }
    }

    /// A variable that no file defines. nvlink leaves those in global memory to the driver; all others
    /// are -1 (docs/LINKING.md, relocations).
    fn undefined(&self, symbol: &Symbol<'d>, out: OutSymbolId) -> Meaning {
        if is_reserved_shared(symbol.name) || is_descriptor_size(symbol.name) {
            return Meaning::Reserved(out);
        }
        if space(symbol) == sto::SPACE_GLOBAL || self.relocatable() {
            return Meaning::Address { symbol: out, base: 0 };
        }
        Meaning::Known(Known::at(u64::MAX, Anchor::Symbol(out)))
    }

    /// A symbol at `value` of an output section.
    fn in_section(&self, section: SectionId, value: u64, out: Option<OutSymbolId>) -> Meaning {
        let output = &self.merged.draft.sections[section];
        match output.kind {
            Kind::Constant(bank) if !self.relocatable() => {
                Meaning::Known(Known::in_bank(value, bank, out))
            }
            // An alias stands for the function whose code it names.
            Kind::Text => output.function.or(out).map_or(Meaning::Gone, Meaning::Function),
            Kind::JumpSlots => out.map_or(Meaning::Gone, Meaning::Function),
            // The system's part of shared memory is laid out here, in Mercury later (case attributes/tensor-memory).
            Kind::ReservedShared if self.half == Half::Sass && !self.relocatable() => {
                let symbol = out.map_or(Anchor::Nothing, Anchor::Symbol);
                let known = Known::at(value + SYSTEM_SHARED, symbol);
                Meaning::Known(Known { named: Named::by(out), ..known })
            }
            _ => {
                let address = |symbol| Meaning::Address { symbol, base: 0 };
                out.or(output.symbol).map_or(Meaning::Gone, address)
            }
        }
    }

    fn shared(&self, query: &Query<'_, 'd>, index: u32, out: OutSymbolId) -> Meaning {
        let address = self.shared.address(index, query.place.function);
        let known = self.shared.is_extern_of(index, query.place.function);
        let named = match self.merged.draft.symbols[out].dropped {
            _ if known || !self.preserve => Named::Nothing,
            false => Named::Symbol(out),
            // nvlink deletes such symbols of a pool and then looks for them.
            true if self.shared.has_pool() => return Meaning::Fatal(Box::new(DELETED)),
            true => Named::Nothing,
        };
        // Most have symbols with -g and --preserve-relocs.
        let symbol = match self.merged.draft.symbols[out].dropped {
            true => Anchor::Deleted,
            false if self.debug => Anchor::Symbol(out),
            false => Anchor::Told(out),
        };
        Meaning::Known(Known { named, ..Known::at(address, symbol) })
    }
}

impl Known {
    /// A place at `address` of something that is no constant bank.
    fn at(address: u64, symbol: Anchor) -> Self {
        Known { address, bank: None, symbol, base: 0, named: Named::Nothing }
    }

    /// A symbol in a constant bank.
    fn in_bank(address: u64, bank: u8, out: Option<OutSymbolId>) -> Self {
        let symbol = out.map_or(Anchor::Deleted, Anchor::Symbol);
        Known { bank: Some(bank), named: Named::by(out), ..Known::at(address, symbol) }
    }
}

/// A record about a place that the linker knows: its type decides.
fn known_place(query: &Query<'_, '_>, known: Known) -> Outcome {
    let Known { address, bank, symbol, base, named } = known;
    let Some(row) = query.row else { return Outcome::Fatal(Box::new(UNEXPECTED)) };
    match row.observed {
        Observed::FunctionOnly => return Outcome::Fatal(query.bad(NO_FUNCTION)),
        Observed::SameSection => return Outcome::Fatal(Box::new(PC_RELATIVE)),
        Observed::Rejected => return Outcome::Fatal(Box::new(UNEXPECTED)),
        // Only with -r there are types to be rewritten later.
        Observed::Kept | Observed::Rewritten => {
            let symbol = match symbol {
                Anchor::Symbol(symbol) | Anchor::Told(symbol) => Some(symbol),
                Anchor::Null => None,
                Anchor::Deleted | Anchor::Nothing => return Outcome::Fatal(Box::new(DELETED)),
            };
            return Outcome::Kept(Stays { symbol, base, kind: query.kind(), holder: None });
        }
        Observed::Clears if matches!(symbol, Anchor::Deleted | Anchor::Told(_)) => {
            let value = Value::default();
            return Outcome::Patched(Patched { row, value, write: Write::Clear, named, base });
        }
        Observed::NoEffect | Observed::Bits | Observed::Ignored | Observed::Clears => {}
    }
    if bank.is_none() && row.has_bank() {
        return Outcome::Fatal(
            query.bad("its type needs a constant bank, but its symbol is in none"),
        );
    }
    let value = query.value(address, bank.unwrap_or_default());
    // What changes nothing is not told (docs/LINKING.md, --preserve-relocs).
    let named = if row.observed == Observed::Bits { named } else { Named::Nothing };
    Outcome::Patched(Patched { row, value, write: query.write, named, base })
}

const DELETED: Message = Message::Internal { what: diag::DELETED };

const PC_RELATIVE: Message =
    Message::Internal { what: "PC relative branch address should be in the same section" };

const UNEXPECTED: Message = Message::Internal { what: "unexpected NVRS" };

/// The same in Mercury's sections, whatever the symbol is (`xtask probe --arch 100 --type 0x10000`).
const UNEXPECTED_MERCURY: Message = Message::Internal { what: "unexpected reloc" };

const NO_FUNCTION: &str = "its type describes a function, but its symbol is none";

/// One record on its way.
pub(super) struct Query<'q, 'd> {
    pub(super) place: &'q PlaceContext,
    pub(super) origin: &'q Origin<'q, 'd>,
    pub(super) record: RelocEntry,
    pub(super) row: Option<&'static RelocDesc>,
    pub(super) write: Write,
}

impl Query<'_, '_> {
    /// The value of a symbol at `address`, with the addend that the record carries.
    fn value(&self, address: u64, bank: u8) -> Value {
        Value { address: address.wrapping_add_signed(self.record.addend), bank }
    }

    /// The place about something that is not in the output.
    fn cleared(&self) -> Outcome {
        let Some(row) = self.row else { return Outcome::Dropped };
        let (value, named) = (Value::default(), Named::Nothing);
        Outcome::Patched(Patched { row, value, write: Write::Clear, named, base: 0 })
    }

    /// True for records about names that the system defines.
    fn names_system(&self) -> bool {
        let name = self.origin.object.symbol(self.record.symbol).name;
        is_reserved_shared(name) || is_unified_table(name)
    }

    /// Slots belong to textures; nvlink takes the alignment of a shared variable, and 0 for a constant, for one.
    fn names_wrong_slot(&self) -> bool {
        let symbol = self.origin.object.symbol(self.record.symbol);
        let variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
        variable && self.row.is_some_and(RelocDesc::has_slot)
    }

    /// Types that nvlink wants to keep without a unified table to keep them for (`xtask probe --symbol udt`).
    fn wants_unified(&self) -> bool {
        let row = culd_reloc::lookup(self.record.kind);
        row.is_some_and(|row| matches!(row.observed, Observed::NoEffect | Observed::Rewritten))
    }

    /// The type with which the record stays.
    fn kind(&self) -> u32 {
        self.row.map_or(self.record.kind, |row| row.code.0)
    }

    /// The name of the section that the record is in.
    fn section(&self) -> &[u8] {
        self.origin.object.section(self.origin.source.section).name
    }

    pub(super) fn bad(&self, what: &str) -> Box<Message> {
        Box::new(Message::BadRelocation {
            file: self.origin.object.name.to_owned(),
            section: String::from_utf8_lossy(self.section()).into_owned(),
            offset: self.record.offset,
            what: format!("{}: {what}", culd_reloc::RelocType(self.record.kind)),
        })
    }

    /// What is wrong if `value` loses bits in the fields, where nvlink cuts it without a word
    /// (docs/DIFFERENCES.md, relocation-overflow).
    pub(super) fn overflow(&self, patched: &Patched) -> Option<Message> {
        let &Patched { row, value, write, .. } = patched;
        let bytes = self.origin.object.section(self.origin.source.target).data;
        let fits = match write {
            Write::Add => row.fits_added(bytes, self.record.offset as usize, value).unwrap_or(true),
            Write::Set => row.fits(value),
            Write::Clear => true,
        };
        let bits = row.address_bits().filter(|_| !fits)?;
        let symbol = self.origin.object.symbol(self.record.symbol);
        let name = match symbol.defined_in().filter(|_| symbol.kind() == stt::SECTION) {
            Some(section) => self.origin.object.section(section).name,
            None => symbol.name,
        };
        Some(Message::RelocationOverflow {
            file: self.origin.object.name.to_owned(),
            section: String::from_utf8_lossy(self.section()).into_owned(),
            offset: self.record.offset,
            kind: row.code,
            symbol: String::from_utf8_lossy(name).into_owned(),
            value: value.address,
            low: bits.start,
            high: bits.end - 1,
        })
    }
}
