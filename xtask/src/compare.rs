//! `xtask compare`: one link of anybody's files with both linkers.
//!
//! In: the words of a link, for files below the current folder. Out: whether they agree, by the
//! rules by which all tests compare. Guaranteed: the outputs stay in folders `nvlink` and `culd`;
//! exit code 1 when they differ.

use crate::args::Args;
use crate::workspace;
use anyhow::{Result, ensure};
use culd_testkit::reference::compare::trial::{Verdict, compare_links};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask compare [--culd PATH] [--release 13.N] -- WORD...
  --culd PATH      the linker under test (default <target>/release/culd)
The words are those of a link in the current folder, without -o. Outputs are left in the folders nvlink and culd.";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let mut words = args.verbatim();
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let arguments: Vec<String> = words.drain(own..).skip(1).collect();
    let mut args = Args::new(words);
    if args.flag("--help") {
        println!("{HELP}\n{}", workspace::RELEASE_HELP);
        return Ok(ExitCode::SUCCESS);
    }
    let tools = workspace::tools_of(&mut args)?;
    args.finish()?;
    ensure!(!arguments.is_empty(), "no words of a link behind '--'");
    let verdict = compare_links(&tools, &arguments, &std::env::current_dir()?)?;
    match &verdict {
        Verdict::Identical(classes) => println!("identical\n{classes}"),
        Verdict::SameError(what) => println!("the same error: {what}"),
        Verdict::NoVerdict(what) => println!("no verdict: {what}"),
        Verdict::NotCompiled(what) => println!("not compiled: {what}"),
        Verdict::Different(difference) => println!("different: {}", difference.what),
    }
    let agree = matches!(verdict, Verdict::Identical(_) | Verdict::SameError(_));
    Ok(if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
