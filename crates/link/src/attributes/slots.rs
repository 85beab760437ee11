//! The attributes of jump slots: one list for their common section.
//!
//! In: the lists of the slots' functions after inheritance. Out: the list of `.nv.info..nv.uft`.
//! nvlink puts the lists of later files in front of the earlier ones. It then appends what slots
//! inherited, in the order in which it meets it, the last slot first, without EXTERNS,
//! CRS_STACK_SIZE and attribute 0x66. At the end is one SPARSE_MMA_MASK of 0 (cases
//! unified/attributes, unified/sparse-mma).

use culd_cubin::arch::Flavour;
use culd_cubin::attr::{code, format};
use hashbrown::HashMap;

use super::attribute::OutAttribute;
use super::lists::{AttributeLists, ListTraits};
use crate::base::id::NodeId;
use crate::callgraph::CallGraph;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;

/// True for a program whose jump slots cannot be linked by its release: for sm_100 and later before
/// 13.0, and, where their registers are counted, with several that are entries, because in which
/// order is not known (docs/DIALECTS.md, CUDA 12 and 11.8).
pub(super) fn are_unknown(graph: &CallGraph, merged: &MergeResult<'_>) -> bool {
    let draft = &merged.draft;
    // Slots without an index file are an error of their own.
    if merged.unified.slots.is_empty() || draft.first_of(SectionKind::Index).is_none() {
        return false;
    }
    let is_slot = |entry: &&NodeId| merged.is_slot(graph, **entry);
    let (mercury, dialect) = (draft.flavour == Flavour::Mercury, draft.dialect);
    mercury && dialect.all_in_header
        || dialect.counts_registers_of_slots && graph.entries().iter().filter(is_slot).count() > 1
}

/// SPARSE_MMA_MASK of a function that had none.
pub(super) const WITHOUT_MASK: u32 = 0x8000;

/// The attribute SPARSE_MMA_MASK.
pub(super) fn mask<'d>(value: u32) -> OutAttribute<'d> {
    OutAttribute::Number { format: format::HALF, code: code::SPARSE_MMA_MASK, value }
}

/// The attributes of all jump slots, in output order. `masked_aliases` slots count as names of the
/// first one and give it a mask each ([`super::propagate`]).
pub(super) fn joined_list<'d>(
    graph: &CallGraph,
    merged: &MergeResult<'d>,
    lists: &AttributeLists<'d>,
    inherited: &InheritanceOrder,
    masked_aliases: usize,
) -> Vec<OutAttribute<'d>> {
    let slots = merged.info_order.iter().copied().filter(|&node| merged.is_slot(graph, node));
    let slots: Vec<NodeId> = slots.collect();
    let sources = |node: NodeId| inherited.get(&node).map_or(&[][..], Vec::as_slice);
    let split = |node: NodeId| lists[node].split_at(lists[node].len() - sources(node).len());
    let own = slots.iter().rev().flat_map(|&node| split(node).0);
    let mut joined: Vec<OutAttribute<'d>> = own.cloned().collect();
    // For one callee, the last slot comes first.
    let mut entries = slots.clone();
    entries.sort_unstable();
    let mut later: Vec<_> =
        entries.iter().rev().flat_map(|&node| sources(node).iter().zip(split(node).1)).collect();
    let left_out = [code::EXTERNS, code::ATTRIBUTE_66];
    later.retain(|(_, attribute)| !left_out.contains(&attribute.code()));
    later.sort_by_key(|(from, _)| **from);
    joined.extend(later.into_iter().map(|(_, attribute)| attribute.clone()));
    if merged.draft.dialect.slots_are_aliases {
        joined.extend((0..masked_aliases).map(|_| mask(WITHOUT_MASK)));
    } else if !slots.is_empty() && lists.any(ListTraits::SPARSE_MASK) {
        joined.push(mask(0));
    }
    joined
}

/// The sources of the inherited attributes, which are at the end of each jump slot's list.
pub(super) type InheritanceOrder = HashMap<NodeId, Vec<InheritedFrom>>;

/// Where an entry has an attribute from. Attributes are inherited in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InheritedFrom {
    /// The rank of the callee ([`super::by_rank`]).
    pub(super) rank: usize,
    /// The number of the attribute among those that the callee passes on.
    pub(super) record: usize,
}
