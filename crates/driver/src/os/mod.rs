//! What the driver needs of the operating system, beyond the standard library: files that are mapped, outputs that are
//! replaced whole, signals, child processes, temporary files, stacks and heaps.

pub(crate) mod child;
pub(crate) mod files;
pub(crate) mod guard;
pub(crate) mod heap;
pub(crate) mod output;
pub(crate) mod place;
pub(crate) mod stack;
