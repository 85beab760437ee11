//! A line on the terminal during a long link.
//!
//! In: the phases as they begin. Out: after a second the name of the phase and the time so far, on
//! standard error, until the link ends; then the line is gone. Guaranteed: no output if standard
//! error is not a terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shorter links have no line.
const AFTER: Duration = Duration::from_secs(1);
/// The interval at which the line is written.
const EVERY: Duration = Duration::from_millis(200);
/// Back to the first column, and the rest of the line away.
const CLEAR: &str = "\r\x1b[K";

/// The state of the thread that writes the line.
#[derive(Default)]
struct ProgressState {
    phase: &'static str,
    ended: bool,
}

#[derive(Default)]
struct ProgressLine {
    now: Mutex<ProgressState>,
    changed: Condvar,
}

impl ProgressLine {
    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the phase that the line shows.
#[derive(Clone)]
pub(crate) struct ProgressPhase(Option<Arc<ProgressLine>>);

impl ProgressPhase {
    /// Shows that a phase begins.
    pub(crate) fn begin(&self, name: &'static str) {
        if let Some(shared) = &self.0 {
            shared.lock().phase = name;
        }
    }
}

/// The line, which disappears when this value is dropped.
pub(crate) struct Progress {
    phase: ProgressPhase,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// A line on standard error, if that is a terminal.
    pub(crate) fn start() -> Self {
        if std::io::stderr().is_terminal() {
            Progress::on(std::io::stderr(), AFTER)
        } else {
            Progress { phase: ProgressPhase(None), thread: None }
        }
    }

    fn on(mut out: impl Write + Send + 'static, after: Duration) -> Self {
        let shared = Arc::new(ProgressLine::default());
        let phase = ProgressPhase(Some(Arc::clone(&shared)));
        let work = move || {
            let start = Instant::now();
            let mut now = shared.lock();
            let mut wait = after;
            let mut shown = false;
            loop {
                let waited = shared.changed.wait_timeout_while(now, wait, |now| !now.ended);
                now = waited.unwrap_or_else(PoisonError::into_inner).0;
                if now.ended {
                    break;
                }
                let text = line(now.phase, start.elapsed());
                // A terminal that cannot be written to does not end the link.
                let _ = write!(out, "{CLEAR}{text}").and_then(|()| out.flush());
                (wait, shown) = (EVERY, true);
            }
            if shown {
                let _ = write!(out, "{CLEAR}").and_then(|()| out.flush());
            }
        };
        // Without a thread there is no line.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(work).ok();
        Progress { phase, thread }
    }

    /// The setter for the running link.
    pub(crate) fn phase(&self) -> ProgressPhase {
        self.phase.clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(shared) = &self.phase.0 {
            shared.lock().ended = true;
            shared.changed.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn line(phase: &str, time: Duration) -> String {
    format!("culd: {phase} ({:.1} s)", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_names_the_phase_and_goes() {
        let screen = Screen::default();
        let progress = Progress::on(screen.clone(), Duration::ZERO);
        progress.phase().begin("merge");
        let shows = |text: &str| String::from_utf8_lossy(&screen.0.lock().unwrap()).contains(text);
        let start = Instant::now();
        while !shows("culd: merge (") && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(shows("culd: merge ("));
        drop(progress);
        assert!(screen.0.lock().unwrap().ends_with(CLEAR.as_bytes()));
    }

    #[test]
    fn a_short_link_shows_nothing() {
        let screen = Screen::default();
        let progress = Progress::on(screen.clone(), Duration::from_secs(60));
        progress.phase().begin("merge");
        drop(progress);
        assert!(screen.0.lock().unwrap().is_empty());
    }
}
