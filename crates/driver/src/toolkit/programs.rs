//! The paths of programs: this one, and those of the user that it runs.
//!
//! In: the environment. Out: paths. Guaranteed: a program in the working folder is found only if a
//! path names that folder, never by its name alone. Otherwise the sender of a folder of sources
//! could choose the program.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf, is_separator};

/// The folders of programs without PATH, as for execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The path that this program was started by. Its folder counts, not the folder of the file behind
/// a link.
pub fn own() -> Option<PathBuf> {
    let own = PathBuf::from(env::args_os().next()?);
    if is_path(&own) {
        return Some(own);
    }
    in_folders(folders(), &own).or_else(|| env::current_exe().ok())
}

/// The program `name`: a path, or for a name without a slash, the program in PATH.
pub(crate) fn named(name: &Path) -> Option<PathBuf> {
    match is_path(name) {
        true => Some(std::path::absolute(name).unwrap_or_else(|_| name.to_owned())),
        false => in_folders(folders(), name),
    }
}

/// True for more than a name.
fn is_path(name: &Path) -> bool {
    let bytes = name.as_os_str().as_encoded_bytes();
    bytes.iter().any(|&byte| is_separator(char::from(byte)))
}

/// The folders of PATH in order, without those that are the working folder or in it.
pub(crate) fn folders() -> impl Iterator<Item = PathBuf> {
    folders_of(env::var_os("PATH").as_deref()).into_iter()
}

fn folders_of(path: Option<&OsStr>) -> Vec<PathBuf> {
    let folders = env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)));
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// The first file of this name in `folders`.
pub(crate) fn in_folders(
    folders: impl IntoIterator<Item = PathBuf>,
    name: impl AsRef<Path>,
) -> Option<PathBuf> {
    let mut name = name.as_ref().as_os_str().to_owned();
    if Path::new(&name).extension().is_none() {
        name.push(env::consts::EXE_SUFFIX);
    }
    folders.into_iter().map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_folder_is_no_folder_of_path() {
        let folders = |path: &str| folders_of(Some(path.as_ref()));
        assert!(folders("").is_empty());
        assert_eq!(folders(":/a::.:b:./c:../d:/e:"), ["/a", "/e"].map(PathBuf::from));
        assert_eq!(folders_of(None), ["/bin", "/usr/bin"].map(PathBuf::from));
    }

    #[test]
    fn the_first_folder_with_the_file_counts() {
        let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let paths = || folders.iter().map(|folder| folder.path().to_owned());
        assert_eq!(in_folders(paths(), "ptxas"), None);
        std::fs::create_dir(folders[0].path().join("ptxas")).unwrap();
        std::fs::write(folders[1].path().join("ptxas"), "").unwrap();
        std::fs::write(folders[2].path().join("ptxas"), "").unwrap();
        assert_eq!(in_folders(paths(), "ptxas"), Some(folders[1].path().join("ptxas")));
    }
}
