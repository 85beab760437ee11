//! Where work runs: on the caller's thread, or on a pool of the session's own.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Cancel;

/// Work below this many bytes is not worth making threads for.
const PARALLEL_BYTES: usize = 4 << 20;
/// The same for waking threads that are there.
const WAKING_BYTES: usize = 1 << 18;

/// Bytes that each thread of a pool asks its heap for at the start.
const AT_HAND: usize = 16 << 20;

/// Bytes of a page of memory.
const PAGE: usize = 4 << 10;

/// Shares of work for each thread. What a thread has begun cannot be divided any more when another one has nothing to do.
const SHARES: usize = 16;

/// How many of `count` items are one share.
fn share(count: usize, pool: &ThreadPool) -> usize {
    (count / (SHARES * pool.current_num_threads())).max(1)
}

/// Called with the name of each phase that begins.
type Watcher = Box<dyn Fn(&'static str) + Send + Sync>;

/// The threads of one or more links, and who watches them.
pub struct Session {
    threads: usize,
    watcher: Option<Watcher>,
    cancel: Option<Cancel>,
    /// Has the heap of the calling thread grow by so many bytes at once.
    grow: Option<fn(usize)>,
    /// Made by the first work that is worth it: a tiny link does not pay for threads.
    pool: OnceLock<Option<ThreadPool>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Memory that is asked for and not brought in yet.
pub(crate) struct Rest(Vec<u8>);

/// A block of memory of `bytes`, at most what a thread has at hand, that nobody has touched; empty where the system has none.
fn untouched(bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    // Without it only time is lost.
    let _ = block.try_reserve_exact(bytes.min(AT_HAND));
    block
}

/// Brings in the memory of `block`.
fn touch(mut block: Vec<u8>) {
    block.spare_capacity_mut().chunks_mut(PAGE).for_each(|page| _ = page[0].write(1));
    drop(std::hint::black_box(block));
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
        Session { threads, watcher: None, cancel: None, grow: None, pool: OnceLock::new() }
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

    /// The same for a process that does nothing else: `grow` prepares the heap of the thread that calls it for so many bytes, and
    /// blocks that are given back stay there. Links of many files spend less time in the system. The thread that asks for work
    /// first is then one of the `threads`, and the one to ask for all the rest: beside as many others it would have to share a core.
    #[must_use]
    pub fn growing_heaps(self, grow: fn(usize)) -> Self {
        Session { grow: Some(grow), ..self }
    }

    /// What stops its links, if something can.
    pub fn cancel(&self) -> Option<&Cancel> {
        self.cancel.as_ref()
    }

    /// True once they shall stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// A phase begins.
    pub(crate) fn begin(&self, phase: &'static str) {
        if let Some(watcher) = &self.watcher {
            watcher(phase);
        }
    }

    fn pool(&self, bytes: usize) -> Option<&ThreadPool> {
        if self.threads == 1 || bytes < WAKING_BYTES {
            return None;
        }
        if bytes < PARALLEL_BYTES {
            return self.pool.get()?.as_ref();
        }
        let build = || {
            let pool = || ThreadPoolBuilder::new().num_threads(self.threads);
            let Some(grow) = self.grow else { return pool().build().ok() };
            // The process has to have given back more than a thread asks for.
            grow(AT_HAND + AT_HAND / 4);
            let pool = || pool().start_handler(move |_| grow(AT_HAND));
            let with_caller = pool().use_current_thread().build();
            grow(AT_HAND);
            // A thread cannot belong to two pools.
            let pool = with_caller.or_else(|_| pool().build()).ok();
            // The only core has enough to do.
            pool.filter(|pool| pool.current_num_threads() > 1)
        };
        self.pool.get_or_init(build).as_ref()
    }

    /// Has an idle thread bring in `bytes` of memory for what the caller's thread does next alone: the system takes about
    /// as long to hand out a page as that work takes to fill it. Nothing where there are no threads, or where blocks do not
    /// stay in the heap that they come from. What is more than one block is left for [`Session::bring_in_rest`].
    pub(crate) fn bring_in(&self, bytes: usize) -> Rest {
        let (Some(pool), Some(_)) = (self.pool(bytes), self.grow) else { return Rest(Vec::new()) };
        let first = untouched(bytes);
        let rest = untouched(bytes.saturating_sub(AT_HAND));
        pool.spawn(move || touch(first));
        Rest(rest)
    }

    /// The same for the rest, while the caller's thread works, and then for `bytes` that the threads of the pool need
    /// when they have work again.
    pub(crate) fn bring_in_rest(&self, Rest(rest): Rest, bytes: usize) {
        let (Some(pool), Some(_)) = (self.pool(bytes), self.grow) else { return };
        let share = bytes / pool.current_num_threads();
        pool.spawn(move || touch(rest));
        pool.spawn_broadcast(move |_| touch(untouched(share)));
    }

    /// Whether work on this many bytes is shared out among threads.
    pub fn has_threads(&self, bytes: usize) -> bool {
        self.pool(bytes).is_some()
    }

    /// What `own` returns on the caller's thread, and `other` on one of the pool: `own` goes on with the memory of the
    /// caller's thread.
    pub(crate) fn beside<A, B: Send>(
        &self,
        bytes: usize,
        own: impl FnOnce() -> A,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let Some(pool) = self.pool(bytes) else { return (own(), other()) };
        let mut made = None;
        let a = pool.in_place_scope(|scope| {
            scope.spawn(|_| made = Some(other()));
            own()
        });
        (a, made.expect("a scope waits for what it has spawned"))
    }

    /// What `a` and `b` return; `bytes` says how much work they are together.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        bytes: usize,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self.pool(bytes) {
            Some(pool) => pool.install(|| rayon::join(a, b)),
            None => (a(), b()),
        }
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
            Some(pool) => {
                let share = share(count, pool);
                let each = || (0..count).into_par_iter().with_max_len(share).map(work).collect();
                pool.install(each)
            }
            None => (0..count).map(work).collect(),
        }
    }

    /// The same, with something of its own for each thread that `make` makes, to be used again and again.
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

    /// `work` for every item.
    pub(crate) fn each<T: Send>(
        &self,
        items: Vec<T>,
        bytes: usize,
        work: impl Fn(T) + Sync + Send,
    ) {
        match self.pool(bytes) {
            Some(pool) => {
                let share = share(items.len(), pool);
                pool.install(|| items.into_par_iter().with_max_len(share).for_each(work));
            }
            None => items.into_iter().for_each(work),
        }
    }
}
