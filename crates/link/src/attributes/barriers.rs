//! Barriers of functions of CUDA 12, whose objects, and objects made of them with -r, tell them in the flags of their code.
//!
//! In: every function's attributes, after entries took over those of others. Out: NUM_BARRIERS for these functions, and
//! for the entries that reach them, and the functions whose flags are told by that. The flags of others stay: in objects (case
//! dialects/barriers-of-objects), and of entries that have the attribute from functions of CUDA 13 (case
//! dialects/barriers-in-steps). nvlink forgets the own number of such an entry when it takes over a smaller one (docs/DIFFERENCES.md,
//! barriers-of-cuda-12); here the largest counts.

use culd_cubin::attr::{code, format};

use super::Attribute;
use super::lists::Lists;
use crate::callgraph::CallGraph;
use crate::id::{IdVec, NodeId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::symbols::Symbols;

/// Adds the attribute where it is missing, at the end, and raises it where it is too small; the functions to which it was added.
pub(super) fn add(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &Merged<'_>,
    lists: &mut Lists<'_>,
) -> Vec<NodeId> {
    let mut told = Vec::new();
    if merged.draft.relocatable {
        return told;
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
        return told;
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
                lists.push(node, Attribute::Number { format: format::BYTE, code, value });
                told.push(node);
            }
        }
    }
    told
}
