//! Project tasks: `cargo xtask <task>`.
//!
//! In: the name of a task and its options. Out: its report and, when something is wrong, a failing
//! exit code.
#![forbid(unsafe_code)]

mod abi;
mod args;
mod bench;
mod bless;
mod ci;
mod compare;
mod corpus;
mod dist;
mod e2e;
mod fatbin;
mod gpu;
mod jitlink;
mod lto;
mod measure;
mod mixed;
mod mutate;
mod names;
mod options;
mod oracle;
mod pool;
mod probe;
mod real;
mod registered;
mod scale;
mod sections;
mod shipped;
mod tally;
mod tidy;
mod uidx;
mod workspace;

use args::Args;
use std::process::ExitCode;

/// A task: name, function, one line of help.
type Task = (&'static str, fn(Args) -> anyhow::Result<ExitCode>, &'static str);

#[rustfmt::skip]
const TASKS: &[Task] = &[
    ("corpus", corpus::run, "link generated programs with nvlink and culd, compare: see 'corpus --help'"),
    ("oracle", oracle::run, "link the programs of testdata/corpus with both, compare: see 'oracle --help'"),
    ("mixed", mixed::run, "link programs with files of two releases by all releases, compare: see 'mixed --help'"),
    ("compare", compare::run, "one link of your own files with both: see 'compare --help'"),
    ("probe", probe::run, "every relocation type x symbol x place with both linkers: see 'probe --help'"),
    ("names", names::run, "every name in the toolkit's headers, used in every way, with both linkers: see 'names --help'"),
    ("options", options::run, "programs compiled with every option of ptxas and nvcc, with both linkers: see 'options --help'"),
    ("e2e", e2e::run, "build programs with nvcc and CMake with both, compare: see 'e2e --help'"),
    ("mutate", mutate::run, "many links of damaged files under limits: see 'mutate --help'"),
    ("gpu", gpu::run, "run programs of the corpus on the GPU that is there: see 'gpu --help'"),
    ("real", real::run, "link programs with libraries of NVIDIA's with both, compare: see 'real --help'"),
    ("registered", registered::run, "random links of objects that a device link marked, compare: see 'registered --help'"),
    ("shipped", shipped::run, "link the relocatable code of libraries that NVIDIA ships with both, compare: see 'shipped --help'"),
    ("bless", bless::run, "record the cases of testdata/cases with nvlink: see 'bless --help'"),
    ("abi", abi::run, "hold the layout and parameter rules against nvcc, ptxas and g++: see 'abi --help'"),
    ("fatbin", fatbin::run, "compare fat binaries, host objects and archives with fatbinary, cuobjdump and nvlink"),
    ("jitlink", jitlink::run, "the same calls of libnvJitLink with NVIDIA's and ours: see 'jitlink --help'"),
    ("lto", lto::run, "link objects of nvcc -dlto with -lto with both, compare"),
    ("dist", dist::run, "build what a user installs into one folder: see 'dist --help'"),
    ("ci", ci::run, "run all checks, as .ci/run does; '--offline': those without the reference tools"),
    ("sections", sections::run, "link programs around and beyond 65,280 sections with both, compare"),
    ("tidy", tidy::run, "check the rules about the source tree (part of cargo test); '--table': who imports whom"),
    ("bench", bench::run, "time nvlink and culd on large inputs: see 'bench --help'"),
    ("scale", scale::run, "write the inputs of one benchmark case: see 'scale --help'"),
    ("uidx", uidx::run, "write an index file for the unified functions of objects: see 'uidx --help'"),
    ("floor", bench::floor::run, "(used by bench) read files and write as much as a link would"),
    ("measure", measure::run, "(used by bench) run a command, print wall ns, CPU us, peak KiB"),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let Some((_, task, _)) = TASKS.iter().find(|task| task.0 == name) else {
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
