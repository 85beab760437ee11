//! Suite `link`: one link of the user's files with both linkers.
//!
//! In: the words of a link, for files below the current folder. Out: whether they agree, by the
//! rules of all comparisons. Guaranteed: the outputs stay in the folders `nvlink` and `culd`.

use super::Suite;
use super::setup::{Common, Setup};
use anyhow::{Result, ensure};
use culd_testkit::reference::compare::trial::{Verdict, compare_links};
use std::process::ExitCode;

pub(super) const SUITE: Suite = Suite {
    name: "link",
    about: "one link of your own files: compare link -- WORD...",
    takes: &[Common::Release],
    help: "Behind '--' are the words of a link in the current folder, without -o. Outputs are left in the folders nvlink and \
           culd.\n",
    run,
};

fn run(mut setup: Setup) -> Result<ExitCode> {
    let tools = setup.tools()?;
    setup.finish()?;
    ensure!(!setup.words.is_empty(), "no words of a link behind '--'");
    let verdict = compare_links(&tools, &setup.words, &std::env::current_dir()?)?;
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
