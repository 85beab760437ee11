//! `-l` and `-L`.

use culd_text::os::{OsStrExt, OsStringExt};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use super::archive::ArchiveReader;
use super::walk::is_system;
use super::{Gatherer, InputStop};
use crate::messages::{Ignored, InputError};
use crate::options::OptionId;
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

/// A library of `-l`.
pub(super) struct LibraryName<'a> {
    name: String,
    /// Path, contents and identity.
    file: Option<(PathBuf, &'a [u8], Identity)>,
    /// There is a shared library of that name, which takes no part in a device link.
    shared: bool,
}

impl<'a> Gatherer<'a, '_> {
    /// Looks for the libraries of `-l`. Skipped files are reported before any input is opened, once
    /// for each `-l`.
    pub(super) fn search(&mut self) -> Vec<LibraryName<'a>> {
        let names = self.options.list(OptionId::Library);
        names.iter().map(|name| self.look_for(name)).collect()
    }

    fn look_for(&mut self, name: &OsStr) -> LibraryName<'a> {
        let mut library = LibraryName { name: culd_text::name(name), file: None, shared: false };
        let options = self.options;
        for folder in options.list(OptionId::LibraryPath) {
            library.shared |=
                fs::metadata(self.sources.store.place(&path_in(folder, name, b".so"))).is_ok();
            let path = path_in(folder, name, b".a");
            let Ok((bytes, identity)) = self.sources.open(&path, Kinds::Files) else { continue };
            if is_library(bytes) {
                library.file = Some((path, bytes, identity));
                break;
            }
            if !options.flag(OptionId::DisableInfos) {
                let (path, name) = (culd_text::name(path), library.name.clone());
                self.warning(InputError::Incompatible { path, name }, Vec::new());
            }
        }
        library
    }

    /// Links the libraries: they come after all files.
    pub(super) fn libraries(&mut self, libraries: Vec<LibraryName<'a>>) -> Result<(), InputStop> {
        for LibraryName { name, file, shared } in libraries {
            match file {
                Some((path, bytes, identity)) => {
                    self.found.files.push(path.clone());
                    if self.first_time(identity) {
                        let (shown, system) = (culd_text::name(&path), is_system(&path));
                        self.found.libraries.push((shown.clone(), name));
                        self.archive(&ArchiveReader::file(&shown, &path, bytes, identity, system))?;
                    }
                }
                None if shared || HOST_LIBRARIES.contains(&name.as_str()) => {}
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

/// False for a file that is passed over in the search for a library.
pub(super) fn is_library(bytes: &[u8]) -> bool {
    bytes.len() > EMPTY_ARCHIVE
}
