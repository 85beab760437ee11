//! A program that is started and waited for.
//!
//! In: a command, its standard input and place of its standard output. Out: its output and exit
//! status. Guaranteed: it is killed when the link is cancelled; it reads no input that it was not
//! given.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
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
    pub(crate) stdin: Option<Stdio>,
    pub(crate) stdout: Option<File>,
}

/// Makes glibc's allocator ask for large pages and keep them. NVIDIA's compilers spend a sixth of a
/// small compilation in page faults.
const HEAP: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=1073741824:\
     glibc.malloc.mmap_threshold=1073741824:glibc.malloc.top_pad=16777216",
);

/// A compiler with one task. It is killed if nobody waits for its end.
pub(crate) struct RunningCompiler {
    child: Child,
    path: PathBuf,
    /// Standard output and error: pipes would have to be read all the time.
    said: [File; 2],
}

impl RunningCompiler {
    /// Starts `command`.
    pub(crate) fn start(command: &mut Command, streams: Streams) -> Result<Self, ChildError> {
        command.stdin(streams.stdin.unwrap_or_else(Stdio::null));
        set_heap(command);
        let said = [memory(c"stdout")?, memory(c"stderr")?];
        let [stdout, stderr] = said.each_ref().map(File::try_clone);
        command.stdout(streams.stdout.map_or(stdout, Ok)?).stderr(stderr?);
        let path = PathBuf::from(command.get_program());
        match command.spawn() {
            Ok(child) => Ok(RunningCompiler { child, path, said }),
            Err(error) => Err(ChildError::CannotRun { path, error }),
        }
    }

    /// The number of its process.
    #[cfg(feature = "ptx")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, or until the link is cancelled.
    pub(crate) fn output(mut self, cancel: Option<&Cancel>) -> Result<Output, ChildError> {
        let status = match cancel {
            Some(cancel) => self.wait_unless(cancel)?,
            None => self.child.wait().map_err(|error| self.cannot_run(error))?,
        };
        let [stdout, stderr] = self.said.each_mut().map(contents);
        Ok(Output { status, stdout: stdout?, stderr: stderr? })
    }

    fn wait_unless(&mut self, cancel: &Cancel) -> Result<ExitStatus, ChildError> {
        loop {
            if cancel.is_cancelled() {
                return Err(ChildError::Cancelled);
            }
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => thread::sleep(LOOK),
                Err(error) => return Err(self.cannot_run(error)),
            }
        }
    }

    fn cannot_run(&self, error: io::Error) -> ChildError {
        ChildError::CannotRun { path: self.path.clone(), error }
    }
}

impl Drop for RunningCompiler {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
