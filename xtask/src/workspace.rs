//! Where things are: the source tree, the target folder, the tools.

use anyhow::{Context, Result, bail};
use culd_testkit::compare::trial::Tools;
use culd_testkit::oracle::Oracle;
use std::env;
use std::path::{Path, PathBuf};

/// Root of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// The target folder cargo uses.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The reference tools, installed on first use; `CULD_ORACLE` names an installation to use instead.
pub(crate) fn oracle() -> Result<Oracle> {
    Oracle::locate(&target().join("oracle"), env::var_os("CULD_ORACLE").as_deref())
}

/// Both linkers. `candidate` is a path, `nvlink` for the oracle itself, or by default the release build of culd.
pub(crate) fn tools(candidate: Option<String>) -> Result<Tools> {
    let oracle = oracle()?;
    let candidate = match candidate.as_deref() {
        Some("nvlink") => oracle.tool("nvlink"),
        Some(path) => PathBuf::from(path),
        None => target().join("release/culd"),
    };
    if !candidate.is_file() {
        bail!(
            "no linker at {}: build it (cargo build --release) or name one with --culd",
            candidate.display()
        );
    }
    let candidate = candidate.canonicalize().with_context(|| candidate.display().to_string())?;
    Ok(Tools { oracle, candidate })
}
