//! The threads of a session.
//!
//! In: work in pieces. Out: its results in order. Guaranteed: without feature `parallel` there is
//! no pool, and all work runs on the caller's thread.

#[cfg(feature = "parallel")]
pub(super) use with_threads::Pool;
#[cfg(not(feature = "parallel"))]
pub(super) use without_threads::Pool;

#[cfg(feature = "parallel")]
mod with_threads {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rayon::prelude::*;
    use rayon::{ThreadPool, ThreadPoolBuilder};

    use crate::base::prefault::PREFAULT_BLOCK;

    /// A pool of the session. It is never rayon's global pool, which belongs to the process.
    pub(in crate::base) struct Pool(ThreadPool);

    impl Pool {
        /// A pool of `threads` threads (0: one per core), whose heaps `grow` extends; `None` if the
        /// system has no threads to give.
        pub(in crate::base) fn build(threads: usize, grow: Option<fn(usize)>) -> Option<Self> {
            let pool = || ThreadPoolBuilder::new().num_threads(threads);
            let Some(grow) = grow else { return pool().build().ok().map(Pool) };
            // The process must have freed more than a thread asks for.
            grow(PREFAULT_BLOCK + PREFAULT_BLOCK / 4);
            let pool = || pool().start_handler(move |_| grow(PREFAULT_BLOCK));
            let with_caller = pool().use_current_thread().build();
            grow(PREFAULT_BLOCK);
            // A thread cannot belong to two pools.
            let pool = with_caller.or_else(|_| pool().build()).ok();
            // The caller's thread keeps a single core busy.
            pool.filter(|pool| pool.current_num_threads() > 1).map(Pool)
        }

        pub(in crate::base) fn threads(&self) -> usize {
            self.0.current_num_threads()
        }

        pub(in crate::base) fn join_here<A, B: Send>(
            &self,
            own: impl FnOnce() -> A,
            other: impl FnOnce() -> B + Send,
        ) -> (A, B) {
            let mut made = None;
            let a = self.0.in_place_scope(|scope| {
                scope.spawn(|_| made = Some(other()));
                own()
            });
            (a, made.expect("a scope waits for what it has spawned"))
        }

        pub(in crate::base) fn join<A: Send, B: Send>(
            &self,
            a: impl FnOnce() -> A + Send,
            b: impl FnOnce() -> B + Send,
        ) -> (A, B) {
            self.0.install(|| rayon::join(a, b))
        }

        /// Runs `work` on `lanes` threads, of which one is the caller's.
        pub(in crate::base) fn lanes(&self, lanes: usize, work: impl Fn() + Sync) {
            self.0.in_place_scope(|scope| {
                for _ in 1..lanes {
                    scope.spawn(|_| work());
                }
                work();
            });
        }

        /// Calls `first`, and `second` with its result; returns the results of `second`. At most
        /// one call of `second` waits or runs beside a call of `first`.
        pub(in crate::base) fn pipeline<A: Send, B: Send>(
            &self,
            count: usize,
            first: impl Fn(usize) -> A,
            second: impl Fn(usize, A) -> B + Sync,
        ) -> Vec<B> {
            let mut made: Vec<Option<B>> = (0..count).map(|_| None).collect();
            let (busy, second) = (&AtomicBool::new(false), &second);
            self.0.in_place_scope(|scope| {
                for (place, slot) in made.iter_mut().enumerate() {
                    let own = first(place);
                    if busy.swap(true, Ordering::Acquire) {
                        *slot = Some(second(place, own));
                        continue;
                    }
                    scope.spawn(move |_| {
                        *slot = Some(second(place, own));
                        busy.store(false, Ordering::Release);
                    });
                }
            });
            let made = made.into_iter();
            made.map(|made| made.expect("a scope waits for what it has spawned")).collect()
        }

        /// The results of `work` for 0..count; a thread takes at most `share` of them at once.
        pub(in crate::base) fn map<T: Send>(
            &self,
            count: usize,
            share: usize,
            work: impl Fn(usize) -> T + Sync + Send,
        ) -> Vec<T> {
            let each = || (0..count).into_par_iter().with_max_len(share).map(work).collect();
            self.0.install(each)
        }

        pub(in crate::base) fn each<T: Send>(
            &self,
            items: Vec<T>,
            share: usize,
            work: impl Fn(T) + Sync + Send,
        ) {
            self.0.install(|| items.into_par_iter().with_max_len(share).for_each(work));
        }

        /// Starts `work` on an idle thread and does not wait for it.
        pub(in crate::base) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
            self.0.spawn(work);
        }

        /// The same on every thread.
        pub(in crate::base) fn spawn_on_all(&self, work: impl Fn() + Send + Sync + 'static) {
            self.0.spawn_broadcast(move |_| work());
        }
    }
}

#[cfg(not(feature = "parallel"))]
mod without_threads {
    /// There is no pool in this build.
    pub(in crate::base) enum Pool {}

    impl Pool {
        pub(in crate::base) fn build(_: usize, _: Option<fn(usize)>) -> Option<Self> {
            None
        }

        pub(in crate::base) fn threads(&self) -> usize {
            match *self {}
        }

        pub(in crate::base) fn join_here<A, B>(
            &self,
            _: impl FnOnce() -> A,
            _: impl FnOnce() -> B,
        ) -> (A, B) {
            match *self {}
        }

        pub(in crate::base) fn join<A, B>(
            &self,
            _: impl FnOnce() -> A,
            _: impl FnOnce() -> B,
        ) -> (A, B) {
            match *self {}
        }

        pub(in crate::base) fn lanes(&self, _: usize, _: impl Fn()) {
            match *self {}
        }

        pub(in crate::base) fn pipeline<A, B>(
            &self,
            _: usize,
            _: impl Fn(usize) -> A,
            _: impl Fn(usize, A) -> B,
        ) -> Vec<B> {
            match *self {}
        }

        pub(in crate::base) fn map<T>(&self, _: usize, _: usize, _: impl Fn(usize) -> T) -> Vec<T> {
            match *self {}
        }

        pub(in crate::base) fn each<T>(&self, _: Vec<T>, _: usize, _: impl Fn(T)) {
            match *self {}
        }

        pub(in crate::base) fn spawn(&self, _: impl FnOnce()) {
            match *self {}
        }

        pub(in crate::base) fn spawn_on_all(&self, _: impl Fn()) {
            match *self {}
        }
    }
}
