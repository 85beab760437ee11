//! `-l` and `-L`.

use culd_text::os::{OsStrExt, OsStringExt};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::{Format, sniff};

use super::archive::{ArchiveReader, folder_of};
use super::walk::is_system;
use super::{Gatherer, InputStop};
use crate::messages::{Ignored, InputError};
use crate::options::{OptionId, RISCV64};
use crate::os::files::{Identity, Kinds};

/// Libraries of the host's compilers and of the CUDA runtime. Build systems name them on every
/// link; a missing one takes no device code away.
const HOST_LIBRARIES: &[&str] = &[
    "c",
    "cuda",
    "cudart",
    "cudart_static",
    "culibos",
    "dl",
    "gcc",
    "gcc_s",
    "gomp",
    "m",
    "nvrtc",
    "pthread",
    "rt",
    "stdc++",
    "supc++",
    "util",
    "c++",
    "c++abi",
    "unwind",
    "atomic",
];

/// The magic number of an archive. Archives that end after it are skipped.
const EMPTY_ARCHIVE: usize = 8;

/// The offset of `e_machine` in an ELF header.
const MACHINE: usize = 18;

/// A library of `-l`.
pub(super) struct LibraryName<'a> {
    name: String,
    /// Path, contents and identity.
    file: Option<(PathBuf, &'a [u8], Identity)>,
    /// There is a shared library of that name, which takes no part in a device link.
    shared: bool,
    /// There is a file of that name that is not for the host, which has a line of its own.
    incompatible: bool,
}

impl<'a> Gatherer<'a, '_> {
    /// Looks for the libraries of `-l`. Skipped files are reported before any input is opened, once
    /// for each `-l`. Where that is an error, the next file that is found ends the link
    /// (transcripts werror-incompatible-*).
    pub(super) fn search(&mut self) -> Result<Vec<LibraryName<'a>>, InputStop> {
        let names = self.options.list(OptionId::Library);
        names.iter().map(|name| self.look_for(name)).collect()
    }

    fn look_for(&mut self, name: &OsStr) -> Result<LibraryName<'a>, InputStop> {
        let mut library = LibraryName {
            name: culd_text::name(name),
            file: None,
            shared: false,
            incompatible: false,
        };
        let options = self.options;
        for folder in options.list(OptionId::LibraryPath) {
            library.shared |=
                fs::metadata(self.sources.store.place(&path_in(folder, name, b".so"))).is_ok();
            let path = path_in(folder, name, b".a");
            let Ok((bytes, identity)) = self.sources.open(&path, Kinds::Files) else { continue };
            self.opened(InputError::Internal)?;
            let is_library = is_library(bytes);
            if is_library && self.is_for_host(&path, bytes) {
                library.file = Some((path, bytes, identity));
                break;
            }
            library.incompatible |= is_library;
            if !options.flag(OptionId::DisableInfos) {
                let (path, name) = (culd_text::name(path), library.name.clone());
                self.warning(InputError::Incompatible { path, name }, Vec::new());
            }
        }
        Ok(library)
    }

    /// False for an archive without an object for the host's processor, which nvlink passes over
    /// (docs/rules/inputs.md, 4). What is wrong with an archive is reported when it is linked.
    fn is_for_host(&mut self, path: &Path, bytes: &'a [u8]) -> bool {
        let Some(machine) = host_machine(self.options.text(OptionId::CpuArch)) else { return true };
        let Ok(members) = archive::members(bytes) else { return true };
        for member in members {
            let data = match member.map(|member| (member.name, member.contents)) {
                Ok((_, MemberContents::Here { data, .. })) => data,
                Ok((name, MemberContents::Elsewhere { .. })) => {
                    let place = folder_of(path).join(OsStr::from_bytes(name));
                    let Ok((data, _)) = self.thin_member(&place) else { return true };
                    data
                }
                Err(_) => return true,
            };
            if is_object_for(data, machine) {
                return true;
            }
        }
        false
    }

    /// Links the libraries: they come after all files.
    pub(super) fn libraries(&mut self, libraries: Vec<LibraryName<'a>>) -> Result<(), InputStop> {
        for LibraryName { name, file, shared, incompatible } in libraries {
            match file {
                Some((path, bytes, identity)) => {
                    self.found.files.push(path.clone());
                    if self.first_time(identity) {
                        let (shown, system) = (culd_text::name(&path), is_system(&path));
                        self.found.libraries.push((shown.clone(), name));
                        self.archive(&ArchiveReader::file(&shown, &path, bytes, identity, system))?;
                    }
                }
                None if incompatible || shared || HOST_LIBRARIES.contains(&name.as_str()) => {}
                None if self.found.missing_libraries.contains(&name) => {}
                None => {
                    self.found.missing_libraries.push(name.clone());
                    self.ignored(Ignored::Library { name });
                }
            }
        }
        Ok(())
    }

    /// True if this archive was not linked yet under any name.
    pub(super) fn first_time(&mut self, identity: Identity) -> bool {
        let first = !self.seen.contains(&identity);
        if first {
            self.seen.push(identity);
        }
        first
    }
}

/// The path of a library in a folder of `-L`: `lib<name><ending>`.
pub(super) fn path_in(folder: &OsStr, name: &OsStr, ending: &[u8]) -> PathBuf {
    let mut path = folder.as_bytes().to_vec();
    path.truncate(path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1));
    path.extend([b"/lib", name.as_bytes(), ending].concat());
    PathBuf::from(OsString::from_vec(path))
}

/// The `e_machine` (ELF's numbers) of objects of the host's processor; `None` where any will do.
/// Without the option it is the processor of nvlink itself.
fn host_machine(cpu: Option<&str>) -> Option<u16> {
    match cpu {
        Some("AARCH64") => Some(183),
        Some("ARMv7") => Some(40),
        Some("PPC64LE") => Some(21),
        Some(RISCV64) => Some(243),
        Some("X86") => Some(3),
        Some("X86_64") => Some(62),
        _ if !cfg!(target_os = "linux") => None,
        _ if cfg!(target_arch = "x86_64") => Some(62),
        _ if cfg!(target_arch = "aarch64") => Some(183),
        _ => None,
    }
}

/// True for an ELF file for that processor; and for objects of Windows and archives in archives,
/// which culd links and nvlink for Linux does not.
fn is_object_for(data: &[u8], machine: u16) -> bool {
    match sniff(data) {
        Format::Coff | Format::Archive | Format::ThinArchive => true,
        _ => {
            let stored = data.get(MACHINE..MACHINE + 2);
            data.starts_with(b"\x7fELF") && stored == Some(&machine.to_le_bytes()[..])
        }
    }
}

/// False for a file that is passed over in the search for a library.
pub(super) fn is_library(bytes: &[u8]) -> bool {
    bytes.len() > EMPTY_ARCHIVE
}
