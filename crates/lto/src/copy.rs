//! Work by a copy of this process, which has loaded what it needs.
//!
//! In: work. Out: the parts of a message that come of it, and the lines that it has printed.
//! Guaranteed: the copy ends with this process.
#![allow(unsafe_code, reason = "a copy of a process is safe only if nothing else runs in it")]

use std::fs::{self, File};
use std::io::{self, BufReader, PipeReader, PipeWriter};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};

use culd_text::message;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdout, fork, getpid, getppid};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::processor::BusyProcessor;

/// The threads of this process.
const THREADS: &str = "/proc/self/task";

/// A copy of this process at work.
#[derive(Debug)]
pub struct ProcessCopy {
    process: Pid,
    made: PipeReader,
    /// Its standard output and error.
    said: File,
}

impl ProcessCopy {
    /// Has a copy of this process do `work`.
    ///
    /// # Errors
    /// The system makes no copy, or it would not be like this process, which has several threads.
    pub fn start(work: impl FnOnce() -> Vec<Vec<u8>>) -> io::Result<Self> {
        if fs::read_dir(THREADS)?.count() != 1 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (made, writer) = io::pipe()?;
        let said = File::from(memfd_create(c"said", MemfdFlags::CLOEXEC)?);
        let parent = getpid();
        let processor = BusyProcessor::of_this_thread();
        // SAFETY: this is the only thread: no lock is held, and no memory is being changed.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(ProcessCopy { process: child, made, said }),
            ForkResult::Child => {
                if let Some(processor) = processor {
                    processor.leave();
                }
                let work = AssertUnwindSafe(|| do_work(parent, &said, writer, work));
                let status = match panic::catch_unwind(work) {
                    Ok(Ok(())) => libc::EXIT_SUCCESS,
                    _ => libc::EXIT_FAILURE,
                };
                // SAFETY: it takes a number. Nothing of the original's is undone by its copy.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// What comes of the work, and what has been printed. Waits for it, but not for the end of the
    /// copy, which takes the system 2 ms.
    ///
    /// # Errors
    /// The copy ended without a result.
    pub fn result(&self) -> io::Result<(Vec<Vec<u8>>, Vec<u8>)> {
        let parts = message::read(&mut BufReader::new(&self.made));
        let mut said = vec![0; usize::try_from(self.said.metadata()?.len()).unwrap_or(0)];
        self.said.read_exact_at(&mut said, 0)?;
        Ok((parts?.ok_or(io::ErrorKind::UnexpectedEof)?, said))
    }
}

impl Drop for ProcessCopy {
    fn drop(&mut self) {
        // Nothing is left to be read from it.
        let _ = kill(self.process, Signal::SIGKILL);
        let _ = waitpid(self.process, None);
    }
}

/// What the copy of the process `parent` does.
fn do_work(
    parent: Pid,
    said: &File,
    mut writer: PipeWriter,
    work: impl FnOnce() -> Vec<Vec<u8>>,
) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    // It may have ended before.
    if getppid() != parent {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    dup2_stdout(said)?;
    dup2_stderr(said)?;
    message::write(&mut writer, &work())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process of a test has several threads.
    #[test]
    fn a_process_with_threads_is_not_copied() {
        let error = ProcessCopy::start(Vec::new).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
