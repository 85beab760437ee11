//! The attributes of jump slots: one list for their common section.
//!
//! In: the lists of the slots' functions after inheritance. Out: the list of `.nv.info..nv.uft`.
//! nvlink puts the lists of later files in front of the earlier ones. It then appends what slots
//! inherited, in the order in which it meets it, the last slot first, without EXTERNS,
//! CRS_STACK_SIZE and attribute 0x66. At the end is one SPARSE_MMA_MASK of 0 (cases
//! unified/attributes, unified/sparse-mma).

use culd_cubin::attr::{code, format};
use hashbrown::HashMap;

use super::attribute::OutAttribute;
use super::lists::{AttributeLists, ListTraits};
use crate::base::id::NodeId;
use crate::callgraph::CallGraph;
use crate::draft::merged::MergeResult;

/// The attributes of all jump slots, in output order.
pub(super) fn joined_list<'d>(
    graph: &CallGraph,
    merged: &MergeResult<'d>,
    lists: &AttributeLists<'d>,
    taken: &InheritanceOrder,
) -> Vec<OutAttribute<'d>> {
    let is_slot = |node: &NodeId| merged.is_jump_slot(merged.function(graph, *node));
    let slots: Vec<NodeId> = merged.info_order.iter().copied().filter(is_slot).collect();
    let taken = |node: NodeId| taken.get(&node).map_or(&[][..], Vec::as_slice);
    let split = |node: NodeId| lists[node].split_at(lists[node].len() - taken(node).len());
    let own = slots.iter().rev().flat_map(|&node| split(node).0);
    let mut joined: Vec<OutAttribute<'d>> = own.cloned().collect();
    // For one callee, the last slot comes first.
    let mut entries = slots.clone();
    entries.sort_unstable();
    let mut later: Vec<_> =
        entries.iter().rev().flat_map(|&node| taken(node).iter().zip(split(node).1)).collect();
    let left_out = [code::EXTERNS, code::ATTRIBUTE_66];
    later.retain(|(_, attribute)| !left_out.contains(&attribute.code()));
    later.sort_by_key(|(when, _)| **when);
    joined.extend(later.into_iter().map(|(_, attribute)| attribute.clone()));
    if !slots.is_empty() && lists.any(ListTraits::SPARSE_MASK) {
        let code = code::SPARSE_MMA_MASK;
        joined.push(OutAttribute::Number { format: format::HALF, code, value: 0 });
    }
    joined
}

/// The order of the inherited attributes at the end of each jump slot's list: the rank of the
/// callee, and the number of its record.
pub(super) type InheritanceOrder = HashMap<NodeId, Vec<(usize, usize)>>;
