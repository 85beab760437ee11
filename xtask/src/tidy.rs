//! `xtask tidy`: the rules about the source tree that no compiler checks.
//!
//! In: nothing. Out: the violations. Guaranteed: the same rules as in `cargo test`, where they are kept.

use crate::args::Args;
use anyhow::{Context, Result};
use std::process::{Command, ExitCode};

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--package", "culd-tests", "--test", "tidy"]);
    let status = command.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
