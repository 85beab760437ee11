//! `xtask mutate --differential`: makes the damaged links with both linkers.
//!
//! In: seeds, the linkers. Out: a table of results by the carrier of the damage, and the entries of
//! docs/DIFFERENCES.md that explain differences. Guaranteed: exit code 1 if a difference has no
//! entry; each such link is stored in its own folder.

use super::MutatePlan;
use crate::pool;
use crate::workspace::{self, lock};
use anyhow::Result;
use culd_testkit::random::mutate::program::{self, Mutant, MutationSource};
use culd_testkit::reference::compare::damaged::{DamageAnswer, DamageClass, compare};
use culd_testkit::reference::compare::trial::Tools;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

/// The most links of one kind that are named.
const NAMED: usize = 6;

/// Counts, and where reasons are missing.
#[derive(Default)]
struct DifferentialReport {
    kinds: BTreeMap<String, BTreeMap<DamageClass, usize>>,
    /// By class and entry.
    reasons: BTreeMap<(DamageClass, &'static str), usize>,
    unexplained: usize,
    /// By class and message, without names and numbers.
    others: BTreeMap<(DamageClass, String), Vec<u64>>,
}

/// Makes the links and prints the results.
pub(super) fn run(
    tools: &Tools,
    programs: &[MutationSource],
    plan: &MutatePlan,
) -> Result<ExitCode> {
    let report = Mutex::new(DifferentialReport::default());
    pool::run(plan.jobs, plan.seeds.clone(), |queue| {
        let dir = tempfile::tempdir()?;
        while let Some(seed) = queue.take() {
            let mutant = plan.mutant(programs, seed);
            let answer = compare(tools, &mutant, dir.path())?;
            if answer.class.needs_reason() && answer.key.is_none() {
                let kept = plan.keep.join(seed.to_string());
                store(&mutant, &answer, dir.path(), &kept)?;
                eprintln!(
                    "seed {seed} ({:?}, {}): {}: {}",
                    mutant.kind,
                    mutant.arch,
                    answer.class,
                    answer.what.lines().next().unwrap_or_default()
                );
            }
            lock(&report).add(seed, &mutant, &answer);
        }
        Ok(())
    })?;
    let report = report.into_inner().unwrap_or_default();
    print!("{}", report.text());
    Ok(if report.unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Stores a link without an explanation.
fn store(mutant: &Mutant, answer: &DamageAnswer, from: &Path, to: &Path) -> Result<()> {
    workspace::keep_tree(from, to)?;
    for folder in ["nvlink", "culd"] {
        let out: PathBuf = to.join(folder).join(program::OUTPUT);
        if out.exists() {
            fs::rename(out, to.join(format!("{folder}.cubin")))?;
        }
    }
    if let Some(damaged) = &mutant.damaged {
        fs::write(to.join("good.cubin"), &damaged.good)?;
        fs::write(to.join("damaged.cubin"), &damaged.inner)?;
    }
    let quoted = mutant.args.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    let line = quoted.collect::<Vec<_>>().join(" ");
    Ok(fs::write(to.join("what.txt"), format!("{line}\n{}: {}\n", answer.class, answer.what))?)
}

impl DifferentialReport {
    fn add(&mut self, seed: u64, mutant: &Mutant, answer: &DamageAnswer) {
        let kind = format!("{:?}", mutant.kind);
        *self.kinds.entry(kind).or_default().entry(answer.class).or_default() += 1;
        match answer.key {
            Some(key) => *self.reasons.entry((answer.class, key)).or_default() += 1,
            None if answer.class.needs_reason() => self.unexplained += 1,
            None => {}
        }
        let as_nvlink = matches!(answer.class, DamageClass::Equal | DamageClass::SameRefusal);
        if answer.key.is_none() && !as_nvlink {
            let class = (answer.class, pattern(&answer.what));
            self.others.entry(class).or_default().push(seed);
        }
    }

    fn text(&self) -> String {
        let mut text = String::from("| damage | links |");
        for class in DamageClass::ALL {
            let _ = write!(text, " {class} |");
        }
        let _ = write!(text, "\n|---|{}\n", "--:|".repeat(1 + DamageClass::ALL.len()));
        let mut all: BTreeMap<DamageClass, usize> = BTreeMap::new();
        for counts in self.kinds.values() {
            counts.iter().for_each(|(class, count)| *all.entry(*class).or_default() += count);
        }
        let all = [(&"all".to_owned(), &all)];
        for (kind, counts) in self.kinds.iter().chain(all) {
            let _ = write!(text, "| {kind} | {} |", counts.values().sum::<usize>());
            for class in DamageClass::ALL {
                let _ = write!(text, " {} |", counts.get(&class).copied().unwrap_or(0));
            }
            text.push('\n');
        }
        text.push('\n');
        for ((class, key), count) in &self.reasons {
            let _ = writeln!(text, "{count} x {class}: {key}");
        }
        let _ = writeln!(text, "{} without a reason\n", self.unexplained);
        for ((class, what), seeds) in &self.others {
            let named: Vec<String> = seeds.iter().take(NAMED).map(u64::to_string).collect();
            let mark = if class.needs_reason() { "!" } else { " " };
            let _ = writeln!(
                text,
                "{mark} {} x {class}: {what}; seeds {}",
                seeds.len(),
                named.join(" ")
            );
        }
        text
    }
}

/// A message without quoted text and numbers.
fn pattern(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    let unquoted = line.split('\'').step_by(2).collect::<Vec<_>>().join("_");
    let word = |word: &str| {
        if word.contains(|c: char| c.is_ascii_digit()) { "N".to_owned() } else { word.to_owned() }
    };
    let words: Vec<String> = unquoted.split(' ').map(word).collect();
    words.join(" ")
}
