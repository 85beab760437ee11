//! The results of many links.

use super::link::{DamageTrial, LinkEnd};
use anyhow::{Context, Result};
use culd_testkit::random::mutate::program::Mutant;
use std::collections::BTreeMap;
use std::fmt;

/// The separator of the parts of a worker's line.
const TAB: char = '\t';
/// The most links of one kind of failure that are named.
const NAMED: usize = 8;

/// A worker's line about a link.
pub(super) fn line(seed: u64, mutant: &Mutant, trial: &DamageTrial) -> String {
    let what = trial.what.replace(['\n', TAB], " ");
    let parts = [
        seed.to_string(),
        format!("{:?}", mutant.kind),
        mutant.arch.clone(),
        trial.outcome.name().to_owned(),
        trial.wall.as_millis().to_string(),
        trial.peak_kib.to_string(),
        what,
    ];
    parts.join(&TAB.to_string())
}

/// Counts, and the links with a fault.
#[derive(Default)]
pub(super) struct EndTable {
    /// By the carrier of the damage.
    kinds: BTreeMap<String, BTreeMap<String, u64>>,
    archs: BTreeMap<String, BTreeMap<String, u64>>,
    failures: BTreeMap<String, Vec<u64>>,
    slowest_ms: u64,
    peak_kib: u64,
}

impl EndTable {
    /// Counts a link.
    pub(super) fn add(&mut self, line: &str) -> Result<()> {
        let parts: Vec<&str> = line.splitn(7, TAB).collect();
        let [seed, kind, arch, outcome, wall, peak, what] = parts[..] else {
            anyhow::bail!("a worker said '{line}'")
        };
        for (table, row) in [(&mut self.kinds, kind), (&mut self.archs, arch)] {
            *table.entry(row.to_owned()).or_default().entry(outcome.to_owned()).or_default() += 1;
        }
        if !LinkEnd::ALL.iter().any(|known| known.is_good() && known.name() == outcome) {
            let seed = seed.parse().context("a seed")?;
            self.failures.entry(format!("{outcome}: {what}")).or_default().push(seed);
        }
        self.slowest_ms = self.slowest_ms.max(wall.parse()?);
        self.peak_kib = self.peak_kib.max(peak.parse()?);
        Ok(())
    }

    /// The number of links with a fault.
    pub(super) fn failures(&self) -> usize {
        self.failures.values().map(Vec::len).sum()
    }
}

impl fmt::Display for EndTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rows(f, "damage", &self.kinds)?;
        writeln!(f)?;
        rows(f, "target", &self.archs)?;
        let peak = self.peak_kib / 1024;
        writeln!(f, "\nslowest link {} ms, most memory {peak} MiB", self.slowest_ms)?;
        for (what, seeds) in &self.failures {
            let named: Vec<String> = seeds.iter().take(NAMED).map(u64::to_string).collect();
            writeln!(f, "{} x {what}; seeds {}", seeds.len(), named.join(" "))?;
        }
        Ok(())
    }
}

fn rows(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    table: &BTreeMap<String, BTreeMap<String, u64>>,
) -> fmt::Result {
    write!(f, "| {title:8} | {:>8} |", "links")?;
    for outcome in LinkEnd::ALL {
        write!(f, " {:>9} |", outcome.name())?;
    }
    writeln!(f)?;
    writeln!(f, "|---|{}", "---:|".repeat(1 + LinkEnd::ALL.len()))?;
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for counts in table.values() {
        for (outcome, count) in counts {
            *all.entry(outcome.clone()).or_default() += count;
        }
    }
    for (row, counts) in table.iter().chain([(&"all".to_owned(), &all)]) {
        write!(f, "| {row:8} | {:>8} |", counts.values().sum::<u64>())?;
        for outcome in LinkEnd::ALL {
            write!(f, " {:>9} |", counts.get(outcome.name()).copied().unwrap_or(0))?;
        }
        writeln!(f)?;
    }
    Ok(())
}
