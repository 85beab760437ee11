//! Files that nobody else can open until their contents are complete.
//!
//! In: a new file. Out: [`FileLease`]. Guaranteed: no signal comes to this process; whoever opens
//! the file waits until the lease ends or this process does.
//!
//! A lease (fcntl(2), F_SETLEASE) belongs to the open file. A copy of this process (fork) has it,
//! too, but either of them ends it.
#![allow(unsafe_code, reason = "no library has leases")]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use std::{fs, path::Path};

/// The number of seconds after which the system ends a lease that somebody waits for.
const LIMIT: &str = "/proc/sys/fs/lease-break-time";

/// The last part of that time, in which a lease may have ended.
const MARGIN: Duration = Duration::from_secs(1);

/// A file that others wait for.
pub(crate) struct FileLease {
    file: File,
    /// The lease has not ended before.
    until: Instant,
}

impl FileLease {
    /// Makes an empty file at `path`.
    ///
    /// # Errors
    /// The system, the file system or the user has no leases.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let seconds = fs::read_to_string(LIMIT)?.trim().parse().ok().map(Duration::from_secs);
        let time = seconds.and_then(|time| time.checked_sub(MARGIN));
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let until = until.ok_or(io::ErrorKind::Unsupported)?;
        let file = File::options().write(true).create_new(true).open(path)?;
        control(&file, libc::F_SETLEASE, libc::F_WRLCK)?;
        // The signal about somebody who waits has no receiver.
        control(&file, libc::F_SETOWN, 0)?;
        Ok(FileLease { file, until })
    }

    /// Writes `contents`, and ends the lease.
    ///
    /// # Errors
    /// The file cannot be written, or somebody may have opened it before.
    pub(crate) fn complete(mut self, contents: &[u8]) -> io::Result<()> {
        self.file.write_all(contents)?;
        if Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        control(&self.file, libc::F_SETLEASE, libc::F_UNLCK)
    }
}

/// fcntl(2) with a number.
fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and these commands take a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_opens_the_file_waits_for_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let lease = FileLease::new(&path).unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| fs::read(&path).unwrap());
            thread::sleep(Duration::from_millis(50));
            assert!(!reader.is_finished());
            lease.complete(b"contents").unwrap();
            assert_eq!(reader.join().unwrap(), b"contents");
        });
    }

    #[test]
    fn without_a_lease_any_more_the_file_counts_as_opened() {
        let folder = tempfile::tempdir().unwrap();
        let mut lease = FileLease::new(&folder.path().join("text")).unwrap();
        lease.until = Instant::now();
        assert_eq!(lease.complete(b"text").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_lease_that_is_dropped_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        drop(FileLease::new(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(
            FileLease::new(&path).map(drop).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
    }
}
