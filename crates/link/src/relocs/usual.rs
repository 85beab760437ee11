//! Records that stay, which most do: those about functions and variables whose address only the driver knows.
//!
//! In: the symbols of the inputs and where they are in the output. Out: which symbol of the output a record names, for
//! most of them. Guaranteed: the record then comes to what [`Resolver::outcome`] says of it, which looks further and
//! takes longer; a build with debug assertions compares the two for each record.

use culd_cubin::{RelocEntry, Symbol, SymbolIndex};
use culd_reloc::desc::MERCURY_BASE;
use culd_reloc::{Observed, RelocDesc};

use super::Resolver;
use super::kept::Kept;
use super::outcome::{Meaning, Outcome, Stays};
use super::place::{Origin, PlaceContext};
use crate::Session;
use crate::capsule::rebuilt::ADDRESS;
use crate::draft::Kind;
use crate::id::{Id, IdVec, ObjectId, OutSymbolId};
use crate::merge::Target;
use crate::objects::{is_internal, takes_part};
use crate::system_names::is_unified_table;

/// The symbol of the output for a symbol of a file that is one of the two things that most are: a live function, or a
/// variable whose address only the driver knows.
pub(super) type Usual = Option<OutSymbolId>;

/// All of them by file, then by symbol.
pub(super) type Table = IdVec<ObjectId, Vec<Usual>>;

/// Looks at the symbols of all files. `work` is the bytes of their records.
pub(super) fn find(session: &Session, resolver: &Resolver<'_, '_>, work: usize) -> Table {
    let of = |place| {
        let id = ObjectId::from_index(place);
        let symbols = resolver.objects[id].cubin.symbol_indices();
        symbols.map(|(index, symbol)| resolver.usual(id, index, symbol)).collect()
    };
    session.map(resolver.objects.all.len(), work, of).into_iter().collect()
}

/// The symbol with which `record` in `place` stays if it names a usual one and its type, that of `row`, is one of those
/// that stay then.
pub(super) fn stays(
    place: &PlaceContext,
    origin: &Origin<'_, '_>,
    row: &RelocDesc,
    record: &RelocEntry,
) -> Option<OutSymbolId> {
    // In tables of addresses it matters which copy of a function a record is of.
    if place.has_void_records || !is_kept(row) {
        return None;
    }
    origin.usual(record.symbol)
}

/// True for a type whose records about usual symbols stay.
const fn is_kept(row: &RelocDesc) -> bool {
    use Observed::{Clears, FunctionOnly, NoEffect, Rejected};
    !matches!(row.observed, Clears | FunctionOnly | NoEffect | Rejected)
}

/// Bytes of the places of such a type, at least 1; 0 for all other types, and for those that may become another one.
pub(super) fn span(kind: u32) -> u64 {
    let mercury = || MERCURY.get(kind.checked_sub(MERCURY_BASE)? as usize);
    CUDA.get(kind as usize).or_else(mercury).copied().unwrap_or_default().into()
}

/// True for a type whose records about functions that are left come to nothing.
pub(super) fn clears(kind: u32) -> bool {
    culd_reloc::lookup(kind).is_some_and(|row| row.observed == Observed::Clears)
}

static CUDA: [u8; culd_reloc::CUDA.len()] = spans(&culd_reloc::CUDA);
static MERCURY: [u8; culd_reloc::MERCURY.len()] = spans(&culd_reloc::MERCURY);

/// [`span`] of all types of a table.
const fn spans<const N: usize>(table: &[RelocDesc; N]) -> [u8; N] {
    let (mut spans, mut at) = ([0; N], 0);
    while at < N {
        let row = &table[at];
        if is_kept(row) && row.unified.is_none() {
            spans[at] = if row.span_bytes() == 0 { 1 } else { row.span_bytes() as u8 };
        }
        at += 1;
    }
    spans
}

impl<'d> Resolver<'_, 'd> {
    /// What becomes of a record of a usual symbol whose place is at `offset` of the output section, as of [`Resolver::record`]: for most
    /// types.
    #[inline]
    pub(super) fn quick(
        &self,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        offset: u64,
        record: &RelocEntry,
    ) -> Option<Option<Kept>> {
        let symbol = origin.usual(record.symbol).filter(|_| !place.has_void_records)?;
        let span = span(record.kind);
        if span == 0 && clears(record.kind) && self.is_function(symbol) {
            debug_assert!(matches!(self.outcome_of(place, origin, *record), Outcome::Dropped));
            return Some(None);
        }
        if span == 0 || offset.saturating_add(span) > place.size {
            return None;
        }
        debug_assert!(self.stays_unchanged(place, origin, *record));
        let kind = if place.is_frames { ADDRESS } else { record.kind };
        Some(Some(Kept { offset, symbol: Some(symbol), kind, addend: record.addend }))
    }

    /// True for a symbol of the output in code, of which records then are about a function.
    fn is_function(&self, symbol: OutSymbolId) -> bool {
        let draft = &self.merged.draft;
        let section = draft.symbols[symbol].section;
        section.is_some_and(|section| draft.sections[section].kind == Kind::Text)
    }

    /// Whether a record of a usual symbol comes to itself.
    pub(super) fn stays_unchanged(
        &self,
        place: &PlaceContext,
        origin: &Origin<'_, 'd>,
        record: RelocEntry,
    ) -> bool {
        let (symbol, kind) = (origin.usual(record.symbol), record.kind);
        let outcome = self.outcome_of(place, origin, record);
        outcome.kept() == Some(Stays { symbol, base: 0, kind, holder: None })
    }

    fn usual(&self, id: ObjectId, index: SymbolIndex, symbol: &Symbol<'d>) -> Usual {
        if !takes_part(symbol) || symbol.is_reference() || is_internal(symbol) {
            return None;
        }
        let program = self.symbols.of(id, index)?;
        let Target::Symbol(out) = self.merged.targets[program] else { return None };
        if is_unified_table(symbol.name) {
            return None;
        }
        let dead = symbol.is_function() && self.graph.node(program).is_none();
        // Constants forget variables that were replaced.
        let replaced = !symbol.is_function() && self.symbols.all[program].replaced;
        if dead || replaced || self.merged.draft.symbols[out].shared.is_some() {
            return None;
        }
        match self.ordinary(symbol, out) {
            Meaning::Function(symbol) | Meaning::Address { symbol, base: 0 } => Some(symbol),
            _ => None,
        }
    }
}
