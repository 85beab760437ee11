//! A system where no thread is moved.
//!
//! In, out, guaranteed: as for `processor.rs`.

/// There is none.
#[derive(Debug, Clone, Copy)]
pub enum BusyProcessor {}

impl BusyProcessor {
    /// The system does not say it.
    pub fn of_this_thread() -> Option<Self> {
        None
    }

    /// Moves the calling thread to another processor.
    pub fn leave(self) -> bool {
        match self {}
    }
}
