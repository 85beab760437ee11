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

use crate::base::id::{AllocationId, IdVec, NameId, NodeId, SectionId, SharedId};
use crate::base::sort::list_sort;
use crate::callgraph::CallGraph;
use crate::draft::merged::{
    AllocationKind, MergeResult, SharedAllocation, SharedVariable, SharedVariables,
};
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;
use crate::symbols::shared_uses::each_reference;

pub(crate) use object::keep;
use sections::{EntryNeeds, PoolShape, size_sections};
use unnamed::UnnamedMemory;

/// The address of a variable without a place, as nvlink writes it (cases debug/dynamic-shared*).
const NOWHERE: u64 = u64::MAX;

/// Addresses of shared variables.
#[derive(Default)]
pub(crate) struct SharedLayout {
    /// Offset by variable, bytes; that of its allocation that was placed last.
    offsets: IdVec<SharedId, u64>,
    /// Number of allocations by variable: one for each definition.
    placements: IdVec<SharedId, u64>,
    /// By variable: it is an array without size.
    is_extern: IdVec<SharedId, bool>,
    /// By entry: it reaches an array without size.
    is_dynamic: Vec<bool>,
    /// Start of extern arrays by function that refers to one.
    extern_starts: HashMap<NodeId, u64>,
    /// With `-g`: the start of each extern array for all functions, since a symbol has one value; 0
    /// for an array that no entry uses.
    extern_values: Option<IdVec<SharedId, u64>>,
    /// End of the variables with several users, bytes.
    pool_end: u64,
    /// Bytes of shared memory by kernel, in the order of [`CallGraph::kernels`].
    pub(crate) sizes: Vec<u64>,
    /// By kernel: it uses a variable that is no `extern` array.
    filled: Vec<bool>,
    /// Users of each variable, ascending.
    users: IdVec<SharedId, Vec<KernelNumber>>,
    /// Variables of the pool that kernels of whole programs use.
    pub(crate) clashes: Vec<SharedClash>,
    /// The offset of the last [`AllocationKind::WholeProgram`], bytes.
    last_of_whole_program: u64,
}

/// A variable of the pool, and a kernel of a whole program that uses it.
pub(crate) struct SharedClash {
    pub(crate) variable: SharedId,
    pub(crate) kernel: KernelNumber,
}

impl SharedLayout {
    fn new(variables: &SharedVariables, kernels: usize) -> Self {
        let count = variables.variables.len();
        let is_extern = |variable: &SharedVariable| !variable.defined && variable.size == 0;
        SharedLayout {
            offsets: IdVec::filled(NOWHERE, count),
            placements: IdVec::filled(0, count),
            is_extern: variables.variables.values().map(is_extern).collect(),
            sizes: vec![0; kernels],
            ..SharedLayout::default()
        }
    }

    fn put(&mut self, allocation: &SharedAllocation, offset: u64) {
        self.offsets[allocation.variable] = offset;
        self.placements[allocation.variable] += 1;
        if allocation.kind == AllocationKind::WholeProgram {
            self.last_of_whole_program = offset;
        }
    }

    /// True if `variable` is an array without size that `function` refers to, so that its start is
    /// known.
    pub(crate) fn is_extern_of(&self, variable: SharedId, function: Option<NodeId>) -> bool {
        let known = function.is_some_and(|node| self.extern_starts.contains_key(&node));
        self.is_extern[variable] && self.extern_values.is_none() && known
    }

    /// True if `kernel` reaches an array without size. In an object (`-r`) that is not known.
    pub(crate) fn is_dynamic(&self, kernel: KernelNumber) -> bool {
        self.is_dynamic.get(kernel).copied().unwrap_or(false)
    }

    /// True if some variable has several users.
    pub(crate) fn has_pool(&self) -> bool {
        self.pool_end != 0
    }

    /// True if `kernel` uses `variable`.
    pub(crate) fn uses(&self, kernel: KernelNumber, variable: SharedId) -> bool {
        self.users[variable].binary_search(&kernel).is_ok()
    }

    /// The address of `variable` in the code of `function`; -1 for a variable that no entry uses.
    pub(crate) fn address(&self, variable: SharedId, function: Option<NodeId>) -> u64 {
        if self.is_extern[variable] {
            let own = || function.and_then(|node| self.extern_starts.get(&node)).copied();
            let value = self.extern_values.as_ref().map(|values| values[variable]);
            value.or_else(own).unwrap_or(NOWHERE)
        } else {
            self.offsets[variable]
        }
    }
}

/// The place of a kernel in [`CallGraph::kernels`].
type KernelNumber = usize;

/// Which functions refer to which variables: nvlink creates late kernels' sections in this order.
struct LateKernels {
    /// By variable: functions whose code refers to it, in the order of the records, with
    /// repetitions.
    referrers: IdVec<SharedId, Vec<NodeId>>,
    /// By such a function: the entries that reach it, ascending.
    users: HashMap<NodeId, Vec<KernelNumber>>,
}

/// A function's first record about an array without size.
struct FirstArrayRecord {
    /// Number of the record among the first records of all functions.
    number: usize,
    array: SharedId,
}

/// The state of the layout.
struct SharedBuilder<'a, 'd> {
    graph: &'a CallGraph,
    allocations: &'a IdVec<AllocationId, SharedAllocation>,
    variables: &'a IdVec<SharedId, SharedVariable>,
    merged: &'a MergeResult<'d>,
    /// By variable: code of an accepted copy refers to it, dead code included.
    referenced: IdVec<SharedId, bool>,
    /// Entries that use a variable, ascending.
    users: IdVec<SharedId, Vec<KernelNumber>>,
    /// Only in programs with kernels whose sections are created late, see `add_missing` in
    /// `sections.rs`.
    late: Option<LateKernels>,
    /// Functions that refer to an array without size.
    extern_functions: HashMap<NodeId, FirstArrayRecord>,
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
    let mut builder = SharedBuilder::new(graph, &variables, merged);
    builder.find_users(objects, symbols);
    let pool = builder.pool_order();
    builder.remove_clashes(&pool, objects, symbols);
    let multi = builder.multi_user(&pool);
    builder.colour(&multi);
    builder.per_entry(&pool);
    builder.layout.filled = builder.layout.sizes.iter().map(|&size| size > 0).collect();
    let aligns = builder.entry_aligns();
    let shape = PoolShape::of(&variables, &builder);
    let unnamed = builder.unnamed_allocations();
    if options.for_debugger() {
        builder.place_arrays_for_debugger(&aligns, &shape);
    } else {
        builder.place_arrays();
    }
    let order = builder.by_first_use(&pool);
    let SharedBuilder { mut layout, users, referenced, .. } = builder;
    reserved::place(merged);
    let whole = whole_program_aligns(&variables);
    let helpers = helper_sections(merged, &variables, options);
    let needs = EntryNeeds { aligns: &aligns, order: &order, whole: &whole, helpers: &helpers };
    let own = size_sections(merged, graph, &layout, needs, shape, options);
    let unnamed = UnnamedMemory { variables: &variables, users: &users, of_objects: unnamed };
    merged.draft.null_value = unnamed.value(&layout, options.target).or(merged.draft.null_value);
    if options.keeps_shared_symbols() {
        symbols::place(merged, &own, &layout, &variables, &users, &referenced, options);
    }
    if layout.is_dynamic.contains(&true) {
        arrays::name_instance(merged, options);
    }
    merged.shared = variables;
    layout.users = users;
    layout
}

/// The largest alignment of the sections that a kernel of a whole program has, by its code.
fn whole_program_aligns(variables: &SharedVariables) -> HashMap<SectionId, u64> {
    let mut aligns: HashMap<SectionId, u64> = HashMap::new();
    for allocation in variables.allocations.values() {
        if let (AllocationKind::WholeProgram, Some(code)) =
            (allocation.kind, allocation.kernel_code)
        {
            let align = aligns.entry(code).or_default();
            *align = allocation.align.max(*align);
        }
    }
    aligns
}

/// Size and alignment of shared memory without a variable.
#[derive(Clone, Copy, Default)]
struct HelperSection {
    /// Bytes.
    size: u64,
    /// Bytes.
    align: u64,
}

/// The shared sections without a variable in objects, by the name of their code: local functions of
/// one name share a section. If the code is no kernel's but a helper's of ptxas, they stay (case
/// whole-program/helpers by 13.5, an object of either linker).
fn helper_sections(
    merged: &MergeResult<'_>,
    variables: &SharedVariables,
    options: &LinkOptions,
) -> HashMap<NameId, HelperSection> {
    let whole_program_counts = options.dialect.counts_unnamed_shared;
    let mut sections: HashMap<NameId, HelperSection> = HashMap::new();
    for allocation in variables.allocations.values() {
        let has_no_variable = match allocation.kind {
            AllocationKind::Variable => false,
            AllocationKind::Unnamed => true,
            AllocationKind::WholeProgram => whole_program_counts,
        };
        if let Some(code) = allocation.kernel_code.filter(|_| has_no_variable) {
            let section = sections.entry(merged.draft.sections[code].name).or_default();
            section.size = allocation.size.max(section.size);
            section.align = allocation.align.max(section.align);
        }
    }
    sections
}

/// Places `members` from `start` on, sorted by alignment, then size; returns their end, bytes.
/// Those that ptxas has placed come first and stay there, in front of the section that has them
/// already (case whole-program/placed).
fn place(
    allocations: &IdVec<AllocationId, SharedAllocation>,
    members: &[AllocationId],
    start: u64,
    mut put: impl FnMut(&SharedAllocation, u64),
) -> u64 {
    let key = |id: AllocationId| (Reverse(allocations[id].align), allocations[id].size);
    let (fixed, members): (Vec<_>, Vec<_>) =
        members.iter().copied().partition(|&id| allocations[id].fixed_offset.is_some());
    let mut end = start;
    for allocation in fixed.into_iter().map(|id| &allocations[id]) {
        if let Some(offset) = allocation.fixed_offset {
            put(allocation, offset);
            end = end.max(offset + allocation.size);
        }
    }
    for id in list_sort(&members, &|a, b| key(a) <= key(b)) {
        let allocation = &allocations[id];
        let offset = end.next_multiple_of(allocation.align);
        put(allocation, offset);
        end = offset + allocation.size;
    }
    end
}

/// Entry numbers by code section.
fn entries_by_code(
    merged: &MergeResult<'_>,
    graph: &CallGraph,
) -> HashMap<SectionId, KernelNumber> {
    let entries = graph.kernels().iter().enumerate();
    entries.filter_map(|(number, &entry)| Some((merged.code(graph, entry)?, number))).collect()
}

impl<'a, 'd> SharedBuilder<'a, 'd> {
    fn new(
        graph: &'a CallGraph,
        variables: &'a SharedVariables,
        merged: &'a MergeResult<'d>,
    ) -> Self {
        let count = variables.variables.len();
        let may_be_late = graph.kernels().iter().any(|&kernel| !graph.is_known_entry(kernel));
        let late =
            || LateKernels { referrers: IdVec::filled(Vec::new(), count), users: HashMap::new() };
        SharedBuilder {
            graph,
            allocations: &variables.allocations,
            variables: &variables.variables,
            merged,
            referenced: IdVec::filled(false, count),
            users: IdVec::filled(Vec::new(), count),
            late: may_be_late.then(late),
            extern_functions: HashMap::new(),
            layout: SharedLayout::new(variables, graph.kernels().len()),
        }
    }

    /// The users of an allocation's variable.
    fn users_of(&self, id: AllocationId) -> &[KernelNumber] {
        &self.users[self.allocations[id].variable]
    }

    /// Finds which functions refer to which pool variables, and which entries reach these
    /// functions.
    fn find_users(&mut self, objects: &InputObjects<'_>, symbols: &Symbols) {
        if self.allocations.len() == 0 {
            return;
        }
        let mut uses: IdVec<NodeId, Vec<SharedId>> =
            IdVec::filled(Vec::new(), self.graph.nodes.len());
        each_reference(objects, symbols, |function, variable| {
            let out = self.merged.out_symbol(variable);
            let Some(variable) = out.and_then(|out| self.merged.draft.symbols[out].shared) else {
                return;
            };
            self.referenced[variable] = true;
            if let Some(node) = self.graph.node(function) {
                uses[node].push(variable);
                if self.layout.is_extern[variable] {
                    let number = self.extern_functions.len();
                    let first = FirstArrayRecord { number, array: variable };
                    self.extern_functions.entry(node).or_insert(first);
                }
                if let Some(late) = &mut self.late {
                    let referrers = &mut late.referrers[variable];
                    if referrers.last() != Some(&node) {
                        referrers.push(node);
                    }
                }
            }
        });
        self.collect_users(&uses);
    }

    /// Finds the entries that reach the functions that use a variable. The own variables of a
    /// kernel have that kernel as their only user.
    fn collect_users(&mut self, uses: &IdVec<NodeId, Vec<SharedId>>) {
        let wanted = uses.values().map(|list| !list.is_empty()).collect();
        let reached = self.graph.reached_by_kernels(&wanted);
        for (entry, nodes) in reached.into_iter().enumerate() {
            for node in nodes {
                if let Some(late) = &mut self.late {
                    late.users.entry(node).or_default().push(entry);
                }
                for &variable in &uses[node] {
                    let users = &mut self.users[variable];
                    if users.last() != Some(&entry) {
                        users.push(entry);
                    }
                }
            }
        }
        let entry_of_code = entries_by_code(self.merged, self.graph);
        for allocation in self.allocations.values() {
            if let Some(code) = allocation.kernel_code {
                let users = entry_of_code.get(&code).copied().into_iter().collect();
                self.users[allocation.variable] = users;
            }
        }
    }

    /// All pool variables by size, the largest first.
    fn pool_order(&self) -> Vec<AllocationId> {
        let pool = self.allocations.iter().filter(|(_, allocation)| allocation.is_pool());
        let pool: Vec<AllocationId> = pool.map(|(id, _)| id).collect();
        list_sort(&pool, &|a, b| self.allocations[a].size > self.allocations[b].size)
    }

    /// The users of pool variables in the order of their late sections; empty without late kernels.
    /// Variables with one user come first, then the others, both in pool order. Within a variable:
    /// by the functions that refer to it; within a function: the last entry first (cases
    /// unified/shared-*, selection/late-shared-order, selection/late-shared-callers).
    fn by_first_use(&self, pool: &[AllocationId]) -> Vec<KernelNumber> {
        let Some(late) = &self.late else { return Vec::new() };
        let mut seen = vec![false; self.layout.sizes.len()];
        let single = |id: &&AllocationId| self.users_of(**id).len() == 1;
        let several = |id: &&AllocationId| !single(id);
        let ids = pool.iter().filter(single).chain(pool.iter().filter(several));
        let functions = ids.flat_map(|&id| &late.referrers[self.allocations[id].variable]);
        let users =
            functions.flat_map(|function| late.users.get(function).into_iter().flatten().rev());
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
        pool: &[AllocationId],
        objects: &InputObjects<'_>,
        symbols: &Symbols,
    ) -> Vec<SharedClash> {
        let placed = self.allocations.values().filter(|allocation| {
            allocation.kind == AllocationKind::WholeProgram && allocation.size > 0
        });
        let placed: HashSet<KernelNumber> =
            placed.flat_map(|allocation| self.users[allocation.variable].iter().copied()).collect();
        if !objects.has_extensible() && placed.is_empty() {
            return Vec::new();
        }
        let is_whole = |entry: KernelNumber, &kernel: &NodeId| {
            let definition = symbols.all[self.graph.nodes[kernel]].definition;
            definition.is_some_and(|site| objects[site.object].is_extensible())
                || placed.contains(&entry)
        };
        // Functions that refer to a variable, once for each record.
        let mut referrers: HashMap<SharedId, Vec<NodeId>> = HashMap::new();
        let mut wanted = IdVec::filled(false, self.graph.nodes.len());
        each_reference(objects, symbols, |function, variable| {
            let out = self.merged.out_symbol(variable);
            let variable = out.and_then(|out| self.merged.draft.symbols[out].shared);
            if let (Some(node), Some(variable)) = (self.graph.node(function), variable) {
                referrers.entry(variable).or_default().push(node);
                wanted[node] = true;
            }
        });
        let mut users: HashMap<NodeId, Vec<KernelNumber>> = HashMap::new();
        for (entry, nodes) in self.graph.reached_by_kernels(&wanted).into_iter().enumerate().rev() {
            if is_whole(entry, &self.graph.kernels()[entry]) {
                nodes.into_iter().for_each(|node| users.entry(node).or_default().push(entry));
            }
        }
        let pool = pool.iter().map(|&id| &self.allocations[id]);
        let defined = pool.filter(|allocation| allocation.defined);
        let clashes_of = |variable: SharedId| {
            let functions = referrers.get(&variable).into_iter().flatten();
            let users = functions.flat_map(|node| users.get(node).into_iter().flatten());
            users.map(move |&kernel| SharedClash { variable, kernel }).collect::<Vec<_>>()
        };
        defined.flat_map(|allocation| clashes_of(allocation.variable)).collect()
    }

    /// Finds the [`SharedBuilder::clashes`]. The kernels no longer count as users.
    fn remove_clashes(
        &mut self,
        pool: &[AllocationId],
        objects: &InputObjects<'_>,
        symbols: &Symbols,
    ) {
        self.layout.clashes = self.clashes(pool, objects, symbols);
        for &SharedClash { variable, kernel } in &self.layout.clashes {
            self.users[variable].retain(|&user| user != kernel);
        }
    }

    /// Pool variables with several users, and those that only dead code refers to.
    fn multi_user(&self, pool: &[AllocationId]) -> Vec<AllocationId> {
        let multi = |&id: &AllocationId| {
            let allocation = &self.allocations[id];
            let users = self.users[allocation.variable].len();
            let referenced = self.referenced[allocation.variable];
            allocation.defined && (users > 1 || (users == 0 && referenced))
        };
        pool.iter().copied().filter(multi).collect()
    }

    /// Places variables by greedy colouring: each joins the first class in which no variable shares
    /// a user with it. All variables of a class start at one offset. Classes follow each other in
    /// memory.
    fn colour(&mut self, multi: &[AllocationId]) {
        let classes = self.colour_classes(multi);
        let mut cursor = 0u64;
        for class in classes {
            let members = || class.iter().map(|&id| &self.allocations[id]);
            let align = members().map(|allocation| allocation.align).max().unwrap_or(1);
            let size = members().map(|allocation| allocation.size).max().unwrap_or(0);
            cursor = cursor.next_multiple_of(align);
            for &id in &class {
                let allocation = &self.allocations[id];
                self.layout.put(allocation, cursor);
                let end = cursor + allocation.size;
                for &entry in &self.users[allocation.variable] {
                    let size = &mut self.layout.sizes[entry];
                    *size = end.max(*size);
                }
            }
            cursor += size;
        }
        self.layout.pool_end = cursor;
    }

    /// The classes of [`SharedBuilder::colour`].
    fn colour_classes(&self, multi: &[AllocationId]) -> Vec<Vec<AllocationId>> {
        let mut classes: Vec<Vec<AllocationId>> = Vec::new();
        // The classes of each entry as bits, so that 64 classes are tried at a time.
        let mut taken: Vec<Vec<u64>> = vec![Vec::new(); self.layout.sizes.len()];
        for &id in multi {
            let users = self.users_of(id);
            let class = first_free(&taken, users);
            if class == classes.len() {
                classes.push(Vec::new());
            }
            classes[class].push(id);
            for &entry in users {
                let bits = &mut taken[entry];
                bits.resize(bits.len().max(class / 64 + 1), 0);
                bits[class / 64] |= 1 << (class % 64);
            }
        }
        classes
    }

    /// Places the own and single-user variables of each entry, by alignment, then size.
    fn per_entry(&mut self, pool: &[AllocationId]) {
        let mut lists: Vec<Vec<AllocationId>> = vec![Vec::new(); self.layout.sizes.len()];
        let own = self.allocations.ids().filter(|&id| !self.allocations[id].is_pool());
        for id in own.chain(pool.iter().copied()) {
            if let (&[entry], true) = (self.users_of(id), self.allocations[id].defined) {
                lists[entry].push(id);
            }
        }
        for (entry, list) in lists.into_iter().enumerate() {
            let layout = &mut self.layout;
            let start = layout.sizes[entry];
            layout.sizes[entry] = place(self.allocations, &list, start, |allocation, offset| {
                layout.put(allocation, offset);
            });
        }
    }

    /// The alignment that each entry's own and single-user variables need.
    fn entry_aligns(&self) -> Vec<u64> {
        let mut aligns = vec![1u64; self.layout.sizes.len()];
        for allocation in self.allocations.values() {
            let users = &self.users[allocation.variable][..];
            if !allocation.defined {
                let align = self.extern_align(allocation.variable);
                users.iter().for_each(|&entry| aligns[entry] = aligns[entry].max(align));
            } else if let &[entry] = users {
                aligns[entry] = aligns[entry].max(allocation.align);
            }
        }
        aligns
    }
}

/// The lowest class that no entry of `users` has.
fn first_free(taken: &[Vec<u64>], users: &[KernelNumber]) -> usize {
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
