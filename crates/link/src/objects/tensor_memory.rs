//! Tensor memory (`tcgen05`): compilers of CUDA 12 and 13 allocate it in different ways, which must
//! not meet in a program.
//!
//! Two places in an object show its way: variables in the system's part of shared memory, and
//! fragments of code that entries need. The rule is in docs/rules/diagnostics.md, 1.9;
//! cases dialects/tensor-memory-12 and dialects/tensor-memory-12-last.

use culd_cubin::attr::{Record, code};

/// The way in which code allocates tensor memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorMemory {
    /// The way of CUDA 12: a mask and a phase.
    Masked,
    /// The way of CUDA 13: a partition.
    Partitioned,
}

impl TensorMemory {
    /// The way of code that names the system's variable `name`.
    pub(crate) fn of_variable(name: &[u8]) -> Option<Self> {
        match name.strip_prefix(b"__nv_reservedSMEM_")? {
            b"allocation_mask" | b"allocation_phase" => Some(TensorMemory::Masked),
            b"tcgen05_partition" => Some(TensorMemory::Partitioned),
            _ => None,
        }
    }

    /// The way of a function with this attribute: that of the last fragment which belongs to a way.
    pub(crate) fn of_attribute(record: &Record<'_>) -> Option<Self> {
        if record.code != code::AT_ENTRY_FRAGMENTS {
            return None;
        }
        let way = |fragment| match fragment {
            4 | 5 => Some(TensorMemory::Masked),
            6 | 7 => Some(TensorMemory::Partitioned),
            _ => None,
        };
        record.words().filter_map(way).next_back()
    }
}
