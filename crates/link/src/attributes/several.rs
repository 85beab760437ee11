//! What entries take over where there are several of them.
//!
//! In: every function's attributes. Out: the lists of entries, changed. Each takes over record by record from the
//! functions it reaches, in the order in which their lists were read. Most functions pass on the same few numbers, and to
//! take these over again changes nothing: of such a [`Kinds`] only the first function that an entry reaches counts, which
//! is found for all entries at once.

use hashbrown::HashMap;

use super::Attribute;
use super::propagate::{Lists, Taken, is_taken_once, position, take_over, travels};
use crate::Dialect;
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
    of: IdVec<NodeId, Option<usize>>,
}

impl Kinds {
    /// The kinds of which there are the most functions.
    fn find(functions: &[NodeId], lists: &Lists<'_>, dialect: &Dialect) -> Self {
        let mut numbers: HashMap<Vec<(u8, u32)>, usize> = HashMap::new();
        let mut members: Vec<Vec<NodeId>> = Vec::new();
        let mut key = Vec::new();
        for &node in functions {
            let passed = || passed(&lists[node], dialect);
            if passed().next().is_none() || !passed().all(is_taken_once) {
                continue;
            }
            key.clear();
            key.extend(passed().map(|attribute| (attribute.code(), attribute.number())));
            match numbers.get(&key) {
                Some(&number) => members[number].push(node),
                None => {
                    numbers.insert(key.clone(), members.len());
                    members.push(vec![node]);
                }
            }
        }
        members.sort_by_key(|nodes| std::cmp::Reverse(nodes.len()));
        members.truncate(MOST);
        let mut of = IdVec::filled(None, lists.len());
        for (kind, nodes) in members.iter().enumerate() {
            nodes.iter().for_each(|&node| of[node] = Some(kind));
        }
        Kinds { of }
    }
}

/// What a function passes on, in the order in which it is taken over: nothing if none of it travels.
fn passed<'l, 'd>(
    list: &'l [Attribute<'d>],
    dialect: &'l Dialect,
) -> impl Iterator<Item = &'l Attribute<'d>> + Clone {
    let travels = |attribute: &Attribute<'_>| travels(attribute, dialect);
    let list = if list.iter().any(travels) { list } else { &[] };
    let passes = move |attribute: &&Attribute<'_>| {
        travels(attribute) || matches!(attribute, Attribute::Externs(_))
    };
    list.iter().rev().filter(passes)
}

/// Entries of which `hidden` is true take over as if their own list were empty: jump slots have one section together,
/// which nvlink takes for that of the first (case unified/called on sm_100).
pub(super) fn several<'d>(
    graph: &CallGraph,
    functions: &[NodeId],
    lists: &mut Lists<'d>,
    dialect: &Dialect,
    hidden: impl Fn(NodeId) -> bool,
) -> Taken {
    let mut rank = IdVec::filled(u32::MAX, graph.nodes.len());
    let mut passes = IdVec::filled(false, graph.nodes.len());
    for (i, &node) in functions.iter().enumerate() {
        rank[node] = i as u32;
        passes[node] = lists[node].iter().any(|attribute| travels(attribute, dialect));
    }
    let kinds = Kinds::find(functions, lists, dialect);
    let own = |node: NodeId| {
        let mut own = Ranks::NONE;
        if let Some(kind) = kinds.of[node] {
            own.firsts[kind] = rank[node];
        }
        if passes[node] {
            own.end = rank[node] + 1;
        }
        if position(&lists[node], code::EXTERNS).is_some() {
            own.first_externs = rank[node];
        }
        own
    };
    let reached_ranks = graph.fold(Ranks::NONE, own, Ranks::join);
    let others = graph.nodes.ids().map(|node| passes[node] && kinds.of[node].is_none()).collect();
    let own: IdVec<NodeId, usize> = lists.values().map(Vec::len).collect();
    let mut taken: Taken = IdVec::filled(Vec::new(), graph.nodes.len());
    graph.each_reached(&others, |entry, reached| {
        let hidden = if hidden(entry) { own[entry] } else { 0 };
        // Only entries take over, and only others pass on.
        let mut whole = std::mem::take(&mut lists[entry]);
        let mut list = whole.split_off(hidden);
        let own = own[entry] - hidden;
        let Ranks { firsts, first_externs, end } = reached_ranks[entry];
        let of_kinds = firsts.into_iter().filter(|&rank| rank != u32::MAX);
        let others = reached.iter().map(|&node| rank[node]);
        let mut ranks: Vec<usize> = others.chain(of_kinds).map(|rank| rank as usize).collect();
        let (first_externs, end) = (first_externs as usize, end as usize);
        ranks.sort_unstable();
        for rank in ranks {
            if first_externs < rank {
                keep_place_for_externs(&mut list);
                taken[entry].resize(list.len() - own, (rank, 0));
            }
            for (record, attribute) in passed(&lists[functions[rank]], dialect).enumerate() {
                take_over(&mut list, attribute);
                taken[entry].resize(list.len() - own, (rank, record));
            }
        }
        // The last of a kind changes nothing else.
        if first_externs < end.saturating_sub(1) {
            keep_place_for_externs(&mut list);
            taken[entry].resize(list.len() - own, (end - 1, 0));
        }
        whole.append(&mut list);
        lists[entry] = whole;
    });
    taken
}

/// An empty list keeps the place for externs that come later.
fn keep_place_for_externs(list: &mut Vec<Attribute<'_>>) {
    if position(list, code::EXTERNS).is_none() {
        list.push(Attribute::Externs(Vec::new()));
    }
}
