//! Phase `data`: where shared variables live.
//!
//! In: the merged draft and the call graph. Out: [`SharedLayout`], and the sizes of the shared
//! sections. Variables declared in an entry are its own; all others form a pool and are laid out
//! by who uses them: a variable that several entries use has one address for all of them, so
//! these come first, packed by colouring; then each entry's own and single-user ones; `extern`
//! arrays start behind everything of all entries that share a function naming one.
//!
//! Rules: docs/LINKING.md, shared memory; cases shared/*, shared-sort/*.

mod reserved;
mod symbols;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shf;
use hashbrown::{HashMap, HashSet};

use crate::LinkOptions;
use crate::callgraph::CallGraph;
use crate::capsule::SYSTEM_SHARED;
use crate::draft::Kind;
use crate::id::{IdVec, NodeId, SectionId, SymbolId};
use crate::merge::{Merged, SharedGroup, SharedNode};
use crate::objects::Objects;
use crate::sort::list_sort;
use crate::symbols::{Fate, Symbols};

/// The address of what is not laid out, as nvlink writes it (cases debug/dynamic-shared*).
const NOWHERE: u64 = u64::MAX;

/// Addresses of shared variables.
#[derive(Default)]
pub(crate) struct SharedLayout {
    /// Offset by variable, bytes; the one placed last counts.
    offsets: Vec<u64>,
    /// How often each variable was placed: once for each of its definitions.
    placements: Vec<u64>,
    is_extern: Vec<bool>,
    /// Entries that reach an array without size.
    is_dynamic: Vec<bool>,
    /// Where extern arrays start, for the functions that name one.
    extern_starts: HashMap<NodeId, u64>,
    /// `-g`: where each extern array starts for everybody, since a symbol has one value; 0 for what
    /// no entry uses.
    extern_values: Option<Vec<u64>>,
    /// End of the variables that several entries share, bytes.
    pool_end: u64,
    /// Bytes that each kernel needs, by place in [`CallGraph::kernels`].
    pub(crate) sizes: Vec<u64>,
    /// Kernels that use more than `extern` arrays.
    filled: Vec<bool>,
    /// Kernels that use each variable, ascending.
    users: Vec<Vec<EntryNumber>>,
}

impl SharedLayout {
    fn put(&mut self, group: usize, offset: u64) {
        self.offsets[group] = offset;
        self.placements[group] += 1;
    }

    /// True when `index` is an array without size whose address the code of `function` knows.
    pub(crate) fn is_extern_of(&self, index: u32, function: Option<NodeId>) -> bool {
        let known = function.is_some_and(|node| self.extern_starts.contains_key(&node));
        self.is_extern[index as usize] && self.extern_values.is_none() && known
    }

    /// True when entries share variables.
    pub(crate) fn has_pool(&self) -> bool {
        self.pool_end != 0
    }

    /// True when entry `number` uses shared variable `index`.
    pub(crate) fn uses(&self, number: EntryNumber, index: u32) -> bool {
        self.users[index as usize].binary_search(&number).is_ok()
    }

    /// The address of shared variable `index` as the code of `function` sees it; -1 for what no
    /// entry uses.
    pub(crate) fn address(&self, index: u32, function: Option<NodeId>) -> u64 {
        let index = index as usize;
        if self.is_extern[index] {
            let own = || function.and_then(|node| self.extern_starts.get(&node)).copied();
            let value = self.extern_values.as_ref().map(|values| values[index]);
            value.or_else(own).unwrap_or(NOWHERE)
        } else {
            self.offsets[index]
        }
    }
}

/// Number of a kernel: its place in [`CallGraph::kernels`].
type EntryNumber = usize;

/// Who names variables, in the order in which kernels get their sections late.
struct Late {
    /// Functions whose code names a variable, in the order of the records, some more than once.
    namers: Vec<Vec<NodeId>>,
    /// Entries that reach a function which names variables, ascending.
    users: HashMap<NodeId, Vec<EntryNumber>>,
}

struct Builder<'a, 'd> {
    graph: &'a CallGraph,
    nodes: &'a [SharedNode],
    groups: &'a [SharedGroup],
    merged: &'a Merged<'d>,
    /// Some code that counts names the variable, dead code included.
    named: Vec<bool>,
    /// Entries that use a variable, ascending.
    users: Vec<Vec<EntryNumber>>,
    /// For kernels that get their sections late; without such nothing else needs it.
    late: Option<Late>,
    /// Functions that name an extern array.
    extern_functions: HashSet<NodeId>,
    layout: SharedLayout,
}

/// Lays out shared memory and decides which shared sections exist.
pub(crate) fn lay_out(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut Merged<'_>,
    options: &LinkOptions,
) -> SharedLayout {
    let variables = std::mem::take(&mut merged.shared);
    let groups = &variables.groups;
    let may_be_late = graph.kernels().iter().any(|&kernel| !graph.is_known_entry(kernel));
    let mut builder = Builder {
        graph,
        nodes: &variables.nodes,
        groups,
        merged,
        named: vec![false; groups.len()],
        users: vec![Vec::new(); groups.len()],
        late: may_be_late
            .then(|| Late { namers: vec![Vec::new(); groups.len()], users: HashMap::new() }),
        extern_functions: HashSet::new(),
        layout: SharedLayout {
            offsets: vec![NOWHERE; groups.len()],
            placements: vec![0; groups.len()],
            is_dynamic: Vec::new(),
            is_extern: groups.iter().map(|group| !group.defined && group.size == 0).collect(),
            extern_starts: HashMap::new(),
            extern_values: None,
            pool_end: 0,
            sizes: vec![0; graph.kernels().len()],
            filled: Vec::new(),
            users: Vec::new(),
        },
    };
    builder.find_users(objects, symbols);
    let pool = builder.pool_order();
    let multi = builder.multi_user(&pool);
    builder.colour(&multi);
    builder.per_entry(&pool);
    builder.layout.filled = builder.layout.sizes.iter().map(|&size| size > 0).collect();
    let aligns = builder.entry_aligns();
    let shape = Shape::of(variables.any_extern, &builder);
    let for_debugger = options.for_debugger();
    let rounds_first = for_debugger && options.dialect.aligns_dynamic_shared;
    builder.extern_arrays(|entry| rounds_first.then(|| shape.section_align(aligns[entry])));
    if for_debugger {
        builder.one_start_each();
    }
    let order = builder.by_first_use(&pool);
    let Builder { mut layout, users, named, .. } = builder;
    reserved::place(merged);
    let own = apply(merged, graph, &layout, (&aligns, &order), shape, options);
    if options.keeps_shared_symbols() {
        symbols::place(merged, &own, &layout, (&users, &named), options);
    }
    merged.shared = variables;
    layout.users = users;
    layout
}

/// `-r`: variables wait for the link that knows their users. Sections are as long as what was
/// declared in them, and longer.
pub(crate) fn keep(merged: &mut Merged<'_>) {
    let nodes = &merged.shared.nodes;
    let mut members: HashMap<Option<SectionId>, Vec<usize>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.defined) {
        members.entry(node.own).or_default().push(index);
    }
    let align_of = |members: &[usize]| members.iter().map(|&node| nodes[node].align).max();
    // Kernels' sections are aligned as the pool is (case dialects/object).
    let pool_align = members.get(&None).and_then(|members| align_of(members)).unwrap_or(1);
    for id in merged.draft.category_of(Kind::Shared).to_vec() {
        let section = &mut merged.draft.sections[id];
        let members = match section.kind {
            Kind::Shared => section.owner.and_then(|code| members.get(&Some(code))),
            Kind::PoolShared => members.get(&None),
            Kind::ReservedShared => {
                section.twin_size = section.size;
                continue;
            }
            _ => continue,
        };
        let members = members.map_or(&[][..], Vec::as_slice);
        section.align = align_of(members).unwrap_or(1).max(pool_align);
        let sum = members.iter().map(|&node| nodes[node].size).sum();
        section.size = size_in_object(sum, section.align);
        section.dropped = members.is_empty();
    }
}

/// The size of a shared section in an object, bytes: an odd rule, that of ptxas, but nothing depends on it
/// (case relocatable/pool-sizes).
fn size_in_object(sum: u64, align: u64) -> u64 {
    if sum <= align { sum + align } else { sum }
}

/// Places variables from `start` on, by alignment, then size; returns their end, bytes.
fn place(
    nodes: &[SharedNode],
    members: &[usize],
    start: u64,
    mut put: impl FnMut(usize, u64),
) -> u64 {
    let key = |node: usize| (std::cmp::Reverse(nodes[node].align), nodes[node].size);
    let mut end = start;
    for node in list_sort(members, &|a, b| key(a) <= key(b)) {
        let offset = end.next_multiple_of(nodes[node].align);
        put(node, offset);
        end = offset + nodes[node].size;
    }
    end
}

/// Shared variables that code names.
pub(crate) fn named(objects: &Objects<'_>, symbols: &Symbols) -> HashSet<SymbolId> {
    let mut named = HashSet::new();
    each_reference(objects, symbols, |_, variable| {
        named.insert(variable);
    });
    named
}

/// Calls `visit` with function and variable for every reference of code to a shared variable: of
/// copies that count, dead functions included.
fn each_reference(
    objects: &Objects<'_>,
    symbols: &Symbols,
    mut visit: impl FnMut(SymbolId, SymbolId),
) {
    for (id, object) in objects.iter() {
        for &(function, variable) in &object.shared_uses {
            let chosen = symbols.fate(id, function) == Fate::Chosen;
            let function = symbols.of(id, function).filter(|_| chosen);
            if let Some((function, variable)) = function.zip(symbols.of(id, variable)) {
                visit(function, variable);
            }
        }
    }
}

/// The number of the entry whose code a section is.
fn entries_by_code(merged: &Merged<'_>, graph: &CallGraph) -> HashMap<SectionId, EntryNumber> {
    let entries = graph.kernels().iter().enumerate();
    entries.filter_map(|(number, &entry)| Some((merged.code(graph, entry)?, number))).collect()
}

impl Builder<'_, '_> {
    fn group(&self, node: usize) -> usize {
        self.nodes[node].group as usize
    }

    /// The entries that use the variable of a node.
    fn users_of(&self, node: usize) -> &[EntryNumber] {
        &self.users[self.group(node)]
    }

    fn is_pool(&self, node: usize) -> bool {
        self.nodes[node].own.is_none()
    }

    /// Which functions name which pool variables, and which entries reach them.
    fn find_users(&mut self, objects: &Objects<'_>, symbols: &Symbols) {
        if self.nodes.is_empty() {
            return;
        }
        let mut uses: IdVec<NodeId, Vec<u32>> = IdVec::filled(Vec::new(), self.graph.nodes.len());
        each_reference(objects, symbols, |function, variable| {
            let out = self.merged.out_symbol(variable);
            let Some(index) = out.and_then(|out| self.merged.draft.symbols[out].shared) else {
                return;
            };
            self.named[index as usize] = true;
            if let Some(node) = self.graph.node(function) {
                uses[node].push(index);
                if let Some(late) = &mut self.late {
                    let namers = &mut late.namers[index as usize];
                    if namers.last() != Some(&node) {
                        namers.push(node);
                    }
                }
            }
        });
        self.collect_users(&uses);
    }

    fn collect_users(&mut self, uses: &IdVec<NodeId, Vec<u32>>) {
        let wanted = uses.values().map(|list| !list.is_empty()).collect();
        let reached = self.graph.reached_by_kernels(&wanted);
        for (entry, nodes) in reached.into_iter().enumerate() {
            for node in nodes {
                if let Some(late) = &mut self.late {
                    late.users.entry(node).or_default().push(entry);
                }
                for &index in &uses[node] {
                    let users = &mut self.users[index as usize];
                    if users.last() != Some(&entry) {
                        users.push(entry);
                    }
                }
            }
        }
        for (node, list) in uses.iter() {
            if list.iter().any(|&index| self.layout.is_extern[index as usize]) {
                self.extern_functions.insert(node);
            }
        }
        let entry_of_code = entries_by_code(self.merged, self.graph);
        for node in self.nodes {
            if let Some(code) = node.own {
                let users = entry_of_code.get(&code).copied().into_iter().collect();
                self.users[node.group as usize] = users;
            }
        }
    }

    /// All pool variables, the largest first.
    fn pool_order(&self) -> Vec<usize> {
        let pool: Vec<usize> = (0..self.nodes.len()).filter(|&node| self.is_pool(node)).collect();
        list_sort(&pool, &|a, b| self.nodes[a].size > self.nodes[b].size)
    }

    /// The entries that use pool variables, where some may get their sections late: by variables with one user, then by the others, each in
    /// order of the pool; those of one variable by the functions that name it, the last entry first (cases
    /// unified/shared-*, selection/late-shared-order, selection/late-shared-callers).
    fn by_first_use(&self, pool: &[usize]) -> Vec<EntryNumber> {
        let Some(late) = &self.late else { return Vec::new() };
        let mut seen = vec![false; self.layout.sizes.len()];
        let single = |node: &&usize| self.users_of(**node).len() == 1;
        let several = |node: &&usize| !single(node);
        let nodes = pool.iter().filter(single).chain(pool.iter().filter(several));
        let namers = nodes.flat_map(|&node| &late.namers[self.group(node)]);
        let users = namers.flat_map(|namer| late.users.get(namer).into_iter().flatten().rev());
        users.copied().filter(|&entry| !std::mem::replace(&mut seen[entry], true)).collect()
    }

    /// Pool variables with one address for several entries, or named by dead code only.
    fn multi_user(&self, pool: &[usize]) -> Vec<usize> {
        let multi = |&node: &usize| {
            let users = self.users_of(node).len();
            let named = self.named[self.group(node)];
            self.nodes[node].defined && (users > 1 || (users == 0 && named))
        };
        pool.iter().copied().filter(multi).collect()
    }

    /// Greedy colouring: a variable joins the first class that shares no entry with it.
    fn colour(&mut self, multi: &[usize]) {
        let mut classes: Vec<Vec<usize>> = Vec::new();
        // Classes by entry, as bits: the first class free for all users is found 64 at a time.
        let mut taken: Vec<Vec<u64>> = vec![Vec::new(); self.layout.sizes.len()];
        for &node in multi {
            let class = first_free(&taken, self.users_of(node));
            if class == classes.len() {
                classes.push(Vec::new());
            }
            classes[class].push(node);
            for &entry in &self.users[self.nodes[node].group as usize] {
                let bits = &mut taken[entry];
                bits.resize(bits.len().max(class / 64 + 1), 0);
                bits[class / 64] |= 1 << (class % 64);
            }
        }
        let mut cursor = 0u64;
        for class in classes {
            let align = class.iter().map(|&node| self.nodes[node].align).max().unwrap_or(1);
            cursor = cursor.next_multiple_of(align);
            for &node in &class {
                let group = self.group(node);
                self.layout.put(group, cursor);
                let end = cursor + self.nodes[node].size;
                for &entry in &self.users[group] {
                    let size = &mut self.layout.sizes[entry];
                    *size = end.max(*size);
                }
            }
            cursor += class.iter().map(|&node| self.nodes[node].size).max().unwrap_or(0);
        }
        self.layout.pool_end = cursor;
    }

    /// Own and single-user variables of each entry, by alignment, then size.
    fn per_entry(&mut self, pool: &[usize]) {
        let mut lists: Vec<Vec<usize>> = vec![Vec::new(); self.layout.sizes.len()];
        let own = (0..self.nodes.len()).filter(|&node| !self.is_pool(node));
        for node in own.chain(pool.iter().copied()) {
            if let (&[entry], true) = (self.users_of(node), self.nodes[node].defined) {
                lists[entry].push(node);
            }
        }
        for (entry, list) in lists.into_iter().enumerate() {
            let (nodes, layout) = (self.nodes, &mut self.layout);
            let start = layout.sizes[entry];
            layout.sizes[entry] = place(nodes, &list, start, |node, offset| {
                layout.put(nodes[node].group as usize, offset);
            });
        }
    }

    /// The alignment of an array without size. Before CUDA 13.1 objects tell none.
    fn extern_align(&self, group: usize) -> u64 {
        let counts = self.merged.draft.dialect.aligns_dynamic_shared;
        let node = self.groups[group].unsized_node.filter(|_| counts);
        node.map_or(16, |node| self.nodes[node].align.max(16))
    }

    /// All entries and functions that are tied by an extern array see it at one address: behind
    /// the largest of them. `section_align` is what the end of an entry's section is rounded up to before, if it is
    /// (case shared/dynamic-with-g).
    fn extern_arrays(&mut self, section_align: impl Fn(EntryNumber) -> Option<u64>) {
        self.layout.is_dynamic = vec![false; self.layout.sizes.len()];
        if self.extern_functions.is_empty() {
            return;
        }
        for (group, users) in self.users.iter().enumerate() {
            if !self.layout.is_extern[group] {
                continue;
            }
            let align = self.extern_align(group);
            for &entry in users {
                // The first array that an entry reaches decides (case shared/dynamic-aligned).
                if !std::mem::replace(&mut self.layout.is_dynamic[entry], true) {
                    let size = &mut self.layout.sizes[entry];
                    *size = size.next_multiple_of(section_align(entry).unwrap_or(align));
                }
            }
        }
        let mut wanted = IdVec::filled(false, self.graph.nodes.len());
        self.extern_functions.iter().for_each(|&node| wanted[node] = true);
        let reached = self.graph.reached_by_kernels(&wanted);
        let mut groups = Groups::new(reached.len());
        let mut owner: HashMap<NodeId, EntryNumber> = HashMap::new();
        for (entry, nodes) in reached.iter().enumerate() {
            for &node in nodes {
                let first = *owner.entry(node).or_insert(entry);
                groups.join(first, entry);
            }
        }
        let mut starts = vec![0u64; reached.len()];
        for (entry, nodes) in reached.iter().enumerate() {
            if !nodes.is_empty() {
                let group = groups.find(entry);
                starts[group] = starts[group].max(self.layout.sizes[entry]);
            }
        }
        for (entry, nodes) in reached.iter().enumerate() {
            let start = starts[groups.find(entry)];
            if !nodes.is_empty() {
                self.layout.sizes[entry] = start;
            }
            for &node in nodes {
                self.layout.extern_starts.insert(node, start);
            }
        }
    }

    /// One start for all extern arrays that entries tie together, behind the largest of these
    /// entries (case debug/two-extern-arrays-g).
    fn one_start_each(&mut self) {
        let externs = || self.users.iter().zip(&self.layout.is_extern).filter(|(_, e)| **e);
        let mut groups = Groups::new(self.layout.sizes.len());
        let mut uses = vec![false; self.layout.sizes.len()];
        for (users, _) in externs() {
            users.iter().for_each(|&entry| uses[entry] = true);
            users.windows(2).for_each(|pair| groups.join(pair[0], pair[1]));
        }
        let mut starts = vec![0u64; uses.len()];
        for (entry, &size) in self.layout.sizes.iter().enumerate().filter(|(e, _)| uses[*e]) {
            let group = groups.find(entry);
            starts[group] = starts[group].max(size);
        }
        for (entry, size) in self.layout.sizes.iter_mut().enumerate().filter(|(e, _)| uses[*e]) {
            *size = starts[groups.find(entry)];
        }
        let value =
            |users: &Vec<EntryNumber>| users.first().map_or(0, |&entry| starts[groups.find(entry)]);
        self.layout.extern_values = Some(self.users.iter().map(value).collect());
    }

    /// Alignment of each entry's section as far as its variables ask for it.
    fn entry_aligns(&self) -> Vec<u64> {
        let mut aligns = vec![1u64; self.layout.sizes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let users = self.users_of(index);
            if !node.defined {
                let align = self.extern_align(self.group(index));
                users.iter().for_each(|&entry| aligns[entry] = aligns[entry].max(align));
            } else if let &[entry] = users {
                aligns[entry] = aligns[entry].max(node.align);
            }
        }
        aligns
    }
}

/// The lowest number that none of `users` has taken.
fn first_free(taken: &[Vec<u64>], users: &[EntryNumber]) -> usize {
    let mut word = 0;
    loop {
        let used = users
            .iter()
            .fold(0u64, |used, &entry| used | taken[entry].get(word).copied().unwrap_or(0));
        if used != u64::MAX {
            return word * 64 + used.trailing_ones() as usize;
        }
        word += 1;
    }
}

/// Disjoint sets of entries.
struct Groups {
    parent: Vec<usize>,
}

impl Groups {
    fn new(len: usize) -> Self {
        Groups { parent: (0..len).collect() }
    }

    fn find(&mut self, mut item: usize) -> usize {
        while self.parent[item] != item {
            self.parent[item] = self.parent[self.parent[item]];
            item = self.parent[item];
        }
        item
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b)] = a.min(b);
    }
}

/// Facts about the whole program that decide which sections exist.
#[derive(Clone, Copy)]
struct Shape {
    /// Some file declares an array without size that no file before defined, used or not.
    any_extern: bool,
    /// Some defined pool variable that code names has not exactly one user.
    multi: bool,
    /// Largest alignment of a pool variable; objects of CUDA 13.1 and later tell that of arrays without size too.
    pool_align: u64,
}

impl Shape {
    fn of(any_extern: bool, builder: &Builder<'_, '_>) -> Self {
        let pool = || (0..builder.nodes.len()).filter(|&node| builder.is_pool(node));
        let defined = || pool().filter(|&node| builder.nodes[node].defined);
        let several =
            |&node: &usize| builder.named[builder.group(node)] && builder.users_of(node).len() != 1;
        Shape {
            any_extern,
            multi: defined().any(|node| several(&node)),
            pool_align: pool().map(|node| builder.nodes[node].align).max().unwrap_or(1),
        }
    }

    /// Alignment of the section of an entry whose own variables ask for `own`.
    fn section_align(&self, own: u64) -> u64 {
        own.max(if self.multi { self.pool_align } else { 1 })
    }
}

/// Kernels of which merging did not know that they stay get their sections now, if they need them
/// (case selection/address-taken-shared), and so do jump slots. Returns their sections.
fn add_missing(
    merged: &mut Merged<'_>,
    graph: &CallGraph,
    layout: &SharedLayout,
    (aligns, order): (&[u64], &[EntryNumber]),
) -> HashMap<SectionId, EntryNumber> {
    let mut late = HashMap::new();
    for &place in order {
        let kernel = graph.kernels()[place];
        // An extern array has no size, but wants the section for its alignment.
        let needed = layout.sizes[place] > 0 || aligns[place] > 1;
        if !needed || graph.is_known_entry(kernel) {
            continue;
        }
        let code = merged.code(graph, kernel);
        let function = merged.function(graph, kernel);
        let name = merged.draft.symbols[function].name;
        let name = merged.draft.names.prefixed(b".nv.shared.", name);
        // All jump slots are one section of code.
        let exists = |&id: &SectionId| {
            let section = &merged.draft.sections[id];
            section.kind == Kind::Shared && section.owner == code && section.name == name
        };
        if merged.draft.category_of(Kind::Shared).iter().any(exists) {
            continue;
        }
        let flags = shf::WRITE | shf::ALLOC | shf::INFO_LINK;
        let section = merged.draft.add_section(name, Kind::Shared, flags, 1);
        merged.draft.sections[section].owner = code;
        late.insert(section, place);
    }
    late
}

/// Writes sizes and alignments into the sections and drops those that do not exist.
fn apply(
    merged: &mut Merged<'_>,
    graph: &CallGraph,
    layout: &SharedLayout,
    (aligns, order): (&[u64], &[EntryNumber]),
    shape: Shape,
    options: &LinkOptions,
) -> Vec<Option<SectionId>> {
    let by_owner = entries_by_code(merged, graph);
    let reserved = options.target.reserved_shared;
    let late = add_missing(merged, graph, layout, (aligns, order));
    let mut own = vec![None; aligns.len()];
    for id in merged.draft.category_of(Kind::Shared).to_vec() {
        let section = &mut merged.draft.sections[id];
        match section.kind {
            Kind::Shared => {
                let owner = || section.owner.and_then(|owner| by_owner.get(&owner));
                let entry = late.get(&id).or_else(owner).copied();
                if let Some(entry) = entry {
                    own[entry] = Some(id);
                }
                let (size, own_align) = entry.map_or((0, 1), |e| (layout.sizes[e], aligns[e]));
                let alone =
                    entry.is_some_and(|entry| late.contains_key(&id) && !layout.filled[entry]);
                let align = if alone { own_align } else { shape.section_align(own_align) };
                let exact = reserved == 0 || options.target.flavour == Flavour::Mercury;
                let wide_enough = if exact { align == 16 } else { align >= 16 };
                let keep = size > 0 || (entry.is_some() && shape.any_extern && wide_enough);
                section.align = align;
                let rounds = options.dialect.aligns_dynamic_shared
                    && entry.is_some_and(|entry| layout.is_dynamic[entry]);
                let end = reserved + size.next_multiple_of(if rounds { align } else { 1 });
                section.size = if keep { end } else { 0 };
                section.dropped = !keep;
            }
            Kind::ReservedShared => {
                section.twin_size = section.size;
                section.size += SYSTEM_SHARED;
            }
            Kind::PoolShared => {
                let wanted = shape.any_extern && !(shape.multi && shape.pool_align > 16);
                section.align = 16;
                section.size = match options.target.flavour {
                    Flavour::Classic => 0,
                    Flavour::Mercury => reserved,
                };
                if options.keeps_shared_symbols() {
                    let multi = if shape.multi { shape.pool_align } else { 1 };
                    section.align = multi.max(if shape.any_extern { 16 } else { 1 });
                    section.size = reserved + layout.pool_end;
                }
                section.dropped =
                    !(wanted || options.keeps_shared_symbols() && layout.pool_end > 0);
            }
            _ => {}
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_free_class_skips_what_any_user_has() {
        let taken = vec![vec![0b1011], vec![0b0100], vec![u64::MAX, 1]];
        assert_eq!(first_free(&taken, &[0]), 2);
        assert_eq!(first_free(&taken, &[0, 1]), 4);
        assert_eq!(first_free(&taken, &[2]), 65);
        assert_eq!(first_free(&taken, &[]), 0);
    }
}
