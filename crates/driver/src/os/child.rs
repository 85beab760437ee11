//! A program that is started and waited for.
//!
//! In: a command, its standard input and place of its standard output. Out: its output and exit
//! status. Guaranteed: it is killed when the link is cancelled; it reads no input that it was not
//! given.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use culd_link::Cancel;
use thiserror::Error;

use super::host;
use super::place::NoPlace;

/// Bytes of output that are read.
const MOST: u64 = 4096;

/// The interval at which a link that can be cancelled looks whether the program has ended.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// The reason why a program was not run to its end.
#[derive(Debug, Error)]
pub(crate) enum ChildError {
    #[error("cannot run '{}': {error}", culd_text::name(path))]
    CannotRun { path: PathBuf, error: io::Error },
    #[error(transparent)]
    NoPlace(#[from] NoPlace),
    #[error("cannot use a temporary file: {0}")]
    Temporary(#[from] io::Error),
    /// The link was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// The time that a program may take to print its version.
const BRIEF: Duration = Duration::from_secs(5);

/// The first bytes that `command` prints, if it ends soon and with success.
pub(crate) fn briefly(command: &mut Command) -> Option<Vec<u8>> {
    // A process that it starts could hold a pipe open.
    let mut file = memory(c"stdout").ok()?;
    command.stdin(Stdio::null()).stdout(file.try_clone().ok()?).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() < BRIEF => thread::sleep(LOOK),
            Ok(Some(status)) => break status,
            _ => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut said = Vec::new();
    file.rewind().ok()?;
    file.take(MOST).read_to_end(&mut said).ok()?;
    status.success().then_some(said)
}

/// The standard streams of a program. Default: nothing to read, and output that is returned.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<File>,
    pub(crate) stdout: Option<File>,
}

/// Makes glibc's allocator ask for large pages and keep them. NVIDIA's compilers spend a sixth of a
/// small compilation in page faults.
const HEAP: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=1073741824:\
     glibc.malloc.mmap_threshold=1073741824:glibc.malloc.top_pad=16777216",
);

/// Runs `command`, a compiler. If the link can be cancelled, the output goes to memory: a pipe
/// would have to be read all the time.
pub(crate) fn output(
    command: &mut Command,
    streams: Streams,
    cancel: Option<&Cancel>,
) -> Result<Output, ChildError> {
    command.stdin(streams.stdin.map_or_else(Stdio::null, Stdio::from));
    set_heap(command);
    let keeps_stdout = streams.stdout.is_none();
    if let Some(stdout) = streams.stdout {
        command.stdout(stdout);
    }
    let path = PathBuf::from(command.get_program());
    let cannot_run = |error| ChildError::CannotRun { path, error };
    let Some(cancel) = cancel else { return command.output().map_err(cannot_run) };
    let mut said = [memory(c"stdout")?, memory(c"stderr")?];
    let [stdout, stderr] = said.each_ref().map(File::try_clone);
    if keeps_stdout {
        command.stdout(stdout?);
    }
    command.stderr(stderr?);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Err(cannot_run(error)),
    };
    let status = loop {
        if cancel.is_cancelled() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(ChildError::Cancelled);
        }
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => thread::sleep(LOOK),
            Err(error) => return Err(cannot_run(error)),
        }
    };
    let [stdout, stderr] = said.each_mut().map(contents);
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

/// Starts `command`, a compiler that stays for several tasks. NVIDIA's orders some of its output by
/// a hash of addresses, which would be others each time.
#[cfg(feature = "lto")]
pub(crate) fn start_compiler(command: &mut Command) -> Result<Child, ChildError> {
    set_heap(command);
    let path = PathBuf::from(command.get_program());
    let child = host::spawn_at_fixed_addresses(command);
    child.map_err(|error| ChildError::CannotRun { path, error })
}

/// Sets [`HEAP`]; a setting of the user's own stays.
fn set_heap(command: &mut Command) {
    if env::var_os(HEAP.0).is_none() {
        command.env(HEAP.0, HEAP.1);
    }
}

/// A file in memory, without a folder; its name is visible in /proc.
pub(crate) fn memory(name: &CStr) -> io::Result<File> {
    host::memory_file(name)
}

/// A file in memory with these bytes, to be read from its begin.
pub(crate) fn memory_of(name: &CStr, bytes: &[u8]) -> io::Result<File> {
    let mut file = memory(name)?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// All bytes of `file`.
pub(crate) fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
