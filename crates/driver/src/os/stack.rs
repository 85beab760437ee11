//! A large enough stack.
//!
//! In: the work of the command. Out: its result. Guaranteed: `ulimit -s 16` is enough, as for
//! nvlink; with a usual limit no thread is started.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

use super::host;

/// Bytes. A link takes some 40 KiB of the main stack, for any inputs.
const ENOUGH: u64 = 1 << 20;

/// Runs `work`, on a new thread if the main thread's stack is small.
pub fn on_enough_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // If the limit is not known, the usual one is assumed.
    if host::main_stack().is_some_and(|bytes| bytes < ENOUGH) {
        return on_thread(work);
    }
    work()
}

fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = Mutex::new(Some(work));
    let run = || work.lock().ok().and_then(|mut work| work.take()).map(|work| work());
    let done = thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(ENOUGH as usize);
        match builder.spawn_scoped(scope, run) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // Little may be enough.
            Err(_) => run(),
        }
    });
    done.expect("work is done once")
}
