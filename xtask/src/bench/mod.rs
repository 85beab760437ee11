//! `xtask bench`: nvlink and culd on the same inputs.
//!
//! In: names of cases. Out: Markdown tables: wall time, CPU time and peak memory of both (medians
//! of alternating runs) with the lower bound of reading the inputs and writing the output; times of
//! culd's phases; targets that were reached; instruction counts. Guaranteed: outputs are compared
//! before any time is printed; a case whose outputs differ fails the task.

mod counts;
mod device_link;
pub(crate) mod floor;
mod machine;
pub(crate) mod measure;
mod report;
mod targets;

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::reference::compare::linked;
use culd_testkit::reference::compare::mercury;
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::scale::{CASES, ScaleCase, ScaleInputs, case, generate};
use measure::{Usage, measure};
use report::BenchRow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask bench [options] [case]...
  --runs N         rounds per case, at most 5 where nvlink takes seconds; each runs nvlink, culd with one thread and
                   with two (default 7)
  --arch SM        architecture, of cases that have none of their own (default sm_90)
  --limit SECONDS  time limit of one link (default 60; where nvlink does not end it has 5)
  --dir DIR        where inputs are made, each case removed after its runs (default a temporary folder)
  --culd PATH      the linker under test (default the static program, which 'cargo static' makes first)
  --device-links   only whole device links, by 'nvcc -dlink' and 'culd device-link'; a case is the number of files and
                   that of architectures (3x6), without any all are run
  --counts         only the instruction counts
  --record         keep the instruction counts in testdata/bench/counts.toml";

struct BenchPlan {
    runs: usize,
    arch: String,
    limit: Duration,
    tools: Tools,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}\n\ncases:");
        for case in CASES {
            let long = if case.long { " (by name only)" } else { "" };
            println!("  {:15} {}{long}", case.name, case.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let only_counts = args.flag("--counts");
    let device_links = args.flag("--device-links");
    let record = args.flag("--record");
    let culd = match args.culd()? {
        Some(path) => path,
        None => static_program()?.to_string_lossy().into_owned(),
    };
    let plan = BenchPlan {
        runs: args.option("--runs")?.unwrap_or(7),
        arch: args.option("--arch")?.unwrap_or_else(|| "sm_90".to_owned()),
        limit: Duration::from_secs_f64(args.option("--limit")?.unwrap_or(60.0)),
        tools: workspace::tools(Some(&culd))?,
    };
    let base = match args.option::<String>("--dir")? {
        Some(dir) => {
            fs::create_dir_all(&dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir()?,
    };
    let names = args.operands()?;
    if device_links {
        println!("{}\n", machine::description(base.path()));
        let good = device_link::run(&plan.tools, plan.runs, &names, base.path())?;
        return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let chosen: Vec<&ScaleCase> = if names.is_empty() {
        CASES.iter().filter(|case| !case.long).collect()
    } else {
        let find = |name: &String| case(name).with_context(|| format!("no case '{name}'"));
        names.iter().map(find).collect::<Result<_>>()?
    };
    let mut good = true;
    if !only_counts {
        println!("{}\n", machine::description(base.path()));
        println!("{}", report::TITLES);
        let mut rows = Vec::new();
        for case in chosen {
            let dir = base.path().join(case.name);
            let row = bench(&plan, case, &dir).with_context(|| case.name)?;
            println!("{}", row.text());
            good &= row.difference.is_none();
            rows.push(row);
            fs::remove_dir_all(&dir)?;
        }
        println!("\n{}\n{}", report::phases(&rows), targets::table(&rows));
    }
    if only_counts || names.is_empty() {
        good &= counts::run(&plan.tools, &plan.arch, base.path(), record)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the static program that is shipped.
fn static_program() -> Result<PathBuf> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .arg("static")
        .env("CARGO_TERM_QUIET", "true")
        .current_dir(workspace::root())
        .status()?;
    if !status.success() {
        bail!("'cargo static' failed");
    }
    Ok(workspace::target().join("static/culd"))
}

/// The links of one case.
struct Links<'p> {
    plan: &'p BenchPlan,
    dir: &'p Path,
    inputs: ScaleInputs,
    /// Words that both linkers get.
    options: Vec<String>,
    /// Time limit of nvlink.
    limit: Duration,
}

/// The time limit of nvlink, and the time from which it has fewer rounds.
const SHORT: Duration = Duration::from_secs(5);
/// The rounds then.
const FEW: usize = 5;

impl<'p> Links<'p> {
    fn new(plan: &'p BenchPlan, case: &ScaleCase, dir: &'p Path) -> Result<Self> {
        let inputs = generate(&plan.tools.oracle, case, &plan.arch, dir)?;
        let mut options = vec![format!("-arch={}", case.arch.unwrap_or(&plan.arch))];
        if case.runtime {
            let library = plan.tools.oracle.toolkit_library("libcudadevrt.a");
            let folder = library.parent().context("a library in no folder")?;
            options.extend([format!("-L{}", folder.display()), "-lcudadevrt".to_owned()]);
        }
        let limit = if case.endless { plan.limit.min(SHORT) } else { plan.limit };
        Ok(Links { plan, dir, inputs, options, limit })
    }

    fn arguments(&self, more: &[&str], out: &str) -> Vec<String> {
        let more = more.iter().map(|&word| word.to_owned());
        let files = self.inputs.files.iter().cloned();
        let out = ["-o".to_owned(), out.to_owned()];
        self.options.iter().cloned().chain(more).chain(files).chain(out).collect()
    }

    fn nvlink(&self) -> Result<Option<Usage>> {
        let program = self.plan.tools.oracle.tool("nvlink");
        self.remove("nvlink.out")?;
        measure(&program, &self.arguments(&[], "nvlink.out"), self.dir, self.limit)
    }

    fn culd(&self, more: &[&str]) -> Result<Usage> {
        let arguments = self.arguments(more, "culd.out");
        self.remove("culd.out")?;
        let usage = measure(&self.plan.tools.candidate, &arguments, self.dir, self.plan.limit)?;
        usage.with_context(|| format!("culd did not end within {:?}", self.plan.limit))
    }

    /// Reads the inputs and writes as much as the output has.
    fn floor(&self, size: u64) -> Result<Option<Usage>> {
        let mut arguments = vec!["floor".to_owned(), "floor.out".to_owned(), size.to_string()];
        arguments.extend(self.inputs.files.iter().cloned());
        self.remove("floor.out")?;
        measure(&std::env::current_exe()?, &arguments, self.dir, self.plan.limit)
    }

    /// Removes an output, because freeing the pages of an old one must not be measured.
    fn remove(&self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| path.display().to_string())
            }
            _ => Ok(()),
        }
    }

    fn output(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.dir.join(name);
        fs::read(&path).with_context(|| path.display().to_string())
    }
}

fn bench(plan: &BenchPlan, case: &ScaleCase, dir: &Path) -> Result<BenchRow> {
    let links = Links::new(plan, case, dir)?;
    // The first round warms the page cache and gives the outputs to compare.
    let first = links.nvlink()?;
    let one = links.culd(&["-threads=1"])?;
    let alone = links.output("culd.out")?;
    let mut difference = match first {
        Some(_) => {
            linked(&links.output("nvlink.out")?, &alone, mercury::LinkObjects::default).err()
        }
        None => None,
    };
    let two = links.culd(&["-threads=2"])?;
    if links.output("culd.out")? != alone {
        difference = Some("two threads give other bytes than one".to_owned());
    }
    links.culd(&["-threads=1", "-time=phases.csv"])?;
    let mut row = BenchRow {
        name: case.name,
        files: links.inputs.files.len(),
        bytes_in: links.inputs.bytes,
        bytes_out: alone.len() as u64,
        nvlink: first,
        one,
        two,
        floor: links.floor(alone.len() as u64)?,
        ratios: [None; 2],
        phases: report::read_phases(&dir.join("phases.csv"))?,
        difference,
    };
    if row.difference.is_some() {
        return Ok(row);
    }
    let [mut theirs, mut ones, mut twos, mut floors] = [const { Vec::new() }; 4];
    let slow = first.is_some_and(|usage| usage.wall > SHORT);
    for round in 0..if slow { plan.runs.min(FEW) } else { plan.runs } {
        // The first one changes, so that none always has the warmest cache.
        let mut order = [0, 1, 2, 3];
        order.rotate_left(round % 4);
        for who in order {
            match who {
                0 if first.is_some() => theirs.extend(links.nvlink()?),
                1 => ones.push(links.culd(&["-threads=1"])?),
                2 => twos.push(links.culd(&["-threads=2"])?),
                3 => floors.extend(links.floor(row.bytes_out)?),
                _ => {}
            }
        }
    }
    row.ratios = [&ones, &twos].map(|ours| paired(ours, &theirs));
    row.nvlink = median(&theirs).or(row.nvlink);
    row.one = median(&ones).unwrap_or(row.one);
    row.two = median(&twos).unwrap_or(row.two);
    row.floor = median(&floors).or(row.floor);
    Ok(row)
}

fn middle<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The median of the ratios of wall times by round, because a disturbance of a round affects both.
fn paired(ours: &[Usage], theirs: &[Usage]) -> Option<f64> {
    let wall = |usage: &Usage| usage.wall.as_secs_f64();
    let mut ratios: Vec<f64> =
        ours.iter().zip(theirs).map(|(ours, theirs)| wall(ours) / wall(theirs)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

/// Medians of each figure on its own.
fn median(all: &[Usage]) -> Option<Usage> {
    Some(Usage {
        wall: middle(all.iter().map(|usage| usage.wall).collect())?,
        cpu: middle(all.iter().map(|usage| usage.cpu).collect())?,
        peak_kib: middle(all.iter().map(|usage| usage.peak_kib).collect())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_each_figure() {
        let usage = |wall, cpu, peak_kib| Usage {
            wall: Duration::from_millis(wall),
            cpu: Duration::from_millis(cpu),
            peak_kib,
        };
        let all = [usage(3, 30, 1), usage(1, 10, 9), usage(2, 50, 5)];
        let middle = median(&all).expect("three runs");
        assert_eq!(middle.wall, Duration::from_millis(2));
        assert_eq!(middle.cpu, Duration::from_millis(30));
        assert_eq!(middle.peak_kib, 5);
        assert!(median(&[]).is_none());
    }

    #[test]
    fn ratios_are_those_of_rounds() {
        let usage =
            |wall| Usage { wall: Duration::from_millis(wall), cpu: Duration::ZERO, peak_kib: 1 };
        // A round that is slow for both does not change the ratio.
        let [ours, theirs] = [[1, 40, 2], [10, 400, 20]].map(|walls| walls.map(usage));
        assert!(paired(&ours, &theirs).is_some_and(|ratio| (ratio - 0.1).abs() < 1e-9));
        assert!(paired(&ours, &[]).is_none());
    }
}
