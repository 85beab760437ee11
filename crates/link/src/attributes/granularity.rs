//! Entries that use tensor memory both for one block and for a pair of blocks, which the hardware
//! cannot do.
//!
//! In: every function's attributes as the files have them. Out: the entries that nvlink refuses, in
//! its order. nvlink finds them while entries inherit attributes (docs/rules/diagnostics.md,
//! section 5; cases errors-finish/tensor-memory*).

use super::lists::{AttributeLists, ListTraits};
use crate::base::id::{IdVec, NodeId};
use crate::callgraph::CallGraph;
use crate::options::dialect::Dialect;

/// The block group sizes for which a function uses tensor memory: bit 0 for one block, bit 1 for a
/// pair.
fn groups(lists: &AttributeLists<'_>, node: NodeId) -> u8 {
    let has = lists.has(node);
    u8::from(has.any(ListTraits::ONE_BLOCK)) | u8::from(has.any(ListTraits::TWO_BLOCKS)) << 1
}

/// The entries among `kernels` that use both. `functions` are the functions that are not entries,
/// in reading order.
pub(super) fn mixed(
    graph: &CallGraph,
    kernels: &[NodeId],
    functions: &[NodeId],
    lists: &AttributeLists<'_>,
    single: Option<NodeId>,
    dialect: &Dialect,
) -> Vec<NodeId> {
    let used = |nodes: &[NodeId]| nodes.iter().fold(0, |used, &node| used | groups(lists, node));
    if !dialect.checks_tensor_memory || used(kernels) | used(functions) != 3 {
        return Vec::new();
    }
    // Before CUDA 13.2 a single entry that uses none itself is not checked; since then it is
    // reported twice (case attributes/tensor-memory-single).
    if let Some(entry) = single {
        return match groups(lists, entry) {
            0 if !dialect.asks_single_entry => Vec::new(),
            0 => vec![entry; 2],
            _ => vec![entry],
        };
    }
    let mut wanted = IdVec::filled(false, graph.nodes.len());
    functions.iter().for_each(|&node| wanted[node] = groups(lists, node) != 0);
    let reached = graph.reached_by_entries(&wanted);
    let mut current: Vec<u8> = graph.entries().iter().map(|&entry| groups(lists, entry)).collect();
    let mut found = Vec::new();
    for function in functions.iter().filter(|&&node| wanted[node]) {
        for (place, &entry) in graph.entries().iter().enumerate().rev() {
            if current[place] == 3 || reached[place].binary_search(function).is_err() {
                continue;
            }
            current[place] |= groups(lists, *function);
            if current[place] == 3 && kernels.contains(&entry) {
                found.push(entry);
            }
        }
    }
    found
}
