//! `xtask tidy`: the rules about the source tree that no compiler checks.
//!
//! In: nothing, or `--table`. Out: the violations, or figures about the imports of the linker's,
//! the driver's and the testkit's files and folders. Guaranteed: the rules are those of
//! `cargo test`.

use crate::args::Args;
use crate::workspace;
use anyhow::Result;
use culd_testkit::tidy;
use std::process::ExitCode;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let table = args.flag("--table");
    args.finish()?;
    let files = tidy::files(&workspace::root())?;
    if table {
        print!("{}", tidy::imports::table(&files));
        return Ok(ExitCode::SUCCESS);
    }
    let broken = tidy::violations(&files);
    broken.iter().for_each(|violation| println!("{violation}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
