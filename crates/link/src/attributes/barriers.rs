//! Barriers of functions of CUDA 12, whose objects tell them in the flags of their code.
//!
//! In: every function's attributes, after entries took over those of others. Out: NUM_BARRIERS for these functions, and
//! for the entries that reach them. nvlink forgets the own number of such an entry when it takes over a smaller one from an
//! object of CUDA 13 (docs/DIFFERENCES.md, barriers-of-cuda-12); here the largest counts.

use culd_cubin::attr::{code, format};

use super::Attribute;
use super::propagate::Lists;
use crate::callgraph::CallGraph;
use crate::id::{IdVec, NodeId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::symbols::Symbols;

/// Adds the attribute where it is missing, at the end, and raises it where it is too small.
pub(super) fn add(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &Merged<'_>,
    lists: &mut Lists<'_>,
) {
    if !objects.iter().any(|(_, object)| object.cubin.header.is_of_cuda_12()) {
        return;
    }
    let own = |node: NodeId| {
        let site = symbols.all[graph.nodes[node]].definition?;
        let object = &objects[site.object];
        let text = object.symbol(site.index).defined_in()?;
        let old = object.cubin.header.is_of_cuda_12();
        old.then(|| object.section(text).barriers_of_cuda_12())
    };
    let mut needed: IdVec<NodeId, u32> = IdVec::filled(0, graph.nodes.len());
    for node in graph.nodes.ids() {
        needed[node] = own(node).unwrap_or(0);
    }
    if !merged.draft.relocatable {
        let reached = graph.fold(0, |node| needed[node], |a, b| *a.max(b));
        let all = graph.nodes.ids().map(|node| needed[node]).max().unwrap_or(0);
        for &entry in graph.entries() {
            // For a single entry all live functions count, as in the other attributes.
            needed[entry] = if graph.single_entry().is_some() { all } else { reached[entry] };
        }
    }
    for node in graph.nodes.ids().filter(|&node| needed[node] > 0) {
        if merged.function_infos[node].is_none() {
            continue;
        }
        let (list, value) = (&mut lists[node], needed[node]);
        match list.iter().position(|attribute| attribute.code() == code::NUM_BARRIERS) {
            Some(at) => list[at] = list[at].with_number(list[at].number().max(value)),
            None => {
                let code = code::NUM_BARRIERS;
                list.push(Attribute::Number { format: format::BYTE, code, value });
            }
        }
    }
}
