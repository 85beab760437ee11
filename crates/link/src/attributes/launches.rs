//! Kernels that start kernels on targets before sm_70, whose driver wraps them.
//!
//! In: the call graph. Out: NEED_CNP_WRAPPER at the end of the list of each entry that reaches a
//! function of the driver for it (case errors-undefined/allowed-names on sm_60).

use culd_cubin::attr::{code, format};

use super::attribute::OutAttribute;
use super::lists::AttributeLists;
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
    let launches = |node| {
        let symbol = &draft.symbols[merged.function(graph, node)];
        symbol.section.is_none() && draft.names.get(symbol.name).starts_with(LAUNCHES)
    };
    let reached = graph.fold_entries(false, launches, |a, b| *a || *b);
    for (&entry, reached) in graph.entries().iter().zip(reached) {
        if reached && merged.function_infos[entry].is_some() {
            let code = code::NEED_CNP_WRAPPER;
            lists.push(entry, OutAttribute::Number { format: format::NONE, code, value: 0 });
        }
    }
}
