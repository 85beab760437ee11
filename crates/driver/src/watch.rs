//! Times of phases, and counts.
//!
//! In: phases as they end, the linked cubin's counts. Out: the text of `--stats`, and the file of
//! `--trace` in the format of Chrome's trace viewer and Perfetto.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use culd_link::Counts;

/// A phase that has ended.
struct TimedPhase {
    name: String,
    /// Since the run began.
    start: Duration,
    time: Duration,
}

/// The phases of one run.
pub(crate) struct Watch {
    start: Instant,
    phases: Vec<TimedPhase>,
}

impl Watch {
    /// A watch of a run that begins now.
    pub(crate) fn start() -> Self {
        Watch { start: Instant::now(), phases: Vec::new() }
    }

    /// A phase of length `time` began at `start`.
    pub(crate) fn add(&mut self, name: &str, start: Instant, time: Duration) {
        let start = start.saturating_duration_since(self.start);
        self.phases.push(TimedPhase { name: name.to_owned(), start, time });
    }

    /// The phases so far, for a report.
    pub(crate) fn phases(&self) -> Vec<culd_report::ReportPhase> {
        let phases = self.phases.iter();
        phases
            .map(|phase| culd_report::ReportPhase::new(&*phase.name, millis(phase.time)))
            .collect()
    }

    /// The lines of `--stats` about the run: memory, and times of phases.
    pub(crate) fn stats(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(kib) =
            peak_kib(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
        {
            lines.push(format!("{kib:>12}  KiB of memory at most"));
        }
        let phases = self.phases.iter();
        lines
            .extend(phases.map(|phase| format!("{:>12.3}  ms {}", millis(phase.time), phase.name)));
        lines
    }

    /// The contents of `--trace`.
    pub(crate) fn trace(&self) -> String {
        let mut text = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
        for (place, TimedPhase { name, start, time }) in self.phases.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            // Names are culd's own, so they need no escapes.
            let _ = write!(
                text,
                "{comma}\n{{\"name\":\"{name}\",\"cat\":\"link\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\
                 \"ts\":{:.3},\"dur\":{:.3}}}",
                1e3 * millis(*start),
                1e3 * millis(*time)
            );
        }
        text + "\n]}\n"
    }
}

/// The lines of `--stats` about a link that culd made.
pub(crate) fn link_stats(input_bytes: u64, counts: &Counts) -> Vec<String> {
    vec![
        format!("{:>12}  input bytes in {} cubins", input_bytes, counts.objects),
        output_stats(counts.bytes),
        format!("{:>12}  sections", counts.sections),
        format!("{:>12}  symbols", counts.symbols),
        format!("{:>12}  functions", counts.functions),
        format!("{:>12}  relocations applied", counts.applied),
        format!("{:>12}  relocations kept", counts.kept),
    ]
}

/// The line of `--stats` about the output.
pub(crate) fn output_stats(bytes: u64) -> String {
    format!("{bytes:>12}  output bytes")
}

fn millis(time: Duration) -> f64 {
    // Of seconds it would be one of 1.2060000000000002.
    time.as_nanos() as f64 / 1e6
}

/// The most memory of the process, from the system's text about it.
fn peak_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_an_event_for_each_phase() {
        let mut watch = Watch::start();
        let start = watch.start;
        watch.add("merge", start + Duration::from_millis(1), Duration::from_micros(2500));
        watch.add("write", start + Duration::from_millis(4), Duration::from_micros(500));
        let trace = watch.trace();
        assert!(trace.starts_with("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{"));
        assert!(trace.contains("\"name\":\"merge\",\"cat\":\"link\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1000.000,\"dur\":2500.000},\n"));
        assert!(trace.ends_with("\"ts\":4000.000,\"dur\":500.000}\n]}\n"));
        let counts = Counts { objects: 3, kept: 7, ..Counts::default() };
        let stats = link_stats(1000, &counts);
        assert_eq!(stats[0], "        1000  input bytes in 3 cubins");
        assert!(stats.contains(&"           7  relocations kept".to_owned()));
        assert_eq!(watch.stats().last().unwrap(), "       0.500  ms write");
    }

    #[test]
    fn the_peak_is_read() {
        assert_eq!(peak_kib("Name:\tculd\nVmHWM:\t    5120 kB\n"), Some(5120));
        assert_eq!(peak_kib(""), None);
    }
}
