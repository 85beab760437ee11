//! Fat binaries: containers, their entries, and the images in them.
//!
//! In: the bytes of a `.fatbin` file or of a section `__nv_relfatbin` or `.nv_fatbin`. Out:
//! [`containers`], each with its [`FatbinEntry`] values. Guaranteed: an entry's header, identifier,
//! options and payload lie in the container and do not overlap; after an error an iterator ends;
//! [`Unpacker`] makes exactly the declared number of bytes or fails.

pub use culd_cubin::arch::Variant;

use crate::compress::{self, Zstd};
use crate::error::Error;
use crate::header::{
    ALIGN, CONTAINER_HEADER, ContainerHeader, ENTRY_HEADER, EntryHeader, MAGIC, flag, kind,
};
use crate::read;
use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

/// The containers in `data`, one behind the other. Zeros between them, in steps of eight bytes, are
/// padding.
///
/// `nvlink` reads the first one only; a file that `ld -r` merged has one for each of its parts.
pub fn containers(data: &[u8]) -> Containers<'_> {
    Containers { data, at: 0 }
}

/// The containers anywhere in `data`, at any offset: programs keep some among their own data, which
/// they hand to the driver themselves.
///
/// A container counts if its header is known, it lies in `data`, and its first entry can be read.
pub fn embedded(data: &[u8]) -> Embedded<'_> {
    Embedded { data, at: 0 }
}

/// Iterator over the containers anywhere in a file, made by [`embedded`].
#[derive(Debug, Clone)]
pub struct Embedded<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Embedded<'a> {
    type Item = Container<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = START.as_slice();
        loop {
            let rest = self.data.get(self.at..)?;
            let at = self.at + memchr::memmem::find(rest, start)?;
            let container = Container::parse(self.data, at).ok();
            // Nothing else of it is read, so that many beginnings are as fast as one.
            let container = container.filter(|one| matches!(one.entries().next(), Some(Ok(_))));
            self.at = at + container.map_or(start.len(), |container| container.bytes.len());
            if container.is_some() {
                return container;
            }
        }
    }
}

impl FusedIterator for Embedded<'_> {}

/// The bytes with which each container begins: magic number, version, size of the header.
const START: [u8; 8] = {
    let [a, b, c, d] = MAGIC.to_le_bytes();
    [a, b, c, d, 1, 0, CONTAINER_HEADER as u8, 0]
};

/// Iterator over the containers in a file or section, made by [`containers`].
#[derive(Debug, Clone)]
pub struct Containers<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Containers<'a> {
    type Item = Result<Container<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.data.len() && is_padding(self.data, self.at) {
            self.at += ALIGN;
        }
        if self.at >= self.data.len() {
            return None;
        }
        let container = Container::parse(self.data, self.at);
        self.at = match &container {
            Ok(container) => self.at + container.bytes.len(),
            Err(_) => self.data.len(),
        };
        Some(container)
    }
}

impl FusedIterator for Containers<'_> {}

/// True when nothing but zeros is left of the eight bytes at `at`.
fn is_padding(data: &[u8], at: usize) -> bool {
    data.iter().skip(at).take(ALIGN).all(|&byte| byte == 0)
}

/// One container: a row of entries.
#[derive(Debug, Clone, Copy)]
pub struct Container<'a> {
    offset: usize,
    bytes: &'a [u8],
}

impl<'a> Container<'a> {
    fn parse(data: &'a [u8], at: usize) -> Result<Self, Error> {
        let magic = read::u32_at(data, at);
        if magic != Some(MAGIC) {
            return Err(Error::new(at, "not the magic number of a fat binary"));
        }
        let header = ContainerHeader::read(data, at)
            .ok_or_else(|| Error::new(at, "the header of the fat binary is cut off"))?;
        if header.version != 1 {
            let what = format!("version {} of the fat binary is not known", header.version);
            return Err(Error::new(at + 4, what));
        }
        if usize::from(header.header_size) != CONTAINER_HEADER {
            let what = format!("a header of {:#x} bytes is not known", header.header_size);
            return Err(Error::new(at + 6, what));
        }
        let size = usize::try_from(header.body_size).ok();
        let size = size.and_then(|size| size.checked_add(CONTAINER_HEADER));
        let bytes = size.and_then(|size| read::bytes(data, at, size)).ok_or_else(|| {
            let rest = data.len() - at - CONTAINER_HEADER;
            let what = format!("{:#x} bytes of entries, but {rest:#x} are left", header.body_size);
            Error::new(at + 8, what)
        })?;
        Ok(Container { offset: at, bytes })
    }

    /// Its offset in the argument of [`containers`].
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// All its bytes, header included: a complete fat binary.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its entries in the order of the file.
    pub fn entries(&self) -> Entries<'a> {
        Entries { container: *self, at: CONTAINER_HEADER }
    }
}

/// Iterator over the entries of a container, made by [`Container::entries`].
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    container: Container<'a>,
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<FatbinEntry<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.container.bytes;
        let rest = bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let offset = self.container.offset + self.at;
        let entry = FatbinEntry::parse(rest, offset);
        self.at = match &entry {
            Ok(entry) => self.at + entry.head.len() + entry.payload.len(),
            Err(_) => bytes.len(),
        };
        Some(entry.map_err(|error| error.at(offset as u64)))
    }
}

impl FusedIterator for Entries<'_> {}

/// The kind of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// PTX text.
    Ptx,
    /// A cubin.
    Elf,
    /// LTO-IR.
    LtoIr,
    /// Something else; nvlink passes over it.
    Other(u16),
}

impl From<u16> for ImageKind {
    fn from(raw: u16) -> Self {
        match raw {
            kind::PTX => ImageKind::Ptx,
            kind::ELF => ImageKind::Elf,
            kind::LTO_IR => ImageKind::LtoIr,
            other => ImageKind::Other(other),
        }
    }
}

impl From<ImageKind> for u16 {
    fn from(kind: ImageKind) -> Self {
        match kind {
            ImageKind::Ptx => kind::PTX,
            ImageKind::Elf => kind::ELF,
            ImageKind::LtoIr => kind::LTO_IR,
            ImageKind::Other(raw) => raw,
        }
    }
}

/// The storage of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Not compressed, with zeros to a multiple of eight bytes.
    Stored,
    /// An LZ4 block.
    Lz4,
    /// A zstd frame.
    Zstd,
    /// LTO-IR in a form that only NVIDIA's linkers read, or flags that contradict each other.
    Opaque,
}

/// One entry: an image and its description.
#[derive(Debug, Clone, Copy)]
pub struct FatbinEntry<'a> {
    offset: usize,
    header: EntryHeader,
    /// Header, identifier and options.
    head: &'a [u8],
    payload: &'a [u8],
    options: Option<&'a [u8]>,
}

impl<'a> FatbinEntry<'a> {
    /// Reads the entry at the start of `data`; errors have offsets in `data`.
    fn parse(data: &'a [u8], offset: usize) -> Result<Self, Error> {
        let header = EntryHeader::read(data, 0)
            .ok_or_else(|| Error::new(0, "the header of an entry is cut off"))?;
        let left = data.len();
        let head = usize::try_from(header.header_size).ok().filter(|&size| size >= ENTRY_HEADER);
        let head = head.and_then(|size| data.get(..size)).ok_or_else(|| {
            let size = header.header_size;
            Error::new(4, format!("an entry with a header of {size:#x} bytes, {left:#x} are left"))
        })?;
        let payload = usize::try_from(header.payload_size).ok();
        let payload = payload.and_then(|size| read::bytes(data, head.len(), size));
        let payload = payload.ok_or_else(|| {
            let (size, left) = (header.payload_size, left - head.len());
            Error::new(8, format!("an image of {size:#x} bytes, {left:#x} are left"))
        })?;
        if u64::from(header.compressed_size) > header.payload_size {
            let (size, room) = (header.compressed_size, header.payload_size);
            let what = format!("{size:#x} compressed bytes in a payload of {room:#x}");
            return Err(Error::new(16, what));
        }
        let ident = ident_range(&header)?;
        let options = options(&header, head, &ident)?;
        Ok(FatbinEntry { offset, header, head, payload, options })
    }

    /// Its offset in the argument of [`containers`].
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The bytes of all of it in the file.
    pub(crate) fn stored_size(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// The header as it stands.
    pub fn header(&self) -> &EntryHeader {
        &self.header
    }

    /// The kind of the image.
    pub fn kind(&self) -> ImageKind {
        self.header.kind.into()
    }

    /// The SM number, 90 for `sm_90a`.
    pub fn sm(&self) -> u32 {
        self.header.sm
    }

    /// Plain, `a` or `f`.
    pub fn variant(&self) -> Variant {
        match self.header.flags {
            flags if flags & flag::ACCELERATED != 0 => Variant::Accelerated,
            flags if flags & flag::FAMILY != 0 => Variant::Family,
            _ => Variant::Plain,
        }
    }

    /// True when all bits of `flags` ([`flag`]) are set.
    pub fn has(&self, flags: u64) -> bool {
        self.header.flags & flags == flags
    }

    /// The name given with `fatbinary -ident`; empty without one.
    pub fn ident(&self) -> &'a [u8] {
        let range = ident_range(&self.header).ok();
        range.and_then(|range| self.head.get(range)).unwrap_or_default()
    }

    /// The option record: of PTX the options for ptxas, of LTO-IR those of its compiler, of a cubin
    /// with [`flag::COMPAT`] its `.nv.compat`.
    pub fn options(&self) -> Option<&'a [u8]> {
        self.options
    }

    /// The storage of the payload.
    pub fn encoding(&self) -> Encoding {
        match self.header.flags & (flag::LZ4 | flag::ZSTD | flag::SCRAMBLED) {
            0 => Encoding::Stored,
            flag::LZ4 => Encoding::Lz4,
            flag::ZSTD => Encoding::Zstd,
            _ => Encoding::Opaque,
        }
    }

    /// The bytes behind the header, padding included.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The payload without the padding behind a compressed image.
    pub fn stored(&self) -> &'a [u8] {
        match self.encoding() {
            Encoding::Stored => self.payload,
            _ => usize::try_from(self.header.compressed_size)
                .ok()
                .and_then(|size| self.payload.get(..size))
                .unwrap_or(self.payload),
        }
    }

    /// Bytes of the image: exact when it is compressed, else with padding.
    pub fn size(&self) -> u64 {
        match self.encoding() {
            Encoding::Stored => self.header.payload_size,
            _ => self.header.uncompressed_size,
        }
    }

    /// The image, by a new [`Unpacker`]. For many images one unpacker for all is faster.
    ///
    /// # Errors
    /// As [`Unpacker::image`].
    pub fn data(&self, limit: u64) -> Result<Cow<'a, [u8]>, Error> {
        Unpacker::default().image(self, limit)
    }
}

/// Takes images out of entries, one after the other, with the same memory for all that are
/// compressed.
#[derive(Default)]
pub struct Unpacker {
    zstd: Zstd,
    /// Memory for the next image.
    spare: Vec<u8>,
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    /// Takes back the memory of an image, for the next one.
    pub fn reuse(&mut self, image: Cow<'_, [u8]>) {
        if let Cow::Owned(memory) = image {
            self.spare = memory;
        }
    }

    /// The image of `entry`. PTX comes without the NUL that ends it; a stored cubin with the
    /// padding behind it.
    ///
    /// Nothing is copied unless it is compressed.
    ///
    /// # Errors
    /// An image of more than `limit` bytes, before any memory is taken for it; a broken payload, or
    /// one that is longer or shorter than declared; [`Encoding::Opaque`]. They do not keep the next
    /// image from being taken out.
    pub fn image<'a>(
        &mut self,
        entry: &FatbinEntry<'a>,
        limit: u64,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let fail = |what: String| Error::new(entry.offset, what);
        let size = entry.size();
        if size > limit {
            return Err(fail(format!("an image of {size:#x} bytes, the limit is {limit:#x}")));
        }
        let size = usize::try_from(size).map_err(|_| fail("no memory".to_owned()))?;
        let stored = entry.stored();
        let mut data = match entry.encoding() {
            Encoding::Stored => Cow::Borrowed(entry.payload),
            Encoding::Lz4 => {
                let spare = std::mem::take(&mut self.spare);
                compress::from_lz4(stored, size, spare).map_err(fail)?.into()
            }
            Encoding::Zstd => {
                let spare = std::mem::take(&mut self.spare);
                self.zstd.decompress(stored, size, spare).map_err(fail)?.into()
            }
            Encoding::Opaque => return Err(fail("the image is scrambled".to_owned())),
        };
        if entry.kind() == ImageKind::Ptx {
            let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
            match &mut data {
                Cow::Borrowed(data) => *data = data.get(..end).unwrap_or_default(),
                Cow::Owned(data) => data.truncate(end),
            }
        }
        Ok(data)
    }
}

/// The range of the identifier in the entry.
fn ident_range(header: &EntryHeader) -> Result<Range<usize>, Error> {
    if header.ident_size == 0 {
        return Ok(ENTRY_HEADER..ENTRY_HEADER);
    }
    inside(header, header.ident_offset, header.ident_size).ok_or_else(|| {
        let (at, size) = (header.ident_offset, header.ident_size);
        Error::new(32, format!("an identifier of {size:#x} bytes at {at:#x} of the entry"))
    })
}

/// The contents of the option record.
fn options<'a>(
    header: &EntryHeader,
    head: &'a [u8],
    ident: &Range<usize>,
) -> Result<Option<&'a [u8]>, Error> {
    if header.options_offset == 0 {
        return Ok(None);
    }
    let record = || {
        let record = inside(header, header.options_offset, 8)?;
        let offset = read::u32_at(head, record.start)?;
        let size = read::u32_at(head, record.start + 4)?;
        if (offset, size) == (0, 0) {
            // PTX in libcufft has such a record; cuobjdump reads it.
            return (!overlap(ident, &record)).then_some(&[][..]);
        }
        // A copy of .nv.compat has a NUL in front of it that its size does not count.
        let skipped = u32::from(header.flags & flag::COMPAT != 0);
        let contents = inside(header, offset.checked_add(skipped)?, size)?;
        let separate = !overlap(ident, &record) && !overlap(ident, &contents);
        let separate = separate && contents.start >= record.end;
        head.get(contents).filter(|_| separate)
    };
    match record() {
        Some(contents) => Ok(Some(contents)),
        None => {
            let at = header.options_offset;
            Err(Error::new(20, format!("a bad option record at {at:#x} of the entry")))
        }
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The range, if it is behind the fixed header and in front of the payload.
fn inside(header: &EntryHeader, offset: u32, size: u32) -> Option<Range<usize>> {
    let end = offset.checked_add(size).filter(|&end| end <= header.header_size)?;
    let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
    (range.start >= ENTRY_HEADER).then_some(range)
}
