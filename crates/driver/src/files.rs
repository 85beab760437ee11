//! Reading inputs and writing the output.
//!
//! Small files are read, large ones mapped by the command and read for programs that use the library: a file that
//! somebody else shortens would end the process ([`crate::guard`] tells that in the command). One that changes while it is
//! linked is an error. The output is written to a temporary file in its own
//! folder and renamed over the old one, so that there is always the old output or the new one.

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use culd_link::{Output, Session};
use nix::fcntl::{FallocateFlags, fallocate};
use tempfile::NamedTempFile;
use typed_arena::Arena;

use crate::guard;

/// Files below this many bytes are read: a map takes whole pages and a place among the process's maps. Above it, a map
/// costs half of what reading into fresh memory does (docs/PERFORMANCE.md, inputs).
const MAP_FROM: u64 = 16 << 10;

/// What a look at a file is worth in bytes of work ([`Session::map`]).
const LOOK: usize = 1 << 12;

/// Files of so many bytes get their room at once.
const RESERVED_FROM: u64 = 1 << 20;

/// The most bytes that are read from what has no size of its own.
const MAX_PIPE: u64 = 1 << 30;

/// What a new file gets; the system masks it.
const NEW_FILE_MODE: u32 = 0o666;
/// As many links may follow each other as the system follows.
const MAX_LINKS: usize = 40;

/// The bytes of an input.
pub(crate) enum Bytes {
    Read(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }
}

/// What tells a file from all others, whatever its names: device and inode.
pub(crate) type Identity = (u64, u64);

/// Which file is at `path`.
pub(crate) fn identity(path: &str) -> io::Result<Identity> {
    std::fs::metadata(path).map(|meta| identity_of(&meta))
}

fn identity_of(meta: &Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

fn open(path: &str) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    Ok((file, meta))
}

/// The bytes of the file at `path`, and which file it is.
pub(crate) fn read(path: &str) -> io::Result<(Bytes, Identity)> {
    let (file, meta) = open(path)?;
    Ok((copy(file, &meta)?, identity_of(&meta)))
}

/// Holds the bytes of everything that was read or made, so that the rest can borrow them.
pub(crate) struct Store {
    arena: Arena<Bytes>,
    /// What the mapped files were when they were opened; `None` if none is to be mapped.
    mapped: Option<RefCell<Vec<Stamp>>>,
}

/// What was read of a file.
pub(crate) struct Loaded {
    bytes: Bytes,
    identity: Identity,
    /// What it was, if it was mapped.
    stamp: Option<Stamp>,
}

impl Loaded {
    /// The file at `path`; mapped if `maps` and it is large.
    fn new(path: &str, maps: bool) -> io::Result<Self> {
        let (file, meta) = open(path)?;
        let identity = identity_of(&meta);
        if maps && meta.is_file() && meta.len() >= MAP_FROM {
            // There are only so many maps for a process.
            if let Ok(map) = map(&file, usize::try_from(meta.len()).unwrap_or(0)) {
                guard::watch(&map, path);
                let stamp = Stamp { path: path.to_owned(), identity, state: state_of(&meta) };
                return Ok(Loaded { bytes: Bytes::Mapped(map), identity, stamp: Some(stamp) });
            }
        }
        Ok(Loaded { bytes: copy(file, &meta)?, identity, stamp: None })
    }
}

/// What a file was.
struct Stamp {
    path: String,
    identity: Identity,
    state: State,
}

/// Size, and when it was changed last: seconds and nanoseconds.
type State = (u64, i64, i64);

fn state_of(meta: &Metadata) -> State {
    (meta.len(), meta.mtime(), meta.mtime_nsec())
}

impl Store {
    /// For programs: files are copied, so that nobody can change what is linked.
    pub(crate) fn copying() -> Self {
        Store { arena: Arena::new(), mapped: None }
    }

    /// For the command: large files are mapped, and the process is ended in order when one becomes shorter.
    pub(crate) fn mapping() -> Self {
        guard::set_up();
        Store { arena: Arena::new(), mapped: Some(RefCell::default()) }
    }

    /// Keeps `bytes`.
    pub(crate) fn alloc(&self, bytes: Bytes) -> &Bytes {
        self.arena.alloc(bytes)
    }

    /// The bytes of the file at `path`, and which file it is.
    pub(crate) fn read(&self, path: &str) -> io::Result<(Bytes, Identity)> {
        Ok(self.keep(Loaded::new(path, self.mapped.is_some())?))
    }

    /// Reads regular files before they are asked for, if that is worth several threads; `None` for those that have to
    /// wait.
    pub(crate) fn read_ahead(
        &self,
        paths: &[Option<&str>],
        session: &Session,
    ) -> Vec<Option<Loaded>> {
        let work = MAP_FROM as usize * paths.len();
        if !session.has_threads(work) {
            return Vec::new();
        }
        let maps = self.mapped.is_some();
        let load = |place: usize| {
            let path = paths[place]?;
            // A pipe is not opened before its turn.
            std::fs::metadata(path).ok().filter(Metadata::is_file)?;
            let loaded = Loaded::new(path, maps).ok()?;
            // The first page comes in here, and not in the middle of what is done one by one.
            std::hint::black_box(loaded.bytes.first().copied());
            Some(loaded)
        };
        session.map(paths.len(), work, load)
    }

    /// The bytes of a file that was read, and which file it is.
    pub(crate) fn keep(&self, loaded: Loaded) -> (Bytes, Identity) {
        let Loaded { bytes, identity, stamp } = loaded;
        if let Some(stamps) = &self.mapped {
            stamps.borrow_mut().extend(stamp);
        }
        (bytes, identity)
    }

    /// A mapped file that was changed since. One that another took the place of is as it was.
    pub(crate) fn changed(&self, session: &Session) -> Option<String> {
        let stamps = &self.mapped.as_ref()?.borrow()[..];
        let changed = |place: usize| {
            let stamp = &stamps[place];
            std::fs::metadata(&stamp.path).is_ok_and(|meta| {
                identity_of(&meta) == stamp.identity && state_of(&meta) != stamp.state
            })
        };
        let changed = session.map(stamps.len(), LOOK * stamps.len(), changed);
        let first = changed.iter().position(|&changed| changed)?;
        Some(stamps[first].path.clone())
    }
}

fn copy(file: File, meta: &Metadata) -> io::Result<Bytes> {
    // One byte more than there should be, so that one call tells the end.
    let mut bytes = Vec::new();
    let expected = usize::try_from(meta.len()).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(expected.saturating_add(1))?;
    // A pipe or device may have no end.
    let limit = if meta.is_file() { meta.len().max(MAX_PIPE) } else { MAX_PIPE };
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if meta.is_file() && meta.len() > 0 && bytes.len() as u64 != meta.len() {
        return Err(io::Error::other("it changed while it was read"));
    }
    Ok(Bytes::Read(bytes))
}

#[allow(unsafe_code, reason = "mapping a file is unsafe in itself")]
fn map(file: &File, size: usize) -> io::Result<memmap2::Mmap> {
    // SAFETY: the map is private and read-only, and is only ever read as plain bytes, every one
    // of which may have any value. A file that somebody else shortens while it is linked raises
    // SIGBUS, which the guard turns into an error; other changes are found before the output takes its place.
    unsafe { memmap2::MmapOptions::new().len(size).map(file) }
}

/// What a row of symbolic links names, although it is not there.
fn end_of_links(path: &Path) -> PathBuf {
    let mut end = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = std::fs::read_link(&end) else { break };
        end = end.parent().unwrap_or(Path::new("")).join(next);
    }
    end
}

/// Replaces the file at `path` by `bytes`, whole or not at all.
pub(crate) fn write(path: &str, bytes: &[u8]) -> io::Result<()> {
    let replacement = Replacement::begin(path)?;
    replacement.write_at(0, bytes)?;
    replacement.commit()
}

/// A new file that takes the place of an old one, or something that cannot be replaced.
pub(crate) enum Replacement {
    File {
        temporary: NamedTempFile<File>,
        path: PathBuf,
    },
    /// A device or pipe: it takes bytes in their order only.
    Stream(File),
}

impl Replacement {
    /// Begins to replace what is at `path`.
    pub(crate) fn begin(path: &str) -> io::Result<Self> {
        let target = Path::new(path);
        // Through a link, the file it names is replaced.
        let found = std::fs::symlink_metadata(target);
        let is_new = found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let real = match found {
            Ok(meta) if meta.is_symlink() => {
                std::fs::canonicalize(target).unwrap_or_else(|_| end_of_links(target))
            }
            _ => target.to_owned(),
        };
        // A rename would replace what nobody may write to; opening it does not change it.
        let old = match is_new {
            true => Err(io::ErrorKind::NotFound.into()),
            false => File::options().write(true).open(&real),
        };
        let permissions = match old {
            Ok(old) => {
                let meta = old.metadata()?;
                if !meta.is_file() {
                    return Ok(Replacement::Stream(old));
                }
                Some(meta.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        folder.metadata()?;
        // Opened here, because tempfile would add the temporary path, which is nobody's business, to errors.
        let mut options = File::options();
        let mode = if permissions.is_some() { 0o600 } else { NEW_FILE_MODE };
        options.write(true).create_new(true).mode(mode);
        let temporary = tempfile::Builder::new().prefix(".culd-").make_in(folder, |path| {
            // Before it is there, so that it is not left behind whenever the process is ended.
            guard::temporary(Some(path));
            options.open(path)
        })?;
        if let Some(permissions) = permissions {
            // Not when it is opened: the process' mask would count. Some file systems have no modes.
            let _ = temporary.as_file().set_permissions(permissions);
        }
        Ok(Replacement::File { temporary, path: real })
    }

    /// Takes room for a large file of `size` bytes at once. ext4 takes twice as long to find room for what is written bit by bit, and
    /// makes a file wait that replaces another one.
    pub(crate) fn reserve(&self, size: u64) {
        if let Replacement::File { temporary, .. } = self
            && size >= RESERVED_FROM
            && let Ok(size) = size.try_into()
        {
            // Not every file system can; where there is no room, writing tells.
            let _ = fallocate(temporary.as_file(), FallocateFlags::empty(), 0, size);
        }
    }

    /// True for what takes bytes in their order only.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Replacement::Stream(_))
    }

    /// What was written, read from the disk again; nothing of a device or pipe.
    pub(crate) fn written(&self) -> io::Result<Vec<u8>> {
        match self {
            Replacement::File { temporary, .. } => std::fs::read(temporary.path()),
            Replacement::Stream(_) => Ok(Vec::new()),
        }
    }

    /// Puts the new file in its place.
    pub(crate) fn commit(self) -> io::Result<()> {
        if let Replacement::File { temporary, path } = self {
            temporary.persist(&path).map_err(|error| error.error)?;
            guard::temporary(None);
        }
        Ok(())
    }
}

impl Output for Replacement {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Replacement::File { temporary, .. } => temporary.as_file().write_all_at(bytes, offset),
            Replacement::Stream(file) => (&*file).write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_output_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, b"old").unwrap();
        // Some that a mask for new files takes away, and fewer than it leaves.
        for mode in [0o666, 0o600] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            write(path.to_str().unwrap(), b"new bytes").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new bytes");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_or_a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path().to_str().unwrap(), b"x").is_err());
        let missing = folder.path().join("no/such/out");
        assert!(write(missing.to_str().unwrap(), b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn large_files_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, vec![7u8; MAP_FROM as usize]).unwrap();
        let path = path.to_str().unwrap();
        let store = Store::mapping();
        let (bytes, _) = store.read(path).unwrap();
        assert!(matches!(bytes, Bytes::Mapped(_)));
        assert!(matches!(Store::copying().read(path).unwrap().0, Bytes::Read(_)));
        let session = Session::serial();
        assert_eq!(store.changed(&session), None);
        std::fs::write(path, vec![8u8; MAP_FROM as usize + 1]).unwrap();
        assert_eq!(store.changed(&session).as_deref(), Some(path));
        std::fs::write(path, vec![7u8; MAP_FROM as usize]).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
