//! What entries take over from the functions they reach.
//!
//! In: every function's attributes. Out: entries' lists changed. nvlink has two ways, and they
//! give different orders: one for programs with a single entry, which collects from all live
//! functions in a fixed order of attributes, and one for several, which walks the functions in
//! the order of their attribute sections (docs/LINKING.md, attributes).

use culd_cubin::attr::{code, format};

use super::lists::{Has, Lists};
use super::several::{Entry, several};
use super::{Attribute, granularity, slots};
use hashbrown::{HashMap, HashSet};

use crate::Dialect;
use crate::callgraph::CallGraph;
use crate::draft::Kind;
use crate::id::{IdVec, NodeId, OutSymbolId};
use crate::merge::Merged;

/// When each of the attributes at the end of a jump slot's list was taken over: number of the callee
/// and of its record.
pub(super) type Taken = HashMap<NodeId, Vec<(usize, usize)>>;

/// How an attribute of a callee changes that of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// It is there or not.
    Flag,
    Max,
    /// Up to 0xffff, which stands for a number that is not known.
    Sum,
    /// The last one counts.
    Last,
    /// A set of bits.
    Union,
}

/// One propagated number: code, how, the format of a new one, and the first release that propagates it.
struct Rule {
    code: u8,
    merge: Merge,
    format: u8,
    since: u16,
}

const fn rule(code: u8, merge: Merge, format: u8) -> Rule {
    Rule { code, merge, format, since: 130 }
}

/// The numbers that propagate, in the order of the single-entry way.
const RULES: [Rule; 9] = [
    rule(code::CTAIDZ_USED, Merge::Flag, format::NONE),
    rule(code::RESERVED_SMEM_USED, Merge::Flag, format::NONE),
    Rule { since: 132, ..rule(code::ATTRIBUTE_62, Merge::Flag, format::NONE) },
    rule(code::VRC_CTA_INIT_COUNT, Merge::Max, format::BYTE),
    rule(code::TCGEN05_1CTA_USED, Merge::Flag, format::NONE),
    rule(code::TCGEN05_2CTA_USED, Merge::Flag, format::NONE),
    rule(code::NUM_BARRIERS, Merge::Max, format::BYTE),
    rule(code::REG_RECONFIG, Merge::Last, format::NONE),
    rule(code::NUM_MBARRIERS, Merge::Sum, format::HALF),
];

/// The number that a single entry takes over behind everything else. NCCL's functions for sm_90 have it.
const LAST_RULE: Rule = Rule { since: 133, ..rule(code::ATTRIBUTE_68, Merge::Union, format::HALF) };

/// A sum that stays at 0xffff (case attributes/many-mbarriers).
fn add(a: u32, b: u32) -> u32 {
    a.saturating_add(b).min(0xffff)
}

fn rule_of(code: u8) -> Option<&'static Rule> {
    RULES.iter().chain([&LAST_RULE]).find(|rule| rule.code == code)
}

/// True for an attribute that entries take over. Besides these they take over functions of EXTERNS.
pub(super) fn travels(code: u8, dialect: &Dialect) -> bool {
    rule_of(code).is_some_and(|rule| rule.since <= dialect.toolkit)
        || matches!(code, code::AT_ENTRY_FRAGMENTS | code::ATTRIBUTE_66)
}

/// True for an attribute of which the same once more changes nothing.
pub(super) fn is_taken_once(code: u8) -> bool {
    rule_of(code).is_some_and(|rule| matches!(rule.merge, Merge::Flag | Merge::Max | Merge::Union))
}

pub(super) fn position(list: &[Attribute<'_>], code: u8) -> Option<usize> {
    list.iter().position(|attribute| attribute.code() == code)
}

/// Runs all propagation; returns the one list of all jump slots, and the entries that [`granularity`] is about.
pub(super) fn propagate<'d>(
    graph: &CallGraph,
    merged: &Merged<'d>,
    lists: &mut Lists<'d>,
) -> (Vec<Attribute<'d>>, Vec<NodeId>) {
    let has_info = |node: NodeId| merged.function_infos[node].is_some();
    let entries: Vec<NodeId> =
        graph.entries().iter().copied().filter(|&entry| has_info(entry)).collect();
    let mut is_entry = IdVec::filled(false, graph.nodes.len());
    entries.iter().for_each(|&entry| is_entry[entry] = true);
    let functions: Vec<NodeId> =
        merged.info_order.iter().copied().filter(|&node| !is_entry[node]).collect();
    let is_slot = |node: NodeId| merged.is_jump_slot(merged.function(graph, node));
    let kernels: Vec<NodeId> = entries.iter().copied().filter(|&entry| !is_slot(entry)).collect();
    call_return_stack(graph, &kernels, lists);
    sparse_mask(graph, merged, &entries, lists);
    let single_entry = graph.single_entry().filter(|_| entries.len() == 1);
    let known = (single_entry, merged.draft.dialect);
    let mixed = granularity::mixed(graph, (&kernels, &functions), lists, known);
    let taken = if let Some(entry) = single_entry {
        single(merged, entry, &functions, lists);
        Taken::default()
    } else {
        several(graph, &functions, lists, |node| match is_slot(node) {
            true if merged.is_first_slot(merged.function(graph, node)) => Entry::FirstSlot,
            true => Entry::LaterSlot,
            false => Entry::Kernel,
        })
    };
    let slots = slots::join(graph, merged, lists, &taken);
    for &node in &functions {
        if lists.has(node).any(Has::FRAGMENTS) {
            lists.retain(node, |attribute| attribute.code() != code::AT_ENTRY_FRAGMENTS);
        }
    }
    (slots, mixed)
}

/// What there is for `entries` of `values`, one for each entry; they are among all entries, in the same order.
fn of_those<T>(
    graph: &CallGraph,
    entries: &[NodeId],
    values: Vec<T>,
) -> impl Iterator<Item = (NodeId, T)> {
    let mut wanted = entries.iter().copied().peekable();
    let all = graph.entries().iter().copied().zip(values);
    all.filter(move |(entry, _)| wanted.next_if_eq(entry).is_some())
}

/// CRS_STACK_SIZE: own plus the most of any call path, -1 when recursion can be reached.
fn call_return_stack(graph: &CallGraph, entries: &[NodeId], lists: &mut Lists<'_>) {
    let own = |node: NodeId| {
        let has = lists.has(node).any(Has::STACK);
        let at = has.then(|| position(&lists[node], code::CRS_STACK_SIZE)).flatten();
        at.map_or(0, |at| lists[node][at].number())
    };
    let sizes = graph.longest(own);
    for (entry, size) in of_those(graph, entries, sizes) {
        let value = size.unwrap_or(u32::MAX);
        let list = lists.get_mut(entry);
        match position(list, code::CRS_STACK_SIZE) {
            Some(at) => list[at] = list[at].with_number(value),
            None if value != 0 => {
                let code = code::CRS_STACK_SIZE;
                lists.push(entry, Attribute::Number { format: format::SIZED, code, value });
            }
            None => {}
        }
    }
}

/// SPARSE_MMA_MASK: once one function has it all have it, and entries take the union. An alias
/// counts as a function without.
fn sparse_mask(graph: &CallGraph, merged: &Merged<'_>, entries: &[NodeId], lists: &mut Lists<'_>) {
    const WITHOUT: u32 = 0x8000;
    let code = code::SPARSE_MMA_MASK;
    if !lists.any(Has::SPARSE_MASK) {
        return;
    }
    let has_own = |node: NodeId| {
        merged.function_infos[node].is_some() && lists.has(node).any(Has::SPARSE_MASK)
    };
    let single = graph.single_entry().is_some() && entries.len() == 1;
    // Of a program with one entry nvlink collects nothing while nothing is missing.
    let defined =
        |node: &NodeId| merged.draft.symbols[merged.function(graph, *node)].section.is_some();
    let is_slot = |node: NodeId| merged.is_jump_slot(merged.function(graph, node));
    let complete = || graph.nodes.ids().filter(defined).all(has_own);
    if single && !graph.any_dead() && complete() {
        return;
    }
    let mask = || Attribute::Number { format: format::HALF, code, value: WITHOUT };
    let mut is_alias = IdVec::filled(false, graph.nodes.len());
    for node in graph.nodes.ids().filter(|&node| !is_slot(node)) {
        if merged.function_infos[node].is_some() {
            if !lists.has(node).any(Has::SPARSE_MASK) {
                lists.push(node, mask());
            }
        } else if let Some(main) = aliased(graph, merged, node) {
            is_alias[node] = true;
            lists.push(main, mask());
        }
    }
    let own = |node: NodeId| {
        let all = lists[node].iter().filter(|attribute| attribute.code() == code);
        let own = all.fold(0, |mask, attribute| mask | attribute.number());
        own | if is_alias[node] { WITHOUT } else { 0 }
    };
    let mut masks = graph.fold_entries(0, own, |a, b| a | b);
    if single {
        // All live functions count, reachable or not.
        let all = graph.nodes.ids().map(own).fold(0, |a, b| a | b);
        masks.fill(all);
    }
    for (entry, mask) in of_those(graph, entries, masks) {
        let list = lists.get_mut(entry);
        if let Some(at) = position(list, code) {
            list[at] = list[at].with_number(mask);
        }
    }
}

/// The function whose code an alias names.
fn aliased(graph: &CallGraph, merged: &Merged<'_>, node: NodeId) -> Option<NodeId> {
    let out = merged.function(graph, node);
    let section = &merged.draft.sections[merged.draft.symbols[out].section?];
    let main = section.function.filter(|_| section.kind == Kind::Text)?;
    if main == out {
        return None;
    }
    let program = merged.draft.symbols[main].program;
    program
        .and_then(|program| graph.node(program))
        .filter(|&node| merged.function_infos[node].is_some())
}

/// One entry: everything alive counts, reachable or not.
fn single(merged: &Merged<'_>, entry: NodeId, functions: &[NodeId], lists: &mut Lists<'_>) {
    let known = |rule: &&Rule| rule.since <= merged.draft.dialect.toolkit;
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

/// One number of a single entry: that of all functions together.
fn single_number(rule: &Rule, entry: NodeId, functions: &[NodeId], lists: &mut Lists<'_>) {
    let attributes = functions.iter().flat_map(|&node| lists[node].iter());
    let values: Vec<u32> = attributes
        .filter(|attribute| attribute.code() == rule.code)
        .map(Attribute::number)
        .collect();
    let Some(max) = values.iter().max().copied() else { return };
    let sum = || values.iter().fold(0, |sum, &value| add(sum, value));
    let union = || values.iter().fold(0, |union, &value| union | value);
    let list = lists.change(entry);
    let Some(at) = position(list, rule.code) else {
        let value = match rule.merge {
            Merge::Max | Merge::Sum if max == 0 => return,
            Merge::Max => max,
            Merge::Sum => sum(),
            Merge::Union => union(),
            Merge::Flag | Merge::Last => 0,
        };
        list.push(Attribute::Number { format: rule.format, code: rule.code, value });
        return;
    };
    let own = list[at].number();
    match rule.merge {
        // nvlink leaves this one alone.
        Merge::Max if rule.code == code::VRC_CTA_INIT_COUNT => {}
        Merge::Max => list[at] = list[at].with_number(own.max(max)),
        Merge::Sum => list[at] = list[at].with_number(add(own, sum())),
        Merge::Union => list[at] = list[at].with_number(own | union()),
        Merge::Flag | Merge::Last => {}
    }
}

/// EXTERNS of a single entry: those of all live functions, its own included, the last met first
/// (since CUDA 13.2 the first), unless its own list has them all.
fn single_externs(merged: &Merged<'_>, entry: NodeId, lists: &mut Lists<'_>) {
    let mut all: Vec<OutSymbolId> = Vec::new();
    let mut seen: HashSet<OutSymbolId> = HashSet::new();
    for &node in &merged.info_order {
        for attribute in lists[node].iter().rev() {
            if let Attribute::Externs(functions) = attribute {
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
        Some(Attribute::Externs(own)) => all.iter().any(|function| !own.contains(function)),
        _ => !all.is_empty(),
    };
    if missing {
        if let Some(at) = at {
            list.remove(at);
        }
        list.push(Attribute::Externs(all));
    }
}

/// AT_ENTRY_FRAGMENTS and attribute 0x66 of a single entry: the words of all live functions, its own included, in the order of
/// reading and each once, unless its own list has them all (case attributes/tensor-memory; docs/DIALECTS.md, attributes of
/// later objects).
fn single_words(merged: &Merged<'_>, entry: NodeId, code: u8, lists: &mut Lists<'_>) {
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
    list.push(Attribute::Bytes { code, bytes: all });
}

/// Merges one attribute of a callee into an entry's list.
pub(super) fn take_over<'d>(list: &mut Vec<Attribute<'d>>, incoming: &Attribute<'d>) {
    let code = incoming.code();
    let at = position(list, code);
    if let Attribute::Externs(functions) = incoming {
        match at.map(|at| &mut list[at]) {
            Some(Attribute::Externs(own)) => {
                for &function in functions {
                    if !own.contains(&function) {
                        own.push(function);
                    }
                }
            }
            // An empty list keeps the place for later ones.
            _ => list.push(incoming.clone()),
        }
        return;
    }
    let Some(rule) = rule_of(code) else {
        match at {
            None => list.push(incoming.clone()),
            Some(at) => {
                let mut bytes = list[at].bytes().to_vec();
                add_words(&mut bytes, incoming.bytes());
                list[at] = Attribute::Bytes { code, bytes };
            }
        }
        return;
    };
    let value = incoming.number();
    let Some(at) = at else {
        let value = if rule.merge == Merge::Flag { 0 } else { value };
        list.push(Attribute::Number { format: rule.format, code, value });
        return;
    };
    let own = list[at].number();
    match rule.merge {
        Merge::Flag => {}
        Merge::Max => list[at] = list[at].with_number(own.max(value)),
        Merge::Sum => list[at] = list[at].with_number(add(own, value)),
        Merge::Union => list[at] = list[at].with_number(own | value),
        Merge::Last if value == 0 => {}
        Merge::Last => list[at] = list[at].with_number(value),
    }
}

/// Adds those words that are not there.
fn add_words(bytes: &mut Vec<u8>, incoming: &[u8]) {
    for word in incoming.chunks_exact(4) {
        if !has_word(bytes, word) {
            bytes.extend_from_slice(word);
        }
    }
}

fn has_word(bytes: &[u8], word: &[u8]) -> bool {
    bytes.chunks_exact(4).any(|own| own == word)
}
