//! Works on items in parallel.
//!
//! In: items, and the function of a worker. Out: the first failure, if there is one. Guaranteed:
//! after a failure, no worker gets another item.

use crate::workspace::lock;
use anyhow::Result;
use std::sync::Mutex;
use std::thread;

/// Items that no worker has taken.
pub(crate) struct Queue<I> {
    items: Mutex<I>,
    failure: Mutex<Option<anyhow::Error>>,
}

impl<I: Iterator> Queue<I> {
    /// The next item.
    pub(crate) fn take(&self) -> Option<I::Item> {
        if lock(&self.failure).is_some() {
            return None;
        }
        lock(&self.items).next()
    }
}

/// Runs `work` in `jobs` threads, at least one; each ends when the queue is empty.
///
/// # Errors
/// The first one of a worker.
pub(crate) fn run<I: Iterator + Send>(
    jobs: usize,
    items: I,
    work: impl Fn(&Queue<I>) -> Result<()> + Sync,
) -> Result<()> {
    let queue = Queue { items: Mutex::new(items), failure: Mutex::new(None) };
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                if let Err(failed) = work(&queue) {
                    lock(&queue.failure).get_or_insert(failed);
                }
            });
        }
    });
    lock(&queue.failure).take().map_or(Ok(()), Err)
}
