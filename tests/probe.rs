//! Relocation records of every type, symbol and place, compared with nvlink's recorded results
//! (testdata/probe).
//!
//! In: recorded answers. Out: failing cells by name. Guaranteed: whole outputs count, by their
//! digests, and so do messages; a batch that is not recorded fails. A sample of cells that are
//! recorded as unequal (`!`) must be linked or refused with a message; `cargo xtask probe` compares
//! them with the list of differences.

use anyhow::{Context, Result};
use culd_link::{Input, LinkOptions, Session};
use culd_testkit::probe::batch::{Batch, BatchAnswer, EndingTypes, ProbeLinker};
use culd_testkit::probe::fate::RecordFate;
use culd_testkit::probe::judge;
use culd_testkit::probe::known::KnownDifferences;
use culd_testkit::probe::record::{self, Answers};
use culd_testkit::probe::{object, series};
use culd_tests::{lines, link_options, root};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Lines of a report.
const REPORTED: usize = 40;

/// The unequal cells of one of this many batches are tried.
const SAMPLE: usize = 40;

/// The library under test, for one architecture.
struct LibraryLinker {
    options: LinkOptions,
    front: Vec<u8>,
}

impl LibraryLinker {
    fn new(sm: u32) -> Result<Self> {
        let options = link_options(&[format!("-arch=sm_{sm}")])?;
        Ok(Self { options, front: object::front(sm)? })
    }
}

impl ProbeLinker for LibraryLinker {
    fn link(&self, sm: u32, object: &[u8]) -> Result<BatchAnswer> {
        let front = format!("front-{sm}.cubin");
        let inputs = [
            Input { name: &front, bytes: &self.front, system: false },
            Input { name: "probe.cubin", bytes: object, system: false },
        ];
        let outcome = culd_link::link(&Session::serial(), &inputs, &self.options);
        let messages = lines(&outcome).join("\n");
        Ok(match outcome.image {
            Some(image) => BatchAnswer::Linked(image),
            None => BatchAnswer::Refused(BatchAnswer::message(&messages)),
        })
    }
}

fn recorded(sm: u32) -> Vec<Answers> {
    let path = root().join(format!("testdata/probe/sm_{sm}.txt"));
    let text = fs::read_to_string(&path).expect("recorded answers are readable");
    record::parse(sm, &text).expect("recorded answers")
}

/// The faults of a batch: outputs that are not nvlink's, by cell if a cell shows it, and other
/// messages.
fn wrong(answers: &Answers, library: &LibraryLinker) -> Result<Vec<String>> {
    let batch = &answers.batch;
    let mut wrong = Vec::new();
    let refused = |(kind, fate): &(&u32, &String)| {
        !RecordFate::is_text_of_linked(fate) && !answers.unequal.contains(*kind)
    };
    for (&kind, fate) in answers.fates.iter().filter(refused) {
        let actual = match library.link(batch.sm, &batch.object(&[kind]).bytes()?)? {
            BatchAnswer::Refused(message) => RecordFate::Refused(message).to_string(),
            _ => "linked".to_owned(),
        };
        if *fate != actual {
            wrong.push(format!("type {kind}: nvlink: {fate} | culd: {actual}"));
        }
    }
    let groups = answers.groups();
    if judge::digest(batch, &groups, library)? == Some(answers.digest) {
        return Ok(wrong);
    }
    let batch = Batch { kinds: groups.concat(), ..batch.clone() };
    let mut expected = answers.fates.clone();
    expected.retain(|kind, _| batch.kinds.contains(kind));
    let unequal = judge::unequal(&batch, &expected, library, &mut EndingTypes::new())?;
    if unequal.is_empty() {
        wrong.push("outputs differ elsewhere: see cargo xtask probe".to_owned());
    }
    wrong.extend(
        unequal.iter().map(|cell| {
            format!("type {}: nvlink: {} | culd: {}", cell.kind, cell.nvlink, cell.culd)
        }),
    );
    Ok(wrong)
}

#[test]
fn what_was_equal_is_equal() -> Result<()> {
    let all: Vec<Answers> = series::RECORDED.into_iter().flat_map(recorded).collect();
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<String>> = Mutex::default();
    let work = || -> Result<()> {
        let libraries = series::RECORDED.into_iter().map(|sm| Ok((sm, LibraryLinker::new(sm)?)));
        let libraries: BTreeMap<u32, LibraryLinker> = libraries.collect::<Result<_>>()?;
        while let Some(answers) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let batch = &answers.batch;
            let library = libraries.get(&batch.sm).context("the architecture")?;
            let wrong =
                wrong(answers, library).with_context(|| format!("sm_{} {batch}", batch.sm))?;
            let lines = wrong.into_iter().map(|what| format!("sm_{} {batch}: {what}", batch.sm));
            found.lock().expect("no panic").extend(lines);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let mut found = found.into_inner()?;
    found.sort();
    let count = found.len();
    found.truncate(REPORTED);
    assert!(count == 0, "{count} wrong:\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn every_cell_is_linked_or_refused() -> Result<()> {
    for sm in series::RECORDED {
        let library = LibraryLinker::new(sm)?;
        let mut guesses = EndingTypes::new();
        let (mut linked, mut refused) = (0, 0);
        for batch in series::batches(sm).iter().step_by(SAMPLE) {
            let fates = batch.fates(&library, &mut guesses)?;
            assert_eq!(fates.len(), batch.kinds.len(), "sm_{sm} {batch}");
            for (kind, fate) in fates {
                match fate {
                    RecordFate::Gone | RecordFate::Linked(_) => linked += 1,
                    RecordFate::Refused(message) if !message.is_empty() => refused += 1,
                    other => panic!("sm_{sm} {batch}, type {kind}: {other}"),
                }
            }
        }
        assert!(linked > refused && refused > 0, "sm_{sm}: {linked} linked, {refused} refused");
    }
    Ok(())
}

/// The record has exactly all batches with all types.
#[test]
fn everything_is_recorded() {
    for sm in series::RECORDED {
        let batches = |batch: Batch| (batch.to_string(), batch.kinds);
        let recorded: BTreeMap<_, _> =
            recorded(sm).into_iter().map(|answers| batches(answers.batch)).collect();
        let wanted: BTreeMap<_, _> = series::batches(sm).into_iter().map(batches).collect();
        let odd = wanted.iter().find(|(batch, kinds)| recorded.get(*batch) != Some(kinds));
        assert!(odd.is_none(), "sm_{sm}: not recorded: {odd:?}; cargo xtask probe --record");
        assert_eq!(recorded.len(), wanted.len(), "sm_{sm}: recorded, but not in the series");
    }
}

/// Each entry of the list of differences names its key in docs/DIFFERENCES.md.
#[test]
fn differences_are_documented() -> Result<()> {
    let list = fs::read_to_string(root().join("testdata/probe/differences.toml"))?;
    let page = fs::read_to_string(root().join("docs/DIFFERENCES.md"))?;
    for entry in KnownDifferences::parse(&list)?.entries() {
        let title = format!("### {}", entry.key);
        assert!(page.lines().any(|line| line == title), "docs/DIFFERENCES.md has no '{title}'");
    }
    Ok(())
}
