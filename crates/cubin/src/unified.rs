//! Tables of unified functions and variables, and the file that gives them their places.
//!
//! A unified function (or variable) has one address in all programs that agree on it: its *id*, 128
//! bits that the source names, has a slot in a table that the driver maps to the same place
//! everywhere. In: `.nv.uft.entry` and `.nv.udt.entry` sections, and uidx files (`--uidx-file`).
//! Out: [`Entry`]s and a [`Uidx`]. Guaranteed: every count is checked against the number of bytes.
//! The linker knows the meaning of offsets and windows. docs/UNIFIED.md has the bytes.

use std::collections::HashMap;

use thiserror::Error;

use crate::cubin::{Section, SymbolIndex};
use crate::read;

/// Bytes of a jump slot of `.nv.uft`.
pub const SLOT: u64 = 128;

/// Bytes of a record of `.nv.uft.entry` and `.nv.udt.entry`.
pub const ENTRY_SIZE: usize = 32;

/// Bits of [`Entry::flags`].
pub mod flag {
    /// The entry is valid: ptxas sets it in all.
    pub const VALID: u32 = 1;
    /// Linked, with or without an index file.
    pub const LINKED: u32 = 6;
}

/// The id of a unified function or variable, `.attribute(.unified(a, b))` in PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnifiedId(pub u64, pub u64);

/// A record of `.nv.uft.entry` or `.nv.udt.entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The function (not its jump slot) or the variable.
    pub symbol: SymbolIndex,
    /// See [`flag`].
    pub flags: u32,
    /// Offset in `.nv.uft` or `.nv.udt`, bytes; 0 for a function before the final link.
    pub offset: u64,
    /// Its id.
    pub id: UnifiedId,
}

impl Entry {
    /// The entry at byte `at` of `data`.
    fn read(data: &[u8], at: usize) -> Option<Self> {
        Some(Entry {
            symbol: SymbolIndex(read::u32_at(data, at)?),
            flags: read::u32_at(data, at.checked_add(4)?)?,
            offset: read::u64_at(data, at.checked_add(8)?)?,
            id: id_at(data, at.checked_add(16)?)?,
        })
    }

    /// Appends the record's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.symbol.0.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        for word in [self.offset, self.id.0, self.id.1] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

fn id_at(data: &[u8], at: usize) -> Option<UnifiedId> {
    Some(UnifiedId(read::u64_at(data, at)?, read::u64_at(data, at.checked_add(8)?)?))
}

/// The records of entry section `section`, in file order, each with its offset in bytes.
pub fn entries<'d>(section: &Section<'d>) -> impl Iterator<Item = (u64, Entry)> + use<'d> {
    let data = section.data;
    let at = (0..data.len()).step_by(ENTRY_SIZE);
    at.filter_map(move |at| Some((at as u64, Entry::read(data, at)?)))
}

/// The first bytes of a uidx file.
pub const MAGIC: [u8; 8] = *b"\x7fUFTINDX";

/// Bytes of a uidx file in front of its places.
pub const HEADER: usize = 48;

/// Bytes of a place in a uidx file.
pub const PLACE: usize = 24;

/// From this version on a uidx file ends with 16 bytes more for each function.
pub const TAIL_VERSION: u32 = 2;

/// Bytes for each function at the end of a uidx file.
const TAIL: usize = 16;

/// The place of one function or variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnifiedPlace {
    /// Its id.
    pub id: UnifiedId,
    /// Offset in its table, bytes.
    pub offset: u64,
}

/// A table of a uidx file: its length, and the place of each id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Bytes of the table.
    pub size: u64,
    /// In file order.
    pub places: Vec<UnifiedPlace>,
}

impl Window {
    /// Offsets by id, bytes. If an id is listed twice, the last offset counts.
    pub fn offsets(&self) -> HashMap<UnifiedId, u64> {
        self.places.iter().map(|place| (place.id, place.offset)).collect()
    }
}

/// A uidx file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uidx {
    /// The version in the file; from [`TAIL_VERSION`] on all are alike.
    pub version: u32,
    /// `.nv.uft`.
    pub functions: Window,
    /// `.nv.udt`.
    pub variables: Window,
}

/// Why bytes are not a uidx file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadUidx {
    /// They begin with other bytes.
    #[error("no index file: it does not begin with the magic number")]
    Magic,
    /// The length differs from the header's.
    #[error("a damaged index file: it is not as long as its header says")]
    Size,
}

impl Uidx {
    /// Reads a uidx file.
    ///
    /// Errors: no magic number, or another length than the header's counts make.
    pub fn parse(data: &[u8]) -> Result<Self, BadUidx> {
        if !data.starts_with(&MAGIC) {
            return Err(BadUidx::Magic);
        }
        Self::read(data).ok_or(BadUidx::Size)
    }

    fn read(data: &[u8]) -> Option<Self> {
        let version = read::u32_at(data, 8)?;
        // Four unused bytes.
        let (functions_size, functions) = (read::u64_at(data, 16)?, read::u64_at(data, 24)?);
        let (variables_size, variables) = (read::u64_at(data, 32)?, read::u64_at(data, 40)?);
        let (functions, variables) =
            (usize::try_from(functions).ok()?, usize::try_from(variables).ok()?);
        let places = functions.checked_add(variables)?.checked_mul(PLACE)?;
        let tail = if version < TAIL_VERSION { 0 } else { functions.checked_mul(TAIL)? };
        if data.len() != HEADER.checked_add(places)?.checked_add(tail)? {
            return None;
        }
        let start = HEADER + functions * PLACE;
        let window = |size, start, count| {
            let at = (start..).step_by(PLACE).take(count);
            let place = |at: usize| {
                Some(UnifiedPlace { id: id_at(data, at)?, offset: read::u64_at(data, at + 16)? })
            };
            Some(Window { size, places: at.map(place).collect::<Option<Vec<UnifiedPlace>>>()? })
        };
        Some(Uidx {
            version,
            functions: window(functions_size, HEADER, functions)?,
            variables: window(variables_size, start, variables)?,
        })
    }

    /// The bytes of the file; a tail is zero.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&u64::from(self.version).to_le_bytes());
        for window in [&self.functions, &self.variables] {
            out.extend_from_slice(&window.size.to_le_bytes());
            out.extend_from_slice(&(window.places.len() as u64).to_le_bytes());
        }
        for place in self.functions.places.iter().chain(&self.variables.places) {
            for word in [place.id.0, place.id.1, place.offset] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        out.resize(out.len() + self.tail(), 0);
        out
    }

    /// Bytes behind the places.
    pub fn tail(&self) -> usize {
        if self.version < TAIL_VERSION { 0 } else { TAIL * self.functions.places.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(version: u32) -> Uidx {
        let place = |a, b, offset| UnifiedPlace { id: UnifiedId(a, b), offset };
        let functions = vec![place(1, 2, 128), place(3, 4, 0)];
        Uidx {
            version,
            functions: Window { size: 256, places: functions },
            variables: Window { size: 24, places: vec![place(5, u64::MAX, 16)] },
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for version in 0..4 {
            let uidx = sample(version);
            let bytes = uidx.bytes();
            assert_eq!(bytes.len(), 48 + 3 * 24 + if version < 2 { 0 } else { 32 });
            assert_eq!(Uidx::parse(&bytes), Ok(uidx));
        }
    }

    #[test]
    fn every_other_length_is_refused() {
        let bytes = sample(2).bytes();
        for length in 0..bytes.len() {
            let expected = if length < 8 { BadUidx::Magic } else { BadUidx::Size };
            assert_eq!(Uidx::parse(&bytes[..length]), Err(expected), "{length}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Uidx::parse(&longer), Err(BadUidx::Size));
    }

    #[test]
    fn counts_that_overflow_are_refused() {
        // 24 times this is 48, cut to 64 bits: nvlink takes it for 2.
        let count = (1u64 << 61) + 2;
        let mut bytes = sample(1).bytes();
        bytes[24..32].copy_from_slice(&count.to_le_bytes());
        assert_eq!(Uidx::parse(&bytes), Err(BadUidx::Size));
    }

    #[test]
    fn entries_read_back() {
        let entry = Entry {
            symbol: SymbolIndex(7),
            flags: flag::VALID,
            offset: 64,
            id: UnifiedId(9, 1 << 63),
        };
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        assert_eq!(bytes.len(), ENTRY_SIZE);
        assert_eq!(Entry::read(&bytes, 0), Some(entry));
        assert_eq!(Entry::read(&bytes, 1), None);
    }
}
