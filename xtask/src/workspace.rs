//! The places of the source tree, the target folder and the tools.

use anyhow::{Context, Result, bail};
use culd_testkit::reference::compare::trial::{LINK_LIMIT, Tools};
use culd_testkit::reference::oracle::{Oracle, Release};
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Root of the source tree.
pub(crate) fn root() -> PathBuf {
    culd_testkit::fixtures::case::source_root()
}

/// The target folder cargo uses.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The reference tools, installed on first use; `CULD_ORACLE` names an installation to use instead.
pub(crate) fn oracle() -> Result<Oracle> {
    oracle_of(Release::usual())
}

/// The tools of a release. Except for the usual one, the folder has the release in its name:
/// `oracle-13.5`.
pub(crate) fn oracle_of(release: &'static Release) -> Result<Oracle> {
    let suffix = match release == Release::usual() {
        true => String::new(),
        false => format!("-{}", release.name),
    };
    let existing = env::var_os("CULD_ORACLE").map(|mut folder| {
        folder.push(&suffix);
        folder
    });
    let existing = existing.filter(|folder| suffix.is_empty() || Path::new(folder).is_dir());
    let folder = target().join(format!("oracle{suffix}"));
    let oracle = Oracle::locate(release, &folder, existing.as_deref())?;
    let toolkits = env::var_os("CULD_TOOLKITS").filter(|_| !release.has_nvlink());
    Ok(match toolkits {
        Some(folder) => oracle.with_toolkit(&Path::new(&folder).join(release.name)),
        None => oracle,
    })
}

/// The tools of a release with an nvcc: those of [`oracle_of`], or for releases whose wheels have
/// none a toolkit in the folder of `CULD_TOOLKITS`.
pub(crate) fn oracle_with_nvcc(release: &'static Release) -> Result<Oracle> {
    if release.has_nvcc() {
        return oracle_of(release);
    }
    let folder = env::var_os("CULD_TOOLKITS").map(|folder| Path::new(&folder).join(release.name));
    let folder = folder.filter(|folder| folder.join("bin/nvcc").is_file());
    let folder = folder.with_context(|| {
        format!("the folder of CULD_TOOLKITS has no toolkit '{}' with nvcc", release.name)
    })?;
    Ok(Oracle::of_toolkit(release, &folder))
}

/// The tools of a release in one toolkit with nvcc, nvlink, libnvvm and libnvJitLink. Of releases
/// whose wheels have no nvcc it is made in `folder`, of links into the toolkit in the folder of
/// `CULD_TOOLKITS` and to the two libraries of the wheels.
pub(crate) fn oracle_with_lto(release: &'static Release, folder: &Path) -> Result<Oracle> {
    if release.has_nvcc() {
        return oracle_of(release);
    }
    let (given, wheels) = (oracle_with_nvcc(release)?, oracle_of(release)?);
    let toolkit = folder.join("toolkit");
    link_all(given.toolkit(), &toolkit, &["bin", "lib64", "nvvm"])?;
    for folder in ["bin", "lib64"] {
        link_all(&given.toolkit().join(folder), &toolkit.join(folder), &[])?;
    }
    link_all(&given.toolkit().join("nvvm"), &toolkit.join("nvvm"), &["lib64"])?;
    let library = wheels.jitlink()?;
    let name = library.file_name().context("a library")?;
    symlink(&library, toolkit.join("lib64").join(name))?;
    symlink(wheels.toolkit().join("nvvm/lib64"), toolkit.join("nvvm/lib64"))?;
    Ok(Oracle::of_toolkit(release, &toolkit))
}

/// Makes the folder `to`, with a link for everything in `from` but what `except` names.
fn link_all(from: &Path, to: &Path, except: &[&str]) -> Result<()> {
    fs::create_dir_all(to)?;
    let from = from.canonicalize().with_context(|| from.display().to_string())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !except.iter().any(|name| entry.file_name() == *name) {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// A program or library of this workspace, built in the same profile as this program: `cargo xtask`
/// takes those of the release build, `target/debug/xtask` those of its own folder.
pub(crate) fn built(name: &str) -> PathBuf {
    let own = env::current_exe().ok().map(|program| program.with_file_name(name));
    own.filter(|path| path.is_file()).unwrap_or_else(|| target().join("release").join(name))
}

/// The linker under test: a path, `nvlink` for that of `oracle`, or by default culd as this program
/// is built.
pub(crate) fn candidate(named: Option<&str>, oracle: &Oracle) -> Result<PathBuf> {
    let candidate = match named {
        Some("nvlink") => oracle.tool("nvlink"),
        Some(path) => PathBuf::from(path),
        None => built("culd"),
    };
    if !candidate.is_file() {
        bail!(
            "no linker at {}: build it (cargo build --release --workspace) or name one with --culd",
            candidate.display()
        );
    }
    candidate.canonicalize().with_context(|| candidate.display().to_string())
}

/// Both linkers of the usual release; `named` as in [`candidate`].
pub(crate) fn tools(named: Option<&str>) -> Result<Tools> {
    let oracle = oracle()?;
    let candidate = candidate(named, &oracle)?;
    Ok(Tools {
        oracle,
        compilers: Vec::new(),
        candidate,
        dialect_option: Vec::new(),
        limit: LINK_LIMIT,
    })
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

/// Replaces an old copy of a folder by a new one.
pub(crate) fn keep_tree(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    copy_tree(from, to)
}

/// The sources of a case of the corpus, in order of their names.
pub(crate) fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ptx" || extension == "cu") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
