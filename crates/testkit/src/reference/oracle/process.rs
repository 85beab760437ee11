//! Runs a command with a time limit and keeps its output.
//!
//! In: a command. Out: its status, its output, the time it took. Guaranteed: it returns soon after
//! the limit even if the command has children, because its whole process group is killed.

use anyhow::{Context, Result, ensure};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// Killed at the limit.
    TimedOut,
}

impl Status {
    /// True for exit code 0.
    pub fn success(self) -> bool {
        self == Status::Exit(0)
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Status::Exit(code),
            None => Status::Signal(status.signal().unwrap_or(0)),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Exit(code) => write!(f, "exit code {code}"),
            Status::Signal(signal) => write!(f, "signal {signal}"),
            Status::TimedOut => f.write_str("time limit"),
        }
    }
}

/// A finished command.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its end.
    pub status: Status,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Wall time from start to end.
    pub wall: Duration,
}

impl Run {
    /// Standard error as text.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// Runs a command that must succeed within `limit`.
///
/// # Errors
/// When it cannot be started, or does not succeed: with what it said.
pub fn succeed(command: &mut Command, limit: Duration) -> Result<Run> {
    let run = run(command, limit).with_context(|| format!("cannot start {command:?}"))?;
    ensure!(run.status.success(), "{command:?}: {}\n{}", run.status, run.stderr_text());
    Ok(run)
}

/// Runs `command` for at most `limit`.
///
/// # Errors
/// When it cannot be started or waited for.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Run> {
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let status = wait(&mut child, start + limit, &stdout)?;
    let wall = start.elapsed();
    // After a kill no process has the pipes open, so they end.
    Ok(Run {
        status,
        stdout: stdout.recv().unwrap_or_default(),
        stderr: stderr.recv().unwrap_or_default(),
        wall,
    })
}

/// Reads a pipe to its end on another thread and sends the bytes.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Pipe {
    let (sender, receiver) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // An unreadable pipe counts as empty: the status says what happened.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = ended.send(());
        let _ = sender.send(bytes);
    });
    Pipe { end, bytes: receiver }
}

struct Pipe {
    end: mpsc::Receiver<()>,
    bytes: mpsc::Receiver<Vec<u8>>,
}

impl Pipe {
    fn recv(&self) -> Result<Vec<u8>, mpsc::RecvError> {
        self.bytes.recv()
    }
}

/// Usually waits without polling: the end of standard output is the end of the process. A process
/// that closes it early is polled.
fn wait(child: &mut Child, deadline: Instant, stdout: &Pipe) -> io::Result<Status> {
    let _ = stdout.end.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.into());
        }
        if Instant::now() >= deadline {
            kill_group(child)?;
            child.wait()?;
            return Ok(Status::TimedOut);
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn kill_group(child: &Child) -> io::Result<()> {
    let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    match nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Run {
        run(Command::new("sh").args(["-c", script]), limit).expect("sh starts")
    }

    #[test]
    fn keeps_output_and_status() {
        let run = shell("echo out; echo err >&2; exit 7", Duration::from_secs(10));
        assert_eq!(run.status, Status::Exit(7));
        assert_eq!((run.stdout.as_slice(), run.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn reports_signals() {
        assert_eq!(shell("kill -SEGV $$", Duration::from_secs(10)).status, Status::Signal(11));
    }

    #[test]
    fn kills_the_whole_group_at_the_limit() {
        let run = shell("sleep 60 & sleep 60", Duration::from_millis(100));
        assert_eq!(run.status, Status::TimedOut);
        assert!(run.wall < Duration::from_secs(30));
    }

    #[test]
    fn survives_a_closed_output() {
        let run = shell("exec >&- 2>&-; sleep 0.05; exit 3", Duration::from_secs(10));
        assert_eq!(run.status, Status::Exit(3));
    }
}
