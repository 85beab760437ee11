//! The sections of ELF and COFF files.
//!
//! In: the bytes of a file. Out: its sections by name. Guaranteed: names and contents lie in the
//! file; a section whose contents do not is an error only for who asks for it.

use crate::error::Error;
use crate::read;
use object::read::coff::CoffHeader;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian as Le, elf, pe};

/// The contents of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionData<'a> {
    /// Offset in the file; 0 when it has no bytes there.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> SectionData<'a> {
    /// Sections without bytes in the file have an offset that means nothing.
    fn new(offset: u64, data: &'a [u8]) -> Self {
        SectionData { offset: if data.is_empty() { 0 } else { offset }, data }
    }
}

/// A section and its name.
pub(crate) struct NamedSection<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) section: Result<SectionData<'a>, Error>,
}

/// The sections of a 64-bit little-endian ELF file.
pub(crate) fn elf(
    data: &[u8],
) -> Result<impl Iterator<Item = Result<NamedSection<'_>, Error>>, Error> {
    let [class, order] = read::array(data, 4).unwrap_or_default();
    if (class, order) != (elf::ELFCLASS64.0, elf::ELFDATA2LSB.0) {
        return Err(Error::new(4, "not ELF of 64 bits and little-endian"));
    }
    let header = elf::FileHeader64::<Le>::parse(data).map_err(|error| failure(0, error))?;
    let table = header.e_shoff(Le);
    let sections = header.sections(Le, data).map_err(|error| failure(table, error))?;
    let at = entry(table, size_of::<elf::SectionHeader64<Le>>());
    Ok(sections.enumerate().map(move |(index, header)| {
        let at = at(index.0);
        let name = sections.section_name(Le, header).map_err(|error| failure(at, error))?;
        let section = header.data(Le, data).map_err(|error| failure(at, error));
        let section = section.map(|data| SectionData::new(header.sh_offset(Le), data));
        Ok(NamedSection { name, section })
    }))
}

/// The sections of a COFF file.
pub(crate) fn coff<Header: CoffHeader>(
    data: &[u8],
) -> Result<impl Iterator<Item = Result<NamedSection<'_>, Error>>, Error> {
    let mut table = 0;
    let header = Header::parse(data, &mut table).map_err(|error| failure(0, error))?;
    let sections = header.sections(data, table).map_err(|error| failure(table, error))?;
    let symbols = u64::from(header.pointer_to_symbol_table());
    let strings = header.symbols(data).map_err(|error| failure(symbols, error))?.strings();
    let at = entry(table, size_of::<pe::ImageSectionHeader>());
    Ok(sections.iter().enumerate().map(move |(index, header)| {
        let at = at(index);
        let name = header.name(strings).map_err(|error| failure(at, error))?;
        let offset = header.pointer_to_raw_data.get(Le).into();
        let section = match header.coff_data(data) {
            Ok(data) => Ok(SectionData::new(offset, data)),
            Err(()) => Err(Error { offset: at, what: "section outside of the file".into() }),
        };
        Ok(NamedSection { name, section })
    }))
}

/// The sections of a PE file, a program or library for Windows. Names have eight bytes.
pub(crate) fn pe(
    data: &[u8],
) -> Result<impl Iterator<Item = Result<NamedSection<'_>, Error>>, Error> {
    let file = object::read::pe::PeFile64::parse(data).map_err(|error| failure(0, error))?;
    let headers = file.section_table().iter().copied().collect::<Vec<pe::ImageSectionHeader>>();
    Ok(headers.into_iter().map(move |header| {
        let offset = header.pointer_to_raw_data.get(Le).into();
        let size = u64::from(header.size_of_raw_data.get(Le).min(header.virtual_size.get(Le)));
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let bytes = read::bytes(data, start, size);
        let section = bytes.map(|bytes| SectionData::new(offset, bytes));
        let outside = Error { offset, what: "section outside of the file".into() };
        Ok(NamedSection { name: pe_name(&header.name), section: section.ok_or(outside) })
    }))
}

/// The section of this name, of which a PE file has the first eight bytes.
fn pe_name(name: &[u8; 8]) -> &'static [u8] {
    const NAMES: [&[u8]; 4] =
        [b".nv_fatbin", b"__nv_relfatbin", b".nvFatBinSegment", b"__nv_module_id"];
    let known = |full: &&&[u8]| full.get(..8) == Some(&name[..]);
    NAMES.iter().find(known).copied().unwrap_or_default()
}

/// Offsets of the entries of a table.
fn entry(table: u64, size: usize) -> impl Fn(usize) -> u64 {
    move |index| table.saturating_add(size.saturating_mul(index) as u64)
}

fn failure(offset: u64, error: object::read::Error) -> Error {
    Error { offset, what: error.to_string().into() }
}
