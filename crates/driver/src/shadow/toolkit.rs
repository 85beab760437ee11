//! The toolkit behind a shadow.
//!
//! In: the command line, the environment. Out: the real path of a toolkit. Guaranteed: never a
//! shadow.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{ShadowError, failed};
use crate::toolkit::marker::Marker;
use crate::toolkit::programs;

/// The place of NVIDIA's installer.
const DEFAULT: &str = "/usr/local/cuda";

/// Variables that name a toolkit, in the order in which they count.
const VARIABLES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];

/// The toolkit that is `named`; else that of the shadow that is at `dir` already; else that of the
/// variables, of nvcc in PATH, or in the usual place.
pub(super) fn find(named: Option<&Path>, dir: &Path) -> Result<PathBuf, ShadowError> {
    match named {
        Some(path) => open(path),
        None => first(dir, |name| env::var_os(name), PathBuf::from(DEFAULT)),
    }
}

fn first(
    dir: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
    usual: PathBuf,
) -> Result<PathBuf, ShadowError> {
    let before = Marker::read(dir).map(|marker| marker.toolkit);
    let variables = VARIABLES.iter().filter_map(|name| variable(name));
    let variables = variables.filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = variable("PATH").unwrap_or_default();
    let nvcc = programs::in_folders(env::split_paths(&path), "nvcc");
    let of_nvcc = nvcc.and_then(|nvcc| home(&nvcc));
    let candidates = before.into_iter().chain(variables).chain(of_nvcc).chain([usual]);
    // For a shadow, this is the toolkit that it was made of.
    let original = |path: PathBuf| Marker::read(&path).map_or(path, |marker| marker.toolkit);
    candidates
        .map(original)
        .find_map(|path| open(&path).ok())
        .ok_or(ShadowError::NoToolkit { usual: DEFAULT })
}

/// The toolkit of an nvcc: the folder by which it is started may be a shadow's, that of the file
/// behind a link may not.
fn home(nvcc: &Path) -> Option<PathBuf> {
    let started = nvcc.parent()?.parent()?.to_owned();
    if Marker::read(&started).is_some() {
        return Some(started);
    }
    Some(nvcc.canonicalize().ok()?.parent()?.parent()?.to_owned())
}

/// The real path of a toolkit.
fn open(path: &Path) -> Result<PathBuf, ShadowError> {
    let toolkit = path.canonicalize().map_err(failed("open toolkit", path))?;
    if Marker::read(&toolkit).is_some() {
        return Err(ShadowError::ShadowOfShadow(toolkit));
    }
    let bin = toolkit.join("bin");
    if !["nvcc", "nvlink"].iter().any(|tool| bin.join(tool).is_file()) {
        return Err(ShadowError::NotAToolkit(toolkit));
    }
    Ok(toolkit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolkit::marker;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_first_place_with_a_toolkit_counts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["home", "path", "behind", "usual", "old"] {
            fs::create_dir_all(at(name).join("bin")).unwrap();
            fs::write(at(name).join("bin/nvcc"), "").unwrap();
        }
        fs::create_dir_all(at("links")).unwrap();
        symlink(at("behind/bin/nvcc"), at("links/nvcc")).unwrap();
        for (shadow, toolkit) in [("shadow", "old"), ("mine", "old"), ("lost", "nowhere")] {
            fs::create_dir_all(at(shadow).join("bin")).unwrap();
            fs::write(at(shadow).join("bin/nvcc"), "").unwrap();
            let marker = Marker::new(&at(toolkit), &at("culd"));
            fs::write(at(shadow).join(marker::NAME), marker.bytes()).unwrap();
        }
        // The folder to make; CUDA_HOME, CUDA_PATH and PATH; the toolkit.
        let cases = [
            ("new", ["home", "path", "links"], "home"),
            ("new", ["gone", "path", "links"], "path"),
            ("new", ["", "", "links"], "behind"),
            ("new", ["", "", "usual"], "usual"),
            ("new", ["shadow", "", ""], "old"),
            ("new", ["", "", "shadow/bin"], "old"),
            ("mine", ["home", "path", "links"], "old"),
            ("lost", ["home", "path", "links"], "home"),
        ];
        for (dir, values, expected) in cases {
            let variable = |name: &str| {
                let value = VARIABLES.iter().chain(&["PATH"]).position(|&known| known == name)?;
                let value = values[value];
                (!value.is_empty()).then(|| at(value).into_os_string())
            };
            let found = first(&at(dir), variable, at("usual")).unwrap();
            assert_eq!(found, at(expected), "{dir} {values:?}");
        }
        let none = first(&at("new"), |_| None, at("gone")).unwrap_err().to_string();
        assert!(none.contains("CUDA_HOME") && none.contains("--cuda"), "{none}");
        let shadow = find(Some(&at("shadow")), &at("new")).unwrap_err().to_string();
        assert!(shadow.contains("is a shadow toolkit itself"), "{shadow}");
    }
}
