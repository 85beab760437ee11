//! The attributes of jump slots: one list for the section of all of them.
//!
//! In: the lists of the slots' functions, after entries took over what they reach. Out: the list of
//! `.nv.info..nv.uft`. nvlink puts the lists of the files in front of what is there, appends what
//! slots take over in the order in which it meets it, the last slot first, but no EXTERNS, no stack of calls and no
//! attribute 0x66, and has
//! one SPARSE_MMA_MASK of 0 at the end (cases unified/attributes, unified/sparse-mma).

use culd_cubin::attr::{code, format};

use super::Attribute;
use super::lists::{Has, Lists};
use super::propagate::Taken;
use crate::callgraph::CallGraph;
use crate::id::NodeId;
use crate::merge::Merged;

/// The attributes of all jump slots, in output order.
pub(super) fn join<'d>(
    graph: &CallGraph,
    merged: &Merged<'d>,
    lists: &Lists<'d>,
    taken: &Taken,
) -> Vec<Attribute<'d>> {
    let is_slot = |node: &NodeId| merged.is_jump_slot(merged.function(graph, *node));
    let slots: Vec<NodeId> = merged.info_order.iter().copied().filter(is_slot).collect();
    let taken = |node: NodeId| taken.get(&node).map_or(&[][..], Vec::as_slice);
    let split = |node: NodeId| lists[node].split_at(lists[node].len() - taken(node).len());
    let own = slots.iter().rev().flat_map(|&node| split(node).0);
    let mut joined: Vec<Attribute<'d>> = own.cloned().collect();
    // For one callee the last entry comes first.
    let mut entries = slots.clone();
    entries.sort_unstable();
    let mut later: Vec<_> =
        entries.iter().rev().flat_map(|&node| taken(node).iter().zip(split(node).1)).collect();
    let left_out = [code::EXTERNS, code::ATTRIBUTE_66];
    later.retain(|(_, attribute)| !left_out.contains(&attribute.code()));
    later.sort_by_key(|(when, _)| **when);
    joined.extend(later.into_iter().map(|(_, attribute)| attribute.clone()));
    if !slots.is_empty() && lists.any(Has::SPARSE_MASK) {
        let code = code::SPARSE_MMA_MASK;
        joined.push(Attribute::Number { format: format::HALF, code, value: 0 });
    }
    joined
}
