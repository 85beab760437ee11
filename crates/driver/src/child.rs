//! A program that is started and waited for.
//!
//! In: a command, and a folder for what it says if the link can be cancelled. Out: what it said and its exit status.
//! Guaranteed: it is killed when the link is cancelled, and reads nothing.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::{io, thread};

use culd_link::Cancel;

/// Names of files in the folder.
pub(crate) const STDOUT: &str = "stdout";
pub(crate) const STDERR: &str = "stderr";

/// How often a link that can be cancelled looks whether the program has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Why it has said nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    CannotRun(io::Error),
    /// There is no place for what it says.
    Temporary(io::Error),
    /// Nobody wants the link any more.
    Cancelled,
}

/// Runs `command`. Where it may be cancelled, what it says goes to files in `folder`: a pipe would have to be read all the time.
pub(crate) fn output(
    command: &mut Command,
    cancel: Option<&Cancel>,
    folder: &Path,
) -> Result<Output, Failure> {
    command.stdin(Stdio::null());
    let Some(cancel) = cancel else { return command.output().map_err(Failure::CannotRun) };
    let (stdout, stderr) = (folder.join(STDOUT), folder.join(STDERR));
    let make = |path: &Path| File::create(path).map_err(Failure::Temporary);
    command.stdout(make(&stdout)?).stderr(make(&stderr)?);
    let mut child = command.spawn().map_err(Failure::CannotRun)?;
    let status = loop {
        if cancel.is_cancelled() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::Cancelled);
        }
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => thread::sleep(LOOK),
            Err(error) => return Err(Failure::CannotRun(error)),
        }
    };
    let read = |path: &Path| fs::read(path).map_err(Failure::Temporary);
    Ok(Output { status, stdout: read(&stdout)?, stderr: read(&stderr)? })
}
