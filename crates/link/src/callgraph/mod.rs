//! Phase `callgraph`: who calls whom, and which functions are alive.
//!
//! In: [`InputObjects`], [`Symbols`]. Out: [`CallGraph`]: live functions in order of first sight,
//! their calls, and answers about everything that a function can reach. Guaranteed: linear in the
//! records, because an indirect call is one edge to its prototype, not one per candidate.
//!
//! A function is alive if an entry can reach it, or if its address is taken anywhere
//! (docs/LINKING.md, dead code).

pub(crate) mod alive;
mod read;
pub(crate) mod records;

use self::alive::{
    AliveFunctions, DeadAlias, LiveFunctions, ReachGraph, dead_aliases, find_alive,
    inner_functions, jump_slots, number_live, reach_graph,
};
use self::read::{GatheredRecords, read};
use self::records::{CallRecords, FunctionSignature, Roots};
use hashbrown::HashSet;

use crate::base::graph::Adjacency;
use crate::base::id::{DenseId, IdVec, NameId, NodeId, SymbolId};
use crate::base::name_list::NameList;
use crate::base::names::Names;
use crate::base::session::Session;
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;

/// The live functions of the program and their calls.
pub(crate) struct CallGraph {
    /// Live functions in order of first sight: the order of every list in the output.
    pub(crate) nodes: IdVec<NodeId, SymbolId>,
    node_of: IdVec<SymbolId, Option<NodeId>>,
    signatures: IdVec<NodeId, FunctionSignature>,
    entries: Vec<NodeId>,
    kernels: Vec<NodeId>,
    /// False for a kernel that was not known to be kept when its file was read.
    known: IdVec<NodeId, bool>,
    /// Entries that are definitions with names of the driver's.
    driver_functions: HashSet<NodeId>,
    /// Exactly one kernel is selected.
    single: bool,
    any_dead: bool,
    all_alive: bool,
    /// Aliases of dead functions, if their prototypes are listed.
    dead_aliases: Vec<DeadAlias>,
    unreached: UnreachedFunctions,
    calls: Adjacency,
    /// Prototypes of indirect calls by function, as name indices.
    indirect: Adjacency,
    references: Adjacency,
    reach: ReachGraph,
}

/// Functions that are kept only because their address is taken.
struct UnreachedFunctions {
    /// In node order.
    nodes: Vec<NodeId>,
    /// All their direct calls by caller, each in reading order, those of dead functions too.
    calls: Vec<(NodeId, SymbolId)>,
}

impl CallGraph {
    /// The graph, and the strings of all prototypes in the order of the output.
    pub(crate) fn build<'d>(
        session: &Session,
        objects: &InputObjects<'d>,
        symbols: &Symbols,
        options: &LinkOptions,
        names: &mut Names<'d>,
    ) -> (Self, NameList) {
        let GatheredRecords { records, mut roots, signatures, prototypes } =
            read(session, objects, symbols, options, names);
        let kept = roots.add_named(symbols, names, &options.roots);
        let slots = if options.relocatable { Vec::new() } else { jump_slots(objects, symbols) };
        roots.add_taken(symbols, &signatures, &slots);
        let alive = if options.keeps_dead_code() {
            AliveFunctions::all(symbols)
        } else {
            let aliases = options.dialect.keeps_unused_aliases;
            let inner = inner_functions(objects, symbols, aliases);
            let entries = symbols.all.ids().filter(|&id| roots.is_entry[id]);
            let kept = entries.chain(kept.iter().copied()).collect();
            find_alive(symbols, kept, &records, &inner, &signatures, &slots)
        };
        let live = number_live(objects, symbols, &alive.is_alive);
        let dead_aliases = match options.dialect.lists_dead_aliases {
            true => dead_aliases(objects, symbols, &live.node_of, &signatures),
            false => Vec::new(),
        };
        let mut unreached: Vec<NodeId> =
            alive.unreached.into_iter().filter_map(|function| live.node_of[function]).collect();
        unreached.sort_unstable();
        let unreached_calls = records.calls_of(&unreached, &live.node_of);
        let records = records.among(&live.node_of);
        let signatures = live.nodes.values().map(|&symbol| signatures[symbol]).collect();
        let unreached = UnreachedFunctions { nodes: unreached, calls: unreached_calls };
        let graph =
            CallGraph::new(symbols, &roots, live, &records, signatures, unreached, dead_aliases);
        (graph, prototypes)
    }

    /// The graph of `live` functions, with the `records` between them.
    fn new(
        symbols: &Symbols,
        roots: &Roots,
        live: LiveFunctions,
        records: &CallRecords,
        signatures: IdVec<NodeId, FunctionSignature>,
        unreached: UnreachedFunctions,
        dead_aliases: Vec<DeadAlias>,
    ) -> Self {
        let LiveFunctions { nodes, node_of, all_alive, any_dead } = live;
        let is_entry = |symbol: SymbolId| roots.is_entry[symbol];
        let is_kernel = |symbol: SymbolId| is_entry(symbol) || symbols.all[symbol].is_kernel;
        CallGraph {
            any_dead,
            entries: nodes_where(&nodes, is_entry),
            kernels: nodes_where(&nodes, is_kernel),
            known: nodes.values().map(|&s| roots.known[s].unwrap_or(true)).collect(),
            driver_functions: match roots.single {
                true => HashSet::new(),
                false => roots.driver.iter().filter_map(|&function| node_of[function]).collect(),
            },
            all_alive,
            dead_aliases,
            single: roots.single,
            unreached,
            calls: Adjacency::new(nodes.len(), &records.calls),
            indirect: Adjacency::new(nodes.len(), &records.indirect),
            references: Adjacency::new(nodes.len(), &records.references),
            reach: reach_graph(&nodes, &signatures, &records.calls, &records.indirect),
            nodes,
            node_of,
            signatures,
        }
    }

    /// The node of a live function.
    pub(crate) fn node(&self, symbol: SymbolId) -> Option<NodeId> {
        self.node_of[symbol]
    }

    /// True if some function of the program is not in the output.
    pub(crate) fn any_dead(&self) -> bool {
        self.any_dead
    }

    /// True if every function that any file names is in the output.
    pub(crate) fn all_alive(&self) -> bool {
        self.all_alive
    }

    /// Aliases of dead functions in order of first sight, if their prototypes are listed.
    pub(crate) fn dead_aliases(&self) -> &[DeadAlias] {
        &self.dead_aliases
    }

    /// All entries in node order: kernels that count as started from outside.
    pub(crate) fn entries(&self) -> &[NodeId] {
        &self.entries
    }

    /// All kernels in node order: entries, and kernels that were not selected and are alive
    /// because their address is taken.
    pub(crate) fn kernels(&self) -> &[NodeId] {
        &self.kernels
    }

    /// False for a kernel that was not known to be kept when its file was read.
    pub(crate) fn is_known_entry(&self, node: NodeId) -> bool {
        self.known[node]
    }

    /// True for an entry that is no kernel but a function with a name of the driver's. It passes
    /// its attributes on like other functions, and counts as a user of what it calls only.
    pub(crate) fn is_driver_function(&self, entry: NodeId) -> bool {
        self.driver_functions.contains(&entry)
    }

    /// Functions that no entry reaches and that are kept because their address is taken, in node
    /// order.
    pub(crate) fn unreached(&self) -> &[NodeId] {
        &self.unreached.nodes
    }

    /// The functions that `node` calls directly. `node` is one of [`CallGraph::unreached`], so some
    /// of them may be dead. The call that was read last comes first.
    pub(crate) fn calls_of_unreached(&self, node: NodeId) -> impl Iterator<Item = SymbolId> + '_ {
        let all = &self.unreached.calls;
        let start = all.partition_point(|call| call.0 < node);
        let end = all.partition_point(|call| call.0 <= node);
        all[start..end].iter().rev().map(|call| call.1)
    }

    /// The selected kernel, if there is exactly one.
    pub(crate) fn single_entry(&self) -> Option<NodeId> {
        if self.single { self.entries.first().copied() } else { None }
    }

    /// Functions that `node` calls directly, last read first, as the output lists them.
    pub(crate) fn calls(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        nodes_of(&self.calls, node)
    }

    /// Functions whose address `node` names, last read first.
    pub(crate) fn references(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        nodes_of(&self.references, node)
    }

    /// Prototypes of the indirect calls of `node`, last read first.
    pub(crate) fn indirect(&self, node: NodeId) -> impl Iterator<Item = NameId> + '_ {
        let list = self.indirect.of(node.index() as u32);
        list.iter().rev().map(|&name| NameId::from_index(name as usize))
    }

    /// What the indirect calls of `node` may reach: for each of their prototypes the functions
    /// whose address is taken, the last one first.
    pub(crate) fn indirect_targets(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let targets = |vertex| self.reach.calls.of(vertex).iter().rev();
        self.prototype_vertices(node)
            .flat_map(targets)
            .map(|&node| NodeId::from_index(node as usize))
    }

    /// The number of [`CallGraph::indirect_targets`] of all functions.
    pub(crate) fn count_indirect_targets(&self) -> u64 {
        let vertices = self.nodes.ids().flat_map(|node| self.prototype_vertices(node));
        vertices.map(|vertex| self.reach.calls.of(vertex).len() as u64).sum()
    }

    /// The vertices of the prototypes through which `node` calls.
    fn prototype_vertices(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        let callees = self.reach.calls.of(node.index() as u32).iter().copied();
        callees.filter(|&vertex| self.vertex_node(vertex).is_none())
    }

    pub(crate) fn prototype(&self, node: NodeId) -> Option<NameId> {
        self.signatures[node].prototype
    }

    pub(crate) fn is_address_taken(&self, node: NodeId) -> bool {
        self.signatures[node].address_taken
    }

    /// For every node the join of `own` over all that it can reach, itself included. `empty` must
    /// be neutral for `join`, and `join` associative, commutative and idempotent.
    pub(crate) fn fold<T: Clone>(
        &self,
        empty: T,
        own: impl Fn(NodeId) -> T,
        join: impl Fn(&T, &T) -> T,
    ) -> IdVec<NodeId, T> {
        let value = |vertex: u32| self.vertex_node(vertex).map_or_else(|| empty.clone(), &own);
        let values = self.reach.components.fold(&self.reach.calls, value, join);
        values.into_iter().take(self.nodes.len()).collect()
    }

    /// The same for the entries only, in node order.
    pub(crate) fn fold_entries<T: Clone>(
        &self,
        empty: T,
        own: impl Fn(NodeId) -> T,
        join: impl Fn(&T, &T) -> T,
    ) -> Vec<T> {
        let value = |vertex: u32| self.vertex_node(vertex).map_or_else(|| empty.clone(), &own);
        self.of_entries(&self.reach.components.fold_components(&self.reach.calls, value, join))
    }

    /// The values of the components of the entries, in node order.
    fn of_entries<T: Clone>(&self, values: &[T]) -> Vec<T> {
        let component = |entry: &NodeId| self.reach.components.component(entry.index() as u32);
        self.entries.iter().map(|entry| values[component(entry)].clone()).collect()
    }

    /// Marks in `marked` every node that calls a marked node or names it in its code, directly or
    /// through others. `more` are further calls. Indirect calls do not count, and only `users` are
    /// marked.
    pub(crate) fn mark_users(
        &self,
        marked: &mut IdVec<NodeId, bool>,
        more: &[(NodeId, NodeId)],
        users: impl Fn(NodeId) -> bool,
    ) {
        let mut worklist: Vec<NodeId> = marked.ids().filter(|&node| marked[node]).collect();
        if worklist.is_empty() {
            return;
        }
        let used = |user: NodeId| self.calls(user).chain(self.references(user));
        let all = self.nodes.ids().filter(|&node| users(node));
        let pairs = all.flat_map(|user| used(user).map(move |node| (node, user)));
        let more = more.iter().filter(|pair| users(pair.0)).map(|&(user, node)| (node, user));
        let pairs = pairs.chain(more);
        let pairs: Vec<_> =
            pairs.map(|(node, user)| (node.index() as u32, user.index() as u32)).collect();
        let users = Adjacency::new(self.nodes.len(), &pairs);
        while let Some(node) = worklist.pop() {
            for user in nodes_of(&users, node) {
                if !std::mem::replace(&mut marked[user], true) {
                    worklist.push(user);
                }
            }
        }
    }

    /// For every entry, in node order, the largest sum of `own` along a call path; `None` if the
    /// entry can reach recursion.
    pub(crate) fn longest(&self, own: impl Fn(NodeId) -> u32) -> Vec<Option<u32>> {
        let value = |vertex: u32| self.vertex_node(vertex).map_or(0, &own);
        self.of_entries(&self.reach.components.longest(&self.reach.calls, value))
    }

    /// For every entry, in node order, the `wanted` nodes that it reaches, in node order.
    pub(crate) fn reached_by_entries(&self, wanted: &IdVec<NodeId, bool>) -> Vec<Vec<NodeId>> {
        let mut all = Vec::with_capacity(self.entries.len());
        self.each_reached(wanted, |_, reached| all.push(reached.to_vec()));
        all
    }

    /// For every kernel, in node order, the `wanted` nodes that it reaches, in node order. A kernel
    /// that is no entry reaches at most itself (case selection/address-taken-shared).
    pub(crate) fn reached_by_kernels(&self, wanted: &IdVec<NodeId, bool>) -> Vec<Vec<NodeId>> {
        let alone = |&kernel: &NodeId| if wanted[kernel] { vec![kernel] } else { Vec::new() };
        let mut all: Vec<Vec<NodeId>> = self.kernels.iter().map(alone).collect();
        self.each_reached(wanted, |entry, reached| {
            if let Ok(place) = self.kernels.binary_search(&entry) {
                all[place] = reached.to_vec();
            }
        });
        all
    }

    /// Calls `visit` for every entry with the `wanted` nodes that it reaches, both in node order.
    ///
    /// Walks only vertices from which a wanted node can be reached.
    pub(crate) fn each_reached(
        &self,
        wanted: &IdVec<NodeId, bool>,
        mut visit: impl FnMut(NodeId, &[NodeId]),
    ) {
        if !wanted.values().any(|&wanted| wanted) {
            return self.entries.iter().for_each(|&entry| visit(entry, &[]));
        }
        let leads = self.fold(false, |node| wanted[node], |a, b| *a || *b);
        let mut seen = vec![u32::MAX; self.reach.calls.vertices()];
        let (mut worklist, mut found) = (Vec::new(), Vec::new());
        for (stamp, &entry) in self.entries.iter().enumerate() {
            let stamp = stamp as u32;
            found.clear();
            if self.is_driver_function(entry) {
                worklist.extend_from_slice(self.reach.calls.of(entry.index() as u32));
            } else {
                worklist.push(entry.index() as u32);
            }
            while let Some(vertex) = worklist.pop() {
                let node = self.vertex_node(vertex);
                let dead_end = node.is_some_and(|node| !leads[node]);
                if dead_end || std::mem::replace(&mut seen[vertex as usize], stamp) == stamp {
                    continue;
                }
                found.extend(node.filter(|&node| wanted[node]));
                worklist.extend_from_slice(self.reach.calls.of(vertex));
            }
            found.sort_unstable();
            visit(entry, &found);
        }
    }

    pub(crate) fn reach(&self) -> &ReachGraph {
        &self.reach
    }

    /// The function that a vertex of [`CallGraph::reach`] is.
    pub(crate) fn vertex_node(&self, vertex: u32) -> Option<NodeId> {
        ((vertex as usize) < self.nodes.len()).then(|| NodeId::from_index(vertex as usize))
    }
}

/// The nodes whose symbol is wanted, in order.
fn nodes_where(
    nodes: &IdVec<NodeId, SymbolId>,
    is_wanted: impl Fn(SymbolId) -> bool,
) -> Vec<NodeId> {
    let wanted = nodes.iter().filter(|&(_, &symbol)| is_wanted(symbol));
    wanted.map(|(node, _)| node).collect()
}

fn nodes_of(lists: &Adjacency, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    lists.of(node.index() as u32).iter().rev().map(|&node| NodeId::from_index(node as usize))
}

/// Prototypes in the order in which the call graph and `.nv.prototype` list them.
pub(crate) fn prototypes(graph: &CallGraph) -> Vec<NameId> {
    let taken = |&node: &NodeId| graph.is_address_taken(node);
    let nodes = || graph.nodes.ids();
    let addresses = nodes().filter(taken).filter_map(|node| graph.prototype(node));
    let calls = nodes().flat_map(|node| graph.indirect(node));
    let others = nodes().filter(|node| !taken(node)).filter_map(|node| graph.prototype(node));
    addresses.chain(calls).chain(others).collect()
}
