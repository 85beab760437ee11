//! The difference of two cubins, keyed by names.
//!
//! In: two parsed files. Out: [`DiffReport`]: lines in groups, the most important group first.
//! Guaranteed: no line exactly when the files are the same bytes, the record of the linker itself
//! in `.note.nv.tkinfo` aside (see [`DiffOptions::tool`]).
//!
//! ```text
//! symbol.value  foo  0x10 != 0x0
//! section.align  .nv.shared.k  16 != 4
//! reloc.missing  .rela.text.k+0x30  R_CUDA_ABS32_LO_32 g +0x0
//! attr  .nv.info.k NUM_BARRIERS  byte 0x1 != byte 0x2
//! ```
//!
//! The left side is the first file; "missing" is in the first file only, "extra" in the second.

mod bytes;
mod items;
mod lists;

use std::fmt;

use crate::text;
use crate::view::View;

/// The compared parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffOptions {
    /// Compare the first tool record of `.note.nv.tkinfo` too: the one of the tool that made the
    /// file, which two linkers never share.
    pub tool: bool,
}

/// The lines about one kind of thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffGroup {
    /// The first part of every key: `section`, `symbol`, `attr`, ...
    pub name: &'static str,
    /// One line per difference, without line ends.
    pub lines: Vec<String>,
}

/// All differences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffReport {
    /// Groups with at least one line, the most useful first.
    pub groups: Vec<DiffGroup>,
}

impl DiffReport {
    /// True when nothing differs.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Writes the lines, at most `limit` of each group.
    pub fn write(&self, out: &mut impl fmt::Write, limit: usize) -> fmt::Result {
        for group in &self.groups {
            for line in group.lines.iter().take(limit) {
                writeln!(out, "{line}")?;
            }
            if let Some(more @ 1..) = group.lines.len().checked_sub(limit) {
                writeln!(out, "{}: {more} more", group.name)?;
            }
        }
        Ok(())
    }
}

/// Compares `a` with `b`.
pub fn compare(a: &View<'_>, b: &View<'_>, options: DiffOptions) -> DiffReport {
    let mut difference = DiffReport::default();
    for &(name, list) in items::LISTS {
        let lines = lists::compare(name, &list(a, options), &list(b, options));
        difference.push(name, lines);
    }
    difference.push("bytes", bytes::compare(a, b));
    if difference.is_empty() && a.data != b.data {
        difference.push("text", text(a, b, options));
    }
    difference
}

/// Differences that no list has: lines of the text forms, which hold every byte.
fn text(a: &View<'_>, b: &View<'_>, options: DiffOptions) -> Vec<String> {
    let [a, b] = [a, b].map(|view| text::dump(view, &text::DumpOptions::default()));
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let tool = lines.iter().position(|line| line.starts_with("  tool "));
        if let Some(tool) = tool.filter(|_| !options.tool) {
            lines.remove(tool);
        }
        lines
    };
    let (a, b) = (lines(&a), lines(&b));
    let none = String::new();
    let count = a.len().max(b.len());
    let pairs = (0..count).map(|at| (a.get(at).unwrap_or(&none), b.get(at).unwrap_or(&none)));
    pairs.filter(|(a, b)| a != b).map(|(a, b)| format!("text  {a} != {b}")).collect()
}

impl DiffReport {
    fn push(&mut self, name: &'static str, lines: Vec<String>) {
        if !lines.is_empty() {
            self.groups.push(DiffGroup { name, lines });
        }
    }
}
