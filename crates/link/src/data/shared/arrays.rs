//! Where arrays without size start (`extern __shared__`): behind all other variables of the kernels
//! that use them.
//!
//! In: the layout of everything else. Out: the start of the arrays for each function, or with `-g`
//! for each array, and what the kernels have in front of them.
//!
//! A function has one address for its arrays, so all entries that reach it have them at one place.
//! Such entries are a *group*; rules in docs/LINKING.md, layout, and docs/DIALECTS.md, arrays
//! without size.

use hashbrown::HashMap;

use super::{KernelNumber, PoolShape, SharedBuilder};
use crate::base::id::{IdVec, NodeId, SharedId};
use crate::draft::merged::MergeResult;
use crate::options::LinkOptions;

/// The alignment of an array of which an object records none.
const USUAL_ALIGN: u64 = 16;

/// Adds the name of a symbol that stands for arrays without size, and is in no program. Only
/// releases with one list of names keep it.
pub(super) fn name_instance(merged: &mut MergeResult<'_>, options: &LinkOptions) {
    if !options.for_debugger() {
        let name = merged.draft.names.intern(b"externsharedinstance");
        merged.draft.add_lost_name(name);
    }
}

/// A function that refers to arrays without size.
struct ArrayReference {
    function: NodeId,
    /// The array of its first record about one.
    array: SharedId,
    /// The entries that reach the function, ascending.
    users: Vec<KernelNumber>,
}

impl SharedBuilder<'_, '_> {
    /// The alignment of an array without size. Objects before CUDA 13.1 do not record one.
    pub(super) fn extern_align(&self, array: SharedId) -> u64 {
        let counts = self.merged.draft.dialect.aligns_dynamic_shared;
        let allocation = self.variables[array].unsized_allocation.filter(|_| counts);
        allocation.map_or(USUAL_ALIGN, |id| self.allocations[id].align.max(USUAL_ALIGN))
    }

    /// Functions that refer to arrays, in the order of their first record about one.
    fn array_references(&self) -> Vec<ArrayReference> {
        let mut wanted = IdVec::filled(false, self.graph.nodes.len());
        self.extern_functions.keys().for_each(|&node| wanted[node] = true);
        let mut users: HashMap<NodeId, Vec<KernelNumber>> = HashMap::new();
        for (entry, nodes) in self.graph.reached_by_kernels(&wanted).into_iter().enumerate() {
            nodes.into_iter().for_each(|node| users.entry(node).or_default().push(entry));
        }
        let mut functions: Vec<_> = self.extern_functions.iter().collect();
        functions.sort_unstable_by_key(|(_, first)| first.number);
        let references = functions.into_iter().filter_map(|(&function, first)| {
            let users = users.remove(&function)?;
            Some(ArrayReference { function, array: first.array, users })
        });
        references.collect()
    }

    /// Places the arrays by function. The first record about an array that some entries reach makes
    /// them a group with the alignment of that array. Entries of several groups that reach one
    /// function make them one, with the alignment of the group that was made last (cases
    /// shared/dynamic-aligned, shared/dynamic-first-named, shared/dynamic-groups).
    pub(super) fn place_arrays(&mut self) {
        self.layout.is_dynamic = vec![false; self.layout.sizes.len()];
        if self.extern_functions.is_empty() {
            return;
        }
        let references = self.array_references();
        let mut groups = EntryGroups::new(self.layout.sizes.len());
        for reference in &references {
            groups.join(&reference.users, self.extern_align(reference.array));
        }
        let mut ends: HashMap<KernelNumber, u64> = HashMap::new();
        for &entry in references.iter().flat_map(|reference| &reference.users) {
            let end = ends.entry(groups.find(entry)).or_default();
            *end = self.layout.sizes[entry].max(*end);
            self.layout.is_dynamic[entry] = true;
        }
        let starts: HashMap<KernelNumber, u64> = ends
            .iter()
            .map(|(&group, end)| (group, end.next_multiple_of(groups.align(group))))
            .collect();
        // Since CUDA 13.1 a section's own alignment decides where it ends.
        let counts = self.merged.draft.dialect.aligns_dynamic_shared;
        let sizes = if counts { &ends } else { &starts };
        for ArrayReference { function, users, .. } in &references {
            self.layout.extern_starts.insert(*function, starts[&groups.find(users[0])]);
            for &entry in users {
                self.layout.sizes[entry] = sizes[&groups.find(entry)];
            }
        }
    }

    /// Places the arrays for a debugger. A symbol has one value, so entries that use one array have
    /// all their arrays at one place, behind the largest of them, at a multiple of the alignments
    /// of all their sections (cases debug/extern-groups-g, shared/dynamic-with-g).
    pub(super) fn place_arrays_for_debugger(&mut self, aligns: &[u64], shape: &PoolShape) {
        let counts = self.merged.draft.dialect.aligns_dynamic_shared;
        let align = |entry: KernelNumber| match counts {
            true => shape.section_align(aligns[entry]),
            false => USUAL_ALIGN,
        };
        let is_extern = &self.layout.is_extern;
        let arrays =
            || self.users.values().zip(is_extern.values()).filter(|(_, is_extern)| **is_extern);
        let mut is_dynamic = vec![false; self.layout.sizes.len()];
        let mut groups = EntryGroups::new(is_dynamic.len());
        for (users, _) in arrays().filter(|(users, _)| !users.is_empty()) {
            users.iter().for_each(|&entry| is_dynamic[entry] = true);
            groups.join(users, 1);
        }
        let mut starts: HashMap<KernelNumber, (u64, u64)> = HashMap::new();
        let dynamic = || (0..is_dynamic.len()).filter(|&entry| is_dynamic[entry]);
        for entry in dynamic() {
            let (end, wide) = starts.entry(groups.find(entry)).or_insert((0, 1));
            (*end, *wide) = (self.layout.sizes[entry].max(*end), align(entry).max(*wide));
        }
        let start = |groups: &mut EntryGroups, entry: KernelNumber| {
            let (end, align) = starts[&groups.find(entry)];
            end.next_multiple_of(align)
        };
        for entry in dynamic() {
            self.layout.sizes[entry] = start(&mut groups, entry);
        }
        let value = |users: &Vec<KernelNumber>| users.first().map(|&e| self.layout.sizes[e]);
        let values = self
            .users
            .values()
            .zip(is_extern.values())
            .map(|(users, is_extern)| value(users).filter(|_| *is_extern).unwrap_or(0));
        self.layout.extern_values = Some(values.collect());
        self.layout.is_dynamic = is_dynamic;
    }
}

/// Groups of entries.
struct EntryGroups {
    parent: Vec<KernelNumber>,
    /// By group: the number of its making, counted from 1, and its alignment. The number is 0 for
    /// an entry that is in no group.
    made: Vec<(usize, u64)>,
    count: usize,
}

impl EntryGroups {
    fn new(entries: usize) -> Self {
        EntryGroups { parent: (0..entries).collect(), made: vec![(0, 1); entries], count: 0 }
    }

    /// The group of an entry.
    fn find(&mut self, mut entry: KernelNumber) -> KernelNumber {
        while self.parent[entry] != entry {
            self.parent[entry] = self.parent[self.parent[entry]];
            entry = self.parent[entry];
        }
        entry
    }

    /// The alignment of a group.
    fn align(&self, group: KernelNumber) -> u64 {
        self.made[group].1
    }

    /// Makes one group of `users` and of all groups that they are in. The group that was made last
    /// takes in the others and keeps its alignment. If none of `users` is in a group, the new group
    /// has `align`.
    fn join(&mut self, users: &[KernelNumber], align: u64) {
        let roots: Vec<KernelNumber> = users.iter().map(|&user| self.find(user)).collect();
        let newest = roots.iter().map(|&root| self.made[root]).max().unwrap_or_default();
        let kept = if newest.0 == 0 {
            self.count += 1;
            (self.count, align)
        } else {
            newest
        };
        let Some(&first) = roots.iter().min() else { return };
        for root in roots {
            self.parent[root] = first;
        }
        self.made[first] = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_group_takes_in_the_others() {
        let mut groups = EntryGroups::new(5);
        groups.join(&[0, 1], 128);
        groups.join(&[3], 32);
        groups.join(&[1, 2], 64);
        let (first, second) = (groups.find(2), groups.find(3));
        assert_eq!((groups.align(first), groups.align(second)), (128, 32));
        groups.join(&[2, 3], 256);
        let one = groups.find(0);
        assert_eq!(groups.align(one), 32);
        assert!([1, 2, 3].into_iter().all(|entry| groups.find(entry) == one));
        assert_ne!(groups.find(4), one);
    }
}
