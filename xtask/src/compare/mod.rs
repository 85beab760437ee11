//! `xtask compare`: nvlink and culd (or NVIDIA's libnvJitLink and ours) on the same inputs, in
//! suites.
//!
//! In: the name of a suite and options, most of them common to all suites ([`setup`]). Out: lines
//! about differences, and a table ([`tally`]). Guaranteed: exit code 1 if there is a difference, or
//! a result that the suite does not expect.

mod corpus;
mod device_link;
mod e2e;
mod fatbin;
mod generated;
mod jitlink;
mod link;
mod lto;
mod mixed;
mod names;
mod options;
mod programs;
mod real;
mod registered;
mod sections;
mod setup;
mod shipped;
mod tally;

use crate::args::Args;
use anyhow::{Context, Result};
use setup::{Common, Setup};
use std::process::ExitCode;

/// Something to compare.
struct Suite {
    name: &'static str,
    /// One line for the list of suites.
    about: &'static str,
    /// Its common options besides `--culd` and `--keep`, with defaults.
    takes: &'static [Common],
    /// Help for options and operands that only this suite has.
    help: &'static str,
    run: fn(Setup) -> Result<ExitCode>,
}

const SUITES: &[Suite] = &[
    link::SUITE,
    corpus::SUITE,
    generated::SUITE,
    mixed::SUITE,
    registered::SUITE,
    names::SUITE,
    options::SUITE,
    sections::SUITE,
    fatbin::SUITE,
    lto::SUITE,
    jitlink::SUITE,
    real::SUITE,
    shipped::SUITE,
    programs::SUITE,
    e2e::SUITE,
    device_link::SUITE,
];

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut words = args.verbatim();
    let help = words.iter().take_while(|word| *word != "--").any(|word| word == "--help");
    let name = words.first().filter(|word| !word.starts_with('-')).cloned();
    let Some(name) = name else {
        print_suites();
        return Ok(if help { ExitCode::SUCCESS } else { ExitCode::from(2) });
    };
    let suite = SUITES.iter().find(|suite| suite.name == name);
    let suite = suite.with_context(|| format!("no suite '{name}'; 'compare --help' lists them"))?;
    if help {
        println!("usage: cargo xtask compare {name} [options]\n{}", suite.about);
        print!("{}{}", setup::help(suite), suite.help);
        return Ok(ExitCode::SUCCESS);
    }
    words.remove(0);
    (suite.run)(Setup::new(suite, words)?)
}

fn print_suites() {
    println!("usage: cargo xtask compare SUITE [options]\n");
    for suite in SUITES {
        println!("  {:11} {}", suite.name, suite.about);
    }
    println!("\nOptions of a suite: 'compare SUITE --help'.");
}
