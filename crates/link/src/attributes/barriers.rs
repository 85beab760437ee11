//! Barrier counts of functions from CUDA 12. Its objects have them in the flags of the code, and so
//! do objects made of these with `-r`.
//!
//! In: every function's attributes after inheritance. Out: NUM_BARRIERS for these functions and for
//! the entries that reach them, and the functions to which it was added, whose flags are then
//! cleared. The flags of all other code are kept: with `-r` (case dialects/barriers-of-objects),
//! and for entries that inherit the attribute from functions of CUDA 13 (case
//! dialects/barriers-in-steps). nvlink forgets the count of such an entry itself when it inherits a
//! smaller one (docs/DIFFERENCES.md, barriers-of-cuda-12); here the largest counts.

use culd_cubin::attr::{code, format};

use super::attribute::OutAttribute;
use super::lists::AttributeLists;
use crate::base::id::{IdVec, NodeId};
use crate::callgraph::CallGraph;
use crate::draft::merged::Merged;
use crate::objects::InputObjects;
use crate::symbols::Symbols;

/// Appends the attribute where it is missing and raises it where it is too small. Returns the
/// functions to which it was appended.
pub(super) fn add(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &Merged<'_>,
    lists: &mut AttributeLists<'_>,
) -> Vec<NodeId> {
    let mut added = Vec::new();
    if merged.draft.relocatable {
        return added;
    }
    let own = |node: NodeId| {
        let site = symbols.all[graph.nodes[node]].definition?;
        let object = &objects[site.object];
        let text = object.symbol(site.index).defined_in()?;
        Some(object.section(text).barriers_of_cuda_12())
    };
    let mut needed: IdVec<NodeId, u32> =
        graph.nodes.ids().map(|node| own(node).unwrap_or(0)).collect();
    let all = needed.values().copied().max().unwrap_or(0);
    if all == 0 {
        return added;
    }
    let reached = graph.fold_entries(0, |node| needed[node], |a, b| *a.max(b));
    for (&entry, reached) in graph.entries().iter().zip(reached) {
        // For a single entry all live functions count, as in the other attributes.
        needed[entry] = if graph.single_entry().is_some() { all } else { reached };
    }
    for node in graph.nodes.ids().filter(|&node| needed[node] > 0) {
        if merged.function_infos[node].is_none() {
            continue;
        }
        let (list, value) = (lists.get_mut(node), needed[node]);
        match list.iter_mut().find(|attribute| attribute.code() == code::NUM_BARRIERS) {
            Some(own) => *own = own.with_number(own.number().max(value)),
            None => {
                let code = code::NUM_BARRIERS;
                lists.push(node, OutAttribute::Number { format: format::BYTE, code, value });
                added.push(node);
            }
        }
    }
    added
}
