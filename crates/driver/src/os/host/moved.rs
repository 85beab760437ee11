//! A process that goes on where another one has stopped.
//!
//! In: two processes. Out: [`MovedProcess`]. Guaranteed: the process may run on the same processors
//! as before, once it is let go.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, gettid};

/// The place of the processor among the fields of `/proc/PID/stat` behind the name, from 0.
const PROCESSOR: usize = 36;

/// A process that waits, and goes on at one processor.
///
/// It would go on at the processor where it began to wait, if none is idle at that moment. Linux
/// 6.18 left it there for 10 ms with another program that computes, while the next processor did
/// nothing.
pub(crate) struct MovedProcess {
    process: Pid,
    all: CpuSet,
}

impl MovedProcess {
    /// The process `process` at the processor of the process `other`; `None` if the system does
    /// not say or allow it.
    pub(crate) fn to_that_of(process: u32, other: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{other}/stat")).ok()?;
        let processor = processor_in(&stat)?;
        let process = Pid::from_raw(process.try_into().ok()?);
        let all = sched_getaffinity(process).ok()?;
        let mut one = CpuSet::new();
        one.set(processor).ok()?;
        sched_setaffinity(process, &one).ok()?;
        Some(MovedProcess { process, all })
    }

    /// Lets it run on all processors again.
    pub(crate) fn let_go(self) {
        // It may have ended.
        let _ = sched_setaffinity(self.process, &self.all);
    }
}

/// The number of the calling thread, that of a process to [`MovedProcess`].
pub(crate) fn this_thread() -> Option<u32> {
    gettid().as_raw().try_into().ok()
}

/// The processor in the text of `/proc/PID/stat`, where the process has run last.
fn processor_in(stat: &str) -> Option<usize> {
    stat.rsplit_once(") ")?.1.split(' ').nth(PROCESSOR)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_the_field_39() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 12 1 1 1 0 0 0 \
                    0 13 14 15 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(processor_in(stat), Some(3));
        assert_eq!(processor_in("7 (a) S 1"), None);
        assert_eq!(processor_in(""), None);
    }

    #[test]
    fn a_moved_process_may_run_everywhere_afterwards() {
        let own = std::process::id();
        let pid = Pid::from_raw(own.try_into().unwrap());
        let count = |set: CpuSet| {
            (0..CpuSet::count()).filter(|&one| set.is_set(one).unwrap_or(false)).count()
        };
        let before = sched_getaffinity(pid).unwrap();
        let moved = MovedProcess::to_that_of(own, own).unwrap();
        assert_eq!(count(sched_getaffinity(pid).unwrap()), 1);
        moved.let_go();
        assert_eq!(sched_getaffinity(pid).unwrap(), before);
        assert!(MovedProcess::to_that_of(own, u32::MAX).is_none());
    }
}
