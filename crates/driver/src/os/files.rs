//! Reading inputs.
//!
//! In: paths. Out: their bytes. Guaranteed: bytes that were read are a private copy, of one moment
//! as far as the file's times show. Large files are mapped, by the command only; [`map`] says how a
//! map can affect a link.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use culd_link::Session;
use typed_arena::Arena;

#[cfg(feature = "command")]
use super::guard;
pub(crate) use super::host::Identity;
use super::host::{self, FileKind, FileTime};

/// Files below this many bytes are read: a map takes whole pages and a place among the process's
/// maps. Above it, a map costs half of what reading into fresh memory does (docs/PERFORMANCE.md,
/// inputs).
const MAP_FROM: u64 = 16 << 10;

/// The cost of a look at a file, in bytes of work ([`Session::map`]).
const LOOK: usize = 1 << 12;

/// The most bytes that are read from a file without a size, such as a pipe.
const MAX_PIPE: u64 = 1 << 30;

/// The number of attempts to read a file that changes while it is read.
const ATTEMPTS: usize = 8;

/// The bytes of an input.
pub(crate) enum InputBytes {
    Read(Vec<u8>),
    /// From a pipe or device, which can be read once only.
    Stream(Arc<Vec<u8>>),
    #[cfg(feature = "command")]
    Mapped(memmap2::Mmap),
}

impl Deref for InputBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            InputBytes::Read(bytes) => bytes,
            InputBytes::Stream(bytes) => bytes,
            #[cfg(feature = "command")]
            InputBytes::Mapped(map) => map,
        }
    }
}

/// The kinds of files that a path may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// Any kind: the path is from the command line, so a pipe is waited for.
    Any,
    /// Regular files, pipes and the null device. Another device may never end.
    FilesAndPipes,
    /// Regular files: the path is from an input, which could name a pipe that nobody writes to, or
    /// a device that does something when it is opened.
    Files,
}

impl Kinds {
    /// An error unless the file with the metadata `meta` may be read.
    fn check(self, meta: &Metadata) -> io::Result<()> {
        let what = match (self, host::kind(meta)) {
            (Kinds::Any, _)
            | (_, FileKind::File)
            | (Kinds::FilesAndPipes, FileKind::Pipe | FileKind::Null) => return Ok(()),
            (_, FileKind::Folder) => return Err(io::ErrorKind::IsADirectory.into()),
            (_, FileKind::Pipe) => "a pipe",
            (_, FileKind::Socket) => "a socket",
            (_, FileKind::Null | FileKind::Device) => "a device",
        };
        Err(io::Error::other(format!("it is {what}, no regular file")))
    }
}

/// Which file is at `path`.
pub(crate) fn identity(path: impl AsRef<Path>) -> io::Result<Identity> {
    let path = path.as_ref();
    std::fs::metadata(path).map(|meta| host::identity(path, &meta))
}

fn open(path: &Path, kinds: Kinds) -> io::Result<(File, Metadata)> {
    let mut options = File::options();
    options.read(true);
    if kinds != Kinds::Any {
        kinds.check(&path.metadata()?)?;
    }
    if kinds == Kinds::Files {
        // Something else may be there by now. It is not waited for.
        host::open_without_waiting(&mut options);
    }
    let file = options.open(path)?;
    let meta = file.metadata()?;
    kinds.check(&meta)?;
    Ok((file, meta))
}

/// The bytes of the file at `path`, and which file it is.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<(InputBytes, Identity)> {
    let path = path.as_ref();
    let (file, meta) = open(path, Kinds::Any)?;
    Ok((copy(&file, &meta)?, host::identity(path, &meta)))
}

/// The bytes of the file at `path`, which must be one of `kinds` and have at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, kinds: Kinds, limit: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open(path, kinds)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Where the file at `path` is read: an absolute path below `root`, if there is one.
pub(crate) fn below<'p>(root: Option<&Path>, path: &'p Path) -> Cow<'p, Path> {
    match (root, path.strip_prefix("/")) {
        (Some(root), Ok(rest)) => Cow::Owned(root.join(rest)),
        _ => Cow::Borrowed(path),
    }
}

/// Holds the bytes of everything that was read or made, so that the rest can borrow them.
pub(crate) struct Store {
    arena: Arena<InputBytes>,
    /// States of the mapped files when they were opened; `None` if no file is to be mapped.
    mapped: Option<RefCell<Vec<FileState>>>,
    /// All files that were read.
    read: RefCell<Vec<Identity>>,
    /// The bytes of pipes and devices, by path: inputs may be read twice.
    streams: RefCell<HashMap<PathBuf, Arc<Vec<u8>>>>,
    /// Where files with absolute paths are.
    root: Option<PathBuf>,
}

/// A file that was read or mapped.
pub(crate) struct LoadedFile {
    bytes: InputBytes,
    identity: Identity,
    /// Its state, if it was mapped.
    stamp: Option<FileState>,
}

impl LoadedFile {
    /// The file at `path`, which is one of `kinds`; mapped if `maps` and it is large.
    fn new(path: &Path, kinds: Kinds, maps: bool) -> io::Result<Self> {
        let (file, meta) = open(path, kinds)?;
        let identity = host::identity(path, &meta);
        if kinds == Kinds::Files && meta.len() == 0 {
            // Files that the system makes while they are read, in /proc, have no size and may have
            // no end.
            return Ok(LoadedFile { bytes: InputBytes::Read(Vec::new()), identity, stamp: None });
        }
        #[cfg(feature = "command")]
        if maps && host::MAPS && meta.is_file() && meta.len() >= MAP_FROM {
            // The number of a process's maps is limited.
            if let Ok(map) = map(&file, usize::try_from(meta.len()).unwrap_or(0)) {
                guard::watch(&map, path);
                let stamp =
                    FileState { path: path.to_owned(), identity, state: FileStamp::of(&meta) };
                return Ok(LoadedFile {
                    bytes: InputBytes::Mapped(map),
                    identity,
                    stamp: Some(stamp),
                });
            }
        }
        #[cfg(not(feature = "command"))]
        debug_assert!(!maps, "only the command maps files");
        Ok(LoadedFile { bytes: copy(&file, &meta)?, identity, stamp: None })
    }
}

/// The state of a file at one time.
struct FileState {
    path: PathBuf,
    identity: Identity,
    state: FileStamp,
}

/// Size and times of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    /// The time of the last change of contents, which users can set.
    modified: FileTime,
    /// The time of the last change of contents, names or owner. No user can set it.
    touched: FileTime,
}

impl FileStamp {
    fn of(meta: &Metadata) -> Self {
        FileStamp { size: meta.len(), modified: host::modified(meta), touched: host::touched(meta) }
    }
}

/// The change of the mapped files since they were opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// None that can be seen.
    None,
    /// One has other names, another owner or mode, or other bytes under an old time.
    Perhaps,
    /// The file at this path has other bytes.
    Certain(PathBuf),
}

impl Store {
    /// For programs: files are copied, so that nobody can change them during a link.
    pub(crate) fn copying() -> Self {
        Store {
            arena: Arena::new(),
            mapped: None,
            read: RefCell::default(),
            streams: RefCell::default(),
            root: None,
        }
    }

    /// For the command: large files are mapped, and the process is ended in order when one becomes
    /// shorter.
    #[cfg(feature = "command")]
    pub(crate) fn mapping() -> Self {
        guard::set_up();
        Store { mapped: Some(RefCell::default()), ..Store::copying() }
    }

    /// For a second link of the same inputs: files are copied, and bytes that this store has read
    /// from pipes are kept.
    pub(crate) fn again(&self) -> Self {
        Store { streams: self.streams.clone(), root: self.root.clone(), ..Store::copying() }
    }

    /// The same, with all files that have an absolute path below `root`.
    pub(crate) fn rooted(self, root: Option<&Path>) -> Self {
        Store { root: root.map(Path::to_owned), ..self }
    }

    /// Where the file at `path` is read.
    pub(crate) fn place<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        below(self.root.as_deref(), path)
    }

    /// True if a file is mapped, so that another process may change it.
    #[cfg(feature = "command")]
    pub(crate) fn has_maps(&self) -> bool {
        self.mapped.is_some() && guard::has_maps()
    }

    /// Keeps `bytes`.
    pub(crate) fn alloc(&self, bytes: InputBytes) -> &InputBytes {
        self.arena.alloc(bytes)
    }

    /// The bytes of the file at `path`, which is one of `kinds`, and which file it is.
    pub(crate) fn read(
        &self,
        path: impl AsRef<Path>,
        kinds: Kinds,
    ) -> io::Result<(InputBytes, Identity)> {
        let path = &*self.place(path.as_ref());
        if let Some(bytes) = self.streams.borrow().get(path) {
            return Ok((InputBytes::Stream(Arc::clone(bytes)), identity(path)?));
        }
        let (bytes, identity) = self.keep(LoadedFile::new(path, kinds, self.mapped.is_some())?);
        if let InputBytes::Stream(bytes) = &bytes {
            self.streams.borrow_mut().insert(path.to_owned(), Arc::clone(bytes));
        }
        Ok((bytes, identity))
    }

    /// Reads regular files before they are asked for, if that is worth several threads; `None` for
    /// those that have to wait.
    pub(crate) fn read_ahead(
        &self,
        paths: &[Option<&Path>],
        session: &Session,
    ) -> Vec<Option<LoadedFile>> {
        let work = MAP_FROM as usize * paths.len();
        if !session.has_threads(work) {
            return Vec::new();
        }
        let (maps, root) = (self.mapped.is_some(), self.root.as_deref());
        let load = |place: usize| {
            let path = &*below(root, paths[place]?);
            // A pipe is not opened before its turn.
            std::fs::metadata(path).ok().filter(Metadata::is_file)?;
            let loaded = LoadedFile::new(path, Kinds::Any, maps).ok()?;
            // This brings in the first page here, not in the middle of serial work.
            std::hint::black_box(loaded.bytes.first().copied());
            Some(loaded)
        };
        session.map(paths.len(), work, load)
    }

    /// The bytes of a file that was read, and which file it is.
    pub(crate) fn keep(&self, loaded: LoadedFile) -> (InputBytes, Identity) {
        let LoadedFile { bytes, identity, stamp } = loaded;
        self.read.borrow_mut().push(identity);
        if let Some(stamps) = &self.mapped {
            stamps.borrow_mut().extend(stamp);
        }
        (bytes, identity)
    }

    /// True if the file at `path` was read.
    #[cfg(feature = "command")]
    pub(crate) fn has_read(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|identity| self.read.borrow().contains(&identity))
    }

    /// The change of the mapped files. A file that was replaced by another one is unchanged.
    pub(crate) fn change(&self, session: &Session) -> FileChange {
        let Some(stamps) = &self.mapped else { return FileChange::None };
        let stamps = &stamps.borrow()[..];
        let now = |place: usize| {
            let FileState { path, identity, .. } = &stamps[place];
            let meta = std::fs::metadata(path).ok();
            let meta = meta.filter(|meta| host::identity(path, meta) == *identity)?;
            Some(FileStamp::of(&meta)).filter(|now| *now != stamps[place].state)
        };
        let now = session.map(stamps.len(), LOOK * stamps.len(), now);
        let same_bytes = |(now, stamp): (&Option<FileStamp>, &FileState)| {
            now.is_none_or(|now| FileStamp { touched: stamp.state.touched, ..now } == stamp.state)
        };
        match now.iter().zip(stamps).position(|changed| !same_bytes(changed)) {
            Some(first) => FileChange::Certain(stamps[first].path.clone()),
            None if now.iter().any(Option::is_some) => FileChange::Perhaps,
            None => FileChange::None,
        }
    }
}

fn copy(mut file: &File, meta: &Metadata) -> io::Result<InputBytes> {
    if !meta.is_file() {
        return Ok(InputBytes::Stream(Arc::new(to_end(file, 0)?)));
    }
    let mut before = FileStamp::of(meta);
    for _ in 0..ATTEMPTS {
        let bytes = to_end(file, before.size)?;
        let after = FileStamp::of(&file.metadata()?);
        // The system's own files have no size.
        if before.size == 0 || (after == before && bytes.len() as u64 == before.size) {
            return Ok(InputBytes::Read(bytes));
        }
        before = after;
        file.rewind()?;
    }
    Err(io::Error::other("it changed while it was read"))
}

/// The rest of a file whose size should be `size` bytes.
fn to_end(file: &File, size: u64) -> io::Result<Vec<u8>> {
    // One byte more than expected, so that one call finds the end.
    let mut bytes = Vec::new();
    let expected = usize::try_from(size).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(expected.saturating_add(1))?;
    // A pipe or device may have no end.
    let limit = size.max(MAX_PIPE);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Maps the first `size` bytes of a file.
///
/// A map shows what others write into the file while it is linked, and Rust takes a `&[u8]` for
/// bytes that do not change. These are the consequences, and what is done about each:
///
/// * *Text.* A `str` is UTF-8 for as long as it lives, and the standard library relies on that
///   without checks. No `str` borrows from an input: what becomes text is copied first
///   ([`culd_cubin::text_of`], and a rule of the source tree forbids the rest).
/// * *Checked accesses.* Safe Rust reads the map and checks an access with the value that it then
///   uses. The exceptions: memchr finds places, which are used in checked accesses; hashbrown is
///   sound for any results of hashes and comparisons; `object` reads structures of plain bytes;
///   zstd, in C, gets copies. By the rules a compiler might read a byte again between its check and
///   its use. It has nothing to gain by that, and none is known to do it; this is an argument and
///   no proof.
/// * *Panics.* One phase may find changed what an earlier one found right. A panic in a link with
///   maps ends its first attempt only; the second one has copies (`run.rs`).
/// * *Mixed outputs.* Before the output takes its place, the sizes and times of the files are
///   compared ([`Store::change`]). A writer with a map of its own changes no time on tmpfs, and on
///   a disk one for each write-back: a mixed output may result from that.
/// * *Shorter files.* Reading behind the end raises SIGBUS ([`guard`]).
#[cfg(feature = "command")]
#[allow(unsafe_code, reason = "mapping a file is unsafe in itself")]
fn map(file: &File, size: usize) -> io::Result<memmap2::Mmap> {
    // SAFETY: the map is read-only and only ever read as plain bytes, every one of which may have
    // any value; the comment above is about changes of the file.
    unsafe { memmap2::MmapOptions::new().len(size).map(file) }
}

#[cfg(all(test, feature = "command"))]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, vec![7u8; MAP_FROM as usize]).unwrap();
        let path = path.to_str().unwrap();
        let store = Store::mapping();
        let (bytes, _) = store.read(path, Kinds::Any).unwrap();
        assert!(matches!(bytes, InputBytes::Mapped(_)));
        assert!(matches!(Store::copying().read(path, Kinds::Any).unwrap().0, InputBytes::Read(_)));
        let session = Session::serial();
        assert_eq!(store.change(&session), FileChange::None);
        // The times of some systems are a few milliseconds wide.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::hard_link(path, folder.path().join("other")).unwrap();
        assert_eq!(store.change(&session), FileChange::Perhaps);
        std::fs::write(path, vec![8u8; MAP_FROM as usize + 1]).unwrap();
        assert_eq!(store.change(&session), FileChange::Certain(PathBuf::from(path)));
        std::fs::write(path, vec![7u8; MAP_FROM as usize]).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
    }

    /// The test writes into it once.
    #[test]
    fn a_pipe_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let path = path.to_str().unwrap();
        let store = Store::mapping();
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(path, b"bytes").unwrap());
            assert_eq!(&*store.read(path, Kinds::Any).unwrap().0, b"bytes");
        });
        assert_eq!(&*store.read(path, Kinds::Any).unwrap().0, b"bytes");
        assert_eq!(&*store.again().read(path, Kinds::Any).unwrap().0, b"bytes");
    }
}
