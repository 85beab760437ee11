//! Phase `callgraph`, second step: which functions are alive, and their numbers.
//!
//! In: [`CallRecords`], and the functions that are kept. Out: [`LiveFunctions`], and the graph in
//! which indirect calls lead through their prototype.

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

/// Pairs of functions: the second lies inside the code of the first. No record says that they are
/// called (docs/LINKING.md, whole programs). With `aliases`, the second may be an alias, which then
/// is alive if its function is.
pub(super) fn inner_functions(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    aliases: bool,
) -> Vec<(u32, u32)> {
    let inner = objects.iter().flat_map(|(id, object)| {
        let functions = object.outline.functions.iter().filter(|function| !function.names_code);
        functions.filter_map(move |function| {
            let alias = || aliases.then(|| object.aliased_function(function.index)).flatten();
            let outer = object.outer_function(function.index).or_else(alias)?;
            let number = |index| Some(symbols.of(id, index)?.index() as u32);
            Some((number(outer)?, number(function.index)?))
        })
    });
    inner.collect()
}

/// By symbol: whether the function is alive; and the functions that are so only because their
/// address is taken, which no entry reaches. The functions in `kept` are, and all that they reach
/// by direct calls and through prototypes. So are functions whose address is taken anywhere, and
/// undefined functions that these call. A defined function that only an unreached function with a
/// taken address calls is dead (case indirect/taken-in-dead-code).
pub(super) fn alive(
    symbols: &Symbols,
    kept: Vec<SymbolId>,
    records: &CallRecords,
    inner: &[(u32, u32)],
    signatures: &IdVec<SymbolId, FunctionSignature>,
    slots: &[SymbolId],
) -> (IdVec<SymbolId, bool>, Vec<SymbolId>) {
    let calls = match inner {
        [] => Adjacency::new(symbols.all.len(), &records.calls),
        inner => Adjacency::new(symbols.all.len(), &[&records.calls[..], inner].concat()),
    };
    let indirect = Adjacency::new(symbols.all.len(), &records.indirect);
    let mut candidates: HashMap<u32, Vec<SymbolId>> = HashMap::new();
    for (id, signature) in signatures.iter().filter(|(_, s)| s.address_taken) {
        let prototype = signature.prototype.map(|name| name.index() as u32);
        candidates.entry(prototype.unwrap_or(u32::MAX)).or_default().push(id);
    }
    let mut alive = IdVec::filled(false, symbols.all.len());
    let mut stack = kept;
    let callees = |id: SymbolId| {
        calls.of(id.index() as u32).iter().map(|&callee| SymbolId::from_index(callee as usize))
    };
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut alive[id], true) {
            continue;
        }
        stack.extend(callees(id));
        for prototype in indirect.of(id.index() as u32) {
            // Each prototype is followed once.
            stack.extend(candidates.remove(prototype).into_iter().flatten());
        }
    }
    let taken = signatures.iter().filter(|(_, signature)| signature.address_taken);
    let unreached: Vec<SymbolId> =
        taken.map(|(id, _)| id).filter(|&id| !std::mem::replace(&mut alive[id], true)).collect();
    for &id in &unreached {
        let undefined = |&callee: &SymbolId| symbols.all[callee].definition.is_none();
        callees(id).filter(undefined).for_each(|callee| alive[callee] = true);
    }
    slots.iter().for_each(|&slot| alive[slot] = true);
    (alive, unreached)
}

/// Live functions, as nodes of the graph.
pub(super) struct LiveFunctions {
    pub(super) nodes: IdVec<NodeId, SymbolId>,
    pub(super) node_of: IdVec<SymbolId, Option<NodeId>>,
    pub(super) all_alive: bool,
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

/// The prototypes of aliases of dead functions, each with the number of live functions that were
/// seen before it (case dialects/dead-aliases-12-3).
pub(super) fn dead_aliases(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    node_of: &IdVec<SymbolId, Option<NodeId>>,
    signatures: &IdVec<SymbolId, FunctionSignature>,
) -> Vec<(usize, NameId)> {
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
            found.extend(prototype.map(|prototype| (live, prototype)));
        }
    }
    found
}

/// The graph in which an indirect call is an edge to its prototype, and the prototype has edges to
/// the functions that may be called; and its components.
pub(super) fn condense(
    nodes: &IdVec<NodeId, SymbolId>,
    signatures: &IdVec<NodeId, FunctionSignature>,
    calls: &[(u32, u32)],
    indirect: &[(u32, u32)],
) -> (Adjacency, Components) {
    let mut edges = calls.to_vec();
    let mut hubs: Vec<u32> = indirect.iter().map(|&(_, name)| name).collect();
    hubs.sort_unstable();
    hubs.dedup();
    let hub = |name: u32| {
        let at = hubs.binary_search(&name).ok()?;
        Some((nodes.len() + at) as u32)
    };
    for &(function, name) in indirect {
        edges.extend(hub(name).map(|hub| (function, hub)));
    }
    for (node, signature) in signatures.iter().filter(|(_, s)| s.address_taken) {
        let name = signature.prototype.map(|name| name.index() as u32);
        edges.extend(name.and_then(hub).map(|hub| (hub, node.index() as u32)));
    }
    let graph = Adjacency::new(nodes.len() + hubs.len(), &edges);
    let components = Components::find(&graph);
    (graph, components)
}
