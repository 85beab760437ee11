//! Where programs are: this one, and those of the user that it runs.
//!
//! In: options, environment. Out: paths. Guaranteed: a program in the working folder is found only
//! where a path names that folder, and never by its name alone: whoever gives a folder of sources
//! away would else choose what runs.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::options::{Id, Options};

/// Where programs are if nobody says so, as for execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A CUDA toolkit, as far as it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Toolkit {
    /// Where its programs are.
    bin: PathBuf,
    home: PathBuf,
}

impl Toolkit {
    fn at(home: PathBuf) -> Self {
        Toolkit { bin: home.join("bin"), home }
    }

    fn of_bin(bin: &Path) -> Option<Self> {
        Some(Toolkit { bin: bin.to_owned(), home: bin.join("..") })
    }
}

/// Where ptxas and NVIDIA's libraries are looked for, both in this order, so that they come from
/// one toolkit: that of `-nvvmpath` in a link with LTO, the one that this program lies in, that of
/// CUDA_HOME or CUDA_PATH, and those of PATH.
fn toolkits(options: &Options) -> impl Iterator<Item = Toolkit> {
    // It names a folder of the toolkit.
    let named = options.path(Id::NvvmPath).filter(|_| options.lto());
    let named = named.and_then(|path| Some(Toolkit::at(path.parent()?.to_owned())));
    let own = own().and_then(|own| Toolkit::of_bin(own.parent()?));
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let homes = homes.filter(|home| !home.is_empty()).map(|home| Toolkit::at(home.into()));
    named.into_iter().chain(own).chain(homes).chain(folders().filter_map(of_folder))
}

/// The toolkit that a folder of PATH is of: one with ptxas, or with a link to an nvcc.
fn of_folder(folder: PathBuf) -> Option<Toolkit> {
    let nvcc = || folder.join("nvcc").canonicalize().ok();
    match folder.join("ptxas").canonicalize() {
        Ok(ptxas) if ptxas.is_file() => {
            Some(Toolkit { home: ptxas.parent()?.parent()?.to_owned(), bin: folder })
        }
        _ => Toolkit::of_bin(nvcc()?.parent()?),
    }
}

/// The ptxas of the first toolkit that has one. It runs in another folder than this one.
pub(crate) fn ptxas(options: &Options) -> Option<PathBuf> {
    let found = in_folders(toolkits(options).map(|toolkit| toolkit.bin), "ptxas")?;
    Some(std::path::absolute(&found).unwrap_or(found))
}

/// The folders of the toolkits in which libraries are looked for, in the order in which ptxas is.
pub fn toolkit_homes(options: &Options) -> Vec<PathBuf> {
    toolkits(options).map(|toolkit| toolkit.home).collect()
}

/// The path that this program was started by: its folder tells what it stands for, not that of the
/// file behind a link.
pub fn own() -> Option<PathBuf> {
    let own = PathBuf::from(env::args_os().next()?);
    if own.components().count() > 1 {
        return Some(own);
    }
    in_folders(folders(), &own).or_else(|| env::current_exe().ok())
}

/// The program that `name` names: a path, or what PATH has under a name without a slash.
pub(crate) fn named(name: &Path) -> Option<PathBuf> {
    match name.as_os_str().as_bytes().contains(&b'/') {
        true => Some(std::path::absolute(name).unwrap_or_else(|_| name.to_owned())),
        false => in_folders(folders(), name),
    }
}

/// The folders of PATH, in their order, but for those that are the working folder or in it.
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
    folders.into_iter().map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};
    use std::fs;

    #[test]
    fn ptxas_and_libraries_are_of_one_toolkit() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir_all(place("named/bin")).unwrap();
        fs::write(place("named/bin/ptxas"), "").unwrap();
        let options = |line: String| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            match parse(&words).request {
                Ok(Request::Link(options)) => *options,
                other => panic!("{other:?}"),
            }
        };
        let nvvm = place("named/nvvm").display().to_string();
        let lto = options(format!("-arch=sm_90 a -o b -lto -nvvmpath={nvvm}"));
        assert_eq!(ptxas(&lto), Some(place("named/bin/ptxas")));
        assert_eq!(toolkit_homes(&lto).first(), Some(&place("named")));
        // Without LTO the option is only recorded.
        let plain = options(format!("-arch=sm_90 a -o b -nvvmpath={nvvm}"));
        assert_ne!(toolkit_homes(&plain).first(), Some(&place("named")));
        assert_ne!(ptxas(&plain), Some(place("named/bin/ptxas")));
    }

    #[test]
    fn a_folder_of_path_is_of_the_toolkit_behind_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for bin in ["cuda/bin", "links", "more", "none"] {
            fs::create_dir_all(place(bin)).unwrap();
        }
        for name in ["cuda/bin/ptxas", "cuda/bin/nvcc"] {
            fs::write(place(name), "").unwrap();
        }
        std::os::unix::fs::symlink(place("cuda/bin/nvcc"), place("links/nvcc")).unwrap();
        std::os::unix::fs::symlink(place("cuda/bin/ptxas"), place("more/ptxas")).unwrap();
        let found = |name: &str| of_folder(place(name)).map(|toolkit| toolkit.bin);
        assert_eq!(found("links"), Some(place("cuda/bin")));
        assert_eq!(found("more"), Some(place("more")));
        assert_eq!(of_folder(place("more")).unwrap().home, place("cuda"));
        assert_eq!(found("none"), None);
    }

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
