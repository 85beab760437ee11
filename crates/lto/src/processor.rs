//! The processors on which threads run.
//!
//! In: the calling thread. Out: the same thread on another processor. Guaranteed: afterwards it may
//! run on the same processors as before.

use nix::sched::{sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// The processor of a thread that goes on computing.
#[derive(Debug, Clone, Copy)]
pub struct BusyProcessor(usize);

impl BusyProcessor {
    /// That of the calling thread; `None` if the system does not say.
    pub fn of_this_thread() -> Option<Self> {
        sched_getcpu().ok().map(BusyProcessor)
    }

    /// Moves the calling thread to another processor, if there is one for it. A new thread or
    /// process starts on that of its maker if all are busy at that moment. Linux 6.18 left both
    /// there, in turns of 4 ms, while the other processor did nothing for 20 ms. The result is true
    /// if it has moved.
    pub fn leave(self) -> bool {
        let this = Pid::from_raw(0);
        let Ok(all) = sched_getaffinity(this) else { return false };
        let mut others = all;
        let moved = others.unset(self.0).is_ok() && sched_setaffinity(this, &others).is_ok();
        if moved {
            // From here on it may be anywhere again.
            let _ = sched_setaffinity(this, &all);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::CpuSet;

    #[test]
    fn a_thread_that_has_moved_may_run_everywhere() {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this).unwrap();
        let processors =
            (0..CpuSet::count()).filter(|&one| before.is_set(one).unwrap_or(false)).count();
        assert_eq!(BusyProcessor::of_this_thread().unwrap().leave(), processors > 1);
        assert_eq!(sched_getaffinity(this).unwrap(), before);
    }
}
