//! `.nv.capmerc.text.<function>` (sm_100 and later): a function's code in the form that a finalizer
//! can make other machine code of.
//!
//! In: the bytes of such a section, and the relocations of its function. Out: which bytes belong to
//! which instruction of the machine code, and where the value of a relocation goes. Guaranteed
//! after [`Capsule::parse`]: every record lies in the section, and nothing follows the last. The
//! meaning of a record is not known here; forms that this page does not describe are refused.
//!
//! ```text
//! 0   u32          section index of the machine code, in this file
//! 4   u32          0xc0000001; CUDA 12.8 leaves it out
//! 8   u32 N        number of entries; CUDA 12.8 adds 0x40000000
//! 12  ceil(N/32)   words, one bit for each entry from the lowest on: 1 an entry without bytes
//!                  ("elided": one instruction, which the machine code has), 0 the next record;
//!                  the rest of the bits is 0
//!     records      one behind the other
//!
//! record, first byte b:
//!   b & 0x40 == 0      full   16 * (b & 15) bytes, one instruction
//!   b & 0x50 == 0x40   short  4 bytes, one instruction
//!   b & 0x50 == 0x50   group  b, a byte n, then b & 15 full records; 2 * n + (b >> 7) instructions
//!
//! load from a constant bank, a full record of 32 bytes
//! 0   02 22        load
//! 2   form         0x0c the address is in a register, 0x0e and 0x08 it is a number alone
//! 3   06
//! 12  bank         0x40 parameters, 0x42 constant variables, 0x49 slots of textures
//! 28  u16          offset in the bank, added to the register
//! ```
//!
//! Relocations of Mercury code count in another space, in which a full record ends where its
//! instruction's 16 bytes end: the low four bits of `r_offset` are the offset in the record's last
//! 16 bytes. The instruction of a relocation follows from its counterpart, the relocation of
//! the machine code.

use std::collections::HashMap;
use std::ops::Range;

use crate::cubin::{SectionIndex, SymbolIndex};
use crate::error::Malformed;
use crate::read;
use crate::relocation::RelocEntry;

/// Bytes of one instruction of the machine code, and the unit of a full record.
pub const INSTRUCTION: u64 = 16;
/// The second word of every section, except in objects of CUDA 12.8.
pub const MAGIC: u32 = 0xc000_0001;
/// CUDA 12.8 adds this to the number of entries, which is the second word in its files.
pub const HEAD_OF_12_8: u32 = 0x4000_0000;
/// Bytes of the words in front of the bits. The second number is for CUDA 12.8.
const HEAD: usize = 12;
const SHORT_HEAD: usize = 8;

/// The form of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapsuleForm {
    /// One bit: everything is in the machine code.
    Elided,
    /// One instruction, a multiple of 16 bytes.
    Full,
    /// One instruction in four bytes.
    Short,
    /// Several instructions: two bytes, then a few full records.
    Group,
}

impl CapsuleForm {
    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            CapsuleForm::Elided => "elided",
            CapsuleForm::Full => "full",
            CapsuleForm::Short => "short",
            CapsuleForm::Group => "group",
        }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapsuleRecord {
    /// Its number, from 0.
    pub number: u32,
    /// The form.
    pub kind: CapsuleForm,
    /// The instructions of the machine code it stands for, counted from 0.
    pub instructions: Range<u64>,
    /// Its bytes in the section; none for an elided one.
    pub bytes: Range<usize>,
}

impl CapsuleRecord {
    /// The bytes of the section that the value of a relocation fills: `width` bytes at `offset` of
    /// the Mercury code. `None` if the record has no bytes because everything is in the machine
    /// code.
    ///
    /// Errors, in words: records of this kind were never seen to take a value, or the value does
    /// not fit its last 16 bytes.
    pub fn field(&self, offset: u64, width: usize) -> Result<Option<Range<usize>>, String> {
        match self.kind {
            CapsuleForm::Elided => Ok(None),
            CapsuleForm::Full => {
                let at = (offset % INSTRUCTION) as usize;
                let unit = INSTRUCTION as usize;
                if at + width > unit {
                    let number = self.number;
                    return Err(format!(
                        "{width} bytes at {offset:#x} run past the end of record {number}"
                    ));
                }
                let start = self.bytes.end - unit + at;
                Ok(Some(start..start + width))
            }
            CapsuleForm::Short | CapsuleForm::Group => Err(format!(
                "record {} is a {} record, which takes no value of a relocation ({width} bytes at {offset:#x})",
                self.number,
                self.kind.name(),
            )),
        }
    }
}

/// Start and size of the record of a load from a constant bank.
const LOAD: [u8; 2] = [0x02, 0x22];
const LOAD_SIZE: usize = 32;
/// Form: the address is in a register.
const IN_REGISTER: u8 = 0x0c;
/// Forms without a register, whose address is a relocation of machine code.
const NUMBERS: [u8; 2] = [0x0e, 0x08];
/// The bank with the slots of textures, samplers and surfaces.
const IMAGES: u8 = 0x49;

/// A load from the slots of textures that adds a register. Machine code loads from the bank of
/// parameters instead, so its offset depends on the contents in front of the slots, and no
/// relocation covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLoad {
    /// Offset of the instruction in the machine code, bytes.
    pub code: u64,
    /// Offset from the first slot that is added to the register, bytes.
    pub offset: u16,
}

impl ImageLoad {
    /// The relocation type that patches the address in the instruction, `R_CUDA_CONST_FIELD21_38`.
    pub const ADDRESS: u32 = 66;
}

/// One section, checked.
#[derive(Debug, Clone, Copy)]
pub struct Capsule<'d> {
    section: &'d [u8],
    data: &'d [u8],
    /// Bytes in front of the bits.
    head: usize,
    entries: u32,
    instructions: u64,
}

impl<'d> Capsule<'d> {
    /// Reads `data`, the bytes of the section called `section`.
    ///
    /// Errors: any form that the module's head does not describe. Costs O(n) in entries.
    pub fn parse(section: &'d [u8], data: &'d [u8]) -> Result<Self, Malformed> {
        let malformed = |at: usize, what: String| Malformed::section(section, at as u64, what);
        let short = || malformed(0, "too short for the head of Mercury code".to_owned());
        let second = read::u32_at(data, 4).ok_or_else(short)?;
        let (head, entries) = match second {
            MAGIC => (HEAD, read::u32_at(data, 8).ok_or_else(short)?),
            _ if second >> 30 == HEAD_OF_12_8 >> 30 => (SHORT_HEAD, second & !HEAD_OF_12_8),
            _ => return Err(malformed(4, format!("{second:#x} instead of {MAGIC:#x}"))),
        };
        let capsule = Capsule { section, data, head, entries, instructions: 0 };
        let Some(bits) = capsule.bits() else {
            let what = format!("the bits of {entries} entries run past the end");
            return Err(malformed(head - 4, what));
        };
        let (words, _) = bits.as_chunks::<4>();
        let spare = words.last().map_or(0, |last| u32::from_le_bytes(*last) & spare_bits(entries));
        if spare != 0 {
            let what = format!("bits are set behind those of {entries} entries");
            return Err(malformed(head + bits.len() - 4, what));
        }
        let elided: u32 = words.iter().map(|word| u32::from_le_bytes(*word).count_ones()).sum();
        let mut at = head + bits.len();
        let mut instructions = u64::from(elided);
        for place in 0..entries - elided {
            let Some((_, size, more)) = record(data, at) else {
                let mut numbers =
                    (0..entries).filter(|&number| is_elided(bits, number) == Some(false));
                let number = numbers.nth(place as usize).unwrap_or(entries);
                let what = format!("record {number} runs past the end or is empty");
                return Err(malformed(at, what));
            };
            at += size;
            instructions += more;
        }
        if at != data.len() {
            return Err(malformed(at, format!("bytes behind the last of {entries} records")));
        }
        Ok(Capsule { instructions, ..capsule })
    }

    /// The section that has the machine code.
    pub fn code(&self) -> SectionIndex {
        SectionIndex(read::u32_at(self.data, 0).unwrap_or(0))
    }

    /// True for a section as compilers since CUDA 12.9 write it.
    pub fn has_version(&self) -> bool {
        self.head == HEAD
    }

    /// Number of instructions of the machine code that all records stand for.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.entries
    }

    /// True when there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// All entries in the order of their instructions.
    pub fn records(&self) -> impl Iterator<Item = CapsuleRecord> + use<'d> {
        self.walk()
    }

    /// The fields of resolved relocations, in the order of `sites`: bytes of the section, or `None`
    /// if everything is in the machine code.
    ///
    /// `sites` are in ascending order of their instruction. Errors: records of this kind were never
    /// seen to take a value, or there is no instruction at that offset. The words name the record,
    /// the section names the function. Costs O(n) in entries and sites.
    pub fn fields(&self, sites: &[Site]) -> Result<Vec<Option<Range<usize>>>, Malformed> {
        let mut walk = self.walk();
        let mut record: Option<CapsuleRecord> = None;
        sites
            .iter()
            .map(|site| {
                let instruction = site.code / INSTRUCTION;
                while record.as_ref().is_none_or(|record| record.instructions.end <= instruction) {
                    record = Some(walk.next().ok_or_else(|| {
                        let what = format!("no record for the instruction at {:#x}", site.code);
                        Malformed::section(self.section, self.data.len() as u64, what)
                    })?);
                }
                let Some(record) = &record else { return Ok(None) };
                record.field(site.mercury, site.width).map_err(|what| {
                    Malformed::section(self.section, record.bytes.start as u64, what)
                })
            })
            .collect()
    }

    /// The loads from the slots of textures that add a register.
    ///
    /// Errors: such a load in a form that was never seen, or among several instructions. Costs O(n)
    /// in entries.
    pub fn image_loads(&self) -> Result<Vec<ImageLoad>, Malformed> {
        let mut loads = Vec::new();
        for record in self.walk() {
            let bytes = read::bytes(self.data, record.bytes.start, record.bytes.len());
            let bytes = bytes.unwrap_or_default();
            let unknown = || {
                let what = format!(
                    "record {} reads slots of textures in an unknown way, so its machine code cannot be placed",
                    record.number
                );
                Malformed::section(self.section, record.bytes.start as u64, what)
            };
            match record.kind {
                CapsuleForm::Elided | CapsuleForm::Short => {}
                CapsuleForm::Full if !reads_images(bytes) => {}
                CapsuleForm::Full => match (bytes.get(2), read::u16_at(bytes, 28), bytes.get(30..))
                {
                    (Some(&IN_REGISTER), Some(offset), Some([0, 0])) => {
                        let code = record.instructions.start * INSTRUCTION;
                        loads.push(ImageLoad { code, offset });
                    }
                    (Some(form), ..) if NUMBERS.contains(form) => {}
                    _ => return Err(unknown()),
                },
                CapsuleForm::Group => {
                    let mut rest = bytes.get(2..).unwrap_or_default();
                    while let Some(size) = rest.first().and_then(|&first| full_size(first)) {
                        if reads_images(rest.get(..size).unwrap_or_default()) {
                            return Err(unknown());
                        }
                        rest = rest.get(size..).unwrap_or_default();
                    }
                }
            }
        }
        Ok(loads)
    }

    fn bits(&self) -> Option<&'d [u8]> {
        let words = (self.entries as usize).div_ceil(32);
        read::bytes(self.data, self.head, words.checked_mul(4)?)
    }

    fn walk(&self) -> EntryWalk<'d> {
        let bits = self.bits().unwrap_or_default();
        EntryWalk {
            data: self.data,
            bits,
            entries: self.entries,
            number: 0,
            instruction: 0,
            at: self.head + bits.len(),
        }
    }
}

/// The place of a resolved relocation of Mercury code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// `r_offset` of its counterpart in the machine code.
    pub code: u64,
    /// Its own `r_offset`.
    pub mercury: u64,
    /// Bytes of its field.
    pub width: usize,
}

struct EntryWalk<'d> {
    data: &'d [u8],
    bits: &'d [u8],
    entries: u32,
    number: u32,
    instruction: u64,
    at: usize,
}

/// The bits of the last word that belong to no entry.
fn spare_bits(entries: u32) -> u32 {
    if entries.is_multiple_of(32) { 0 } else { u32::MAX << (entries % 32) }
}

/// True for an entry of which the table has only the bit.
fn is_elided(bits: &[u8], number: u32) -> Option<bool> {
    Some(read::u8_at(bits, number as usize / 8)? >> (number % 8) & 1 != 0)
}

/// Kind, bytes and instructions of the record at byte `at` of the section, if all of it is there.
fn record(data: &[u8], at: usize) -> Option<(CapsuleForm, usize, u64)> {
    let data = data.get(at..)?;
    let first = *data.first()?;
    let (kind, size, instructions) = match first & 0x50 {
        0x40 => (CapsuleForm::Short, 4, 1),
        0x50 => {
            let pairs = read::u8_at(data, 1)?;
            let mut size = 2;
            for _ in 0..first & 15 {
                size += full_size(read::u8_at(data, size)?)?;
            }
            (CapsuleForm::Group, size, 2 * u64::from(pairs) + u64::from(first >> 7))
        }
        _ => (CapsuleForm::Full, full_size(first)?, 1),
    };
    (size <= data.len()).then_some((kind, size, instructions))
}

/// True for the full record of a load from the slots of textures.
fn reads_images(record: &[u8]) -> bool {
    record.len() == LOAD_SIZE && record.starts_with(&LOAD) && record.get(12) == Some(&IMAGES)
}

/// Bytes of a full record that begins with `first`.
fn full_size(first: u8) -> Option<usize> {
    let size = usize::from(first & 15) * INSTRUCTION as usize;
    (first & 0x40 == 0 && size > 0).then_some(size)
}

impl Iterator for EntryWalk<'_> {
    type Item = CapsuleRecord;

    fn next(&mut self) -> Option<CapsuleRecord> {
        if self.number >= self.entries {
            return None;
        }
        let (kind, size, instructions) = match is_elided(self.bits, self.number)? {
            true => (CapsuleForm::Elided, 0, 1),
            false => record(self.data, self.at)?,
        };
        let record = CapsuleRecord {
            number: self.number,
            kind,
            instructions: self.instruction..self.instruction + instructions,
            bytes: self.at..self.at + size,
        };
        self.number += 1;
        self.instruction += instructions;
        self.at += size;
        Some(record)
    }
}

/// A section with these entries, elided ones being `None`; the index of its machine code is 0.
pub fn encode(entries: &[Option<&[u8]>]) -> Vec<u8> {
    let mut bits = vec![0u32; entries.len().div_ceil(32)];
    for (word, entries) in bits.iter_mut().zip(entries.chunks(32)) {
        let bit = |(bit, entry): (u32, &Option<_>)| u32::from(entry.is_none()) << bit;
        *word = (0..).zip(entries).map(bit).sum();
    }
    let mut out = Vec::new();
    let words = [0, MAGIC, entries.len() as u32].into_iter().chain(bits);
    words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    entries.iter().flatten().for_each(|record| out.extend_from_slice(record));
    out
}

/// The counterparts of Mercury relocations in the machine code. The k-th record against a symbol
/// with an addend matches the k-th of the machine code against that symbol with that addend, both
/// in ascending order of their places.
///
/// In: the records of one function that a linker resolves, of both halves, in any order. Out: one
/// record of the machine code for each of `mercury`, in that order; `None` if there is none.
pub fn counterparts(code: &[RelocEntry], mercury: &[RelocEntry]) -> Vec<Option<RelocEntry>> {
    type Key = (SymbolIndex, i64);
    let ascending = |records: &[RelocEntry]| {
        let mut order: Vec<usize> = (0..records.len()).collect();
        order.sort_by_key(|&i| records.get(i).map(|record| record.offset));
        order
    };
    let mut waiting: HashMap<Key, Vec<RelocEntry>> = HashMap::new();
    // From the last place to the first, so that the next counterpart is at the end of its list.
    for record in ascending(code).into_iter().rev().filter_map(|i| code.get(i)) {
        waiting.entry((record.symbol, record.addend)).or_default().push(*record);
    }
    let mut counterparts = vec![None; mercury.len()];
    for i in ascending(mercury) {
        if let (Some(record), Some(counterpart)) = (mercury.get(i), counterparts.get_mut(i)) {
            *counterpart = waiting.get_mut(&(record.symbol, record.addend)).and_then(Vec::pop);
        }
    }
    counterparts
}

#[cfg(test)]
mod tests;
