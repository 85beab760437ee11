//! The contents of a section, by its type.

use culd_cubin::Section;
use culd_cubin::elf::sht;

use super::{layout, strings, tables};
use crate::view::{self, View};

/// The lines of one section.
pub(super) enum SectionText {
    /// Records by name.
    Records(Vec<String>),
    /// The strings of a table.
    Strings(Vec<String>),
    /// Symbols by name, with or without the `globals` line.
    Symbols(Vec<String>, bool),
    /// Bytes of a section that has no records.
    Bytes(Vec<String>),
    /// Bytes of a section whose records do not read back.
    Fallback(Vec<String>),
    /// Nothing: other lines have the bytes, or there are none.
    Nothing,
}

impl SectionText {
    pub(super) fn lines(&self) -> &[String] {
        match self {
            SectionText::Records(lines)
            | SectionText::Strings(lines)
            | SectionText::Symbols(lines, _)
            | SectionText::Bytes(lines)
            | SectionText::Fallback(lines) => lines,
            SectionText::Nothing => &[],
        }
    }

    /// True for contents that a summary leaves out.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self, SectionText::Strings(_) | SectionText::Bytes(_) | SectionText::Fallback(_))
    }

    /// True if the body has `sh_info` of a symbol table.
    pub(super) fn has_first_global(&self) -> bool {
        matches!(self, SectionText::Symbols(_, true))
    }
}

pub(super) fn body(view: &View<'_>, index: usize, twin: bool) -> SectionText {
    let Some(section) = view.cubin.sections.get(index) else { return SectionText::Nothing };
    if twin || !layout::has_bytes(section.sh_type) {
        return SectionText::Nothing;
    }
    let records = |lines: Option<Vec<String>>| lines.map(SectionText::Records);
    let body = match section.sh_type {
        sht::SYMTAB | sht::MERCURY_SYMTAB => tables::symbols(view, index),
        sht::STRTAB => strings::strings(view, index).map(SectionText::Strings),
        sht::RELA
        | sht::REL
        | sht::CUDA_RESOLVED_RELA
        | sht::MERCURY_RELA
        | sht::MERCURY_RESOLVED_RELA => records(Some(tables::relocations(view, section))),
        sht::CUDA_CALLGRAPH | sht::MERCURY_CALLGRAPH => records(tables::edges(view, section)),
        sht::CUDA_PROTOTYPE | sht::MERCURY_PROTOTYPE => {
            records(Some(tables::prototypes(view, section)))
        }
        sht::CUDA_UFT_ENTRY | sht::CUDA_UDT_ENTRY => records(Some(tables::unified(view, section))),
        sht::NOTE => records(tables::notes(section)),
        sht::MERCURY_CODE => records(tables::capsule(view, section)),
        _ if view::is_attributes(section) => records(tables::attributes(view, section)),
        _ => return SectionText::Bytes(bytes(section)),
    };
    body.unwrap_or_else(|| SectionText::Fallback(bytes(section)))
}

/// Bytes to a line.
const ROW: usize = 16;

/// Lines of 16 bytes with their offset; two rows of zeros and more are folded.
fn bytes(section: &Section<'_>) -> Vec<String> {
    let data = section.data;
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(tail) = data.get(at..).filter(|tail| !tail.is_empty()) {
        let zeros = tail.iter().take_while(|&&byte| byte == 0).count();
        // A run ends with a whole row or with the section: what follows stays aligned.
        let run = if zeros == tail.len() { zeros } else { zeros / ROW * ROW };
        if run >= 2 * ROW {
            lines.push(format!("{at:#06x} zero {run:#x}"));
            at += run;
            continue;
        }
        let row = tail.get(..ROW).unwrap_or(tail);
        let groups: Vec<String> = row.chunks(4).map(view::hex).collect();
        lines.push(format!("{at:#06x} {}", groups.join(" ")));
        at += row.len();
    }
    lines
}
