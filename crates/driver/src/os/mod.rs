//! The driver's needs of the operating system beyond the standard library: mapped files, outputs
//! that are replaced as a whole, signals, child processes, temporary files, stacks and heaps.
//! [`host`] has what differs between systems.

#[cfg(feature = "ptx")]
pub(crate) mod child;
pub(crate) mod files;
#[cfg(all(feature = "command", unix))]
pub(crate) mod guard;
#[cfg(all(feature = "command", not(unix)))]
#[path = "no_guard.rs"]
pub(crate) mod guard;
#[cfg(feature = "command")]
pub(crate) mod heap;
pub(crate) mod host;
#[cfg(feature = "command")]
pub(crate) mod output;
#[cfg(feature = "ptx")]
pub(crate) mod place;
#[cfg(feature = "ptx")]
pub(crate) mod scratch;
#[cfg(feature = "command")]
pub(crate) mod stack;
