//! The results of comparisons: counts in a table, or lines like those of cargo's tests.

use culd_testkit::reference::compare::trial::Verdict;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::AddAssign;
use std::process::ExitCode;

/// Comparisons by their results.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VerdictCounts {
    pub(super) identical: usize,
    pub(super) same_error: usize,
    /// Different, or not as expected.
    pub(super) failed: usize,
    /// Links without a comparison: nvlink crashed, or the difference is a known one.
    pub(super) no_verdict: usize,
    pub(super) not_compiled: usize,
}

impl VerdictCounts {
    /// One comparison.
    pub(super) fn of(verdict: &Verdict) -> Self {
        let mut counts = VerdictCounts::default();
        match verdict {
            Verdict::Identical(_) => counts.identical = 1,
            Verdict::SameError(_) => counts.same_error = 1,
            Verdict::Different(_) => counts.failed = 1,
            Verdict::NoVerdict(_) => counts.no_verdict = 1,
            Verdict::NotCompiled(_) => counts.not_compiled = 1,
        }
        counts
    }

    pub(super) fn identical(count: usize) -> Self {
        VerdictCounts { identical: count, ..VerdictCounts::default() }
    }

    pub(super) fn same_error(count: usize) -> Self {
        VerdictCounts { same_error: count, ..VerdictCounts::default() }
    }

    pub(super) fn failed(count: usize) -> Self {
        VerdictCounts { failed: count, ..VerdictCounts::default() }
    }

    pub(super) fn no_verdict(count: usize) -> Self {
        VerdictCounts { no_verdict: count, ..VerdictCounts::default() }
    }

    /// One comparison: identical, or failed.
    pub(super) fn same(is_same: bool) -> Self {
        if is_same { VerdictCounts::identical(1) } else { VerdictCounts::failed(1) }
    }

    fn agreeing(self) -> usize {
        self.identical + self.same_error
    }

    fn all(self) -> usize {
        self.agreeing() + self.failed + self.no_verdict + self.not_compiled
    }
}

impl AddAssign for VerdictCounts {
    fn add_assign(&mut self, other: Self) {
        self.identical += other.identical;
        self.same_error += other.same_error;
        self.failed += other.failed;
        self.no_verdict += other.no_verdict;
        self.not_compiled += other.not_compiled;
    }
}

/// A table of counts by row and, if a suite has them, by column.
#[derive(Debug)]
pub(super) struct Tally {
    /// The titles of rows and of counts.
    titles: [&'static str; 2],
    cells: BTreeMap<(String, String), VerdictCounts>,
}

impl Tally {
    /// A table whose rows are `rows` each (families, topics), of counted `things` (programs,
    /// links).
    pub(super) fn new(rows: &'static str, things: &'static str) -> Self {
        Tally { titles: [rows, things], cells: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, row: &str, column: &str, counts: VerdictCounts) {
        *self.cells.entry((row.to_owned(), column.to_owned())).or_default() += counts;
    }

    /// The sum of the cells that `test` takes, by row and column.
    pub(super) fn sum(&self, test: impl Fn(&str, &str) -> bool) -> VerdictCounts {
        let mut sum = VerdictCounts::default();
        let cells = self.cells.iter().filter(|((row, column), _)| test(row, column));
        cells.for_each(|(_, &counts)| sum += counts);
        sum
    }

    pub(super) fn total(&self) -> VerdictCounts {
        self.sum(|_, _| true)
    }

    /// A line for each row and one for all. Columns show the number of equal links of those with a
    /// verdict.
    pub(super) fn table(&self) -> String {
        let mut rows: Vec<&str> = self.cells.keys().map(|key| key.0.as_str()).collect();
        rows.dedup();
        let mut columns: Vec<&str> = self.cells.keys().map(|key| key.1.as_str()).collect();
        columns.retain(|column| !column.is_empty());
        columns.sort_by_key(|column| (column.len(), *column));
        columns.dedup();
        let [title, things] = self.titles;
        let mut text = format!(
            "| {title} | {things} | identical | same error | failed | no verdict | not compiled |"
        );
        columns.iter().for_each(|column| _ = write!(text, " {column} |"));
        let _ = writeln!(text, "\n|---{}|", "|--:".repeat(6 + columns.len()));
        for row in rows.iter().map(|row| Some(*row)).chain([None]) {
            let of_row = |name: &str| row.is_none_or(|row| row == name);
            let all = self.sum(|name, _| of_row(name));
            let VerdictCounts { identical, same_error, failed, no_verdict, not_compiled } = all;
            let name = row.unwrap_or("all");
            let _ = write!(
                text,
                "| {name} | {} | {identical} | {same_error} | {failed} | {no_verdict} | {not_compiled} |",
                all.all()
            );
            for column in &columns {
                let cell = self.sum(|name, other| of_row(name) && other == *column);
                let _ = write!(text, " {}/{} |", cell.agreeing(), cell.agreeing() + cell.failed);
            }
            text.push('\n');
        }
        text
    }

    /// Failure if something failed.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.total().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Checks that are reported one by one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Checks {
    passed: usize,
    failed: usize,
}

impl Checks {
    /// Prints a check, and its fault if it has one.
    pub(super) fn add(&mut self, line: &str, problem: Option<&str>) {
        match problem {
            None => {
                self.passed += 1;
                println!("ok     {line}");
            }
            Some(problem) => {
                self.failed += 1;
                println!("FAILED {line}: {problem}");
            }
        }
    }

    /// Prints the sums and returns failure if a check failed.
    pub(super) fn end(self) -> ExitCode {
        println!("\ntest result: {} passed; {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_all() {
        let mut tally = Tally::new("family", "programs");
        tally.add("a", "sm_90", VerdictCounts::identical(3));
        tally.add("a", "sm_100", VerdictCounts::failed(1));
        tally.add("b", "sm_90", VerdictCounts::no_verdict(1));
        let table = "\
            | family | programs | identical | same error | failed | no verdict | not compiled | sm_90 | sm_100 |\n\
            |---|--:|--:|--:|--:|--:|--:|--:|--:|\n\
            | a | 4 | 3 | 0 | 1 | 0 | 0 | 3/3 | 0/1 |\n\
            | b | 1 | 0 | 0 | 0 | 1 | 0 | 0/0 | 0/0 |\n\
            | all | 5 | 3 | 0 | 1 | 1 | 0 | 3/3 | 0/1 |\n";
        assert_eq!(tally.table(), table);
    }
}
