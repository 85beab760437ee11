//! Inheritance in programs with several entries.
//!
//! In: every function's attributes. Out: the lists of entries, changed. Each entry inherits record
//! by record from the functions that it reaches, in the order in which their lists were read (their
//! *rank*). Most functions pass on the same few numbers, and to inherit the same number twice
//! changes nothing. So functions that pass on the same numbers form a kind ([`PassedKinds`]), and
//! of each kind only the first function that an entry reaches matters. One pass over the call graph
//! finds these for all entries.

use culd_cubin::attr::code;
use hashbrown::HashMap;

use super::attribute::OutAttribute;
use super::inherit::inherit;
use super::lists::{AttributeLists, ListTraits};
use super::rules::position;
use super::slots::InheritanceOrder;
use crate::base::id::{IdVec, NodeId};
use crate::callgraph::CallGraph;

/// The number of kinds that are tracked.
const MAX_SETS: usize = 8;

/// Ranks of the functions that a function reaches; `u32::MAX` for none.
#[derive(Clone, Copy)]
struct ReachedRanks {
    /// The first function of each of the [`PassedKinds`].
    firsts: [u32; MAX_SETS],
    /// The first function with EXTERNS, even empty ones: there an entry without EXTERNS gets its
    /// own.
    first_externs: u32,
    /// The rank after the last function that passes anything on.
    end: u32,
}

impl ReachedRanks {
    const NONE: ReachedRanks =
        ReachedRanks { firsts: [u32::MAX; MAX_SETS], first_externs: u32::MAX, end: 0 };

    fn join(a: &ReachedRanks, b: &ReachedRanks) -> ReachedRanks {
        ReachedRanks {
            firsts: std::array::from_fn(|kind| a.firsts[kind].min(b.firsts[kind])),
            first_externs: a.first_externs.min(b.first_externs),
            end: a.end.max(b.end),
        }
    }
}

/// Functions grouped by the attributes that they pass on, if repetition changes nothing. Without
/// them: +19 % instructions on many1000 for sm_100.
struct PassedKinds {
    /// The kind of each function; [`MAX_SETS`] for none.
    of: IdVec<NodeId, u8>,
}

impl PassedKinds {
    /// Finds the most frequent kinds.
    fn find(functions: &[NodeId], lists: &AttributeLists<'_>) -> Self {
        const NONE: u32 = u32::MAX;
        let mut numbers: HashMap<Vec<(u8, u32)>, u32> = HashMap::new();
        let mut counts: Vec<usize> = Vec::new();
        let mut number_of = vec![NONE; functions.len()];
        let mut key = Vec::new();
        for (&node, number) in functions.iter().zip(&mut number_of) {
            let has = lists.has(node);
            if !has.any(ListTraits::INHERITED) || has.any(ListTraits::ACCUMULATES) {
                continue;
            }
            key.clear();
            let passed = passed_on(lists, &lists[node]);
            key.extend(passed.map(|attribute| (attribute.code(), attribute.number())));
            *number = *numbers.entry_ref(&key).or_insert(counts.len() as u32);
            counts.resize(counts.len().max(*number as usize + 1), 0);
            counts[*number as usize] += 1;
        }
        let mut most: Vec<usize> = (0..counts.len()).collect();
        most.sort_by_key(|&number| std::cmp::Reverse(counts[number]));
        let mut kinds = vec![MAX_SETS as u8; counts.len()];
        for (&number, kind) in most.iter().zip(0..MAX_SETS as u8) {
            kinds[number] = kind;
        }
        let mut of = IdVec::filled(MAX_SETS as u8, lists.nodes().len());
        for (&node, &number) in functions.iter().zip(&number_of).filter(|pair| *pair.1 != NONE) {
            of[node] = kinds[number as usize];
        }
        PassedKinds { of }
    }

    fn of(&self, node: NodeId) -> Option<usize> {
        Some(usize::from(self.of[node])).filter(|&kind| kind < MAX_SETS)
    }
}

/// What a function with this list passes on, in the order of inheritance. Only for lists with an
/// attribute that is inherited ([`crate::attributes::rules::is_inherited`]).
fn passed_on<'l, 'd>(
    lists: &'l AttributeLists<'d>,
    list: &'l [OutAttribute<'d>],
) -> impl Iterator<Item = &'l OutAttribute<'d>> + Clone {
    list.iter().rev().filter(|attribute| lists.codes.is_passed_on(attribute))
}

/// The kind of entry that inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Kernel,
    /// The first jump slot in reading order.
    FirstSlot,
    LaterSlot,
}

/// Lets all entries inherit; returns the order of inheritance for jump slots. All jump slots share
/// one section, which nvlink treats as that of the first slot. So every later slot inherits as if
/// its own list were empty (case unified/called on sm_100).
pub(super) fn propagate_by_rank<'d>(
    graph: &CallGraph,
    functions: &[NodeId],
    lists: &mut AttributeLists<'d>,
    what: impl Fn(NodeId) -> EntryKind,
) -> InheritanceOrder {
    let mut rank = IdVec::filled(u32::MAX, graph.nodes.len());
    let mut passes = IdVec::filled(false, graph.nodes.len());
    for (i, &node) in functions.iter().enumerate() {
        rank[node] = i as u32;
        passes[node] = lists.has(node).any(ListTraits::INHERITED);
    }
    let kinds = PassedKinds::find(functions, lists);
    let own = |node: NodeId| {
        let mut own = ReachedRanks::NONE;
        if let Some(kind) = kinds.of(node) {
            own.firsts[kind] = rank[node];
        }
        if passes[node] {
            own.end = rank[node] + 1;
        }
        if lists.has(node).any(ListTraits::EXTERNS) {
            own.first_externs = rank[node];
        }
        own
    };
    let mut reached_ranks =
        graph.fold_entries(ReachedRanks::NONE, own, ReachedRanks::join).into_iter();
    let others = graph.nodes.ids().map(|node| passes[node] && kinds.of(node).is_none()).collect();
    // Functions with names of the driver's inherit and pass on, but only what is their own.
    let of_driver = functions.iter().copied().filter(|&node| graph.is_driver_function(node));
    let own_lists: HashMap<NodeId, Vec<OutAttribute<'d>>> =
        of_driver.map(|node| (node, lists[node].to_vec())).collect();
    let mut inherited = InheritanceOrder::default();
    let mut ranks: Vec<usize> = Vec::new();
    // For each inherited attribute: the rank of the function, and the number of its record.
    let mut when: Vec<(usize, usize)> = Vec::new();
    graph.each_reached(&others, |entry, reached| {
        let ReachedRanks { firsts, first_externs, end } =
            reached_ranks.next().unwrap_or(ReachedRanks::NONE);
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
        // Entries inherit and never pass on; all other functions pass on and never inherit.
        let mut list = std::mem::take(lists.change(entry));
        let mut hidden =
            if what == EntryKind::LaterSlot { std::mem::take(&mut list) } else { Vec::new() };
        let own = list.len();
        when.clear();
        for &rank in &ranks {
            if first_externs < rank {
                keep_place_for_externs(&mut list);
                when.resize(list.len() - own, (rank, 0));
            }
            let function = functions[rank];
            let passing = own_lists.get(&function).map_or(&lists[function][..], Vec::as_slice);
            for (record, attribute) in passed_on(lists, passing).enumerate() {
                inherit(&mut list, attribute);
                when.resize(list.len() - own, (rank, record));
            }
        }
        // Later functions of a kind that the entry has met only reserve the place of EXTERNS.
        if first_externs < end.saturating_sub(1) {
            keep_place_for_externs(&mut list);
            when.resize(list.len() - own, (end - 1, 0));
        }
        if what != EntryKind::Kernel {
            inherited.insert(entry, when.clone());
        }
        if !hidden.is_empty() {
            hidden.append(&mut list);
            list = hidden;
        }
        *lists.change(entry) = list;
    });
    inherited
}

/// Adds empty EXTERNS, which reserve the place for functions inherited later.
fn keep_place_for_externs(list: &mut Vec<OutAttribute<'_>>) {
    if position(list, code::EXTERNS).is_none() {
        list.push(OutAttribute::Externs(Vec::new()));
    }
}
