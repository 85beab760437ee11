//! `xtask bench`: nvlink and culd on the same large inputs.
//!
//! In: names of cases. Out: a Markdown table of wall time, CPU time and peak memory, medians of paired runs. Guaranteed:
//! no time is shown before the outputs were compared; a case whose outputs differ fails the task.

use crate::args::Args;
use crate::measure::{Usage, measure};
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::compare::linked;
use culd_testkit::compare::mercury::Debug;
use culd_testkit::compare::trial::Tools;
use culd_testkit::scale::{CASES, Case, case, generate};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask bench [options] [case]...
  --runs N         pairs of runs per case (default 7)
  --arch SM        architecture (default sm_90)
  --limit SECONDS  time limit of one link (default 60)
  --dir DIR        where inputs are made, each case removed after its runs (default a temporary folder)
  --culd PATH      the linker under test (default <target>/release/culd)";

struct Plan {
    runs: usize,
    arch: String,
    limit: Duration,
    tools: Tools,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}\n\ncases:");
        for case in CASES {
            println!("  {:10} {}", case.name, case.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan {
        runs: args.option("--runs")?.unwrap_or(7),
        arch: args.option("--arch")?.unwrap_or_else(|| "sm_90".to_owned()),
        limit: Duration::from_secs_f64(args.option("--limit")?.unwrap_or(60.0)),
        tools: workspace::tools(args.option("--culd")?)?,
    };
    let base = match args.option::<String>("--dir")? {
        Some(dir) => {
            fs::create_dir_all(&dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir()?,
    };
    let names = args.operands()?;
    let chosen: Vec<&Case> = if names.is_empty() {
        CASES.iter().collect()
    } else {
        let find = |name: &String| case(name).with_context(|| format!("no case '{name}'"));
        names.iter().map(find).collect::<Result<_>>()?
    };
    println!(
        "| case | files | MB in | nvlink ms | culd ms | ratio | nvlink CPU ms | culd CPU ms | ratio | nvlink MiB | culd MiB | ratio | outputs |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|");
    let mut all_equal = true;
    for case in chosen {
        let dir = base.path().join(case.name);
        let row = bench(&plan, case, &dir).with_context(|| case.name)?;
        println!("{}", row.text(case.name));
        all_equal &= row.difference.is_none();
        fs::remove_dir_all(&dir)?;
    }
    Ok(if all_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Row {
    files: usize,
    bytes: u64,
    nvlink: Option<Usage>,
    culd: Usage,
    difference: Option<String>,
}

fn bench(plan: &Plan, case: &Case, dir: &Path) -> Result<Row> {
    let inputs = generate(&plan.tools.oracle, case, &plan.arch, dir)?;
    let nvlink = plan.tools.oracle.tool("nvlink");
    let arguments = |out: &str| {
        let mut list = vec![format!("-arch={}", plan.arch)];
        list.extend(inputs.files.iter().cloned());
        list.extend(["-o".to_owned(), out.to_owned()]);
        list
    };
    let (theirs, ours) = (arguments("nvlink.out"), arguments("culd.out"));
    // The first pair warms the page cache and gives the outputs to compare.
    let first = measure(&nvlink, &theirs, dir, plan.limit)?;
    let Some(culd) = measure(&plan.tools.candidate, &ours, dir, plan.limit)? else {
        bail!("culd did not end within {:?}", plan.limit);
    };
    let difference = match first {
        Some(_) => {
            let read = |name| fs::read(dir.join(name));
            linked(&read("nvlink.out")?, &read("culd.out")?, Debug::default).err()
        }
        None => None,
    };
    let mut row =
        Row { files: inputs.files.len(), bytes: inputs.bytes, nvlink: first, culd, difference };
    if row.difference.is_some() {
        return Ok(row);
    }
    let (mut all_theirs, mut all_ours) = (Vec::new(), Vec::new());
    for run in 0..plan.runs {
        let mut both = [true, false];
        // Which one goes first alternates, so that neither always finds the warmer cache.
        both.rotate_left(run % 2);
        for oracle in both {
            if oracle && first.is_some() {
                all_theirs.extend(measure(&nvlink, &theirs, dir, plan.limit)?);
            } else if !oracle {
                all_ours.extend(measure(&plan.tools.candidate, &ours, dir, plan.limit)?);
            }
        }
    }
    row.nvlink = first.map(|first| median(&all_theirs).unwrap_or(first));
    row.culd = median(&all_ours).unwrap_or(culd);
    Ok(row)
}

/// Medians of each figure on its own.
fn median(all: &[Usage]) -> Option<Usage> {
    fn middle<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    }
    Some(Usage {
        wall: middle(all.iter().map(|usage| usage.wall).collect())?,
        cpu: middle(all.iter().map(|usage| usage.cpu).collect())?,
        peak_kib: middle(all.iter().map(|usage| usage.peak_kib).collect())?,
    })
}

impl Row {
    fn text(&self, name: &str) -> String {
        let megabytes = self.bytes as f64 / 1e6;
        if let Some(difference) = &self.difference {
            return format!(
                "| {name} | {} | {megabytes:.1} |{} {difference} |",
                self.files,
                " |".repeat(9)
            );
        }
        let figures = [
            (|usage: &Usage| usage.wall.as_secs_f64() * 1e3) as fn(&Usage) -> f64,
            |usage| usage.cpu.as_secs_f64() * 1e3,
            |usage| usage.peak_kib as f64 / 1024.0,
        ];
        let mut text = format!("| {name} | {} | {megabytes:.1} |", self.files);
        for figure in figures {
            let ours = figure(&self.culd);
            let cells = match &self.nvlink {
                Some(nvlink) => {
                    let theirs = figure(nvlink);
                    format!(" {theirs:.1} | {ours:.1} | {:.3} |", ours / theirs)
                }
                None => format!(" — | {ours:.1} | — |"),
            };
            text.push_str(&cells);
        }
        text + if self.nvlink.is_some() { " equal |" } else { " nvlink did not end |" }
    }
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
}
