//! Phase `callgraph`: who calls whom, and who is alive.
//!
//! In: [`Objects`], [`Symbols`]. Out: [`CallGraph`]: live functions in the order in which they
//! are first seen, their calls, and answers about all that a function can reach. Guaranteed:
//! linear in records; a call by prototype is one edge to the prototype, not one per candidate.
//!
//! A function is alive when an entry can reach it, or its address is taken anywhere
//! (docs/LINKING.md, dead code).

use culd_cubin::SymbolIndex;
use culd_cubin::callgraph::Edge;

use hashbrown::{HashMap, HashSet};

use crate::graph::{Adjacency, Components};
use crate::id::{Id, IdVec, NameId, NodeId, ObjectId, SymbolId};
use crate::names::{NameList, Names, Repeated};
use crate::objects::{Function, Object, Objects};
use crate::selection::Matcher;
use crate::symbols::{Fate, Site, Symbols};
use crate::void::is_forgotten;
use crate::{LinkOptions, Session};

/// What the program knows of a function's signature.
#[derive(Debug, Clone, Copy, Default)]
struct Signature {
    prototype: Option<NameId>,
    address_taken: bool,
}

/// The live functions of the program and their calls.
pub(crate) struct CallGraph {
    /// Live functions in order of first sight: the order of every list in the output.
    pub(crate) nodes: IdVec<NodeId, SymbolId>,
    node_of: IdVec<SymbolId, Option<NodeId>>,
    signatures: IdVec<NodeId, Signature>,
    entries: Vec<NodeId>,
    kernels: Vec<NodeId>,
    known: IdVec<NodeId, bool>,
    single: bool,
    any_dead: bool,
    all_alive: bool,
    calls: Adjacency,
    /// Prototypes of indirect calls by function, as name indices.
    indirect: Adjacency,
    references: Adjacency,
    /// Vertices 0..nodes are functions, the rest prototypes: caller -> prototype -> candidates.
    reach: Adjacency,
    components: Components,
}

/// All records of all files as pairs: of program symbols, or of the nodes of live functions. The second of `indirect` is the
/// name of a prototype.
#[derive(Default)]
struct Records {
    calls: Vec<(u32, u32)>,
    indirect: Vec<(u32, u32)>,
    references: Vec<(u32, u32)>,
}

impl Records {
    /// An object lists each pair once, where it was read first (cases weak/latest-target,
    /// errors-stack/replaced-entry with -r).
    fn list_once(&mut self) {
        for list in [&mut self.calls, &mut self.references] {
            let mut seen = HashSet::new();
            list.retain(|&pair| seen.insert(pair));
        }
    }

    /// Those among live functions.
    fn among(&self, node_of: &IdVec<SymbolId, Option<NodeId>>) -> Self {
        let node = |symbol: u32| {
            node_of[SymbolId::from_index(symbol as usize)].map(|node| node.index() as u32)
        };
        let pairs = |list: &[(u32, u32)]| {
            list.iter().filter_map(|&(from, to)| Some((node(from)?, node(to)?))).collect()
        };
        let named = |&(from, name): &(u32, u32)| Some((node(from)?, name));
        Records {
            calls: pairs(&self.calls),
            indirect: self.indirect.iter().filter_map(named).collect(),
            references: pairs(&self.references),
        }
    }
}

/// As many files are read at once by one thread.
const SHARE: usize = 32;

/// The records of all files, the kernels, what is known of parameters, and the strings of prototypes in the order of the
/// output: these come first in `.strtab`, dead functions' ones too, but not those of copies that lost.
fn read<'d>(
    session: &Session,
    (objects, symbols): (&Objects<'d>, &Symbols),
    options: &LinkOptions,
    names: &mut Names<'d>,
) -> (Records, Roots, IdVec<SymbolId, Signature>, NameList) {
    let selection = options.effective_selection();
    // An object keeps all kernels, but those that are left out are made as late as functions (cases
    // selection/* with -r).
    let late = options.relocatable && !options.debug;
    let known_by = if late { &options.selection } else { selection };
    let matchers = (selection.matcher(), known_by.matcher());
    let share = |place: usize| {
        let mut seen = Seen::default();
        for (id, object) in objects.iter().skip(SHARE * place).take(SHARE) {
            seen.told.push(Told::File(id));
            let read = Reader { symbols, object, id };
            read.kernels(&mut seen, &matchers);
            read.edges(&mut seen);
        }
        seen
    };
    let shares = objects.all.len().div_ceil(SHARE);
    let shares = session.map(shares, objects.reloc_bytes(), share);
    let mut known = Known {
        records: Records::default(),
        roots: Roots::none(symbols),
        signatures: IdVec::filled(Signature::default(), symbols.all.len()),
        prototypes: NameList::default(),
    };
    for seen in shares {
        known.take(objects, names, seen);
    }
    let Known { mut records, roots, signatures, prototypes } = known;
    if options.relocatable {
        records.list_once();
    }
    (records, roots, signatures, prototypes)
}

/// What the records of some files say, each looked at for itself.
#[derive(Default)]
struct Seen {
    calls: Vec<(u32, u32)>,
    references: Vec<(u32, u32)>,
    /// What has to be put together in order.
    told: Vec<Told>,
}

/// What a record says. Prototypes are where their strings are in the file.
#[derive(Debug, Clone, Copy)]
enum Told {
    /// What follows is told by this file.
    File(ObjectId),
    /// An accepted definition of a kernel: whether it is selected, and whether its file is known to keep it.
    Kernel {
        kernel: SymbolId,
        selected: bool,
        known: bool,
    },
    AddressTaken(SymbolId),
    /// The caller, if records about it count, and whether the string is in the output.
    IndirectCall {
        caller: Option<SymbolId>,
        prototype: u32,
        listed: bool,
    },
    /// A prototype of a function, and whether its address is taken for it.
    Prototype {
        function: Option<SymbolId>,
        prototype: u32,
        taken: bool,
    },
}

/// What is known of all files so far.
struct Known {
    records: Records,
    roots: Roots,
    signatures: IdVec<SymbolId, Signature>,
    prototypes: NameList,
}

impl Known {
    /// Adds what was seen in the next files.
    fn take<'d>(&mut self, objects: &Objects<'d>, names: &mut Names<'d>, seen: Seen) {
        self.records.calls.extend(seen.calls);
        self.records.references.extend(seen.references);
        let (mut object, mut strings) = (None, Repeated::default());
        let mut intern = |object: Option<&Object<'d>>, strings: &mut Repeated, prototype| {
            let string = |offset| object.map_or(&[][..], |object| object.prototype(offset));
            strings.intern(names, prototype, string)
        };
        for told in seen.told {
            match told {
                Told::File(id) => (object, strings) = (Some(&objects[id]), Repeated::default()),
                Told::Kernel { kernel, selected, known } => {
                    self.roots.is_entry[kernel] |= selected;
                    let known = known || self.signatures[kernel].address_taken;
                    self.roots.known[kernel].get_or_insert(known);
                }
                Told::AddressTaken(function) => self.signatures[function].address_taken = true,
                Told::IndirectCall { caller, prototype, listed } => {
                    let name = intern(object, &mut strings, prototype);
                    if listed {
                        self.prototypes.add(name);
                    }
                    let caller = caller.map(|caller| (caller.index() as u32, name.index() as u32));
                    self.records.indirect.extend(caller);
                }
                Told::Prototype { function, prototype, taken } => {
                    let name = intern(object, &mut strings, prototype);
                    self.prototypes.add(name);
                    let Some(function) = function else { continue };
                    let signature = &mut self.signatures[function];
                    signature.prototype = Some(name);
                    signature.address_taken |= taken;
                }
            }
        }
    }
}

impl CallGraph {
    /// The graph, and the strings of all prototypes in the order of the output.
    pub(crate) fn build<'d>(
        session: &Session,
        objects: &Objects<'d>,
        symbols: &Symbols,
        options: &LinkOptions,
        names: &mut Names<'d>,
    ) -> (Self, NameList) {
        let (records, mut roots, signatures, prototypes) =
            read(session, (objects, symbols), options, names);
        let slots = if options.relocatable { Vec::new() } else { jump_slots(objects, symbols) };
        roots.add_taken(symbols, &signatures, &slots);
        let alive = if options.keeps_dead_code() {
            IdVec::filled(true, symbols.all.len())
        } else {
            alive(symbols, &roots, &records, &signatures, &slots)
        };
        let Numbering { nodes, node_of, all_alive, any_dead } = number(objects, symbols, &alive);
        let live = records.among(&node_of);
        let signatures: IdVec<NodeId, Signature> =
            nodes.values().map(|&symbol| signatures[symbol]).collect();
        let (reach, components) = condense(&nodes, &signatures, &live.calls, &live.indirect);
        let graph = CallGraph {
            any_dead,
            entries: nodes.iter().filter(|(_, s)| roots.is_entry[**s]).map(|(n, _)| n).collect(),
            kernels: nodes
                .iter()
                .filter(|(_, s)| roots.is_entry[**s] || symbols.all[**s].is_kernel)
                .map(|(n, _)| n)
                .collect(),
            known: nodes.values().map(|&s| roots.known[s].unwrap_or(true)).collect(),
            all_alive,
            single: roots.single,
            calls: Adjacency::new(nodes.len(), &live.calls),
            indirect: Adjacency::new(nodes.len(), &live.indirect),
            references: Adjacency::new(nodes.len(), &live.references),
            nodes,
            node_of,
            signatures,
            reach,
            components,
        };
        (graph, prototypes)
    }

    /// The node of a live function.
    pub(crate) fn node(&self, symbol: SymbolId) -> Option<NodeId> {
        self.node_of[symbol]
    }

    /// True when some function of the program is not in the output.
    pub(crate) fn any_dead(&self) -> bool {
        self.any_dead
    }

    /// True when every function that any file names is in the output.
    pub(crate) fn all_alive(&self) -> bool {
        self.all_alive
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

    /// False for kernels of which it was not known that they stay when their file was read.
    pub(crate) fn is_known_entry(&self, node: NodeId) -> bool {
        self.known[node]
    }

    /// The selected kernel, if there is exactly one.
    pub(crate) fn single_entry(&self) -> Option<NodeId> {
        if self.single { self.entries.first().copied() } else { None }
    }

    /// Direct calls of `node`, last read first, as the output lists them.
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

    pub(crate) fn prototype(&self, node: NodeId) -> Option<NameId> {
        self.signatures[node].prototype
    }

    pub(crate) fn is_address_taken(&self, node: NodeId) -> bool {
        self.signatures[node].address_taken
    }

    /// For every node the join of `own` over all it can reach, itself included. `empty` must be
    /// neutral for `join`, and `join` associative, commutative and idempotent.
    pub(crate) fn fold<T: Clone>(
        &self,
        empty: T,
        own: impl Fn(NodeId) -> T,
        join: impl Fn(&T, &T) -> T,
    ) -> IdVec<NodeId, T> {
        let value = |vertex: u32| self.vertex_node(vertex).map_or_else(|| empty.clone(), &own);
        let values = self.components.fold(&self.reach, value, join);
        values.into_iter().take(self.nodes.len()).collect()
    }

    /// The same for every entry alone, in node order.
    pub(crate) fn fold_entries<T: Clone>(
        &self,
        empty: T,
        own: impl Fn(NodeId) -> T,
        join: impl Fn(&T, &T) -> T,
    ) -> Vec<T> {
        let value = |vertex: u32| self.vertex_node(vertex).map_or_else(|| empty.clone(), &own);
        self.of_entries(&self.components.fold_components(&self.reach, value, join))
    }

    /// What the components of the entries have, in node order.
    fn of_entries<T: Clone>(&self, values: &[T]) -> Vec<T> {
        let component = |entry: &NodeId| self.components.component(entry.index() as u32);
        self.entries.iter().map(|entry| values[component(entry)].clone()).collect()
    }

    /// Marks in `marked` every node that calls a marked one or names it in its code, and who calls or names those; `more` are
    /// further calls. Indirect calls do not count, nor does what a node does that is not one of `users`.
    pub(crate) fn mark_users(
        &self,
        marked: &mut IdVec<NodeId, bool>,
        more: &[(NodeId, NodeId)],
        users: impl Fn(NodeId) -> bool,
    ) {
        let mut open: Vec<NodeId> = marked.ids().filter(|&node| marked[node]).collect();
        if open.is_empty() {
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
        while let Some(node) = open.pop() {
            for user in nodes_of(&users, node) {
                if !std::mem::replace(&mut marked[user], true) {
                    open.push(user);
                }
            }
        }
    }

    /// For every entry, in node order, the largest sum of `own` along a call path; `None` where recursion can be
    /// reached.
    pub(crate) fn longest(&self, own: impl Fn(NodeId) -> u32) -> Vec<Option<u32>> {
        let value = |vertex: u32| self.vertex_node(vertex).map_or(0, &own);
        self.of_entries(&self.components.longest(&self.reach, value))
    }

    /// For every entry, in node order: which of the `wanted` nodes it reaches, in node order.
    pub(crate) fn reached_by_entries(&self, wanted: &IdVec<NodeId, bool>) -> Vec<Vec<NodeId>> {
        let mut all = Vec::with_capacity(self.entries.len());
        self.each_reached(wanted, |_, reached| all.push(reached.to_vec()));
        all
    }

    /// For every kernel, in node order: which of the `wanted` nodes it reaches, in node order;
    /// at most itself if it is no entry (case selection/address-taken-shared).
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

    /// Calls `visit` for every entry with the `wanted` nodes it reaches, both in node order.
    ///
    /// Walks only what lies on the way to a wanted node.
    pub(crate) fn each_reached(
        &self,
        wanted: &IdVec<NodeId, bool>,
        mut visit: impl FnMut(NodeId, &[NodeId]),
    ) {
        if !wanted.values().any(|&wanted| wanted) {
            return self.entries.iter().for_each(|&entry| visit(entry, &[]));
        }
        let leads = self.fold(false, |node| wanted[node], |a, b| *a || *b);
        let mut seen = vec![u32::MAX; self.reach.vertices()];
        let (mut stack, mut found) = (Vec::new(), Vec::new());
        for (stamp, &entry) in self.entries.iter().enumerate() {
            let stamp = stamp as u32;
            found.clear();
            stack.push(entry.index() as u32);
            while let Some(vertex) = stack.pop() {
                let node = self.vertex_node(vertex);
                let dead_end = node.is_some_and(|node| !leads[node]);
                if dead_end || std::mem::replace(&mut seen[vertex as usize], stamp) == stamp {
                    continue;
                }
                found.extend(node.filter(|&node| wanted[node]));
                stack.extend_from_slice(self.reach.of(vertex));
            }
            found.sort_unstable();
            visit(entry, &found);
        }
    }

    /// Who can call whom: vertices below the number of nodes are functions, the others prototypes
    /// through which functions are called.
    pub(crate) fn reach(&self) -> (&Adjacency, &Components) {
        (&self.reach, &self.components)
    }

    /// The function that a vertex of [`CallGraph::reach`] is.
    pub(crate) fn vertex_node(&self, vertex: u32) -> Option<NodeId> {
        ((vertex as usize) < self.nodes.len()).then(|| NodeId::from_index(vertex as usize))
    }
}

fn nodes_of(lists: &Adjacency, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    lists.of(node.index() as u32).iter().rev().map(|&node| NodeId::from_index(node as usize))
}

struct Reader<'a, 'd> {
    symbols: &'a Symbols,
    object: &'a Object<'d>,
    id: ObjectId,
}

impl<'d> Reader<'_, 'd> {
    /// Kernels of a file. Those that the command line leaves out stay if a file before takes their
    /// address; what host code refers to is told after all files (cases selection/address-taken-*).
    fn kernels(&self, seen: &mut Seen, (selection, known_by): &(Matcher<'_>, Matcher<'_>)) {
        let functions = self.object.outline.functions.iter();
        for &Function { index, .. } in functions.filter(|function| function.is_kernel) {
            let Some(kernel) = self.symbols.of(self.id, index) else { continue };
            if self.symbols.fate(self.id, index).accepted() {
                let symbol = self.object.symbol(index);
                let known = known_by.keeps(symbol) || known_by.is_host();
                let selected = selection.keeps(symbol);
                seen.told.push(Told::Kernel { kernel, selected, known });
            }
        }
    }

    /// Adds the records of one file. Records of a copy that lost do not count, those of a copy
    /// that is replaced later do: its callees stay alive (cases weak/*).
    fn edges(&self, seen: &mut Seen) {
        let lost = |function| self.symbols.fate(self.id, function) == Fate::Lost;
        let of = |function| self.symbols.of(self.id, function);
        let number = |id: SymbolId| id.index() as u32;
        self.object.edges().for_each(|edge| match edge {
            Edge::Call { caller, callee } => {
                if let (Some(from), Some(to)) = (self.counted(caller), of(callee)) {
                    seen.calls.push((number(from), number(to)));
                }
            }
            Edge::Reference { function, known } => {
                if let (Some(from), Some(to)) = (self.counted(function), of(known)) {
                    seen.references.push((number(from), number(to)));
                    // Also where only a copy that lost tells the prototype (cases indirect/*).
                    seen.told.push(Told::AddressTaken(to));
                }
            }
            Edge::IndirectCall { function, prototype } => {
                let (caller, listed) = (self.counted(function), !lost(function));
                seen.told.push(Told::IndirectCall { caller, prototype, listed });
            }
            Edge::AddressTaken { function, .. } if lost(function) => {}
            Edge::AddressTaken { function, prototype } => {
                let function = of(function);
                seen.told.push(Told::Prototype { function, prototype, taken: true });
            }
        });
        // A descriptor takes the address of its function wherever it stands, in dead code too (case
        // relocations/descriptors-90), but not in a copy that lost (case indirect/described-by-loser), nor in a void record.
        for &(section, function) in &self.object.described {
            let code = self.object.code_function(section);
            if code.is_some_and(lost)
                || is_forgotten(self.symbols, self.id, self.object, section, function)
            {
                continue;
            }
            seen.told.extend(of(function).map(Told::AddressTaken));
        }
        for (function, prototype) in self.object.prototypes() {
            seen.told.push(Told::Prototype { function: of(function), prototype, taken: false });
        }
    }

    /// The function, if this file's records about it count.
    fn counted(&self, index: SymbolIndex) -> Option<SymbolId> {
        let id = self.symbols.of(self.id, index)?;
        let undefined = self.symbols.all[id].definition.is_none();
        let counts = undefined || self.symbols.fate(self.id, index).accepted();
        counts.then_some(id)
    }
}

/// The functions of all jump slots, in reading order.
fn jump_slots(objects: &Objects<'_>, symbols: &Symbols) -> Vec<SymbolId> {
    let slots = objects.iter().flat_map(|(id, object)| {
        let slot = move |text| symbols.of(id, object.code_function(text)?);
        object.jump_slots().filter_map(slot)
    });
    slots.collect()
}

/// Where execution can begin.
struct Roots {
    /// By kernel: whether it was known to stay when the first file that defines it was read.
    known: IdVec<SymbolId, Option<bool>>,
    is_entry: IdVec<SymbolId, bool>,
    /// Exactly one kernel is selected.
    single: bool,
}

impl Roots {
    fn none(symbols: &Symbols) -> Self {
        Roots {
            known: IdVec::filled(None, symbols.all.len()),
            is_entry: IdVec::filled(false, symbols.all.len()),
            single: false,
        }
    }

    /// Kernels whose address is taken anywhere, and jump slots of unified functions, unless exactly one kernel is selected.
    fn add_taken(
        &mut self,
        symbols: &Symbols,
        signatures: &IdVec<SymbolId, Signature>,
        slots: &[SymbolId],
    ) {
        self.single = self.is_entry.values().filter(|&&is_entry| is_entry).count() == 1;
        if self.single {
            return;
        }
        for id in symbols.all.ids().filter(|&id| signatures[id].address_taken) {
            self.is_entry[id] |= symbols.all[id].is_kernel;
        }
        for &slot in slots {
            self.is_entry[slot] = true;
            self.known[slot] = Some(false);
        }
    }
}

/// Who is in the output: what the kept entries reach, by direct calls and through prototypes; functions
/// whose address is taken anywhere; and what those would need from outside the program. What only
/// an unreached function with a taken address calls is dead (case indirect/taken-in-dead-code).
fn alive(
    symbols: &Symbols,
    roots: &Roots,
    records: &Records,
    signatures: &IdVec<SymbolId, Signature>,
    slots: &[SymbolId],
) -> IdVec<SymbolId, bool> {
    let calls = Adjacency::new(symbols.all.len(), &records.calls);
    let indirect = Adjacency::new(symbols.all.len(), &records.indirect);
    let mut candidates: HashMap<u32, Vec<SymbolId>> = HashMap::new();
    for (id, signature) in signatures.iter().filter(|(_, s)| s.address_taken) {
        let prototype = signature.prototype.map(|name| name.index() as u32);
        candidates.entry(prototype.unwrap_or(u32::MAX)).or_default().push(id);
    }
    let mut alive = IdVec::filled(false, symbols.all.len());
    let mut stack: Vec<SymbolId> = symbols.all.ids().filter(|&id| roots.is_entry[id]).collect();
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
    for (id, signature) in signatures.iter() {
        if signature.address_taken && !std::mem::replace(&mut alive[id], true) {
            let undefined = |&callee: &SymbolId| symbols.all[callee].definition.is_none();
            callees(id).filter(undefined).for_each(|callee| alive[callee] = true);
        }
    }
    slots.iter().for_each(|&slot| alive[slot] = true);
    alive
}

/// Live functions as nodes.
struct Numbering {
    nodes: IdVec<NodeId, SymbolId>,
    node_of: IdVec<SymbolId, Option<NodeId>>,
    all_alive: bool,
    any_dead: bool,
}

/// Numbers live functions in order of first sight.
fn number(objects: &Objects<'_>, symbols: &Symbols, alive: &IdVec<SymbolId, bool>) -> Numbering {
    let mut nodes = IdVec::new();
    let mut node_of = IdVec::filled(None, symbols.all.len());
    let functions = functions(objects, symbols);
    for &function in &functions {
        if alive[function] {
            node_of[function] = Some(nodes.push(function));
        }
    }
    let all_alive = nodes.len() == functions.len();
    let is_function = |site: Site| objects[site.object].symbol(site.index).is_function();
    let is_dead = |&function: &SymbolId| {
        node_of[function].is_none() && symbols.all[function].definition.is_some_and(is_function)
    };
    let any_dead = !all_alive && functions.iter().any(is_dead);
    Numbering { nodes, node_of, all_alive, any_dead }
}

/// All functions that any file names, the dead ones too, in order of first sight.
pub(crate) fn functions(objects: &Objects<'_>, symbols: &Symbols) -> Vec<SymbolId> {
    let mut seen = IdVec::filled(false, symbols.all.len());
    let mut functions = Vec::new();
    for (id, object) in objects.iter() {
        for function in &object.outline.functions {
            let Some(function) = symbols.of(id, function.index) else { continue };
            if !std::mem::replace(&mut seen[function], true) {
                functions.push(function);
            }
        }
    }
    functions
}

/// The graph in which indirect calls go through their prototype.
fn condense(
    nodes: &IdVec<NodeId, SymbolId>,
    signatures: &IdVec<NodeId, Signature>,
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
