//! Phase `data`: the layout of shared memory.
//!
//! In: the merged draft and the call graph. Out: [`SharedLayout`], and the sizes of the shared
//! sections. A variable declared in an entry belongs to that entry; all others form the *pool*. A
//! pool variable has one address for all entries that use it. Variables with several users come
//! first, packed by graph colouring; then, for each entry, its own variables and those that only it
//! uses. `extern` arrays start after everything else of all entries that share a function which
//! refers to one.
//!
//! Rules: docs/LINKING.md, shared memory; cases shared/*, shared-sort/*.

mod arrays;
mod reserved;
mod symbols;

use std::cmp::Reverse;

use culd_cubin::arch::{Arch, Flavour};
use culd_cubin::elf::shf;
use hashbrown::{HashMap, HashSet};

use crate::base::half::system_shared;
use crate::base::id::{IdVec, NodeId, SectionId};
use crate::base::sort::list_sort;
use crate::callgraph::CallGraph;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{MergeResult, SharedGroup, SharedNode};
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;
use crate::symbols::shared_uses::each_reference;

/// The address of a variable without a place, as nvlink writes it (cases debug/dynamic-shared*).
const NOWHERE: u64 = u64::MAX;

/// Addresses of shared variables.
#[derive(Default)]
pub(crate) struct SharedLayout {
    /// Offset by variable, bytes; the last placement counts.
    offsets: Vec<u64>,
    /// Number of placements by variable: one for each definition.
    placements: Vec<u64>,
    is_extern: Vec<bool>,
    /// By entry: it reaches an array without size.
    is_dynamic: Vec<bool>,
    /// Start of extern arrays by function that refers to one.
    extern_starts: HashMap<NodeId, u64>,
    /// With `-g`: the start of each extern array for all functions, since a symbol has one value; 0
    /// for an array that no entry uses.
    extern_values: Option<Vec<u64>>,
    /// End of the variables with several users, bytes.
    pool_end: u64,
    /// Bytes of shared memory by kernel, in the order of [`CallGraph::kernels`].
    pub(crate) sizes: Vec<u64>,
    /// By kernel: it uses a variable that is no `extern` array.
    filled: Vec<bool>,
    /// Users of each variable, ascending.
    users: Vec<Vec<EntryNumber>>,
    /// Variables of the pool that kernels of whole programs use.
    pub(crate) clashes: Vec<(u32, EntryNumber)>,
    /// The place of the last section of a whole program; none has a symbol.
    last_unnamed: u64,
}

impl SharedLayout {
    fn put(&mut self, node: &SharedNode, offset: u64) {
        let group = node.group as usize;
        self.offsets[group] = offset;
        self.placements[group] += 1;
        if node.laid_out {
            self.last_unnamed = offset;
        }
    }

    /// True if some entry reaches an array without size.
    pub(crate) fn is_any_dynamic(&self) -> bool {
        self.is_dynamic.contains(&true)
    }

    /// True if `index` is an array without size that `function` refers to, so that its start is
    /// known.
    pub(crate) fn is_extern_of(&self, index: u32, function: Option<NodeId>) -> bool {
        let known = function.is_some_and(|node| self.extern_starts.contains_key(&node));
        self.is_extern[index as usize] && self.extern_values.is_none() && known
    }

    /// True if entry `number` reaches an array without size. In an object (`-r`) that is not known.
    pub(crate) fn is_dynamic(&self, number: EntryNumber) -> bool {
        self.is_dynamic.get(number).copied().unwrap_or(false)
    }

    /// True if some variable has several users.
    pub(crate) fn has_pool(&self) -> bool {
        self.pool_end != 0
    }

    /// True if entry `number` uses shared variable `index`.
    pub(crate) fn uses(&self, number: EntryNumber, index: u32) -> bool {
        self.users[index as usize].binary_search(&number).is_ok()
    }

    /// The address of shared variable `index` in the code of `function`; -1 for a variable that no
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

/// Which functions refer to which variables: nvlink creates late kernels' sections in this order.
struct LateKernels {
    /// By variable: functions whose code refers to it, in the order of the records, with
    /// repetitions.
    namers: Vec<Vec<NodeId>>,
    /// By such a function: the entries that reach it, ascending.
    users: HashMap<NodeId, Vec<EntryNumber>>,
}

struct SharedBuilder<'a, 'd> {
    graph: &'a CallGraph,
    nodes: &'a [SharedNode],
    groups: &'a [SharedGroup],
    merged: &'a MergeResult<'d>,
    /// By variable: code of an accepted copy refers to it, dead code included.
    named: Vec<bool>,
    /// Entries that use a variable, ascending.
    users: Vec<Vec<EntryNumber>>,
    /// Only in programs with kernels whose sections are created late, see [`add_missing`].
    late: Option<LateKernels>,
    /// Functions that refer to an extern array, each with the place of its first such record among
    /// the records of all of them, and that array.
    extern_functions: HashMap<NodeId, (usize, u32)>,
    layout: SharedLayout,
}

/// Lays out shared memory and decides which shared sections exist.
pub(crate) fn lay_out(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    merged: &mut MergeResult<'_>,
    options: &LinkOptions,
) -> SharedLayout {
    let variables = std::mem::take(&mut merged.shared);
    let groups = &variables.groups;
    let may_be_late = graph.kernels().iter().any(|&kernel| !graph.is_known_entry(kernel));
    let mut builder = SharedBuilder {
        graph,
        nodes: &variables.nodes,
        groups,
        merged,
        named: vec![false; groups.len()],
        users: vec![Vec::new(); groups.len()],
        late: may_be_late
            .then(|| LateKernels { namers: vec![Vec::new(); groups.len()], users: HashMap::new() }),
        extern_functions: HashMap::new(),
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
            clashes: Vec::new(),
            last_unnamed: 0,
        },
    };
    builder.find_users(objects, symbols);
    let pool = builder.pool_order();
    builder.layout.clashes = builder.clashes(&pool, objects, symbols);
    for &(group, entry) in &builder.layout.clashes {
        builder.users[group as usize].retain(|&user| user != entry);
    }
    let multi = builder.multi_user(&pool);
    builder.colour(&multi);
    builder.per_entry(&pool);
    builder.layout.filled = builder.layout.sizes.iter().map(|&size| size > 0).collect();
    let aligns = builder.entry_aligns();
    let shape = PoolShape::of(variables.any_extern, &builder);
    let for_debugger = options.for_debugger();
    let bare = builder.bare_value(options.target);
    if for_debugger {
        builder.place_arrays_for_debugger(&aligns, &shape);
    } else {
        builder.place_arrays();
    }
    let order = builder.by_first_use(&pool);
    let SharedBuilder { mut layout, users, named, .. } = builder;
    reserved::place(merged);
    merged.draft.null_value = bare.or(merged.draft.null_value);
    let mut whole: HashMap<SectionId, u64> = HashMap::new();
    for node in variables.nodes.iter().filter(|node| node.laid_out) {
        if let Some(code) = node.own {
            let align = whole.entry(code).or_default();
            *align = node.align.max(*align);
        }
    }
    let needs = EntryNeeds { aligns: &aligns, order: &order, whole: &whole };
    let own = apply(merged, graph, &layout, needs, shape, options);
    if !whole.is_empty() && options.target.flavour == Flavour::Classic {
        // As for a variable that keeps its symbol, here symbol 0: once for each that takes room.
        let unnamed = variables.nodes.iter().filter(|node| node.laid_out);
        let users = |node: &SharedNode| users[node.group as usize].first().copied();
        let placed = unnamed.filter_map(users).filter(|&entry| layout.sizes[entry] > 0).count();
        let reserved = options.target.reserved_shared * placed as u64;
        merged.draft.null_value = Some(reserved + layout.last_unnamed);
    }
    if options.keeps_shared_symbols() {
        symbols::place(merged, &own, &layout, &users, &named, options);
    }
    merged.shared = variables;
    layout.users = users;
    layout
}

/// With `-r`: variables get no places, since only the final link knows their users. A section is as
/// large as the sum of its variables, by [`size_in_object`].
pub(crate) fn keep(merged: &mut MergeResult<'_>) {
    let nodes = &merged.shared.nodes;
    let mut members: HashMap<Option<SectionId>, Vec<usize>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.defined) {
        members.entry(node.own).or_default().push(index);
    }
    let align_of = |members: &[usize]| members.iter().map(|&node| nodes[node].align).max();
    // A kernel's section has at least the alignment of the pool (case dialects/object).
    let pool_align = members.get(&None).and_then(|members| align_of(members)).unwrap_or(1);
    for id in merged.draft.category_of(SectionKind::Shared).to_vec() {
        let section = &mut merged.draft.sections[id];
        let members = match section.kind {
            SectionKind::Shared => section.owner.and_then(|code| members.get(&Some(code))),
            SectionKind::PoolShared => members.get(&None),
            SectionKind::ReservedShared => {
                section.mercury_size = section.size;
                continue;
            }
            _ => continue,
        };
        let members = members.map_or(&[][..], Vec::as_slice);
        section.align = align_of(members).unwrap_or(1).max(pool_align);
        let sum = members.iter().map(|&node| nodes[node].size).sum();
        section.size = size_in_object(sum, section.align);
        section.dropped = members.is_empty();
        // If it is empty, the section of a whole program's kernel has no symbol.
        if let Some(symbol) = section.symbol.filter(|_| sum == 0) {
            merged.draft.symbols[symbol].dropped = true;
        }
    }
}

/// The size of a shared section in an object, bytes. The rule is that of ptxas and looks odd, but
/// no later step depends on it (case relocatable/pool-sizes).
fn size_in_object(sum: u64, align: u64) -> u64 {
    if sum <= align { sum + align } else { sum }
}

/// Places variables from `start` on, sorted by alignment, then size; returns their end, bytes.
fn place(
    nodes: &[SharedNode],
    members: &[usize],
    start: u64,
    mut put: impl FnMut(usize, u64),
) -> u64 {
    let key = |node: usize| (Reverse(nodes[node].align), nodes[node].size);
    let mut end = start;
    for node in list_sort(members, &|a, b| key(a) <= key(b)) {
        let offset = end.next_multiple_of(nodes[node].align);
        put(node, offset);
        end = offset + nodes[node].size;
    }
    end
}

/// Entry numbers by code section.
fn entries_by_code(merged: &MergeResult<'_>, graph: &CallGraph) -> HashMap<SectionId, EntryNumber> {
    let entries = graph.kernels().iter().enumerate();
    entries.filter_map(|(number, &entry)| Some((merged.code(graph, entry)?, number))).collect()
}

impl SharedBuilder<'_, '_> {
    fn group(&self, node: usize) -> usize {
        self.nodes[node].group as usize
    }

    /// The users of a node's variable.
    fn users_of(&self, node: usize) -> &[EntryNumber] {
        &self.users[self.group(node)]
    }

    fn is_pool(&self, node: usize) -> bool {
        self.nodes[node].own.is_none()
    }

    /// Finds which functions refer to which pool variables, and which entries reach these
    /// functions.
    fn find_users(&mut self, objects: &InputObjects<'_>, symbols: &Symbols) {
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
                if self.layout.is_extern[index as usize] {
                    let place = self.extern_functions.len();
                    self.extern_functions.entry(node).or_insert((place, index));
                }
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
        let entry_of_code = entries_by_code(self.merged, self.graph);
        for node in self.nodes {
            if let Some(code) = node.own {
                let users = entry_of_code.get(&code).copied().into_iter().collect();
                self.users[node.group as usize] = users;
            }
        }
    }

    /// All pool variables by size, the largest first.
    fn pool_order(&self) -> Vec<usize> {
        let pool: Vec<usize> = (0..self.nodes.len()).filter(|&node| self.is_pool(node)).collect();
        list_sort(&pool, &|a, b| self.nodes[a].size > self.nodes[b].size)
    }

    /// The users of pool variables in the order of their late sections; empty without late kernels.
    /// Variables with one user come first, then the others, both in pool order. Within a variable:
    /// by the functions that refer to it; within a function: the last entry first (cases
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

    /// Pool variables with a size that kernels of whole programs use, each with such a kernel. The
    /// own variables of those kernels have their places already, at the start of the kernel's
    /// memory: their code names them without a record, also in an object that was made with `-r`,
    /// where nvlink looks no more (DIFFERENCES.md, whole-program-again). In the order of the pool;
    /// for each record that names the variable, the last kernel first (case
    /// errors-finish/placed-already).
    fn clashes(
        &self,
        pool: &[usize],
        objects: &InputObjects<'_>,
        symbols: &Symbols,
    ) -> Vec<(u32, EntryNumber)> {
        let placed = self.nodes.iter().filter(|node| node.laid_out && node.size > 0);
        let placed: HashSet<EntryNumber> =
            placed.flat_map(|node| self.users[node.group as usize].iter().copied()).collect();
        if !objects.has_extensible() && placed.is_empty() {
            return Vec::new();
        }
        let is_whole = |entry: EntryNumber, &kernel: &NodeId| {
            let definition = symbols.all[self.graph.nodes[kernel]].definition;
            definition.is_some_and(|site| objects[site.object].is_extensible())
                || placed.contains(&entry)
        };
        // Functions that refer to a variable, once for each record.
        let mut namers: HashMap<u32, Vec<NodeId>> = HashMap::new();
        let mut wanted = IdVec::filled(false, self.graph.nodes.len());
        each_reference(objects, symbols, |function, variable| {
            let out = self.merged.out_symbol(variable);
            let group = out.and_then(|out| self.merged.draft.symbols[out].shared);
            if let (Some(node), Some(group)) = (self.graph.node(function), group) {
                namers.entry(group).or_default().push(node);
                wanted[node] = true;
            }
        });
        let mut users: HashMap<NodeId, Vec<EntryNumber>> = HashMap::new();
        for (entry, nodes) in self.graph.reached_by_kernels(&wanted).into_iter().enumerate().rev() {
            if is_whole(entry, &self.graph.kernels()[entry]) {
                nodes.into_iter().for_each(|node| users.entry(node).or_default().push(entry));
            }
        }
        let defined = pool.iter().filter(|&&node| self.nodes[node].defined);
        let groups = defined.map(|&node| self.nodes[node].group);
        let clash = |group: u32| {
            let namers = namers.get(&group).into_iter().flatten();
            let users = namers.flat_map(|node| users.get(node).into_iter().flatten());
            users.map(move |&entry| (group, entry)).collect::<Vec<_>>()
        };
        groups.flat_map(clash).collect()
    }

    /// Pool variables with several users, and those that only dead code refers to.
    fn multi_user(&self, pool: &[usize]) -> Vec<usize> {
        let multi = |&node: &usize| {
            let users = self.users_of(node).len();
            let named = self.named[self.group(node)];
            self.nodes[node].defined && (users > 1 || (users == 0 && named))
        };
        pool.iter().copied().filter(multi).collect()
    }

    /// Places variables by greedy colouring: each joins the first class in which no variable shares
    /// a user with it. Classes follow each other in memory.
    fn colour(&mut self, multi: &[usize]) {
        let mut classes: Vec<Vec<usize>> = Vec::new();
        // The classes of each entry as bits: a class that is free for all users is found 64 at a
        // time.
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
                self.layout.put(&self.nodes[node], cursor);
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

    /// Places the own and single-user variables of each entry, by alignment, then size.
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
                layout.put(&nodes[node], offset);
            });
        }
    }

    /// The value that nvlink gives symbol 0. Shared memory without a variable has no other symbol;
    /// that of the first entry is placed last (case shared/dynamic-in-steps by 13.5).
    fn bare_value(&self, target: &Arch) -> Option<u64> {
        let reserved = match target.flavour {
            Flavour::Classic => target.reserved_shared,
            Flavour::Mercury => 0,
        };
        let bare = self.groups.iter().zip(&self.users).zip(&self.layout.offsets);
        let placed = bare.filter(|((group, users), _)| group.bare && !users.is_empty());
        let places: Vec<_> =
            placed.map(|((_, users), &offset)| (Reverse(users[0]), offset)).collect();
        let last = places.iter().max()?;
        Some(reserved * places.len() as u64 + last.1)
    }

    /// The alignment that each entry's own and single-user variables need.
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

/// The lowest class that no entry of `users` has.
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

/// Properties of the whole program that decide which sections exist.
#[derive(Clone, Copy)]
struct PoolShape {
    /// Some file declares an array without size, used or not, and no earlier file defined it.
    any_extern: bool,
    /// Code refers to some defined pool variable with no user or with several.
    multi: bool,
    /// Largest alignment of a pool variable. From CUDA 13.1 on, objects record it for arrays
    /// without size too.
    pool_align: u64,
}

impl PoolShape {
    fn of(any_extern: bool, builder: &SharedBuilder<'_, '_>) -> Self {
        let pool = || (0..builder.nodes.len()).filter(|&node| builder.is_pool(node));
        let defined = || pool().filter(|&node| builder.nodes[node].defined);
        let several =
            |&node: &usize| builder.named[builder.group(node)] && builder.users_of(node).len() != 1;
        PoolShape {
            any_extern,
            multi: defined().any(|node| several(&node)),
            pool_align: pool().map(|node| builder.nodes[node].align).max().unwrap_or(1),
        }
    }

    /// Alignment of an entry's section; its own variables need `own`.
    fn section_align(&self, own: u64) -> u64 {
        own.max(if self.multi { self.pool_align } else { 1 })
    }
}

/// Creates the shared sections of kernels that phase `merge` could not know to be alive (case
/// selection/address-taken-shared), and of jump slots. Returns the new sections.
fn add_missing(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    layout: &SharedLayout,
    aligns: &[u64],
    order: &[EntryNumber],
) -> HashMap<SectionId, EntryNumber> {
    let mut late = HashMap::new();
    for &place in order {
        let kernel = graph.kernels()[place];
        // An extern array has no size, but needs a section for its alignment.
        let needed = layout.sizes[place] > 0 || aligns[place] > 1;
        if !needed || graph.is_known_entry(kernel) {
            continue;
        }
        let code = merged.code(graph, kernel);
        let function = merged.function(graph, kernel);
        let name = merged.draft.symbols[function].name;
        let name = merged.draft.names.prefixed(b".nv.shared.", name);
        // All jump slots share one section of code.
        let exists = |&id: &SectionId| {
            let section = &merged.draft.sections[id];
            section.kind == SectionKind::Shared && section.owner == code && section.name == name
        };
        if merged.draft.category_of(SectionKind::Shared).iter().any(exists) {
            continue;
        }
        let flags = shf::WRITE | shf::ALLOC | shf::INFO_LINK;
        let section = merged.draft.add_section(name, SectionKind::Shared, flags, 1);
        merged.draft.sections[section].owner = code;
        late.insert(section, place);
    }
    late
}

/// What entries need besides the layout.
#[derive(Clone, Copy)]
struct EntryNeeds<'a> {
    /// The alignment of each entry's section.
    aligns: &'a [u64],
    /// The entries in the order in which their sections are created.
    order: &'a [EntryNumber],
    /// The alignment of the variables that a kernel of a whole program has for itself, by its code.
    whole: &'a HashMap<SectionId, u64>,
}

/// Sets sizes and alignments of the shared sections, and drops those that do not exist. Returns the
/// section of each entry.
fn apply(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    layout: &SharedLayout,
    EntryNeeds { aligns, order, whole }: EntryNeeds<'_>,
    shape: PoolShape,
    options: &LinkOptions,
) -> Vec<Option<SectionId>> {
    let by_owner = entries_by_code(merged, graph);
    let reserved = options.target.reserved_shared;
    let late = add_missing(merged, graph, layout, aligns, order);
    let mut own = vec![None; aligns.len()];
    for id in merged.draft.category_of(SectionKind::Shared).to_vec() {
        let section = &mut merged.draft.sections[id];
        match section.kind {
            SectionKind::Shared => {
                let owner = || section.owner.and_then(|owner| by_owner.get(&owner));
                let entry = late.get(&id).or_else(owner).copied();
                if let Some(entry) = entry {
                    own[entry] = Some(id);
                }
                // The section of a kernel in a whole program stays, even if it is empty, and so
                // does the section of a function that is not a kernel.
                let whole = section.owner.and_then(|owner| whole.get(&owner)).copied();
                let unused = (0, whole.unwrap_or(1));
                let (size, own_align) = entry.map_or(unused, |e| (layout.sizes[e], aligns[e]));
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
                let stays = whole.is_some();
                section.size = match options.target.flavour {
                    Flavour::Mercury if stays => end,
                    _ if keep => end,
                    _ => 0,
                };
                section.dropped = !(keep || stays);
            }
            SectionKind::ReservedShared => {
                section.mercury_size = section.size;
                section.size += system_shared(options.target.flavour);
            }
            SectionKind::PoolShared => {
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
