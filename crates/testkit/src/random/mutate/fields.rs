//! Finds the number fields of the formats.
//!
//! In: the bytes of a file of any kind. Out: offsets and sizes of the fields of all tables and
//! records, also those of files inside. Guaranteed: any bytes are accepted; a field may lie outside
//! the file.

use culd_fatbin::{Format, sniff};

/// The most table entries whose fields are listed: enough for any file of a test.
const MAX_ENTRIES: usize = 4096;
/// The depth to which files inside files are searched.
const MAX_DEPTH: usize = 4;

/// A number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberField {
    /// Offset in the file.
    pub at: usize,
    /// Bytes.
    pub size: usize,
    /// How it is written.
    pub form: NumberForm,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberForm {
    /// Little-endian.
    Little,
    /// Digits and blanks.
    Decimal,
}

/// The fields of a file, whose kind follows from its contents.
pub fn of(bytes: &[u8]) -> Vec<NumberField> {
    let mut found = FieldFinder { bytes, fields: Vec::new() };
    found.file(0, bytes.len(), 0);
    found.fields
}

/// The fields of an index file.
pub fn of_index(bytes: &[u8]) -> Vec<NumberField> {
    let words = (16..bytes.len()).step_by(8).map(|at| (at, 8));
    let places = [(0, 8), (8, 4), (12, 4)].into_iter().chain(words);
    places.map(|(at, size)| NumberField { at, size, form: NumberForm::Little }).collect()
}

struct FieldFinder<'b> {
    bytes: &'b [u8],
    fields: Vec<NumberField>,
}

impl FieldFinder<'_> {
    fn number(&self, at: usize, size: usize) -> usize {
        let mut value = [0; 8];
        let Some(bytes) = at.checked_add(size).and_then(|end| self.bytes.get(at..end)) else {
            return 0;
        };
        value[..size].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(value)).unwrap_or(0)
    }

    fn add(&mut self, base: usize, places: &[(usize, usize)]) {
        let fields = places.iter().map(|&(at, size)| NumberField {
            at: base.saturating_add(at),
            size,
            form: NumberForm::Little,
        });
        self.fields.extend(fields);
    }

    /// The file in `base..end`.
    fn file(&mut self, base: usize, end: usize, depth: usize) {
        let end = end.min(self.bytes.len());
        let Some(bytes) = self.bytes.get(base..end) else { return };
        if depth == MAX_DEPTH {
            return;
        }
        match sniff(bytes) {
            Format::RelocatableCubin | Format::ExecutableCubin => self.elf(base),
            Format::HostElf { .. } => {
                self.elf(base);
                self.fatbins(base, end, depth);
            }
            Format::Coff => {
                self.coff(base);
                self.fatbins(base, end, depth);
            }
            Format::Fatbin => self.fatbin(base, end, depth),
            Format::Archive | Format::ThinArchive => self.archive(base, end, depth),
            Format::Ptx | Format::LtoIr | Format::Bitcode | Format::Unknown => {}
        }
    }

    fn elf(&mut self, base: usize) {
        self.add(base, &(4..16).map(|at| (at, 1)).collect::<Vec<_>>());
        self.add(base, &[(16, 2), (18, 2), (24, 8), (32, 8), (40, 8), (48, 4)]);
        self.add(base, &(52..64).step_by(2).map(|at| (at, 2)).collect::<Vec<_>>());
        let headers = base.saturating_add(self.number(base + 40, 8));
        for index in 0..self.number(base + 60, 2).min(MAX_ENTRIES) {
            let header = headers.saturating_add(64 * index);
            const PLACES: [(usize, usize); 9] =
                [(0, 4), (4, 4), (8, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];
            self.add(header, &PLACES);
            let start = base.saturating_add(self.number(header.saturating_add(24), 8));
            let size = self.number(header.saturating_add(32), 8);
            let records: &[usize] = match self.number(header.saturating_add(4), 4) {
                2 => &[4, 1, 1, 2, 8, 8],
                4 => &[8, 4, 4, 8],
                9 => &[8, 4, 4],
                7 | 0x7000_0001 | 0x7000_0002 => &[4],
                0x7000_0000 => &[1, 1, 2, 4],
                0x7000_0011 | 0x7000_0014 => &[4, 4, 8, 8, 8],
                // Capsules of Mercury code and the rest.
                kind if kind > 0x7000_0000 => &[1, 1, 2, 4, 4],
                _ => continue,
            };
            self.records(start, start.saturating_add(size), records);
        }
    }

    fn records(&mut self, mut at: usize, end: usize, sizes: &[usize]) {
        let end = end.min(self.bytes.len());
        for &size in sizes.iter().cycle().take(MAX_ENTRIES) {
            if at.saturating_add(size) > end {
                break;
            }
            self.add(at, &[(0, size)]);
            at += size;
        }
    }

    fn coff(&mut self, base: usize) {
        let big = self.number(base, 4) == 0xffff_0000;
        let (header, record) = if big { (56, 20) } else { (20, 18) };
        let places: &[(usize, usize)] = match big {
            true => &[(4, 2), (6, 2), (12, 4), (44, 4), (48, 4), (52, 4)],
            false => &[(0, 2), (2, 2), (8, 4), (12, 4), (16, 2)],
        };
        self.add(base, places);
        let sections = if big { self.number(base + 44, 4) } else { self.number(base + 2, 2) };
        for index in 0..sections.min(MAX_ENTRIES) {
            let at = base + header + 40 * index;
            self.add(at, &[(0, 8), (8, 4), (12, 4), (16, 4), (20, 4), (24, 4), (32, 2), (36, 4)]);
        }
        let (place, count) = if big { (48, 52) } else { (8, 12) };
        let symbols = base.saturating_add(self.number(base + place, 4));
        let count = self.number(base + count, 4).min(MAX_ENTRIES);
        for index in 0..count {
            self.add(symbols.saturating_add(record * index), &[(0, 4), (4, 4), (8, 4), (12, 2)]);
        }
        // The length of the table of names.
        self.add(symbols.saturating_add(record * count), &[(0, 4)]);
    }

    /// Fat binaries somewhere in an object.
    fn fatbins(&mut self, base: usize, end: usize, depth: usize) {
        for at in (base..end).step_by(4) {
            if self.number(at, 4) == 0xba55_ed50 {
                self.fatbin(at, end, depth);
            }
        }
    }

    fn fatbin(&mut self, base: usize, end: usize, depth: usize) {
        self.add(base, &[(0, 4), (4, 2), (6, 2), (8, 8)]);
        let last = base.saturating_add(16).saturating_add(self.number(base + 8, 8)).min(end);
        let mut at = base.saturating_add(self.number(base + 6, 2).max(8));
        for _ in 0..64 {
            if at.saturating_add(64) > last {
                break;
            }
            self.add(at, &[(0, 2), (2, 2), (4, 4), (8, 8), (16, 4), (20, 4), (24, 2), (26, 2)]);
            self.add(at, &[(28, 4), (32, 4), (36, 4), (40, 8), (48, 8), (56, 8)]);
            let payload = at.saturating_add(self.number(at + 4, 4));
            let next = payload.saturating_add(self.number(at + 8, 8));
            self.file(payload, next, depth + 1);
            if next <= at {
                break;
            }
            at = next;
        }
    }

    fn archive(&mut self, base: usize, end: usize, depth: usize) {
        let thin = self.bytes.get(base + 2) == Some(&b't');
        let mut at = base + 8;
        for _ in 0..MAX_ENTRIES {
            if at.saturating_add(60) > end {
                break;
            }
            let decimal =
                |(offset, size)| NumberField { at: at + offset, size, form: NumberForm::Decimal };
            self.fields.extend([(48, 10), (48, 10), (1, 6)].map(decimal));
            self.add(at, &[(0, 1), (0, 2), (58, 2)]);
            let digits = self.bytes.get(at + 48..at + 58).unwrap_or_default();
            let size = str::from_utf8(digits).ok().and_then(|text| text.trim().parse().ok());
            let size: usize = size.unwrap_or(0);
            let own = !thin || self.bytes.get(at) == Some(&b'/');
            let next = if own { (at + 60).saturating_add(size) } else { at + 60 };
            if own {
                self.file(at + 60, next, depth + 1);
            }
            at = next.saturating_add(next % 2);
        }
    }
}
