//! What entries take over where there are several of them.
//!
//! In: every function's attributes. Out: the lists of entries, changed. Each takes over record by record from the
//! functions it reaches, in the order in which their lists were read. Most functions pass on the same few numbers, and to
//! take these over again changes nothing: of such a [`Kinds`] only the first function that an entry reaches counts, which
//! is found for all entries at once.

use hashbrown::HashMap;

use super::Attribute;
use super::lists::{Has, Lists};
use super::propagate::{Taken, position, take_over};
use crate::callgraph::CallGraph;
use crate::id::{IdVec, NodeId};
use culd_cubin::attr::code;

/// The most kinds that are looked at as such.
const MOST: usize = 8;

/// Ranks of the functions that a function reaches: their places in the order of reading, `u32::MAX` for none.
#[derive(Clone, Copy)]
struct Ranks {
    /// The first of each of the [`Kinds`].
    firsts: [u32; MOST],
    /// The first that has EXTERNS, empty or not: where an entry without EXTERNS gets them.
    first_externs: u32,
    /// The one behind the last that passes something on.
    end: u32,
}

impl Ranks {
    const NONE: Ranks = Ranks { firsts: [u32::MAX; MOST], first_externs: u32::MAX, end: 0 };

    fn join(a: &Ranks, b: &Ranks) -> Ranks {
        Ranks {
            firsts: std::array::from_fn(|kind| a.firsts[kind].min(b.firsts[kind])),
            first_externs: a.first_externs.min(b.first_externs),
            end: a.end.max(b.end),
        }
    }
}

/// Functions by what they pass on, where that is taken over once only.
struct Kinds {
    /// By function; [`MOST`] for none.
    of: IdVec<NodeId, u8>,
}

impl Kinds {
    /// The kinds of which there are the most functions.
    fn find(functions: &[NodeId], lists: &Lists<'_>) -> Self {
        const NONE: u32 = u32::MAX;
        let mut numbers: HashMap<Vec<(u8, u32)>, u32> = HashMap::new();
        let mut counts: Vec<usize> = Vec::new();
        let mut number_of = vec![NONE; functions.len()];
        let (mut key, mut last) = (Vec::new(), (Vec::new(), NONE));
        for (&node, number) in functions.iter().zip(&mut number_of) {
            let has = lists.has(node);
            if !has.any(Has::TRAVELS) || has.any(Has::TAKEN_AGAIN) {
                continue;
            }
            key.clear();
            let passed = passed(lists, node);
            key.extend(passed.map(|attribute| (attribute.code(), attribute.number())));
            // Most are like the one before.
            if last.1 == NONE || last.0 != key {
                let next = counts.len() as u32;
                let known = *numbers.entry_ref(&key).or_insert(next);
                counts.resize(counts.len().max(known as usize + 1), 0);
                last = (key.clone(), known);
            }
            *number = last.1;
            counts[last.1 as usize] += 1;
        }
        let mut most: Vec<usize> = (0..counts.len()).collect();
        most.sort_by_key(|&number| std::cmp::Reverse(counts[number]));
        let mut kinds = vec![MOST as u8; counts.len()];
        for (&number, kind) in most.iter().zip(0..MOST as u8) {
            kinds[number] = kind;
        }
        let mut of = IdVec::filled(MOST as u8, lists.nodes().len());
        for (&node, &number) in functions.iter().zip(&number_of).filter(|pair| *pair.1 != NONE) {
            of[node] = kinds[number as usize];
        }
        Kinds { of }
    }

    fn of(&self, node: NodeId) -> Option<usize> {
        Some(usize::from(self.of[node])).filter(|&kind| kind < MOST)
    }
}

/// What a function passes on, in the order in which it is taken over, if any of it [travels](super::propagate::travels).
fn passed<'l, 'd>(
    lists: &'l Lists<'d>,
    node: NodeId,
) -> impl Iterator<Item = &'l Attribute<'d>> + Clone {
    lists[node].iter().rev().filter(|attribute| lists.codes.passes(attribute))
}

/// What takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Kernel,
    /// The first jump slot that was read, and the others.
    FirstSlot,
    LaterSlot,
}

/// Jump slots but the first take over as if their own list were empty: they have one section together,
/// which nvlink takes for that of the first (case unified/called on sm_100).
pub(super) fn several<'d>(
    graph: &CallGraph,
    functions: &[NodeId],
    lists: &mut Lists<'d>,
    what: impl Fn(NodeId) -> Entry,
) -> Taken {
    let mut rank = IdVec::filled(u32::MAX, graph.nodes.len());
    let mut passes = IdVec::filled(false, graph.nodes.len());
    for (i, &node) in functions.iter().enumerate() {
        rank[node] = i as u32;
        passes[node] = lists.has(node).any(Has::TRAVELS);
    }
    let kinds = Kinds::find(functions, lists);
    let own = |node: NodeId| {
        let mut own = Ranks::NONE;
        if let Some(kind) = kinds.of(node) {
            own.firsts[kind] = rank[node];
        }
        if passes[node] {
            own.end = rank[node] + 1;
        }
        if lists.has(node).any(Has::EXTERNS) {
            own.first_externs = rank[node];
        }
        own
    };
    let mut reached_ranks = graph.fold_entries(Ranks::NONE, own, Ranks::join).into_iter();
    let others = graph.nodes.ids().map(|node| passes[node] && kinds.of(node).is_none()).collect();
    let mut taken = Taken::default();
    let mut ranks: Vec<usize> = Vec::new();
    // For each attribute that the entry takes over the rank of the function and the number of its record.
    let mut when: Vec<(usize, usize)> = Vec::new();
    graph.each_reached(&others, |entry, reached| {
        let Ranks { firsts, first_externs, end } = reached_ranks.next().unwrap_or(Ranks::NONE);
        let of_kinds = firsts.into_iter().filter(|&rank| rank != u32::MAX);
        let others = reached.iter().map(|&node| rank[node]);
        ranks.clear();
        ranks.extend(others.chain(of_kinds).map(|rank| rank as usize));
        let (first_externs, end) = (first_externs as usize, end as usize);
        if ranks.is_empty() && first_externs >= end.saturating_sub(1) {
            return;
        }
        ranks.sort_unstable();
        let what = what(entry);
        // Only entries take over, and only others pass on.
        let mut list = std::mem::take(lists.change(entry));
        let mut hidden =
            if what == Entry::LaterSlot { std::mem::take(&mut list) } else { Vec::new() };
        let own = list.len();
        when.clear();
        for &rank in &ranks {
            if first_externs < rank {
                keep_place_for_externs(&mut list);
                when.resize(list.len() - own, (rank, 0));
            }
            for (record, attribute) in passed(lists, functions[rank]).enumerate() {
                take_over(&mut list, attribute);
                when.resize(list.len() - own, (rank, record));
            }
        }
        // The last of a kind changes nothing else.
        if first_externs < end.saturating_sub(1) {
            keep_place_for_externs(&mut list);
            when.resize(list.len() - own, (end - 1, 0));
        }
        if what != Entry::Kernel {
            taken.insert(entry, when.clone());
        }
        if !hidden.is_empty() {
            hidden.append(&mut list);
            list = hidden;
        }
        *lists.change(entry) = list;
    });
    taken
}

/// An empty list keeps the place for externs that come later.
fn keep_place_for_externs(list: &mut Vec<Attribute<'_>>) {
    if position(list, code::EXTERNS).is_none() {
        list.push(Attribute::Externs(Vec::new()));
    }
}
