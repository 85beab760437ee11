//! The records of relocation sections.
//!
//! In: the bytes of a section, which [`crate::Cubin::parse`] has checked. Out: its records.

use object::LittleEndian as Le;
use object::elf::{Rel64, Rela64};

use crate::cubin::SymbolIndex;

/// The records of one relocation section.
#[derive(Debug, Clone, Copy)]
pub enum Relocations<'d> {
    /// SHT_REL: the addend is in the place.
    Rel(&'d [Rel64<Le>]),
    /// SHT_RELA.
    Rela(&'d [Rela64<Le>]),
}

/// One relocation record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelocEntry {
    /// Offset of the place in its section, bytes.
    pub offset: u64,
    /// Index of the symbol in the same file.
    pub symbol: SymbolIndex,
    /// Relocation type.
    pub kind: u32,
    /// Addend; 0 in a REL record.
    pub addend: i64,
}

impl<'d> Relocations<'d> {
    /// Number of records.
    pub fn len(&self) -> usize {
        match self {
            Relocations::Rel(records) => records.len(),
            Relocations::Rela(records) => records.len(),
        }
    }

    /// True when there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Record number `i`.
    pub fn get(&self, i: usize) -> Option<RelocEntry> {
        match self {
            Relocations::Rel(records) => records.get(i).map(rel),
            Relocations::Rela(records) => records.get(i).map(rela),
        }
    }

    /// All records in file order.
    pub fn iter(&self) -> RelocEntries<'d> {
        let (rels, relas): (&[Rel64<Le>], &[Rela64<Le>]) = match *self {
            Relocations::Rel(records) => (records, &[]),
            Relocations::Rela(records) => (&[], records),
        };
        RelocEntries { rels: rels.iter(), relas: relas.iter() }
    }

    /// The number of the first record that `test` is true of.
    #[inline]
    pub fn position(&self, test: impl FnMut(RelocEntry) -> bool) -> Option<usize> {
        match self {
            Relocations::Rel(records) => records.iter().map(rel).position(test),
            Relocations::Rela(records) => records.iter().map(rela).position(test),
        }
    }
}

/// The records of one relocation section, see [`Relocations::iter`].
#[derive(Debug, Clone)]
pub struct RelocEntries<'d> {
    // At most one of the two has records.
    rels: std::slice::Iter<'d, Rel64<Le>>,
    relas: std::slice::Iter<'d, Rela64<Le>>,
}

impl Iterator for RelocEntries<'_> {
    type Item = RelocEntry;

    #[inline]
    fn next(&mut self) -> Option<RelocEntry> {
        match self.relas.next() {
            Some(record) => Some(rela(record)),
            None => self.rels.next().map(rel),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.rels.len() + self.relas.len();
        (count, Some(count))
    }

    #[inline]
    fn fold<T, F: FnMut(T, RelocEntry) -> T>(self, start: T, mut f: F) -> T {
        let relas = self.relas.map(rela).fold(start, &mut f);
        self.rels.map(rel).fold(relas, f)
    }
}

impl DoubleEndedIterator for RelocEntries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<RelocEntry> {
        match self.relas.next_back() {
            Some(record) => Some(rela(record)),
            None => self.rels.next_back().map(rel),
        }
    }
}

impl ExactSizeIterator for RelocEntries<'_> {}

#[inline]
pub(crate) fn rel(record: &Rel64<Le>) -> RelocEntry {
    let info = record.r_info.get(Le);
    let symbol = SymbolIndex((info >> 32) as u32);
    RelocEntry { offset: record.r_offset.get(Le), symbol, kind: info as u32, addend: 0 }
}

#[inline]
pub(crate) fn rela(record: &Rela64<Le>) -> RelocEntry {
    let info = record.r_info.get(Le);
    let symbol = SymbolIndex((info >> 32) as u32);
    let addend = record.r_addend.get(Le);
    RelocEntry { offset: record.r_offset.get(Le), symbol, kind: info as u32, addend }
}
