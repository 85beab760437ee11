//! Measures time and memory of one command.
//!
//! In: a command. Out: wall time, CPU time, peak memory. Guaranteed: the figures are those of the
//! command alone.
//!
//! The kernel has one maximum of the peak memory of all finished children, so each measurement runs
//! in a new process: this program starts itself with the hidden task `measure`, which starts the
//! command and prints the figures. The peak cannot be below that of this helper (about 3 MiB),
//! because a child starts as its copy.

use crate::args::Args;
use anyhow::{Context, Result, bail};
use culd_testkit::reference::oracle::process::{self, Run, Status};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Time and memory of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Peak resident memory in KiB.
    pub(crate) peak_kib: u64,
}

/// Runs a command in `dir` once; `None` if it did not end within the limit.
pub(crate) fn measure(
    program: &Path,
    arguments: &[String],
    dir: &Path,
    limit: Duration,
) -> Result<Option<Usage>> {
    let mut helper = Command::new(std::env::current_exe()?);
    helper
        .arg("measure")
        .arg(program)
        .args(arguments)
        .current_dir(dir)
        .env_remove("LD_LIBRARY_PATH");
    let run = process::run(&mut helper, limit)?;
    match run.status {
        Status::Exit(0) => parse(&run).map(Some),
        Status::TimedOut => Ok(None),
        status => bail!("{}: {status}: {}", program.display(), run.stderr_text()),
    }
}

fn parse(run: &Run) -> Result<Usage> {
    let text = String::from_utf8_lossy(&run.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[wall, cpu, peak_kib] = numbers.as_slice() else { bail!("measure printed '{text}'") };
    Ok(Usage { wall: Duration::from_nanos(wall), cpu: Duration::from_micros(cpu), peak_kib })
}

/// The hidden task.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let words = args.verbatim();
    let (program, arguments) = words.split_first().context("measure needs a command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().with_context(|| program.clone())?;
    let wall = start.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    println!("{} {cpu} {}", wall.as_nanos(), usage.max_rss());
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
