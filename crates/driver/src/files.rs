//! Reading inputs and writing the output.
//!
//! Small files are read, large ones mapped. The output is written to a temporary file in its own
//! folder and renamed over the old one, so that there is always the old output or the new one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::path::Path;

/// Files below this many bytes are read: mapping costs more than it saves.
const MAP_FROM: u64 = 1 << 20;

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

/// The bytes of the file at `path`.
pub(crate) fn read(path: &str) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.len() >= MAP_FROM {
        return map(&file).map(Bytes::Mapped);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(Bytes::Read(bytes))
}

#[allow(unsafe_code, reason = "mapping a file is unsafe in itself")]
fn map(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: the map is private and read-only, and is only ever read as plain bytes, every one
    // of which may have any value. A file that somebody else truncates while it is linked raises
    // SIGBUS, as in every linker that maps its inputs.
    unsafe { memmap2::Mmap::map(file) }
}

/// Replaces the file at `path` by `bytes`, whole or not at all.
pub(crate) fn write(path: &str, bytes: &[u8]) -> io::Result<()> {
    let target = Path::new(path);
    if is_special(target) {
        // A device or pipe cannot be replaced.
        return File::options().write(true).open(target)?.write_all(bytes);
    }
    // Through a link, the file it names is replaced.
    let real = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    if real.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    folder.metadata()?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".culd-").permissions(permissions(&real));
    let mut temporary = builder.tempfile_in(folder).map_err(|error| plain(&error))?;
    temporary.write_all(bytes).map_err(|error| plain(&error))?;
    temporary.persist(&real).map_err(|error| error.error)?;
    Ok(())
}

/// The error without the temporary file's path, which tempfile adds and is nobody's business.
fn plain(error: &io::Error) -> io::Error {
    io::Error::from(error.kind())
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Those of the file that is replaced, else what a new file gets; the system masks them.
fn permissions(path: &Path) -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    let new = || std::fs::Permissions::from_mode(0o666);
    path.metadata().map(|meta| meta.permissions()).unwrap_or_else(|_| new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_replaced_whole_and_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, b"old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        write(path.to_str().unwrap(), b"new bytes").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new bytes");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
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
        let bytes = read(path.to_str().unwrap()).unwrap();
        assert!(matches!(bytes, Bytes::Mapped(_)));
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
