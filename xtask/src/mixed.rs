//! `xtask mixed`: programs whose files two releases compiled, through the linkers of all releases.
//!
//! In: seeds and architectures. Out: a table with a row for each pair of releases of objects and a
//! column for each release of the linkers, and a folder for every difference. Guaranteed: exit code
//! 1 when there is a difference.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::random::generate::model::{Arch, Program};
use culd_testkit::random::generate::{Wish, generate};
use culd_testkit::reference::compare::trial::{
    Tools, Verdict, compare_links, compile, link_arguments,
};
use culd_testkit::reference::oracle::{Oracle, RELEASES};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;

const HELP: &str = "\
usage: cargo xtask mixed [options]
  --seeds A..B     programs of each architecture (default 0..4)
  --arch SM[,SM]   architectures (default sm_75,sm_80,sm_90)
  --with OPTION    a further option of every link
  --keep DIR       where differences are written (default <target>/mixed)
  --culd PATH      the linker under test (default <target>/release/culd)

The files of a program are compiled by two releases in turn, every pair of 12.9 to 13.5 and each alone; every linker from
13.0 to 13.5 links them in both orders of the files.";

const ARCHS: &str = "sm_75,sm_80,sm_90";

struct Plan {
    seeds: std::ops::Range<u64>,
    archs: Vec<Arch>,
    with: Option<String>,
    keep: PathBuf,
    /// The compilers, oldest first.
    compilers: Vec<Oracle>,
    /// Both linkers, by release.
    linkers: Vec<Tools>,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan(&mut args)?;
    args.finish()?;
    let mut report = Report::default();
    for &arch in &plan.archs {
        for seed in plan.seeds.clone() {
            program(&plan, seed, arch, &mut report).with_context(|| format!("seed {seed}"))?;
        }
    }
    print!("{}", report.table(&plan));
    Ok(if report.total().different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(args: &mut Args) -> Result<Plan> {
    let archs = workspace::archs(args.option("--arch")?.or_else(|| Some(ARCHS.to_owned())))?;
    let usual = workspace::tools(args.option("--culd")?)?;
    let compilers = RELEASES.iter().map(workspace::oracle_of).collect::<Result<Vec<_>>>()?;
    let linker = |oracle: &Oracle| {
        let told = vec![format!("--dialect={}", oracle.release().name)];
        Tools { oracle: oracle.clone(), told, ..usual.clone() }
    };
    let linkers = compilers.iter().filter(|oracle| oracle.has_linker()).map(linker);
    Ok(Plan {
        seeds: args.range("--seeds")?.unwrap_or(0..4),
        archs,
        with: args.option("--with")?,
        keep: args.option("--keep")?.unwrap_or_else(|| workspace::target().join("mixed")),
        linkers: linkers.collect(),
        compilers,
    })
}

/// Compiles a program by every release and links all mixtures of the files.
fn program(plan: &Plan, seed: u64, arch: Arch, report: &mut Report) -> Result<()> {
    let mut program = generate(seed, Wish { arch: Some(arch), plain: true, ..Wish::default() });
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
            // A single file is of one release.
            let mixed = first == second || program.units.len() > 1;
            if let (Some(a), Some(b), true) = (&compiled[first], &compiled[second], mixed) {
                mixture(plan, &program, (first, second), [a.path(), b.path()], report)?;
            }
        }
    }
    Ok(())
}

/// Links the files of a program, which are in two folders, by all releases.
fn mixture(
    plan: &Plan,
    program: &Program,
    pair: (usize, usize),
    folders: [&Path; 2],
    report: &mut Report,
) -> Result<()> {
    let work = tempfile::tempdir()?;
    for (place, unit) in program.units.iter().enumerate() {
        let file = format!("{}.cubin", unit.name);
        fs::copy(folders[place % 2].join(&file), work.path().join(file))?;
    }
    let forward = link_arguments(program);
    let mut reversed = forward.clone();
    reversed[forward.len() - program.units.len()..].reverse();
    let Program { seed, family, link_arch, .. } = program;
    for (column, tools) in plan.linkers.iter().enumerate() {
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
            *report.cells.entry((pair, column)).or_default() += Cell::of(&verdict);
            *report.archs.entry(link_arch.0).or_default() += Cell::of(&verdict);
        }
    }
    Ok(())
}

impl Plan {
    /// How a pair of releases is called.
    fn name(&self, (first, second): (usize, usize)) -> String {
        let name = |place: usize| self.compilers[place].release().name;
        match first == second {
            true => name(first).to_owned(),
            false => format!("{}+{}", name(first), name(second)),
        }
    }
}

#[derive(Default)]
struct Report {
    /// By places of the objects' releases and that of the linkers.
    cells: BTreeMap<((usize, usize), usize), Cell>,
    archs: BTreeMap<&'static str, Cell>,
    programs: usize,
    not_compiled: usize,
}

/// Pairs of links.
#[derive(Clone, Copy, Default)]
struct Cell {
    identical: usize,
    /// Both told that an object is newer than the linker.
    newer: usize,
    same_error: usize,
    no_verdict: usize,
    /// nvlink forgets barriers (docs/DIFFERENCES.md, barriers-of-cuda-12).
    barriers: usize,
    different: usize,
}

impl Cell {
    fn of(verdict: &Verdict) -> Self {
        let mut cell = Cell::default();
        match verdict {
            Verdict::Identical(_) => cell.identical = 1,
            Verdict::SameError(text) if text.contains("newer than toolkit") => cell.newer = 1,
            Verdict::SameError(_) => cell.same_error = 1,
            Verdict::NoVerdict(how) if how.ends_with("barriers-of-cuda-12") => cell.barriers = 1,
            Verdict::NoVerdict(_) | Verdict::NotCompiled(_) => cell.no_verdict = 1,
            Verdict::Different(_) => cell.different = 1,
        }
        cell
    }

    fn links(&self) -> usize {
        self.identical
            + self.newer
            + self.same_error
            + self.no_verdict
            + self.barriers
            + self.different
    }
}

impl AddAssign for Cell {
    fn add_assign(&mut self, other: Self) {
        self.identical += other.identical;
        self.newer += other.newer;
        self.same_error += other.same_error;
        self.no_verdict += other.no_verdict;
        self.barriers += other.barriers;
        self.different += other.different;
    }
}

impl Report {
    fn total(&self) -> Cell {
        let mut total = Cell::default();
        self.archs.values().for_each(|&cell| total += cell);
        total
    }

    /// Agreeing links of all that have a verdict, in brackets those in which nvlink forgets
    /// barriers; `newer` where an object is newer than the linker. The linkers are the compilers
    /// but the first.
    fn table(&self, plan: &Plan) -> String {
        let names: Vec<&str> =
            plan.linkers.iter().map(|tools| tools.oracle.release().name).collect();
        let mut text = format!("| objects of | {} |\n", names.join(" | "));
        let _ = writeln!(text, "|---{}|", "|--:".repeat(names.len()));
        let mut pairs: Vec<_> = self.cells.keys().map(|key| key.0).collect();
        pairs.dedup();
        for pair in pairs {
            let _ = write!(text, "| {} |", plan.name(pair));
            for column in 0..names.len() {
                let cell = self.cells.get(&(pair, column)).copied().unwrap_or_default();
                let agreeing = cell.identical + cell.same_error + cell.newer;
                let _ = match pair.1 > column + 1 {
                    true => write!(text, " newer |"),
                    false => {
                        let verdicts = cell.links() - cell.no_verdict;
                        let mark = if cell.barriers > 0 {
                            format!(" ({})", cell.barriers)
                        } else {
                            String::new()
                        };
                        write!(text, " {agreeing}/{verdicts}{mark} |")
                    }
                };
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "\n| | links | identical | same error | newer | no verdict | barriers-of-cuda-12 | different |"
        );
        let _ = writeln!(text, "|---{}|", "|--:".repeat(7));
        let all = [("all", self.total())];
        for (name, cell) in self.archs.iter().map(|(&name, &cell)| (name, cell)).chain(all) {
            let Cell { identical, newer, same_error, no_verdict, barriers, different } = cell;
            let _ = writeln!(
                text,
                "| {name} | {} | {identical} | {same_error} | {newer} | {no_verdict} | {barriers} | {different} |",
                cell.links()
            );
        }
        let _ = writeln!(
            text,
            "\n{} programs; {} times a release did not compile one",
            self.programs, self.not_compiled
        );
        text
    }
}
