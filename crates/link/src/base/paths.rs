//! For each vertex of a graph: the vertex with the largest number that it reaches, and the path
//! with the largest sum that begins with it.
//!
//! In: a graph with its components, a number for each vertex. Out: for each vertex the largest
//! number that it reaches with a vertex that has it, and the next vertex on its deepest path.
//! Guaranteed: linear in vertices and edges; the answer depends on the graph only, not on the
//! order of edges.

use std::cmp::Reverse;

use super::graph::{Adjacency, Components};

/// The largest number that a vertex reaches, itself included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargestNumber {
    pub(crate) value: u32,
    /// A vertex that has it: the vertex itself if it does, else the lowest that does.
    pub(crate) vertex: u32,
}

/// The largest sum along a path that begins with a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeepestPath {
    pub(crate) sum: u32,
    /// The next vertex of the path; `None` if no later vertex adds to the sum.
    pub(crate) next: Option<u32>,
}

impl Components {
    /// For every vertex the largest of each number of `own` over itself and all it can reach.
    pub(crate) fn largest<const N: usize>(
        &self,
        graph: &Adjacency,
        own: impl Fn(u32) -> [u32; N],
    ) -> Vec<[LargestNumber; N]> {
        let pairs = |vertex: u32| own(vertex).map(|value| (value, Reverse(vertex)));
        let values = self.fold_components(graph, pairs, |a, b| {
            std::array::from_fn(|number| a[number].max(b[number]))
        });
        let largest = |vertex: u32| {
            let (own, values) = (own(vertex), &values[self.component(vertex)]);
            std::array::from_fn(|number| {
                let (value, Reverse(other)) = values[number];
                let vertex = if own[number] == value { vertex } else { other };
                LargestNumber { value, vertex }
            })
        };
        (0..graph.vertices() as u32).map(largest).collect()
    }

    /// For every vertex its deepest path; `None` if it can reach a cycle. Of several callees with
    /// one sum the lowest is the next.
    pub(crate) fn deepest(
        &self,
        graph: &Adjacency,
        own: impl Fn(u32) -> u32,
    ) -> Vec<Option<DeepestPath>> {
        let sums = self.longest(graph, own);
        let sum = |vertex: u32| sums[self.component(vertex)];
        let next = |vertex: u32| {
            let behind = graph.of(vertex).iter();
            let behind = behind.filter_map(|&next| Some((sum(next)?, Reverse(next))));
            behind.max().filter(|deepest| deepest.0 > 0).map(|(_, Reverse(next))| next)
        };
        let deepest = |vertex| Some(DeepestPath { sum: sum(vertex)?, next: next(vertex) });
        (0..graph.vertices() as u32).map(deepest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same every time.
    struct RandomNumbers(u64);

    impl RandomNumbers {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) as u32 % limit
        }
    }

    /// Every path without repeated vertices that begins with the last one of `path`.
    fn each_path(graph: &Adjacency, path: &mut Vec<u32>, visit: &mut impl FnMut(&[u32])) {
        visit(path);
        let last = path[path.len() - 1];
        for &next in graph.of(last) {
            if !path.contains(&next) {
                path.push(next);
                each_path(graph, path, visit);
                path.pop();
            }
        }
    }

    /// A graph of up to seven vertices with a number each; acyclic if `ordered`.
    fn random(numbers: &mut RandomNumbers, ordered: bool) -> (Adjacency, Vec<u32>) {
        let vertices = 1 + numbers.below(7);
        let edges = numbers.below(3 * vertices);
        let pair = |numbers: &mut RandomNumbers| (numbers.below(vertices), numbers.below(vertices));
        let pairs: Vec<(u32, u32)> = (0..edges).map(|_| pair(numbers)).collect();
        let goes = |&&(from, to): &&(u32, u32)| !ordered || from < to;
        let pairs: Vec<(u32, u32)> = pairs.iter().filter(goes).copied().collect();
        let own = (0..vertices).map(|_| numbers.below(4)).collect();
        (Adjacency::new(vertices as usize, &pairs), own)
    }

    #[test]
    fn largest_values_and_deepest_paths_are_those_of_a_search_of_all_paths() {
        let mut numbers = RandomNumbers(7);
        let (mut with_path, mut with_cycle) = (0, 0);
        for round in 0..4000 {
            let (graph, own) = random(&mut numbers, round % 2 == 0);
            let components = Components::find(&graph);
            let zero_and_own = |vertex| [0, own[vertex as usize]];
            let largest = components.largest(&graph, zero_and_own);
            let deepest = components.deepest(&graph, |vertex| own[vertex as usize]);
            for start in 0..own.len() as u32 {
                let (mut most, mut sum, mut cyclic) = (0, 0, false);
                let mut reached = vec![false; own.len()];
                each_path(&graph, &mut vec![start], &mut |path| {
                    let last = path[path.len() - 1];
                    reached[last as usize] = true;
                    most = most.max(own[last as usize]);
                    sum = sum.max(path.iter().map(|&vertex| own[vertex as usize]).sum());
                    cyclic |= graph.of(last).iter().any(|next| path.contains(next));
                });
                let [zero, LargestNumber { value, vertex }] = largest[start as usize];
                assert_eq!(zero, LargestNumber { value: 0, vertex: start });
                assert_eq!(value, most);
                assert!(own[vertex as usize] == most && reached[vertex as usize]);
                assert!(vertex == start || own[start as usize] < most);
                let Some(DeepestPath { sum: found, .. }) = deepest[start as usize] else {
                    assert!(cyclic);
                    with_cycle += 1;
                    continue;
                };
                assert!(!cyclic);
                assert_eq!(found, sum);
                // The path is one of the graph, and its sum is the reported one.
                let (mut at, mut total, mut steps) = (start, own[start as usize], 0);
                while let Some(next) = deepest[at as usize].unwrap().next {
                    assert!(graph.of(at).contains(&next));
                    (at, total, steps) = (next, total + own[next as usize], steps + 1);
                }
                assert_eq!(total, sum);
                with_path += usize::from(steps > 1);
            }
        }
        assert!(with_path > 500 && with_cycle > 1000, "{with_path} {with_cycle}");
    }
}
