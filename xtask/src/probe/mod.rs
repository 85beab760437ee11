//! `xtask probe`: links relocation records of every type, symbol and place with both linkers.
//!
//! In: the batches of [`series`], `testdata/probe`. Out: a table of places, and the name of every
//! unequal cell. Guaranteed: exit code 1 if an unequal cell is not on the list of differences, if
//! an entry of the list has no cell, or if nvlink's result differs from the recorded one.

mod linkers;
mod report;
mod verify;

use crate::args::Args;
use crate::pool::{self, Queue};
use crate::workspace::{self, lock};
use anyhow::{Context, Result, bail};
use culd_testkit::probe::batch::{Batch, BatchAnswer, EndingTypes, ProbeLinker};
use culd_testkit::probe::judge;
use culd_testkit::probe::known::KnownDifferences;
use culd_testkit::probe::record::{self, Answers};
use culd_testkit::probe::{kinds, series};
use culd_testkit::reference::compare;
use linkers::ProbeLinkers;
use report::ProbeReport;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

const HELP: &str = "\
usage: cargo xtask probe [options]
  --all            every batch (default: a sample of them, the same on every machine)
  --arch SM[,SM]   only these architectures, '90' (default: those with recorded answers; 80 too)
  --place KEY[,..] --symbol KEY[,..] --type N[,N-M..]
                   only these (keys: crates/testkit/src/probe/places.rs, symbols.rs)
  --verify         every bit of the tables in crates/reloc against nvlink, in place of the batches
  --fates          print the equal cells too
  --record         write to testdata/probe what nvlink does, where it is not there, and which cells are unequal
  --jobs N         batches at a time (default 2)
  --culd PATH      the linker under test (default <target>/release/culd; 'nvlink': the oracle against itself)";

/// The sample has one of this many batches.
const SAMPLE: usize = 12;

struct ProbePlan {
    batches: Vec<Batch>,
    /// Whether these are all batches.
    whole: bool,
    record: bool,
    fates: bool,
    known: KnownDifferences,
    recorded: BTreeMap<(u32, String), Answers>,
    jobs: usize,
    linkers: ProbeLinkers,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    if args.flag("--verify") {
        let linkers = ProbeLinkers::new(workspace::tools(args.culd()?.as_deref())?);
        args.finish()?;
        return verify::run(&linkers);
    }
    let selection = BatchSelection::new(&mut args)?;
    let plan = ProbePlan {
        batches: selection.batches(),
        whole: selection.is_whole(),
        record: args.flag("--record"),
        fates: args.flag("--fates"),
        known: KnownDifferences::parse(&fs::read_to_string(
            workspace::root().join("testdata/probe/differences.toml"),
        )?)?,
        recorded: recorded()?,
        jobs: args.jobs()?,
        linkers: ProbeLinkers::new(workspace::tools(args.culd()?.as_deref())?),
    };
    args.finish()?;
    if plan.batches.is_empty() {
        bail!("nothing matches");
    }
    let report = execute(&plan)?;
    if plan.record {
        write(&plan, &report)?;
    }
    print!("{}", report.text(&plan.known, plan.whole));
    Ok(if report.failures(&plan.known, plan.whole) == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Which batches are wanted.
struct BatchSelection {
    every: bool,
    archs: Option<Vec<String>>,
    places: Option<Vec<String>>,
    symbols: Option<Vec<String>>,
    types: Option<Vec<u32>>,
}

impl BatchSelection {
    fn new(args: &mut Args) -> Result<Self> {
        let list = |text: String| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        Ok(Self {
            every: args.flag("--all"),
            archs: args.option("--arch")?.map(list),
            places: args.option("--place")?.map(list),
            symbols: args.option("--symbol")?.map(list),
            types: args.option::<String>("--type")?.map(|text| kinds::parse(&text)).transpose()?,
        })
    }

    /// True if no batch is left out.
    fn is_whole(&self) -> bool {
        let lists = [&self.archs, &self.places, &self.symbols];
        self.every && lists.into_iter().all(Option::is_none) && self.types.is_none()
    }

    fn batches(&self) -> Vec<Batch> {
        let has = |list: &Option<Vec<String>>, key: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|other| other == key))
        };
        let lists = [&self.archs, &self.places, &self.symbols];
        let some = lists.into_iter().any(Option::is_some) || self.types.is_some();
        let mut wanted = Vec::new();
        let archs = series::ARCHS.into_iter().filter(|sm| match &self.archs {
            Some(list) => list.contains(&sm.to_string()),
            None => series::RECORDED.contains(sm),
        });
        for sm in archs {
            for (at, mut batch) in series::batches(sm).into_iter().enumerate() {
                if let Some(types) = &self.types {
                    batch.kinds.retain(|kind| types.contains(kind));
                }
                if has(&self.places, batch.place.key)
                    && has(&self.symbols, batch.symbol.key)
                    && (self.every || some || at % SAMPLE == sm as usize % SAMPLE)
                    && !batch.kinds.is_empty()
                {
                    wanted.push(batch);
                }
            }
        }
        wanted
    }
}

/// The recorded answers, by architecture and batch.
fn recorded() -> Result<BTreeMap<(u32, String), Answers>> {
    let mut recorded = BTreeMap::new();
    for sm in series::RECORDED {
        let path = recorded_path(sm);
        if !path.exists() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for answers in record::parse(sm, &text).with_context(|| path.display().to_string())? {
            recorded.insert((sm, answers.batch.to_string()), answers);
        }
    }
    Ok(recorded)
}

/// Writes the record: the new answers, and the old ones of other batches, in the order of the
/// series.
fn write(plan: &ProbePlan, report: &ProbeReport) -> Result<()> {
    for sm in series::RECORDED {
        let answers = |batch: Batch| {
            let key = (sm, batch.to_string());
            report.answers(&key).or_else(|| plan.recorded.get(&key)).cloned()
        };
        let answers: Vec<Answers> = series::batches(sm).into_iter().filter_map(answers).collect();
        fs::write(recorded_path(sm), record::write(&answers))?;
    }
    Ok(())
}

fn recorded_path(sm: u32) -> PathBuf {
    workspace::root().join(format!("testdata/probe/sm_{sm}.txt"))
}

fn execute(plan: &ProbePlan) -> Result<ProbeReport> {
    let report = Mutex::new(ProbeReport::default());
    pool::run(plan.jobs, plan.batches.iter(), |queue| work(plan, queue, &report))?;
    Ok(std::mem::take(&mut *lock(&report)))
}

/// One worker, until no batch is left.
fn work<'p>(
    plan: &ProbePlan,
    queue: &Queue<impl Iterator<Item = &'p Batch>>,
    report: &Mutex<ProbeReport>,
) -> Result<()> {
    let [nvlink, culd] = plan.linkers.start()?;
    let mut guesses = [EndingTypes::new(), EndingTypes::new()];
    while let Some(batch) = queue.take() {
        let known = plan.recorded.get(&(batch.sm, batch.to_string()));
        let fates = match known.filter(|known| plan.record && known.batch.kinds == batch.kinds) {
            Some(known) => known.fates.clone(),
            None => record::texts(&batch.fates(&nvlink, &mut guesses[0])?),
        };
        let unequal = judge::unequal(batch, &fates, &culd, &mut guesses[1])?;
        let kinds = unequal.iter().map(|cell| cell.kind).collect();
        let mut answers = Answers { batch: batch.clone(), fates, unequal: kinds, digest: 0 };
        let elsewhere = elsewhere(batch, answers.groups(), &nvlink, &culd)?;
        answers.unequal.extend(elsewhere.iter().flat_map(|(group, _)| group));
        let groups = answers.groups();
        answers.digest = judge::digest(batch, &groups, &nvlink)?.context("it linked before")?;
        let changed = (!plan.record).then(|| changed(plan, &answers)).flatten();
        lock(report).add(plan, answers, &unequal, elsewhere, changed);
    }
    Ok(())
}

/// The difference of outputs whose cells are equal, and the types that cause it.
fn elsewhere(
    batch: &Batch,
    mut open: Vec<Vec<u32>>,
    nvlink: &dyn ProbeLinker,
    culd: &dyn ProbeLinker,
) -> Result<Vec<(Vec<u32>, String)>> {
    let mut found = Vec::new();
    while let Some(group) = open.pop() {
        let object = batch.object(&group).bytes()?;
        let answers = (nvlink.link(batch.sm, &object)?, culd.link(batch.sm, &object)?);
        let (BatchAnswer::Linked(expected), BatchAnswer::Linked(actual)) = answers else {
            bail!("{batch}: types {} do not link together", kinds::text(&group));
        };
        match (compare::cubins(&expected, &actual), &group[..]) {
            (None, _) => {}
            (Some(_), [_, _, ..]) => {
                let (front, back) = group.split_at(group.len() / 2);
                open.extend([front.to_vec(), back.to_vec()]);
            }
            (Some(what), _) => found.push((group, what)),
        }
    }
    Ok(found)
}

/// The difference of a batch from its record. Unequal cells are only compared with the list of
/// differences: if nvlink reads past its tables, its results vary.
fn changed(plan: &ProbePlan, answers: &Answers) -> Option<String> {
    let batch = &answers.batch;
    let recorded = plan.recorded.get(&(batch.sm, batch.to_string()))?;
    let unequal = |kind: &u32| answers.unequal.contains(kind) && recorded.unequal.contains(kind);
    for (kind, fate) in answers.fates.iter().filter(|(kind, _)| !unequal(kind)) {
        let other = recorded.fates.get(kind);
        if other != Some(fate) {
            return Some(format!("type {kind}: nvlink: {fate}, recorded: {other:?}"));
        }
    }
    // With only some of the types, the outputs differ.
    let same = answers.fates.len() == recorded.fates.len() && answers.unequal == recorded.unequal;
    (same && answers.digest != recorded.digest).then(|| "other outputs are recorded".to_owned())
}
