//! Call paths and cycles, for messages about stacks and registers.
//!
//! In: the call graph. Out: notes. Guaranteed: every function is walked once for all entries
//! together, so thousands of entries that share a cycle cost and print no more than it takes.

use hashbrown::HashMap;

use crate::callgraph::CallGraph;
use crate::diag::{Note, Step};
use crate::graph::{Adjacency, Components, Search};
use crate::id::{Id, NodeId};

/// Cycles that are told for one entry.
const SHOWN: usize = 4;

/// Call paths of a program, with the names of its functions.
pub(crate) struct Paths<'a, N> {
    pub(crate) graph: &'a CallGraph,
    /// The name of a function as notes show it.
    pub(crate) name: N,
}

impl<N: Fn(NodeId) -> String> Paths<'_, N> {
    /// Notes for each entry that reaches recursion, none for others, in the order of
    /// [`CallGraph::entries`]. A cycle is told with the first entry that reaches it.
    pub(crate) fn recursion(&self) -> Vec<Vec<Note>> {
        let (calls, components) = self.graph.reach();
        let mut search = Search::new(calls);
        let mut told: HashMap<u32, NodeId> = HashMap::new();
        let some_cycle = components.some_cycle(calls);
        let mut all = Vec::with_capacity(self.graph.entries().len());
        for &entry in self.graph.entries() {
            let mut notes = Vec::new();
            let mut more = 0;
            for vertex in search.from(entry.index() as u32, |_| true) {
                let cycle =
                    components.cycle(vertex).filter(|_| self.graph.vertex_node(vertex).is_some());
                let Some(cycle) = cycle.filter(|cycle| !told.contains_key(cycle)) else { continue };
                told.insert(cycle, entry);
                if notes.len() == SHOWN {
                    more += 1;
                    continue;
                }
                let path = self.steps(&search.path(vertex));
                let cycle = self.steps(&round(calls, components, vertex));
                notes.push(Note::Recursion { cycle, path });
            }
            if more != 0 {
                notes.push(Note::MoreRecursion { count: more });
            }
            let known = some_cycle[entry.index()].and_then(|cycle| told.get(&cycle));
            if let Some(&teller) = known.filter(|_| notes.is_empty()) {
                notes.push(Note::KnownRecursion { entry: (self.name)(teller) });
            }
            all.push(notes);
        }
        all
    }

    /// How `from` comes to call `to`.
    pub(crate) fn call_path(&self, from: NodeId, to: NodeId) -> Note {
        let mut search = Search::new(self.graph.reach().0);
        search.from(from.index() as u32, |_| true);
        Note::CallPath { path: self.steps(&search.path(to.index() as u32)) }
    }

    /// The functions on a path; prototypes only say how the next one is called.
    fn steps(&self, path: &[u32]) -> Vec<Step> {
        let mut indirect = false;
        let mut steps = Vec::new();
        for &vertex in path {
            let node = self.graph.vertex_node(vertex);
            steps.extend(node.map(|node| Step { name: (self.name)(node), indirect }));
            indirect = node.is_none();
        }
        steps
    }
}

/// A shortest cycle through `vertex`, which begins and ends with it.
fn round(calls: &Adjacency, components: &Components, vertex: u32) -> Vec<u32> {
    let mut search = Search::new(calls);
    let inside = search.from(vertex, |other| components.cycle(other) == components.cycle(vertex));
    let last = inside.into_iter().find(|&other| calls.of(other).contains(&vertex));
    let mut cycle = last.map(|last| search.path(last)).unwrap_or_default();
    cycle.push(vertex);
    cycle
}
