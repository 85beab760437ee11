//! Inheritance: what entries take from the functions that they reach.
//!
//! In: every function's attributes. Out: the lists of entries, changed. nvlink has two algorithms
//! with different orders. For a program with a single entry it collects from all live functions in
//! a fixed order of attributes. For several entries it walks the functions in the order of their
//! attribute sections (docs/LINKING.md, attributes).

use culd_cubin::attr::{code, format};
use hashbrown::HashSet;

use super::attribute::OutAttribute;
use super::by_rank::{EntryKind, propagate_by_rank};
use super::granularity;
use super::inherit::{add_words, has_word};
use super::lists::{AttributeLists, ListTraits};
use super::rules::{InheritMode, InheritRule, LAST_RULE, RULES, add, position};
use super::slots::{self, InheritanceOrder};
use crate::base::id::{IdVec, NodeId, OutSymbolId};
use crate::callgraph::CallGraph;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;

/// Runs all propagation. Returns the common list of all jump slots, and the entries that
/// [`crate::attributes::granularity`] finds.
pub(super) fn propagate<'d>(
    graph: &CallGraph,
    merged: &MergeResult<'d>,
    unbounded: &HashSet<NodeId>,
    lists: &mut AttributeLists<'d>,
) -> (Vec<OutAttribute<'d>>, Vec<NodeId>) {
    let has_info = |node: NodeId| merged.function_infos[node].is_some();
    let entries: Vec<NodeId> =
        graph.entries().iter().copied().filter(|&entry| has_info(entry)).collect();
    let mut is_entry = IdVec::filled(false, graph.nodes.len());
    entries.iter().for_each(|&entry| is_entry[entry] = true);
    let passes_on = |&node: &NodeId| !is_entry[node] || graph.is_driver_function(node);
    let functions: Vec<NodeId> = merged.info_order.iter().copied().filter(passes_on).collect();
    let is_slot = |node: NodeId| merged.is_slot(graph, node);
    let kernels: Vec<NodeId> = entries.iter().copied().filter(|&entry| !is_slot(entry)).collect();
    call_return_stack(graph, &kernels, unbounded, lists);
    let masked_aliases = sparse_mask(graph, merged, &entries, lists);
    let single_entry = graph.single_entry().filter(|_| entries.len() == 1);
    let dialect = merged.draft.dialect;
    let mixed = granularity::mixed(graph, &kernels, &functions, lists, single_entry, dialect);
    let inherited = if let Some(entry) = single_entry {
        propagate_to_single(merged, entry, &functions, lists);
        InheritanceOrder::default()
    } else {
        propagate_by_rank(graph, &functions, lists, |node| match is_slot(node) {
            true if merged.is_first_slot(merged.function(graph, node)) => EntryKind::FirstSlot,
            true => EntryKind::LaterSlot,
            false => EntryKind::Kernel,
        })
    };
    let slots = slots::joined_list(graph, merged, lists, &inherited, masked_aliases);
    for &node in &functions {
        if lists.has(node).any(ListTraits::FRAGMENTS) {
            lists.retain(node, |attribute| attribute.code() != code::AT_ENTRY_FRAGMENTS);
        }
    }
    (slots, mixed)
}

/// Pairs each of `entries` with its value. `values` has a value for every entry of the program, in
/// the same order.
fn of_those<T>(
    graph: &CallGraph,
    entries: &[NodeId],
    values: Vec<T>,
) -> impl Iterator<Item = (NodeId, T)> {
    let mut wanted = entries.iter().copied().peekable();
    let all = graph.entries().iter().copied().zip(values);
    all.filter(move |(entry, _)| wanted.next_if_eq(entry).is_some())
}

/// CRS_STACK_SIZE of an entry: the largest sum on any call path; -1 if the entry can reach
/// recursion.
fn call_return_stack(
    graph: &CallGraph,
    entries: &[NodeId],
    unbounded: &HashSet<NodeId>,
    lists: &mut AttributeLists<'_>,
) {
    let own = |node: NodeId| {
        let has = lists.has(node).any(ListTraits::STACK);
        let at = has.then(|| position(&lists[node], code::CRS_STACK_SIZE)).flatten();
        at.map_or(0, |at| lists[node][at].number())
    };
    let sizes = graph.longest(own);
    for (entry, size) in of_those(graph, entries, sizes) {
        let value = size.filter(|_| !unbounded.contains(&entry)).unwrap_or(u32::MAX);
        let list = lists.get_mut(entry);
        match position(list, code::CRS_STACK_SIZE) {
            Some(at) => list[at] = list[at].with_number(value),
            None if value != 0 => {
                let code = code::CRS_STACK_SIZE;
                lists.push(entry, OutAttribute::Number { format: format::SIZED, code, value });
            }
            None => {}
        }
    }
}

/// SPARSE_MMA_MASK: if one function has it, all get it, and entries inherit the union. An alias
/// counts as a function without it. Returns how many jump slots are aliases of the first one that
/// give it another mask.
fn sparse_mask(
    graph: &CallGraph,
    merged: &MergeResult<'_>,
    entries: &[NodeId],
    lists: &mut AttributeLists<'_>,
) -> usize {
    let code = code::SPARSE_MMA_MASK;
    if !lists.any(ListTraits::SPARSE_MASK) {
        return 0;
    }
    let has_own = |node: NodeId| {
        merged.function_infos[node].is_some() && lists.has(node).any(ListTraits::SPARSE_MASK)
    };
    let single = graph.single_entry().is_some() && entries.len() == 1;
    // In a program with one entry, nvlink collects nothing if every function has the attribute.
    // A function without name that -g keeps has none (case dialects/slots-with-g-12-4).
    let defined = |node: &NodeId| {
        let symbol = merged.function(graph, *node);
        merged.draft.symbols[symbol].section.is_some() || merged.nameless.contains(&symbol)
    };
    let complete = || graph.nodes.ids().filter(defined).all(has_own);
    if single && !graph.any_dead() && complete() {
        return 0;
    }
    let aliases = match merged.draft.dialect.slots_are_aliases {
        true => merged.unified.slots.get(1..).unwrap_or_default(),
        false => &[],
    };
    // A function without one gets it though an alias that was named first has given it one (case
    // dialects/alias-without-mask).
    let lacks: IdVec<NodeId, bool> =
        graph.nodes.ids().map(|node| !lists.has(node).any(ListTraits::SPARSE_MASK)).collect();
    let mut is_alias = IdVec::filled(false, graph.nodes.len());
    for node in graph.nodes.ids().filter(|&node| !merged.is_slot(graph, node)) {
        if merged.function_infos[node].is_some() {
            if lacks[node] {
                lists.push(node, slots::mask(slots::WITHOUT_MASK));
            }
        } else if let Some(main) = aliased(graph, merged, node) {
            is_alias[node] = true;
            lists.push(main, slots::mask(slots::WITHOUT_MASK));
        }
    }
    for slot in aliases {
        let program = merged.draft.symbols[slot.stub].program;
        if let Some(node) = program.and_then(|program| graph.node(program)) {
            is_alias[node] = true;
        }
    }
    let own = |node: NodeId| {
        let all = lists[node].iter().filter(|attribute| attribute.code() == code);
        let own = all.fold(0, |mask, attribute| mask | attribute.number());
        own | if is_alias[node] { slots::WITHOUT_MASK } else { 0 }
    };
    let mut masks = graph.fold_entries(0, own, |a, b| a | b);
    if single {
        // All live functions count, whether the entry reaches them or not.
        let all = graph.nodes.ids().map(own).fold(0, |a, b| a | b);
        masks.fill(all);
    }
    for (entry, mask) in of_those(graph, entries, masks) {
        let list = lists.get_mut(entry);
        if let Some(at) = position(list, code) {
            list[at] = list[at].with_number(mask);
        }
    }
    aliases.len()
}

/// The function whose code an alias names. A function inside another one's code is not an alias.
fn aliased(graph: &CallGraph, merged: &MergeResult<'_>, node: NodeId) -> Option<NodeId> {
    let out = merged.function(graph, node);
    if merged.draft.symbols[out].value > 0 {
        return None;
    }
    let section = &merged.draft.sections[merged.draft.symbols[out].section?];
    let main = section.function.filter(|_| section.kind == SectionKind::Text)?;
    if main == out {
        return None;
    }
    let program = merged.draft.symbols[main].program;
    program
        .and_then(|program| graph.node(program))
        .filter(|&node| merged.function_infos[node].is_some())
}

/// Inheritance of a single entry: from every live function, whether it reaches them or not.
fn propagate_to_single(
    merged: &MergeResult<'_>,
    entry: NodeId,
    functions: &[NodeId],
    lists: &mut AttributeLists<'_>,
) {
    let known = |rule: &&InheritRule| rule.since <= merged.draft.dialect.toolkit;
    for rule in RULES.iter().filter(known) {
        single_number(rule, entry, functions, lists);
    }
    single_externs(merged, entry, lists);
    single_words(merged, entry, code::ATTRIBUTE_66, lists);
    single_words(merged, entry, code::AT_ENTRY_FRAGMENTS, lists);
    if known(&&LAST_RULE) {
        single_number(&LAST_RULE, entry, functions, lists);
    }
}

/// Merges one number of all functions into a single entry.
fn single_number(
    rule: &InheritRule,
    entry: NodeId,
    functions: &[NodeId],
    lists: &mut AttributeLists<'_>,
) {
    let attributes = functions.iter().flat_map(|&node| lists[node].iter());
    let values: Vec<u32> = attributes
        .filter(|attribute| attribute.code() == rule.code)
        .map(OutAttribute::number)
        .collect();
    let Some(max) = values.iter().max().copied() else { return };
    let sum = || values.iter().fold(0, |sum, &value| add(sum, value));
    let union = || values.iter().fold(0, |union, &value| union | value);
    let list = lists.change(entry);
    let Some(at) = position(list, rule.code) else {
        let value = match rule.mode {
            InheritMode::Max | InheritMode::Sum if max == 0 => return,
            InheritMode::Max => max,
            InheritMode::Sum => sum(),
            InheritMode::Union => union(),
            InheritMode::Flag | InheritMode::Last => 0,
        };
        list.push(OutAttribute::Number { format: rule.format, code: rule.code, value });
        return;
    };
    let own = list[at].number();
    match rule.mode {
        // nvlink does not raise this one.
        InheritMode::Max if rule.code == code::VRC_CTA_INIT_COUNT => {}
        InheritMode::Max => list[at] = list[at].with_number(own.max(max)),
        InheritMode::Sum => list[at] = list[at].with_number(add(own, sum())),
        InheritMode::Union => list[at] = list[at].with_number(own | union()),
        InheritMode::Flag | InheritMode::Last => {}
    }
}

/// EXTERNS of a single entry: those of all live functions, its own included, last seen first (since
/// CUDA 13.2: first seen first). Unchanged if its own list has them all.
fn single_externs(merged: &MergeResult<'_>, entry: NodeId, lists: &mut AttributeLists<'_>) {
    let mut all: Vec<OutSymbolId> = Vec::new();
    let mut seen: HashSet<OutSymbolId> = HashSet::new();
    for &node in &merged.info_order {
        for attribute in lists[node].iter().rev() {
            if let OutAttribute::Externs(functions) = attribute {
                all.extend(functions.iter().filter(|&&function| seen.insert(function)));
            }
        }
    }
    if !merged.draft.dialect.externs_in_order {
        all.reverse();
    }
    let list = lists.change(entry);
    let at = position(list, code::EXTERNS);
    let missing = match at.map(|at| &list[at]) {
        Some(OutAttribute::Externs(own)) => all.iter().any(|function| !own.contains(function)),
        _ => !all.is_empty(),
    };
    if missing {
        if let Some(at) = at {
            list.remove(at);
        }
        list.push(OutAttribute::Externs(all));
    }
}

/// AT_ENTRY_FRAGMENTS and attribute 0x66 of a single entry: the distinct words of all live
/// functions, its own included, in reading order. Unchanged if its own list has them all (case
/// attributes/tensor-memory; docs/DIALECTS.md, attributes of later objects).
fn single_words(merged: &MergeResult<'_>, entry: NodeId, code: u8, lists: &mut AttributeLists<'_>) {
    let mut all: Vec<u8> = Vec::new();
    for &node in &merged.info_order {
        for attribute in lists[node].iter().filter(|attribute| attribute.code() == code) {
            add_words(&mut all, attribute.bytes());
        }
    }
    let list = lists.change(entry);
    let at = position(list, code);
    let own = at.map_or(&[][..], |at| list[at].bytes());
    if own.len() == all.len() && all.chunks_exact(4).all(|word| has_word(own, word)) {
        return;
    }
    if let Some(at) = at {
        list.remove(at);
    }
    list.push(OutAttribute::Bytes { code, bytes: all });
}
