//! How many relocation records of each type are written.
//!
//! In: encoded records, from any thread. Out: their types, ascending, with numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::base::id::SectionId;
use crate::layout::contents::SyntheticContents;

/// Types below this number have a place in a table.
const FEW_TYPES: usize = 256;

/// Where the type is in a record, with an addend or without.
const TYPE_AT: usize = 8;

/// Numbers of records by type.
#[derive(Debug)]
pub(crate) struct TypeCounts {
    few: [AtomicU64; FEW_TYPES],
    others: Mutex<BTreeMap<u32, u64>>,
}

impl Default for TypeCounts {
    fn default() -> Self {
        TypeCounts { few: [const { AtomicU64::new(0) }; FEW_TYPES], others: Mutex::default() }
    }
}

/// How many records of four types one thread has written. It adds a number to the shared table when
/// a fifth type takes its place, and the rest at the end of its work.
#[derive(Debug, Default)]
pub(super) struct MetTypes([(u32, u64); 4]);

impl TypeCounts {
    /// Adds the records of a section with these bytes, if it has some.
    #[cold]
    pub(super) fn add_section(
        &self,
        met: &mut MetTypes,
        contents: &SyntheticContents,
        section: SectionId,
        bytes: &[u8],
    ) {
        if let Some(size) = contents.record_size(section) {
            self.add(met, bytes, size);
        }
    }

    /// Adds encoded records of `size` bytes each.
    fn add(&self, MetTypes(met): &mut MetTypes, records: &[u8], size: usize) {
        for record in records.chunks_exact(size) {
            let kind = record.get(TYPE_AT..).and_then(|rest| rest.first_chunk());
            let kind = kind.copied().map_or(0, u32::from_le_bytes);
            match met.iter_mut().find(|own| own.0 == kind) {
                Some(own) => own.1 += 1,
                None => {
                    self.add_many(met[0]);
                    met.rotate_left(1);
                    met[3] = (kind, 1);
                }
            }
        }
    }

    /// Adds what a thread has met.
    pub(super) fn add_met(&self, MetTypes(met): MetTypes) {
        met.into_iter().for_each(|own| self.add_many(own));
    }

    /// Adds a number of records of one type.
    pub(super) fn add_many(&self, (kind, count): (u32, u64)) {
        if count == 0 {
            return;
        }
        match self.few.get(kind as usize) {
            Some(few) => _ = few.fetch_add(count, Ordering::Relaxed),
            None => {
                let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                *others.entry(kind).or_default() += count;
            }
        }
    }

    /// The types of which there are records, ascending, with their numbers.
    pub(super) fn all(&self) -> Vec<(u32, u64)> {
        let few = (0..).zip(&self.few).map(|(kind, count)| (kind, count.load(Ordering::Relaxed)));
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let all = few.chain(others.iter().map(|(&kind, &count)| (kind, count)));
        all.filter(|row| row.1 != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_both_sizes_are_counted_by_type() {
        let (counts, mut met) = (TypeCounts::default(), MetTypes::default());
        for size in [16, 24] {
            let mut records = Vec::new();
            for kind in [7u32, 7, 2, 300, 0, 7, 1, 9, 2] {
                let mut record = vec![0xff; size];
                record[TYPE_AT..TYPE_AT + 4].copy_from_slice(&kind.to_le_bytes());
                records.extend(record);
            }
            counts.add(&mut met, &records, size);
        }
        counts.add(&mut met, &[], 24);
        counts.add_met(met);
        counts.add_many((u32::MAX, 1));
        let all = [(0, 2), (1, 2), (2, 4), (7, 6), (9, 2), (300, 2), (u32::MAX, 1)];
        assert_eq!(counts.all(), all);
    }
}
