//! The report as text for a terminal of 100 columns: the ten largest of each list.
//!
//! In: a [`Report`]. Out: lines. Guaranteed: no line has a character that a terminal obeys.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use crate::data::{
    Category, Report, ReportFunction, ReportImage, ReportInput, ReportKernel, ReportLimit,
};
use crate::link::demangled;
use crate::shown::{LINES, RowCounts, first_by, function_key, kernel_key};

/// Columns of a line.
const WIDTH: usize = 100;
/// Columns of the line of a kernel, which has its name behind eight figures.
const KERNEL_WIDTH: usize = 160;
/// The size of a block for which the occupancy stands in a line.
const THREADS: u32 = 256;

impl Report {
    /// The text form.
    pub fn to_text(&self) -> String {
        self.to_text_of(&RowCounts::of_all(self))
    }

    /// The text form, if the images have only the rows that it shows ([`ReportImage::read_shown`]).
    /// `counts` has the numbers of all rows, for each image.
    pub fn to_text_of(&self, counts: &[RowCounts]) -> String {
        let mut text = Text::default();
        let sum = |count: fn(&RowCounts) -> usize| counts.iter().map(count).sum();
        let all = RowCounts {
            kernels: sum(|counts| counts.kernels),
            functions: sum(|counts| counts.functions),
            variables: sum(|counts| counts.variables),
        };
        self.head(&all, &mut text);
        if self.link.is_none() {
            text.images(self, counts);
        }
        text.kernels(self, all.kernels);
        text.functions(self, all.functions);
        text.inputs(self);
        text.copies(self);
        text.removed(self);
        text.0
    }

    fn head(&self, rows: &RowCounts, text: &mut Text) {
        if let Some(link) = &self.link {
            let output = if link.output.is_empty() { "the output" } else { &link.output };
            text.line(&format!("{output}: {}, follows nvlink {}", link.target, link.dialect));
        }
        if let Some(file) = &self.file {
            let bytes = (grouped(file.bytes), grouped(file.device_bytes));
            text.line(&format!(
                "{}: {} of {} bytes, {} of them device code",
                file.name, file.kind, bytes.0, bytes.1
            ));
        }
        let mut sums: BTreeMap<Category, u64> = BTreeMap::new();
        for (category, bytes) in self.images.iter().flat_map(ReportImage::section_bytes) {
            *sums.entry(category).or_default() += bytes;
        }
        let mut sums: Vec<(Category, u64)> = sums.into_iter().filter(|sum| sum.1 != 0).collect();
        sums.sort_by_key(|sum| Reverse(sum.1));
        let words: Vec<String> = sums
            .iter()
            .map(|(what, bytes)| format!("{} {}", what.name(), grouped(*bytes)))
            .collect();
        text.wrapped(&words);
        let mut words = vec![
            counted(rows.kernels, "kernel"),
            counted(rows.functions, "function"),
            counted(rows.variables, "variable"),
        ];
        if self.link.is_some() {
            let removed: u64 = self.removed.iter().map(|removed| removed.bytes).sum();
            let copies: usize = self.copies.iter().map(|copies| copies.dropped.len()).sum();
            let wasted: u64 = self.copies.iter().map(|copies| copies.wasted()).sum();
            words.push(counted(self.inputs.len(), "input"));
            words.push(format!("{} removed ({} bytes)", self.removed.len(), grouped(removed)));
            let what = if copies == 1 { "copy" } else { "copies" };
            words.push(format!("{copies} {what} dropped ({} bytes)", grouped(wasted)));
        }
        text.wrapped(&words);
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// A line, cut to the usual width.
    fn line(&mut self, line: &str) {
        self.line_of(WIDTH, line);
    }

    /// A line, cut to a width.
    fn line_of(&mut self, width: usize, line: &str) {
        let line = culd_text::escaped(line);
        self.0.push_str(clipped(line.trim_end(), width).as_ref());
        self.0.push('\n');
    }

    /// Words in lines of the width.
    fn wrapped(&mut self, words: &[String]) {
        let mut line = String::from(" ");
        for (place, word) in words.iter().enumerate() {
            let comma = if place + 1 == words.len() { "" } else { "," };
            if line.len() + word.len() + 2 > WIDTH {
                self.line(&line);
                line = String::from(" ");
            }
            let _ = write!(line, " {word}{comma}");
        }
        self.line(&line);
    }

    /// The head of a list of `count` things.
    fn title(&mut self, what: &str, count: usize, order: &str, columns: &str) {
        let shown = count.min(LINES);
        let part = if shown == count { count.to_string() } else { format!("{shown} of {count}") };
        self.line("");
        self.line(&format!("{what} ({part}), {order}"));
        self.line(columns);
    }

    fn images(&mut self, report: &Report, counts: &[RowCounts]) {
        if report.images.is_empty() {
            return;
        }
        let mut all: Vec<(&ReportImage, &RowCounts)> = report.images.iter().zip(counts).collect();
        all.sort_by_key(|(image, _)| Reverse(image.stored));
        let columns = "       stored     unpacked  how   kind    target        kernels  place";
        self.title("Images", all.len(), "most bytes first", columns);
        for (image, counts) in all.into_iter().take(LINES) {
            let how = if image.compression.is_empty() { "-" } else { &image.compression };
            self.line(&format!(
                "  {:>11}  {:>11}  {how:<5} {:<7} {:<13} {:>7}  {}",
                grouped(image.stored),
                grouped(image.bytes),
                image.kind,
                image.target,
                counts.kernels,
                image.place
            ));
        }
    }

    fn kernels(&mut self, report: &Report, count: usize) {
        let all: Vec<(&ReportImage, &ReportFunction, &ReportKernel)> = report
            .images
            .iter()
            .flat_map(|image| {
                image.kernels().map(move |(_, function, kernel)| (image, function, kernel))
            })
            .collect();
        if all.is_empty() {
            return;
        }
        let all = first_by(all, |(_, function, _)| kernel_key(function));
        let several = report.images.len() > 1;
        let targets = report.images.iter().map(|image| image.target.len()).max();
        let width = targets.filter(|_| several).map_or(0, |width| width.max("target".len()) + 2);
        let target = if several { "target" } else { "" };
        let columns = format!(
            "  registers   own    stack  shared  barriers      code   at 256  limited by  {target:<width$}name"
        );
        self.title("Kernels", count, "most registers first", &columns);
        for (image, function, kernel) in all {
            let (occupancy, limit) = occupancy(image, kernel);
            let target = if several { &image.target } else { "" };
            let name = source_name(function);
            let dynamic = if kernel.dynamic_shared { "+" } else { " " };
            self.line_of(KERNEL_WIDTH, &format!(
                "  {:>9} {:>5} {:>8} {:>7}{dynamic} {:>8} {:>9}  {occupancy:>6}  {limit:<10}  {target:<width$}{name}",
                number_text(function.registers.total),
                number_text(function.registers.own),
                number_text(function.stack.total),
                kernel.shared,
                number_text(function.barriers.total),
                function.code,
            ));
            let setter = function.registers.set_by.and_then(|place| image.functions.get(place));
            if let Some(setter) = setter {
                self.line(&format!("            registers set by {}", source_name(setter)));
            }
            let chain = image.chain(function);
            if chain.len() > 1 {
                let names: Vec<_> = chain.iter().take(6).map(|one| source_name(one)).collect();
                let rest = if chain.len() > 6 { " > …" } else { "" };
                self.line(&format!("            stack: {}{rest}", names.join(" > ")));
            }
        }
    }

    fn functions(&mut self, report: &Report, count: usize) {
        let functions = report.images.iter().flat_map(|image| &image.functions);
        let all: Vec<&ReportFunction> = functions.filter(|one| one.kernel.is_none()).collect();
        if all.is_empty() {
            return;
        }
        let all = first_by(all, |function| function_key(function));
        self.title("Functions", count, "most code first", "       code  registers  frame  name");
        for function in all {
            self.line(&format!(
                "  {:>9}  {:>9}  {:>5}  {}",
                function.code,
                number_text(function.registers.own),
                number_text(function.stack.own),
                source_name(function)
            ));
        }
    }

    fn inputs(&mut self, report: &Report) {
        if report.inputs.is_empty() {
            return;
        }
        let mut code = vec![0u64; report.inputs.len()];
        for function in report.images.iter().flat_map(|image| &image.functions) {
            if let Some(code) = function.input.and_then(|input| code.get_mut(input)) {
                *code += function.code;
            }
        }
        let mut all: Vec<(&ReportInput, u64)> = report.inputs.iter().zip(code).collect();
        all.sort_by_key(|(_, code)| Reverse(*code));
        self.title(
            "Inputs",
            all.len(),
            "most code in the output first",
            "       code      bytes  input",
        );
        for (input, code) in all.into_iter().take(LINES) {
            let ignored = match input.ignored.as_str() {
                "" => String::new(),
                why => format!(" (not linked: {why})"),
            };
            self.line(&format!("  {code:>9}  {:>9}  {}{ignored}", input.bytes, input.name));
        }
    }

    fn copies(&mut self, report: &Report) {
        if report.copies.is_empty() {
            return;
        }
        let mut all: Vec<_> = report.copies.iter().collect();
        all.sort_by_key(|copies| Reverse(copies.wasted()));
        self.title(
            "Copies",
            all.len(),
            "most dropped bytes first",
            "    dropped  files  kept in, name",
        );
        for copies in all.into_iter().take(LINES) {
            let kept = report.inputs.get(copies.kept).map_or("", |input| &input.name);
            let name = shown(&copies.demangled, &copies.name);
            let files = copies.dropped.len() + 1;
            self.line(&format!("  {:>9}  {files:>5}  {kept}: {name}", copies.wasted()));
        }
    }

    fn removed(&mut self, report: &Report) {
        if report.removed.is_empty() {
            return;
        }
        let mut all: Vec<_> = report.removed.iter().collect();
        all.sort_by_key(|removed| Reverse(removed.bytes));
        self.title("Removed", all.len(), "most bytes first", "      bytes  file, name, why");
        for removed in all.into_iter().take(LINES) {
            let file = report.inputs.get(removed.input).map_or("", |input| &input.name);
            let name = shown(&removed.demangled, &removed.name);
            let why = removed.why.words();
            self.line(&format!("  {:>9}  {file}: {name}: {why}", removed.bytes));
        }
    }
}

/// The occupancy for the usual size of a block, and what limits it.
fn occupancy(image: &ReportImage, kernel: &ReportKernel) -> (String, &'static str) {
    let all = image.occupancy(kernel);
    let one = all.iter().find(|one| one.threads == THREADS).or(all.last());
    match (one, &image.limits) {
        (Some(one), Some(limits)) => {
            let percent = (100 * one.warps).checked_div(limits.warps).unwrap_or(0);
            let size =
                if one.threads == THREADS { String::new() } else { format!("@{}", one.threads) };
            (format!("{percent}%{size}"), limit_name(one.limit))
        }
        _ => ("-".to_owned(), "unknown"),
    }
}

fn limit_name(limit: ReportLimit) -> &'static str {
    match limit {
        ReportLimit::Warps => "warps",
        ReportLimit::Blocks => "blocks",
        ReportLimit::Registers => "registers",
        ReportLimit::Shared => "shared",
        ReportLimit::Barriers => "barriers",
    }
}

pub(crate) fn shown<'a>(demangled: &'a str, name: &'a str) -> &'a str {
    if demangled.is_empty() { name } else { demangled }
}

/// The name in the source. Totals of a program do not have it: a library has tens of thousands.
fn source_name(function: &ReportFunction) -> Cow<'_, str> {
    match demangled(&function.name) {
        name if function.demangled.is_empty() && !name.is_empty() => Cow::Owned(name),
        _ => Cow::Borrowed(function.shown()),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn number_text(number: Option<u32>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

/// A number with a comma for every three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place != 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The text, or as much of it as `width` columns have room for.
pub(crate) fn clipped(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(width - 1).chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn kernels_of_several_images_have_their_target() {
        let image = |target: &str| {
            let name = "k".to_owned();
            let kernel =
                ReportFunction { name, kernel: Some(Box::default()), ..ReportFunction::default() };
            let target = target.to_owned();
            ReportImage { target, functions: vec![kernel], ..ReportImage::default() }
        };
        let text = |targets: &[&str]| {
            let images = targets.iter().map(|target| image(target)).collect();
            Report { images, ..Report::default() }.to_text()
        };
        let several = text(&["sm_75", "sm_120a"]);
        assert!(several.contains("limited by  target   name\n"), "{several}");
        assert!(several.contains("  sm_75    k\n") && several.contains("  sm_120a  k\n"));
        assert!(text(&["sm_75"]).contains("limited by  name\n"));
    }

    #[test]
    fn lines_have_the_width_and_nothing_that_a_terminal_obeys() {
        let name = "\u{1b}[31mred\u{202e}\n".repeat(100);
        let function =
            ReportFunction { name, kernel: Some(Box::default()), ..ReportFunction::default() };
        let image = ReportImage { functions: vec![function], ..ReportImage::default() };
        let report = Report { images: vec![image], ..Report::default() };
        let text = report.to_text();
        assert!(text.contains("\\x1b[31mred\\u{202e}"), "{text}");
        let widths = text.lines().map(|line| line.chars().count());
        assert_eq!(widths.clone().max(), Some(KERNEL_WIDTH));
        assert!(widths.filter(|&width| width > WIDTH).count() == 1);
        assert!(!text.chars().any(|char| char.is_control() && char != '\n'));
    }
}
