//! `xtask mutate`: many links of damaged files by the real program, under limits.
//!
//! In: seeds, the recorded cases, perhaps a folder of more cubins. Out: a table of results by the
//! carrier of the damage; a folder for every link with a fault. Guaranteed: no reference tools are
//! needed; the same seeds make the same links. The exit code is 1 if a link panicked, crashed,
//! hung, took too much memory, left files after an error, or failed without a message.
//!
//! Links run in worker processes (this program again). The kernel has one maximum of the peak
//! memory of all finished children, so a worker ends after a link with too much memory, and another
//! one goes on.

mod differential;
mod link;
mod table;

use crate::args::Args;
use crate::pool;
use crate::workspace::{self, lock};
use anyhow::{Context, Result, bail};
use culd_testkit::random::mutate::containers;
use culd_testkit::random::mutate::program::{self, Mutant, MutationSource};
use culd_testkit::random::mutate::seeds;
use link::LimitedLinker;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use table::EndTable;

const HELP: &str = "\
usage: cargo xtask mutate [options]
  --seeds A..B     which links (default 0..20000)
  --corpus FOLDER  besides the recorded cases, a program of each folder below this one that has relocatable cubins
  --containers     instead of damage, sound fat binaries, objects and archives in each other in unusual ways
  --verify         every link checks its own output ('culd --verify')
  --differential   every link by nvlink too, and the reasons why they differ
  --jobs N         links at a time (default 2)
  --fuzz-seeds FOLDER
                   link nothing; write files to begin fuzzing with to FOLDER/<target>
  --keep FOLDER    where links that went wrong are written (default <target>/mutate)
  --culd PATH      the linker under test (default the one beside this program)";

/// Links of one worker process.
const CHUNK: u64 = 1000;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = args.option::<PathBuf>("--fuzz-seeds")? {
        args.finish()?;
        seeds::write(&folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_worker = args.flag("--worker");
    let plan = MutatePlan::new(&mut args)?;
    args.finish()?;
    if plan.differential {
        let tools = workspace::tools(plan.culd.to_str())?;
        let programs = plan.programs()?;
        return differential::run(&tools, &programs, &plan);
    }
    if is_worker { plan.work() } else { plan.execute() }
}

struct MutatePlan {
    seeds: Range<u64>,
    corpus: Option<PathBuf>,
    containers: bool,
    verify: bool,
    differential: bool,
    jobs: usize,
    keep: PathBuf,
    culd: PathBuf,
}

impl MutatePlan {
    fn new(args: &mut Args) -> Result<Self> {
        let culd = args.culd()?.map(PathBuf::from);
        let culd = culd.unwrap_or_else(|| workspace::built("culd"));
        if !culd.is_file() {
            bail!("no linker at {}: build it or name one with --culd", culd.display());
        }
        Ok(Self {
            seeds: args.seeds(0..20000)?,
            corpus: args.option("--corpus")?,
            containers: args.flag("--containers"),
            verify: args.flag("--verify"),
            differential: args.flag("--differential"),
            jobs: args.jobs()?,
            keep: args.keep("mutate")?,
            culd: culd.canonicalize()?,
        })
    }

    fn programs(&self) -> Result<Vec<MutationSource>> {
        let mut programs = program::recorded()?;
        if let Some(folder) = &self.corpus {
            programs.extend(program::corpus(folder)?);
        }
        Ok(programs)
    }

    /// The link of this number.
    fn mutant(&self, programs: &[MutationSource], seed: u64) -> Mutant {
        let mutant = if self.containers { containers::mutant } else { program::mutant };
        mutant(programs, seed)
    }

    /// Gives the seeds to workers and prints the results.
    fn execute(&self) -> Result<ExitCode> {
        let table = Mutex::new(EndTable::default());
        let firsts = self.seeds.clone().step_by(CHUNK as usize);
        pool::run(self.jobs, firsts, |queue| {
            while let Some(first) = queue.take() {
                let mut seeds = first..(first + CHUNK).min(self.seeds.end);
                while !seeds.is_empty() {
                    seeds.start = self.worker(seeds.clone(), &table)?;
                }
            }
            Ok(())
        })?;
        let table = table.into_inner().unwrap_or_default();
        print!("{table}");
        Ok(if table.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Starts a worker; returns the seed after its last one.
    fn worker(&self, seeds: Range<u64>, table: &Mutex<EndTable>) -> Result<u64> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("mutate").arg("--worker");
        command.arg(format!("--seeds={}..{}", seeds.start, seeds.end));
        command.arg("--culd").arg(&self.culd).arg("--keep").arg(&self.keep);
        if let Some(folder) = &self.corpus {
            command.arg("--corpus").arg(folder);
        }
        let flags = [(self.verify, "--verify"), (self.containers, "--containers")];
        command.args(flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let mut next = seeds.start;
        for line in lines {
            lock(table).add(&line?)?;
            next += 1;
        }
        let status = child.wait()?;
        if !status.success() || next == seeds.start {
            bail!("the worker for {}..{} ended: {status}", seeds.start, seeds.end);
        }
        Ok(next)
    }

    /// Links; prints a line for each.
    fn work(&self) -> Result<ExitCode> {
        let programs = self.programs()?;
        let mut linker = LimitedLinker::new(&self.culd, self.verify, &self.keep)?;
        for seed in self.seeds.clone() {
            let mutant = self.mutant(&programs, seed);
            let trial = linker.trial(seed, &mutant)?;
            println!("{}", table::line(seed, &mutant, &trial));
            if trial.outcome == link::LinkEnd::Memory {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
