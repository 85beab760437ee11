//! The threads that work runs on: the caller's thread, or a thread pool of the session.
//!
//! In: work. Out: its results in order.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::cancel::Cancel;
use super::pool::Pool;

/// Threads are not started for less work than this, in bytes.
const PARALLEL_BYTES: usize = 4 << 20;
/// Running threads are not woken for less work than this, in bytes.
const WAKING_BYTES: usize = 1 << 18;

/// Shares of work per thread. A thread cannot pass on part of a share that it has begun, so small
/// shares keep all threads busy.
const SHARES: usize = 16;

/// The number of items in one share, of `count` items.
fn share(count: usize, pool: &Pool) -> usize {
    (count / (SHARES * pool.threads())).max(1)
}

/// Called with the name of each phase that begins.
type Watcher = Box<dyn Fn(&'static str) + Send + Sync>;

/// The threads of one or more links, and their watcher.
pub struct Session {
    threads: usize,
    watcher: Option<Watcher>,
    cancel: Option<Cancel>,
    /// Grows the heap of the calling thread by a number of bytes at once.
    pub(super) grow: Option<fn(usize)>,
    /// Created by the first work that is worth it: a tiny link does not pay for threads.
    pool: OnceLock<Option<Pool>>,
    /// Several links run at once, so no thread is idle while another one works alone.
    pub(super) crowded: AtomicBool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Session {
    /// A session that runs all work on the caller's thread.
    pub fn serial() -> Self {
        Session::with_threads(1)
    }

    /// A session with a pool of `threads` threads (0: one per core). If the system has no threads
    /// to give, or without feature `parallel`, all work runs on the caller's thread.
    pub fn with_threads(threads: usize) -> Self {
        Session {
            threads,
            watcher: None,
            cancel: None,
            grow: None,
            pool: OnceLock::new(),
            crowded: AtomicBool::new(false),
        }
    }

    /// The same with `watcher`, which is called with the name of each phase that begins.
    #[must_use]
    pub fn watched(self, watcher: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Session { watcher: Some(Box::new(watcher)), ..self }
    }

    /// The same with `cancel`, which stops its links.
    #[must_use]
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Session { cancel: Some(cancel), ..self }
    }

    /// The same for a process that only links. `grow` extends the heap of the calling thread by a
    /// number of bytes, and freed blocks stay in that heap: links of many files spend less time in
    /// the system (docs/PERFORMANCE.md, memory). The first thread that asks for work becomes one of
    /// the `threads`, and must ask for all later work. As an additional thread it would have to
    /// share a core (docs/PERFORMANCE.md, threads).
    #[must_use]
    pub fn growing_heaps(self, grow: fn(usize)) -> Self {
        Session { grow: Some(grow), ..self }
    }

    /// The switch that stops its links, if there is one.
    pub fn cancel(&self) -> Option<&Cancel> {
        self.cancel.as_ref()
    }

    /// True once its links are cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Calls the watcher at the start of a phase.
    pub(crate) fn begin(&self, phase: &'static str) {
        if let Some(watcher) = &self.watcher {
            watcher(phase);
        }
    }

    pub(super) fn pool(&self, bytes: usize) -> Option<&Pool> {
        if self.threads == 1 || bytes < WAKING_BYTES {
            return None;
        }
        if bytes < PARALLEL_BYTES {
            return self.pool.get()?.as_ref();
        }
        self.pool.get_or_init(|| Pool::build(self.threads, self.grow)).as_ref()
    }

    /// True if work on this many bytes is divided among threads.
    pub fn has_threads(&self, bytes: usize) -> bool {
        self.pool(bytes).is_some()
    }

    /// The results of `own`, on the caller's thread, and of `other`, on a thread of the pool. So
    /// `own` keeps using the heap of the caller's thread.
    pub(crate) fn join_here<A, B: Send>(
        &self,
        bytes: usize,
        own: impl FnOnce() -> A,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self.pool(bytes) {
            Some(pool) => pool.join_here(own, other),
            None => (own(), other()),
        }
    }

    /// The results of `a` and `b`, which may run in parallel; `bytes` is the work of both together.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        bytes: usize,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self.pool(bytes) {
            Some(pool) => pool.join(a, b),
            None => (a(), b()),
        }
    }

    /// The number of threads that this session may have.
    pub fn most_lanes(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// Runs `work` on `lanes` threads at once, the caller's among them. It may ask this session for
    /// more threads; all lanes share them. `bytes` is the work of all lanes together.
    pub fn lanes(&self, lanes: usize, bytes: usize, work: impl Fn() + Sync) {
        match self.pool(bytes) {
            Some(pool) if lanes > 1 => {
                self.crowded.store(true, Ordering::Relaxed);
                pool.lanes(lanes, work);
                self.crowded.store(false, Ordering::Relaxed);
            }
            _ => work(),
        }
    }

    /// Calls `first` for each number in 0..count, and `second` with its result; returns the results
    /// of `second` in order. `first` runs on the caller's thread and may ask this session for more
    /// threads; `second` runs beside the next call of `first`. At most one result of `first` waits,
    /// so they do not pile up.
    pub fn pipeline<A: Send, B: Send>(
        &self,
        count: usize,
        bytes: usize,
        first: impl Fn(usize) -> A,
        second: impl Fn(usize, A) -> B + Sync,
    ) -> Vec<B> {
        match self.pool(bytes) {
            Some(pool) => pool.pipeline(count, first, second),
            None => (0..count).map(|place| second(place, first(place))).collect(),
        }
    }

    /// The results of `work` for 0..count, in order. `bytes` is the work of all calls: a few
    /// megabytes are worth waking threads for.
    pub fn map<T: Send>(
        &self,
        count: usize,
        bytes: usize,
        work: impl Fn(usize) -> T + Sync + Send,
    ) -> Vec<T> {
        match self.pool(bytes) {
            Some(pool) => pool.map(count, share(count, pool), work),
            None => (0..count).map(work).collect(),
        }
    }

    /// The same with a state that `make` creates for each thread, and that its calls reuse.
    pub fn map_with<S: Send, T: Send>(
        &self,
        count: usize,
        bytes: usize,
        make: impl Fn() -> S + Sync + Send,
        work: impl Fn(&mut S, usize) -> T + Sync + Send,
    ) -> Vec<T> {
        match self.pool(bytes) {
            Some(pool) => {
                let idle = Mutex::new(Vec::new());
                let idle = || idle.lock().unwrap_or_else(PoisonError::into_inner);
                let size = share(count, pool);
                let shares = self.map(count.div_ceil(size), bytes, |number| {
                    let places = number * size..count.min((number + 1) * size);
                    let own = idle().pop();
                    let mut own = own.unwrap_or_else(&make);
                    let made: Vec<T> = places.map(|place| work(&mut own, place)).collect();
                    idle().push(own);
                    made
                });
                shares.into_iter().flatten().collect()
            }
            None => {
                let mut own = make();
                (0..count).map(|place| work(&mut own, place)).collect()
            }
        }
    }

    /// Calls `work` with every item.
    pub(crate) fn each<T: Send>(
        &self,
        items: Vec<T>,
        bytes: usize,
        work: impl Fn(T) + Sync + Send,
    ) {
        match self.pool(bytes) {
            Some(pool) => {
                let share = share(items.len(), pool);
                pool.each(items, share, work);
            }
            None => items.into_iter().for_each(work),
        }
    }
}

/// Functions whose attributes one thread writes as one task.
pub(crate) const LISTS_PER_TASK: usize = 256;

/// The work of one function's attributes, in bytes as for [`Session::map`].
pub(crate) const LIST_WORK: usize = 256;
