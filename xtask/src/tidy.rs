//! `xtask tidy`: the rules about the source tree that no compiler checks.
//!
//! In: nothing, or `--table`. Out: the violations, or figures about the imports of the linker's and
//! the driver's files and folders. Guaranteed: the rules are those of `cargo test`.

use crate::args::Args;
use anyhow::{Context, Result};
use std::process::{Command, ExitCode};

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let table = args.flag("--table");
    args.finish()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let package = ["--quiet", "--package", "culd-tests"];
    match table {
        true => command.arg("run").args(package).args(["--example", "imports"]),
        false => command.arg("test").args(package).args(["--test", "tidy"]),
    };
    let status = command.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
