//! Links that nobody wants any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells links to stop. Clones are one: whoever has one may stop what another was given to, from any thread.
///
/// A link looks at it before each phase. One that stops has no image and gives back all that it holds.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that tells nothing so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all links that it was given to, those to come too.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once they shall stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
