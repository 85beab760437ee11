//! The differences between two reports.
//!
//! In: two [`Report`]s. Out: a [`Diff`], its lines, and whether it exceeds thresholds. Kernels are
//! the same if their names and targets are; several kernels of one name are compared in their
//! order.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::data::{Report, ReportFunction, ReportImage, ReportKernel};
use crate::text::grouped;

/// The size of a block for which occupancy is compared.
const THREADS: u32 = 256;

/// The differences between two reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Bytes by category, where they differ; of programs also those of the file, and of its images
    /// as they are stored.
    pub categories: Vec<Change>,
    /// Bytes of code by the file of the inputs, where they differ.
    pub files: Vec<Change>,
    /// Kernels of both, where a figure differs: one row for each figure.
    pub kernels: Vec<(String, Change)>,
    /// Kernels of the second only.
    pub came: Vec<String>,
    /// Kernels of the first only.
    pub went: Vec<String>,
    /// Bytes of all sections in the files.
    pub bytes: (u64, u64),
}

/// A figure that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The subject of the change.
    pub what: String,
    /// In the first report; `None` if it is not there, or has no limit.
    pub before: Option<u64>,
    /// In the second.
    pub after: Option<u64>,
}

/// The most that a figure may get worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    figure: Figure,
    most: f64,
    percent: bool,
}

/// A figure with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Bytes,
    Code,
    Registers,
    Stack,
    Shared,
    Occupancy,
    Came,
    Went,
}

const FIGURES: &[(&str, Figure)] = &[
    ("bytes", Figure::Bytes),
    ("code", Figure::Code),
    ("registers", Figure::Registers),
    ("stack", Figure::Stack),
    ("shared", Figure::Shared),
    ("occupancy", Figure::Occupancy),
    ("came", Figure::Came),
    ("went", Figure::Went),
];

/// Error: the text is not a threshold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no threshold: bytes, code, registers, stack, shared, occupancy, came or went, '=' and a number or a number with '%'"
)]
pub struct BadThreshold(String);

impl FromStr for Threshold {
    type Err = BadThreshold;

    fn from_str(text: &str) -> Result<Self, BadThreshold> {
        let bad = || BadThreshold(text.to_owned());
        let (name, number) = text.split_once('=').ok_or_else(bad)?;
        let (_, figure) = *FIGURES.iter().find(|(known, _)| *known == name).ok_or_else(bad)?;
        let (number, percent) = match number.strip_suffix('%') {
            Some(number) => (number, true),
            None => (number, false),
        };
        let most: f64 = number.parse().map_err(|_| bad())?;
        if !most.is_finite() || most < 0.0 {
            return Err(bad());
        }
        Ok(Threshold { figure, most, percent })
    }
}

impl Threshold {
    /// The change, if it is worse than the threshold allows.
    fn exceeded(&self, change: &Change) -> bool {
        let (before, after) = match (change.before, change.after) {
            (Some(before), Some(after)) => (before as f64, after as f64),
            // A stack without a limit is more than any number.
            (Some(_), None) => return self.figure == Figure::Stack,
            _ => return false,
        };
        let worse = match self.figure {
            Figure::Occupancy => before - after,
            _ => after - before,
        };
        let most = if self.percent { before * self.most / 100.0 } else { self.most };
        worse > most
    }
}

impl Diff {
    /// The differences from `before` to `after`.
    pub fn of(before: &Report, after: &Report) -> Self {
        let mut diff = Diff {
            categories: changes(&categories(before), &categories(after)),
            files: changes(&files(before), &files(after)),
            bytes: (bytes(before), bytes(after)),
            ..Diff::default()
        };
        let (old, new) = (kernels(before), kernels(after));
        for (key, (image, function, kernel)) in &old {
            let name = key.shown(function);
            match new.get(key) {
                None => diff.went.push(name),
                Some(&(new_image, new_function, new_kernel)) => {
                    let pair = [
                        figures(image, function, kernel),
                        figures(new_image, new_function, new_kernel),
                    ];
                    let [own, other] = pair;
                    let changed = own.into_iter().zip(other).filter(|(a, b)| a.1 != b.1);
                    diff.kernels.extend(changed.map(|((what, before), (_, after))| {
                        (name.clone(), Change { what: what.to_owned(), before, after })
                    }));
                }
            }
        }
        let came = new.iter().filter(|(key, _)| !old.contains_key(key));
        diff.came = came.map(|(key, (_, function, _))| key.shown(function)).collect();
        diff
    }

    /// A line for each threshold that is exceeded, with what exceeds it.
    pub fn exceeded(&self, thresholds: &[Threshold]) -> Vec<String> {
        let mut lines = Vec::new();
        for threshold in thresholds {
            let name = FIGURES.iter().find(|(_, figure)| *figure == threshold.figure);
            let name = name.map_or("", |(name, _)| name);
            let mut exceeds = |of: &str, change: &Change| {
                if threshold.exceeded(change) {
                    lines.push(format!("{name}: {of}{change}"));
                }
            };
            let counted = |list: &[String]| Change {
                what: "kernels".to_owned(),
                before: Some(0),
                after: Some(list.len() as u64),
            };
            match threshold.figure {
                Figure::Bytes => exceeds(
                    "",
                    &Change {
                        what: "bytes".to_owned(),
                        before: Some(self.bytes.0),
                        after: Some(self.bytes.1),
                    },
                ),
                Figure::Code => {
                    let all = self.categories.iter().filter(|change| change.what == name);
                    all.for_each(|change| exceeds("all ", change));
                    self.of_kernels(name).for_each(|(kernel, change)| {
                        exceeds(&format!("{kernel}: "), change);
                    });
                }
                Figure::Came => exceeds("", &counted(&self.came)),
                Figure::Went => exceeds("", &counted(&self.went)),
                _ => {
                    self.of_kernels(name).for_each(|(kernel, change)| {
                        exceeds(&format!("{kernel}: "), change);
                    });
                }
            }
        }
        lines
    }

    /// The changes of a figure of kernels.
    fn of_kernels(&self, figure: &str) -> impl Iterator<Item = &(String, Change)> {
        self.kernels.iter().filter(move |(_, change)| change.what == figure)
    }

    /// The lines of `culd report diff`.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let total = Change {
            what: "bytes in the file".to_owned(),
            before: Some(self.bytes.0),
            after: Some(self.bytes.1),
        };
        if self.bytes.0 != self.bytes.1 {
            lines.push(total.to_string());
        }
        lines.extend(self.categories.iter().map(|change| format!("  {change}")));
        let mut list = |title: &str, rows: Vec<String>| {
            if !rows.is_empty() {
                lines.push(format!("{title} ({})", rows.len()));
                lines.extend(rows.into_iter().map(|row| format!("  {row}")));
            }
        };
        list("Code by file", self.files.iter().map(ToString::to_string).collect());
        list("Kernels that came", self.came.clone());
        list("Kernels that went", self.went.clone());
        let changed = self.kernels.iter().map(|(kernel, change)| format!("{kernel}: {change}"));
        list("Kernels that changed", changed.collect());
        if lines.is_empty() {
            lines.push("no difference".to_owned());
        }
        lines
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number_text = |number: Option<u64>| number.map_or("-".to_owned(), grouped);
        write!(f, "{} {} -> {}", self.what, number_text(self.before), number_text(self.after))?;
        if let (Some(before), Some(after)) = (self.before, self.after) {
            let sign = if after >= before { '+' } else { '-' };
            write!(f, " ({sign}{}", grouped(after.abs_diff(before)))?;
            if before != 0 {
                let percent = 100.0 * after.abs_diff(before) as f64 / before as f64;
                write!(f, ", {sign}{percent:.1} %")?;
            }
            write!(f, ")")?;
        }
        Ok(())
    }
}

/// The key of a kernel: target, name, number among those of one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct KernelKey {
    name: String,
    target: String,
    number: usize,
}

impl KernelKey {
    fn shown(&self, function: &ReportFunction) -> String {
        format!("{} ({})", function.shown(), self.target)
    }
}

fn kernels(report: &Report) -> BTreeMap<KernelKey, (&ReportImage, &ReportFunction, &ReportKernel)> {
    let mut all = BTreeMap::new();
    let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for image in &report.images {
        for (_, function, kernel) in image.kernels() {
            let next = numbers.entry((&function.name, &image.target)).or_default();
            let key = KernelKey {
                name: function.name.clone(),
                target: image.target.clone(),
                number: *next,
            };
            *next += 1;
            all.insert(key, (image, function, kernel));
        }
    }
    all
}

/// The figures of a kernel that are compared.
fn figures(
    image: &ReportImage,
    function: &ReportFunction,
    kernel: &ReportKernel,
) -> [(&'static str, Option<u64>); 5] {
    let all = image.occupancy(kernel);
    let occupancy = all.iter().find(|one| one.threads == THREADS);
    let occupancy = occupancy.or(all.last()).zip(image.limits.as_ref());
    let percent =
        occupancy.map(|(one, limits)| 100 * u64::from(one.warps) / u64::from(limits.warps.max(1)));
    [
        ("code", Some(function.code)),
        ("registers", function.registers.total.map(u64::from)),
        ("stack", function.stack.total.map(u64::from)),
        ("shared", Some(kernel.shared)),
        ("occupancy", percent),
    ]
}

fn bytes(report: &Report) -> u64 {
    let sections = report.images.iter().flat_map(ReportImage::section_bytes);
    sections.filter(|(category, _)| !category.is_nobits()).map(|(_, bytes)| bytes).sum()
}

fn categories(report: &Report) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (category, bytes) in report.images.iter().flat_map(ReportImage::section_bytes) {
        *sums.entry(category.name().to_owned()).or_default() += bytes;
    }
    // A program has images that are packed, or have no sections.
    if let Some(file) = &report.file {
        sums.insert("the program".to_owned(), file.bytes);
        for image in &report.images {
            let what = format!("stored {} for {}", image.kind, image.target);
            *sums.entry(what).or_default() += image.stored;
        }
    }
    sums
}

fn files(report: &Report) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for function in report.images.iter().flat_map(|image| &image.functions) {
        if let Some(input) = function.input.and_then(|input| report.inputs.get(input)) {
            *sums.entry(input.file.clone()).or_default() += function.code;
        }
    }
    sums
}

/// The sums that are not the same in both.
fn changes(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<Change> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let change = |name: &String| Change {
        what: name.clone(),
        before: before.get(name).copied(),
        after: after.get(name).copied(),
    };
    names.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Category, File, ReportNeed, ReportSection, ReportSectionKind, ReportStack};

    fn report(kernels: &[(&str, u32, Option<u32>, u64)]) -> Report {
        let function =
            |&(name, registers, stack, code): &(&str, u32, Option<u32>, u64)| ReportFunction {
                name: name.to_owned(),
                code,
                registers: ReportNeed { total: Some(registers), ..ReportNeed::default() },
                stack: ReportStack { total: stack, ..ReportStack::default() },
                kernel: Some(Box::default()),
                ..ReportFunction::default()
            };
        let functions = kernels.iter().map(function).collect();
        let image = ReportImage { target: "sm_90".to_owned(), functions, ..ReportImage::default() };
        Report { images: vec![image], ..Report::default() }
    }

    #[test]
    fn kernels_are_held_against_each_other_by_name() {
        let before =
            report(&[("a", 32, Some(0), 100), ("b", 8, Some(8), 10), ("c", 8, Some(8), 10)]);
        let after = report(&[("c", 8, None, 10), ("d", 1, None, 1), ("a", 40, Some(0), 90)]);
        let diff = Diff::of(&before, &after);
        assert_eq!(
            (&diff.came[..], &diff.went[..]),
            (&["d (sm_90)".to_owned()][..], &["b (sm_90)".to_owned()][..])
        );
        let lines = diff.lines();
        for line in [
            "  a (sm_90): registers 32 -> 40 (+8, +25.0 %)",
            "  a (sm_90): code 100 -> 90 (-10, -10.0 %)",
            "  c (sm_90): stack 8 -> -",
        ] {
            assert!(lines.contains(&line.to_owned()), "{lines:?}");
        }
        let exceeded = |text: &str| diff.exceeded(&[text.parse().unwrap()]).len();
        assert_eq!(
            ["registers=7", "registers=8", "registers=24%", "registers=25%"].map(exceeded),
            [1, 0, 1, 0]
        );
        assert_eq!(
            ["code=0", "stack=1000", "came=0", "came=1", "went=0"].map(exceeded),
            [0, 1, 1, 0, 1]
        );
        assert_eq!(Diff::of(&before, &before).lines(), ["no difference"]);
    }

    #[test]
    fn a_program_is_compared_as_it_is_stored() {
        let program = |bytes: u64, kind: &str, stored: u64| {
            let mut image = ReportImage::new(String::new(), kind, "compute_90".to_owned());
            image.stored = stored;
            let file = File::new("p".to_owned(), "executable", bytes, stored);
            Report::of_program(file, vec![image])
        };
        let diff = Diff::of(&program(100, "ptx", 60), &program(90, "ptx", 50));
        let lines = [
            "  stored ptx for compute_90 60 -> 50 (-10, -16.7 %)",
            "  the program 100 -> 90 (-10, -10.0 %)",
        ];
        assert_eq!(diff.lines(), lines);
        let diff = Diff::of(&program(100, "ptx", 60), &program(100, "lto-ir", 60));
        assert_eq!(diff.lines().len(), 2, "{:?}", diff.lines());
    }

    #[test]
    fn code_counts_in_all_and_by_kernel() {
        let code = |bytes: u64| {
            let kind = ReportSectionKind { category: Category::Code, ..Default::default() };
            let section = ReportSection { bytes, ..Default::default() };
            let image = ReportImage {
                section_kinds: vec![kind],
                sections: vec![section],
                ..ReportImage::default()
            };
            Report { images: vec![image], ..Report::default() }
        };
        // A function that is no kernel grew.
        let diff = Diff::of(&code(100), &code(120));
        let exceeded = |text: &str| diff.exceeded(&[text.parse().unwrap()]);
        assert_eq!(exceeded("code=10%"), ["code: all code 100 -> 120 (+20, +20.0 %)"]);
        assert!(exceeded("code=20").is_empty());
    }

    #[test]
    fn invalid_thresholds_are_refused() {
        for text in
            ["", "registers", "registers=", "registers=-1", "registers=x%", "what=1", "code=inf"]
        {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }
}
