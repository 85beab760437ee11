//! Cancellation of links.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A switch that stops links. All clones share one state, so the owner of one can stop links that
/// hold another, from any thread.
///
/// A link checks it before each phase. A cancelled link has no image and frees all that it holds.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all links that hold the switch or a clone of it, those that start later too.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True after [`Cancel::cancel`].
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
