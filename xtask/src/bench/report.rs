//! The tables of `xtask bench`.

use super::measure::Usage;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

pub(crate) const TITLES: &str = "\
| case | files | MB in | MB out | nvlink ms | culd ms | ratio | two threads ms | ratio | CPU ms | CPU ratio | nvlink MiB | culd MiB | of input | floor ms | of floor | outputs |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|";

/// The results of a case.
pub(crate) struct BenchRow {
    pub(crate) name: &'static str,
    pub(crate) files: usize,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// `None` if it did not end in time.
    pub(crate) nvlink: Option<Usage>,
    pub(crate) one: Usage,
    pub(crate) two: Usage,
    pub(crate) floor: Option<Usage>,
    /// Medians of the ratios of wall times of one round, with one thread and with two.
    pub(crate) ratios: [Option<f64>; 2],
    /// Milliseconds by phase.
    pub(crate) phases: Vec<PhaseTime>,
    pub(crate) difference: Option<String>,
}

/// Milliseconds.
pub(crate) fn wall(usage: &Usage) -> f64 {
    usage.wall.as_secs_f64() * 1e3
}

fn cpu(usage: &Usage) -> f64 {
    usage.cpu.as_secs_f64() * 1e3
}

fn mebibytes(usage: &Usage) -> f64 {
    usage.peak_kib as f64 / 1024.0
}

/// A ratio, if there is one.
pub(crate) fn shown_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "—".to_owned(), |ratio| format!("{ratio:.3}"))
}

impl BenchRow {
    pub(crate) fn text(&self) -> String {
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let mut cells = vec![
            self.name.to_owned(),
            self.files.to_string(),
            megabytes(self.bytes_in),
            megabytes(self.bytes_out),
        ];
        if let Some(difference) = &self.difference {
            cells.resize(16, String::new());
            cells.push(difference.replace('|', "/"));
            return format!("| {} |", cells.join(" | "));
        }
        let number = |value: f64| format!("{value:.1}");
        let ratio =
            |ours: f64, theirs: Option<f64>| shown_ratio(theirs.map(|theirs| ours / theirs));
        let theirs = |figure: fn(&Usage) -> f64| self.nvlink.as_ref().map(figure);
        let shown = |value: Option<f64>| value.map_or_else(|| "—".to_owned(), number);
        cells.extend([
            shown(theirs(wall)),
            number(wall(&self.one)),
            shown_ratio(self.ratios[0]),
            number(wall(&self.two)),
            shown_ratio(self.ratios[1]),
            number(cpu(&self.one)),
            ratio(cpu(&self.one), theirs(cpu)),
            shown(theirs(mebibytes)),
            number(mebibytes(&self.one)),
            format!("{:.2}", mebibytes(&self.one) * 1_048_576.0 / self.bytes_in as f64),
            shown(self.floor.as_ref().map(wall)),
            ratio(wall(&self.one), self.floor.as_ref().map(wall)),
            if self.nvlink.is_some() { "equal" } else { "nvlink did not end" }.to_owned(),
        ]);
        format!("| {} |", cells.join(" | "))
    }
}

/// A row of one of culd's phases in a table of `-time`.
#[derive(Debug, PartialEq)]
pub(crate) struct PhaseTime {
    phase: String,
    millis: f64,
}

/// The rows of culd's own phases in the table at `path`.
pub(crate) fn read_phases(path: &Path) -> Result<Vec<PhaseTime>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(phases_of(&text))
}

fn phases_of(text: &str) -> Vec<PhaseTime> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let &[_, phase, _, _, _, "culd", time, "ms"] = cells.as_slice() else { return None };
        Some(PhaseTime { phase: phase.to_owned(), millis: time.parse().ok()? })
    };
    text.lines().filter_map(row).collect()
}

/// The time of each phase of one run with one thread.
pub(crate) fn phases(rows: &[BenchRow]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let names: Vec<&str> = first.phases.iter().map(|row| row.phase.as_str()).collect();
    let mut text = format!("| phases, ms | {} |\n|---|", names.join(" | "));
    names.iter().for_each(|_| text.push_str("--:|"));
    for row in rows {
        let time = |name: &&str| row.phases.iter().find(|time| time.phase == **name);
        let times = names.iter().map(|name| time(name).map_or(0.0, |time| time.millis));
        let times: Vec<String> = times.map(|time| format!("{time:.1}")).collect();
        text.push_str(&format!("\n| {} | {} |", row.name, times.join(" | ")));
    }
    text + "\n"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    pub(crate) fn row(name: &'static str, millis: u64) -> BenchRow {
        let usage = |millis| Usage {
            wall: Duration::from_millis(millis),
            cpu: Duration::from_millis(millis),
            peak_kib: 2048,
        };
        BenchRow {
            name,
            files: 1,
            bytes_in: 1_000_000,
            bytes_out: 2_000_000,
            nvlink: Some(usage(100)),
            one: usage(millis),
            two: usage(millis),
            floor: Some(usage(5)),
            ratios: [Some(millis as f64 / 100.0); 2],
            phases: vec![PhaseTime { phase: "merge".to_owned(), millis: 1.5 }],
            difference: None,
        }
    }

    #[test]
    fn rows_have_as_many_cells_as_the_title() {
        let cells = |text: &str| text.lines().next().map(|line| line.split('|').count());
        assert_eq!(cells(&row("a", 10).text()), cells(TITLES));
        assert!(row("a", 10).text().contains("| 10.0 | 0.100 |"));
        let different = BenchRow { difference: Some("byte 1 | 2".to_owned()), ..row("a", 10) };
        assert_eq!(cells(&different.text()), cells(TITLES));
        let endless = BenchRow { nvlink: None, ..row("a", 10) };
        assert!(endless.text().ends_with("| nvlink did not end |"));
    }

    #[test]
    fn phases_are_read() {
        let text = "title\nout , merge ,  , out , sm_90 , culd , 2.5000 , ms\nptx , ptxas , a ,  , sm_90 , nvlink , 1 , ms\n";
        let merge = PhaseTime { phase: "merge".to_owned(), millis: 2.5 };
        assert_eq!(phases_of(text), [merge]);
        assert!(phases(&[row("many1000", 10)]).contains("| many1000 | 1.5 |"));
    }
}
