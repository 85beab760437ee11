//! Notes: why a link fails, below its messages.
//!
//! In: the program so far. Out: [`crate::diag::note::Note`]s. Guaranteed: no note is computed
//! unless there is a message for it, no note changes a message, and lists are bounded.

pub(crate) mod places;
pub(crate) mod recursion;
pub(crate) mod references;
mod similar;
pub(crate) mod sizes;
pub(crate) mod source;
mod variables;

use culd_cubin::text_of;

use crate::diag::demangle::demangle;

/// A name for a note: as in the source, if it can be demangled.
pub(crate) fn display_name(name: &[u8]) -> String {
    let name = text_of(name);
    demangle(&name).unwrap_or(name)
}
