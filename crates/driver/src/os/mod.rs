//! The driver's needs of the operating system beyond the standard library: mapped files, outputs
//! that are replaced as a whole, signals, child processes, temporary files, stacks and heaps.

#[cfg(feature = "ptx")]
pub(crate) mod child;
pub(crate) mod files;
#[cfg(feature = "command")]
pub(crate) mod guard;
#[cfg(feature = "command")]
pub(crate) mod heap;
#[cfg(feature = "command")]
pub(crate) mod output;
#[cfg(feature = "ptx")]
pub(crate) mod place;
#[cfg(feature = "ptx")]
pub(crate) mod scratch;
#[cfg(feature = "command")]
pub(crate) mod stack;
