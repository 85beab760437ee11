//! Sections and strings of an object in the making.
//!
//! In: sections one by one. Out: the bytes of a file. Guaranteed: names stand once in their table; sections are aligned.

use std::collections::HashMap;

use super::BuildError;
use crate::elf::sht;
use crate::encode::{FileHeader, SectionHeader, null_section};

/// A string table; the empty string is at 0.
#[derive(Debug, Default)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    offsets: HashMap<String, u32>,
}

impl Strings {
    pub(super) fn new() -> Self {
        Strings { bytes: vec![0], offsets: HashMap::from([(String::new(), 0)]) }
    }

    pub(super) fn add(&mut self, text: &str) -> u32 {
        if let Some(&offset) = self.offsets.get(text) {
            return offset;
        }
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.offsets.insert(text.to_owned(), offset);
        offset
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A section.
#[derive(Debug, Clone, Default)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) sh_type: u32,
    pub(super) flags: u64,
    pub(super) data: Vec<u8>,
    /// Bytes of one that has none in the file.
    pub(super) size: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) align: u64,
    pub(super) entsize: u64,
}

/// Sections by index; 0 is the empty one, 1 to 3 are the tables.
#[derive(Debug)]
pub(super) struct Sections {
    all: Vec<Section>,
}

/// The index of the section name table.
pub(super) const NAMES: u32 = 1;
/// The index of the string table.
pub(super) const STRINGS: u32 = 2;
/// The index of the symbol table.
pub(super) const SYMBOLS: u32 = 3;

/// The first index that stands for something else.
const RESERVED: usize = 0xff00;

impl Sections {
    pub(super) fn new() -> Self {
        let table = |name: &str, sh_type, align, entsize| Section {
            name: name.to_owned(),
            sh_type,
            align,
            entsize,
            ..Section::default()
        };
        let symbols = Section { link: STRINGS, ..table(".symtab", sht::SYMTAB, 8, 24) };
        let all = vec![
            Section::default(),
            table(".shstrtab", sht::STRTAB, 1, 0),
            table(".strtab", sht::STRTAB, 1, 0),
            symbols,
        ];
        Sections { all }
    }

    pub(super) fn add(&mut self, section: Section) -> u32 {
        self.all.push(section);
        (self.all.len() - 1) as u32
    }

    pub(super) fn get(&mut self, index: u32) -> Option<&mut Section> {
        self.all.get_mut(index as usize)
    }

    /// The file; `flags` are those of its header, but for the index of the driver's note.
    pub(super) fn write(
        mut self,
        strings: Vec<u8>,
        flags: u32,
        phentsize: u16,
    ) -> Result<Vec<u8>, BuildError> {
        if self.all.len() >= RESERVED {
            return Err(BuildError::TooLarge);
        }
        let mut names = Strings::new();
        let offsets: Vec<u32> = self.all.iter().map(|section| names.add(&section.name)).collect();
        for (index, data) in [(NAMES, names.into_bytes()), (STRINGS, strings)] {
            if let Some(section) = self.get(index) {
                section.data = data;
            }
        }
        let mut out = vec![0; 64];
        let mut headers: Vec<SectionHeader> = Vec::with_capacity(self.all.len());
        for (section, name) in self.all.iter().zip(offsets) {
            let Section { sh_type, flags, size, link, info, align, entsize, .. } = *section;
            if sh_type == sht::NULL {
                headers.push(null_section(self.all.len()));
                continue;
            }
            out.resize(out.len().next_multiple_of(align.max(1) as usize), 0);
            let (offset, size) = (out.len() as u64, size.max(section.data.len() as u64));
            out.extend_from_slice(&section.data);
            headers.push(SectionHeader {
                name,
                sh_type,
                flags,
                offset,
                size,
                link,
                info,
                align,
                entsize,
            });
        }
        out.resize(out.len().next_multiple_of(8), 0);
        let header = FileHeader {
            e_type: 1,
            flags,
            program_headers: 0,
            program_header_count: 0,
            program_header_size: phentsize,
            section_headers: out.len() as u64,
            section_count: self.all.len(),
            section_names: NAMES as u16,
        };
        headers.iter().for_each(|header| header.write(&mut out));
        for (place, byte) in out.iter_mut().zip(header.bytes()) {
            *place = byte;
        }
        Ok(out)
    }
}
