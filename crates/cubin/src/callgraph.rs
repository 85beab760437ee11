//! `.nv.callgraph` and `.nv.prototype`: who calls whom, and with which signature.
//!
//! In: the bytes of the section. Out: [`Edge`]s. A call-graph section consists of pairs of 32-bit
//! words. A pair whose first word is 0 opens a list, and its second word says which one: -1 direct
//! calls, -2 functions whose address is taken, -3 functions that make indirect calls, -4 functions
//! that name the address of a certain function. A prototype section is (symbol, string) pairs.

use crate::cubin::{Section, SymbolIndex};
use crate::error::Malformed;
use crate::read;

/// One record of a call graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// `caller` calls `callee` directly (list -1).
    Call {
        /// The calling function.
        caller: SymbolIndex,
        /// The called function.
        callee: SymbolIndex,
    },
    /// The address of `function` is taken; `prototype` is its signature (list -2).
    AddressTaken {
        /// The function.
        function: SymbolIndex,
        /// Offset in the string table, bytes.
        prototype: u32,
    },
    /// `function` calls something with the signature `prototype` through a pointer (list -3).
    IndirectCall {
        /// The calling function.
        function: SymbolIndex,
        /// Offset in the string table, bytes.
        prototype: u32,
    },
    /// `function` names the address of `known` (list -4).
    Reference {
        /// The function that names it.
        function: SymbolIndex,
        /// The function named.
        known: SymbolIndex,
    },
}

/// The second words of list headers.
pub const LISTS: [i32; 4] = [-1, -2, -3, -4];

/// The records of call-graph section `section`, in file order, each with its offset in bytes.
pub fn edges<'d>(section: &Section<'d>) -> Edges<'d> {
    let (pairs, _) = section.data.as_chunks();
    Edges { section: section.name, pairs: pairs.iter(), at: 0, list: 0 }
}

/// See [`edges`].
#[derive(Debug, Clone)]
pub struct Edges<'d> {
    section: &'d [u8],
    pairs: std::slice::Iter<'d, [u8; 8]>,
    /// Offset of the next pair.
    at: u64,
    /// The second word of the last header.
    list: i32,
}

impl Edges<'_> {
    fn unknown_list(&self, at: u64) -> Malformed {
        Malformed::section(self.section, at, format!("unknown call-graph list {}", self.list))
    }

    fn no_list(&self, at: u64) -> Malformed {
        Malformed::section(self.section, at, "call-graph record before the first list")
    }
}

impl Iterator for Edges<'_> {
    type Item = Result<(u64, Edge), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (first, second) = read::pair(self.pairs.next()?);
            let at = self.at;
            self.at += 8;
            if first == 0 {
                self.list = second as i32;
                if LISTS.contains(&self.list) {
                    continue;
                }
                return Some(Err(self.unknown_list(at)));
            }
            let function = SymbolIndex(first);
            let edge = match self.list {
                -1 => Edge::Call { caller: function, callee: SymbolIndex(second) },
                -2 => Edge::AddressTaken { function, prototype: second },
                -3 => Edge::IndirectCall { function, prototype: second },
                -4 => Edge::Reference { function, known: SymbolIndex(second) },
                _ => return Some(Err(self.no_list(at))),
            };
            return Some(Ok((at, edge)));
        }
    }
}

/// The (function, string offset in bytes) pairs of prototype section `section`, in file order.
pub fn prototypes<'d>(section: &Section<'d>) -> impl Iterator<Item = (SymbolIndex, u32)> + use<'d> {
    read::pairs(section.data).map(|(function, prototype)| (SymbolIndex(function), prototype))
}
