//! The resolution of one record: dropped, kept for the driver, or applied with a value.
//!
//! In: the record, the [`RelocDesc`] of its type, its symbol and where that is in the output. Out:
//! a [`Resolution`]. Guaranteed: nothing is written here. [`ResolvedSymbol`] is found without the
//! type. Symbol and type meet in [`RelocResolver::resolution`] and [`resolve_fixed_address`] only.
//! A cell of the table in docs/LINKING.md, relocations, that culd does not link is a
//! [`Resolution::Fatal`] that names file, section and offset.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{stb, sto, stt};
use culd_cubin::{RelocEntry, SectionIndex, Symbol, SymbolIndex, SymbolSection};
use culd_reloc::{Observed, ReferenceTreatment, RelocDesc, RelocValue};

use super::context::RelocContext;
use super::patch::PatchMode;
use super::place::{InputRecords, PlaceContext};
use super::resolver::RelocResolver;
use crate::base::half::{Half, system_shared};
use crate::base::id::{OutSymbolId, SectionId, SharedId, SymbolId};
use crate::base::system_names::{is_descriptor_size, is_reserved_shared, is_unified_table};
use crate::data::constants;
use crate::diag::{self, Message};
use crate::draft::kind::SectionKind;
use crate::draft::merged::{SectionPlacement, SymbolTarget};
use crate::draft::offset_map;
use crate::objects::roles::{SectionRole, is_internal, takes_part};
use crate::symbols::space;

/// `R_CUDA_NONE`.
const NONE: u32 = 0;

/// The treatment of a record.
pub(super) enum Resolution {
    Dropped,
    /// Kept with this type and symbol.
    Kept(KeptRecord),
    Applied(AppliedRecord),
    Fatal(Box<Message>),
}

impl Resolution {
    /// The kept record, if it is kept.
    pub(super) fn kept_record(&self) -> Option<KeptRecord> {
        match self {
            Resolution::Kept(kept) => Some(*kept),
            _ => None,
        }
    }
}

/// A kept record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptRecord {
    /// `None` for symbol 0.
    pub(super) symbol: Option<OutSymbolId>,
    /// Offset of the file's part in the named section or symbol; added to the addend.
    pub(super) base: u64,
    pub(super) kind: u32,
    /// Value written into the place that the record patches, until the record is resolved.
    pub(super) placeholder: Option<(&'static RelocDesc, RelocValue)>,
}

/// An applied record.
pub(super) struct AppliedRecord {
    pub(super) desc: &'static RelocDesc,
    /// The value; without the addend if that is in the place (REL).
    pub(super) value: RelocValue,
    pub(super) mode: PatchMode,
    /// How `.nv.resolvedrela` lists it. `base` is the offset of the file's part in what it names.
    pub(super) recorded_as: RecordedAs,
    pub(super) base: u64,
}

/// How `.nv.resolvedrela` lists an applied record.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordedAs {
    /// Not listed.
    Nothing,
    /// Against symbol 0.
    Null,
    Symbol(OutSymbolId),
}

impl RecordedAs {
    /// Against `symbol`, if the output has one.
    fn by(symbol: Option<OutSymbolId>) -> Self {
        symbol.map_or(RecordedAs::Nothing, RecordedAs::Symbol)
    }
}

/// The meaning of a symbol, independent of the type of the record against it.
pub(super) enum ResolvedSymbol {
    /// Not in the output; records against it are dropped.
    Gone,
    /// A function; only the driver knows its address.
    Function(OutSymbolId),
    /// A function that is neither called nor defined, and not in the output.
    Uncalled,
    /// A place in global memory, `base` bytes after the symbol; only the driver knows its address.
    Address { symbol: OutSymbolId, base: u64 },
    /// A name of the system: a part of shared memory, or the size of a descriptor.
    Reserved(OutSymbolId),
    /// A texture, sampler or surface reference.
    Reference(OutSymbolId),
    /// A place whose address the linker knows.
    Fixed(FixedAddress),
    /// The record cannot be resolved for any type.
    Fatal(Box<Message>),
}

/// A place whose address the linker knows: in a constant bank, in shared memory, or in a section
/// without addresses.
#[derive(Clone, Copy)]
pub(super) struct FixedAddress {
    /// The address without addend (S).
    address: u64,
    /// Its constant bank, if it is in one.
    bank: Option<u8>,
    /// The symbol of kept records.
    symbol: KeptSymbol,
    /// Offset of the file's part in the named section; included in `address`.
    base: u64,
    /// How `.nv.resolvedrela` lists the record.
    recorded_as: RecordedAs,
}

/// The symbol that a kept record against a [`FixedAddress`] can have.
#[derive(Clone, Copy)]
pub(super) enum KeptSymbol {
    Symbol(OutSymbolId),
    Null,
    /// A symbol that exists only because of `--preserve-relocs`.
    OnlyRecorded(OutSymbolId),
    /// Its symbol was deleted.
    Deleted,
    /// A section that is not in the output under its name.
    Nothing,
}

impl<'d> RelocResolver<'_, 'd> {
    /// Resolves a record by the table in docs/LINKING.md, relocations.
    pub(super) fn resolution(&self, context: &RelocContext<'_, 'd>) -> Resolution {
        let observed = context.desc.map(|desc| desc.observed);
        if self.half == Half::Mercury && observed == Some(Observed::Rejected) {
            return Resolution::Fatal(Box::new(UNEXPECTED_MERCURY));
        }
        if self.drops_yields
            && context.record.symbol == SymbolIndex(0)
            && let Some(desc) = context.desc.filter(|desc| desc.is_yield())
        {
            let (value, mode) = (context.value(0, 0), PatchMode::Hint);
            let recorded_as = RecordedAs::Null;
            return Resolution::Applied(AppliedRecord { desc, value, mode, recorded_as, base: 0 });
        }
        match self.resolved_symbol(context) {
            ResolvedSymbol::Gone if observed == Some(Observed::FunctionOnly) => {
                Resolution::Fatal(context.bad(NO_FUNCTION))
            }
            ResolvedSymbol::Uncalled if observed == Some(Observed::Clears) => context.cleared(),
            ResolvedSymbol::Gone | ResolvedSymbol::Uncalled => Resolution::Dropped,
            ResolvedSymbol::Fatal(problem) => Resolution::Fatal(problem),
            ResolvedSymbol::Function(symbol) => match observed {
                Some(Observed::NoEffect | Observed::Clears) => Resolution::Dropped,
                _ => context.kept(Some(symbol), 0),
            },
            // nvlink keeps a record of type NONE.
            ResolvedSymbol::Reserved(_) | ResolvedSymbol::Address { .. }
                if observed == Some(Observed::Clears)
                    && context.names_system()
                    && self.merged.draft.flavour == Flavour::Classic =>
            {
                Resolution::Kept(KeptRecord {
                    symbol: None,
                    base: 0,
                    kind: NONE,
                    placeholder: None,
                })
            }
            ResolvedSymbol::Reserved(_) if observed == Some(Observed::Clears) => {
                Resolution::Dropped
            }
            ResolvedSymbol::Reserved(_) if observed == Some(Observed::FunctionOnly) => {
                Resolution::Fatal(context.bad(NO_FUNCTION))
            }
            ResolvedSymbol::Reserved(symbol) => context.kept(Some(symbol), 0),
            ResolvedSymbol::Reference(symbol) => self.reference(context, symbol),
            ResolvedSymbol::Address { symbol, base } => match observed {
                Some(Observed::FunctionOnly) => Resolution::Fatal(context.bad(NO_FUNCTION)),
                _ => context.kept(Some(symbol), base),
            },
            ResolvedSymbol::Fixed(_) if context.names_wrong_slot() => Resolution::Fatal(
                context.bad("its type numbers a slot, but its symbol is no texture"),
            ),
            ResolvedSymbol::Fixed(fixed) => resolve_fixed_address(context, fixed),
        }
    }

    /// A record against a texture, sampler or surface reference (docs/LINKING.md, textures).
    fn reference(&self, context: &RelocContext<'_, 'd>, out: OutSymbolId) -> Resolution {
        let kept = || context.kept(Some(out), 0);
        let Some(desc) = context.desc else { return kept() };
        if self.relocatable() {
            return self.unresolved_reference(context, out, desc);
        }
        let applied = |address| {
            let (value, mode) = (context.value(address, 0), context.mode);
            let recorded_as = RecordedAs::Nothing;
            Resolution::Applied(AppliedRecord { desc, value, mode, recorded_as, base: 0 })
        };
        if desc.is_pc_relative() {
            return Resolution::Fatal(Box::new(PC_RELATIVE));
        }
        let read = culd_reloc::lookup(context.record.kind).unwrap_or(desc);
        match read.against_reference() {
            ReferenceTreatment::Slot => applied(self.slots.value(out, self.half, desc)),
            ReferenceTreatment::Zero => applied(0),
            ReferenceTreatment::Kept => kept(),
            ReferenceTreatment::Unsafe => Resolution::Fatal(
                context.bad("its type means nothing for a texture, sampler or surface reference"),
            ),
        }
    }

    /// As [`RelocResolver::reference`] with `-r`: the record is kept, and in files with a Mercury
    /// half a value is written into machine code.
    fn unresolved_reference(
        &self,
        context: &RelocContext<'_, 'd>,
        out: OutSymbolId,
        desc: &'static RelocDesc,
    ) -> Resolution {
        let is_slot = desc.against_reference() == ReferenceTreatment::Slot
            && self.half == Half::Sass
            && context.place.is_code;
        let address = self.slots.placeholder(desc).filter(|_| is_slot);
        let placeholder = address.map(|address| (desc, context.value(address, 0)));
        let (symbol, kind) = (Some(out), context.kind());
        Resolution::Kept(KeptRecord { symbol, base: 0, kind, placeholder })
    }

    fn resolved_symbol(&self, context: &RelocContext<'_, 'd>) -> ResolvedSymbol {
        let (id, record) = (context.input.source.object, context.record);
        let symbol = context.input.object.symbol(record.symbol);
        if symbol.kind() == stt::SECTION {
            return self.section_symbol(context, symbol);
        }
        if !takes_part(symbol) {
            return self.label(context, symbol);
        }
        let Some(program) = self.symbols.of(id, record.symbol) else { return ResolvedSymbol::Gone };
        if is_internal(symbol) && symbol.defined_in().is_none() && !self.relocatable() {
            return self.system_value(context, symbol);
        }
        let dead = symbol.is_function() && self.graph.node(program).is_none();
        if dead && self.symbols.all[program].definition.is_none() {
            return ResolvedSymbol::Uncalled;
        }
        let discarded = symbol.is_function() && self.is_discarded(context, program);
        if dead || discarded || self.names_replaced_variable(context, symbol, program) {
            return ResolvedSymbol::Gone;
        }
        match self.merged.targets[program] {
            // The shared memory of a dropped kernel has no address (case debug/shared-of-unused).
            SymbolTarget::None if symbol.is_shared() && symbol.defined_in().is_some() => {
                ResolvedSymbol::Fixed(FixedAddress::at(u64::MAX, KeptSymbol::Deleted))
            }
            SymbolTarget::None => ResolvedSymbol::Gone,
            SymbolTarget::Internal { placement: placed, value } => match placed {
                SectionPlacement::At { section, base } => {
                    self.in_section(section, base + value, None)
                }
                SectionPlacement::Bank(bank) => {
                    let bank = &self.merged.banks[bank];
                    ResolvedSymbol::Fixed(FixedAddress::in_bank(
                        bank.offset + value,
                        bank.number,
                        None,
                    ))
                }
                SectionPlacement::Dropped
                | SectionPlacement::Lost(_)
                | SectionPlacement::LosersLiterals => self.left_out_literal(context, symbol),
            },
            SymbolTarget::Symbol(out) => self.symbol(context, symbol, out),
        }
    }

    /// A literal or parameter of a function that is not in the output, or of a copy that was
    /// replaced: nvlink takes its place in the bank of its own file (case
    /// relocations/left-out-literals-75).
    fn left_out_literal(
        &self,
        context: &RelocContext<'_, 'd>,
        symbol: &Symbol<'d>,
    ) -> ResolvedSymbol {
        let role = symbol.defined_in().map(|section| context.input.object.role(section));
        match role {
            Some(SectionRole::Constant(bank)) if !self.relocatable() => {
                ResolvedSymbol::Fixed(FixedAddress::in_bank(symbol.value, bank, None))
            }
            _ => ResolvedSymbol::Gone,
        }
    }

    /// True for a record of an address table that was read before the copy of its function was
    /// replaced.
    fn is_discarded(&self, context: &RelocContext<'_, 'd>, program: SymbolId) -> bool {
        if !context.place.has_discarded_records {
            return false;
        }
        let replaced_by = match context.mode {
            PatchMode::Set => self.merged.discarded_debug.get(&program),
            _ => self.merged.discarded_rel.get(&(program, context.place.target)),
        };
        replaced_by.is_some_and(|&by| context.input.source.object < by)
    }

    /// nvlink discards records of constants against a global variable that a later file replaces,
    /// as in [`crate::symbols::discarded::DiscardedRecords::contains`].
    fn names_replaced_variable(
        &self,
        context: &RelocContext<'_, 'd>,
        symbol: &Symbol<'d>,
        program: SymbolId,
    ) -> bool {
        let info = &self.symbols.all[program];
        context.place.is_constant
            && !symbol.is_function()
            && space(symbol) == sto::SPACE_GLOBAL
            && info.replaced
            && info.definition.is_some_and(|site| context.input.source.object < site.object)
    }

    /// A symbol without type: a label of debug information. If ptxas forgot to define it, nvlink
    /// resolves it to symbol 0, and so does culd. nvlink does so for all other labels too; culd
    /// refuses these (docs/DIFFERENCES.md, bad-relocation).
    fn label(&self, context: &RelocContext<'_, 'd>, symbol: &Symbol<'d>) -> ResolvedSymbol {
        let in_frames = self.half == Half::Mercury && self.rebuilt.is_frames(context.place.target);
        if in_frames && context.record.symbol.0 == 0 {
            return ResolvedSymbol::Fatal(context.bad("it names no symbol"));
        }
        if symbol.section == SymbolSection::Undefined && symbol.binding() == stb::LOCAL {
            let null = FixedAddress::at(self.merged.draft.null_value(), KeptSymbol::Null);
            return ResolvedSymbol::Fixed(null.recorded_as(RecordedAs::Null));
        }
        ResolvedSymbol::Fatal(context.bad("its symbol has no type"))
    }

    /// A number that the linker computes; ptxas refers to it by a symbol that no file defines.
    fn system_value(&self, context: &RelocContext<'_, 'd>, symbol: &Symbol<'d>) -> ResolvedSymbol {
        if symbol.name != constants::SIZE_SYMBOL {
            return ResolvedSymbol::Fatal(context.bad("its symbol is local and undefined"));
        }
        ResolvedSymbol::Fixed(FixedAddress::at(
            self.constants_size.unwrap_or(constants::NO_BANK),
            KeptSymbol::Deleted,
        ))
    }

    /// A section symbol: the place of this file's part of the section; 0 for a section that is not
    /// in the output (case relocations/section-symbols-90).
    fn section_symbol(
        &self,
        context: &RelocContext<'_, 'd>,
        symbol: &Symbol<'d>,
    ) -> ResolvedSymbol {
        let Some(index) = symbol.defined_in() else {
            let null = FixedAddress::at(0, KeptSymbol::Null);
            return ResolvedSymbol::Fixed(null.recorded_as(RecordedAs::Null));
        };
        let placed = self.merged.placement(context.input.source.object, index);
        let SectionPlacement::At { section, base } = placed else {
            return self.unplaced_section(context, index, placed);
        };
        let output = &self.merged.draft.sections[section];
        // References between entries of `.debug_frame` were set when the entries were placed. Any
        // other record against a place in this section means the Mercury half's place, in both
        // halves. No compiler writes one (`xtask probe --place twin`).
        let frames = self.rebuilt.is_frames(section);
        if self.half == Half::Sass && frames && context.place.target == section {
            return ResolvedSymbol::Gone;
        }
        if self.half == Half::Sass && self.rebuilt.is_lines(section) {
            return self.rebuilt_place(context, index, output.symbol);
        }
        let base = match self.half {
            Half::Sass if !frames => base,
            _ => self.merged.mercury_base(context.input.source.object, index, base),
        };
        let address = || {
            let address = |symbol| ResolvedSymbol::Address { symbol, base };
            output.symbol.map_or(ResolvedSymbol::Gone, address)
        };
        let symbol = output.symbol.map_or(KeptSymbol::Nothing, KeptSymbol::Symbol);
        let fixed = FixedAddress { base, ..FixedAddress::at(base, symbol) };
        let fixed = fixed.recorded_as(RecordedAs::by(output.symbol));
        match output.kind {
            SectionKind::Constant(_) if self.relocatable() => address(),
            SectionKind::Constant(bank) => {
                ResolvedSymbol::Fixed(FixedAddress { bank: Some(bank), ..fixed })
            }
            SectionKind::Global | SectionKind::GlobalInit | SectionKind::UnifiedData => address(),
            SectionKind::Shared | SectionKind::PoolShared
                if !self.relocatable()
                    && (output.dropped || output.kind == SectionKind::PoolShared) =>
            {
                ResolvedSymbol::Fixed(FixedAddress { symbol: KeptSymbol::Nothing, ..fixed })
            }
            _ => ResolvedSymbol::Fixed(fixed),
        }
    }

    /// As [`RelocResolver::section_symbol`] for a section without a place in an output section.
    fn unplaced_section(
        &self,
        context: &RelocContext<'_, 'd>,
        index: SectionIndex,
        placed: SectionPlacement,
    ) -> ResolvedSymbol {
        match context.input.object.role(index) {
            SectionRole::Text => match placed {
                SectionPlacement::Lost(function) => self.code_of_winner(function),
                _ => ResolvedSymbol::Fixed(FixedAddress::at(0, KeptSymbol::Deleted)),
            },
            SectionRole::Constant(bank) => {
                let start = FixedAddress::at(0, KeptSymbol::Nothing);
                ResolvedSymbol::Fixed(FixedAddress { bank: Some(bank), ..start })
            }
            SectionRole::OwnShared | SectionRole::PoolShared => {
                ResolvedSymbol::Fixed(FixedAddress::at(0, KeptSymbol::Nothing))
            }
            _ => ResolvedSymbol::Fatal(
                context.bad("its symbol is a section that the linker rewrites"),
            ),
        }
    }

    /// The section symbol of a lost copy of `function`'s code is that of the copy in the output
    /// (case weak/section-of-loser-86).
    fn code_of_winner(&self, function: OutSymbolId) -> ResolvedSymbol {
        let draft = &self.merged.draft;
        let code = draft.symbols[function].section;
        let symbol = code.and_then(|code| draft.sections[code].symbol);
        let symbol = symbol.map_or(KeptSymbol::Deleted, KeptSymbol::Symbol);
        ResolvedSymbol::Fixed(FixedAddress::at(0, symbol))
    }

    /// A place in a line table of machine code, which is rebuilt: 0 for a dropped place.
    fn rebuilt_place(
        &self,
        context: &RelocContext<'_, 'd>,
        index: SectionIndex,
        symbol: Option<OutSymbolId>,
    ) -> ResolvedSymbol {
        let addend = context.record.addend as u64;
        let ranges = self.rebuilt.copied(context.input.source.object, index);
        let place = offset_map::translate(ranges, addend).unwrap_or(0);
        let address = place.wrapping_sub(addend);
        // With `-r`, the unit's place is relative to this object (case debug/mixed with -r).
        if let Some(symbol) = symbol.filter(|_| self.relocatable()) {
            return ResolvedSymbol::Address { symbol, base: address };
        }
        let fixed = FixedAddress::at(address, KeptSymbol::Nothing);
        ResolvedSymbol::Fixed(fixed.recorded_as(RecordedAs::by(symbol)))
    }

    fn symbol(
        &self,
        context: &RelocContext<'_, 'd>,
        symbol: &Symbol<'d>,
        out: OutSymbolId,
    ) -> ResolvedSymbol {
        // Without unified tables these names have no meaning, and the place keeps its bytes. ptxas
        // uses one of them, `__UFT_OFFSET`, for all indirect calls; it needs unified functions
        // (case unified/plain).
        let slots = || self.merged.unified.function_ids.is_some();
        let is_offset = symbol.name == b"__UFT_OFFSET";
        let keeps_offset = self.merged.draft.dialect.keeps_offset_of_slots;
        if is_unified_table(symbol.name) {
            let describes = |desc: &RelocDesc| desc.observed == Observed::FunctionOnly;
            return if context.desc.is_some_and(describes) {
                ResolvedSymbol::Fatal(context.bad(NO_FUNCTION))
            } else if self.unified && (!is_offset || keeps_offset || slots()) {
                ResolvedSymbol::Address { symbol: out, base: 0 }
            } else if context.wants_unified() && !is_offset {
                ResolvedSymbol::Fatal(Box::new(DELETED))
            } else {
                ResolvedSymbol::Gone
            };
        }
        if symbol.is_reference() {
            return ResolvedSymbol::Reference(out);
        }
        let shared = self.merged.draft.symbols[out].shared;
        if let Some(variable) = shared.filter(|_| !self.relocatable()) {
            return self.shared(context, variable, out);
        }
        self.ordinary(symbol, out)
    }

    /// The meaning of an output symbol that is neither special nor a shared variable; it does not
    /// depend on the record.
    pub(super) fn ordinary(&self, symbol: &Symbol<'d>, out: OutSymbolId) -> ResolvedSymbol {
        let entry = &self.merged.draft.symbols[out];
        match entry.section {
            Some(section) => self.in_section(section, entry.value, Some(out)),
            None if symbol.is_function() => ResolvedSymbol::Function(out),
            None => self.undefined(symbol, out),
        }
    }

    /// A variable that no file defines. nvlink leaves one in global memory to the driver; any other
    /// has the address -1 (docs/LINKING.md, relocations).
    fn undefined(&self, symbol: &Symbol<'d>, out: OutSymbolId) -> ResolvedSymbol {
        if is_reserved_shared(symbol.name) || is_descriptor_size(symbol.name) {
            return ResolvedSymbol::Reserved(out);
        }
        if space(symbol) == sto::SPACE_GLOBAL || self.relocatable() {
            return ResolvedSymbol::Address { symbol: out, base: 0 };
        }
        ResolvedSymbol::Fixed(FixedAddress::at(u64::MAX, KeptSymbol::Symbol(out)))
    }

    /// A symbol at `value` of an output section.
    fn in_section(
        &self,
        section: SectionId,
        value: u64,
        out: Option<OutSymbolId>,
    ) -> ResolvedSymbol {
        let output = &self.merged.draft.sections[section];
        match output.kind {
            SectionKind::Constant(bank) if !self.relocatable() => {
                ResolvedSymbol::Fixed(FixedAddress::in_bank(value, bank, out))
            }
            // An alias stands for the function whose code it names.
            SectionKind::Text => {
                output.function.or(out).map_or(ResolvedSymbol::Gone, ResolvedSymbol::Function)
            }
            SectionKind::JumpSlots => out.map_or(ResolvedSymbol::Gone, ResolvedSymbol::Function),
            // In machine code the system's part of shared memory has its final place here, in the
            // Mercury half only later (case attributes/tensor-memory).
            SectionKind::ReservedShared if self.half == Half::Sass && !self.relocatable() => {
                let symbol = out.map_or(KeptSymbol::Nothing, KeptSymbol::Symbol);
                let start = system_shared(self.merged.draft.flavour);
                let fixed = FixedAddress::at(value + start, symbol);
                ResolvedSymbol::Fixed(fixed.recorded_as(RecordedAs::by(out)))
            }
            _ => {
                let address = |symbol| ResolvedSymbol::Address { symbol, base: 0 };
                out.or(output.symbol).map_or(ResolvedSymbol::Gone, address)
            }
        }
    }

    fn shared(
        &self,
        context: &RelocContext<'_, 'd>,
        variable: SharedId,
        out: OutSymbolId,
    ) -> ResolvedSymbol {
        let address = self.shared.address(variable, context.place.function);
        let is_extern = self.shared.is_extern_of(variable, context.place.function);
        let recorded_as = match self.merged.draft.symbols[out].dropped {
            _ if is_extern || !self.preserve => RecordedAs::Nothing,
            false => RecordedAs::Symbol(out),
            // nvlink deletes such symbols if there is a pool, and then looks them up.
            true if self.shared.has_pool() => return ResolvedSymbol::Fatal(Box::new(DELETED)),
            true => RecordedAs::Nothing,
        };
        // With `-g` and `--preserve-relocs` most of them have symbols.
        let symbol = match self.merged.draft.symbols[out].dropped {
            true => KeptSymbol::Deleted,
            false if self.debug => KeptSymbol::Symbol(out),
            false => KeptSymbol::OnlyRecorded(out),
        };
        ResolvedSymbol::Fixed(FixedAddress::at(address, symbol).recorded_as(recorded_as))
    }
}

impl FixedAddress {
    /// A place at `address` that is in no constant bank.
    fn at(address: u64, symbol: KeptSymbol) -> Self {
        FixedAddress { address, bank: None, symbol, base: 0, recorded_as: RecordedAs::Nothing }
    }

    /// The same place, listed as `recorded_as` by `.nv.resolvedrela`.
    fn recorded_as(self, recorded_as: RecordedAs) -> Self {
        FixedAddress { recorded_as, ..self }
    }

    /// A place in a constant bank.
    fn in_bank(address: u64, bank: u8, out: Option<OutSymbolId>) -> Self {
        let symbol = out.map_or(KeptSymbol::Deleted, KeptSymbol::Symbol);
        let fixed = FixedAddress { bank: Some(bank), ..FixedAddress::at(address, symbol) };
        fixed.recorded_as(RecordedAs::by(out))
    }
}

/// Resolves a record against a place whose address is known: the record's type decides.
fn resolve_fixed_address(context: &RelocContext<'_, '_>, fixed: FixedAddress) -> Resolution {
    let FixedAddress { address, bank, symbol, base, recorded_as } = fixed;
    let Some(desc) = context.desc else { return Resolution::Fatal(Box::new(UNEXPECTED)) };
    match desc.observed {
        Observed::FunctionOnly => return Resolution::Fatal(context.bad(NO_FUNCTION)),
        Observed::SameSection => return Resolution::Fatal(Box::new(PC_RELATIVE)),
        Observed::Rejected => return Resolution::Fatal(Box::new(UNEXPECTED)),
        // Types that are rewritten later occur with `-r` only.
        Observed::Kept | Observed::Rewritten => {
            let symbol = match symbol {
                KeptSymbol::Symbol(symbol) | KeptSymbol::OnlyRecorded(symbol) => Some(symbol),
                KeptSymbol::Null => None,
                KeptSymbol::Deleted | KeptSymbol::Nothing => {
                    return Resolution::Fatal(Box::new(DELETED));
                }
            };
            return context.kept(symbol, base);
        }
        Observed::Clears if matches!(symbol, KeptSymbol::Deleted | KeptSymbol::OnlyRecorded(_)) => {
            let (value, mode) = (RelocValue::default(), PatchMode::Clear);
            return Resolution::Applied(AppliedRecord { desc, value, mode, recorded_as, base });
        }
        Observed::NoEffect | Observed::Bits | Observed::Ignored | Observed::Clears => {}
    }
    if bank.is_none() && desc.has_bank() {
        return Resolution::Fatal(
            context.bad("its type needs a constant bank, but its symbol is in none"),
        );
    }
    let value = context.value(address, bank.unwrap_or_default());
    // A record that changes nothing is not listed (docs/LINKING.md, --preserve-relocs).
    let is_listed = desc.observed == Observed::Bits;
    let recorded_as = if is_listed { recorded_as } else { RecordedAs::Nothing };
    Resolution::Applied(AppliedRecord { desc, value, mode: context.mode, recorded_as, base })
}

const DELETED: Message = Message::Internal { what: diag::DELETED };

const PC_RELATIVE: Message =
    Message::Internal { what: "PC relative branch address should be in the same section" };

const UNEXPECTED: Message = Message::Internal { what: "unexpected NVRS" };

/// As [`UNEXPECTED`] for records of the Mercury half, whatever the symbol (`xtask probe --arch 100
/// --type 0x10000`).
const UNEXPECTED_MERCURY: Message = Message::Internal { what: "unexpected reloc" };

const NO_FUNCTION: &str = "its type describes a function, but its symbol is none";

impl<'a, 'd> RelocResolver<'a, 'd> {
    /// The resolution of a RELA record.
    pub(super) fn resolution_of(
        &self,
        place: &PlaceContext,
        input: &InputRecords<'_, 'd>,
        record: RelocEntry,
    ) -> Resolution {
        let (desc, mode) = (culd_reloc::lookup(record.kind), PatchMode::Set);
        self.resolution(&RelocContext { place, input, record, desc, mode })
    }
}
