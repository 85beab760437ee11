//! The two notes of a cubin.
//!
//! `.note.nv.tkinfo` has one record per tool that made a part of the file, `.note.nv.cuinfo` one
//! record with what the driver needs to know. Layout of a record (words are little endian):
//!
//! ```text
//! 0   u32 12            name size
//! 4   u32 n             descriptor size, a multiple of 4
//! 8   u32 2000 | 1000   type: tkinfo | cuinfo
//! 12  "NVIDIA Corp\0"
//! 24  n bytes           descriptor
//! ```

use crate::elf::OSABI_CUDA_12;
use crate::error::Malformed;
use crate::read;

/// Vendor name of every record, with NUL.
pub const VENDOR: &[u8; 12] = b"NVIDIA Corp\0";
/// Type of a tool record.
pub const TYPE_TKINFO: u32 = 2000;
/// ELF type of the sections of both notes.
const SHT_NOTE: u32 = 7;
/// Version of the driver record in `.note.nv.cuver`.
const CUVER: u16 = 1;
/// Type of a driver record.
pub const TYPE_CUINFO: u32 = 1000;

/// Appends one record to `out`; the descriptor is padded with zeros to `size` bytes (rounded up
/// to 4) if it is shorter.
pub fn write_record(out: &mut Vec<u8>, note_type: u32, descriptor: &[u8], size: usize) {
    let size = descriptor.len().max(size).next_multiple_of(4);
    for word in [VENDOR.len() as u32, size as u32, note_type] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(VENDOR);
    out.extend_from_slice(descriptor);
    out.resize(out.len() + size - descriptor.len(), 0);
}

/// The record of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRecord {
    /// Name of the object made; empty unless debugging.
    pub object: String,
    /// Name of the tool.
    pub tool: String,
    /// Its release, in words.
    pub release: String,
    /// Its build.
    pub build: String,
    /// The options it ran with, normalised.
    pub options: String,
}

impl ToolRecord {
    /// Reads a descriptor; `None` for another version, or a string that does not end or is not
    /// UTF-8.
    pub fn parse(descriptor: &[u8]) -> Option<ToolRecord> {
        if read::u32_at(descriptor, 0) != Some(2) {
            return None;
        }
        let strings = descriptor.get(24..)?;
        let string = |i: usize| {
            let offset = read::u32_at(descriptor, 4 + 4 * i)? as usize;
            culd_text::utf8(read::c_str(strings, offset)?)
        };
        Some(ToolRecord {
            object: string(0)?,
            tool: string(1)?,
            release: string(2)?,
            build: string(3)?,
            options: string(4)?,
        })
    }

    /// The descriptor's bytes: version 2, five string offsets, five strings.
    pub fn descriptor(&self) -> Vec<u8> {
        let strings = [&self.object, &self.tool, &self.release, &self.build, &self.options];
        let mut out = 2u32.to_le_bytes().to_vec();
        let mut offset = 0u32;
        for string in strings {
            out.extend_from_slice(&offset.to_le_bytes());
            offset += string.len() as u32 + 1;
        }
        for string in strings {
            out.extend_from_slice(string.as_bytes());
            out.push(0);
        }
        out
    }
}

/// The driver record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CuInfo {
    /// Layout version, 2; 1 in `.note.nv.cuver` of CUDA 12.8 and 12.9.
    pub version: u16,
    /// The PTX target the code was made from (75, 90, ...).
    pub virtual_sm: u16,
    /// The toolkit release: 130 is 13.0. Version 1 has none, see [`release_of_cuda_12`].
    pub toolkit: u16,
}

impl CuInfo {
    /// Reads the first record of a `.note.nv.cuinfo` section called `section`.
    pub fn parse(section: &[u8], data: &[u8]) -> Result<CuInfo, Malformed> {
        let descriptor = read::bytes(data, 24, 6)
            .filter(|_| read::u32_at(data, 8) == Some(TYPE_CUINFO))
            .filter(|_| read::u32_at(data, 0) == Some(VENDOR.len() as u32));
        let half = |i: usize| descriptor.and_then(|bytes| read::u16_at(bytes, 2 * i));
        match (half(0), half(1), half(2)) {
            (Some(version), Some(virtual_sm), Some(toolkit)) => {
                Ok(CuInfo { version, virtual_sm, toolkit })
            }
            _ => Err(Malformed::section(section, 0, "no driver record (type 1000) in the note")),
        }
    }

    /// Appends the record to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut descriptor = Vec::with_capacity(8);
        for half in [self.version, self.virtual_sm, self.toolkit, 0] {
            descriptor.extend_from_slice(&half.to_le_bytes());
        }
        write_record(out, TYPE_CUINFO, &descriptor, 8);
    }

    /// Appends the record of `.note.nv.cuver` of CUDA 12.8 and 12.9 for code made from the PTX
    /// target `virtual_sm` to `out`.
    pub fn write_version(virtual_sm: u16, out: &mut Vec<u8>) {
        let mut descriptor = Vec::with_capacity(12);
        for half in [CUVER, virtual_sm, 1, 0, 1, 0] {
            descriptor.extend_from_slice(&half.to_le_bytes());
        }
        write_record(out, TYPE_CUINFO, &descriptor, 12);
    }
}

/// The release that made the cubin in `file`, as [`CuInfo::toolkit`] counts; `None` if the file
/// does not record it. Reads as little of the file as possible.
pub fn toolkit(file: &[u8]) -> Option<u16> {
    if *file.get(7)? == OSABI_CUDA_12 {
        return u16::try_from(read::u32_at(file, 20)?).ok();
    }
    // The bytes of a note, and the index of the section that belongs to it.
    let note = |index: usize| {
        let table = usize::try_from(read::u64_at(file, 40)?).ok()?;
        let header = read::bytes(file, table.checked_add(index.checked_mul(64)?)?, 64)?;
        (read::u32_at(header, 4)? == SHT_NOTE).then_some(())?;
        let offset = usize::try_from(read::u64_at(header, 24)?).ok()?;
        let size = usize::try_from(read::u64_at(header, 32)?).ok()?;
        Some((read::bytes(file, offset, size)?, read::u32_at(header, 40)? as usize))
    };
    let section = |index: usize| {
        let (bytes, tools) = note(index)?;
        let info = CuInfo::parse(b"", bytes).ok()?;
        if info.version == CUVER { release_of_cuda_12(note(tools)?.0) } else { Some(info.toolkit) }
    };
    // The flags of the file have the index of the note, unless it is behind many sections.
    let listed = usize::from(*file.get(51)?);
    section(listed).or_else(|| (0..usize::from(read::u16_at(file, 60)?)).find_map(section))
}

/// The release of CUDA 12 in the first record of a tool note, where it replaces the record's
/// version.
pub fn release_of_cuda_12(tools: &[u8]) -> Option<u16> {
    let record = first_record(tools).filter(|record| record.note_type == TYPE_TKINFO)?;
    let release = read::u32_at(record.descriptor, 0)?;
    u16::try_from(release).ok().filter(|release| (120..130).contains(release))
}

/// One record of a note section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteRecord<'d> {
    /// Type, see [`TYPE_TKINFO`] and [`TYPE_CUINFO`].
    pub note_type: u32,
    /// Vendor name, with NUL.
    pub vendor: &'d [u8],
    /// Descriptor, with its padding.
    pub descriptor: &'d [u8],
    /// All bytes of the record.
    pub bytes: &'d [u8],
}

/// The records of note section `section`, in file order. A record that is cut short ends them.
pub fn records<'d>(
    section: &'d [u8],
    data: &'d [u8],
) -> impl Iterator<Item = Result<NoteRecord<'d>, Malformed>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let tail = data.get(at..).filter(|tail| !tail.is_empty())?;
        let Some(record) = first_record(tail) else {
            let offset = at as u64;
            at = data.len();
            return Some(Err(Malformed::section(section, offset, "note record is cut short")));
        };
        at += record.bytes.len();
        Some(Ok(record))
    })
}

fn first_record(data: &[u8]) -> Option<NoteRecord<'_>> {
    let bytes = data.get(..first_record_len(data)?)?;
    let name = read::u32_at(data, 0)? as usize;
    let descriptor = read::u32_at(data, 4)? as usize;
    Some(NoteRecord {
        note_type: read::u32_at(data, 8)?,
        vendor: read::bytes(data, 12, name)?,
        descriptor: read::bytes(data, 12 + name.checked_next_multiple_of(4)?, descriptor)?,
        bytes,
    })
}

/// Name and options of the tool whose record is the first in a tool note.
pub fn first_tool(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let record = first_record(data).filter(|record| record.note_type == TYPE_TKINFO)?;
    let strings = record.descriptor.get(24..)?;
    let string = |number: usize| {
        let offset = read::u32_at(record.descriptor, 4 + 4 * number)? as usize;
        read::c_str(strings, offset)
    };
    Some((string(1)?, string(4)?))
}

/// The length in bytes of the first record of a note section, if it is whole.
pub fn first_record_len(data: &[u8]) -> Option<usize> {
    let name = read::u32_at(data, 0)? as usize;
    let descriptor = read::u32_at(data, 4)? as usize;
    let len =
        name.checked_next_multiple_of(4)?.checked_add(descriptor.checked_next_multiple_of(4)?)?;
    let len = len.checked_add(12)?;
    (len <= data.len()).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_record_names_the_tool() {
        let mut note = Vec::new();
        for (tool, options) in [("nvlink", "-arch sm_90 -r  "), ("ptxas", "-c ")] {
            let (tool, options) = (tool.to_owned(), options.to_owned());
            let record = ToolRecord { tool, options, ..ToolRecord::default() };
            write_record(&mut note, TYPE_TKINFO, &record.descriptor(), 0);
        }
        assert_eq!(first_tool(&note), Some((&b"nvlink"[..], &b"-arch sm_90 -r  "[..])));
        let first = first_record_len(&note).expect("a whole record");
        (0..first).for_each(|end| assert_eq!(first_tool(&note[..end]), None));
    }

    #[test]
    fn files_of_cuda_12_name_their_release() {
        let mut old = vec![0; 64];
        old[7] = OSABI_CUDA_12;
        old[20] = 124;
        assert_eq!(toolkit(&old), Some(124));
        old[23] = 1;
        assert_eq!(toolkit(&old), None);
        let mut tools = Vec::new();
        write_record(&mut tools, TYPE_TKINFO, &128u32.to_le_bytes(), 0);
        assert_eq!(release_of_cuda_12(&tools), Some(128));
        let mut tools = Vec::new();
        write_record(&mut tools, TYPE_TKINFO, &ToolRecord::default().descriptor(), 0);
        assert_eq!(release_of_cuda_12(&tools), None);
    }

    #[test]
    fn cuinfo_round_trips() {
        let info = CuInfo { version: 2, virtual_sm: 90, toolkit: 130 };
        let mut out = Vec::new();
        info.write(&mut out);
        assert_eq!(out.len(), 32);
        assert_eq!(CuInfo::parse(b".note.nv.cuinfo", &out), Ok(info));
        assert!(CuInfo::parse(b".note.nv.cuinfo", &out[..29]).is_err());
    }

    #[test]
    fn tool_record_is_padded_to_the_size_asked_for() {
        let record = ToolRecord { tool: "culd".into(), ..ToolRecord::default() };
        let descriptor = record.descriptor();
        let mut out = Vec::new();
        write_record(&mut out, TYPE_TKINFO, &descriptor, 101);
        assert_eq!(first_record_len(&out), Some(24 + 104));
        assert_eq!(out.len(), 24 + 104);
    }

    #[test]
    fn tool_records_are_read_back_and_damage_is_an_error() {
        let record = ToolRecord {
            tool: "culd".into(),
            options: "-arch sm_90 ".into(),
            ..ToolRecord::default()
        };
        let mut out = Vec::new();
        write_record(&mut out, TYPE_TKINFO, &record.descriptor(), 0);
        write_record(&mut out, TYPE_TKINFO, &[1, 2], 0);
        let all: Vec<_> = records(b"n", &out).map(Result::unwrap).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(ToolRecord::parse(all[0].descriptor), Some(record));
        assert_eq!(ToolRecord::parse(all[1].descriptor), None);
        let cut: Vec<_> = records(b"n", &out[..out.len() - 1]).collect();
        assert!(cut[0].is_ok() && cut[1].is_err() && cut.len() == 2);
    }
}
