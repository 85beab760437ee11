//! Containers of device code as recipes spell them; [`crate::pack`] makes the bytes.
//!
//! In: tables of a recipe, and the files they name. Out: bytes.

use crate::pack::{self, Flavour, HostParts};
use anyhow::{Context, Result, bail};
use culd_fatbin::container::{Kind, Variant};
use culd_fatbin::host::Reference;
use culd_fatbin::writer::{self, Compression, Target};
use serde::Deserialize;

/// Reads a file that was made before.
pub(super) type Read<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>>;

/// Version that goes with LTO-IR.
const LTO_VERSION: (u16, u16) = (1, 65);
/// Version that goes with a cubin.
const ELF_VERSION: (u16, u16) = (1, 8);

/// An entry of a fat binary. Its file need not be what the entry says it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    /// The cubin.
    elf: Option<String>,
    /// The PTX.
    ptx: Option<String>,
    /// The LTO-IR. nvlink without `-lto` does not look into it.
    lto: Option<String>,
    /// What it is for, `90` or `90a`.
    sm: String,
    /// `zstd` or `lz4`.
    compress: Option<String>,
    /// Options of the compiler.
    options: Option<String>,
    /// Name of the entry.
    ident: Option<String>,
}

impl Image {
    /// The files that it is made of.
    pub(super) fn file(&self) -> Option<&str> {
        self.elf.as_deref().or(self.ptx.as_deref()).or(self.lto.as_deref())
    }

    fn pack(&self, read: Read<'_>) -> Result<writer::Image> {
        let target = target(&self.sm)?;
        let mut image = match (&self.elf, &self.ptx, &self.lto) {
            (Some(file), None, None) => {
                writer::Image::new(Kind::Elf, ELF_VERSION, target, read(file)?)
            }
            (None, Some(file), None) => {
                writer::Image::ptx(&String::from_utf8(read(file)?)?, target)?
            }
            (None, None, Some(file)) => {
                writer::Image::new(Kind::LtoIr, LTO_VERSION, target, read(file)?).options("")
            }
            _ => bail!("an image is one of elf, ptx and lto"),
        };
        if let Some(options) = &self.options {
            image = image.options(options.as_str());
        }
        if let Some(ident) = &self.ident {
            image = image.ident(ident.as_str());
        }
        Ok(match self.compress.as_deref() {
            None => image,
            Some("zstd") => image.compressed(Compression::Zstd)?,
            Some("lz4") => image.compressed(Compression::Lz4)?,
            Some(other) => bail!("compress = {other:?}"),
        })
    }
}

fn target(sm: &str) -> Result<Target> {
    let digits = sm.trim_end_matches(['a', 'f']);
    let variant = match sm.strip_prefix(digits) {
        Some("") => Variant::Plain,
        Some("a") => Variant::Accelerated,
        Some("f") => Variant::Family,
        _ => bail!("sm = {sm:?}"),
    };
    Ok(Target { sm: digits.parse().with_context(|| format!("sm = {sm:?}"))?, variant })
}

/// A fat binary of `images`.
pub(super) fn fatbin(images: &[Image], read: Read<'_>) -> Result<Vec<u8>> {
    let images: Vec<_> = images.iter().map(|image| image.pack(read)).collect::<Result<_>>()?;
    pack::fatbin(&images)
}

/// A host object. Lists of names that are left out have no section; nvcc writes all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// The fat binaries.
    #[serde(default)]
    fatbins: Vec<String>,
    /// Fat binaries of whole programs, which are not linked.
    #[serde(default)]
    whole_programs: Vec<String>,
    /// Whether there is `.nvFatBinSegment`: as nvcc does it, unless this says.
    segment: Option<bool>,
    /// Module ids.
    #[serde(default)]
    ids: Vec<String>,
    /// The bytes of the section with module ids, in the place of `ids`.
    id_section: Option<String>,
    /// Kernels that the host uses.
    kernels: Option<Vec<String>>,
    /// Kernels of internal linkage.
    internal_kernels: Option<Vec<String>>,
    /// Variables.
    variables: Option<Vec<String>>,
    /// For Windows.
    #[serde(default)]
    coff: bool,
}

impl Host {
    /// The files that it is made of.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.fatbins.iter().chain(&self.whole_programs).map(String::as_str)
    }

    /// The bytes.
    pub(super) fn pack(&self, read: Read<'_>) -> Result<Vec<u8>> {
        let lists = [
            (Reference::Kernel, &self.kernels),
            (Reference::InternalKernel, &self.internal_kernels),
            (Reference::Variable, &self.variables),
        ];
        let references = lists.into_iter().filter_map(|(kind, list)| Some((kind, list.clone()?)));
        let join = |names: &[String]| -> Result<Vec<Vec<u8>>> {
            names.iter().map(|name| read(name)).collect()
        };
        let parts = HostParts {
            fatbins: join(&self.fatbins)?,
            whole_program: join(&self.whole_programs)?.concat(),
            segment: self.segment,
            module_ids: self.ids.clone(),
            id_section: self.id_section.clone().map(String::into_bytes),
            references: references.collect(),
            ..HostParts::default()
        };
        if self.coff { pack::coff_object(&parts) } else { pack::host_object(&parts) }
    }
}

/// An archive without a table of symbols.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Archive {
    /// The files in it. A thin archive has their names as they stand here, others without folders.
    pub(super) members: Vec<String>,
    /// `gnu`, `bsd`, `coff` or `thin`.
    flavour: Option<String>,
}

impl Archive {
    /// The bytes.
    pub(super) fn pack(&self, read: Read<'_>) -> Result<Vec<u8>> {
        let flavour = match self.flavour.as_deref() {
            None | Some("gnu") => Flavour::Gnu,
            Some("bsd") => Flavour::Bsd,
            Some("coff") => Flavour::Coff,
            Some("thin") => Flavour::Thin,
            Some(other) => bail!("flavour = {other:?}"),
        };
        let base = |name: &'_ str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let mut members = Vec::new();
        for name in &self.members {
            let title = if flavour == Flavour::Thin { name.clone() } else { base(name) };
            members.push((title, read(name)?));
        }
        let members: Vec<_> =
            members.iter().map(|(title, data)| (title.as_str(), data.as_slice())).collect();
        Ok(pack::archive(&members, flavour))
    }
}
