//! Suite `generated`: links generated programs with both linkers.
//!
//! In: seeds. Out: a table of families and architectures and, for every difference, a folder with
//! the sources, the cubins and the difference. Guaranteed: exit code 1 when there is a difference.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::{Tally, VerdictCounts};
use crate::args::Args;
use crate::pool;
use crate::workspace::lock;
use anyhow::{Context, Result, bail};
use culd_testkit::random::edit::EditKind;
use culd_testkit::random::generate::mix::FAMILIES;
use culd_testkit::random::generate::model::{GeneratedProgram, PtxArch};
use culd_testkit::random::generate::{GeneratorChoices, family, generate};
use culd_testkit::random::reduce::reduce;
use culd_testkit::reference::compare::class;
use culd_testkit::reference::compare::mercury::Classes;
use culd_testkit::reference::compare::trial::{
    LinkMethod, Tools, Trial, Verdict, compile_arguments, compiler_name, link_arguments, trial,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const USUAL_SEEDS: Range<u64> = 0..200;

pub(super) const SUITE: Suite = Suite {
    name: "generated",
    about: "generated programs, by seed",
    takes: &[Common::Seeds(USUAL_SEEDS.start, USUAL_SEEDS.end), Common::Archs(""), Common::With, Common::Methods, Common::Jobs, Common::Release, Common::Objects],
    help: "\
\x20 --family NAME    only programs of this family
  --open N[,N]     programs that are known to differ and not followed yet: no failure, but one if they are equal
  --edit KIND      edits of compiled files: one at a time, all of this kind
  --minutes M      stop after M minutes; seeds may be A.. then
  --report         compare what the library reports, as in the suite corpus
  --reduce         shrink programs that differ; the small one goes to <DIR>/<name>/reduced
  --find TEXT      also keep programs whose messages from nvlink contain TEXT ('signal 11' for a crash)
  --show SEED      print the sources of one program and stop
Each target gets an equal part of the seeds, in this order.
",
    run,
};

/// The request.
struct GeneratedPlan {
    seeds: Range<u64>,
    choices: GeneratorChoices,
    /// Architectures of the links; if empty, the generator chooses.
    archs: Vec<PtxArch>,
    /// Seeds of programs with a known difference.
    open: Vec<u64>,
    deadline: Option<Instant>,
    with: Option<String>,
    method: LinkMethod,
    keep: PathBuf,
    reduce: bool,
    find: Option<String>,
    tools: Tools,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let args = &mut setup.args;
    let mut choices = choices(args)?;
    if args.flag("--report") {
        setup.method = LinkMethod::Report;
    }
    choices.plain = matches!(setup.method, LinkMethod::Steps | LinkMethod::Relinked { .. })
        || setup.with.is_some();
    if let Some(seed) = args.option("--show")? {
        show(&generate(seed, GeneratorChoices { arch: setup.archs.first().copied(), ..choices }));
        return Ok(ExitCode::SUCCESS);
    }
    let minutes: Option<f64> = args.option("--minutes")?;
    let open = open(args.option::<String>("--open")?.as_deref())?;
    let (reduce, find) = (args.flag("--reduce"), args.option("--find")?);
    setup.finish()?;
    let seeds = match minutes {
        Some(_) if setup.seeds == USUAL_SEEDS => 0..u64::MAX,
        Some(_) => setup.seeds.clone(),
        None => setup.bounded_seeds()?,
    };
    if setup.archs.len() > 1 && seeds.end == u64::MAX {
        bail!("several architectures need --seeds A..B");
    }
    let plan = GeneratedPlan {
        tools: setup.tools()?,
        seeds,
        choices,
        archs: setup.archs,
        open,
        deadline: minutes.map(|m| Instant::now() + Duration::from_secs_f64(60.0 * m)),
        with: setup.with,
        method: setup.method,
        keep: setup.keep,
        reduce,
        find,
    };
    let report = execute(&plan, setup.jobs)?;
    print!("{}", report.text());
    Ok(report.tally.exit_code())
}

fn choices(args: &mut Args) -> Result<GeneratorChoices> {
    let mut choices = GeneratorChoices::default();
    if let Some(name) = args.option::<String>("--family")? {
        let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        choices.family =
            Some(family(&name).with_context(|| format!("families: {}", names.join(" ")))?);
    }
    if let Some(name) = args.option::<String>("--edit")? {
        let names: Vec<String> =
            EditKind::ALL.iter().map(|(kind, _)| format!("{kind:?}")).collect();
        choices.edit =
            Some(EditKind::parse(&name).with_context(|| format!("edits: {}", names.join(" ")))?);
    }
    Ok(choices)
}

impl GeneratedPlan {
    /// The fixed choices for the program of a seed.
    fn choices(&self, seed: u64) -> GeneratorChoices {
        let (number, count) = (seed - self.seeds.start, self.seeds.end - self.seeds.start);
        let part = u128::from(number) * self.archs.len() as u128 / u128::from(count.max(1));
        let arch = self.archs.get(part as usize).copied();
        GeneratorChoices { arch, ..self.choices }
    }
}

fn open(text: Option<&str>) -> Result<Vec<u64>> {
    let numbers = text.into_iter().flat_map(|text| text.split(','));
    numbers.map(|number| number.parse().context("--open N[,N]")).collect()
}

fn show(program: &GeneratedProgram) {
    println!("// family {}, -arch={}", program.family, program.link_arch);
    for unit in &program.units {
        println!("// {} {}", compiler_name(unit), compile_arguments(unit).join(" "));
        println!("{}", culd_testkit::random::generate::ptx::print(program, unit));
    }
}

struct GeneratedReport {
    /// By family and architecture.
    tally: Tally,
    classes: Classes,
    files: usize,
    /// Pairs of links.
    links: usize,
    /// Pairs of links with a deliberate difference, by key of docs/DIFFERENCES.md.
    deliberate: BTreeMap<&'static str, usize>,
    /// The number of reduced programs of each class of difference.
    reduced: BTreeMap<String, usize>,
    started: Instant,
}

impl GeneratedReport {
    fn new() -> Self {
        GeneratedReport {
            tally: Tally::new("family", "programs"),
            classes: Classes::default(),
            files: 0,
            links: 0,
            deliberate: BTreeMap::new(),
            reduced: BTreeMap::new(),
            started: Instant::now(),
        }
    }

    fn text(&self) -> String {
        let mut text = self.tally.table();
        let seconds = self.started.elapsed().as_secs_f64();
        let _ = writeln!(text, "\n{} files, {} links, {seconds:.1} s", self.files, self.links);
        for (key, count) in &self.deliberate {
            let _ = writeln!(text, "{count} links differ on purpose: {key}");
        }
        let _ = write!(text, "{}", self.classes);
        text
    }
}

fn execute(plan: &GeneratedPlan, jobs: usize) -> Result<GeneratedReport> {
    let report = Mutex::new(GeneratedReport::new());
    let early = |_: &u64| plan.deadline.is_none_or(|deadline| Instant::now() < deadline);
    pool::run(jobs, plan.seeds.clone().take_while(early), |queue| {
        while let Some(seed) = queue.take() {
            one(plan, seed, &report).with_context(|| format!("seed {seed}"))?;
        }
        Ok(())
    })?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn one(plan: &GeneratedPlan, seed: u64, report: &Mutex<GeneratedReport>) -> Result<()> {
    let mut program = generate(seed, plan.choices(seed));
    program.link_options.extend(plan.with.clone());
    let dir = tempfile::tempdir()?;
    let outcome = trial(&plan.tools, &program, plan.method, dir.path())?;
    let differs = matches!(outcome.verdict, Verdict::Different(_));
    let is_open = plan.open.contains(&seed);
    if is_open && !differs {
        bail!("the program is listed with --open and does not differ any more");
    }
    count(&program, &outcome, is_open, &mut lock(report));
    let Some(what) = finding(plan, &outcome.verdict) else { return Ok(()) };
    let class = class(&what);
    let kept = plan.keep.join(format!("{seed}-{}-{}", program.family, program.link_arch));
    eprintln!(
        "seed {seed} ({}, {}): {what}\n  kept in {}",
        program.family,
        program.link_arch,
        kept.display()
    );
    keep(plan, &program, &kept)?;
    if plan.reduce && first_of_class(report, &class) {
        let small = reduce(&program, |candidate| -> Result<bool> {
            let dir = tempfile::tempdir()?;
            let verdict = trial(&plan.tools, candidate, plan.method, dir.path())?.verdict;
            Ok(finding(plan, &verdict).is_some_and(|what| self::class(&what) == class))
        })?;
        let what = keep(plan, &small, &kept.join("reduced"))?;
        eprintln!("  reduced {seed} from {} to {}: {what}", program.size(), small.size());
    }
    Ok(())
}

fn count(program: &GeneratedProgram, trial: &Trial, is_open: bool, report: &mut GeneratedReport) {
    report.files += program.units.len();
    report.links += trial.links;
    let GeneratedProgram { seed, family, link_arch, .. } = program;
    report.classes += trial.classes.of(&format!("seed {seed}, {link_arch}"));
    for (key, count) in &trial.deliberate {
        *report.deliberate.entry(key).or_default() += count;
    }
    let mut counts = VerdictCounts::of(&trial.verdict);
    match &trial.verdict {
        Verdict::NoVerdict(how) => {
            eprintln!("seed {seed} ({family}, {link_arch}): nvlink: {how}");
            trial.edits.iter().for_each(|edit| eprintln!("  {edit}"));
        }
        Verdict::NotCompiled(message) => {
            let first = message.lines().next().unwrap_or_default();
            eprintln!("seed {seed} ({family}, {link_arch}): {first}");
        }
        Verdict::Different(_) if is_open => {
            counts = VerdictCounts::no_verdict(1);
            eprintln!("seed {seed} ({family}, {link_arch}): a known difference, still open");
        }
        _ => {}
    }
    report.tally.add(family, link_arch.0, counts);
}

/// The reason to keep a program.
fn finding(plan: &GeneratedPlan, verdict: &Verdict) -> Option<String> {
    let found = |text: String| plan.find.as_ref().filter(|wanted| text.contains(*wanted)).cloned();
    match verdict {
        Verdict::Different(difference) => Some(difference.what.clone()),
        Verdict::SameError(messages) => found(messages.clone()),
        Verdict::NoVerdict(how) => found(how.clone()),
        Verdict::Identical(_) | Verdict::NotCompiled(_) => None,
    }
}

/// True for the first few programs of a class: a reduction takes hundreds of links.
fn first_of_class(report: &Mutex<GeneratedReport>, class: &str) -> bool {
    let mut report = lock(report);
    let count = report.reduced.entry(class.to_owned()).or_default();
    *count += 1;
    *count <= 2
}

/// Repeats the trial in the folder `to` and adds a script; returns the difference.
fn keep(plan: &GeneratedPlan, program: &GeneratedProgram, to: &Path) -> Result<String> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let Trial { verdict, edits, .. } = trial(&plan.tools, program, plan.method, to)?;
    let mut arguments = link_arguments(program);
    let what = match verdict {
        Verdict::Different(difference) => {
            arguments = difference.arguments;
            difference.what
        }
        Verdict::SameError(messages) => messages,
        other => format!("{other:?}"),
    };
    let what = [what].into_iter().chain(edits).collect::<Vec<_>>().join("\n  ");
    let mut script = String::from(
        "#!/bin/sh\n# Repeats the difference; needs ptxas or nvcc, nvlink and culd on PATH.\n",
    );
    let GeneratedProgram { seed, family, link_arch, .. } = program;
    let _ = writeln!(script, "# seed {seed}, family {family}, {link_arch}");
    for line in what.lines() {
        let _ = writeln!(script, "# {line}");
    }
    script.push_str("cd \"$(dirname \"$0\")\" || exit 2\n");
    if program.rounds.is_empty() {
        for unit in &program.units {
            let words = compile_arguments(unit).join(" ");
            let _ = writeln!(script, "{} {words}", compiler_name(unit));
        }
    } else {
        script.push_str("# The cubins are edited: compiling the sources does not give them.\n");
    }
    let arguments = arguments.join(" ");
    let _ = writeln!(script, "nvlink {arguments} -o nvlink/out.cubin; echo \"nvlink: $?\"");
    let _ = writeln!(script, "culd {arguments} -o culd/out.cubin; echo \"culd: $?\"");
    script.push_str("cmp nvlink/out.cubin culd/out.cubin\n");
    fs::write(to.join("run.sh"), script)?;
    Ok(what)
}
