//! A system where no process is moved.
//!
//! In, out, guaranteed: as for `moved.rs`.

/// The system does not say it.
pub(crate) fn this_thread() -> Option<u32> {
    None
}

/// There is none.
pub(crate) enum MovedProcess {}

impl MovedProcess {
    /// No process is moved.
    pub(crate) fn to_that_of(_: u32, _: u32) -> Option<Self> {
        None
    }

    /// There is none.
    pub(crate) fn let_go(self) {
        match self {}
    }
}
