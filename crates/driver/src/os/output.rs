//! Writing outputs.
//!
//! In: a path, and bytes. Out: a new file at the path, or bytes in the file or device that the path
//! leads to. Guaranteed: where a file can be replaced there is the old one or the whole new one. A
//! device, a pipe, an open file without a name, or a file that cannot be replaced gets its first
//! byte when the last one is known.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use culd_link::Output;
use tempfile::NamedTempFile;

use super::{guard, host};

/// Files of at least so many bytes get their space at once.
const RESERVED_FROM: u64 = 1 << 20;

/// Bytes that come in pieces are written in blocks of this size, each with its space first. For the
/// system that is a quarter of the work of 3.5 MB in pieces of 25 KB, also when a later output
/// takes the place of the file.
const BLOCK: usize = 512 << 10;

/// The mode of a new file; the system masks it.
const NEW_FILE_MODE: u32 = 0o666;
/// The limit of symbolic links in a row; the system's number.
const MAX_LINKS: usize = 40;

/// Writes `bytes` to the file at `path`: whole or, where it can be replaced, not at all.
pub(crate) fn write(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let replacement = Replacement::begin(path)?;
    replacement.write_at(0, bytes)?;
    replacement.commit()
}

/// The same for bytes in pieces.
pub(crate) fn write_pieces<'p>(
    path: impl AsRef<Path>,
    mut pieces: impl Iterator<Item = &'p [u8]>,
) -> io::Result<()> {
    write_by(path, |sink| pieces.try_for_each(sink))
}

/// The same for bytes that a function hands out piece by piece.
pub(crate) fn write_by(
    path: impl AsRef<Path>,
    pieces: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
) -> io::Result<()> {
    let replacement = Replacement::begin(path)?;
    // An output that is written in place is a single block.
    let size = if replacement.is_in_place() { usize::MAX } else { BLOCK };
    let (mut block, mut offset) = (Vec::new(), 0);
    pieces(&mut |mut piece| {
        while piece.len() >= size - block.len() {
            let (first, rest) = piece.split_at(size - block.len());
            block.extend_from_slice(first);
            replacement.write_block(offset, &block)?;
            offset += block.len() as u64;
            block.clear();
            piece = rest;
        }
        block.extend_from_slice(piece);
        Ok(())
    })?;
    match offset {
        0 => replacement.write_at(0, &block)?,
        _ => replacement.write_block(offset, &block)?,
    }
    replacement.commit()
}

/// The regular file, there or not, that an output to `path` replaces or makes: two paths that lead
/// to one file give the same. `None` for a device, a pipe or a folder that is missing.
pub(crate) fn file_at(path: &Path) -> Option<PathBuf> {
    match path.metadata() {
        Ok(meta) => meta.is_file().then(|| path.canonicalize().ok())?,
        Err(_) => {
            let end = end_of_links(path).ok()?;
            Some(folder(&end).canonicalize().ok()?.join(end.file_name()?))
        }
    }
}

/// An output that is being written.
pub(crate) enum Replacement {
    /// A new file, which is to take the place of the old one.
    File { temporary: NamedTempFile<File>, path: PathBuf, old: Option<File> },
    /// The file or device that the path leads to. It takes all bytes at once.
    InPlace(File),
}

impl Replacement {
    /// Begins to write to `path`.
    pub(crate) fn begin(path: impl AsRef<Path>) -> io::Result<Self> {
        let target = path.as_ref();
        let old = match open(target) {
            Ok(old) => Some(old),
            // The empty path names no file, and none can be made there.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !target.as_os_str().is_empty() =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let Some(place) = place(target, old.as_ref())? else {
            let old = old.ok_or(io::ErrorKind::NotFound)?;
            return Ok(Replacement::InPlace(old));
        };
        match (temporary(&place, old.as_ref()), old) {
            (Ok(temporary), old) => {
                let old = old.filter(|_| host::REPLACES_OPEN_FILES);
                Ok(Replacement::File { temporary, path: place, old })
            }
            (Err(error), Some(old)) if host::is_not_replaceable(&error) => {
                Ok(Replacement::InPlace(old))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Reserves room for a large file of `size` bytes. Without it, ext4 takes twice as long to find
    /// room bit by bit, and delays the rename over another file.
    pub(crate) fn reserve(&self, size: u64) {
        if size >= RESERVED_FROM {
            self.grow(size);
        }
    }

    /// Gives a file room for `size` bytes.
    fn grow(&self, size: u64) {
        if let Replacement::File { temporary, .. } = self
            && let Ok(size) = size.try_into()
        {
            // Not every file system can reserve. If there is no room, writing fails.
            let _ = host::reserve(temporary.as_file(), size);
        }
    }

    /// Appends a block to a file that has `offset` bytes.
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        self.grow(offset + block.len() as u64);
        self.write_at(offset, block)
    }

    /// True for an output that is written all at once, only after all checks.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self, Replacement::InPlace(_))
    }

    /// The written bytes, read from the disk again; empty for an output that is written in place.
    pub(crate) fn written(&self) -> io::Result<Vec<u8>> {
        match self {
            Replacement::File { temporary, .. } => std::fs::read(temporary.path()),
            Replacement::InPlace(_) => Ok(Vec::new()),
        }
    }

    /// Puts the new file in its place.
    pub(crate) fn commit(self) -> io::Result<()> {
        let Replacement::File { temporary, path, old } = self else { return Ok(()) };
        match (temporary.persist(&path), old) {
            (Ok(_), _) => {}
            (Err(failed), Some(old)) if host::is_not_replaceable(&failed.error) => {
                fill(&old, &std::fs::read(failed.file.path())?)?;
                failed.file.close()?;
            }
            (Err(failed), _) => return Err(failed.error),
        }
        guard::temporary(None);
        Ok(())
    }
}

impl Output for Replacement {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Replacement::File { temporary, .. } => {
                host::write_all_at(temporary.as_file(), bytes, offset)
            }
            Replacement::InPlace(file) => fill(file, bytes),
        }
    }
}

/// Opens the existing file without changing it.
fn open(target: &Path) -> io::Result<File> {
    let descriptor = descriptor(target);
    let mut options = File::options();
    // A terminal that is written to does not become the one that ends this process.
    options.write(true);
    host::open_without_control(&mut options);
    // A descriptor that was opened for appending keeps its bytes.
    options.append(descriptor.as_deref().is_some_and(appends));
    options.open(target).or_else(|error| {
        let standard = match descriptor.as_deref() {
            Some("1") => host::standard_output(),
            Some("2") => host::standard_error(),
            _ => return Err(error),
        };
        // A socket, or a file that another user has opened, cannot be opened again.
        standard.ok().filter(|file| file.metadata().is_ok_and(|meta| !meta.is_file())).ok_or(error)
    })
}

/// The place of a new file; `None` if it would not become the file that the path leads to.
fn place(target: &Path, old: Option<&File>) -> io::Result<Option<PathBuf>> {
    let Some(place) = end_of_links(target).ok() else { return Ok(None) };
    let Some(old) = old else { return Ok(Some(place)) };
    let old = old.metadata()?;
    let is_there = |there: Metadata| host::identity(&place, &there) == host::identity(target, &old);
    let replaceable = old.is_file() && host::has_name(&old);
    let same = || place.symlink_metadata().is_ok_and(is_there);
    Ok((replaceable && same()).then_some(place))
}

/// The end of a chain of symbolic links; it need not exist. The error is a link of the system (as
/// in /proc), which leads to an open file; its text may name no file.
fn end_of_links(path: &Path) -> Result<PathBuf, PathBuf> {
    let mut end = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = std::fs::read_link(&end) else { break };
        let folder = folder(&end);
        if host::has_system_links(folder) {
            return Err(end);
        }
        end = folder.join(next);
    }
    Ok(end)
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The number of the open file of this process that `target` leads to.
fn descriptor(target: &Path) -> Option<String> {
    // Most outputs are not links: this is one call.
    if !target.is_symlink() {
        return None;
    }
    let link = end_of_links(target).err()?;
    let own =
        folder(&link).canonicalize().ok()? == Path::new("/proc/self/fd").canonicalize().ok()?;
    let number = link.file_name()?.to_str()?;
    own.then(|| number.to_owned())
}

/// Whether a descriptor of this process was opened for appending.
fn appends(number: &str) -> bool {
    let info = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(number));
    info.is_ok_and(|text| {
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        flags.is_some_and(|flags| host::says_appending(flags.trim()))
    })
}

/// A new file in the folder of `place`, with the mode of the old one.
fn temporary(place: &Path, old: Option<&File>) -> io::Result<NamedTempFile<File>> {
    let folder = folder(place);
    folder.metadata()?;
    let permissions = old.map(File::metadata).transpose()?.map(|meta| meta.permissions());
    let mut options = File::options();
    let mode = if permissions.is_some() { 0o600 } else { NEW_FILE_MODE };
    options.write(true).create_new(true);
    host::create_with_mode(&mut options, mode);
    // Opened here, because tempfile would add the temporary path to errors.
    let temporary = tempfile::Builder::new().prefix(".culd-").make_in(folder, |path| {
        // Before it exists, so that it is removed even if the process is ended at once.
        guard::temporary(Some(path));
        options.open(path)
    })?;
    if let Some(permissions) = permissions {
        // Not when it is opened: the process' mask would count. Some file systems have no modes.
        let _ = temporary.as_file().set_permissions(permissions);
    }
    Ok(temporary)
}

/// Writes all of `bytes` to an open file; a regular file is emptied first.
fn fill(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let meta = file.metadata()?;
    let appending = host::is_appending(file)?;
    if !meta.is_file() || appending {
        return file.write_all(bytes);
    }
    // If there is no room, the old bytes stay. Not every file system can check.
    let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    host::check_room(file, size)?;
    file.set_len(0)?;
    file.write_all(bytes).inspect_err(|_| {
        // A part of an output could be taken for one.
        let _ = file.set_len(0);
    })
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
    fn pieces_of_any_size_become_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let whole: Vec<u8> = (0..3 * BLOCK + 7).map(|at| (at / 3) as u8).collect();
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, whole.len()] {
            for size in [1000, BLOCK - 1, BLOCK, BLOCK + 1, whole.len()] {
                write_pieces(&path, whole[..len].chunks(size)).unwrap();
                assert!(std::fs::read(&path).unwrap() == whole[..len], "{len} in {size}");
            }
        }
    }

    #[test]
    fn a_folder_or_a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path().to_str().unwrap(), b"x").is_err());
        let missing = folder.path().join("no/such/out");
        assert!(write(missing.to_str().unwrap(), b"x").is_err());
        assert!(write("", b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
