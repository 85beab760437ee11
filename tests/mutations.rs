//! Damaged inputs: for any contents of a file, the linker neither panics nor hangs nor takes all
//! memory.
//!
//! In: the inputs of the recorded cases, index files included, damaged by a seeded generator
//! (`culd_testkit::random::mutate`). `cargo xtask mutate` does the same with the command, in
//! containers and with options. Out: no report, or the seeds that fail. Guaranteed: the same seeds
//! and cases give the same damage.
//!
//! `CULD_MUTATIONS=A..B` chooses other seeds than the default; `CULD_MUTATIONS_KEEP=FOLDER` writes
//! the damaged files of every seed to `FOLDER/<seed>` before they are linked.

use culd_link::{IndexFile, Severity};
use culd_testkit::fixtures::case::{self, Case};
use culd_testkit::random::generate::rng::Rng;
use culd_testkit::random::mutate::{damage, damage_file, fields};
use culd_tests::{case_options, link};
use nix::sys::resource::{Resource, setrlimit};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A link of two small files takes a millisecond; one of this time hangs.
const LIMIT: Duration = Duration::from_secs(30);
/// The size limit of outputs, far above those of files of a few kilobytes.
const MAX_IMAGE: usize = 512 << 20;
const SEEDS: Range<u64> = 0..50_000;
/// Address space of the test in bytes: a larger request ends the test.
const MEMORY: u64 = 8 << 30;

type MutationInputs = Vec<(String, Vec<u8>)>;

#[test]
fn damaged_inputs_give_errors_and_nothing_worse() {
    let seeds = std::env::var("CULD_MUTATIONS").map_or(SEEDS, |text| {
        let (first, end) = text.split_once("..").expect("CULD_MUTATIONS=A..B");
        first.parse().expect("a number")..end.parse().expect("a number")
    });
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).expect("a limit");
    let cases = case::all().expect("the cases");
    let cases: Vec<(Case, MutationInputs)> = cases
        .into_iter()
        .map(|case| case.inputs().map(|inputs| (case, inputs)).expect("assembles"))
        .collect();
    panic::set_hook(Box::new(|info| PANIC.set(info.to_string())));
    let (sender, receiver) = mpsc::channel();
    let work = seeds.clone();
    let worker = thread::spawn(move || {
        for seed in work {
            if sender.send((seed, trial(seed, &cases))).is_err() {
                return;
            }
        }
    });
    let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut refused = 0;
    for seed in seeds.clone() {
        match receiver.recv_timeout(LIMIT) {
            Ok((_, Ok(linked))) => refused += u64::from(!linked),
            Ok((at, Err(what))) => failures.entry(what).or_default().push(at),
            Err(_) => {
                failures.entry("no end".to_owned()).or_default().push(seed);
                break;
            }
        }
    }
    let _ = panic::take_hook();
    for (what, seeds) in &failures {
        let some: Vec<&u64> = seeds.iter().take(8).collect();
        eprintln!("{} of the kind, seeds {some:?}: {what}\n", seeds.len());
    }
    assert!(failures.is_empty(), "{} kinds of failure", failures.len());
    worker.join().expect("the worker ends");
    let count = seeds.end - seeds.start;
    assert!(refused > count / 8, "only {refused} of {count} were refused: is anything damaged?");
    assert!(refused < count, "everything was refused: is the damage too coarse?");
}

thread_local! {
    /// The message of the last panic of this thread.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// True when the damaged program links.
fn trial(seed: u64, cases: &[(Case, MutationInputs)]) -> Result<bool, String> {
    let mut random = Rng::new(seed);
    let (case, inputs) = &cases[random.below(cases.len())];
    let mut inputs = inputs.clone();
    let arguments = &case.options();
    let mut options = case_options(case, arguments).expect("options");
    let index = case.index_files().expect("index files").pop();
    let at = random.below(inputs.len() + usize::from(index.is_some()));
    match (inputs.get_mut(at), index) {
        (Some((_, bytes)), _) => {
            damage_file(bytes, &mut random);
        }
        (None, Some((_, mut bytes))) => {
            let fields = fields::of_index(&bytes);
            damage(&mut bytes, &fields, &mut random);
            match IndexFile::parse(bytes) {
                Ok(index) => options.index = Some(index),
                Err(_) => return Ok(false),
            }
        }
        (None, None) => unreachable!("there is something to damage"),
    }
    if let Some(folder) = std::env::var_os("CULD_MUTATIONS_KEEP") {
        keep(&Path::new(&folder).join(seed.to_string()), case, &inputs);
    }
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| link(&options, &inputs, 1)));
    let outcome = outcome
        .map_err(|_| format!("panic: {}", PANIC.with_borrow(Clone::clone)))?
        .map_err(|error| error.to_string())?;
    let worst = outcome.diagnostics.iter().map(|line| line.severity).max();
    match outcome.image {
        Some(image) if image.len() > MAX_IMAGE => Err("a huge output".to_owned()),
        Some(_) if worst >= Some(Severity::Error) => Err("an output and an error".to_owned()),
        None if worst < Some(Severity::Error) => Err("no output and no error".to_owned()),
        image => Ok(image.is_some()),
    }
}

/// Writes inputs and the command line.
fn keep(folder: &Path, case: &Case, inputs: &MutationInputs) {
    fs::create_dir_all(folder).expect("a folder");
    for (name, bytes) in inputs {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    let line = format!("culd {} -o out.cubin\n", case.arguments().join(" "));
    fs::write(folder.join("run.sh"), line).expect("a file");
}
