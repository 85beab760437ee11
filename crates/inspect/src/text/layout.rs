//! The places in the file: the `file` and `section` lines and the bytes between.

use std::collections::HashMap;
use std::fmt::Write;

use culd_cubin::elf::{self, OSABI_CUDA, shf, sht};
use culd_cubin::encode::section_counts;
use culd_cubin::raw::{FileHeader, SectionHeader, Segment};

use super::body::SectionText;
use crate::rules;
use crate::view::{self, View};
use crate::words;

/// The places in one file by the rules.
pub(super) struct SymbolLayout<'d> {
    /// Per section: how it got its place.
    places: Vec<LayoutPlace>,
    /// End of the last section.
    end: u64,
    section_names: rules::StringIndex<'d>,
}

enum LayoutPlace {
    /// By the rules, behind this many bytes of nothing.
    Behind(u64),
    /// Elsewhere.
    Odd,
    /// At the bytes of this section.
    Twin(usize),
}

/// True for sections with bytes in the file.
pub(super) fn has_bytes(sh_type: u32) -> bool {
    sh_type != sht::NULL && !elf::is_nobits(sh_type)
}

impl<'d> SymbolLayout<'d> {
    pub(super) fn new(view: &View<'d>) -> Self {
        let mut places = Vec::with_capacity(view.tables.sections.len());
        let mut owners: HashMap<(u64, u64), usize> = HashMap::new();
        let mut end = 64;
        for (index, raw) in view.tables.sections.iter().enumerate() {
            if index == 0 {
                places.push(LayoutPlace::Odd);
                continue;
            }
            let own = has_bytes(raw.sh_type) && raw.size != 0;
            let natural = raw.offset == rules::section_offset(end, raw.align);
            let twin = owners.get(&(raw.offset, raw.size)).filter(|_| has_bytes(raw.sh_type));
            if let Some(&twin) = twin.filter(|_| !natural && raw.flags & shf::MERCURY != 0) {
                places.push(LayoutPlace::Twin(twin));
                continue;
            }
            if has_bytes(raw.sh_type) {
                owners.entry((raw.offset, raw.size)).or_insert(index);
            }
            let size = if own { raw.size } else { 0 };
            let place = match raw.offset.checked_sub(end) {
                _ if natural => LayoutPlace::Behind(0),
                Some(gap) if own && raw.offset == rules::section_offset(raw.offset, raw.align) => {
                    LayoutPlace::Behind(gap)
                }
                _ => LayoutPlace::Odd,
            };
            // A section without bytes moves the next one only if it stands at its place by the
            // rules.
            if own || !matches!(place, LayoutPlace::Odd) {
                end = raw.offset.saturating_add(size);
            }
            places.push(place);
        }
        let names = view.cubin.sections.get(usize::from(view.tables.header.shstrndx));
        let section_names = rules::StringIndex::new(names.map_or(&[], |names| names.data));
        SymbolLayout { places, end, section_names }
    }

    /// True if another section of the file shares the bytes and lists them.
    pub(super) fn is_twin(&self, index: usize) -> bool {
        matches!(self.places.get(index), Some(LayoutPlace::Twin(_)))
    }

    /// The header by the rules, with the fields that the text has keys for as they stand.
    fn header(&self, view: &View<'_>) -> FileHeader {
        let count = view.tables.sections.len();
        let actual = view.tables.header;
        FileHeader {
            machine: elf::EM_CUDA,
            ehsize: 64,
            phnum: view.tables.segments.len() as u16,
            shentsize: 64,
            shnum: section_counts(count).0,
            ..actual
        }
    }

    pub(super) fn file_line(&self, view: &View<'_>) -> String {
        let header = &view.tables.header;
        let mut out =
            format!("file type={}", words::word(words::FILE_TYPES, u64::from(header.e_type)));
        let sm = header.flags >> 8 & 0xffff;
        let cuinfo = view.cubin.sections.iter().position(|s| s.name == rules::CUINFO).unwrap_or(0);
        let is_new_form = header.ident.get(7) == Some(&OSABI_CUDA);
        if is_new_form && header.flags >> 24 == cuinfo as u32 {
            key(&mut out, "sm", &sm.to_string());
            if header.flags & 0xff != rules::flags_kind(sm) {
                key(&mut out, "kind", &format!("{:#x}", header.flags & 0xff));
            }
        } else {
            key(&mut out, "flags", &format!("{:#x}", header.flags));
        }
        if header.ident != rules::IDENT {
            key(&mut out, "ident", &view::hex(&header.ident));
        }
        if header.version != 1 {
            key(&mut out, "version", &header.version.to_string());
        }
        if header.entry != 0 {
            key(&mut out, "entry", &format!("{:#x}", header.entry));
        }
        if header.phentsize != 56 {
            key(&mut out, "phentsize", &header.phentsize.to_string());
        }
        if header.shstrndx != 1 {
            key(&mut out, "names", &format!("#{}", header.shstrndx));
        }
        if header.shoff != rules::section_table(self.end) {
            // By CUDA 13.5 it is not at a multiple of 8.
            let at_end = header.shoff == self.end;
            let place = if at_end { "end".to_owned() } else { format!("{:#x}", header.shoff) };
            key(&mut out, "section_table", &place);
        }
        if header.phoff
            != rules::segment_table(
                header.shoff,
                view.tables.sections.len(),
                view.tables.segments.len(),
            )
        {
            key(&mut out, "segment_table", &format!("{:#x}", header.phoff));
        }
        let end = self.covered(view).into_iter().map(|range| range.1).max().unwrap_or(0);
        if view.data.len() as u64 != end {
            key(&mut out, "size", &format!("{:#x}", view.data.len()));
        }
        out
    }

    pub(super) fn section_line(&self, view: &View<'_>, index: usize, body: &SectionText) -> String {
        let (Some(section), Some(raw), Some(name)) = (
            view.cubin.sections.get(index),
            view.tables.sections.get(index),
            view.sections.get(index),
        ) else {
            return String::new();
        };
        let mut out = format!("section {name} {}", view::section_type(section));
        if matches!(body, SectionText::Fallback(_)) {
            out.push_str(" raw");
        }
        if raw.flags != 0 {
            key(&mut out, "flags", &words::bits(words::SECTION_FLAGS, raw.flags));
        }
        if raw.align != 1 {
            key(&mut out, "align", &raw.align.to_string());
        }
        if raw.entsize != elf::entsize(raw.sh_type) {
            key(&mut out, "entsize", &raw.entsize.to_string());
        }
        let link = rules::link(raw.sh_type, raw.flags)
            .and_then(|name| view.cubin.sections.iter().position(|s| s.name == name))
            .unwrap_or(0);
        if raw.link as usize != link {
            let name = if raw.link == 0 { "#0".to_owned() } else { view.section(raw.link) };
            key(&mut out, "link", &name);
        }
        info(&mut out, view, index, raw, body);
        if raw.addr != 0 {
            key(&mut out, "addr", &format!("{:#x}", raw.addr));
        }
        match self.places.get(index) {
            Some(&LayoutPlace::Twin(twin)) => key(&mut out, "twin", &view.section(twin as u32)),
            Some(LayoutPlace::Behind(0)) => {}
            Some(LayoutPlace::Behind(gap)) => key(&mut out, "gap", &format!("{gap:#x}")),
            _ => key(&mut out, "offset", &format!("{:#x}", raw.offset)),
        }
        if !has_bytes(raw.sh_type) {
            key(&mut out, "size", &format!("{:#x}", raw.size));
        }
        if self.section_names.offset(section.name) != Some(raw.name) {
            key(&mut out, "name_offset", &format!("{:#x}", raw.name));
        }
        out
    }

    /// The parts of the file that other lines describe, as (start, end).
    fn covered(&self, view: &View<'_>) -> Vec<(u64, u64)> {
        let header = &view.tables.header;
        let table = |at: u64, size: usize, count: usize| (at, at + (size * count) as u64);
        let mut ranges = vec![(0, 64)];
        ranges.push(table(header.shoff, SectionHeader::SIZE, view.tables.sections.len()));
        if !view.tables.segments.is_empty() {
            ranges.push(table(header.phoff, Segment::SIZE, view.tables.segments.len()));
        }
        let sections = view.tables.sections.iter().skip(1);
        ranges.extend(sections.filter_map(|raw| Some((raw.offset, rules::ends_at(raw)?))));
        ranges
    }

    /// `patch` lines: bytes that are not what the other lines make of them.
    pub(super) fn patches(&self, view: &View<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut expected = Vec::new();
        self.header(view).write(&mut expected);
        patch(&mut lines, view.data, 0, &expected);
        expected.clear();
        rules::null_section(view.tables.sections.len()).write(&mut expected);
        patch(&mut lines, view.data, view.tables.header.shoff as usize, &expected);
        let mut ranges = self.covered(view);
        ranges.push((view.data.len() as u64, u64::MAX));
        ranges.sort_unstable();
        let mut end = 0;
        for (start, range_end) in ranges {
            if start > end {
                let zeros = vec![0; (start - end) as usize];
                patch(&mut lines, view.data, end as usize, &zeros);
            }
            end = end.max(range_end);
        }
        lines
    }
}

/// `patch` lines for what differs from `expected` at `at`, 16 bytes at most a line.
fn patch(lines: &mut Vec<String>, data: &[u8], at: usize, expected: &[u8]) {
    let actual = data.get(at..).unwrap_or(&[]);
    for (row, (actual, expected)) in actual.chunks(16).zip(expected.chunks(16)).enumerate() {
        let actual = actual.get(..expected.len()).unwrap_or(actual);
        if actual != expected {
            lines.push(format!("patch {:#x} {}", at + 16 * row, view::hex(actual)));
        }
    }
}

/// `sh_info`, by name where it is an index.
fn info(out: &mut String, view: &View<'_>, index: usize, raw: &SectionHeader, body: &SectionText) {
    let Some(section) = view.cubin.sections.get(index) else { return };
    let symbols = if view::is_mercury(section) { &view.mercury_symbols } else { &view.symbols };
    let low = raw.info & 0xff_ffff;
    let of_code = section.is_code() || raw.sh_type == sht::MERCURY_CODE;
    let symbol = symbols.get(low as usize).filter(|_| low != 0 && of_code);
    match (raw.sh_type, symbol) {
        _ if rules::info_is_section(raw.sh_type, raw.flags) => {
            key(out, "info", &view.section(raw.info));
        }
        (sht::SYMTAB | sht::MERCURY_SYMTAB, _) if body.has_first_global() => {}
        _ if raw.info == 0 => {}
        (_, Some(symbol)) => {
            key(out, "symbol", symbol);
            if raw.info != low {
                key(out, "registers", &(raw.info >> 24).to_string());
            }
        }
        _ => key(out, "info", &format!("#{}", raw.info)),
    }
}

fn key(out: &mut String, name: &str, value: &str) {
    write!(out, " {name}={value}").unwrap_or_default();
}
