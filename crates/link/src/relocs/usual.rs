//! Records that stay, which most do: those about functions and variables whose address only the driver knows.
//!
//! In: the symbols of the inputs and where they are in the output. Out: which symbol of the output a record names, for
//! most of them. Guaranteed: the record then comes to what [`Resolver::outcome`] says of it, which looks further and
//! takes longer; a build with debug assertions compares the two for each record.

use culd_cubin::{RelocEntry, Symbol, SymbolIndex};
use culd_reloc::{Observed, RelocDesc};

use super::Resolver;
use super::outcome::Meaning;
use super::place::{Origin, PlaceContext};
use crate::Session;
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
    use Observed::{Clears, FunctionOnly, NoEffect, Rejected};
    // In tables of addresses it matters which copy of a function a record is of, and those of frames get another type.
    let special = place.has_void_records || place.is_frames;
    if special || matches!(row.observed, Clears | FunctionOnly | NoEffect | Rejected) {
        return None;
    }
    origin.usual(record.symbol)
}

impl<'d> Resolver<'_, 'd> {
    fn usual(&self, id: ObjectId, index: SymbolIndex, symbol: &Symbol<'d>) -> Usual {
        let special = symbol.is_reference() || is_internal(symbol) || is_unified_table(symbol.name);
        if special || !takes_part(symbol) {
            return None;
        }
        let program = self.symbols.of(id, index)?;
        let Target::Symbol(out) = self.merged.targets[program] else { return None };
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
