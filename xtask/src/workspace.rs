//! Where things are: the source tree, the target folder, the tools.

use crate::args::Args;
use anyhow::{Context, Result, bail};
use culd_testkit::random::generate::model::Arch;
use culd_testkit::reference::compare::trial::{LINK_LIMIT, Tools, Way};
use culd_testkit::reference::oracle::{Oracle, Release};
use std::env;
use std::fs;
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

/// Those of a release. Others than the usual one have its name behind that of the folder:
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

/// What the options about releases say.
pub(crate) const RELEASE_HELP: &str = "\
  --release R      compare with nvlink of this release, 11.8 to 13.5 (default 13.0). Of CUDA 12 libnvJitLink takes its
                   place, unless the folder of CULD_TOOLKITS has a toolkit of that name; 11.8 needs one
  --objects R[,R]  have the objects compiled by these releases in turn (default: that of the linker)";

/// Both linkers, of the releases that the options name. The linker under test is a path, `nvlink`
/// for the oracle itself, or by default the release build of culd.
pub(crate) fn tools_of(args: &mut Args) -> Result<Tools> {
    let release = args.option::<String>("--release")?;
    let objects = args.option::<String>("--objects")?;
    let mut tools = tools(args.option("--culd")?)?;
    if let Some(name) = &release {
        tools.oracle = oracle_of(name.parse()?)?;
    }
    if !tools.oracle.has_linker() {
        bail!("there is no nvlink of {}", tools.oracle.release().name);
    }
    for name in objects.iter().flat_map(|list| list.split(',')) {
        tools.compilers.push(oracle_of(name.parse()?)?);
    }
    let itself = tools.candidate.file_name().is_some_and(|name| name == "nvlink");
    if itself {
        tools.candidate = tools.oracle.tool("nvlink");
    } else if release.is_some() || objects.is_some() {
        tools.told = vec![format!("--dialect={}", tools.oracle.release().name)];
    }
    Ok(tools)
}

/// Both linkers. `candidate` is a path, `nvlink` for the oracle itself, or by default the release
/// build of culd.
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
    Ok(Tools { oracle, compilers: Vec::new(), candidate, told: Vec::new(), limit: LINK_LIMIT })
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

/// Puts a copy of a folder in the place of what was kept before.
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

/// The architectures that a list like `sm_75,sm_90` names; none without a list.
pub(crate) fn archs(list: Option<String>) -> Result<Vec<Arch>> {
    let text = list.unwrap_or_default();
    let names: Vec<&str> = Arch::known().map(|arch| arch.0).collect();
    let arch = |name: &str| {
        Arch::parse(name).with_context(|| format!("architectures: {}", names.join(" ")))
    };
    text.split(',').filter(|name| !name.is_empty()).map(arch).collect()
}

/// What a comparison makes of the files: a program, with `--steps` in several steps, with
/// `--relinked` of objects that either linker made, with `--rebuilt` of objects built again; with
/// `--report` what the library says of it counts.
pub(crate) fn way(args: &mut Args) -> Way {
    let ways = [
        ("--steps", Way::Steps),
        ("--relinked", Way::Relinked { one_program: true }),
        ("--rebuilt", Way::Rebuilt),
        ("--report", Way::Report),
    ];
    ways.into_iter().find(|(flag, _)| args.flag(flag)).map_or(Way::Program, |(_, way)| way)
}
