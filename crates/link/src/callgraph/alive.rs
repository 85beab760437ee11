//! Phase `callgraph`, second step: which functions are alive, and their numbers.
//!
//! In: [`CallRecords`], and the functions that are kept. Out: [`LiveFunctions`], and the
//! [`ReachGraph`].

use hashbrown::HashMap;

use super::records::{CallRecords, FunctionSignature, functions};
use crate::base::graph::{Adjacency, Components};
use crate::base::id::{DenseId, IdVec, NameId, NodeId, SymbolId};
use crate::objects::InputObjects;
use crate::symbols::{SymbolSite, Symbols};

/// The functions of all jump slots, in reading order.
pub(super) fn jump_slots(objects: &InputObjects<'_>, symbols: &Symbols) -> Vec<SymbolId> {
    let slots = objects.iter().flat_map(|(id, object)| {
        let slot = move |text| symbols.of(id, object.code_function(text)?);
        object.jump_slots().filter_map(slot)
    });
    slots.collect()
}

/// A function inside the code of another, both as indices of program symbols. No record says that
/// it is called (docs/LINKING.md, whole programs).
pub(super) struct InnerFunction {
    outer: u32,
    function: u32,
    is_alias: bool,
}

/// All inner functions. With `aliases`, aliases are some, which then are alive if their function
/// is.
pub(super) fn inner_functions(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    aliases: bool,
) -> Vec<InnerFunction> {
    let inner = objects.iter().flat_map(|(id, object)| {
        let functions = object.outline.functions.iter().filter(|function| !function.names_code);
        functions.filter_map(move |function| {
            let alias = || aliases.then(|| object.aliased_function(function.index)).flatten();
            let number = |index| Some(symbols.of(id, index)?.index() as u32);
            let inside = object.outer_function(function.index);
            let outer = number(inside.or_else(alias)?)?;
            let function = number(function.index)?;
            Some(InnerFunction { outer, function, is_alias: inside.is_none() })
        })
    });
    inner.collect()
}

/// Which functions are alive.
pub(super) struct AliveFunctions {
    pub(super) is_alive: IdVec<SymbolId, bool>,
    /// Functions that no entry reaches. They are alive only because their address is taken.
    pub(super) unreached: Vec<SymbolId>,
}

impl AliveFunctions {
    /// Every function is alive.
    pub(super) fn all(symbols: &Symbols) -> Self {
        AliveFunctions { is_alive: IdVec::filled(true, symbols.all.len()), unreached: Vec::new() }
    }
}

/// Finds the functions that are alive: those in `kept`, and all that they reach by direct calls and
/// through prototypes; functions whose address is taken anywhere, and undefined functions that
/// these call. A defined function that only an unreached function with a taken address calls is
/// dead (case indirect/taken-in-dead-code).
pub(super) fn find_alive(
    symbols: &Symbols,
    kept: Vec<SymbolId>,
    records: &CallRecords,
    inner: &[InnerFunction],
    signatures: &IdVec<SymbolId, FunctionSignature>,
    slots: &[SymbolId],
) -> AliveFunctions {
    let calls = match inner {
        [] => Adjacency::new(symbols.all.len(), &records.calls),
        inner => {
            let inner: Vec<(u32, u32)> = inner.iter().map(|i| (i.outer, i.function)).collect();
            Adjacency::new(symbols.all.len(), &[&records.calls[..], &inner].concat())
        }
    };
    let indirect = Adjacency::new(symbols.all.len(), &records.indirect);
    // Functions whose address is taken, by the index of their prototype's name.
    let mut candidates: HashMap<u32, Vec<SymbolId>> = HashMap::new();
    for (id, signature) in signatures.iter().filter(|(_, s)| s.address_taken) {
        let prototype = signature.prototype.map(|name| name.index() as u32);
        candidates.entry(prototype.unwrap_or(u32::MAX)).or_default().push(id);
    }
    let mut alive = IdVec::filled(false, symbols.all.len());
    let mut worklist = kept;
    let callees = |id: SymbolId| {
        calls.of(id.index() as u32).iter().map(|&callee| SymbolId::from_index(callee as usize))
    };
    while let Some(id) = worklist.pop() {
        if std::mem::replace(&mut alive[id], true) {
            continue;
        }
        worklist.extend(callees(id));
        for prototype in indirect.of(id.index() as u32) {
            // Each prototype is followed once.
            worklist.extend(candidates.remove(prototype).into_iter().flatten());
        }
    }
    let taken = signatures.iter().filter(|(_, signature)| signature.address_taken);
    let unreached: Vec<SymbolId> =
        taken.map(|(id, _)| id).filter(|&id| !std::mem::replace(&mut alive[id], true)).collect();
    for &id in &unreached {
        let undefined = |&callee: &SymbolId| symbols.all[callee].definition.is_none();
        callees(id).filter(undefined).for_each(|callee| alive[callee] = true);
    }
    // An alias of such a function (case dialects/aliases-of-taken-12-1).
    for alias in inner.iter().filter(|inner| inner.is_alias) {
        if unreached.binary_search(&SymbolId::from_index(alias.outer as usize)).is_ok() {
            alive[SymbolId::from_index(alias.function as usize)] = true;
        }
    }
    slots.iter().for_each(|&slot| alive[slot] = true);
    AliveFunctions { is_alive: alive, unreached }
}

/// Live functions, as nodes of the graph.
pub(super) struct LiveFunctions {
    pub(super) nodes: IdVec<NodeId, SymbolId>,
    pub(super) node_of: IdVec<SymbolId, Option<NodeId>>,
    /// Every function that any file names is alive.
    pub(super) all_alive: bool,
    /// Some function that a file defines is dead.
    pub(super) any_dead: bool,
}

/// Numbers live functions in order of first sight.
pub(super) fn number_live(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    alive: &IdVec<SymbolId, bool>,
) -> LiveFunctions {
    let mut nodes = IdVec::new();
    let mut node_of = IdVec::filled(None, symbols.all.len());
    let functions = functions(objects, symbols);
    for &function in &functions {
        if alive[function] {
            node_of[function] = Some(nodes.push(function));
        }
    }
    let all_alive = nodes.len() == functions.len();
    let is_function = |site: SymbolSite| objects[site.object].symbol(site.index).is_function();
    let is_dead = |&function: &SymbolId| {
        node_of[function].is_none() && symbols.all[function].definition.is_some_and(is_function)
    };
    let nameless_is_dead = symbols.nameless().any(|nameless| node_of[nameless].is_none());
    let any_dead = !all_alive && (nameless_is_dead || functions.iter().any(is_dead));
    LiveFunctions { nodes, node_of, all_alive, any_dead }
}

/// An alias of a dead function, of which only the prototype is in the output.
pub(crate) struct DeadAlias {
    /// Number of live functions that were seen before it.
    pub(crate) nodes_before: usize,
    pub(crate) prototype: NameId,
}

/// The aliases of dead functions in order of first sight (case dialects/dead-aliases-12-3).
pub(super) fn dead_aliases(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    node_of: &IdVec<SymbolId, Option<NodeId>>,
    signatures: &IdVec<SymbolId, FunctionSignature>,
) -> Vec<DeadAlias> {
    let (mut live, mut found) = (0, Vec::new());
    for function in functions(objects, symbols) {
        if node_of[function].is_some() {
            live += 1;
            continue;
        }
        let is_alias =
            |site: SymbolSite| objects[site.object].aliased_function(site.index).is_some();
        let signature = &signatures[function];
        let prototype = signature.prototype.filter(|_| !signature.address_taken);
        if symbols.all[function].definition.is_some_and(is_alias) {
            found.extend(prototype.map(|prototype| DeadAlias { nodes_before: live, prototype }));
        }
    }
    found
}

/// Who can call whom. Vertices below the number of nodes are functions, and the others are
/// prototypes: an indirect call is an edge to its prototype, which has edges to all functions that
/// may be called.
pub(crate) struct ReachGraph {
    pub(crate) calls: Adjacency,
    pub(crate) components: Components,
}

/// Makes the [`ReachGraph`] of `calls` between nodes, and of `indirect` calls, each a node and the
/// index of its prototype's name.
pub(super) fn reach_graph(
    nodes: &IdVec<NodeId, SymbolId>,
    signatures: &IdVec<NodeId, FunctionSignature>,
    calls: &[(u32, u32)],
    indirect: &[(u32, u32)],
) -> ReachGraph {
    let mut edges = calls.to_vec();
    let mut prototypes: Vec<u32> = indirect.iter().map(|&(_, name)| name).collect();
    prototypes.sort_unstable();
    prototypes.dedup();
    let vertex = |name: u32| {
        let at = prototypes.binary_search(&name).ok()?;
        Some((nodes.len() + at) as u32)
    };
    for &(function, name) in indirect {
        edges.extend(vertex(name).map(|vertex| (function, vertex)));
    }
    for (node, signature) in signatures.iter().filter(|(_, s)| s.address_taken) {
        let name = signature.prototype.map(|name| name.index() as u32);
        edges.extend(name.and_then(vertex).map(|vertex| (vertex, node.index() as u32)));
    }
    let calls = Adjacency::new(nodes.len() + prototypes.len(), &edges);
    let components = Components::find(&calls);
    ReachGraph { calls, components }
}
