//! Project tasks: `cargo xtask <task>`.
//!
//! In: the name of a task and its options. Out: its report, and a failing exit code if there is a
//! fault.
#![forbid(unsafe_code)]

mod abi;
mod args;
mod bench;
mod bless;
mod ci;
mod compare;
mod dist;
mod gpu;
mod hosts;
mod mutate;
mod occupancy;
mod page;
mod pool;
mod probe;
mod python;
mod scale;
mod tidy;
mod uidx;
mod workspace;

use args::Args;
use std::process::ExitCode;

/// A task: name, function, one line of help.
type Task = (&'static str, fn(Args) -> anyhow::Result<ExitCode>, &'static str);

#[rustfmt::skip]
const TASKS: &[Task] = &[
    ("compare", compare::run, "a suite of inputs through nvlink and culd: see 'compare --help'"),
    ("probe", probe::run, "every relocation type x symbol x place with both linkers: see 'probe --help'"),
    ("abi", abi::run, "hold the layout and parameter rules against nvcc, ptxas and g++: see 'abi --help'"),
    ("mutate", mutate::run, "many links of damaged files under limits: see 'mutate --help'"),
    ("gpu", gpu::run, "run programs of the corpus on the GPU that is there: see 'gpu --help'"),
    ("bench", bench::run, "time nvlink and culd on large inputs: see 'bench --help'"),
    ("scale", scale::run, "write the inputs of one benchmark case: see 'scale --help'"),
    ("bless", bless::run, "record the cases of testdata/cases with nvlink: see 'bless --help'"),
    ("uidx", uidx::run, "write an index file for the unified functions of objects: see 'uidx --help'"),
    ("page", page::run, "the page of a report in a real browser: see 'page --help'"),
    ("occupancy", occupancy::run, "limits and occupancy against NVIDIA's header: see 'occupancy --help'"),
    ("dist", dist::run, "build what a user installs into one folder: see 'dist --help'"),
    ("hosts", hosts::run, "other systems: AArch64, Windows, macOS: see 'hosts --help'"),
    ("python", python::run, "test the Python package in an empty environment: see 'python --help'"),
    ("tidy", tidy::run, "check the rules about the source tree (part of cargo test); '--table': who imports whom"),
    ("ci", ci::run, "run all checks, as .ci/run does; '--offline': those without the reference tools"),
];

/// The tasks that `bench` runs as processes.
const INNER_TASKS: &[Task] = &[
    ("floor", bench::floor::run, "read files and write as much as a link would"),
    ("measure", bench::measure::run, "run a command, print wall ns, CPU us, peak KiB"),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let Some((_, task, _)) = TASKS.iter().chain(INNER_TASKS).find(|task| task.0 == name) else {
        eprintln!("usage: cargo xtask <task> [options]\n");
        for (name, _, help) in TASKS {
            eprintln!("  {name:10} {help}");
        }
        return ExitCode::from(2);
    };
    match task(Args::new(words.collect())) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::from(2)
        }
    }
}
