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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    object: ObjectId,
    section: SectionIndex,
    /// How many there are.
    total: u32,
}

impl Whole {
    pub(super) fn new(object: ObjectId, section: SectionIndex, total: u32) -> Self {
        Whole { object, section, total }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.total as usize
    }

    /// Calls `visit` with each of them, the last one first.
    pub(super) fn each(&self, inputs: Inputs<'_, '_>, visit: impl FnMut(Kept)) {
        self.each_at(inputs, 0, visit);
    }

    /// The same where the section that they patch starts at byte `base` in the output.
    fn each_at(&self, (objects, usual): Inputs<'_, '_>, base: u64, mut visit: impl FnMut(Kept)) {
        let symbols = &usual[self.object];
        let records = objects[self.object].section(self.section).relocations();
        records.iter().rev().for_each(|record| {
            let RelocEntry { offset, symbol, kind, addend } = record;
            let symbol = symbols.get(symbol.0 as usize).copied().flatten();
            visit(Kept { offset: base + offset, symbol, kind, addend });
        });
    }
}

/// The files, and what their symbols usually are.
type Inputs<'a, 'd> = (&'a Objects<'d>, &'a usual::Table);

/// The same, where some do not stay, or not as they are.
#[derive(Debug)]
pub(crate) struct Source {
    whole: Whole,
    /// Where the section that they patch starts in the output, bytes.
    base: u64,
    /// How many stay.
    stay: u32,
    /// What became of those that do not stay as they are, by number, last first.
    others: Vec<(u32, Option<Kept>)>,
}

impl Source {
    /// All records of a section that starts at byte `base` in the output.
    pub(super) fn new(whole: Whole, base: u64) -> Self {
        Source { whole, base, stay: whole.total, others: Vec::new() }
    }

    /// The section, if all records stay at the places that they have there.
    pub(super) fn unchanged(&self) -> Option<Whole> {
        (self.base == 0 && self.others.is_empty()).then_some(self.whole)
    }

    /// Calls `visit` with the records that stay.
    fn each(&self, inputs: Inputs<'_, '_>, mut visit: impl FnMut(Kept)) {
        let (mut number, mut others) = (self.whole.total, &self.others[..]);
        self.whole.each_at(inputs, self.base, |record| {
            number -= 1;
            match others {
                [(next, kept), rest @ ..] if *next == number => {
                    others = rest;
                    kept.iter().copied().for_each(&mut visit);
                }
                _ => visit(record),
            }
        });
    }
}

impl Records {
    /// How many stay.
    pub(crate) fn len(&self) -> usize {
        match self {
            Records::Listed(records) => records.len(),
            Records::Of(source) => source.stay as usize,
        }
    }

    /// The input section all of whose records stay at the places that they have there.
    pub(super) fn unchanged(&self) -> Option<Whole> {
        match self {
            Records::Of(source) => source.unchanged(),
            Records::Listed(_) => None,
        }
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
    pub(super) fn each(&self, inputs: Inputs<'_, '_>, visit: impl FnMut(Kept)) {
        match self {
            Records::Listed(records) => records.iter().copied().for_each(visit),
            Records::Of(source) => source.each(inputs, visit),
        }
    }
}
