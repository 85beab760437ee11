//! Suite `mixed`: links programs whose files two releases compiled with the linkers of all
//! releases.
//!
//! In: seeds and architectures. Out: a table with a row for each pair of releases of objects and a
//! column for each release of the linkers, and a folder for every difference. Guaranteed: exit code
//! 1 when there is a difference.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::{Tally, VerdictCounts};
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::random::generate::model::{GeneratedProgram, PtxArch};
use culd_testkit::random::generate::{GeneratorChoices, generate};
use culd_testkit::reference::compare::trial::{
    Tools, Verdict, compare_links, compile, link_arguments,
};
use culd_testkit::reference::oracle::{Oracle, RELEASES};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;

pub(super) const SUITE: Suite = Suite {
    name: "mixed",
    about: "programs with files of two releases, by the linkers of all releases",
    takes: &[Common::Seeds(0, 4), Common::Archs("sm_75,sm_80,sm_90"), Common::With],
    help: "\
The files of a program are compiled by two releases in turn, every pair of 12.9 to 13.5 and each alone; every linker from
13.0 to 13.5 links them in both orders of the files. Each target gets all seeds.
",
    run,
};

struct MixedPlan {
    with: Option<String>,
    keep: PathBuf,
    /// The compilers, oldest first.
    compilers: Vec<Oracle>,
    /// Both linkers, by release.
    linkers: Vec<Tools>,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    setup.finish()?;
    let seeds = setup.bounded_seeds()?;
    let compilers = RELEASES.iter().map(workspace::oracle_of).collect::<Result<Vec<_>>>()?;
    let linkers = compilers.iter().filter(|oracle| oracle.has_linker());
    let linkers = linkers.map(|oracle| setup.tools_with(oracle.clone()));
    let plan = MixedPlan {
        linkers: linkers.collect::<Result<_>>()?,
        compilers,
        with: setup.with,
        keep: setup.keep,
    };
    let mut report = MixedReport::default();
    for &arch in &setup.archs {
        for seed in seeds.clone() {
            program(&plan, seed, arch, &mut report).with_context(|| format!("seed {seed}"))?;
        }
    }
    print!("{}", report.text());
    Ok(report.tally.exit_code())
}

/// Compiles a program with every release and links all mixtures of the files.
fn program(plan: &MixedPlan, seed: u64, arch: PtxArch, report: &mut MixedReport) -> Result<()> {
    let mut program = generate(
        seed,
        GeneratorChoices { arch: Some(arch), plain: true, ..GeneratorChoices::default() },
    );
    program.link_options.extend(plan.with.clone());
    report.programs += 1;
    let mut compiled: Vec<Option<TempDir>> = Vec::new();
    for compiler in &plan.compilers {
        let dir = tempfile::tempdir()?;
        let mut refused = None;
        for unit in &program.units {
            refused = refused.or(compile(compiler, &program, unit, dir.path())?);
        }
        if let Some(message) = &refused {
            let first = message.lines().next().unwrap_or_default();
            eprintln!("seed {seed}, {arch}, {}: {first}", compiler.release().name);
            report.not_compiled += 1;
        }
        compiled.push(refused.is_none().then_some(dir));
    }
    for first in 0..compiled.len() {
        for second in first..compiled.len() {
            // A program of one file has no mixtures.
            let mixed = first == second || program.units.len() > 1;
            if let (Some(a), Some(b), true) = (&compiled[first], &compiled[second], mixed) {
                mixture(plan, &program, (first, second), [a.path(), b.path()], report)?;
            }
        }
    }
    Ok(())
}

/// Links the files of a program, which are in two folders, with all releases.
fn mixture(
    plan: &MixedPlan,
    program: &GeneratedProgram,
    pair: (usize, usize),
    folders: [&Path; 2],
    report: &mut MixedReport,
) -> Result<()> {
    let work = tempfile::tempdir()?;
    for (place, unit) in program.units.iter().enumerate() {
        let file = format!("{}.cubin", unit.name);
        fs::copy(folders[place % 2].join(&file), work.path().join(file))?;
    }
    let forward = link_arguments(program);
    let mut reversed = forward.clone();
    reversed[forward.len() - program.units.len()..].reverse();
    let GeneratedProgram { seed, family, link_arch, .. } = program;
    for tools in &plan.linkers {
        for arguments in [&forward, &reversed] {
            let verdict = compare_links(tools, arguments, work.path())?;
            let name = format!("{}-by-{}", plan.name(pair), tools.oracle.release().name);
            match &verdict {
                Verdict::NoVerdict(how) => eprintln!("seed {seed}, {link_arch}, {name}: {how}"),
                Verdict::Different(difference) => {
                    let kept = plan.keep.join(format!("{seed}-{family}-{link_arch}-{name}"));
                    workspace::keep_tree(work.path(), &kept)?;
                    let what = &difference.what;
                    eprintln!("{name}: {} {what}", arguments.join(" "));
                    eprintln!("  kept in {}", kept.display());
                }
                Verdict::NotCompiled(message) => bail!("{message}"),
                Verdict::Identical(_) | Verdict::SameError(_) => {}
            }
            report.count(&plan.name(pair), tools.oracle.release().name, &verdict);
        }
    }
    Ok(())
}

impl MixedPlan {
    /// The name of a pair of releases.
    fn name(&self, (first, second): (usize, usize)) -> String {
        let name = |place: usize| self.compilers[place].release().name;
        match first == second {
            true => name(first).to_owned(),
            false => format!("{}+{}", name(first), name(second)),
        }
    }
}

struct MixedReport {
    /// By the releases of the objects and that of the linkers.
    tally: Tally,
    /// Links that fail because an object is newer than the linker.
    newer: usize,
    /// Links in which nvlink forgets barriers (docs/DIFFERENCES.md, barriers-of-cuda-12).
    barriers: usize,
    programs: usize,
    not_compiled: usize,
}

impl Default for MixedReport {
    fn default() -> Self {
        let tally = Tally::new("objects of", "links");
        MixedReport { tally, newer: 0, barriers: 0, programs: 0, not_compiled: 0 }
    }
}

impl MixedReport {
    fn count(&mut self, objects: &str, linker: &str, verdict: &Verdict) {
        match verdict {
            Verdict::SameError(text) => {
                self.newer += usize::from(text.contains("newer than toolkit"));
            }
            Verdict::NoVerdict(how) => {
                self.barriers += usize::from(how.ends_with("barriers-of-cuda-12"));
            }
            _ => {}
        }
        self.tally.add(objects, linker, VerdictCounts::of(verdict));
    }

    fn text(&self) -> String {
        format!(
            "{}\n{} links end because an object is newer than the linker; in {} nvlink forgets barriers \
             (barriers-of-cuda-12)\n{} programs; {} times a release did not compile one\n",
            self.tally.table(),
            self.newer,
            self.barriers,
            self.programs,
            self.not_compiled
        )
    }
}
