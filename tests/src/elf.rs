//! Overwrites single fields of a good cubin.
//!
//! In: the bytes of a well-formed file. Out: the same bytes with one field changed. Guaranteed:
//! nothing else changes. A missing section, symbol or field is a mistake in the test and panics.

use culd_cubin::Cubin;
use std::ops::Range;

/// A field by its offset in the record and its size in bytes.
pub type FieldPlace = (usize, usize);

/// `e_shoff`.
pub const E_SHOFF: FieldPlace = (40, 8);
/// `e_shentsize`.
pub const E_SHENTSIZE: FieldPlace = (58, 2);
/// `e_shnum`.
pub const E_SHNUM: FieldPlace = (60, 2);
/// `e_shstrndx`.
pub const E_SHSTRNDX: FieldPlace = (62, 2);
/// `sh_name`.
pub const SH_NAME: FieldPlace = (0, 4);
/// `sh_type`.
pub const SH_TYPE: FieldPlace = (4, 4);
/// `sh_flags`.
pub const SH_FLAGS: FieldPlace = (8, 8);
/// `sh_offset`.
pub const SH_OFFSET: FieldPlace = (24, 8);
/// `sh_size`.
pub const SH_SIZE: FieldPlace = (32, 8);
/// `sh_link`.
pub const SH_LINK: FieldPlace = (40, 4);
/// `sh_info`.
pub const SH_INFO: FieldPlace = (44, 4);
/// `sh_addralign`.
pub const SH_ADDRALIGN: FieldPlace = (48, 8);
/// `sh_entsize`.
pub const SH_ENTSIZE: FieldPlace = (56, 8);
/// `st_name`.
pub const ST_NAME: FieldPlace = (0, 4);
/// `st_shndx`.
pub const ST_SHNDX: FieldPlace = (6, 2);
/// Type and binding of a symbol: place and size.
pub const ST_INFO: FieldPlace = (4, 1);
/// Visibility and CUDA's flags.
pub const ST_OTHER: FieldPlace = (5, 1);
/// `st_value`.
pub const ST_VALUE: FieldPlace = (8, 8);
/// `st_size`.
pub const ST_SIZE: FieldPlace = (16, 8);

const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;

/// A file to damage.
#[derive(Clone, Debug)]
pub struct Editor {
    /// The whole file.
    pub bytes: Vec<u8>,
}

impl Editor {
    /// An editor of `bytes`, a well-formed cubin.
    pub fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec() }
    }

    /// Overwrites the field at `base`.
    pub fn put(&mut self, base: usize, (at, size): FieldPlace, value: u64) -> &mut Self {
        self.bytes[base + at..base + at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        self
    }

    /// The field at `base`.
    pub fn get(&self, base: usize, (at, size): FieldPlace) -> u64 {
        let mut value = [0; 8];
        value[..size].copy_from_slice(&self.bytes[base + at..base + at + size]);
        u64::from_le_bytes(value)
    }

    /// Overwrites a field of the file header.
    pub fn header(&mut self, field: FieldPlace, value: u64) -> &mut Self {
        self.put(0, field, value)
    }

    /// Overwrites a field of the header of the first section called `name`.
    pub fn section(&mut self, name: &str, field: FieldPlace, value: u64) -> &mut Self {
        let base = self.section_header(name);
        self.put(base, field, value)
    }

    /// Overwrites a field of the first symbol called `name`.
    pub fn symbol(&mut self, name: &str, field: FieldPlace, value: u64) -> &mut Self {
        let base = self.content(".symtab").start + SYMBOL * self.symbol_index(name);
        self.put(base, field, value)
    }

    /// Overwrites a field of the contents of the first section called `name`.
    pub fn inside(&mut self, name: &str, field: FieldPlace, value: u64) -> &mut Self {
        let base = self.content(name).start;
        self.put(base, field, value)
    }

    /// The place of the header of the first section called `name`.
    pub fn section_header(&self, name: &str) -> usize {
        self.get(0, E_SHOFF) as usize + SECTION_HEADER * self.section_index(name)
    }

    /// The place of the contents of the first section called `name`.
    pub fn content(&self, name: &str) -> Range<usize> {
        let base = self.section_header(name);
        let start = self.get(base, SH_OFFSET) as usize;
        start..start + self.get(base, SH_SIZE) as usize
    }

    /// Index of the first section called `name`.
    pub fn section_index(&self, name: &str) -> usize {
        let cubin = self.parse();
        let mut sections = cubin.sections.iter();
        sections.position(|section| section.name == name.as_bytes()).expect(name)
    }

    /// Index of the first symbol called `name`.
    pub fn symbol_index(&self, name: &str) -> usize {
        let cubin = self.parse();
        cubin.symbols.iter().position(|symbol| symbol.name == name.as_bytes()).expect(name)
    }

    fn parse(&self) -> Cubin<'_> {
        Cubin::parse(&self.bytes).expect("edits are looked up before the file is damaged")
    }
}
