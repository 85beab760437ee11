//! The place of this library, and the CUDA files near it.
//!
//! In: the environment, and the files that the process has mapped. Out: a ptxas, and folders that
//! may have NVIDIA's libnvJitLink. Guaranteed: files that the user names come first; nothing is
//! looked for before it is needed.
//!
//! NVIDIA's library compiles PTX and LTO-IR by itself. A program that finds this one in its place
//! therefore needs no toolkit in `CUDA_HOME` or `PATH`: the tools lie in the Python packages from
//! which the program has its libraries.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::interface::INTERFACE;

/// The ptxas that `CULD_PTXAS` names, or that is in the toolkit in which this library lies, or in a
/// package. `None` leaves the choice to the driver.
pub(crate) fn ptxas() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CULD_PTXAS") {
        return Some(path.into());
    }
    let mut found = toolkits().iter().map(|toolkit| toolkit.join("bin/ptxas"));
    found.find(|ptxas| ptxas.is_file())
}

/// The toolkit in which this library lies, and those of Python packages.
pub(crate) fn toolkits() -> &'static [PathBuf] {
    static TOOLKITS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    TOOLKITS.get_or_init(|| {
        let own = library().and_then(|library| library.parent()?.parent());
        let packages = mapped().into_iter().filter_map(|(_, path)| packages_of(&path));
        let mut toolkits: Vec<PathBuf> = own.into_iter().map(Path::to_owned).collect();
        for packages in packages.chain(of_program()) {
            for wheel in INTERFACE.wheels.iter().map(|wheel| packages.join(wheel)) {
                if !toolkits.contains(&wheel) && wheel.is_dir() {
                    toolkits.push(wheel);
                }
            }
        }
        toolkits
    })
}

/// The file that this code was loaded from.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let here = library as fn() -> Option<&'static Path> as usize;
    let is_here = |(range, _): &(std::ops::Range<usize>, PathBuf)| range.contains(&here);
    LIBRARY.get_or_init(|| Some(mapped().into_iter().find(is_here)?.1)).as_deref()
}

/// The files that the process has mapped.
fn mapped() -> Vec<(std::ops::Range<usize>, PathBuf)> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let file = |line: &[u8]| {
        let path = line.iter().position(|&byte| byte == b'/')?;
        let range = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(start)?..address(end)?, PathBuf::from(OsStr::from_bytes(&line[path..]))))
    };
    maps.split(|&byte| byte == b'\n').filter_map(file).collect()
}

/// The folder of packages that a file is in.
fn packages_of(file: &Path) -> Option<PathBuf> {
    let is_packages = |folder: &&Path| {
        folder
            .file_name()
            .is_some_and(|name| culd_driver::PACKAGES.iter().any(|packages| name == *packages))
    };
    file.ancestors().find(is_packages).map(Path::to_owned)
}

/// The folders of packages of the Python that runs, if one does: it lies in `bin` of its
/// environment.
fn of_program() -> Vec<PathBuf> {
    culd_driver::program()
        .map(|program| culd_driver::packages_of_program(&program))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_code_is_in_a_file() {
        let library = library().expect("a file");
        assert!(library.is_file(), "{library:?}");
    }

    #[test]
    fn packages_are_found_by_a_file_in_them() {
        let found = |file: &str| packages_of(Path::new(file));
        let packages = Some(PathBuf::from("/env/lib/python3.11/site-packages"));
        assert_eq!(found("/env/lib/python3.11/site-packages/cuda/bindings/a.so"), packages);
        assert_eq!(found("/env/lib/python3.11/site-packages/a.so"), packages);
        assert_eq!(found("/usr/lib/x86_64-linux-gnu/libc.so.6"), None);
        assert_eq!(found("/env/my-site-packages/a.so"), None);
    }
}
