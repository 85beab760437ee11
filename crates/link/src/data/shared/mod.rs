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
mod object;
mod reserved;
mod sections;
mod symbols;
mod unnamed;

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use crate::base::id::{IdVec, NameId, NodeId, SectionId};
use crate::base::sort::list_sort;
use crate::callgraph::CallGraph;
use crate::draft::merged::{MergeResult, SharedGroup, SharedNode, SharedVariables};
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;
use crate::symbols::shared_uses::each_reference;

pub(crate) use object::keep;
use sections::{EntryNeeds, PoolShape, apply};
use unnamed::UnnamedMemory;

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
    /// The place of the last section of a whole program. Such sections have no symbols.
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
    let shape = PoolShape::of(&variables, &builder);
    let for_debugger = options.for_debugger();
    let last_bare = builder.last_bare();
    if for_debugger {
        builder.place_arrays_for_debugger(&aligns, &shape);
    } else {
        builder.place_arrays();
    }
    let order = builder.by_first_use(&pool);
    let SharedBuilder { mut layout, users, named, .. } = builder;
    reserved::place(merged);
    let mut whole: HashMap<SectionId, u64> = HashMap::new();
    for node in variables.nodes.iter().filter(|node| node.laid_out) {
        if let Some(code) = node.own {
            let align = whole.entry(code).or_default();
            *align = node.align.max(*align);
        }
    }
    let helpers = helper_sections(merged, &variables, options);
    let needs = EntryNeeds { aligns: &aligns, order: &order, whole: &whole, helpers: &helpers };
    let own = apply(merged, graph, &layout, needs, shape, options);
    let unnamed = UnnamedMemory { variables: &variables, users: &users, last_bare };
    merged.draft.null_value = unnamed.value(&layout, options.target).or(merged.draft.null_value);
    if options.keeps_shared_symbols() {
        symbols::place(merged, &own, &layout, &variables.nodes, &users, &named, options);
    }
    if layout.is_dynamic.contains(&true) {
        arrays::name_instance(merged, options);
    }
    merged.shared = variables;
    layout.users = users;
    layout
}

/// Size and alignment of shared sections without a variable in objects, by the name of their code:
/// local functions of one name share a section. If the code is no kernel's but a helper's of ptxas,
/// they stay (case whole-program/helpers by 13.5, an object of either linker).
fn helper_sections(
    merged: &MergeResult<'_>,
    variables: &SharedVariables,
    options: &LinkOptions,
) -> HashMap<NameId, (u64, u64)> {
    let counts = options.dialect.bare_shared_counts;
    let is_bare =
        |node: &&SharedNode| variables.groups[node.group as usize].bare || node.laid_out && counts;
    let mut sections: HashMap<NameId, (u64, u64)> = HashMap::new();
    for node in variables.nodes.iter().filter(is_bare) {
        if let Some(code) = node.own {
            let (size, align) = sections.entry(merged.draft.sections[code].name).or_default();
            (*size, *align) = (node.size.max(*size), node.align.max(*align));
        }
    }
    sections
}

/// Places variables from `start` on, sorted by alignment, then size; returns their end, bytes.
/// Those that ptxas has placed come first and stay there, in front of the section that has them
/// already (case whole-program/placed).
fn place(
    nodes: &[SharedNode],
    members: &[usize],
    start: u64,
    mut put: impl FnMut(usize, u64),
) -> u64 {
    let key = |node: usize| (Reverse(nodes[node].align), nodes[node].size);
    let (placed, members): (Vec<_>, Vec<_>) =
        members.iter().copied().partition(|&node| nodes[node].place.is_some());
    let mut end = start;
    for (node, offset) in placed.into_iter().filter_map(|node| Some((node, nodes[node].place?))) {
        put(node, offset);
        end = end.max(offset + nodes[node].size);
    }
    for node in list_sort(&members, &|a, b| key(a) <= key(b)) {
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
    /// where nvlink does not check any more (DIFFERENCES.md, whole-program-again). In the order of
    /// the pool; for each record that names the variable, the last kernel first (case
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
        // The classes of each entry as bits, so that 64 classes are tried at a time.
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
