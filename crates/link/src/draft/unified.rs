//! Unified functions and variables of all files, in reading order.

use culd_cubin::SymbolIndex;
use culd_cubin::unified::{Entry, UnifiedId, flag};

use crate::base::id::{ObjectId, OutSymbolId, SectionId};

/// The jump slot of a unified function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JumpSlot {
    pub(crate) object: ObjectId,
    /// The function of the slot, in the file and in the output.
    pub(crate) function: SymbolIndex,
    pub(crate) stub: OutSymbolId,
    /// Offset in the section of all slots, bytes.
    pub(crate) base: u64,
    /// Bytes. More than one slot in a few objects with `-g`, which cannot become part of a program.
    pub(crate) size: u64,
}

/// An entry of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnifiedEntry {
    /// The file of the entry.
    pub(crate) object: ObjectId,
    /// The function or variable.
    pub(crate) symbol: OutSymbolId,
    pub(crate) flags: u32,
    /// Offset of the slot or the variable, bytes.
    pub(crate) offset: u64,
    pub(crate) id: UnifiedId,
}

impl UnifiedEntry {
    /// The record; `index` gives the output index of a symbol.
    pub(crate) fn record(&self, index: impl Fn(OutSymbolId) -> u32) -> Entry {
        let symbol = SymbolIndex(index(self.symbol));
        Entry { symbol, flags: self.flags | flag::LINKED, offset: self.offset, id: self.id }
    }
}

/// Unified functions and variables of all files, in reading order.
#[derive(Debug, Default)]
pub(crate) struct UnifiedTables {
    pub(crate) slots: Vec<JumpSlot>,
    pub(crate) functions: Vec<UnifiedEntry>,
    pub(crate) variables: Vec<UnifiedEntry>,
    /// `.nv.uft`.
    pub(crate) slots_table: Option<SectionId>,
    /// `.nv.uft.entry`.
    pub(crate) function_ids: Option<SectionId>,
    /// `.nv.udt.entry`.
    pub(crate) variable_ids: Option<SectionId>,
    /// `.nv.info..nv.uft`.
    pub(crate) slots_info: Option<SectionId>,
}

impl UnifiedTables {
    pub(crate) fn is_empty(&self) -> bool {
        self.function_ids.is_none() && self.variable_ids.is_none() && self.slots.is_empty()
    }
}
