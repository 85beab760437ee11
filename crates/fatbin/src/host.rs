//! The parts of a host object that concern the device linker.
//!
//! In: the bytes of a 64-bit little-endian ELF object or of a COFF object. Out: a [`HostObject`].
//! Guaranteed: all contents lie in the file; other sections are not checked.

use crate::error::Error;
pub use crate::module_id::ModuleIds;
pub use crate::sections::SectionData;
use crate::sections::{self, NamedSection};
use crate::sniff::{Format, is_bigobj, sniff};
use object::pe::{AnonObjectHeaderBigobj, ImageFileHeader};

/// The lists of names that host code refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostReference {
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

/// The parts of a host object that concern the device linker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HostObject<'a> {
    /// True when there is a section `.nvFatBinSegment`: without it nvlink takes an object for one
    /// without device code.
    pub has_segment: bool,
    /// Sections `__nv_relfatbin`: fat binaries to be linked.
    pub fatbins: Vec<SectionData<'a>>,
    /// Sections `.nv_fatbin`: whole programs, compiled without `-rdc=true`, which are not linked.
    pub whole_programs: Vec<SectionData<'a>>,
    /// The first section `__nv_module_id`: nvlink reads no other.
    pub module_ids: Option<ModuleIds<'a>>,
    /// Lists of names, in file order; a name ends with NUL, and a list without names is a single
    /// NUL.
    pub references: Vec<(HostReference, SectionData<'a>)>,
}

const SEGMENT: &[u8] = b".nvFatBinSegment";
const FATBIN: &[u8] = b"__nv_relfatbin";
const WHOLE_PROGRAM: &[u8] = b".nv_fatbin";
const MODULE_ID: &[u8] = b"__nv_module_id";

const REFERENCES: &[(&[u8], HostReference)] = &[
    (b".nvHRKE", HostReference::Kernel),
    (b".nvHRKI", HostReference::InternalKernel),
    (b".nvHRDE", HostReference::Variable),
    (b".nvHRDI", HostReference::InternalVariable),
    (b".nvHRCE", HostReference::Constant),
    (b".nvHRCI", HostReference::InternalConstant),
];

impl<'a> HostObject<'a> {
    /// The modules in the object.
    pub fn modules(&self) -> &[&'a [u8]] {
        self.module_ids.as_ref().map_or(&[], ModuleIds::here)
    }

    /// Reads an object; `None` for another kind of file, or a cubin.
    ///
    /// # Errors
    /// An object whose section table or whose sections for device code are damaged; ELF of 32 bits
    /// or big-endian.
    pub fn parse(data: &'a [u8]) -> Result<Option<Self>, Error> {
        let object = match sniff(data) {
            Format::HostElf { .. } => Self::gather(sections::elf(data)?)?,
            Format::Coff if is_bigobj(data) => {
                Self::gather(sections::coff::<AnonObjectHeaderBigobj>(data)?)?
            }
            Format::Coff => Self::gather(sections::coff::<ImageFileHeader>(data)?)?,
            _ => return Ok(None),
        };
        Ok(Some(object))
    }

    /// Reads a program or library for Windows; `None` when it is none.
    ///
    /// # Errors
    /// A file whose headers or whose sections for device code are damaged.
    pub fn parse_pe(data: &'a [u8]) -> Result<Option<Self>, Error> {
        let is_pe = data.starts_with(b"MZ") && object::read::pe::PeFile64::parse(data).is_ok();
        is_pe.then(|| Self::gather(sections::pe(data)?)).transpose()
    }

    fn gather(
        sections: impl Iterator<Item = Result<NamedSection<'a>, Error>>,
    ) -> Result<Self, Error> {
        let mut object = HostObject::default();
        for section in sections {
            let NamedSection { name, section } = section?;
            match name {
                SEGMENT => object.has_segment = true,
                FATBIN => object.fatbins.push(section?),
                WHOLE_PROGRAM => object.whole_programs.push(section?),
                MODULE_ID if object.module_ids.is_none() => {
                    object.module_ids = Some(ModuleIds::parse(section?));
                }
                _ => {
                    let list = REFERENCES.iter().find(|(listed, _)| *listed == name);
                    if let Some((_, reference)) = list {
                        object.references.push((*reference, section?));
                    }
                }
            }
        }
        Ok(object)
    }
}
