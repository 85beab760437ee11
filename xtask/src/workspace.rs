//! Where things are: the source tree, the target folder, the tools.

use crate::args::Args;
use anyhow::{Context, Result, bail};
use culd_testkit::compare::trial::{Tools, Way};
use culd_testkit::oracle::Oracle;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Root of the source tree.
pub(crate) fn root() -> PathBuf {
    culd_testkit::case::source_root()
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

/// A poisoned lock means that another worker panicked; the panic ends the scope anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies a folder with everything in it.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// What a comparison makes of the files: a program, with `--steps` in several steps.
pub(crate) fn way(args: &mut Args) -> Way {
    if args.flag("--steps") { Way::Steps } else { Way::Program }
}
