//! Tests the library in the places that docs/JITLINK.md names: in a plain Python environment,
//! without CUDA elsewhere.
//!
//! In: the library, the inputs of one architecture. Out: the faults. Guaranteed: our library links
//! PTX and LTO-IR in every place, and replaced files are put back.

use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::wheels::Environment;
use culd_testkit::reference::oracle::{Release, process};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{LIMIT, MajorRelease};
use crate::workspace;

/// [`MajorRelease::wheels`] are those of this release. Inputs that a later toolkit has made need
/// the wheels of that toolkit.
const DEFAULT: &str = "13.0";

/// Links in each place with `library`; `dir` has the inputs for `arch`.
pub(super) fn check(
    library: &Path,
    (major, release): (&MajorRelease, &'static Release),
    (script, arch): (&Path, &str),
    dir: &Path,
) -> Result<Option<String>> {
    // The wheels that a user installs: cuda.bindings, NVIDIA's library and ptxas.
    let (suffix, wheels) = match major.wheels {
        wheels if !wheels.is_empty() && release.name == DEFAULT => ("", wheels),
        _ => (release.name, release.wheels),
    };
    let environment = workspace::target().join(format!("plain-bindings{suffix}"));
    let environment = Environment::install(&environment, &[&[major.bindings.1], wheels].concat())?;
    let (package, name) = major.place;
    let folder = environment.package(package)?.join("lib");
    let (place, moved) = (folder.join(name), folder.join(format!("{name}.nvidia")));
    if moved.exists() {
        // An earlier run was interrupted.
        fs::rename(&moved, &place)?;
    }
    let run = |preload: Option<&Path>, loaded: &Path| {
        let mut python = Command::new(environment.program("python3"));
        python.arg(script).arg(arch).arg(loaded).current_dir(dir);
        fault_in_plain_environment(python, preload)
    };
    // The script is right about NVIDIA's.
    let theirs = run(None, &place)?;
    ensure!(theirs.is_none(), "with NVIDIA's library: {}", theirs.unwrap_or_default());
    if let Some(what) = run(Some(library), library)? {
        return Ok(Some(format!("preloaded: {what}")));
    }
    fs::rename(&place, &moved)?;
    let copied = fs::copy(library, &place).with_context(|| place.display().to_string());
    let replaced = copied.and_then(|_| run(None, &place));
    fs::rename(&moved, &place)?;
    Ok(replaced?.map(|what| format!("in the place of NVIDIA's: {what}")))
}

/// What `python` says if it fails, without variables of the user's and with a library preloaded.
pub(super) fn fault_in_plain_environment(
    mut python: Command,
    preload: Option<&Path>,
) -> Result<Option<String>> {
    python.env_clear().env("PATH", "/usr/bin:/bin");
    python.envs(preload.map(|library| ("LD_PRELOAD", library)));
    let run = process::run(&mut python, LIMIT)?;
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr_text());
    Ok((!run.status.success()).then_some(said))
}
