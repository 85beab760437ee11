//! Lines of text as sections with their headers' words and their bodies' lines.

use culd_inspect::{name, words};

use super::keys::{self, Keys};
use super::{Error, error};

/// A line inside a section.
#[derive(Debug)]
pub(super) struct Line<'t> {
    pub(super) number: usize,
    pub(super) words: Vec<&'t str>,
}

/// A section line and the lines under it.
#[derive(Debug)]
pub(super) struct SectionText<'t> {
    pub(super) line: usize,
    /// The name with its ordinal.
    pub(super) word: &'t str,
    pub(super) name: Vec<u8>,
    pub(super) sh_type: u32,
    /// The body is bytes although the type has records.
    pub(super) raw: bool,
    pub(super) keys: Keys<'t>,
    pub(super) body: Vec<Line<'t>>,
}

/// A `segment` line.
#[derive(Debug)]
pub(super) struct SegmentText<'t> {
    pub(super) p_type: u32,
    pub(super) keys: Keys<'t>,
}

/// A `patch` line.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) line: usize,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// The whole text.
#[derive(Debug, Default)]
pub(super) struct Document<'t> {
    pub(super) file: Keys<'t>,
    /// In index order; index 0 is not among them.
    pub(super) sections: Vec<SectionText<'t>>,
    pub(super) segments: Vec<SegmentText<'t>>,
    pub(super) patches: Vec<Patch>,
}

pub(super) fn document(text: &str) -> Result<Document<'_>, Error> {
    let mut document = Document::default();
    let (mut seen_magic, mut seen_file) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let Some(words) = name::split(line) else {
            return error(number, "a quote does not end");
        };
        let Some(&first) = words.first().filter(|first| !first.starts_with("//")) else {
            continue;
        };
        let indented = line.starts_with([' ', '\t']);
        if !seen_magic {
            if words != ["cubin", "1"] {
                return error(number, "expected 'cubin 1' before anything else");
            }
            seen_magic = true;
            continue;
        }
        if indented {
            let Some(section) = document.sections.last_mut() else {
                return error(number, "an indented line before the first section");
            };
            section.body.push(Line { number, words });
            continue;
        }
        let rest = words.get(1..).unwrap_or(&[]);
        match first {
            "file" if !seen_file => {
                document.file = Keys::parse(number, rest)?;
                seen_file = true;
            }
            "file" => return error(number, "a second 'file' line"),
            "section" => document.sections.push(section(number, rest)?),
            "segment" => document.segments.push(segment(number, rest)?),
            "patch" => document.patches.push(patch(number, rest)?),
            _ => {
                let what = "expected file, section, segment or patch (or an indented line)";
                return error(number, format!("{what}, found '{first}'"));
            }
        }
    }
    if !seen_file {
        return error(0, "no 'file' line");
    }
    Ok(document)
}

fn section<'t>(line: usize, words: &[&'t str]) -> Result<SectionText<'t>, Error> {
    let [word, sh_type, rest @ ..] = words else {
        return error(line, "expected: section NAME TYPE [raw] [key=value]...");
    };
    let Some(name) = name::base(word) else {
        return error(line, format!("'{word}' is no name"));
    };
    let Some(sh_type) = words::number_of(words::SECTION_TYPES, sh_type)
        .and_then(|number| u32::try_from(number).ok())
    else {
        return error(line, format!("expected a section type, found '{sh_type}'"));
    };
    let raw = rest.first() == Some(&"raw");
    let keys = Keys::parse(line, rest.get(usize::from(raw)..).unwrap_or(&[]))?;
    keys.only(&[
        "flags",
        "align",
        "entsize",
        "link",
        "info",
        "symbol",
        "registers",
        "addr",
        "twin",
        "gap",
        "offset",
        "size",
        "name_offset",
    ])?;
    Ok(SectionText { line, word, name, sh_type, raw, keys, body: Vec::new() })
}

fn segment<'t>(line: usize, words: &[&'t str]) -> Result<SegmentText<'t>, Error> {
    let [p_type, rest @ ..] = words else {
        return error(line, "expected: segment TYPE [key=value]...");
    };
    let Some(p_type) = words::number_of(words::SEGMENT_TYPES, p_type)
        .and_then(|number| u32::try_from(number).ok())
    else {
        return error(line, format!("expected a segment type, found '{p_type}'"));
    };
    let keys = Keys::parse(line, rest)?;
    keys.only(&["flags", "start", "end", "size", "memory", "vaddr", "paddr", "align"])?;
    Ok(SegmentText { p_type, keys })
}

fn patch(line: usize, words: &[&str]) -> Result<Patch, Error> {
    let parsed = match words {
        [offset, digits] => words::number(offset).zip(keys::bytes(digits)),
        _ => None,
    };
    match parsed {
        Some((offset, bytes)) => Ok(Patch { line, offset, bytes }),
        None => error(line, "expected: patch OFFSET HEXDIGITS"),
    }
}
