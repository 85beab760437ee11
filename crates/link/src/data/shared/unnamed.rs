//! Shared memory without a symbol, for which nvlink uses symbol 0.
//!
//! In: the layout. Out: the value of symbol 0. As for a variable that keeps its symbol, that is the
//! offset of the last allocation, plus the size of the reserved part once for each allocation that
//! was placed.

use std::cmp::Reverse;

use culd_cubin::arch::{Arch, Flavour};

use super::{KernelNumber, SharedBuilder, SharedLayout};
use crate::base::id::{IdVec, SharedId};
use crate::draft::merged::{AllocationKind, SharedVariables};

impl SharedBuilder<'_, '_> {
    /// Counts the [`AllocationKind::Unnamed`] that a kernel uses, and finds the offset of the last
    /// one; `None` if there is none. Sections of whole programs count for the offset only (cases
    /// shared/dynamic-in-steps and whole-program/weak by 13.5).
    pub(super) fn unnamed_allocations(&self) -> Option<UnnamedAllocations> {
        let allocations = self.allocations.values();
        let without_symbol =
            allocations.filter(|allocation| allocation.kind != AllocationKind::Variable);
        let (mut count, mut last) = (0, None);
        for allocation in without_symbol {
            let Some(&first_user) = self.users[allocation.variable].first() else { continue };
            count += u64::from(allocation.kind == AllocationKind::Unnamed);
            let offset = self.layout.offsets[allocation.variable];
            last = last.max(Some((Reverse(first_user), offset)));
        }
        let (_, last_offset) = last?;
        (count > 0).then_some(UnnamedAllocations { count, last_offset })
    }
}

/// Shared memory for which an object of nvlink has no symbol.
#[derive(Clone, Copy)]
pub(super) struct UnnamedAllocations {
    count: u64,
    /// The largest offset in the first kernel that has such memory, bytes.
    last_offset: u64,
}

/// The shared memory without symbols of a program.
pub(super) struct UnnamedMemory<'a> {
    pub(super) variables: &'a SharedVariables,
    pub(super) users: &'a IdVec<SharedId, Vec<KernelNumber>>,
    pub(super) of_objects: Option<UnnamedAllocations>,
}

impl UnnamedMemory<'_> {
    /// The value of symbol 0, if there is any such memory. Sections of whole programs count in
    /// addition to memory of nvlink's objects (cases whole-program/helpers and whole-program/weak
    /// by 13.5, an object and a compiled file).
    pub(super) fn value(&self, layout: &SharedLayout, target: &Arch) -> Option<u64> {
        let classic = target.flavour == Flavour::Classic;
        let reserved = if classic { target.reserved_shared } else { 0 };
        let allocations = || self.variables.allocations.values();
        let whole = || allocations().filter(|a| a.kind == AllocationKind::WholeProgram);
        if whole().next().is_none() || !classic {
            return self.of_objects.map(|of| reserved * of.count + of.last_offset);
        }
        let count_of_objects = self.of_objects.map_or(0, |of| of.count);
        let users = whole().filter_map(|allocation| self.users[allocation.variable].first());
        let placed = users.filter(|&&entry| layout.sizes[entry] > 0).count() as u64;
        // 0 if ptxas has placed variables with symbols, too (case whole-program/placed).
        let any_fixed = allocations().any(|allocation| allocation.fixed_offset.is_some());
        let last_offset = match self.of_objects {
            _ if any_fixed => 0,
            Some(of) => of.last_offset,
            None => layout.last_of_whole_program,
        };
        Some(reserved * (placed + count_of_objects) + last_offset)
    }
}
