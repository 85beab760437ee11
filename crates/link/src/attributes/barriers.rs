//! Barrier counts of functions from CUDA 12. Its objects have them in the flags of the code, and so
//! do objects made of these with `-r`.
//!
//! In: every function's attributes after inheritance. Out: the numbers for the flags of code. Files
//! of [`FileForm::Header`](crate::options::form::FileForm) have all numbers in the flags, and those
//! of entries are raised. Other files have NUM_BARRIERS for these functions and for the entries
//! that reach them, and the flags are cleared where it is new. The flags of all other code are
//! kept: with `-r` (case dialects/barriers-of-objects), and for entries that inherit the attribute
//! from functions of CUDA 13 (case dialects/barriers-in-steps). nvlink forgets the count of such an
//! entry itself when it inherits a smaller one (docs/DIFFERENCES.md, barriers-of-cuda-12); here the
//! largest counts.

use culd_cubin::attr::{code, format};

use super::attribute::OutAttribute;
use super::lists::AttributeLists;
use crate::base::id::{IdVec, NodeId};
use crate::callgraph::CallGraph;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::symbols::Symbols;

/// Appends the attribute where it is missing and raises it where it is too small, or raises the
/// number in the flags. Returns the functions whose flags change, and the number for the flags.
pub(super) fn add(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &MergeResult<'_>,
    lists: &mut AttributeLists<'_>,
) -> Vec<(NodeId, u32)> {
    let mut in_flags = Vec::new();
    if merged.draft.relocatable {
        return in_flags;
    }
    let own = |node: NodeId| {
        let site = symbols.all[graph.nodes[node]].definition?;
        let object = &objects[site.object];
        let text = object.symbol(site.index).defined_in()?;
        Some(object.section(text).barriers_of_cuda_12())
    };
    let mut needed: IdVec<NodeId, u32> =
        graph.nodes.ids().map(|node| own(node).unwrap_or(0)).collect();
    if needed.values().all(|&count| count == 0) {
        return in_flags;
    }
    let reached = graph.fold_entries(0, |node| needed[node], |a, b| *a.max(b));
    // Even for a single entry only the functions that it reaches count, unlike for other
    // attributes.
    for (&entry, reached) in graph.entries().iter().zip(reached) {
        needed[entry] = reached;
    }
    if merged.fixed.notes.is_none() {
        let entries = graph.entries().iter().filter(|&&entry| needed[entry] > 0);
        in_flags.extend(entries.map(|&entry| (entry, needed[entry])));
        return in_flags;
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
                in_flags.push((node, 0));
            }
        }
    }
    in_flags
}
