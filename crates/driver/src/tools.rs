//! Which toolkits the ptxas and NVIDIA's libraries of a link are taken from.
//!
//! In: options, environment. Out: paths. Guaranteed: both are looked for in the same toolkits in
//! the same order.

use std::env;
use std::path::{Path, PathBuf};

use crate::options::{CommandOptions, OptionId};
use crate::toolkit::packages::{packages_of_program, toolkits_in};
use crate::toolkit::programs::{folders, in_folders, own as own_program};

/// The existing parts of a CUDA toolkit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolkitFolders {
    /// The folder of its programs.
    bin: PathBuf,
    home: PathBuf,
}

impl ToolkitFolders {
    fn at(home: PathBuf) -> Self {
        ToolkitFolders { bin: home.join("bin"), home }
    }

    fn of_bin(bin: &Path) -> Option<Self> {
        Some(ToolkitFolders { bin: bin.to_owned(), home: bin.join("..") })
    }
}

/// The toolkits in which ptxas and NVIDIA's libraries are looked for, in one order, so that they
/// come from one toolkit: that of `-nvvmpath` in a link with LTO, that of this program, that of
/// CUDA_HOME or CUDA_PATH, those that a program names, those of the Python environment that this
/// program lies in, and those of PATH. They are looked for one after the other.
fn toolkits(options: &CommandOptions) -> impl Iterator<Item = ToolkitFolders> {
    // It names a folder of the toolkit.
    let named = options.path(OptionId::NvvmPath).filter(|_| options.lto());
    let named = named.and_then(|path| Some(ToolkitFolders::at(path.parent()?.to_owned())));
    let own = own_program().and_then(|own| ToolkitFolders::of_bin(own.parent()?));
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let homes = homes.filter(|home| !home.is_empty()).map(|home| ToolkitFolders::at(home.into()));
    let given = options.toolkits.iter().cloned().map(ToolkitFolders::at);
    let packages = || {
        let of_program = own_program().map(|own| packages_of_program(&own)).unwrap_or_default();
        toolkits_in(of_program).into_iter().map(ToolkitFolders::at)
    };
    let packages = std::iter::once_with(packages).flatten();
    let before = named.into_iter().chain(own).chain(homes).chain(given);
    before.chain(packages).chain(folders().filter_map(of_folder))
}

/// The toolkit that a folder of PATH is of: one with ptxas, or with a link to an nvcc.
fn of_folder(folder: PathBuf) -> Option<ToolkitFolders> {
    let nvcc = || folder.join("nvcc").canonicalize().ok();
    match folder.join("ptxas").canonicalize() {
        Ok(ptxas) if ptxas.is_file() => {
            Some(ToolkitFolders { home: ptxas.parent()?.parent()?.to_owned(), bin: folder })
        }
        _ => ToolkitFolders::of_bin(nvcc()?.parent()?),
    }
}

/// The ptxas of the first toolkit that has one. It runs in another folder than this one.
pub(crate) fn ptxas(options: &CommandOptions) -> Option<PathBuf> {
    let found = in_folders(toolkits(options).map(|toolkit| toolkit.bin), "ptxas")?;
    Some(std::path::absolute(&found).unwrap_or(found))
}

/// The folders of the toolkits in which libraries are looked for, in the order in which ptxas is.
pub fn toolkit_homes(options: &CommandOptions) -> Vec<PathBuf> {
    toolkits(options).map(|toolkit| toolkit.home).collect()
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
    fn a_toolkit_that_a_program_names_is_looked_through() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_owned();
        let mut options = CommandOptions::for_nobody();
        options.toolkits.push(home.clone());
        assert!(toolkit_homes(&options).contains(&home));
        assert!(!toolkit_homes(&CommandOptions::for_nobody()).contains(&home));
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
}
