//! The file that marks a shadow toolkit and records its origin.
//!
//! In: a toolkit and the program culd. Out: a [`Marker`], in a file of the shadow and read from it.
//! Guaranteed: the check for changes reads one small file and looks at five others, so every link
//! can do it.

use culd_text::os::OsStrExt;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use culd_link::Dialect;

use super::{programs, release};
use crate::os::host;

/// The name of the file.
pub(crate) const NAME: &str = ".culd-shadow";

/// Files of a toolkit that differ in every release; some installations lack one or two of them.
const SIGNS: &[&str] =
    &["bin/nvcc", "version.json", "include/cuda_runtime_api.h", "include/cuda.h"];

/// The origin of a shadow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) toolkit: PathBuf,
    /// `13.0`; empty if the toolkit has no version.
    pub(crate) release: String,
    /// The states of the toolkit's [`SIGNS`].
    signs: String,
    /// The copied program, and its state; shadows by the first culd have a link to it.
    program: Option<(PathBuf, String)>,
}

/// The change of a toolkit since its shadow was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolkitChange {
    /// Its files are others, of the same release.
    Files,
    /// It has this release, or an unknown one.
    Release(String),
}

impl Marker {
    /// The marker of a new shadow.
    pub(crate) fn new(toolkit: &Path, program: &Path) -> Self {
        Marker {
            toolkit: toolkit.to_owned(),
            release: release::of_toolkit(toolkit).unwrap_or_default(),
            signs: signs(toolkit),
            program: Some((program.to_owned(), stamp(program))),
        }
    }

    /// The marker of the shadow at `dir`, if it is one.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let bytes = fs::read(dir.join(NAME)).ok()?;
        let mut lines = bytes.split(|&byte| byte == b'\n').map(OsStr::from_bytes);
        let toolkit = lines.next()?.into();
        let text = |line: Option<&OsStr>| line.unwrap_or_default().to_string_lossy().into_owned();
        let release = text(lines.next());
        let signs = text(lines.next());
        let program = lines.next().filter(|path| !path.is_empty()).map(PathBuf::from);
        let program = program.map(|path| (path, text(lines.next())));
        Some(Marker { toolkit, release, signs, program })
    }

    /// The contents of the file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Marker { toolkit, release, signs, program } = self;
        let (path, stamp) = match program {
            Some((path, stamp)) => (path.as_os_str().as_bytes(), stamp.as_str()),
            None => (&b""[..], ""),
        };
        let toolkit = toolkit.as_os_str().as_bytes();
        let lines = [toolkit, release.as_bytes(), signs.as_bytes(), path, stamp.as_bytes(), b""];
        lines.join(&b'\n')
    }

    /// The release of the toolkit, if its rules are known.
    pub(crate) fn dialect(&self) -> Option<&'static Dialect> {
        self.release.parse().ok()
    }

    /// True for a toolkit before CUDA 13: its nvcc and its fatbinary write other containers than
    /// [`culd_fatbin`] does, 12.4 with 8 bytes more in each entry, all with LZ4.
    pub(crate) fn packs_otherwise(&self) -> bool {
        let major = self.release.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_some_and(|major| major < 13)
    }

    /// The change of the toolkit. Shadows by the first culd do not record its state.
    pub(crate) fn toolkit_change(&self) -> Option<ToolkitChange> {
        if self.signs.is_empty() || self.signs == signs(&self.toolkit) {
            return None;
        }
        let release = release::of_toolkit(&self.toolkit).unwrap_or_default();
        Some(match release == self.release && self.toolkit.join("bin").is_dir() {
            true => ToolkitChange::Files,
            false => ToolkitChange::Release(release),
        })
    }

    /// The program that was copied, if it exists and has changed.
    pub(crate) fn changed_program(&self) -> Option<&Path> {
        let (path, before) = self.program.as_ref()?;
        (path.is_file() && *before != stamp(path)).then_some(path)
    }
}

/// The shadow toolkit that this program is the linker of.
#[derive(Debug, Clone)]
pub(crate) struct OwnShadow {
    /// Its folder.
    pub(crate) dir: PathBuf,
    pub(crate) marker: Marker,
}

/// The shadow that this program is the linker of: by the path that it was started by, or by its
/// file. Reads files, so each caller asks once and passes the answer on.
pub(crate) fn own() -> Option<OwnShadow> {
    let mut paths: Vec<PathBuf> =
        [programs::own(), std::env::current_exe().ok()].into_iter().flatten().collect();
    paths.dedup();
    paths.into_iter().find_map(|path| {
        let dir = path.parent()?.parent()?;
        Some(OwnShadow { dir: dir.to_owned(), marker: Marker::read(dir)? })
    })
}

/// The release of the toolkit in whose shadow this program is the linker, if its rules are known.
pub(crate) fn release() -> Option<&'static Dialect> {
    own()?.marker.dialect()
}

/// The states of the files that identify a toolkit.
fn signs(toolkit: &Path) -> String {
    let signs: Vec<String> = SIGNS.iter().map(|name| stamp(&toolkit.join(name))).collect();
    signs.join(" ")
}

/// Size and time of the last change of a file, `-` if there is none. Copies keep both.
fn stamp(path: &Path) -> String {
    fs::metadata(path).map_or_else(
        |_| "-".to_owned(),
        |meta| {
            let (seconds, nanoseconds) = host::modified(&meta);
            format!("{}@{seconds}.{nanoseconds:09}", meta.len())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkit(folder: &Path, release: &str) -> PathBuf {
        let toolkit = folder.join("cuda");
        fs::create_dir_all(toolkit.join("bin")).unwrap();
        fs::write(toolkit.join("bin/nvcc"), "nvcc").unwrap();
        let json = format!("{{\"cuda\" : {{ \"version\" : \"{release}.88\" }} }}");
        fs::write(toolkit.join("version.json"), json).unwrap();
        toolkit
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let toolkit = toolkit(folder.path(), "13.0");
        let program = folder.path().join(OsStr::from_bytes(b"culd \xff"));
        fs::write(&program, "culd").unwrap();
        let marker = Marker::new(&toolkit, &program);
        fs::write(folder.path().join(NAME), marker.bytes()).unwrap();
        assert_eq!(Marker::read(folder.path()), Some(marker.clone()));
        assert_eq!(marker.dialect().map(ToString::to_string).as_deref(), Some("13.0"));
        assert_eq!((marker.toolkit_change(), marker.changed_program()), (None, None));
        // A marker by the first culd.
        fs::write(folder.path().join(NAME), "/usr/local/cuda\n13.5\n").unwrap();
        let first = Marker::read(folder.path()).unwrap();
        assert_eq!((first.release.as_str(), &first.program), ("13.5", &None));
        assert_eq!((first.toolkit_change(), first.changed_program()), (None, None));
        assert_eq!(Marker::read(&folder.path().join("none")), None);
    }

    #[test]
    fn another_release_in_the_same_place_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let place = toolkit(folder.path(), "13.0");
        let marker = Marker::new(&place, &place);
        // The size is the same, the time differs.
        toolkit(folder.path(), "13.5");
        assert_eq!(marker.toolkit_change(), Some(ToolkitChange::Release("13.5".to_owned())));
        toolkit(folder.path(), "13.0");
        fs::write(place.join("bin/nvcc"), "another").unwrap();
        assert_eq!(marker.toolkit_change(), Some(ToolkitChange::Files));
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(marker.toolkit_change(), Some(ToolkitChange::Release(String::new())));
    }

    #[test]
    fn a_program_that_is_gone_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let toolkit = toolkit(folder.path(), "13.0");
        let program = folder.path().join("culd");
        fs::write(&program, "culd").unwrap();
        let marker = Marker::new(&toolkit, &program);
        fs::write(&program, "a newer one").unwrap();
        assert_eq!(marker.changed_program(), Some(&*program));
        fs::remove_file(&program).unwrap();
        assert_eq!(marker.changed_program(), None);
    }
}
