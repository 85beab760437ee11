//! Damaged inputs: whatever a file holds, the linker neither panics nor hangs nor eats the memory.
//!
//! In: the inputs of the recorded cases, index files included, damaged by a seeded generator: fields of tables and records get values that
//! are likely to hurt, any bytes change, files end early. Out: no report, or the seeds that fail. Guaranteed: the same
//! seeds give the same damage as long as there are the same cases.
//!
//! `CULD_MUTATIONS=A..B` chooses other seeds than the default; `CULD_MUTATIONS_KEEP=FOLDER` writes the damaged files of
//! every seed to `FOLDER/<seed>` before they are linked.

use culd_link::{IndexFile, Severity};
use culd_testkit::case::{self, Case};
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

/// A link of two small files takes a millisecond; this is a hang.
const LIMIT: Duration = Duration::from_secs(30);
/// No damage to files of a few kilobytes may make an output of this size.
const MAX_IMAGE: usize = 512 << 20;
const SEEDS: Range<u64> = 0..50_000;
/// Address space of the test, bytes: who asks for more dies, and the test with it.
const MEMORY: u64 = 8 << 30;

type Inputs = Vec<(String, Vec<u8>)>;

#[test]
fn damaged_inputs_give_errors_and_nothing_worse() {
    let seeds = std::env::var("CULD_MUTATIONS").map_or(SEEDS, |text| {
        let (first, end) = text.split_once("..").expect("CULD_MUTATIONS=A..B");
        first.parse().expect("a number")..end.parse().expect("a number")
    });
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).expect("a limit");
    let cases = case::all().expect("the cases");
    let cases: Vec<(Case, Inputs)> = cases
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
    /// What the last panic of this thread said.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// True when the damaged program links.
fn trial(seed: u64, cases: &[(Case, Inputs)]) -> Result<bool, String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (case, inputs) = &cases[random.below(cases.len())];
    let mut inputs = inputs.clone();
    let arguments = &case.arguments()[..1 + case.recipe.args.len()];
    let mut options = case_options(case, arguments).expect("options");
    let index = case.index_files().expect("index files").pop();
    let at = random.below(inputs.len() + usize::from(index.is_some()));
    match (inputs.get_mut(at), index) {
        (Some((_, bytes)), _) => {
            let fields = fields(bytes);
            damage(bytes, &fields, &mut random);
        }
        (None, Some((_, mut bytes))) => {
            let fields = index_fields(&bytes);
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
fn keep(folder: &Path, case: &Case, inputs: &Inputs) {
    fs::create_dir_all(folder).expect("a folder");
    for (name, bytes) in inputs {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    let line = format!("culd {} -o out.cubin\n", case.arguments().join(" "));
    fs::write(folder.join("run.sh"), line).expect("a file");
}

/// Damages `bytes` in one to three places.
fn damage(bytes: &mut Vec<u8>, fields: &[(usize, usize)], random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            return;
        }
        match random.below(20) {
            0 => bytes.truncate(random.below(bytes.len())),
            1..=3 => {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            _ => {
                let (at, size) = fields[random.below(fields.len())];
                if let Some(field) = bytes.get_mut(at..at + size) {
                    let value = value(field, random);
                    field.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
        }
    }
}

/// Places and sizes of the fields of all tables and records.
fn fields(bytes: &[u8]) -> Vec<(usize, usize)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let mut fields: Vec<(usize, usize)> = (4..16).map(|at| (at, 1)).collect();
    fields.extend([(16, 2), (18, 2), (24, 8), (32, 8), (40, 8), (48, 4)]);
    fields.extend((52..64).step_by(2).map(|at| (at, 2)));
    let count = usize::from(u16::from_le_bytes([bytes[60], bytes[61]]));
    for header in (0..count).map(|index| word(40) as usize + 64 * index) {
        for (at, size) in
            [(0, 4), (4, 4), (8, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)]
        {
            fields.push((header + at, size));
        }
        let kind = word(header) >> 32;
        let contents = (word(header + 24) as usize..).take(word(header + 32) as usize);
        let records: &[usize] = match kind {
            2 => &[4, 1, 1, 2, 8, 8],
            4 => &[8, 4, 4, 8],
            9 => &[8, 4, 4],
            7 | 0x7000_0001 | 0x7000_0002 => &[4],
            0x7000_0000 => &[1, 1, 2, 4],
            0x7000_0011 | 0x7000_0014 => &[4, 4, 8, 8, 8],
            _ => continue,
        };
        let (mut at, end) = (contents.clone().next().unwrap_or(0), contents.count());
        let end = at + end;
        for &size in records.iter().cycle() {
            if at + size > end {
                break;
            }
            fields.push((at, size));
            at += size;
        }
    }
    fields
}

/// The same of an index file.
fn index_fields(bytes: &[u8]) -> Vec<(usize, usize)> {
    let words = (16..bytes.len()).step_by(8).map(|at| (at, 8));
    [(0, 8), (8, 4), (12, 4)].into_iter().chain(words).collect()
}

/// A value that is likely to hurt.
fn value(field: &[u8], random: &mut Random) -> u64 {
    let mut old = [0; 8];
    old[..field.len()].copy_from_slice(field);
    let old = u64::from_le_bytes(old);
    match random.below(12) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old.wrapping_shl(1 + random.below(16) as u32),
        5 => 1 << random.below(64),
        6 => i64::MAX as u64,
        7 => u64::from(u32::MAX >> 1),
        8 => random.next(),
        9 => old ^ (1 << random.below(8 * field.len())),
        _ => random.below(48) as u64,
    }
}

/// xorshift64*: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }
}
