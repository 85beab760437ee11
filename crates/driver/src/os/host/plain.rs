//! A system of which only the standard library is known, such as Windows.
//!
//! In, out, guaranteed: as for the folder. Inputs are copied; an output is replaced by a rename;
//! signals end the process as the system likes; there are no symbolic links, no sockets between
//! processes and no permissions.

#[cfg(feature = "ptx")]
use std::ffi::CStr;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
#[cfg(feature = "lto")]
use std::path::Path;
#[cfg(feature = "command")]
use std::process::ExitStatus;
#[cfg(feature = "lto")]
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::SystemTime;

use super::{FileKind, FileTime, Identity};

pub(crate) const MAPS: bool = false;

#[cfg(feature = "command")]
pub(crate) const REPLACES_OPEN_FILES: bool = false;

#[cfg(feature = "lto")]
pub(crate) const HAS_LTO: bool = false;

#[cfg(feature = "ptx")]
pub(crate) const TEMPORARY_FOLDERS: &[&str] = &[];

#[cfg(feature = "ptx")]
pub(crate) const STREAMS: Option<[&str; 2]> = None;

pub(crate) fn kind(meta: &Metadata) -> FileKind {
    match () {
        () if meta.is_file() => FileKind::File,
        () if meta.is_dir() => FileKind::Folder,
        () => FileKind::Device,
    }
}

/// Two hashes of the real path: no stable function of the standard library has a file's number. A
/// file with two names is two files.
pub(crate) fn identity(path: &Path, _: &Metadata) -> Identity {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut hasher = DefaultHasher::new();
    real.hash(&mut hasher);
    let first = hasher.finish();
    real.hash(&mut hasher);
    (first, hasher.finish())
}

pub(crate) fn modified(meta: &Metadata) -> FileTime {
    let since =
        meta.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let since = since.unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

pub(crate) fn touched(meta: &Metadata) -> FileTime {
    modified(meta)
}

pub(crate) fn open_without_waiting(_: &mut OpenOptions) {}

#[cfg(feature = "command")]
pub(crate) fn open_without_control(_: &mut OpenOptions) {}

#[cfg(feature = "command")]
pub(crate) fn create_with_mode(_: &mut OpenOptions, _: u32) {}

#[cfg(feature = "ptx")]
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)
}

/// One at a time: an open file has one place.
static PLACE: Mutex<()> = Mutex::new(());

#[cfg(feature = "command")]
pub(crate) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let _alone = PLACE.lock();
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

#[cfg(feature = "lto")]
pub(crate) fn read_at(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let _alone = PLACE.lock();
    file.seek(SeekFrom::Start(offset))?;
    file.read(bytes)
}

#[cfg(feature = "command")]
pub(crate) fn reserve(_: &File, _: i64) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "command")]
pub(crate) fn check_room(_: &File, _: i64) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "command")]
pub(crate) fn has_system_links(_: &Path) -> bool {
    false
}

#[cfg(feature = "command")]
pub(crate) fn is_appending(_: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(feature = "command")]
pub(crate) fn says_appending(_: &str) -> bool {
    false
}

#[cfg(feature = "command")]
pub(crate) fn standard_output() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "command")]
pub(crate) fn standard_error() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "command")]
pub(crate) fn has_name(_: &Metadata) -> bool {
    true
}

#[cfg(feature = "command")]
pub(crate) fn is_not_replaceable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.is_file()
}

/// Windows has links that need a privilege; a shadow of a toolkit is a thing of Linux.
#[cfg(feature = "command")]
pub(crate) fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "ptx")]
pub(crate) fn memory_file(_: &CStr) -> io::Result<File> {
    tempfile::tempfile()
}

#[cfg(feature = "lto")]
pub(crate) type Socket = std::net::TcpStream;

#[cfg(feature = "lto")]
pub(crate) fn socket() -> io::Result<(Socket, Stdio)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs `command` and ends with its exit status.
#[cfg(feature = "command")]
pub(crate) fn become_program(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

#[cfg(feature = "lto")]
pub(crate) fn spawn_at_fixed_addresses(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

#[cfg(feature = "command")]
pub(crate) fn start_as(_: &mut Command, _: impl AsRef<std::ffi::OsStr>) {}

#[cfg(feature = "command")]
pub(crate) fn exit_status(status: ExitStatus) -> Option<i32> {
    status.code()
}

#[cfg(feature = "command")]
pub(crate) fn main_stack() -> Option<u64> {
    None
}
