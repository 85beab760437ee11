//! The two headers of a fat binary, every field as it stands.
//!
//! In: bytes. Out: [`ContainerHeader`], [`EntryHeader`], and bytes again. Guaranteed: both
//! directions are exact; no field is checked here.

use crate::read;

/// First word of a container.
pub const MAGIC: u32 = 0xba55_ed50;
/// Bytes in front of the first entry.
pub const CONTAINER_HEADER: usize = 16;
/// Bytes of an entry's header in front of its identifier and options.
pub const ENTRY_HEADER: usize = 64;
/// Containers, entries and payloads start at multiples of this.
pub const ALIGN: usize = 8;
/// [`EntryHeader::version`] as `fatbinary` writes it.
pub const ENTRY_VERSION: u16 = 0x0101;

/// Values of [`EntryHeader::kind`].
pub mod kind {
    /// PTX text.
    pub const PTX: u16 = 1;
    /// A cubin.
    pub const ELF: u16 = 2;
    /// LTO-IR.
    pub const LTO_IR: u16 = 8;
}

/// Bits of [`EntryHeader::flags`].
pub mod flag {
    /// Addresses have 64 bits. nvlink passes over entries without it.
    pub const BITS_64: u64 = 0x1;
    /// Compiled for debugging.
    pub const DEBUG: u64 = 0x2;
    /// The host is Linux.
    pub const LINUX: u64 = 0x10;
    /// The payload is an LZ4 block.
    pub const LZ4: u64 = 0x2000;
    /// The payload is a zstd frame.
    pub const ZSTD: u64 = 0x8000;
    /// The payload is compressed LTO-IR that was scrambled with [`super::EntryHeader::seed`].
    pub const SCRAMBLED: u64 = 0x1_0000;
    /// For exactly this SM number: `sm_90a`.
    pub const ACCELERATED: u64 = 0x10_0000;
    /// For the family of this SM number: `sm_100f`.
    pub const FAMILY: u64 = 0x20_0000;
    /// The option record is the contents of the cubin's `.nv.compat`.
    pub const COMPAT: u64 = 0x100_0000;
}

/// The 16 bytes in front of a container's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerHeader {
    /// [`MAGIC`].
    pub magic: u32,
    /// 1.
    pub version: u16,
    /// Size of this header.
    pub header_size: u16,
    /// Bytes of all entries.
    pub body_size: u64,
}

impl ContainerHeader {
    /// Reads the header at `at`, if it is all there.
    pub fn read(data: &[u8], at: usize) -> Option<Self> {
        let data = read::bytes(data, at, CONTAINER_HEADER)?;
        Some(ContainerHeader {
            magic: read::u32_at(data, 0)?,
            version: read::u16_at(data, 4)?,
            header_size: read::u16_at(data, 6)?,
            body_size: read::u64_at(data, 8)?,
        })
    }

    /// Appends the header's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.magic.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.header_size.to_le_bytes());
        out.extend_from_slice(&self.body_size.to_le_bytes());
    }
}

/// The first 64 bytes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryHeader {
    /// The kind of the image, [`kind`].
    pub kind: u16,
    /// [`ENTRY_VERSION`]; nvlink accepts any.
    pub version: u16,
    /// Bytes in front of the payload: this header, identifier, options.
    pub header_size: u32,
    /// Stored bytes of the payload, padding included.
    pub payload_size: u64,
    /// Exact bytes of the compressed payload, 0 when it is not compressed.
    pub compressed_size: u32,
    /// Offset of the option record from the start of the entry, 0 when there is none.
    pub options_offset: u32,
    /// Minor number of the format's version.
    pub minor: u16,
    /// Major number: of a cubin's ELF header and ABI (1.8), of PTX (9.0), of LTO-IR (1.65).
    pub major: u16,
    /// The SM number.
    pub sm: u32,
    /// Offset of the identifier from the start of the entry, 0 when there is none.
    pub ident_offset: u32,
    /// Bytes of the identifier.
    pub ident_size: u32,
    /// [`flag`].
    pub flags: u64,
    /// Of scrambled LTO-IR; otherwise 0.
    pub seed: u64,
    /// Exact bytes of the image, 0 when it is not compressed.
    pub uncompressed_size: u64,
}

impl EntryHeader {
    /// Reads the header at `at`, if it is all there.
    pub fn read(data: &[u8], at: usize) -> Option<Self> {
        let data = read::bytes(data, at, ENTRY_HEADER)?;
        Some(EntryHeader {
            kind: read::u16_at(data, 0)?,
            version: read::u16_at(data, 2)?,
            header_size: read::u32_at(data, 4)?,
            payload_size: read::u64_at(data, 8)?,
            compressed_size: read::u32_at(data, 16)?,
            options_offset: read::u32_at(data, 20)?,
            minor: read::u16_at(data, 24)?,
            major: read::u16_at(data, 26)?,
            sm: read::u32_at(data, 28)?,
            ident_offset: read::u32_at(data, 32)?,
            ident_size: read::u32_at(data, 36)?,
            flags: read::u64_at(data, 40)?,
            seed: read::u64_at(data, 48)?,
            uncompressed_size: read::u64_at(data, 56)?,
        })
    }

    /// Appends the header's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.kind.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.header_size.to_le_bytes());
        out.extend_from_slice(&self.payload_size.to_le_bytes());
        out.extend_from_slice(&self.compressed_size.to_le_bytes());
        out.extend_from_slice(&self.options_offset.to_le_bytes());
        out.extend_from_slice(&self.minor.to_le_bytes());
        out.extend_from_slice(&self.major.to_le_bytes());
        out.extend_from_slice(&self.sm.to_le_bytes());
        out.extend_from_slice(&self.ident_offset.to_le_bytes());
        out.extend_from_slice(&self.ident_size.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&self.uncompressed_size.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_their_sizes_and_round_trip() {
        let bytes: Vec<u8> = (0..64).collect();
        let mut out = Vec::new();
        EntryHeader::read(&bytes, 0).unwrap().write(&mut out);
        assert_eq!(out, bytes);
        out.clear();
        ContainerHeader::read(&bytes, 3).unwrap().write(&mut out);
        assert_eq!(out, bytes[3..19]);
        assert_eq!(EntryHeader::read(&bytes, 1), None);
        assert_eq!(ContainerHeader::read(&bytes, usize::MAX), None);
    }
}
