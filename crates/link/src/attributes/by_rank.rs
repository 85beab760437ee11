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
use super::slots::{InheritanceOrder, InheritedFrom};
use crate::base::id::{IdVec, NodeId};
use crate::callgraph::CallGraph;

/// The number of kinds that are tracked: the most frequent ones.
const MAX_KINDS: usize = 8;

/// Ranks of the functions that a function reaches; `u32::MAX` for none.
#[derive(Clone, Copy)]
struct ReachedRanks {
    /// The first function of each of the [`PassedKinds`].
    firsts: [u32; MAX_KINDS],
    /// The first function with EXTERNS, even empty ones: there an entry without EXTERNS gets its
    /// own.
    first_externs: u32,
    /// The rank after the last function that passes anything on.
    end: u32,
}

impl ReachedRanks {
    const NONE: ReachedRanks =
        ReachedRanks { firsts: [u32::MAX; MAX_KINDS], first_externs: u32::MAX, end: 0 };

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
    /// The kind of each function; [`MAX_KINDS`] for none.
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
        let mut kinds = vec![MAX_KINDS as u8; counts.len()];
        for (&number, kind) in most.iter().zip(0..MAX_KINDS as u8) {
            kinds[number] = kind;
        }
        let mut of = IdVec::filled(MAX_KINDS as u8, lists.nodes().len());
        for (&node, &number) in functions.iter().zip(&number_of).filter(|pair| *pair.1 != NONE) {
            of[node] = kinds[number as usize];
        }
        PassedKinds { of }
    }

    fn of(&self, node: NodeId) -> Option<usize> {
        Some(usize::from(self.of[node])).filter(|&kind| kind < MAX_KINDS)
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
    kind_of: impl Fn(NodeId) -> EntryKind,
) -> InheritanceOrder {
    let ranks = FunctionRanks::find(graph, functions, lists);
    let own = |node: NodeId| ranks.own(lists, node);
    let mut reached_ranks =
        graph.fold_entries(ReachedRanks::NONE, own, ReachedRanks::join).into_iter();
    // Functions with names of the driver's inherit and pass on, but only what is their own.
    let of_driver = functions.iter().copied().filter(|&node| graph.is_driver_function(node));
    let own_lists: HashMap<NodeId, Vec<OutAttribute<'d>>> =
        of_driver.map(|node| (node, lists[node].to_vec())).collect();
    let mut inherited = InheritanceOrder::default();
    let mut callees: Vec<usize> = Vec::new();
    let mut sources: Vec<InheritedFrom> = Vec::new();
    graph.each_reached(&ranks.without_kind(), |entry, reached| {
        let ReachedRanks { firsts, first_externs, end } =
            reached_ranks.next().unwrap_or(ReachedRanks::NONE);
        let of_kinds = firsts.into_iter().filter(|&rank| rank != u32::MAX);
        let others = reached.iter().map(|&node| ranks.rank[node]);
        callees.clear();
        callees.extend(others.chain(of_kinds).map(|rank| rank as usize));
        let (first_externs, last) = (first_externs as usize, (end as usize).saturating_sub(1));
        if callees.is_empty() && first_externs >= last {
            return;
        }
        callees.sort_unstable();
        let kind = kind_of(entry);
        // Entries inherit and never pass on; all other functions pass on and never inherit.
        let mut list = std::mem::take(lists.change(entry));
        let mut hidden =
            if kind == EntryKind::LaterSlot { std::mem::take(&mut list) } else { Vec::new() };
        let mut heir = InheritingList::new(list, &mut sources);
        for &rank in &callees {
            if first_externs < rank {
                heir.keep_place_for_externs(rank);
            }
            let function = functions[rank];
            let passing = own_lists.get(&function).map_or(&lists[function][..], Vec::as_slice);
            for (record, attribute) in passed_on(lists, passing).enumerate() {
                heir.inherit(attribute, InheritedFrom { rank, record });
            }
        }
        // Later functions of a kind that the entry has met only reserve the place of EXTERNS.
        if first_externs < last {
            heir.keep_place_for_externs(last);
        }
        let mut list = heir.list;
        if kind != EntryKind::Kernel {
            inherited.insert(entry, sources.clone());
        }
        if !hidden.is_empty() {
            hidden.append(&mut list);
            list = hidden;
        }
        *lists.change(entry) = list;
    });
    inherited
}

/// The ranks of functions, and what they pass on.
struct FunctionRanks {
    /// `u32::MAX` for a function without attributes.
    rank: IdVec<NodeId, u32>,
    /// The function passes something on.
    passes: IdVec<NodeId, bool>,
    kinds: PassedKinds,
}

impl FunctionRanks {
    fn find(graph: &CallGraph, functions: &[NodeId], lists: &AttributeLists<'_>) -> Self {
        let mut rank = IdVec::filled(u32::MAX, graph.nodes.len());
        let mut passes = IdVec::filled(false, graph.nodes.len());
        for (i, &node) in functions.iter().enumerate() {
            rank[node] = i as u32;
            passes[node] = lists.has(node).any(ListTraits::INHERITED);
        }
        FunctionRanks { rank, passes, kinds: PassedKinds::find(functions, lists) }
    }

    /// The ranks that a function alone contributes to those of its callers.
    fn own(&self, lists: &AttributeLists<'_>, node: NodeId) -> ReachedRanks {
        let mut own = ReachedRanks::NONE;
        if let Some(kind) = self.kinds.of(node) {
            own.firsts[kind] = self.rank[node];
        }
        if self.passes[node] {
            own.end = self.rank[node] + 1;
        }
        if lists.has(node).any(ListTraits::EXTERNS) {
            own.first_externs = self.rank[node];
        }
        own
    }

    /// The functions that pass something on and are of no kind: each of them matters.
    fn without_kind(&self) -> IdVec<NodeId, bool> {
        self.passes.iter().map(|(node, &passes)| passes && self.kinds.of(node).is_none()).collect()
    }
}

/// The attribute list of an entry that inherits.
struct InheritingList<'s, 'd> {
    list: Vec<OutAttribute<'d>>,
    /// Number of attributes of its own, which come first.
    own: usize,
    /// For each inherited attribute: where it comes from.
    sources: &'s mut Vec<InheritedFrom>,
}

impl<'s, 'd> InheritingList<'s, 'd> {
    fn new(list: Vec<OutAttribute<'d>>, sources: &'s mut Vec<InheritedFrom>) -> Self {
        sources.clear();
        InheritingList { own: list.len(), list, sources }
    }

    fn inherit(&mut self, attribute: &OutAttribute<'d>, from: InheritedFrom) {
        inherit(&mut self.list, attribute);
        self.sources.resize(self.list.len() - self.own, from);
    }

    /// Adds empty EXTERNS, which reserve the place for functions inherited later, as if the
    /// function with `rank` had them.
    fn keep_place_for_externs(&mut self, rank: usize) {
        if position(&self.list, code::EXTERNS).is_none() {
            self.list.push(OutAttribute::Externs(Vec::new()));
        }
        self.sources.resize(self.list.len() - self.own, InheritedFrom { rank, record: 0 });
    }
}
