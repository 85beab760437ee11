//! Links through numba-cuda, by NVIDIA's library and by ours.
//!
//! In: the library, an architecture. Out: the fault. Guaranteed: the images of PTX and of LTO-IR
//! are equal, and come from the library that is meant.

use anyhow::{Result, ensure};
use culd_testkit::reference::oracle::wheels::Environment;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::MajorRelease;
use super::places::fault_in_plain_environment;
use crate::workspace;

/// Runs `script` with both libraries; images go to folders in `dir`.
pub(super) fn check(
    library: &Path,
    major: &MajorRelease,
    (script, arch): (&Path, &str),
    dir: &Path,
) -> Result<Option<String>> {
    let (folder, wheels) = major.numba;
    let environment = Environment::install(&workspace::target().join(folder), wheels)?;
    let (package, name) = major.place;
    let place = environment.package(package)?.join("lib").join(name);
    // LTO-IR is compiled by NVIDIA's library, PTX by the ptxas of the wheels.
    let run = |preload: Option<&Path>, loaded: &Path, side: &str| {
        let images = dir.join(side);
        fs::create_dir_all(&images)?;
        let mut python = Command::new(environment.program("python3"));
        python.arg(script).arg(arch).arg(loaded).arg(&images).current_dir(dir);
        fault_in_plain_environment(python, preload)
    };
    let theirs = run(None, &place, "theirs-numba")?;
    ensure!(theirs.is_none(), "with NVIDIA's library: {}", theirs.unwrap_or_default());
    if let Some(what) = run(Some(library), library, "ours-numba")? {
        return Ok(Some(what));
    }
    super::images(dir, arch, ("theirs-numba", "ours-numba"), true)
}
