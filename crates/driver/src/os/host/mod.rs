//! What systems do differently.
//!
//! In: calls of the rest of the driver. Out: the same functions for every system: [`unix`] for
//! Linux and macOS, [`plain`] for all others, Windows among them, of the standard library alone.
//! Guaranteed: each caller gives the same output on all of them; on some it is slower, or an error
//! says what the system cannot do.

#[cfg(all(feature = "ptx", target_os = "linux"))]
mod lease;
#[cfg(all(feature = "ptx", not(target_os = "linux")))]
#[path = "no_lease.rs"]
mod lease;
#[cfg(all(feature = "ptx", target_os = "linux"))]
mod moved;
#[cfg(all(feature = "ptx", not(target_os = "linux")))]
#[path = "no_moved.rs"]
mod moved;
#[cfg(not(unix))]
mod plain;
#[cfg(unix)]
mod unix;

#[cfg(feature = "ptx")]
pub(crate) use lease::FileLease;
#[cfg(feature = "ptx")]
pub(crate) use moved::{MovedProcess, this_thread};
#[cfg(not(unix))]
pub(crate) use plain::*;
#[cfg(unix)]
pub(crate) use unix::*;

/// The kinds of files that paths lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "the standard library alone knows fewer"))]
pub(crate) enum FileKind {
    File,
    Folder,
    Pipe,
    Socket,
    /// The device that forgets.
    Null,
    /// Any other device.
    Device,
}

/// Identifies a file independent of its names.
pub(crate) type Identity = (u64, u64);

/// A time of a file: seconds and nanoseconds.
pub(crate) type FileTime = (i64, i64);
