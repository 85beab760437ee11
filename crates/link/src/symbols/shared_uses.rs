//! References of code to shared variables.

use hashbrown::HashSet;

use super::{Fate, Symbols};
use crate::base::id::SymbolId;
use crate::objects::InputObjects;

/// Shared variables that code names.
pub(crate) fn named_variables(objects: &InputObjects<'_>, symbols: &Symbols) -> HashSet<SymbolId> {
    let mut named = HashSet::new();
    each_reference(objects, symbols, |_, variable| {
        named.insert(variable);
    });
    named
}

/// Calls `visit` with function and variable for every reference of code to a shared variable. Only
/// definitions that count are visited, those of dead functions included.
pub(crate) fn each_reference(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    mut visit: impl FnMut(SymbolId, SymbolId),
) {
    for (id, object) in objects.iter() {
        for &(function, variable) in &object.shared_uses {
            let chosen = symbols.fate(id, function) == Fate::Chosen;
            let function = symbols.of(id, function).filter(|_| chosen);
            if let Some((function, variable)) = function.zip(symbols.of(id, variable)) {
                visit(function, variable);
            }
        }
    }
}
