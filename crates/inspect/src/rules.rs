//! Fields that a cubin's text form leaves out because they follow from others.
//!
//! In: the text's description of a section. Out: the value that a field has unless the text says
//! otherwise. The text form and the assembler share these rules; docs/TEXT-FORMAT.md lists them.

use std::collections::{HashMap, HashSet};

use culd_cubin::elf::{self, shf, sht};
use culd_cubin::encode::section_counts;
use culd_cubin::raw::SectionHeader;

/// `e_ident` of files made by CUDA 13 tools.
pub const IDENT: [u8; 16] =
    [0x7f, b'E', b'L', b'F', 2, 1, 1, elf::OSABI_CUDA, elf::ABI_VERSION, 0, 0, 0, 0, 0, 0, 0];

/// The section whose index stands in bits 24-31 of `e_flags`.
pub const CUINFO: &[u8] = b".note.nv.cuinfo";

/// The low byte of `e_flags` for SM number `sm`.
pub fn flags_kind(sm: u32) -> u32 {
    if sm >= 100 { 2 } else { 4 }
}

/// The name of the section that `sh_link` names.
pub fn link(sh_type: u32, flags: u64) -> Option<&'static [u8]> {
    match sh_type {
        sht::SYMTAB | sht::MERCURY_SYMTAB => Some(b".strtab"),
        sht::RELA | sht::REL | sht::CUDA_RESOLVED_RELA => Some(b".symtab"),
        sht::CUDA_INFO | sht::CUDA_CALLGRAPH | sht::CUDA_PROTOTYPE => Some(b".symtab"),
        sht::MERCURY_CODE | sht::MERCURY_RELA | sht::MERCURY_INFO | sht::MERCURY_RESOLVED_RELA => {
            Some(b".nv.merc.symtab")
        }
        sht::MERCURY_CALLGRAPH | sht::MERCURY_PROTOTYPE => Some(b".nv.merc.symtab"),
        _ if flags & shf::EXECINSTR != 0 => Some(b".symtab"),
        _ => None,
    }
}

/// True where `sh_info` is a section index.
pub fn info_is_section(sh_type: u32, flags: u64) -> bool {
    matches!(sh_type, sht::REL | sht::RELA) || flags & shf::INFO_LINK != 0
}

/// The start of a section, if the one before it ends at `end`.
pub fn section_offset(end: u64, align: u64) -> u64 {
    end.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX)
}

/// The start of the section header table, if the last section ends at `end`.
pub fn section_table(end: u64) -> u64 {
    section_offset(end, 8)
}

/// The start of the program header table: right behind the section headers.
pub fn segment_table(section_table: u64, sections: usize, segments: usize) -> u64 {
    if segments == 0 { 0 } else { section_table.saturating_add(64 * sections as u64) }
}

/// The last section whose bytes end at `end` of the file.
pub fn section_ending_at(sections: &[SectionHeader], end: u64) -> Option<usize> {
    sections.iter().enumerate().skip(1).rfind(|(_, raw)| ends_at(raw) == Some(end)).map(|at| at.0)
}

/// The end of a section's bytes, if it has any.
pub fn ends_at(raw: &SectionHeader) -> Option<u64> {
    let has_bytes = raw.sh_type != sht::NULL && !elf::is_nobits(raw.sh_type) && raw.size != 0;
    has_bytes.then(|| raw.offset.saturating_add(raw.size))
}

/// Section header 0 of a file with `count` sections.
pub fn null_section(count: usize) -> SectionHeader {
    let (_, size) = section_counts(count);
    SectionHeader { size, ..SectionHeader::default() }
}

/// The entries of string table `data`: every string with its offset, the empty one at 0 first.
/// `None` when the table does not start and end with a NUL.
pub fn strings(data: &[u8]) -> Option<Vec<&[u8]>> {
    data.strip_prefix(b"\0")?;
    let entries = data.strip_suffix(b"\0")?;
    Some(entries.split(|&byte| byte == 0).collect())
}

/// The place of the first whole entry of each string of a table.
#[derive(Debug, Clone, Default)]
pub struct StringIndex<'d> {
    offsets: HashMap<&'d [u8], u32>,
}

impl<'d> StringIndex<'d> {
    /// Indexes `data`.
    pub fn new(data: &'d [u8]) -> Self {
        let mut offsets = HashMap::new();
        let mut at = 0;
        for string in data.split(|&byte| byte == 0) {
            offsets.entry(string).or_insert(at as u32);
            at += string.len() + 1;
        }
        StringIndex { offsets }
    }

    /// The offset that stands for `string`.
    pub fn offset(&self, string: &[u8]) -> Option<u32> {
        self.offsets.get(string).copied()
    }
}

/// The names that `rest` stands for: those of `names` that are not empty and not in `before`, each
/// once.
pub fn rest<'n>(names: &[&'n [u8]], before: &[&[u8]]) -> Vec<&'n [u8]> {
    let mut seen: HashSet<&[u8]> = before.iter().copied().collect();
    let new = |name: &&'n [u8]| !name.is_empty() && seen.insert(name);
    names.iter().copied().filter(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_tables_split_into_entries() {
        assert_eq!(strings(b"\0a\0\0b\0").unwrap(), [&b""[..], b"a", b"", b"b"]);
        assert_eq!(strings(b"\0").unwrap(), [b""]);
        assert_eq!(strings(b"a\0"), None);
        assert_eq!(strings(b"\0a"), None);
        assert_eq!(strings(b""), None);
        let index = StringIndex::new(b"\0a\0\0b\0a\0");
        assert_eq!([&b"a"[..], b"b", b""].map(|s| index.offset(s)), [Some(1), Some(4), Some(0)]);
    }

    #[test]
    fn rest_is_what_has_not_been_named() {
        let names: [&[u8]; 5] = [b"", b"a", b"b", b"a", b"c"];
        assert_eq!(rest(&names, &[b"b"]), [b"a", b"c"]);
    }
}
