//! Where programs are: this one, and those of the user that it runs.

use std::env;
use std::path::{Path, PathBuf};

/// The path that this program was started by: its folder tells what it stands for, not that of the file behind a link.
pub(crate) fn own() -> Option<PathBuf> {
    let own = PathBuf::from(env::args_os().next()?);
    if own.components().count() > 1 { Some(own) } else { in_folders(folders(), &own) }
}

/// The folders of PATH, in their order.
pub(crate) fn folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// The first file of this name in `folders`.
pub(crate) fn in_folders(
    folders: impl IntoIterator<Item = PathBuf>,
    name: impl AsRef<Path>,
) -> Option<PathBuf> {
    folders.into_iter().map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

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
