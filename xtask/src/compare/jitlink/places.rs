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

use super::LIMIT;
use crate::workspace;

/// The wheels that a user installs, and the place of NVIDIA's library in them.
#[derive(Clone, Copy)]
pub(super) struct LibraryWheels {
    /// The release in the name of the environment.
    suffix: &'static str,
    bindings: &'static str,
    /// NVIDIA's library and ptxas.
    library: &'static [&'static str],
    package: &'static str,
    name: &'static str,
}

pub(super) const CUDA_13: LibraryWheels = LibraryWheels {
    suffix: "",
    bindings: "cuda-bindings==13.0.3",
    library: &["nvidia-nvjitlink==13.0.88", "nvidia-cuda-nvcc==13.0.88"],
    package: "nvidia/cu13",
    name: "libnvJitLink.so.13",
};

/// Those of a release of CUDA 12.
pub(super) fn of_cuda_12(release: &'static Release) -> LibraryWheels {
    LibraryWheels {
        suffix: release.name,
        bindings: "cuda-bindings==12.9.4",
        library: release.wheels,
        package: "nvidia/nvjitlink",
        name: "libnvJitLink.so.12",
    }
}

/// Links in each place with `library`; `dir` has the inputs for `arch`.
pub(super) fn check(
    library: &Path,
    wheels: LibraryWheels,
    (script, arch): (&Path, &str),
    dir: &Path,
) -> Result<Option<String>> {
    let target = workspace::target().join(format!("plain-bindings{}", wheels.suffix));
    let all = [&[wheels.bindings], wheels.library].concat();
    let environment = Environment::install(&target, &all)?;
    let folder = environment.package(wheels.package)?.join("lib");
    let (place, moved) = (folder.join(wheels.name), folder.join(format!("{}.nvidia", wheels.name)));
    if moved.exists() {
        // An earlier run was interrupted.
        fs::rename(&moved, &place)?;
    }
    let run = |preload: Option<&Path>, loaded: &Path| {
        let mut python = Command::new(environment.program("python3"));
        python.arg(script).arg(arch).arg(loaded).current_dir(dir);
        python.env_clear().env("PATH", "/usr/bin:/bin");
        python.envs(preload.map(|library| ("LD_PRELOAD", library)));
        let run = process::run(&mut python, LIMIT)?;
        let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr_text());
        Ok::<_, anyhow::Error>((!run.status.success()).then_some(said))
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
