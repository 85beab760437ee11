//! The header tables of a file, every field as it stands.
//!
//! In: the bytes of a cubin. Out: [`Tables`]. Guaranteed: the tables lie in the file; no field is
//! checked beyond that. Tools that show or remake a whole file use this; the linker reads
//! [`crate::Cubin`].

use crate::error::Malformed;
use crate::read;

/// A field of a header structure: little-endian bytes.
trait HeaderField: Sized {
    fn read(data: &[u8], at: &mut usize) -> Option<Self>;
    fn write(&self, out: &mut Vec<u8>);
}

impl<const N: usize> HeaderField for [u8; N] {
    fn read(data: &[u8], at: &mut usize) -> Option<Self> {
        let value = read::bytes(data, *at, N)?.try_into().ok()?;
        *at += N;
        Some(value)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

macro_rules! number_field {
    ($($number:ty)*) => {
        $(impl HeaderField for $number {
            fn read(data: &[u8], at: &mut usize) -> Option<Self> {
                HeaderField::read(data, at).map(<$number>::from_le_bytes)
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

number_field!(u8 u16 u32 u64);

macro_rules! layout {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }

        impl $name {
            /// Size in bytes.
            pub const SIZE: usize = 0 $(+ size_of::<$kind>())*;

            /// Reads the structure at byte `at` of `data`, if it is all there.
            pub fn read(data: &[u8], at: usize) -> Option<Self> {
                let mut at = at;
                Some($name { $($field: HeaderField::read(data, &mut at)?,)* })
            }

            /// Appends the structure's bytes to `out`.
            pub fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)*
            }
        }
    };
}

layout! {
    /// The ELF header.
    FileHeader {
        /// `e_ident`.
        ident: [u8; 16],
        /// `e_type`.
        e_type: u16,
        /// `e_machine`.
        machine: u16,
        /// `e_version`.
        version: u32,
        /// `e_entry`.
        entry: u64,
        /// `e_phoff`.
        phoff: u64,
        /// `e_shoff`.
        shoff: u64,
        /// `e_flags`.
        flags: u32,
        /// `e_ehsize`.
        ehsize: u16,
        /// `e_phentsize`.
        phentsize: u16,
        /// `e_phnum`.
        phnum: u16,
        /// `e_shentsize`.
        shentsize: u16,
        /// `e_shnum`.
        shnum: u16,
        /// `e_shstrndx`.
        shstrndx: u16,
    }
}

layout! {
    /// One section header.
    SectionHeader {
        /// `sh_name`.
        name: u32,
        /// `sh_type`.
        sh_type: u32,
        /// `sh_flags`.
        flags: u64,
        /// `sh_addr`.
        addr: u64,
        /// `sh_offset`.
        offset: u64,
        /// `sh_size`.
        size: u64,
        /// `sh_link`.
        link: u32,
        /// `sh_info`.
        info: u32,
        /// `sh_addralign`.
        align: u64,
        /// `sh_entsize`.
        entsize: u64,
    }
}

layout! {
    /// One program header.
    Segment {
        /// `p_type`.
        p_type: u32,
        /// `p_flags`.
        flags: u32,
        /// `p_offset`.
        offset: u64,
        /// `p_vaddr`.
        vaddr: u64,
        /// `p_paddr`.
        paddr: u64,
        /// `p_filesz`.
        file_size: u64,
        /// `p_memsz`.
        memory_size: u64,
        /// `p_align`.
        align: u64,
    }
}

layout! {
    /// One symbol.
    SymbolEntry {
        /// `st_name`.
        name: u32,
        /// `st_info`.
        info: u8,
        /// `st_other`.
        other: u8,
        /// `st_shndx`.
        section: u16,
        /// `st_value`.
        value: u64,
        /// `st_size`.
        size: u64,
    }
}

/// The header tables of one file.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// The ELF header.
    pub header: FileHeader,
    /// All section headers.
    pub sections: Vec<SectionHeader>,
    /// All program headers.
    pub segments: Vec<Segment>,
}

impl Tables {
    /// Reads the tables of `data`. Errors: a table that runs past the end of the file.
    pub fn parse(data: &[u8]) -> Result<Tables, Malformed> {
        let header = FileHeader::read(data, 0)
            .ok_or_else(|| Malformed::file(0, "the file is too short for an ELF header"))?;
        let first = (header.shoff != 0)
            .then(|| SectionHeader::read(data, usize::try_from(header.shoff).ok()?))
            .flatten();
        let count = match (header.shnum, first) {
            (0, Some(first)) => first.size,
            (n, _) => u64::from(n),
        };
        let sections = table(data, header.shoff, count, SectionHeader::SIZE, SectionHeader::read)
            .ok_or_else(|| past_the_end(header.shoff, "section"))?;
        let count = u64::from(header.phnum);
        let segments = table(data, header.phoff, count, Segment::SIZE, Segment::read)
            .ok_or_else(|| past_the_end(header.phoff, "program"))?;
        Ok(Tables { header, sections, segments })
    }
}

fn past_the_end(at: u64, kind: &str) -> Malformed {
    Malformed::file(at, format!("{kind} header table runs past the end"))
}

/// `count` structures of `size` bytes at `at`.
fn table<T>(
    data: &[u8],
    at: u64,
    count: u64,
    size: usize,
    read: fn(&[u8], usize) -> Option<T>,
) -> Option<Vec<T>> {
    let (at, count) = (usize::try_from(at).ok()?, usize::try_from(count).ok()?);
    // The whole range is looked at first: a bad count must not reserve memory.
    read::bytes(data, at, count.checked_mul(size)?)?;
    (0..count).map(|i| read(data, at + size * i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_their_elf_sizes_and_round_trip() {
        assert_eq!(
            [FileHeader::SIZE, SectionHeader::SIZE, Segment::SIZE, SymbolEntry::SIZE],
            [64, 64, 56, 24]
        );
        let bytes: Vec<u8> = (0..64).collect();
        let mut out = Vec::new();
        FileHeader::read(&bytes, 0).unwrap().write(&mut out);
        assert_eq!(out, bytes);
        out.clear();
        SectionHeader::read(&bytes, 0).unwrap().write(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Segment::read(&bytes, 9), None);
    }

    #[test]
    fn tables_past_the_end_are_errors() {
        let mut bytes = Vec::new();
        let header = FileHeader { shoff: 64, shnum: 1, ..FileHeader::default() };
        header.write(&mut bytes);
        assert!(Tables::parse(&bytes).is_err());
        SectionHeader::default().write(&mut bytes);
        assert_eq!(Tables::parse(&bytes).unwrap().sections.len(), 1);
        let many = FileHeader { phoff: u64::MAX, phnum: 2, ..FileHeader::default() };
        bytes.clear();
        many.write(&mut bytes);
        assert!(Tables::parse(&bytes).is_err());
    }
}
