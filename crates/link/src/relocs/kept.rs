//! The records of a relocation section that stay.
//!
//! In: the records of the inputs, one after the other, with what became of each. Out: [`Records`], which are read once
//! more when they are written. Most sections keep the records of one input section but for the places and symbols, so
//! these are not copied: only those that do not stay are noted.

use culd_cubin::{RelocEntry, SectionIndex};

use super::usual;
use crate::id::{ObjectId, OutSymbolId};
use crate::objects::Objects;

/// A record of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) offset: u64,
    /// `None` for symbol 0.
    pub(crate) symbol: Option<OutSymbolId>,
    pub(crate) kind: u32,
    pub(crate) addend: i64,
}

/// The records that stay, last read first.
#[derive(Debug)]
pub(crate) enum Records {
    Listed(Vec<Kept>),
    /// Those of one input section.
    Of(Source),
}

impl Default for Records {
    fn default() -> Self {
        Records::Listed(Vec::new())
    }
}

/// An input section whose records stay as they are, with usual symbols.
#[derive(Debug)]
pub(crate) struct Source {
    object: ObjectId,
    section: SectionIndex,
    /// Where the section that they patch starts in the output, bytes.
    base: u64,
    /// How many there are.
    total: u32,
    /// How many of them stay.
    stay: u32,
    /// What became of those that do not stay as they are, by number, last first.
    others: Vec<(u32, Option<Kept>)>,
}

impl Source {
    /// The whole of a section of `total` records.
    pub(super) fn new(object: ObjectId, section: SectionIndex, base: u64, total: u32) -> Self {
        Source { object, section, base, total, stay: total, others: Vec::new() }
    }

    /// Calls `visit` with the records that stay.
    fn each(&self, (objects, usual): (&Objects<'_>, &usual::Table), mut visit: impl FnMut(Kept)) {
        let records = objects[self.object].section(self.section).relocations();
        let symbols = &usual[self.object];
        let (mut number, mut others) = (self.total, &self.others[..]);
        records.iter().rev().for_each(|record| {
            number -= 1;
            match others {
                [(next, kept), rest @ ..] if *next == number => {
                    others = rest;
                    kept.iter().copied().for_each(&mut visit);
                }
                _ => {
                    let RelocEntry { offset, symbol, kind, addend } = record;
                    let symbol = symbols.get(symbol.0 as usize).copied().flatten();
                    visit(Kept { offset: self.base + offset, symbol, kind, addend });
                }
            }
        });
    }
}

impl Records {
    /// True for the records of one input section.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Records::Of(_))
    }

    /// How many stay.
    pub(crate) fn len(&self) -> usize {
        match self {
            Records::Listed(records) => records.len(),
            Records::Of(source) => source.stay as usize,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes what became of record `number`, the one before the last that was noted: `None` where it does not stay.
    pub(super) fn note(&mut self, number: usize, record: Option<Kept>) {
        match self {
            Records::Listed(list) => list.extend(record),
            Records::Of(source) => {
                source.stay -= u32::from(record.is_none());
                source.others.push((number as u32, record));
            }
        }
    }

    /// Puts them in the order of their places.
    pub(super) fn sort(&mut self) {
        if let Records::Listed(records) = self {
            records.sort_by_key(|record| record.offset);
        }
    }

    /// Calls `visit` with each of them.
    pub(super) fn each(&self, inputs: (&Objects<'_>, &usual::Table), mut visit: impl FnMut(Kept)) {
        match self {
            Records::Listed(records) => records.iter().copied().for_each(visit),
            Records::Of(source) => source.each(inputs, &mut visit),
        }
    }
}
