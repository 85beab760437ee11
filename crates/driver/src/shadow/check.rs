//! `check-shadow`: compares a shadow toolkit with the one that `install-shadow` would make now.
//!
//! In: the words after the command, the path of this program. Out: a line for each fault.
//! Guaranteed: no file is changed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use culd_link::Severity;
use thiserror::Error;

use super::{COMPANIONS, REPLACED, is_replaced, list};
use crate::messages::{Line, RunOutcome};
use crate::os::host;
use crate::toolkit::marker::{self, Marker, ToolkitChange};

const HELP: &str = "\
usage: culd check-shadow DIR

Says whether the shadow toolkit DIR, made by 'culd install-shadow', is in order: its toolkit is there and is what it was,
every entry has its link, and nvlink is this very culd. Exit status 1 if something is wrong; 'culd install-shadow DIR'
mends it.
";

/// A fault of a shadow.
#[derive(Debug, PartialEq, Eq, Error)]
enum ShadowFault {
    #[error("'{0}' is no shadow toolkit")]
    NoShadow(PathBuf),
    #[error("The toolkit '{0}' is gone")]
    NoToolkit(PathBuf),
    #[error("The toolkit '{toolkit}' is CUDA {now} now; the shadow was made of CUDA {before}")]
    OtherRelease { toolkit: PathBuf, before: String, now: String },
    #[error("The toolkit '{0}' has changed since the shadow was made")]
    Changed(PathBuf),
    #[error("'{0}' is missing")]
    Missing(PathBuf),
    #[error("'{path}' is no link to '{target}'")]
    NoLink { path: PathBuf, target: PathBuf },
    #[error("'{0}' has nothing in the toolkit that it stands for")]
    Stray(PathBuf),
    #[error("'{0}' is a link; it stops working when the file behind it moves")]
    Link(PathBuf),
    #[error("'{0}' cannot be run")]
    NotRun(PathBuf),
    #[error("'{0}' is another culd than this one")]
    Other(PathBuf),
}

/// Runs `check-shadow` with `arguments`; `program` is the path of culd.
pub(crate) fn check_shadow(arguments: &[OsString], program: &Path) -> (String, RunOutcome) {
    let dir = match arguments {
        [word] if word == "--help" || word == "-h" => {
            return (HELP.to_owned(), RunOutcome::success());
        }
        [dir] if !dir.as_encoded_bytes().starts_with(b"-") && !dir.is_empty() => Path::new(dir),
        _ => {
            return (
                String::new(),
                RunOutcome::fatal("check-shadow: it takes the folder of a shadow"),
            );
        }
    };
    let (marker, faults) = faults(dir, program);
    let lines: Vec<Line> =
        faults.into_iter().map(|fault| Line::new(Severity::Error, fault)).collect();
    match (lines.is_empty(), marker) {
        (true, Some(Marker { toolkit, release, .. })) => {
            let release = if release.is_empty() { release } else { format!(" (CUDA {release})") };
            let (dir, toolkit) = (dir.display(), toolkit.display());
            let text = format!("'{dir}' is '{toolkit}'{release} with culd as nvlink.\n");
            (text, RunOutcome::success())
        }
        _ => (String::new(), RunOutcome { status: 1, lines }),
    }
}

/// The faults of the shadow at `dir`; without a marker it is not a shadow.
fn faults(dir: &Path, program: &Path) -> (Option<Marker>, Vec<ShadowFault>) {
    let Some(marker) = Marker::read(dir) else {
        return (None, vec![ShadowFault::NoShadow(dir.to_owned())]);
    };
    let toolkit = || marker.toolkit.clone();
    let mut faults = Vec::new();
    if !marker.toolkit.join("bin").is_dir() {
        faults.push(ShadowFault::NoToolkit(toolkit()));
    } else {
        let before = marker.release.clone();
        faults.extend(marker.toolkit_change().map(|change| match change {
            ToolkitChange::Files => ShadowFault::Changed(toolkit()),
            ToolkitChange::Release(now) => {
                ShadowFault::OtherRelease { toolkit: toolkit(), before, now }
            }
        }));
        let own = [REPLACED, COMPANIONS].concat();
        links(&marker.toolkit, dir, &["bin", marker::NAME], &mut faults);
        links(&marker.toolkit.join("bin"), &dir.join("bin"), &own, &mut faults);
    }
    let replaced = REPLACED.iter().filter(|name| is_replaced(&marker.toolkit, name));
    faults.extend(replaced.filter_map(|name| copy(&dir.join("bin").join(name), program)));
    (Some(marker), faults)
}

/// Checks that every entry of `from` except `except` has a link in `to`, and that `to` has no other
/// entries.
fn links(from: &Path, to: &Path, except: &[&str], faults: &mut Vec<ShadowFault>) {
    let names = |dir: &Path| -> Vec<_> {
        let entries = list(dir).unwrap_or_default();
        let names = entries.iter().filter_map(|path| path.file_name());
        let mut names: Vec<_> = names.map(ToOwned::to_owned).collect();
        names.retain(|name| !except.iter().any(|other| *name == *other));
        names.sort();
        names
    };
    let (theirs, ours) = (names(from), names(to));
    for name in &theirs {
        let (path, target) = (to.join(name), from.join(name));
        if path.symlink_metadata().is_err() {
            faults.push(ShadowFault::Missing(path));
        } else if fs::read_link(&path).ok().as_ref() != Some(&target) {
            faults.push(ShadowFault::NoLink { path, target });
        }
    }
    let stray = ours.iter().filter(|name| theirs.binary_search(name).is_err());
    faults.extend(stray.map(|name| ShadowFault::Stray(to.join(name))));
}

/// The fault of a program that should be a copy of `program`.
fn copy(path: &Path, program: &Path) -> Option<ShadowFault> {
    let Ok(meta) = path.symlink_metadata() else {
        return Some(ShadowFault::Missing(path.to_owned()));
    };
    if meta.is_symlink() {
        return Some(ShadowFault::Link(path.to_owned()));
    }
    if !meta.is_file() || !host::is_executable(&meta) {
        return Some(ShadowFault::NotRun(path.to_owned()));
    }
    let same = matches!((fs::read(path), fs::read(program)), (Ok(a), Ok(b)) if a == b);
    (!same).then(|| ShadowFault::Other(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolkit::marker;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn every_fault_is_reported() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().canonicalize().unwrap().join(name);
        let (toolkit, dir, program) = (at("cuda"), at("tk"), at("culd"));
        for folder in [toolkit.join("bin"), toolkit.join("lib64")] {
            fs::create_dir_all(folder).unwrap();
        }
        for tool in ["cuobjdump", "nvcc", "nvlink", "ptxas"] {
            fs::write(toolkit.join("bin").join(tool), "").unwrap();
        }
        fs::write(&program, "culd").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let check = || faults(&dir, &program).1;
        assert_eq!(check(), [ShadowFault::NoShadow(dir.clone())]);
        super::super::install(&dir, Some(&toolkit), &program).unwrap();
        assert_eq!(check(), []);

        let bin = dir.join("bin");
        fs::remove_file(bin.join("ptxas")).unwrap();
        for tool in ["cuobjdump", "nvcc"] {
            fs::remove_file(bin.join(tool)).unwrap();
            symlink("elsewhere", bin.join(tool)).unwrap();
        }
        symlink(toolkit.join("bin/gone"), bin.join("gone")).unwrap();
        fs::write(&program, "a newer culd").unwrap();
        let target = toolkit.join("bin/cuobjdump");
        let expected = [
            ShadowFault::NoLink { path: bin.join("cuobjdump"), target },
            ShadowFault::Missing(bin.join("ptxas")),
            ShadowFault::Stray(bin.join("gone")),
            ShadowFault::Other(bin.join("nvlink")),
            ShadowFault::Link(bin.join("nvcc")),
        ];
        assert_eq!(check(), expected);

        super::super::install(&dir, Some(&toolkit), &program).unwrap();
        fs::write(toolkit.join("bin/nvcc"), "another").unwrap();
        // A file of its own: nvcc may be another name of the one that was there.
        fs::remove_file(bin.join("nvlink")).unwrap();
        fs::write(bin.join("nvlink"), "a newer culd").unwrap();
        fs::set_permissions(bin.join("nvlink"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(
            check(),
            [ShadowFault::Changed(toolkit.clone()), ShadowFault::NotRun(bin.join("nvlink"))]
        );
        fs::remove_file(bin.join("nvlink")).unwrap();
        assert_eq!(check()[1..], [ShadowFault::Missing(bin.join("nvlink"))]);
        symlink(&program, bin.join("nvlink")).unwrap();
        let json = "{\"cuda\" : { \"version\" : \"13.5.0\" } }";
        fs::write(toolkit.join("version.json"), json).unwrap();
        let (before, now) = (String::new(), "13.5".to_owned());
        let expected = [
            ShadowFault::OtherRelease { toolkit: toolkit.clone(), before, now },
            ShadowFault::Missing(dir.join("version.json")),
            ShadowFault::Link(bin.join("nvlink")),
        ];
        assert_eq!(check(), expected);
        fs::rename(&toolkit, at("moved")).unwrap();
        assert_eq!(
            check(),
            [ShadowFault::NoToolkit(toolkit), ShadowFault::Link(bin.join("nvlink"))]
        );
        assert!(dir.join(marker::NAME).is_file());
    }
}
