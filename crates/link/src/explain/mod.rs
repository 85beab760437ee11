//! Why a link fails: the notes below its messages.
//!
//! In: the program as far as it has come. Out: [`Note`]s. Guaranteed: nothing here is computed
//! unless there is a message to explain, none of it can change a message, and lists are bounded.

mod places;
mod recursion;
mod references;
mod similar;
mod sizes;

pub(crate) use self::places::{SameObjects, definition, same_bytes};
pub(crate) use self::recursion::Paths;
pub(crate) use self::references::undefined;
pub(crate) use self::sizes::{constants, shared};

use crate::diag::demangle;

/// A name for a note: as in the source, where that can be told.
pub(crate) fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    demangle(&name).unwrap_or_else(|| name.into_owned())
}
