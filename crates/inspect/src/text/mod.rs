//! The text form of a cubin: what docs/TEXT-FORMAT.md describes.
//!
//! In: a parsed cubin. Out: lines. Guaranteed: the text holds every byte of the file (unless
//! [`DumpOptions`] leave something out): the assembler in `culd_testkit::fixtures::asm` makes the
//! same bytes of it. What follows from the rules in [`crate::rules`] is left out.

mod body;
mod layout;
mod strings;
mod tables;

use std::fmt::Write;

use crate::view::View;

/// What to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// Only the section of this name (a word as in the text), without header and segments.
    pub only: Option<String>,
    /// Print sizes in place of string tables and bytes.
    pub summary: bool,
}

/// The text form of `view`.
pub fn dump(view: &View<'_>, options: &DumpOptions) -> String {
    let layout = layout::SymbolLayout::new(view);
    let mut out = String::new();
    if options.only.is_none() {
        out.push_str("cubin 1\n");
        line(&mut out, &layout.file_line(view));
    }
    for (index, name) in view.sections.iter().enumerate().skip(1) {
        if options.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let body = body::body(view, index, layout.is_twin(index));
        let mut head = layout.section_line(view, index, &body);
        if options.summary && body.is_bulk() {
            let size = view.tables.sections.get(index).map_or(0, |raw| raw.size);
            write!(head, " size={size:#x}").unwrap_or_default();
        }
        line(&mut out, &head);
        if !(options.summary && body.is_bulk()) {
            body.lines().iter().for_each(|text| line(&mut out, &format!("  {text}")));
        }
    }
    if options.only.is_none() {
        view.tables.segments.iter().for_each(|s| line(&mut out, &tables::segment(view, s)));
        if !options.summary {
            layout.patches(view).iter().for_each(|text| line(&mut out, text));
        }
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
