//! `-l` and `-L`.

use std::fs;

use super::archive::Archive;
use super::walk::is_system;
use super::{Gather, Ignored, InputError, Stopped};
use crate::files;
use crate::options::Id;

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

/// The magic number of an archive. Files without anything behind it are passed over.
const EMPTY_ARCHIVE: usize = 8;

impl Gather<'_, '_> {
    /// Links the libraries that `-l` names: they come after all files, each once.
    pub(super) fn libraries(&mut self) -> Result<(), Stopped> {
        let mut done: Vec<&str> = Vec::new();
        let options = self.options;
        for name in options.list(Id::Library) {
            if done.contains(&name.as_str()) {
                continue;
            }
            done.push(name);
            self.library(name)?;
        }
        Ok(())
    }

    fn library(&mut self, name: &str) -> Result<(), Stopped> {
        let options = self.options;
        let mut shared = false;
        for folder in options.list(Id::LibraryPath) {
            let folder = folder.trim_end_matches('/');
            let path = format!("{folder}/lib{name}.a");
            shared |= fs::metadata(format!("{folder}/lib{name}.so")).is_ok();
            if !fs::metadata(&path).is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            let Ok((bytes, identity)) = files::read_with_identity(&path) else { continue };
            if bytes.len() <= EMPTY_ARCHIVE {
                self.incompatible(path, name)?;
                continue;
            }
            if !self.first_time(identity) {
                return Ok(());
            }
            let bytes = &**self.store.alloc(bytes);
            let system = is_system(&path);
            return self.archive(&Archive::file(&path, bytes, system));
        }
        // A shared library takes no part in a device link.
        if !shared && !HOST_LIBRARIES.contains(&name) {
            self.found.missing_libraries.push(name.to_owned());
            self.ignored(Ignored::Library { name: name.to_owned() });
        }
        Ok(())
    }

    fn incompatible(&mut self, path: String, name: &str) -> Result<(), Stopped> {
        if self.options.flag(Id::DisableInfos) {
            return Ok(());
        }
        self.warning(InputError::Incompatible { path, name: name.to_owned() }, Vec::new());
        if self.failed { Err(self.fatal(InputError::Internal, Vec::new())) } else { Ok(()) }
    }

    /// True when this archive was not linked yet, under whatever name.
    pub(super) fn first_time(&mut self, identity: (u64, u64)) -> bool {
        let first = !self.seen.contains(&identity);
        if first {
            self.seen.push(identity);
        }
        first
    }
}
