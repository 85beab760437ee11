//! Barrier counts of functions from CUDA 12. Its objects have them in the flags of the code, and so
//! do objects made of these with `-r`.
//!
//! In: every function's attributes after inheritance. Out: [`FlagBarriers`]. Files
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

/// Barriers in the flags of code.
#[derive(Default)]
pub(crate) struct FlagBarriers {
    /// The flags of an input may have a number.
    pub(crate) in_inputs: bool,
    /// Functions whose code gets another number in its flags, each with that number. It is 0 if an
    /// attribute has the number now.
    pub(crate) changed: Vec<(NodeId, u32)>,
}

/// Appends the attribute where it is missing and raises it where it is too small, or raises the
/// number in the flags.
pub(super) fn add(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &MergeResult<'_>,
    lists: &mut AttributeLists<'_>,
) -> FlagBarriers {
    if merged.draft.relocatable {
        return FlagBarriers { in_inputs: true, changed: Vec::new() };
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
        return FlagBarriers::default();
    }
    let mut changed = Vec::new();
    let reached = graph.fold_entries(0, |node| needed[node], |a, b| *a.max(b));
    // Even for a single entry only the functions that it reaches count, unlike for other
    // attributes.
    for (&entry, reached) in graph.entries().iter().zip(reached) {
        needed[entry] = reached;
    }
    if merged.fixed.notes.is_none() {
        // Since 12.8 not those of jump slots, which have one section (case dialects/slots-12-9).
        let counts_slots = merged.draft.dialect.counts_registers_of_slots;
        let counts = |entry| needed[entry] > 0 && (counts_slots || !merged.is_slot(graph, entry));
        let entries = graph.entries().iter().filter(|&&entry| counts(entry));
        changed.extend(entries.map(|&entry| (entry, needed[entry])));
        return FlagBarriers { in_inputs: true, changed };
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
                changed.push((node, 0));
            }
        }
    }
    FlagBarriers { in_inputs: true, changed }
}
