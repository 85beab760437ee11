//! Where this library is, and what is beside it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The ptxas that `CULD_PTXAS` names, or that is in the toolkit in which this library lies: NVIDIA's own compiles without
/// one. `None` leaves the choice to the driver.
pub(crate) fn ptxas() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CULD_PTXAS") {
        return Some(path.into());
    }
    let folder = library()?.parent()?;
    let ptxas = folder.parent()?.join("bin/ptxas");
    ptxas.is_file().then_some(ptxas)
}

/// The file that this code was loaded from.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_deref()
}

fn find() -> Option<PathBuf> {
    let here = find as fn() -> Option<PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let inside = (address(start)?..address(end)?).contains(&here);
        let path = rest.find('/').map(|at| PathBuf::from(&rest[at..]));
        path.filter(|_| inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_code_is_in_a_file() {
        let library = library().expect("a file");
        assert!(library.is_file(), "{library:?}");
    }
}
