//! Two processes for a large link: one links, the other ends as soon as the output is there, so that nobody waits until
//! the system has taken the memory back, which is a tenth of the time. The linkers mold and wild do the same.
//!
//! In: the options. Out: which of the two this process is. Guaranteed: the one in front, which was started, has the exit status of
//! the other or ends by the same signal, and not before what is temporary is gone; a wish to end reaches both. A small
//! link has one process, and so has any where the system does not give another.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, raise, sigaction, sigprocmask,
};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, close, fork, getpid, getppid, gettid};

use crate::options::{Id, Options, Parsed, Request};

/// From so many inputs on a second process pays for itself, or from so many bytes: to start one takes 0.3 ms.
const MANY: usize = 100;
const LARGE: u64 = 16 << 20;

/// Somebody wants a process to end.
const WISHES: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// What a process of the command does.
#[derive(Debug)]
pub enum Front {
    /// It links, and another one waits for it if there is a pipe.
    Links(Option<PipeWriter>),
    /// Another one has linked, and told this exit status and all there was to say.
    Waited(u8),
}

impl Front {
    /// Divides the process in two if that is worth it.
    pub fn divide(parsed: &Parsed) -> Self {
        match &parsed.request {
            Ok(Request::Link(options)) if is_worth_it(options) => {
                divide().unwrap_or(Front::Links(None))
            }
            _ => Front::Links(None),
        }
    }

    /// The link has ended with `status`, and everything was printed: nobody needs to wait any more.
    pub fn done(self, status: u8) {
        let Front::Links(Some(mut pipe)) = self else { return };
        // Nobody waits for the end of what is printed, either. What fails here would only make somebody wait.
        let _ = std::io::stdout().flush();
        let _ = set_pdeathsig(None);
        (0..3).for_each(|stream| _ = close(stream));
        let _ = pipe.write_all(&[status]);
    }
}

fn is_worth_it(options: &Options) -> bool {
    let bytes = |path: &String| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let is_large = || options.inputs.iter().map(bytes).fold(0, u64::saturating_add) >= LARGE;
    !options.flag(Id::NoFork) && (options.inputs.len() >= MANY || is_large())
}

/// Whether this process has one thread, the first.
fn is_alone() -> bool {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    // With little stack the command works in a thread of its own, see crate::stack.
    gettid() == getpid() && threads() == 1
}

/// Has `signal` do what `action` says from now on; returns what it did before.
#[allow(unsafe_code, reason = "signals have a C interface only")]
fn act(signal: Signal, action: &SigAction) -> Option<SigAction> {
    // SAFETY: the only handler of this file reads a number and calls kill, which may be called in one (signal-safety(7)).
    unsafe { sigaction(signal, action) }.ok()
}

fn action(handler: SigHandler) -> SigAction {
    SigAction::new(handler, SaFlags::empty(), SigSet::empty())
}

/// True if this process ignores `signal`, which is blocked: its parent has said so, and so will what it starts.
fn is_ignored(signal: Signal) -> bool {
    let before = act(signal, &action(SigHandler::SigDfl));
    before.is_some_and(|before| {
        act(signal, &before);
        matches!(before.handler(), SigHandler::SigIgn)
    })
}

/// `None` where there is no second process.
#[allow(unsafe_code, reason = "to divide a process is unsafe in itself")]
fn divide() -> Option<Front> {
    let front = getpid();
    if !is_alone() {
        return None;
    }
    let (reader, writer) = pipe().ok()?;
    // Signals wait until both know what to do with them.
    let (mut wishes, mut before) = (SigSet::empty(), SigSet::empty());
    WISHES.iter().for_each(|&wish| wishes.add(wish));
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&wishes), Some(&mut before)).ok()?;
    let death = if is_ignored(Signal::SIGTERM) { Signal::SIGKILL } else { Signal::SIGTERM };
    // Where a parent has that ignored, nobody would learn how the child has ended.
    let children = act(Signal::SIGCHLD, &action(SigHandler::SigDfl));
    // SAFETY: this is the only thread of the process, so that nothing is locked or half done in its copy.
    let forked = unsafe { fork() };
    match forked {
        Ok(ForkResult::Parent { child }) => pass_on(child),
        // Where the one in front is killed, this one is to remove what is temporary and end, or at least to end.
        Ok(ForkResult::Child) => _ = set_pdeathsig(death),
        Err(_) => {}
    }
    if let (Ok(ForkResult::Child) | Err(_), Some(children)) = (&forked, &children) {
        act(Signal::SIGCHLD, children);
    }
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    match forked.ok()? {
        ForkResult::Parent { child } => {
            drop(writer);
            Some(Front::Waited(wait(child, reader)))
        }
        ForkResult::Child => {
            if getppid() != front {
                // It was killed before it could be said that this is to be told.
                let _ = raise(death);
            }
            Some(Front::Links(Some(writer)))
        }
    }
}

/// The process that links.
static LINKING: AtomicI32 = AtomicI32::new(0);

extern "C" fn tell_linking(signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        // It may have ended.
        let _ = kill(Pid::from_raw(LINKING.load(Ordering::Acquire)), signal);
    }
}

/// Passes on to `linking` what wants this process to end; what the parent has ignored, as nohup(1) does, stays so.
fn pass_on(linking: Pid) {
    LINKING.store(linking.as_raw(), Ordering::Release);
    for wish in WISHES.into_iter().filter(|&wish| !is_ignored(wish)) {
        act(wish, &action(SigHandler::Handler(tell_linking)));
    }
}

/// Waits until `linking` has told its status; where it ends without that, ends the same way.
fn wait(linking: Pid, mut told: PipeReader) -> u8 {
    let mut status = [0];
    if told.read_exact(&mut status).is_ok() {
        return status[0];
    }
    let ended = loop {
        match waitpid(linking, None) {
            Err(nix::Error::EINTR) => {}
            ended => break ended,
        }
    };
    match ended {
        Ok(WaitStatus::Exited(_, status)) => u8::try_from(status).unwrap_or(1),
        Ok(WaitStatus::Signaled(_, signal, _)) => {
            act(signal, &action(SigHandler::SigDfl));
            let _ = raise(signal);
            1
        }
        _ => 1,
    }
}
