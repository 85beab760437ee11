//! Where work runs: on the caller's thread, or on a pool of the session's own.

use std::sync::OnceLock;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Work below this many bytes is not worth waking threads for.
const PARALLEL_BYTES: usize = 4 << 20;

/// The threads of one or more links. Holds no other state.
#[derive(Debug)]
pub struct Session {
    threads: usize,
    /// Made by the first work that is worth it: a tiny link does not pay for threads.
    pool: OnceLock<Option<ThreadPool>>,
}

impl Session {
    /// A session that does everything on the caller's thread.
    pub fn serial() -> Self {
        Session::with_threads(1)
    }

    /// A session with a pool of `threads` threads (0: one per core). Never the global pool: a
    /// library does not touch what belongs to the process. Where the system has no threads to
    /// give, work stays on the caller's.
    pub fn with_threads(threads: usize) -> Self {
        Session { threads, pool: OnceLock::new() }
    }

    fn pool(&self, bytes: usize) -> Option<&ThreadPool> {
        if self.threads == 1 || bytes < PARALLEL_BYTES {
            return None;
        }
        let build = || ThreadPoolBuilder::new().num_threads(self.threads).build().ok();
        self.pool.get_or_init(build).as_ref()
    }

    /// `work` for 0..count, results in order. `bytes` says how much work it is: a few megabytes
    /// are worth waking threads for.
    pub fn map<T: Send>(
        &self,
        count: usize,
        bytes: usize,
        work: impl Fn(usize) -> T + Sync + Send,
    ) -> Vec<T> {
        match self.pool(bytes) {
            Some(pool) => pool.install(|| (0..count).into_par_iter().map(work).collect()),
            None => (0..count).map(work).collect(),
        }
    }

    /// `work` for every item.
    pub(crate) fn each<T: Send>(
        &self,
        items: Vec<T>,
        bytes: usize,
        work: impl Fn(T) + Sync + Send,
    ) {
        match self.pool(bytes) {
            Some(pool) => pool.install(|| items.into_par_iter().for_each(work)),
            None => items.into_iter().for_each(work),
        }
    }
}
