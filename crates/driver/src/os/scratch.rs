//! A temporary folder for a program that is started.
//!
//! In: where, and the names of the files that may be in it. Out: the folder. Guaranteed: it is gone
//! when the value is dropped, and in the command also when a signal ends the process.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::{fs, io};

#[cfg(feature = "command")]
use super::guard::ListedFolder;
use super::host;

/// Signals are handled by the command only.
#[cfg(not(feature = "command"))]
#[derive(Clone, Copy)]
struct ListedFolder;

#[cfg(not(feature = "command"))]
impl ListedFolder {
    fn new(_: &Path, _: &[&str]) -> Option<Self> {
        None
    }

    fn gone(self) {}
}

/// A folder that only this user can read.
pub(crate) struct Scratch {
    path: PathBuf,
    listed: Option<ListedFolder>,
}

impl Scratch {
    /// A folder in `parent` whose name begins with `prefix`, for files of these names.
    pub(crate) fn new(parent: &Path, prefix: &str, files: &[&str]) -> io::Result<Self> {
        let made = tempfile::Builder::new().prefix(prefix).make_in(parent, |path| {
            let listed = ListedFolder::new(path, files);
            let made = host::make_private_folder(path);
            if let (Err(_), Some(folder)) = (&made, listed) {
                folder.gone();
            }
            made.map(|()| listed)
        })?;
        let (listed, path) = made.keep().map_err(|error| error.error)?;
        Ok(Scratch { path, listed })
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // An error would be of no use to the user.
        let _ = fs::remove_dir_all(&self.path);
        if let Some(folder) = self.listed {
            folder.gone();
        }
    }
}
