//! Shared memory without a symbol, for which nvlink uses symbol 0.
//!
//! In: the layout. Out: the value of symbol 0. As for a variable that keeps its symbol, that is the
//! place of the last piece, plus the size of the reserved part once for each piece that was placed.

use std::cmp::Reverse;

use culd_cubin::arch::{Arch, Flavour};

use super::{EntryNumber, SharedBuilder, SharedLayout};
use crate::draft::merged::SharedVariables;

impl SharedBuilder<'_, '_> {
    /// The number of pieces in which nvlink's objects have no variable, and the offset of the piece
    /// that was placed last, in the first entry that has one. Pieces of whole programs count for
    /// the offset only (cases shared/dynamic-in-steps and whole-program/weak by 13.5).
    pub(super) fn last_bare(&self) -> Option<(u64, u64)> {
        let is_bare = |group: u32| self.groups[group as usize].bare;
        let first = |group: u32| self.users[group as usize].first().copied();
        let all = self.nodes.iter().filter(|node| node.laid_out || is_bare(node.group));
        let places = all.filter_map(|node| {
            let offset = self.layout.offsets[node.group as usize];
            Some((Reverse(first(node.group)?), offset))
        });
        let bare = self.groups.iter().zip(&self.users);
        let count = bare.filter(|(group, users)| group.bare && !users.is_empty()).count() as u64;
        let (_, last) = places.max()?;
        (count > 0).then_some((count, last))
    }
}

/// The shared memory without symbols of a program.
pub(super) struct UnnamedMemory<'a> {
    pub(super) variables: &'a SharedVariables,
    /// By variable.
    pub(super) users: &'a [Vec<EntryNumber>],
    /// See [`SharedBuilder::last_bare`].
    pub(super) last_bare: Option<(u64, u64)>,
}

impl UnnamedMemory<'_> {
    /// The value of symbol 0, if there is any such memory. Pieces of whole programs count beside
    /// those of nvlink's objects (cases whole-program/helpers and whole-program/weak by 13.5, an
    /// object and a compiled file).
    pub(super) fn value(&self, layout: &SharedLayout, target: &Arch) -> Option<u64> {
        let classic = target.flavour == Flavour::Classic;
        let reserved = if classic { target.reserved_shared } else { 0 };
        let whole: Vec<_> = self.variables.nodes.iter().filter(|node| node.laid_out).collect();
        if whole.is_empty() || !classic {
            return self.last_bare.map(|(bare, last)| reserved * bare + last);
        }
        let bare = self.last_bare.map_or(0, |(bare, _)| bare);
        let users = whole.iter().filter_map(|node| self.users[node.group as usize].first());
        let placed = users.filter(|&&entry| layout.sizes[entry] > 0).count() as u64;
        // Beside variables that ptxas has placed it is 0 (case whole-program/placed).
        let symbols = self.variables.nodes.iter().any(|node| node.place.is_some());
        let last = match self.last_bare {
            _ if symbols => 0,
            Some((_, last)) => last,
            None => layout.last_unnamed,
        };
        Some(reserved * (placed + bare) + last)
    }
}
