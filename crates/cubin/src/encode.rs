//! The fixed-size structures of an output file, written field by field.
//!
//! In: plain numbers. Out: bytes appended to a buffer. Nothing is decided here.

use object::LittleEndian as Le;
use object::elf::{Rel64, Rela64, SectionHeader64, Sym64};
use object::endian::{I64, U16, U32, U64};
use object::pod::{Pod, bytes_of};

use crate::elf;

/// `EI_OSABI`, `EI_ABIVERSION` and `e_version` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abi {
    /// The header of CUDA 13, and of CUDA 12.8 and 12.9 for sm_100 and later.
    Current,
    /// The header of CUDA 12 and older for sm_90a and older.
    Old {
        /// The release in the header: 124 is 12.4.
        release: u16,
    },
}

/// The ELF header. Section counts that do not fit go into section header 0, see [`section_counts`].
#[derive(Debug, Clone, Copy)]
pub struct FileHeader {
    /// The version of CUDA's ABI.
    pub abi: Abi,
    /// `e_type`.
    pub e_type: u16,
    /// `e_flags`.
    pub flags: u32,
    /// File offset of the program headers, bytes.
    pub program_headers: u64,
    /// Number of program headers.
    pub program_header_count: u16,
    /// `e_phentsize`: 56, or 0 in objects of sm_100 and later.
    pub program_header_size: u16,
    /// File offset of the section headers, bytes.
    pub section_headers: u64,
    /// Number of section headers.
    pub section_count: usize,
    /// Index of the section name table.
    pub section_names: u16,
}

/// The first section index that does not fit `st_shndx`. A larger section count does not fit
/// `e_shnum`.
pub const RESERVED_INDEX: usize = 0xff00;

/// `e_shnum`, and `sh_size` of section header 0. NVIDIA's tools write a count of exactly 0xff00
/// into `e_shnum` (docs/LINKING.md, large programs).
pub fn section_counts(section_count: usize) -> (u16, u64) {
    match u16::try_from(section_count) {
        Ok(count) if section_count <= RESERVED_INDEX => (count, 0),
        _ => (0, section_count as u64),
    }
}

impl FileHeader {
    /// The 64 bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(b"\x7fELF\x02\x01\x01");
        let (os_abi, abi_version, version) = match self.abi {
            Abi::Current => (elf::OSABI_CUDA, elf::ABI_VERSION, 1),
            Abi::Old { release } => (elf::OSABI_CUDA_12, elf::ABI_VERSION_12, release.into()),
        };
        out.extend_from_slice(&[os_abi, abi_version, 0, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&self.e_type.to_le_bytes());
        out.extend_from_slice(&elf::EM_CUDA.to_le_bytes());
        out.extend_from_slice(&u32::to_le_bytes(version));
        for word in [0, self.program_headers, self.section_headers] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.flags.to_le_bytes());
        let (count, _) = section_counts(self.section_count);
        for half in
            [64, self.program_header_size, self.program_header_count, 64, count, self.section_names]
        {
            out.extend_from_slice(&half.to_le_bytes());
        }
        out
    }
}

/// One section header.
#[derive(Debug, Clone, Copy, Default)]
pub struct SectionHeader {
    /// Offset of the name in the section name table, bytes.
    pub name: u32,
    /// `sh_type`.
    pub sh_type: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// File offset, bytes.
    pub offset: u64,
    /// Size, bytes.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// Alignment, bytes.
    pub align: u64,
    /// Size of a record, bytes.
    pub entsize: u64,
}

impl SectionHeader {
    /// The 64 bytes.
    pub fn bytes(&self) -> [u8; 64] {
        let raw = SectionHeader64::<Le> {
            sh_name: U32::new(Le, self.name),
            sh_type: U32::new(Le, object::elf::SectionType(self.sh_type)),
            sh_flags: U64::new(Le, object::elf::SectionFlags(self.flags)),
            sh_addr: U64::new(Le, 0),
            sh_offset: U64::new(Le, self.offset),
            sh_size: U64::new(Le, self.size),
            sh_link: U32::new(Le, self.link),
            sh_info: U32::new(Le, self.info),
            sh_addralign: U64::new(Le, self.align),
            sh_entsize: U64::new(Le, self.entsize),
        };
        array(&raw)
    }

    /// Appends the 64 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }
}

/// Section header 0 of a file with `section_count` sections: all zero, or the overflow form.
pub fn null_section(section_count: usize) -> SectionHeader {
    let (_, size) = section_counts(section_count);
    SectionHeader { size, ..SectionHeader::default() }
}

/// One symbol.
#[derive(Debug, Clone, Copy, Default)]
pub struct SymbolEntry {
    /// Offset of the name in the string table, bytes.
    pub name: u32,
    /// `st_info`.
    pub info: u8,
    /// `st_other`.
    pub other: u8,
    /// `st_shndx`.
    pub section: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

impl SymbolEntry {
    /// The 24 bytes.
    pub fn bytes(&self) -> [u8; 24] {
        let raw = Sym64::<Le> {
            st_name: U32::new(Le, self.name),
            st_info: object::elf::SymbolInfo(self.info),
            st_other: object::elf::SymbolOther(self.other),
            st_shndx: U16::new(Le, object::elf::SymbolSection(self.section)),
            st_value: U64::new(Le, self.value),
            st_size: U64::new(Le, self.size),
        };
        array(&raw)
    }

    /// Appends the 24 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }
}

/// The bytes of a structure of `N` bytes.
fn array<T: Pod, const N: usize>(raw: &T) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(bytes_of(raw));
    bytes
}

/// One RELA record.
pub fn rela(offset: u64, symbol: u32, kind: u32, addend: i64) -> [u8; 24] {
    let raw = Rela64::<Le> {
        r_offset: U64::new(Le, offset),
        r_info: U64::new(Le, u64::from(symbol) << 32 | u64::from(kind)),
        r_addend: I64::new(Le, addend),
    };
    array(&raw)
}

/// One REL record.
pub fn rel(offset: u64, symbol: u32, kind: u32) -> [u8; 16] {
    let raw = Rel64::<Le> {
        r_offset: U64::new(Le, offset),
        r_info: U64::new(Le, u64::from(symbol) << 32 | u64::from(kind)),
    };
    array(&raw)
}

/// Appends one RELA record of 24 bytes.
pub fn write_rela(out: &mut Vec<u8>, offset: u64, symbol: u32, kind: u32, addend: i64) {
    out.extend_from_slice(&rela(offset, symbol, kind, addend));
}

/// Appends one REL record of 16 bytes.
pub fn write_rel(out: &mut Vec<u8>, offset: u64, symbol: u32, kind: u32) {
    out.extend_from_slice(&rel(offset, symbol, kind));
}

/// One program header.
#[derive(Debug, Clone, Copy)]
pub struct ProgramHeader {
    /// `p_type`.
    pub p_type: u32,
    /// `p_flags`.
    pub flags: u32,
    /// File offset, bytes.
    pub offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
}

impl ProgramHeader {
    /// Appends the 56 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.p_type.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        for word in [self.offset, 0, 0, self.file_size, self.memory_size, 8] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}
