//! Where work runs: on the caller's thread, or on a pool of the session's own.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Work below this many bytes is not worth waking threads for.
const PARALLEL_BYTES: usize = 4 << 20;

/// The threads of one or more links. Holds no other state.
#[derive(Debug, Default)]
pub struct Session {
    pool: Option<ThreadPool>,
}

impl Session {
    /// A session that does everything on the caller's thread.
    pub fn serial() -> Self {
        Session { pool: None }
    }

    /// A session with a pool of `threads` threads (0: one per core). Never the global pool: a
    /// library does not touch what belongs to the process.
    pub fn with_threads(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        if threads == 1 {
            return Ok(Session::serial());
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Session { pool: Some(pool) })
    }

    fn pool(&self, bytes: usize) -> Option<&ThreadPool> {
        self.pool.as_ref().filter(|_| bytes >= PARALLEL_BYTES)
    }

    /// `work` for 0..count, results in order.
    pub(crate) fn map<T: Send>(
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
