//! Kernels that start kernels on targets before sm_70, whose driver wraps them.
//!
//! In: the lists of all entries, with what they have inherited. Out: NEED_CNP_WRAPPER at the end of
//! the list of each entry whose EXTERNS names a function of the driver for it, called or not (cases
//! errors-undefined/allowed-names and dialects/launches-by-name-12-4, on sm_60).

use culd_cubin::attr::{code, format};

use super::attribute::OutAttribute;
use super::lists::AttributeLists;
use crate::base::id::OutSymbolId;
use crate::callgraph::CallGraph;
use crate::draft::merged::MergeResult;

/// The beginning of the names of these functions.
const LAUNCHES: &[u8] = b"cnp";

/// Appends the attribute.
pub(super) fn add(graph: &CallGraph, merged: &MergeResult<'_>, lists: &mut AttributeLists<'_>) {
    let draft = &merged.draft;
    if !draft.wraps_launches || draft.relocatable {
        return;
    }
    let launches = |&function: &OutSymbolId| {
        let symbol = &draft.symbols[function];
        symbol.section.is_none() && draft.names.get(symbol.name).starts_with(LAUNCHES)
    };
    for &entry in graph.entries() {
        let reached = lists[entry].iter().any(|attribute| match attribute {
            OutAttribute::Externs(functions) => functions.iter().any(launches),
            _ => false,
        });
        if reached && merged.function_infos[entry].is_some() {
            let code = code::NEED_CNP_WRAPPER;
            lists.push(entry, OutAttribute::Number { format: format::NONE, code, value: 0 });
        }
    }
}
