//! The records of the output's `.nv.info`, and how they are written.

use culd_cubin::attr::{Record, code, format};

use super::EntryFacts;
use super::attribute::OutAttribute;
use crate::base::id::{IdVec, NodeId, OutSymbolId};
use crate::callgraph::CallGraph;
use crate::draft::merged::{FileRecord, MergeResult};

/// A record of the output's `.nv.info`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileAttribute<'d> {
    About { code: u8, function: OutSymbolId, number: u32 },
    Reference { code: u8, symbol: OutSymbolId, rest: &'d [u8] },
    Record(Record<'d>),
}

impl FileAttribute<'_> {
    /// Appends the record; `index` gives the output index of a symbol.
    pub(crate) fn write(&self, out: &mut Vec<u8>, index: &impl Fn(OutSymbolId) -> u32) {
        match *self {
            FileAttribute::Record(record) => record.write(out),
            FileAttribute::Reference { code, symbol, rest } => {
                OutAttribute::About { code, symbol, rest }.write(out, index);
            }
            FileAttribute::About { code, function, number } => {
                out.extend_from_slice(&[format::SIZED, code, 8, 0]);
                out.extend_from_slice(&index(function).to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// The contents of `.nv.info`: the input records in the reverse of reading order, with the register
/// counts of entries raised. An executable has computed stack sizes in place of stack limits.
/// Records are numerous, so they are made when they are written.
pub(crate) struct FileAttributes<'d> {
    /// Register counts of entries, their callees included.
    raised: IdVec<NodeId, Option<u32>>,
    /// Drop the records of attribute 0x64 ([`crate::attributes::largest`]).
    pub(super) without_64: bool,
    /// A record after all others.
    pub(super) last: Option<Record<'d>>,
}

impl<'d> FileAttributes<'d> {
    pub(super) fn new(graph: &CallGraph, entries: &[EntryFacts]) -> Self {
        let mut raised = IdVec::filled(None, graph.nodes.len());
        for (&entry, facts) in graph.entries().iter().zip(entries) {
            raised[entry] = Some(facts.registers);
        }
        FileAttributes { raised, without_64: false, last: None }
    }

    /// All records.
    pub(crate) fn records<'a>(
        &'a self,
        graph: &'a CallGraph,
        merged: &'a MergeResult<'d>,
    ) -> impl Iterator<Item = FileAttribute<'d>> + 'a {
        let relocatable = merged.draft.relocatable;
        let record = move |record: &FileRecord<'d>| match record {
            FileRecord::Other(record) if self.without_64 && is_gathered(record) => None,
            FileRecord::Other(record) => Some(FileAttribute::Record(**record)),
            FileRecord::Reference { symbol, record } => {
                let rest = record.payload.get(4..).unwrap_or_default();
                Some(FileAttribute::Reference { code: record.code, symbol: *symbol, rest })
            }
            FileRecord::About { code: code::MAX_STACK_SIZE, .. } if !relocatable => None,
            // Those of entries follow later, with numbers that include all that the entries reach.
            FileRecord::About { code: code::MIN_STACK_SIZE, .. } if !relocatable => None,
            &FileRecord::About { code, function, number } => {
                let counts = code == code::REGCOUNT;
                let raised = counts.then(|| self.raised(graph, merged, function)).flatten();
                Some(FileAttribute::About { code, function, number: raised.unwrap_or(number) })
            }
        };
        let last = self.last.into_iter().map(FileAttribute::Record);
        merged.file_records.iter().rev().filter_map(record).chain(last)
    }

    /// The register count of an entry; `None` for any other function.
    fn raised(
        &self,
        graph: &CallGraph,
        merged: &MergeResult<'_>,
        function: OutSymbolId,
    ) -> Option<u32> {
        let node = graph.node(merged.draft.symbols[function].program?)?;
        self.raised[node].filter(|_| merged.function(graph, node) == function)
    }
}

/// True for a record that [`crate::attributes::largest`] gathers. nvlink crashes on other formats.
pub(super) fn is_gathered(record: &Record<'_>) -> bool {
    record.code == code::ATTRIBUTE_64 && record.format == format::SIZED
}
