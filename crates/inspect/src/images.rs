//! The device code in any file.
//!
//! In: the bytes of an executable, shared library, object, archive, fat binary, cubin, program for
//! Windows, or of PTX; files that a thin archive names are opened by the caller. Out: its images,
//! and what cannot be read. Guaranteed: nothing is unpacked until it is asked for, and then into no
//! more memory than the caller allows; damaged parts are named and skipped.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use culd_cubin::{Cubin, text_of};
use culd_fatbin::container::{Encoding, FatbinEntry, ImageKind, Unpacker, containers, embedded};
use culd_fatbin::host::{HostObject, SectionData};
use culd_fatbin::{Format, archive, sniff};
use culd_text::os::OsStrExt;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{LittleEndian as Le, elf};

/// How deep archives may lie in each other.
const MAX_DEPTH: usize = 16;

/// A file that is looked into.
#[derive(Clone, Copy)]
pub struct ProgramFile<'f, 'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its path: what a thin archive names lies beside it.
    pub path: &'f Path,
    /// Gives the bytes of a file that a thin archive names.
    pub open: &'f dyn Fn(&Path) -> Result<&'a [u8], String>,
}

/// Where something that is read lies.
#[derive(Clone, Copy)]
struct Place<'p, 'a> {
    /// Members of archives; empty for the file itself.
    name: &'p str,
    /// The file that it is in.
    path: &'p Path,
    /// Archives around it.
    depth: usize,
    open: &'p dyn Fn(&Path) -> Result<&'a [u8], String>,
}

/// The device code of a file.
#[derive(Default)]
pub struct FileImages<'a> {
    /// The kind of file, in words: `shared library`.
    pub kind: &'static str,
    /// In the order of the file.
    pub images: Vec<StoredImage<'a>>,
    /// Bytes of sections and files of device code.
    pub device_bytes: u64,
    /// The parts that cannot be read: a line each.
    pub defects: Vec<String>,
    /// Parts of the file in which no fat binary was looked for, each with its offset.
    unsearched: Vec<(usize, &'a [u8])>,
    /// True if these are left to the caller.
    defers: bool,
    /// Archives that thin archives name: each is read once, also if one names itself.
    archives: Vec<PathBuf>,
}

/// An image as it is stored.
pub struct StoredImage<'a> {
    /// Its place in the file: archive members, section, numbers of fat binary and entry.
    pub place: String,
    code: StoredCode<'a>,
}

enum StoredCode<'a> {
    Cubin(&'a [u8]),
    Ptx(&'a [u8]),
    LtoIr(&'a [u8]),
    Packed(FatbinEntry<'a>),
}

impl<'a> FileImages<'a> {
    /// Looks into a file.
    pub fn of(file: ProgramFile<'_, 'a>) -> Self {
        FileImages::default().looked_into(file)
    }

    /// The same without what lies among the data of a program, which [`FileImages::among_data`]
    /// finds: that reads the whole program, and images of sections can be unpacked meanwhile.
    pub fn without_data(file: ProgramFile<'_, 'a>) -> Self {
        // Those of an archive would stand between the images of its members.
        let defers = !sniff(file.bytes).is_archive();
        FileImages { defers, ..FileImages::default() }.looked_into(file)
    }

    fn looked_into(mut self, file: ProgramFile<'_, 'a>) -> Self {
        let ProgramFile { bytes, path, open } = file;
        if sniff(bytes).is_archive() {
            self.archives.extend(path.canonicalize());
        }
        self.kind = self.file(bytes, Place { name: "", path, depth: 0, open });
        self
    }

    /// What [`FileImages::without_data`] has left out; it belongs behind the rest.
    pub fn among_data(&self) -> Self {
        let mut found = FileImages { kind: self.kind, ..FileImages::default() };
        found.search(&self.unsearched, "");
        found
    }

    /// Reads a file or member; returns its kind.
    fn file(&mut self, bytes: &'a [u8], at: Place<'_, 'a>) -> &'static str {
        let place = at.name;
        match sniff(bytes) {
            Format::Archive | Format::ThinArchive => self.archive(bytes, at),
            Format::HostElf { relocatable } => {
                self.host(HostObject::parse(bytes), bytes, place);
                match relocatable {
                    true => "object",
                    _ if is_executable(bytes) => "executable",
                    _ => "shared library",
                }
            }
            Format::Coff => {
                self.host(HostObject::parse(bytes), bytes, place);
                "object for Windows"
            }
            Format::Fatbin => {
                self.device_bytes += bytes.len() as u64;
                self.fatbin(bytes, place);
                "fat binary"
            }
            Format::RelocatableCubin | Format::ExecutableCubin => {
                self.whole(place, StoredCode::Cubin(bytes), bytes);
                "cubin"
            }
            Format::Ptx => {
                self.whole(place, StoredCode::Ptx(bytes), bytes);
                "PTX text"
            }
            Format::LtoIr => {
                self.whole(place, StoredCode::LtoIr(bytes), bytes);
                "LTO-IR"
            }
            Format::Bitcode => "LLVM bitcode",
            Format::Unknown => match HostObject::parse_pe(bytes) {
                Ok(None) => "file of no known kind",
                object => {
                    self.host(object, bytes, place);
                    "program for Windows"
                }
            },
        }
    }

    fn whole(&mut self, place: &str, code: StoredCode<'a>, bytes: &[u8]) {
        self.device_bytes += bytes.len() as u64;
        self.images.push(StoredImage { place: place.to_owned(), code });
    }

    fn archive(&mut self, bytes: &'a [u8], at: Place<'_, 'a>) -> &'static str {
        const KIND: &str = "archive";
        if at.depth == MAX_DEPTH {
            self.defect(at.name, "it is too deep inside archives");
            return KIND;
        }
        let members = match archive::members(bytes) {
            Ok(members) => members,
            Err(error) => {
                self.defect(at.name, error);
                return KIND;
            }
        };
        for member in members {
            let member = match member {
                Ok(member) => member,
                Err(error) => {
                    self.defect(at.name, error);
                    continue;
                }
            };
            let name = named(at.name, &text_of(member.name));
            let inner = Place { name: &name, depth: at.depth + 1, ..at };
            match member.contents {
                archive::MemberContents::Here { data, .. } => _ = self.file(data, inner),
                archive::MemberContents::Elsewhere { .. } => self.elsewhere(member.name, inner),
            }
        }
        KIND
    }

    /// Reads the file that a thin archive names.
    fn elsewhere(&mut self, name: &[u8], at: Place<'_, 'a>) {
        let folder = at.path.parent().unwrap_or(Path::new(""));
        let path = folder.join(OsStr::from_bytes(name));
        // Opening a pipe would wait for its other end.
        let is_special = path.metadata().is_ok_and(|meta| !meta.is_file());
        let bytes = match is_special {
            true => Err("it is no regular file".to_owned()),
            false => (at.open)(&path),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return self.defect(at.name, error),
        };
        if sniff(bytes).is_archive() {
            let Ok(own) = path.canonicalize() else { return };
            if self.archives.contains(&own) {
                return;
            }
            self.archives.push(own);
        }
        self.file(bytes, Place { path: &path, ..at });
    }

    /// Notes what is wrong with the part of the file at `place`.
    fn defect(&mut self, place: &str, what: impl Display) {
        self.defects.push(match place {
            "" => what.to_string(),
            _ => format!("'{place}': {what}"),
        });
    }

    fn host(
        &mut self,
        object: Result<Option<HostObject<'a>>, culd_fatbin::Error>,
        bytes: &'a [u8],
        place: &str,
    ) {
        let object = match object {
            Ok(object) => object.unwrap_or_default(),
            Err(error) => return self.defect(place, error),
        };
        let lists: [(&[SectionData<'a>], &str); 2] =
            [(&object.whole_programs, ".nv_fatbin"), (&object.fatbins, "__nv_relfatbin")];
        for (sections, name) in lists {
            for section in sections {
                self.device_bytes += section.data.len() as u64;
                self.fatbin(section.data, &named(place, name));
            }
        }
        let parts = between(bytes, lists.iter().flat_map(|(sections, _)| *sections));
        match self.defers {
            true => self.unsearched = parts,
            false => self.search(&parts, place),
        }
    }

    /// Finds fat binaries among the data of the program `place`: cuFFT has all of its thousands
    /// there, cuBLASLt 299. Their place is the offset in the file.
    fn search(&mut self, parts: &[(usize, &'a [u8])], place: &str) {
        for &(start, data) in parts {
            for container in embedded(data) {
                self.device_bytes += container.bytes().len() as u64;
                let at = start + container.offset();
                self.fatbin(container.bytes(), &named(place, &format!("{at:#x}")));
            }
        }
    }

    fn fatbin(&mut self, bytes: &'a [u8], place: &str) {
        for (number, container) in containers(bytes).enumerate() {
            let container = match container {
                Ok(container) => container,
                Err(error) => {
                    self.defect(place, format!("fat binary {number}: {error}"));
                    return;
                }
            };
            for (entry_number, entry) in container.entries().enumerate() {
                let place = format!("{place}[{number}.{entry_number}]");
                match entry {
                    Ok(entry) => {
                        self.images.push(StoredImage { place, code: StoredCode::Packed(entry) })
                    }
                    Err(error) => self.defect(&place, error),
                }
            }
        }
    }
}

/// The place of a part of the file at `place`.
fn named(place: &str, part: &str) -> String {
    if place.is_empty() { part.to_owned() } else { format!("{place}:{part}") }
}

/// The parts of the file `bytes` in front of, between and behind `sections`, each with its offset.
fn between<'a, 's>(
    bytes: &'a [u8],
    sections: impl Iterator<Item = &'s SectionData<'a>>,
) -> Vec<(usize, &'a [u8])>
where
    'a: 's,
{
    let place = |section: &SectionData<'_>| {
        let start = usize::try_from(section.offset).unwrap_or(usize::MAX);
        (start, start.saturating_add(section.data.len()))
    };
    let mut taken: Vec<(usize, usize)> = sections.map(place).collect();
    taken.sort_unstable();
    let (mut parts, mut at) = (Vec::new(), 0);
    for (start, end) in taken.into_iter().chain([(bytes.len(), bytes.len())]) {
        parts.extend(bytes.get(at..start).map(|part| (at, part)));
        at = at.max(end);
    }
    parts
}

impl<'a> StoredImage<'a> {
    /// The kind of code: `cubin`, `ptx`, `lto-ir`, or `kind` and a number.
    pub fn kind(&self) -> Cow<'static, str> {
        match &self.code {
            StoredCode::Cubin(_) => "cubin".into(),
            StoredCode::Ptx(_) => "ptx".into(),
            StoredCode::LtoIr(_) => "lto-ir".into(),
            StoredCode::Packed(entry) => match entry.kind() {
                ImageKind::Elf => "cubin".into(),
                ImageKind::Ptx => "ptx".into(),
                ImageKind::LtoIr => "lto-ir".into(),
                ImageKind::Other(number) => format!("kind {number:#x}").into(),
            },
        }
    }

    /// The architecture: `sm_90a`, of PTX `compute_90`, of LTO-IR `lto_90`; empty if a bare file
    /// does not have it.
    pub fn target(&self) -> String {
        match &self.code {
            StoredCode::Cubin(bytes) => target_of(bytes),
            StoredCode::Ptx(_) | StoredCode::LtoIr(_) => String::new(),
            StoredCode::Packed(entry) => {
                let prefix = match entry.kind() {
                    ImageKind::Ptx => "compute",
                    ImageKind::LtoIr => "lto",
                    _ => "sm",
                };
                format!("{prefix}_{}{}", entry.sm(), entry.variant())
            }
        }
    }

    /// The compression: `lz4`, `zstd`, `scrambled` (LTO-IR in a form that only NVIDIA's linkers
    /// read); empty if there is none.
    pub fn compression(&self) -> &'static str {
        match &self.code {
            StoredCode::Packed(entry) => match entry.encoding() {
                Encoding::Stored => "",
                Encoding::Lz4 => "lz4",
                Encoding::Zstd => "zstd",
                _ => "scrambled",
            },
            _ => "",
        }
    }

    /// Bytes in the file.
    pub fn stored(&self) -> u64 {
        match &self.code {
            StoredCode::Packed(entry) => entry.stored().len() as u64,
            StoredCode::Cubin(bytes) | StoredCode::Ptx(bytes) | StoredCode::LtoIr(bytes) => {
                bytes.len() as u64
            }
        }
    }

    /// What is stored of a packed image; empty for others.
    pub fn packed(&self) -> &'a [u8] {
        match &self.code {
            StoredCode::Packed(entry) => entry.stored(),
            _ => &[],
        }
    }

    /// True if unpacking both gives the same bytes, because the same is stored of both in one way.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        let (StoredCode::Packed(own), StoredCode::Packed(other)) = (&self.code, &other.code) else {
            return false;
        };
        (own.kind(), own.encoding(), own.size()) == (other.kind(), other.encoding(), other.size())
            && own.stored() == other.stored()
    }

    /// Bytes when it is unpacked, as the file says.
    pub fn size(&self) -> u64 {
        match &self.code {
            StoredCode::Packed(entry) => entry.size(),
            _ => self.stored(),
        }
    }

    /// The unpacked bytes.
    ///
    /// # Errors
    /// They are damaged, or more than `limit`.
    pub fn unpack(
        &self,
        unpacker: &mut Unpacker,
        limit: u64,
    ) -> Result<Cow<'a, [u8]>, culd_fatbin::Error> {
        match &self.code {
            StoredCode::Packed(entry) => unpacker.image(entry, limit),
            StoredCode::Cubin(bytes) | StoredCode::Ptx(bytes) | StoredCode::LtoIr(bytes) => {
                Ok(Cow::Borrowed(bytes))
            }
        }
    }
}

/// True for an executable, position-independent ones included: these are shared objects with a flag
/// in the dynamic section.
fn is_executable(file: &[u8]) -> bool {
    let is_pie = || {
        let header = elf::FileHeader64::<Le>::parse(file).ok()?;
        let segments = header.program_headers(Le, file).ok()?;
        let entries = segments.iter().find_map(|segment| segment.dynamic(Le, file).ok()?)?;
        let flags = entries.iter().find(|entry| entry.d_tag(Le) == elf::DT_FLAGS_1)?;
        Some(flags.d_val(Le) & elf::DF_1_PIE.0 != 0)
    };
    let is_fixed = file.get(16..18) == Some(&elf::ET_EXEC.0.to_le_bytes());
    is_fixed || is_pie().unwrap_or(false)
}

/// The target of a bare cubin.
fn target_of(bytes: &[u8]) -> String {
    Cubin::parse(bytes).map_or_else(
        |_| String::new(),
        |cubin| {
            let accelerated = cubin.header.is_accelerated_of_cuda_12();
            format!("sm_{}{}", cubin.header.sm(), if accelerated { "a" } else { "" })
        },
    )
}
