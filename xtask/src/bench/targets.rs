//! The targets that were reached.
//!
//! In: the rows of a run. Out: a table of ratios of wall time and peak memory with the targets, and
//! the growth of links. The targets are those of docs/PERFORMANCE.md.

use super::report::{BenchRow, shown_ratio, wall};

/// Targets of one case.
struct SpeedTarget {
    case: &'static str,
    one: SpeedLimit,
    /// With two threads; `None` if there is too little work to share.
    two: Option<f64>,
}

/// The most that a link may take.
enum SpeedLimit {
    /// Of nvlink's wall time.
    Ratio(f64),
    /// Milliseconds, where nvlink does not end.
    Milliseconds(f64),
}

const fn ratio(case: &'static str, one: f64, two: Option<f64>) -> SpeedTarget {
    SpeedTarget { case, one: SpeedLimit::Ratio(one), two }
}

const TARGETS: [SpeedTarget; 15] = [
    ratio("tiny", 0.50, None),
    ratio("tiny-cudadevrt", 0.30, None),
    ratio("many1000", 0.12, Some(0.08)),
    ratio("many3000", 0.05, Some(0.035)),
    ratio("many1000-sm_100", 0.01, None),
    ratio("functions-sm_100", 0.01, None),
    ratio("deepchain", 0.025, None),
    ratio("paths14", 0.015, None),
    SpeedTarget { case: "paths40", one: SpeedLimit::Milliseconds(10.0), two: None },
    ratio("relocs", 0.20, Some(0.14)),
    ratio("bigcode", 0.40, Some(0.28)),
    ratio("debug_g", 0.35, Some(0.28)),
    ratio("xindex", 0.12, Some(0.08)),
    ratio("archive", 0.18, Some(0.13)),
    ratio("zfat", 0.22, Some(0.16)),
];

/// The limits for the growth of larger links.
const GROWTH: [(&str, &str, f64); 2] =
    [("many1000", "many3000", 3.3), ("many3000", "many10000", 3.7)];

/// With two threads, no link may take longer than with one, within the accuracy of the measurement.
const SLOWER: f64 = 1.03;

/// The limit of a link's memory in bytes.
fn memory_target(row: &BenchRow) -> f64 {
    match row.name {
        "bigcode" => 1.1 * row.bytes_in as f64,
        _ => 1.5 * row.bytes_in as f64 + 8e6,
    }
}

fn mark(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// The table, and a line for each pair of cases that grow.
pub(super) fn table(rows: &[BenchRow]) -> String {
    let mut text =
        "| case | one thread | target | | two threads | target | | MB in memory | target | |\n\
                    |---|--:|--:|---|--:|--:|---|--:|--:|---|\n"
            .to_owned();
    for target in &TARGETS {
        if let Some(row) = rows.iter().find(|row| row.name == target.case) {
            text.push_str(&line(target, row));
        }
    }
    let time = |name: &str| rows.iter().find(|row| row.name == name).map(|row| wall(&row.one));
    for (small, large, most) in GROWTH {
        if let (Some(few), Some(many)) = (time(small), time(large)) {
            let growth = many / few;
            let mark = mark(growth <= most);
            text.push_str(&format!(
                "\n{large} takes {growth:.2} times as long as {small}, target {most}: {mark}.\n"
            ));
        }
    }
    text
}

fn line(target: &SpeedTarget, row: &BenchRow) -> String {
    let [one, two] = row.ratios;
    let (own, most, met) = match target.one {
        SpeedLimit::Ratio(most) => (shown_ratio(one), most.to_string(), one.map(|one| one <= most)),
        SpeedLimit::Milliseconds(most) => {
            let time = wall(&row.one);
            (format!("{time:.1} ms"), format!("{most} ms"), Some(time <= most))
        }
    };
    let slower = wall(&row.two) > SLOWER * wall(&row.one);
    let (most_two, met_two) = match target.two {
        Some(most) => (most.to_string(), two.map(|two| two <= most && !slower)),
        None => ("not slower".to_owned(), Some(!slower)),
    };
    let memory = row.one.peak_kib as f64 * 1024.0;
    let most_memory = memory_target(row);
    let cells = [
        row.name.to_owned(),
        own,
        most,
        met.map_or("—", mark).to_owned(),
        shown_ratio(two),
        most_two,
        met_two.map_or("—", mark).to_owned(),
        format!("{:.1}", memory / 1e6),
        format!("{:.1}", most_memory / 1e6),
        mark(memory <= most_memory).to_owned(),
    ];
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;
    use culd_testkit::scale::case;

    #[test]
    fn targets_are_of_cases() {
        assert!(TARGETS.iter().all(|target| case(target.case).is_some()));
        assert!(GROWTH.iter().all(|pair| case(pair.0).is_some() && case(pair.1).is_some()));
    }

    #[test]
    fn reached_targets_are_reported() {
        let text = table(&[row("many1000", 10), row("many3000", 34)]);
        assert!(text.contains("| many1000 | 0.100 | 0.12 | met | 0.100 | 0.08 | missed | 2.1 |"));
        assert!(text.contains("| many3000 | 0.340 | 0.05 | missed |"));
        assert!(
            text.ends_with(
                "\nmany3000 takes 3.40 times as long as many1000, target 3.3: missed.\n"
            )
        );
        let widths: Vec<usize> = text.lines().take(4).map(|line| line.split('|').count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]));
    }
}
