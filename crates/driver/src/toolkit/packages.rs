//! The parts of a CUDA toolkit that lie in Python packages.
//!
//! In: the path of a program. Out: folders in NVIDIA's layout. Guaranteed: only the environment in
//! whose `bin` the program lies is looked at.
//!
//! pip installs culd into an environment, and NVIDIA's compilers beside it: there is no toolkit
//! that `CUDA_HOME` or PATH could name.

use culd_text::os::OsStrExt;
use std::path::{Path, PathBuf};

/// The names of folders with packages.
pub const PACKAGES: &[&str] = &["site-packages", "dist-packages"];

/// Folders in packages with ptxas or NVIDIA's libraries: of CUDA 13, of CUDA 12.
const WHEELS: &[&str] = &["nvidia/cu13", "nvidia/cuda_nvcc", "nvidia/nvjitlink"];

/// The folders of packages of the environment in whose `bin` `program` lies.
pub fn packages_of_program(program: &Path) -> Vec<PathBuf> {
    let Some(home) = program.parent().and_then(Path::parent) else { return Vec::new() };
    let versions = |folder: &str| {
        let folder = home.join(folder);
        let versions = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut versions: Vec<PathBuf> = versions
            .filter(|entry| entry.file_name().as_bytes().starts_with(b"python3"))
            .flat_map(|entry| PACKAGES.iter().map(move |packages| entry.path().join(packages)))
            .collect();
        versions.sort();
        versions
    };
    ["lib", "lib64"].into_iter().flat_map(versions).collect()
}

/// The parts of toolkits in these folders of packages.
pub(crate) fn toolkits_in(packages: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let all = packages
        .into_iter()
        .flat_map(|packages| WHEELS.iter().map(move |wheel| packages.join(wheel)));
    all.filter(|wheel| wheel.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_of_an_environment_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for made in ["bin", "lib/python3.9/site-packages/nvidia/cu13", "lib/other/site-packages"] {
            std::fs::create_dir_all(place(made)).unwrap();
        }
        let packages = packages_of_program(&place("bin/culd"));
        assert!(packages.contains(&place("lib/python3.9/site-packages")), "{packages:?}");
        assert!(!packages.contains(&place("lib/other/site-packages")), "{packages:?}");
        assert_eq!(toolkits_in(packages), [place("lib/python3.9/site-packages/nvidia/cu13")]);
        assert!(packages_of_program(Path::new("culd")).is_empty());
    }
}
