//! Directed graphs: adjacency in one array, and folds over what a vertex can reach.
//!
//! Everything here is linear in vertices and edges; call chains may be of any depth.

use hashbrown::HashMap;

/// Adjacency lists in one array; the order of a list is the order of insertion.
#[derive(Debug, Default, Clone)]
pub(crate) struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// The graph of `vertices` vertices with the edges `pairs`.
    pub(crate) fn new(vertices: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0u32; vertices + 1];
        for &(from, _) in pairs {
            starts[from as usize + 1] += 1;
        }
        for i in 0..vertices {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut targets = vec![0u32; pairs.len()];
        for &(from, to) in pairs {
            let slot = &mut next[from as usize];
            targets[*slot as usize] = to;
            *slot += 1;
        }
        Adjacency { starts, targets }
    }

    pub(crate) fn vertices(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(crate) fn of(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        &self.targets[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// Strongly connected components, callees before callers.
#[derive(Debug)]
pub(crate) struct Components {
    /// Component by vertex.
    of: Vec<u32>,
    /// Vertices grouped by component, in component order.
    members: Vec<u32>,
    /// Where each component starts in `members`; one more at the end.
    starts: Vec<u32>,
    /// True where a vertex of the component can reach itself.
    cyclic: Vec<bool>,
}

/// A breadth-first search that enters every vertex once, even if it is started several times.
pub(crate) struct Search<'g> {
    graph: &'g Adjacency,
    /// The vertex from which each vertex was reached; a start is its own parent.
    parents: HashMap<u32, u32>,
}

impl<'g> Search<'g> {
    pub(crate) fn new(graph: &'g Adjacency) -> Self {
        Search { graph, parents: HashMap::new() }
    }

    /// The vertices that can be reached from `start` and were not met before, nearest first,
    /// `start` included. Other vertices are entered only if `enter` accepts them.
    pub(crate) fn from(&mut self, start: u32, enter: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut met = Vec::new();
        if self.parents.try_insert(start, start).is_ok() {
            met.push(start);
        }
        let mut at = 0;
        while let Some(&vertex) = met.get(at) {
            at += 1;
            for &next in self.graph.of(vertex) {
                if enter(next) && self.parents.try_insert(next, vertex).is_ok() {
                    met.push(next);
                }
            }
        }
        met
    }

    /// The path from the start of its search to `vertex`; empty if no search met it.
    pub(crate) fn path(&self, vertex: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut next = self.parents.get(&vertex).map(|_| vertex);
        while let Some(vertex) = next {
            path.push(vertex);
            next = self.parents.get(&vertex).copied().filter(|&parent| parent != vertex);
        }
        path.reverse();
        path
    }
}

const UNSEEN: u32 = u32::MAX;

/// State of Tarjan's algorithm, on the heap because call chains may be 100,000 deep.
struct Tarjan<'g> {
    graph: &'g Adjacency,
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    /// (vertex, next edge) of the current path.
    path: Vec<(u32, u32)>,
    counter: u32,
    found: Components,
}

impl Components {
    pub(crate) fn find(graph: &Adjacency) -> Self {
        let vertices = graph.vertices();
        let mut tarjan = Tarjan {
            graph,
            index: vec![UNSEEN; vertices],
            low: vec![0; vertices],
            on_stack: vec![false; vertices],
            stack: Vec::new(),
            path: Vec::new(),
            counter: 0,
            found: Components {
                of: vec![0; vertices],
                members: Vec::with_capacity(vertices),
                starts: vec![0],
                cyclic: Vec::new(),
            },
        };
        for root in 0..vertices as u32 {
            if tarjan.index[root as usize] == UNSEEN {
                tarjan.walk(root);
            }
        }
        tarjan.found
    }

    /// The component of `vertex`, if it is a cycle.
    pub(crate) fn cycle(&self, vertex: u32) -> Option<u32> {
        Some(self.of[vertex as usize]).filter(|&component| self.cyclic[component as usize])
    }

    /// For every vertex a cycle that it can reach, if there is one.
    pub(crate) fn some_cycle(&self, graph: &Adjacency) -> Vec<Option<u32>> {
        self.fold(graph, |vertex| self.cycle(vertex), |a, b| (*a).max(*b))
    }

    /// For every vertex the join of `own` over itself and all it can reach.
    ///
    /// `join` must be associative, commutative and idempotent (max, or, min).
    pub(crate) fn fold<T: Clone>(
        &self,
        graph: &Adjacency,
        own: impl Fn(u32) -> T,
        join: impl Fn(&T, &T) -> T,
    ) -> Vec<T> {
        let values = self.fold_components(graph, own, join);
        self.of.iter().map(|&component| values[component as usize].clone()).collect()
    }

    /// The same for every component; [`Components::component`] gives the component of a vertex.
    pub(crate) fn fold_components<T>(
        &self,
        graph: &Adjacency,
        own: impl Fn(u32) -> T,
        join: impl Fn(&T, &T) -> T,
    ) -> Vec<T> {
        let mut values: Vec<T> = Vec::with_capacity(self.cyclic.len());
        for component in 0..self.cyclic.len() {
            let members = self.members_of(component);
            let mut value = own(members[0]);
            for (place, &member) in members.iter().enumerate() {
                if place != 0 {
                    value = join(&value, &own(member));
                }
                for &callee in graph.of(member) {
                    let callee = self.of[callee as usize] as usize;
                    if callee != component {
                        value = join(&value, &values[callee]);
                    }
                }
            }
            values.push(value);
        }
        values
    }

    /// The component of a vertex.
    pub(crate) fn component(&self, vertex: u32) -> usize {
        self.of[vertex as usize] as usize
    }

    /// For every component the largest sum of `own` along a path from its vertex, that vertex
    /// included; `None` if it can reach a cycle.
    pub(crate) fn longest(&self, graph: &Adjacency, own: impl Fn(u32) -> u32) -> Vec<Option<u32>> {
        let mut values: Vec<Option<u32>> = Vec::with_capacity(self.cyclic.len());
        for component in 0..self.cyclic.len() {
            let vertex = self.members_of(component)[0];
            let mut below = (!self.cyclic[component]).then_some(0u32);
            for &callee in graph.of(vertex) {
                let callee = self.of[callee as usize] as usize;
                below = match (below, values.get(callee).copied().flatten()) {
                    (Some(below), Some(value)) => Some(below.max(value)),
                    _ => None,
                };
            }
            values.push(below.map(|below| below.saturating_add(own(vertex))));
        }
        values
    }

    fn members_of(&self, component: usize) -> &[u32] {
        &self.members[self.starts[component] as usize..self.starts[component + 1] as usize]
    }
}

impl Tarjan<'_> {
    fn enter(&mut self, vertex: u32) {
        let at = vertex as usize;
        self.index[at] = self.counter;
        self.low[at] = self.counter;
        self.counter += 1;
        self.stack.push(vertex);
        self.on_stack[at] = true;
        self.path.push((vertex, 0));
    }

    fn walk(&mut self, root: u32) {
        self.enter(root);
        while let Some(&(vertex, edge)) = self.path.last() {
            let at = vertex as usize;
            if let Some(&next) = self.graph.of(vertex).get(edge as usize) {
                if let Some(last) = self.path.last_mut() {
                    last.1 += 1;
                }
                if self.index[next as usize] == UNSEEN {
                    self.enter(next);
                } else if self.on_stack[next as usize] {
                    self.low[at] = self.low[at].min(self.index[next as usize]);
                }
                continue;
            }
            self.path.pop();
            if let Some(&(caller, _)) = self.path.last() {
                self.low[caller as usize] = self.low[caller as usize].min(self.low[at]);
            }
            if self.low[at] == self.index[at] {
                self.close(vertex);
            }
        }
    }

    /// Pops the component whose first vertex is `root` off the stack.
    fn close(&mut self, root: u32) {
        let component = self.found.cyclic.len() as u32;
        let first = self.found.members.len();
        while let Some(vertex) = self.stack.pop() {
            self.on_stack[vertex as usize] = false;
            self.found.of[vertex as usize] = component;
            self.found.members.push(vertex);
            if vertex == root {
                break;
            }
        }
        let alone = self.found.members.len() - first == 1;
        self.found.cyclic.push(!alone || self.graph.of(root).contains(&root));
        self.found.starts.push(self.found.members.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_insertion() {
        let graph = Adjacency::new(3, &[(2, 1), (0, 2), (2, 0), (0, 1)]);
        assert_eq!(graph.of(0), [2, 1]);
        assert_eq!(graph.of(1), []);
        assert_eq!(graph.of(2), [1, 0]);
    }

    #[test]
    fn folds_see_through_cycles_and_longest_stops_at_them() {
        // 0 -> 1 <-> 2 -> 3, 4 -> 3, 5 -> 5
        let graph = Adjacency::new(6, &[(0, 1), (1, 2), (2, 1), (2, 3), (4, 3), (5, 5)]);
        let components = Components::find(&graph);
        let weight = [1u32, 2, 4, 8, 16, 32];
        let max = components.fold(&graph, |v| weight[v as usize], |a, b| *a.max(b));
        assert_eq!(max, [8, 8, 8, 8, 16, 32]);
        let longest = components.longest(&graph, |v| weight[v as usize]);
        let longest = (0..6).map(|v| longest[components.component(v)]);
        assert!(longest.eq([None, None, None, Some(8), Some(24), None]));
    }

    #[test]
    fn a_search_finds_shortest_ways_and_enters_nothing_twice() {
        // 0 -> 1 -> 2 -> 3, 0 -> 3, 4 -> 2
        let graph = Adjacency::new(5, &[(0, 1), (1, 2), (2, 3), (0, 3), (4, 2)]);
        let mut search = Search::new(&graph);
        assert_eq!(search.from(0, |vertex| vertex != 2), [0, 1, 3]);
        assert_eq!(search.path(3), [0, 3]);
        assert_eq!(search.path(2), []);
        assert_eq!(search.from(4, |_| true), [4, 2]);
        assert_eq!(search.path(2), [4, 2]);
    }

    #[test]
    fn deep_and_wide_graphs_are_linear() {
        let n = 200_000u32;
        let chain: Vec<_> = (0..n - 1).map(|v| (v, v + 1)).collect();
        let graph = Adjacency::new(n as usize, &chain);
        let components = Components::find(&graph);
        assert_eq!(components.longest(&graph, |_| 1)[components.component(0)], Some(n));
        // 40 rows of 4, all to all: 4^40 paths.
        let rows: Vec<_> =
            (0..39 * 4).flat_map(|v| (0..4).map(move |k| (v, (v / 4 + 1) * 4 + k))).collect();
        let graph = Adjacency::new(160, &rows);
        let components = Components::find(&graph);
        assert_eq!(components.longest(&graph, |_| 1)[components.component(0)], Some(40));
    }
}
