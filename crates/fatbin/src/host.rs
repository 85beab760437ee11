//! What a host object holds for the device linker.
//!
//! In: the bytes of a 64-bit little-endian ELF object or of a COFF object. Out: a [`HostObject`]. Guaranteed: all
//! contents lie in the file; sections that do not concern device code may be as they like.

use crate::error::Error;
use crate::sniff::{Format, is_bigobj, sniff};
use object::pe::{AnonObjectHeaderBigobj, ImageFileHeader};
use object::read::coff::CoffHeader;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian as Le, elf, pe};

/// A section, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section<'a> {
    /// Offset in the file.
    pub offset: u64,
    /// Its contents.
    pub data: &'a [u8],
}

/// The lists of names that host code refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// `.nvHRKE`: kernels with external linkage.
    Kernel,
    /// `.nvHRKI`: kernels with internal linkage.
    InternalKernel,
    /// `.nvHRDE`: variables in global memory with external linkage.
    Variable,
    /// `.nvHRDI`: variables in global memory with internal linkage.
    InternalVariable,
    /// `.nvHRCE`: constants with external linkage.
    Constant,
    /// `.nvHRCI`: constants with internal linkage.
    InternalConstant,
}

/// What a host object holds for the device linker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostObject<'a> {
    /// True when there is a section `.nvFatBinSegment`: without it nvlink takes an object for one without device code.
    pub has_segment: bool,
    /// Sections `__nv_relfatbin`: fat binaries to be linked.
    pub fatbins: Vec<Section<'a>>,
    /// Sections `.nv_fatbin`: whole programs, compiled without `-rdc=true`, which are not linked.
    pub whole_programs: Vec<Section<'a>>,
    /// Module ids, of `__nv_module_id`, without the NUL that ends each. One, unless `ld -r` merged objects.
    pub module_ids: Vec<&'a [u8]>,
    /// Lists of names, in file order; a name ends with NUL, and a list without names is a single NUL.
    pub references: Vec<(Reference, Section<'a>)>,
}

const SEGMENT: &[u8] = b".nvFatBinSegment";
const FATBIN: &[u8] = b"__nv_relfatbin";
const WHOLE_PROGRAM: &[u8] = b".nv_fatbin";
const MODULE_ID: &[u8] = b"__nv_module_id";

const REFERENCES: &[(&[u8], Reference)] = &[
    (b".nvHRKE", Reference::Kernel),
    (b".nvHRKI", Reference::InternalKernel),
    (b".nvHRDE", Reference::Variable),
    (b".nvHRDI", Reference::InternalVariable),
    (b".nvHRCE", Reference::Constant),
    (b".nvHRCI", Reference::InternalConstant),
];

impl<'a> HostObject<'a> {
    /// Reads an object; `None` when it is none: another kind of file, or a cubin.
    ///
    /// # Errors
    /// An object whose section table or whose sections for device code are damaged; ELF of 32 bits or big-endian.
    pub fn parse(data: &'a [u8]) -> Result<Option<Self>, Error> {
        let mut object = HostObject::default();
        match sniff(data) {
            Format::HostElf { .. } => {
                elf_sections(data, |name, section| object.section(name, section))?;
            }
            Format::Coff if is_bigobj(data) => {
                coff_sections::<AnonObjectHeaderBigobj>(data, |name, section| {
                    object.section(name, section)
                })?;
            }
            Format::Coff => {
                coff_sections::<ImageFileHeader>(data, |name, section| {
                    object.section(name, section)
                })?;
            }
            _ => return Ok(None),
        }
        Ok(Some(object))
    }

    fn section(
        &mut self,
        name: &[u8],
        contents: impl FnOnce() -> Result<Section<'a>, Error>,
    ) -> Result<(), Error> {
        match name {
            SEGMENT => self.has_segment = true,
            FATBIN => self.fatbins.push(contents()?),
            WHOLE_PROGRAM => self.whole_programs.push(contents()?),
            MODULE_ID => {
                let ids = contents()?.data.split(|&byte| byte == 0);
                self.module_ids.extend(ids.filter(|id| !id.is_empty()));
            }
            _ => {
                let list = REFERENCES.iter().find(|(listed, _)| *listed == name);
                if let Some((_, reference)) = list {
                    self.references.push((*reference, contents()?));
                }
            }
        }
        Ok(())
    }
}

/// The contents of the section of that name of a 64-bit little-endian ELF file, if it has one.
pub(crate) fn elf_section<'a>(data: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, Error> {
    let mut found = None;
    elf_sections(data, |name, contents| {
        if name == wanted && found.is_none() {
            found = Some(contents()?.data);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Calls `each` with the names of all sections and a way to get their contents.
fn elf_sections<'a>(
    data: &'a [u8],
    mut each: impl FnMut(&'a [u8], &dyn Fn() -> Result<Section<'a>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let fail =
        |at: u64, error: object::read::Error| Error { offset: at, what: error.to_string().into() };
    let header = elf::FileHeader64::<Le>::parse(data).map_err(|error| fail(0, error))?;
    let endian = header.endian().map_err(|error| fail(5, error))?;
    let at = header.e_shoff(endian);
    let sections = header.sections(endian, data).map_err(|error| fail(at, error))?;
    let size = size_of::<elf::SectionHeader64<Le>>() as u64;
    for (index, header) in sections.iter().enumerate() {
        let at = at.saturating_add(size * index as u64);
        let name = sections.section_name(endian, header).map_err(|error| fail(at, error))?;
        each(name, &|| {
            let data = header.data(endian, data).map_err(|error| fail(at, error))?;
            Ok(Section { offset: header.sh_offset(endian), data })
        })?;
    }
    Ok(())
}

/// The same for COFF.
fn coff_sections<'a, Header: CoffHeader>(
    data: &'a [u8],
    mut each: impl FnMut(&'a [u8], &dyn Fn() -> Result<Section<'a>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let fail =
        |at: u64, error: object::read::Error| Error { offset: at, what: error.to_string().into() };
    let mut at = 0;
    let header = Header::parse(data, &mut at).map_err(|error| fail(0, error))?;
    let sections = header.sections(data, at).map_err(|error| fail(at, error))?;
    let strings = header.symbols(data).map_err(|error| fail(8, error))?.strings();
    let size = size_of::<pe::ImageSectionHeader>() as u64;
    for (index, header) in sections.iter().enumerate() {
        let at = at.saturating_add(size * index as u64);
        let name = header.name(strings).map_err(|error| fail(at, error))?;
        each(name, &|| {
            let contents = header.coff_data(data).map_err(|()| Error {
                offset: at,
                what: "section contents outside of the file".into(),
            })?;
            Ok(Section { offset: header.pointer_to_raw_data.get(Le).into(), data: contents })
        })?;
    }
    Ok(())
}
