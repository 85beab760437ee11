//! The results of a run.
//!
//! In: judged batches in any order. Out: text and the number of failures. Guaranteed: the text is
//! sorted by batch, so two runs print the same.

use super::ProbePlan;
use culd_testkit::probe::judge::UnequalCell;
use culd_testkit::probe::kinds;
use culd_testkit::probe::known::KnownDifferences;
use culd_testkit::probe::record::Answers;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

#[derive(Default)]
pub(super) struct ProbeReport {
    rows: BTreeMap<(u32, &'static str), ProbeRow>,
    answers: BTreeMap<(u32, String), Answers>,
    /// Lines of failures, by batch.
    lines: BTreeMap<(u32, String), Vec<String>>,
    /// Entries of the list that cover a cell.
    used: BTreeSet<usize>,
}

#[derive(Clone, Copy, Default)]
struct ProbeRow {
    identical: usize,
    same_error: usize,
    listed: usize,
    failed: usize,
}

impl ProbeReport {
    pub(super) fn add(
        &mut self,
        plan: &ProbePlan,
        answers: Answers,
        unequal: &[UnequalCell],
        elsewhere: Vec<(Vec<u32>, String)>,
        changed: Option<String>,
    ) {
        let batch = &answers.batch;
        let key = (batch.sm, batch.to_string());
        let row = self.rows.entry((batch.sm, batch.place.key)).or_default();
        let linked: usize = answers.groups().iter().map(Vec::len).sum();
        row.identical += linked;
        row.same_error += answers.fates.len() - answers.unequal.len() - linked;
        // Cells with the same difference have one line.
        let mut alike: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for UnequalCell { kind, nvlink, culd } in unequal {
            if let Some(entry) = plan.known.find(batch, *kind, nvlink, culd) {
                row.listed += 1;
                self.used.insert(entry);
            } else {
                row.failed += 1;
                alike.entry(format!("nvlink: {nvlink} | culd: {culd}")).or_default().push(*kind);
            }
        }
        for (group, what) in elsewhere {
            for kind in group {
                let fate = answers.fates.get(&kind).map_or("", String::as_str);
                if let Some(entry) = plan.known.find_elsewhere(batch, kind, fate, &what) {
                    row.listed += 1;
                    self.used.insert(entry);
                } else {
                    row.failed += 1;
                    alike.entry(format!("elsewhere: {what}")).or_default().push(kind);
                }
            }
        }
        if plan.fates {
            for (kind, fate) in &answers.fates {
                alike.entry(format!("both: {fate}")).or_default().push(*kind);
            }
        }
        let mut lines: Vec<String> = Vec::new();
        for (what, mut list) in alike {
            list.sort_unstable();
            lines.push(format!("types {}: {what}", kinds::text(&list)));
        }
        if let Some(changed) = changed {
            row.failed += 1;
            lines.push(changed);
        }
        self.lines.insert(key.clone(), lines);
        self.answers.insert(key, answers);
    }

    /// The answers of nvlink for a batch.
    pub(super) fn answers(&self, batch: &(u32, String)) -> Option<&Answers> {
        self.answers.get(batch)
    }

    /// Entries that cover no cell; only a whole run finds them.
    fn unused<'l>(
        &self,
        known: &'l KnownDifferences,
        whole: bool,
    ) -> impl Iterator<Item = String> + 'l {
        let used = self.used.clone();
        let entries = known.entries().iter().enumerate().filter(move |_| whole);
        entries.filter(move |(at, _)| !used.contains(at)).map(|(_, entry)| entry.to_string())
    }

    pub(super) fn failures(&self, known: &KnownDifferences, whole: bool) -> usize {
        self.rows.values().map(|row| row.failed).sum::<usize>() + self.unused(known, whole).count()
    }

    pub(super) fn text(&self, known: &KnownDifferences, whole: bool) -> String {
        let mut text = String::new();
        for ((sm, batch), lines) in &self.lines {
            for line in lines {
                let _ = writeln!(text, "sm_{sm} {batch}: {line}");
            }
        }
        for entry in self.unused(known, whole) {
            let _ = writeln!(text, "differences.toml: nothing is like this any more: {entry}");
        }
        text.push_str("| arch | place | cells | identical | same error | listed | failed |\n");
        text.push_str("|---|---|--:|--:|--:|--:|--:|\n");
        let mut all = ProbeRow::default();
        for ((sm, place), row) in &self.rows {
            row.write(&mut text, &format!("sm_{sm} | {place}"));
            all.identical += row.identical;
            all.same_error += row.same_error;
            all.listed += row.listed;
            all.failed += row.failed;
        }
        all.failed += self.unused(known, whole).count();
        all.write(&mut text, "all |");
        text
    }
}

impl ProbeRow {
    fn write(&self, text: &mut String, title: &str) {
        let ProbeRow { identical, same_error, listed, failed } = *self;
        let cells = identical + same_error + listed + failed;
        let _ = writeln!(
            text,
            "| {title} | {cells} | {identical} | {same_error} | {listed} | {failed} |"
        );
    }
}
