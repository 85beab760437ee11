//! Notes about stacks and registers: call paths and cycles.
//!
//! In: the call graph. Out: notes. Guaranteed: one walk over each function serves all entries, so
//! thousands of entries that share a cycle cost linear time and print one note each.

use hashbrown::HashMap;

use crate::base::graph::{Adjacency, Components, Search};
use crate::base::id::{DenseId, IdVec, NodeId};
use crate::base::paths::DeepestPath;
use crate::callgraph::CallGraph;
use crate::callgraph::alive::ReachGraph;
use crate::diag::note::{CallStep, Note};

/// The most cycles that notes show for one entry.
const MAX_CYCLES: usize = 4;

/// Call paths of a program, with the names of its functions.
pub(crate) struct CallPaths<'a, N> {
    pub(crate) graph: &'a CallGraph,
    /// A function as notes show it.
    pub(crate) function: N,
}

/// A function as notes show it: its name, and the line in which its code begins.
pub(crate) struct ShownFunction {
    pub(crate) name: String,
    pub(crate) source_line: Option<String>,
}

/// The deepest chains of calls of all functions.
pub(crate) struct DeepestCalls<'f> {
    frames: &'f IdVec<NodeId, u32>,
    /// By vertex of the graph.
    paths: Vec<Option<DeepestPath>>,
}

impl<'f> DeepestCalls<'f> {
    pub(crate) fn of(graph: &CallGraph, frames: &'f IdVec<NodeId, u32>) -> Self {
        let ReachGraph { calls, components } = graph.reach();
        let frame = |vertex| graph.vertex_node(vertex).map_or(0, |node| frames[node]);
        DeepestCalls { frames, paths: components.deepest(calls, frame) }
    }
}

impl<N: Fn(NodeId) -> ShownFunction> CallPaths<'_, N> {
    /// Notes for each entry that reaches recursion, none for others, in the order of
    /// [`CallGraph::entries`]. Only the first entry that reaches a cycle shows it.
    pub(crate) fn recursion(&self) -> Vec<Vec<Note>> {
        let ReachGraph { calls, components } = self.graph.reach();
        let mut search = Search::new(calls);
        let mut explained: HashMap<u32, NodeId> = HashMap::new();
        let some_cycle = components.some_cycle(calls);
        let mut all = Vec::with_capacity(self.graph.entries().len());
        for &entry in self.graph.entries() {
            let mut notes = Vec::new();
            let mut more = 0;
            for vertex in search.from(entry.index() as u32, |_| true) {
                let cycle =
                    components.cycle(vertex).filter(|_| self.graph.vertex_node(vertex).is_some());
                let Some(cycle) = cycle.filter(|cycle| !explained.contains_key(cycle)) else {
                    continue;
                };
                explained.insert(cycle, entry);
                if notes.len() == MAX_CYCLES {
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
            let known = some_cycle[entry.index()].and_then(|cycle| explained.get(&cycle));
            if let Some(&first) = known.filter(|_| notes.is_empty()) {
                notes.push(Note::KnownRecursion { entry: (self.function)(first).name });
            }
            all.push(notes);
        }
        all
    }

    /// A path of calls from `from` to `to`.
    pub(crate) fn call_path(&self, from: NodeId, to: NodeId) -> Note {
        let mut search = Search::new(&self.graph.reach().calls);
        search.from(from.index() as u32, |_| true);
        Note::CallPath { path: self.steps(&search.path(to.index() as u32)) }
    }

    /// The deepest chain of calls from `from` on, with the frame of each function.
    pub(crate) fn deepest(&self, from: NodeId, deepest: &DeepestCalls<'_>) -> Option<Note> {
        let mut path = vec![from.index() as u32];
        while let Some(next) = deepest.paths[*path.last()? as usize]?.next {
            path.push(next);
        }
        let nodes = path.iter().filter_map(|&vertex| self.graph.vertex_node(vertex));
        let frames = nodes.map(|node| deepest.frames[node]).collect();
        Some(Note::DeepestCalls { path: self.steps(&path), frames })
    }

    /// The functions on a path. A prototype on the path makes the call to the next function
    /// indirect.
    fn steps(&self, path: &[u32]) -> Vec<CallStep> {
        let mut indirect = false;
        let mut steps = Vec::new();
        for &vertex in path {
            let node = self.graph.vertex_node(vertex);
            steps.extend(node.map(|node| {
                let ShownFunction { name, source_line } = (self.function)(node);
                CallStep { name, indirect, source_line }
            }));
            indirect = node.is_none();
        }
        steps
    }
}

/// A shortest cycle through `vertex`; starts and ends with it.
fn round(calls: &Adjacency, components: &Components, vertex: u32) -> Vec<u32> {
    let mut search = Search::new(calls);
    let inside = search.from(vertex, |other| components.cycle(other) == components.cycle(vertex));
    let last = inside.into_iter().find(|&other| calls.of(other).contains(&vertex));
    let mut cycle = last.map(|last| search.path(last)).unwrap_or_default();
    cycle.push(vertex);
    cycle
}
