//! Fast path: records against a live function or a variable in global memory are kept unchanged,
//! because only the driver knows the address. Most records are of this kind. Without it: +1.9 %
//! instructions on many1000.
//!
//! In: the symbols of the inputs and where they are in the output. Out: the output symbol of such a
//! record ([`FastSymbol`]). Guaranteed: the result is that of [`RelocResolver::resolution`], which
//! handles every record and takes longer. A build with debug assertions compares both for each
//! record.

use culd_cubin::{RelocEntry, Symbol, SymbolIndex};
use culd_reloc::desc::MERCURY_BASE;
use culd_reloc::{Observed, RelocDesc};

use super::debug::ADDRESS;
use super::kept::{FastSymbol, FastSymbols, OutRecord};
use super::place::{InputRecords, PlaceContext};
use super::resolution::{KeptRecord, Resolution, ResolvedSymbol};
use super::resolver::RelocResolver;
use crate::base::id::{DenseId, ObjectId, OutSymbolId};
use crate::base::session::Session;
use crate::base::system_names::is_unified_table;
use crate::draft::kind::SectionKind;
use crate::draft::merged::SymbolTarget;
use crate::objects::roles::{is_internal, takes_part};

/// Finds the [`FastSymbol`] of every symbol of every file. `work` is the bytes of all records.
pub(super) fn find_symbols(
    session: &Session,
    resolver: &RelocResolver<'_, '_>,
    work: usize,
) -> FastSymbols {
    let of = |place| {
        let id = ObjectId::from_index(place);
        let symbols = resolver.objects[id].cubin.symbol_indices();
        symbols.map(|(index, symbol)| resolver.fast_symbol(id, index, symbol)).collect()
    };
    session.map(resolver.objects.all.len(), work, of).into_iter().collect()
}

/// The output symbol of `record`, if it is against a fast symbol and its type is kept for such
/// symbols.
pub(super) fn kept_symbol(
    place: &PlaceContext,
    input: &InputRecords<'_, '_>,
    desc: &RelocDesc,
    record: &RelocEntry,
) -> Option<OutSymbolId> {
    // In tables of code addresses, a record may belong to a lost copy of a function.
    if place.has_discarded_records || !is_kept(desc) {
        return None;
    }
    input.fast_symbol(record.symbol)
}

/// True for a type whose records against fast symbols are kept.
const fn is_kept(desc: &RelocDesc) -> bool {
    use Observed::{Clears, FunctionOnly, NoEffect, Rejected};
    !matches!(desc.observed, Clears | FunctionOnly | NoEffect | Rejected)
}

/// Bytes that a type with [`is_kept`] patches, at least 1; 0 for all other types, and for those
/// that may be rewritten to another type.
pub(super) fn span(kind: u32) -> u64 {
    let mercury = || MERCURY.get(kind.checked_sub(MERCURY_BASE)? as usize);
    CUDA.get(kind as usize).or_else(mercury).copied().unwrap_or_default().into()
}

/// True for a type whose records against live functions are dropped.
pub(super) fn clears_place(kind: u32) -> bool {
    culd_reloc::lookup(kind).is_some_and(|desc| desc.observed == Observed::Clears)
}

static CUDA: [u8; culd_reloc::CUDA.len()] = spans(&culd_reloc::CUDA);
static MERCURY: [u8; culd_reloc::MERCURY.len()] = spans(&culd_reloc::MERCURY);

/// [`span`] of all types of a table.
const fn spans<const N: usize>(table: &[RelocDesc; N]) -> [u8; N] {
    let (mut spans, mut at) = ([0; N], 0);
    while at < N {
        let desc = &table[at];
        if is_kept(desc) && desc.unified.is_none() {
            spans[at] = if desc.span_bytes() == 0 { 1 } else { desc.span_bytes() as u8 };
        }
        at += 1;
    }
    spans
}

/// The answer of the fast path about a record.
pub(super) enum FastResolution {
    Kept(OutRecord),
    Dropped,
    /// The record needs [`RelocResolver::resolution`].
    Undecided,
}

impl<'d> RelocResolver<'_, 'd> {
    /// Resolves a record with its place at `offset` of the output section, if it is against a fast
    /// symbol and needs no patch.
    pub(super) fn resolve_fast(
        &self,
        place: &PlaceContext,
        input: &InputRecords<'_, 'd>,
        offset: u64,
        record: &RelocEntry,
    ) -> FastResolution {
        let symbol = input.fast_symbol(record.symbol).filter(|_| !place.has_discarded_records);
        let Some(symbol) = symbol else { return FastResolution::Undecided };
        let span = span(record.kind);
        if span == 0 && clears_place(record.kind) && self.is_function(symbol) {
            debug_assert!(matches!(self.resolution_of(place, input, *record), Resolution::Dropped));
            return FastResolution::Dropped;
        }
        if span == 0
            || offset.saturating_add(span) > place.size
            || place.is_frames && record.addend != 0
        {
            return FastResolution::Undecided;
        }
        debug_assert!(self.is_kept_unchanged(place, input, *record));
        let kind = if place.is_frames { ADDRESS } else { record.kind };
        let (symbol, addend) = (Some(symbol), record.addend);
        FastResolution::Kept(OutRecord { offset, symbol, kind, addend })
    }

    /// True for a symbol in a code section; records against it are records against its function.
    fn is_function(&self, symbol: OutSymbolId) -> bool {
        let draft = &self.merged.draft;
        let section = draft.symbols[symbol].section;
        section.is_some_and(|section| draft.sections[section].kind == SectionKind::Text)
    }

    /// True if a record against a fast symbol is kept unchanged. For debug assertions.
    pub(super) fn is_kept_unchanged(
        &self,
        place: &PlaceContext,
        input: &InputRecords<'_, 'd>,
        record: RelocEntry,
    ) -> bool {
        let (symbol, kind) = (input.fast_symbol(record.symbol), record.kind);
        let resolution = self.resolution_of(place, input, record);
        resolution.kept_record() == Some(KeptRecord { symbol, base: 0, kind, placeholder: None })
    }

    fn fast_symbol(&self, id: ObjectId, index: SymbolIndex, symbol: &Symbol<'d>) -> FastSymbol {
        if !takes_part(symbol) || symbol.is_reference() || is_internal(symbol) {
            return None;
        }
        let program = self.symbols.of(id, index)?;
        let SymbolTarget::Symbol(out) = self.merged.targets[program] else { return None };
        if is_unified_table(symbol.name) {
            return None;
        }
        let dead = symbol.is_function() && self.graph.node(program).is_none();
        // nvlink discards records of constants against a variable that was replaced.
        let replaced = !symbol.is_function() && self.symbols.all[program].replaced;
        if dead || replaced || self.merged.draft.symbols[out].shared.is_some() {
            return None;
        }
        match self.ordinary(symbol, out) {
            ResolvedSymbol::Function(symbol) | ResolvedSymbol::Address { symbol, base: 0 } => {
                Some(symbol)
            }
            _ => None,
        }
    }
}
