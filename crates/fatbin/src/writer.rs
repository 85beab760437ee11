//! Fat binaries made of images.
//!
//! In: [`InputImage`] values, made of files or of read entries. Out: the bytes of one container.
//! Guaranteed: what was read and is not damaged is written with the same bytes; an image of a file
//! is written as `fatbinary` 13.0 writes it, compressed or not, but for scrambled LTO-IR.

use crate::compress;
use crate::container::{FatbinEntry, ImageKind, Variant};
use crate::error::Error;
use crate::header::{
    ALIGN, CONTAINER_HEADER, ContainerHeader, ENTRY_HEADER, ENTRY_VERSION, EntryHeader, MAGIC, flag,
};
use crate::ptx;
use crate::read;
use crate::sections;

/// From this SM number on an entry repeats its cubin's `.nv.compat`.
const COMPAT_SINCE: u32 = 100;

/// The target of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageTarget {
    /// The SM number.
    pub sm: u32,
    /// The letter behind it.
    pub variant: Variant,
}

impl ImageTarget {
    /// `sm_<sm>`.
    pub fn sm(sm: u32) -> Self {
        ImageTarget { sm, variant: Variant::Plain }
    }

    /// `sm_<sm>a`.
    pub fn accelerated(sm: u32) -> Self {
        ImageTarget { sm, variant: Variant::Accelerated }
    }

    /// `sm_<sm>f`.
    pub fn family(sm: u32) -> Self {
        ImageTarget { sm, variant: Variant::Family }
    }
}

/// The compression of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// As an LZ4 block, `fatbinary -compress-mode speed`.
    Lz4,
    /// As a zstd frame of level 5, `fatbinary -compress-mode default` and `balance`.
    Zstd,
    /// As a zstd frame of level 19, `fatbinary -compress-mode size`.
    ZstdSmall,
}

/// An entry to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputImage {
    /// Sizes and offsets are not looked at: they follow from the parts below.
    header: EntryHeader,
    ident: Vec<u8>,
    options: Option<Vec<u8>>,
    /// Without padding.
    payload: Vec<u8>,
}

impl InputImage {
    /// An image of any kind, with a version (major, minor) and no options.
    pub fn new(
        kind: ImageKind,
        version: (u16, u16),
        target: ImageTarget,
        data: impl Into<Vec<u8>>,
    ) -> Self {
        let variant = match target.variant {
            Variant::Plain => 0,
            Variant::Family => flag::FAMILY,
            Variant::Accelerated => flag::ACCELERATED,
        };
        let header = EntryHeader {
            kind: kind.into(),
            version: ENTRY_VERSION,
            major: version.0,
            minor: version.1,
            sm: target.sm,
            flags: flag::BITS_64 | flag::LINUX | variant,
            ..EntryHeader::default()
        };
        InputImage { header, ident: Vec::new(), options: None, payload: data.into() }
    }

    /// A cubin. From sm_100 on its `.nv.compat` becomes the option record.
    ///
    /// # Errors
    /// Not an ELF file.
    pub fn cubin(data: impl Into<Vec<u8>>, target: ImageTarget) -> Result<Self, Error> {
        let data = data.into();
        let ident: [u8; 16] = read::array(&data, 0).unwrap_or_default();
        let [0x7f, b'E', b'L', b'F', _, _, major, _, minor, ..] = ident else {
            return Err(Error::new(0, "not an ELF file"));
        };
        let compat = match target.sm {
            COMPAT_SINCE.. => compat(&data)?,
            _ => None,
        };
        let mut image = InputImage::new(ImageKind::Elf, (major.into(), minor.into()), target, data);
        if compat.is_some() {
            image.header.flags |= flag::COMPAT;
            image.options = compat;
        }
        Ok(image)
    }

    /// PTX, without its comments, with empty options.
    ///
    /// # Errors
    /// No `.version` of the form `9.0`.
    pub fn ptx(text: impl AsRef<[u8]>, target: ImageTarget) -> Result<Self, Error> {
        let text = text.as_ref();
        let version = ptx::version(text).ok_or_else(|| Error::new(0, "PTX without a .version"))?;
        let mut data = ptx::condensed(text);
        data.push(0);
        Ok(InputImage {
            options: Some(Vec::new()),
            ..InputImage::new(ImageKind::Ptx, version, target, data)
        })
    }

    /// A file of LTO-IR, with empty options.
    ///
    /// # Errors
    /// A file too short for a header.
    pub fn lto_ir(data: impl Into<Vec<u8>>, target: ImageTarget) -> Result<Self, Error> {
        let data = data.into();
        let [major, minor] = read::array(&data, 4)
            .ok_or_else(|| Error::new(0, "too short for the header of LTO-IR"))?;
        let image = InputImage::new(ImageKind::LtoIr, (major.into(), minor.into()), target, data);
        Ok(InputImage { options: Some(Vec::new()), ..image })
    }

    /// With an identifier, `fatbinary -ident`.
    #[must_use]
    pub fn ident(self, ident: impl Into<Vec<u8>>) -> Self {
        InputImage { ident: ident.into(), ..self }
    }

    /// With options, `fatbinary -cmdline` for PTX.
    #[must_use]
    pub fn options(self, options: impl Into<Vec<u8>>) -> Self {
        InputImage { options: Some(options.into()), ..self }
    }

    /// With further bits of [`flag`].
    #[must_use]
    pub fn flags(mut self, flags: u64) -> Self {
        self.header.flags |= flags;
        self
    }

    /// Compresses an image that is not compressed yet.
    ///
    /// # Errors
    /// No memory.
    pub fn compressed(mut self, compression: Compression) -> Result<Self, Error> {
        if self.header.flags & (flag::LZ4 | flag::ZSTD) != 0 {
            return Ok(self);
        }
        let (bit, payload) = match compression {
            Compression::Lz4 => (flag::LZ4, compress::to_lz4(&self.payload)?),
            Compression::Zstd => (flag::ZSTD, compress::to_zstd(&self.payload, 5)?),
            Compression::ZstdSmall => (flag::ZSTD, compress::to_zstd(&self.payload, 19)?),
        };
        self.header.flags |= bit;
        self.header.uncompressed_size = self.payload.len() as u64;
        self.payload = payload;
        Ok(self)
    }

    /// The header with the sizes and offsets that follow from the parts; `None` when one does not
    /// fit its field.
    fn laid_out(&self) -> Option<EntryHeader> {
        let mut header = self.header;
        let mut head = ENTRY_HEADER;
        (header.ident_offset, header.ident_size) = (0, u32::try_from(self.ident.len()).ok()?);
        if !self.ident.is_empty() {
            header.ident_offset = u32::try_from(head).ok()?;
            head += terminated(self.ident.len());
        }
        header.options_offset = 0;
        if let Some(options) = &self.options {
            header.options_offset = u32::try_from(head).ok()?;
            head += 8 + terminated(options.len());
        }
        header.header_size = u32::try_from(head).ok()?;
        header.payload_size = self.payload.len().next_multiple_of(ALIGN) as u64;
        if header.flags & (flag::LZ4 | flag::ZSTD) != 0 {
            header.compressed_size = u32::try_from(self.payload.len()).ok()?;
        }
        Some(header)
    }

    /// What the image is.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        self.header.kind.into()
    }

    /// The stored bytes, without padding.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The entry up to its payload; `None` when a size does not fit its field.
    fn head(&self) -> Option<Vec<u8>> {
        let header = self.laid_out()?;
        let mut out = Vec::new();
        header.write(&mut out);
        if !self.ident.is_empty() {
            let end = out.len() + terminated(self.ident.len());
            out.extend_from_slice(&self.ident);
            out.resize(end, 0);
        }
        if let Some(options) = &self.options {
            out.extend_from_slice(&(header.options_offset + 8).to_le_bytes());
            out.extend_from_slice(&u32::try_from(options.len()).ok()?.to_le_bytes());
            let end = out.len() + terminated(options.len());
            if header.flags & flag::COMPAT != 0 {
                out.push(0);
            }
            out.extend_from_slice(options);
            out.resize(end, 0);
        }
        Some(out)
    }
}

impl From<&FatbinEntry<'_>> for InputImage {
    /// The same entry, its payload as it is stored.
    fn from(entry: &FatbinEntry<'_>) -> Self {
        InputImage {
            header: *entry.header(),
            ident: entry.ident().to_vec(),
            options: entry.options().map(<[u8]>::to_vec),
            payload: entry.stored().to_vec(),
        }
    }
}

/// What stands behind a payload.
const PADDING: [u8; ALIGN] = [0; ALIGN];

/// A container of images, in pieces: nothing is copied.
#[derive(Debug)]
pub struct Pieces<'i> {
    images: &'i [InputImage],
    header: Vec<u8>,
    /// What stands in front of each payload.
    heads: Vec<Vec<u8>>,
    size: u64,
}

impl<'i> Pieces<'i> {
    /// The container of `images`.
    ///
    /// # Errors
    /// A part that is larger than its 32-bit size field allows.
    pub fn new(images: &'i [InputImage]) -> Result<Self, Error> {
        let mut size = CONTAINER_HEADER as u64;
        let mut heads = Vec::new();
        for image in images {
            let at = usize::try_from(size).unwrap_or(usize::MAX);
            let head =
                image.head().ok_or_else(|| Error::new(at, "a part of the entry is too large"))?;
            size += (head.len() + image.payload.len().next_multiple_of(ALIGN)) as u64;
            heads.push(head);
        }
        let header_size = CONTAINER_HEADER as u16;
        let body_size = size - CONTAINER_HEADER as u64;
        let header = ContainerHeader { magic: MAGIC, version: 1, header_size, body_size };
        let mut head = Vec::new();
        header.write(&mut head);
        Ok(Pieces { images, header: head, heads, size })
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let entries = self.images.iter().zip(&self.heads);
        let entries = entries.flat_map(|(image, head)| {
            let padding = image.payload.len().next_multiple_of(ALIGN) - image.payload.len();
            [head.as_slice(), &image.payload, PADDING.get(..padding).unwrap_or_default()]
        });
        std::iter::once(self.header.as_slice()).chain(entries)
    }
}

/// The container of `images`.
///
/// # Errors
/// As [`Pieces::new`].
pub fn write(images: &[InputImage]) -> Result<Vec<u8>, Error> {
    Ok(Pieces::new(images)?.iter().collect::<Vec<_>>().concat())
}

/// Space of a string and at least one NUL.
fn terminated(len: usize) -> usize {
    (len + 1).next_multiple_of(ALIGN)
}

/// The contents of a cubin's `.nv.compat`.
fn compat(cubin: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    for section in sections::elf(cubin)? {
        let section = section?;
        if section.name == b".nv.compat" {
            return Ok(Some(section.section?.data.to_vec()));
        }
    }
    Ok(None)
}
