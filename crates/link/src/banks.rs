//! Phase 5: constant banks of functions that are no entries go into the entries' banks.
//!
//! In: the merged draft. Out: entries' bank sections, and [`crate::merge::Bank::offset`] set.
//! The same offset must suit every entry that can reach the function, because its code names one
//! (cases literals/*). Banks are handled last read first, as nvlink does.

use culd_cubin::elf::shf;

use crate::callgraph::CallGraph;
use crate::draft::{Kind, Part};
use crate::id::{BankId, IdVec, NodeId, SectionId};
use crate::merge::{Bank, Merged};

/// Merges all banks of non-entries.
pub(crate) fn merge_banks<'d>(merged: &mut Merged<'d>, graph: &CallGraph) {
    if merged.banks.len() == 0 {
        return;
    }
    let users = users(merged, graph);
    let ids: Vec<BankId> = merged.banks.ids().collect();
    for id in ids.into_iter().rev() {
        let bank = merged.banks[id].clone();
        let entries = &users[bank.node];
        let end = |&entry: &NodeId| {
            let section = entry_bank(merged, graph, entry, bank.number);
            section.map_or(0, |section| merged.draft.sections[section].size)
        };
        let offset = entries.iter().map(end).max().unwrap_or(0).next_multiple_of(bank.align);
        merged.banks[id].offset = offset;
        if offset + bank.size == 0 {
            continue;
        }
        for &entry in entries.iter().rev() {
            let section = entry_bank(merged, graph, entry, bank.number)
                .unwrap_or_else(|| create_bank(merged, graph, entry, &bank));
            let section = &mut merged.draft.sections[section];
            section.align = section.align.max(bank.align);
            let part = |part: &Part<'d>| Part { offset: offset + part.offset, bytes: part.bytes };
            section.parts.extend(bank.parts.iter().map(part));
            section.size = offset + bank.size;
        }
    }
}

/// What copies that lost leave behind: symbol 0 gets the offset of the last one's literals, and
/// sections that are still empty go, with their names.
pub(crate) fn settle_lost(merged: &mut Merged<'_>) {
    if let Some(lost) = merged.last_lost {
        let base = lost.bank.map_or(0, |bank| merged.banks[bank].offset);
        merged.draft.null_value = base + lost.offset;
    }
    for &section in &merged.emptied {
        let output = &mut merged.draft.sections[section];
        if output.size == 0 {
            output.dropped = true;
            merged.draft.removed_names.insert(output.name);
        }
    }
}

/// For every function with a bank: the entries that reach it, in node order.
fn users(merged: &Merged<'_>, graph: &CallGraph) -> IdVec<NodeId, Vec<NodeId>> {
    let mut wanted = IdVec::filled(false, graph.nodes.len());
    merged.banks.values().for_each(|bank| wanted[bank.node] = true);
    let mut users = IdVec::filled(Vec::new(), graph.nodes.len());
    for (&entry, reached) in graph.entries().iter().zip(graph.reached_by_entries(&wanted)) {
        reached.into_iter().for_each(|node| users[node].push(entry));
    }
    users
}

fn code_of(merged: &Merged<'_>, graph: &CallGraph, entry: NodeId) -> Option<SectionId> {
    merged.draft.symbols[merged.function(graph, entry)].section
}

fn entry_bank(
    merged: &Merged<'_>,
    graph: &CallGraph,
    entry: NodeId,
    number: u8,
) -> Option<SectionId> {
    merged.entry_banks.get(&(code_of(merged, graph, entry)?, number)).copied()
}

fn create_bank(
    merged: &mut Merged<'_>,
    graph: &CallGraph,
    entry: NodeId,
    bank: &Bank<'_>,
) -> SectionId {
    let code = code_of(merged, graph, entry);
    let name = merged.draft.symbols[merged.function(graph, entry)].name;
    let prefix = format!(".nv.constant{}.", bank.number);
    let name = merged.draft.names.prefixed(prefix.as_bytes(), name);
    let flags = shf::ALLOC | shf::INFO_LINK;
    let section = merged.draft.add_section(name, Kind::Constant(bank.number), flags, bank.align);
    merged.draft.sections[section].owner = code;
    if let Some(code) = code {
        merged.entry_banks.insert((code, bank.number), section);
    }
    section
}
