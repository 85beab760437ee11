//! Linux, and what of it macOS has.
//!
//! In, out, guaranteed: as for the folder.

#[cfg(feature = "ptx")]
use std::ffi::CStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
#[cfg(feature = "command")]
use std::os::fd::AsFd;
#[cfg(feature = "lto")]
use std::os::fd::OwnedFd;
#[cfg(feature = "ptx")]
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
#[cfg(feature = "lto")]
use std::os::unix::net::UnixStream;
#[cfg(feature = "command")]
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
#[cfg(feature = "command")]
use std::process::ExitStatus;
#[cfg(feature = "lto")]
use std::process::{Child, Command, Stdio};

#[cfg(feature = "command")]
use nix::errno::Errno;
#[cfg(all(feature = "command", target_os = "linux"))]
use nix::fcntl::{FallocateFlags, fallocate};
#[cfg(all(feature = "command", target_os = "linux"))]
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
#[cfg(all(feature = "ptx", target_os = "linux"))]
use rustix::fs::{MemfdFlags, memfd_create};

use super::{FileKind, FileTime, Identity};

/// Whether inputs may be mapped: another process may replace a file that is mapped, and a signal
/// tells when one becomes shorter.
pub(crate) const MAPS: bool = true;

/// Whether a file that is open can be replaced by a rename.
#[cfg(feature = "command")]
pub(crate) const REPLACES_OPEN_FILES: bool = true;

/// Whether `culd-lto` can be spoken to.
#[cfg(feature = "lto")]
pub(crate) const HAS_LTO: bool = true;

/// Folders for everybody's temporary files, behind the one that TMPDIR names.
#[cfg(feature = "ptx")]
pub(crate) const TEMPORARY_FOLDERS: &[&str] = &["/var/tmp", "/dev/shm"];

/// Paths by which a program opens its own standard input and output.
#[cfg(all(feature = "ptx", target_os = "linux"))]
pub(crate) const STREAMS: Option<[&str; 2]> = Some(["/proc/self/fd/0", "/proc/self/fd/1"]);
#[cfg(all(feature = "ptx", not(target_os = "linux")))]
pub(crate) const STREAMS: Option<[&str; 2]> = Some(["/dev/fd/0", "/dev/fd/1"]);

/// The kind of the file with the metadata `meta`.
pub(crate) fn kind(meta: &Metadata) -> FileKind {
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => FileKind::File,
        () if kind.is_dir() => FileKind::Folder,
        () if kind.is_fifo() => FileKind::Pipe,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() && meta.rdev() == null_device() => FileKind::Null,
        () => FileKind::Device,
    }
}

#[cfg(target_os = "linux")]
fn null_device() -> u64 {
    libc::makedev(1, 3)
}

/// Its numbers differ between systems.
#[cfg(not(target_os = "linux"))]
fn null_device() -> u64 {
    std::fs::metadata("/dev/null").map_or(u64::MAX, |meta| meta.rdev())
}

/// The file at a path, by its metadata: device and inode.
pub(crate) fn identity(_: &Path, meta: &Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

/// The time of the last change of contents, which users can set.
pub(crate) fn modified(meta: &Metadata) -> FileTime {
    (meta.mtime(), meta.mtime_nsec())
}

/// The time of the last change of contents, names or owner. No user can set it.
pub(crate) fn touched(meta: &Metadata) -> FileTime {
    (meta.ctime(), meta.ctime_nsec())
}

/// Makes `options` open a pipe or device without waiting for it, and without becoming its process.
pub(crate) fn open_without_waiting(options: &mut OpenOptions) {
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
}

/// Makes `options` open a terminal without becoming the process that it ends.
#[cfg(feature = "command")]
pub(crate) fn open_without_control(options: &mut OpenOptions) {
    options.custom_flags(libc::O_NOCTTY);
}

/// Makes `options` create a file with the permissions `mode`.
#[cfg(feature = "command")]
pub(crate) fn create_with_mode(options: &mut OpenOptions, mode: u32) {
    options.mode(mode);
}

/// Makes a folder that only this user can read.
#[cfg(feature = "ptx")]
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Writes `bytes` at `offset`, from any thread.
#[cfg(feature = "command")]
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Reads at `offset`.
#[cfg(feature = "lto")]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

/// Reserves `size` bytes of room for a file, which grows to them. Not every file system can.
#[cfg(all(feature = "command", target_os = "linux"))]
pub(crate) fn reserve(file: &File, size: i64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), 0, size)?)
}

/// Fails if there is no room for `size` bytes in the file, as far as the file system can tell. Its
/// size and bytes stay.
#[cfg(all(feature = "command", target_os = "linux"))]
pub(crate) fn check_room(file: &File, size: i64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, size) {
        Err(error @ (Errno::ENOSPC | Errno::EDQUOT)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// No portable call reserves: writing fails if there is no room.
#[cfg(all(feature = "command", not(target_os = "linux")))]
pub(crate) fn reserve(_: &File, _: i64) -> io::Result<()> {
    Ok(())
}

/// The same.
#[cfg(all(feature = "command", not(target_os = "linux")))]
pub(crate) fn check_room(_: &File, _: i64) -> io::Result<()> {
    Ok(())
}

/// Whether the links in a folder are the system's own, which lead to open files, as in /proc.
#[cfg(all(feature = "command", target_os = "linux"))]
pub(crate) fn has_system_links(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|system| system.filesystem_type() == PROC_SUPER_MAGIC)
}

#[cfg(all(feature = "command", not(target_os = "linux")))]
pub(crate) fn has_system_links(_: &Path) -> bool {
    false
}

/// Whether an open file adds what is written to its end.
#[cfg(feature = "command")]
pub(crate) fn is_appending(file: &File) -> io::Result<bool> {
    Ok(nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_GETFL)? & libc::O_APPEND != 0)
}

/// The same of the flags that the system prints, in octal.
#[cfg(feature = "command")]
pub(crate) fn says_appending(flags: &str) -> bool {
    i32::from_str_radix(flags, 8).is_ok_and(|flags| flags & libc::O_APPEND != 0)
}

/// The open file behind standard output.
#[cfg(feature = "command")]
pub(crate) fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// The open file behind standard error.
#[cfg(feature = "command")]
pub(crate) fn standard_error() -> io::Result<File> {
    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

/// Whether a file still has a name in some folder.
#[cfg(feature = "command")]
pub(crate) fn has_name(meta: &Metadata) -> bool {
    meta.nlink() > 0
}

/// Errors of folders in which no file can be made or renamed, although a file in them can be
/// written: no permission (a sticky folder too), a read-only mount around a writable file, a path
/// with no room for the temporary name, a file that is a mount itself, as in a container.
#[cfg(feature = "command")]
const NOT_REPLACEABLE: [Errno; 6] =
    [Errno::EACCES, Errno::EPERM, Errno::EROFS, Errno::ENAMETOOLONG, Errno::EBUSY, Errno::EXDEV];

/// Whether the error of making or renaming a file leaves open that the old file can be written.
#[cfg(feature = "command")]
pub(crate) fn is_not_replaceable(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.is_some_and(|errno| NOT_REPLACEABLE.contains(&errno))
}

/// Whether somebody may run the file with the metadata `meta`.
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.permissions().mode() & 0o111 != 0
}

/// Makes `link` a symbolic link to `target`.
#[cfg(feature = "command")]
pub(crate) fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// A file in memory, without a folder; its name is visible in /proc. rustix asks the kernel: the
/// function of glibc came with 2.27, and a library that names it does not load with older ones.
#[cfg(all(feature = "ptx", target_os = "linux"))]
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    match memfd_create(name, MemfdFlags::CLOEXEC) {
        Ok(file) => Ok(file.into()),
        // Linux before 3.17 has no such files, and a container may forbid them.
        Err(_) => tempfile::tempfile(),
    }
}

/// A file without a name.
#[cfg(all(feature = "ptx", not(target_os = "linux")))]
pub(crate) fn memory_file(_: &CStr) -> io::Result<File> {
    tempfile::tempfile()
}

/// A connection with a program that is started.
#[cfg(feature = "lto")]
pub(crate) type Socket = UnixStream;

/// A connection, and the other end of it as the program's standard input.
#[cfg(feature = "lto")]
pub(crate) fn socket() -> io::Result<(Socket, Stdio)> {
    let (own, other) = UnixStream::pair()?;
    Ok((own, OwnedFd::from(other).into()))
}

/// Starts `command` with its memory at the same addresses as each time, where the system lets it:
/// containers may forbid that.
#[cfg(all(feature = "lto", target_os = "linux"))]
pub(crate) fn spawn_at_fixed_addresses(command: &mut Command) -> io::Result<Child> {
    use nix::sys::personality::{self, Persona};
    // The setting is this thread's, and its children start with it.
    let Ok(before) = personality::get() else { return command.spawn() };
    let fixed = personality::set(before | Persona::ADDR_NO_RANDOMIZE).is_ok();
    let child = command.spawn();
    if fixed {
        // Back to what was allowed before.
        let _ = personality::set(before);
    }
    child
}

/// Starts `command`; the system chooses addresses.
#[cfg(all(feature = "lto", not(target_os = "linux")))]
pub(crate) fn spawn_at_fixed_addresses(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

/// This process becomes `command`; returns why not.
#[cfg(feature = "command")]
pub(crate) fn become_program(command: &mut Command) -> io::Error {
    command.exec()
}

/// Makes the program of `command` see `name` as the path that it was started by.
#[cfg(feature = "command")]
pub(crate) fn start_as(command: &mut Command, name: impl AsRef<std::ffi::OsStr>) {
    command.arg0(name);
}

/// The exit status of a program, as a shell has it: that of a signal is 128 more than its number.
#[cfg(feature = "command")]
pub(crate) fn exit_status(status: ExitStatus) -> Option<i32> {
    status.code().or(status.signal().map(|signal| 128 + signal))
}

/// The bytes of the main thread's stack, if they are limited.
#[cfg(feature = "command")]
pub(crate) fn main_stack() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit};
    Some(getrlimit(Resource::RLIMIT_STACK).ok()?.0)
}
