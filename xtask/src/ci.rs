//! `xtask ci`: runs continuous integration.
//!
//! In: `--offline` or nothing. Out: its report. Guaranteed: exactly that script runs.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result};
use std::process::{Command, ExitCode};

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let mut command = Command::new(workspace::root().join(".ci/run"));
    if args.flag("--offline") {
        command.arg("--offline");
    }
    args.finish()?;
    let status = command.status().context("cannot start .ci/run")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
