//! The records of symbol tables, relocations, attributes, call graph, prototypes, notes and
//! program headers as lines. A function that gives `None` says: as records this would not read
//! back as the same bytes.

use std::fmt::Write;

use culd_cubin::attr::Records;
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::capmerc::{self, Capsule};
use culd_cubin::elf::{sht, stt};
use culd_cubin::note::{self, CuInfo, ToolRecord};
use culd_cubin::raw::{Segment, SymbolEntry};
use culd_cubin::unified::{self, Entry, UnifiedId};
use culd_cubin::{Section, SymbolSection};

use super::body::SectionText;
use crate::name;
use crate::rules::{self, StringIndex};
use crate::view::{self, View};
use crate::words;

/// A symbol table; nothing about a null symbol that is all zero.
pub(super) fn symbols(view: &View<'_>, index: usize) -> Option<SectionText> {
    let section = view.cubin.sections.get(index)?;
    let mercury = section.sh_type == sht::MERCURY_SYMTAB;
    let (symbols, names) = match mercury {
        true => (&view.cubin.mercury_symbols, &view.mercury_symbols),
        false => (&view.cubin.symbols, &view.symbols),
    };
    let strings = StringIndex::new(view.cubin.sections.get(section.link as usize)?.data);
    let first_global = section.info as usize;
    let has_first_global = (1..=symbols.len()).contains(&first_global);
    let mut lines = Vec::with_capacity(symbols.len() + 1);
    for (at, (symbol, name)) in symbols.iter().zip(names).enumerate() {
        let raw = SymbolEntry::read(section.data, SymbolEntry::SIZE * at)?;
        if at == 0 && raw == SymbolEntry::default() {
            continue;
        }
        if at == first_global {
            lines.push("globals".to_owned());
        }
        let mut line = format!(
            "{} {} {name}",
            words::word(words::SYMBOL_BINDINGS, u64::from(raw.info >> 4)),
            words::word(words::SYMBOL_TYPES, u64::from(raw.info & 15)),
        );
        if at == 0 {
            line = format!("null {line}");
        }
        let place = place(view, &raw, symbol.section);
        let own = raw.info & 15 == stt::SECTION && view.sections.contains(name);
        if place != if own { name.as_str() } else { "*UND*" } {
            write!(line, " in={place}").ok()?;
        }
        for (key, value) in [("value", raw.value), ("size", raw.size)] {
            if value != 0 {
                write!(line, " {key}={value:#x}").ok()?;
            }
        }
        if raw.other != 0 {
            let other = words::bits(words::SYMBOL_OTHER, u64::from(raw.other));
            write!(line, " other={other}").ok()?;
        }
        if strings.offset(symbol.name) != Some(raw.name) {
            write!(line, " name_offset={:#x}", raw.name).ok()?;
        }
        lines.push(line);
    }
    if has_first_global && first_global == symbols.len() {
        lines.push("globals".to_owned());
    }
    (!symbols.is_empty()).then_some(SectionText::Symbols(lines, has_first_global))
}

/// The section of a symbol. The extended form is for indices that need it; else the number that
/// stands in the symbol.
fn place(view: &View<'_>, raw: &SymbolEntry, section: SymbolSection) -> String {
    match section {
        SymbolSection::Undefined => "*UND*".to_owned(),
        SymbolSection::Absolute => "*ABS*".to_owned(),
        SymbolSection::Common => "*COMMON*".to_owned(),
        SymbolSection::In(index) if (raw.section == 0xffff) != (index.0 >= 0xff00) => {
            format!("#{}", raw.section)
        }
        SymbolSection::In(index) => view.section(index.0),
    }
}

/// Relocation records.
pub(super) fn relocations(view: &View<'_>, section: &Section<'_>) -> Vec<String> {
    let line = |reloc: culd_cubin::RelocEntry| {
        let symbol = view.reloc_symbol(section, &reloc);
        let addend = match reloc.addend {
            0 => String::new(),
            addend => format!(" {}", view::signed(addend)),
        };
        format!("{:#06x} {} {symbol}{addend}", reloc.offset, view::reloc_name(reloc.kind))
    };
    section.relocations().iter().map(line).collect()
}

/// Attribute records.
pub(super) fn attributes(view: &View<'_>, section: &Section<'_>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for record in Records::new(section.name, section.data) {
        let record = record.ok()?;
        let name = view::attribute_name(section, record.code);
        lines.push(format!("{name} {}", view.attribute_value(section, &record)));
    }
    Some(lines)
}

/// The words of call-graph lists, by their number.
fn list_name(list: i32) -> &'static str {
    match list {
        -1 => "calls",
        -2 => "taken",
        -3 => "indirect",
        _ => "references",
    }
}

/// Call-graph records.
pub(super) fn edges(view: &View<'_>, section: &Section<'_>) -> Option<Vec<String>> {
    let strings = StringIndex::new(view.cubin.strings);
    let mut lines = Vec::new();
    let mut edges = callgraph::edges(section);
    for pair in section.data.chunks_exact(8) {
        if let &[0, 0, 0, 0, a, b, c, d] = pair {
            let list = i32::from_le_bytes([a, b, c, d]);
            if !callgraph::LISTS.contains(&list) {
                return None;
            }
            lines.push(format!("list {}", list_name(list)));
            continue;
        }
        let (_, edge) = edges.next()?.ok()?;
        let symbol = |index: culd_cubin::SymbolIndex| view.symbol(section, index.0);
        lines.push(match edge {
            Edge::Call { caller, callee } => format!("{} {}", symbol(caller), symbol(callee)),
            Edge::Reference { function, known } => {
                format!("{} {}", symbol(function), symbol(known))
            }
            Edge::AddressTaken { function, prototype }
            | Edge::IndirectCall { function, prototype } => {
                format!("{} {}", symbol(function), string(view, &strings, prototype))
            }
        });
    }
    Some(lines)
}

/// Prototype records.
pub(super) fn prototypes(view: &View<'_>, section: &Section<'_>) -> Vec<String> {
    let strings = StringIndex::new(view.cubin.strings);
    let line = |(function, prototype): (culd_cubin::SymbolIndex, u32)| {
        let function = view.symbol(section, function.0);
        format!("{function} {}", string(view, &strings, prototype))
    };
    callgraph::prototypes(section).map(line).collect()
}

/// The entries of unified functions or variables.
pub(super) fn unified(view: &View<'_>, section: &Section<'_>) -> Vec<String> {
    let line = |(_, Entry { symbol, flags, offset, id: UnifiedId(first, second) })| {
        let symbol = view.symbol(section, symbol.0);
        format!("{symbol} flags={flags:#x} offset={offset:#x} id={first:#x},{second:#x}")
    };
    unified::entries(section).map(line).collect()
}

/// The string at `offset`; the offset itself where another one stands for the string.
fn string(view: &View<'_>, strings: &StringIndex<'_>, offset: u32) -> String {
    match view.cubin.string(offset) {
        Some(string) if strings.offset(string) == Some(offset) => name::quote(string),
        _ => format!("#{offset}"),
    }
}

/// Mercury code: the section of its machine code, then its records by the offsets of their
/// instructions.
pub(super) fn capsule(view: &View<'_>, section: &Section<'_>) -> Option<Vec<String>> {
    let capsule = Capsule::parse(section.name, section.data).ok()?;
    let code = view.sections.get(capsule.code().0 as usize)?;
    let keyword = if capsule.has_version() { "code" } else { "code-of-12.8" };
    let mut lines = vec![format!("{keyword} {code}")];
    for record in capsule.records() {
        let at = record.instructions.start * capmerc::INSTRUCTION;
        let mut line = format!("{at:#06x} {}", record.kind.name());
        for word in section.data.get(record.bytes)?.chunks(4) {
            write!(line, " {}", view::hex(word)).ok()?;
        }
        lines.push(line);
    }
    Some(lines)
}

/// Note records.
pub(super) fn notes(section: &Section<'_>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    for record in note::records(section.name, section.data) {
        let record = record.ok()?;
        lines.push(match record.note_type {
            note::TYPE_TKINFO => {
                let tool = ToolRecord::parse(record.descriptor)?;
                let descriptor = tool.descriptor();
                let size = record.descriptor.len();
                note::write_record(&mut bytes, note::TYPE_TKINFO, &descriptor, size);
                tool_line(&tool, descriptor.len().next_multiple_of(4), size)
            }
            note::TYPE_CUINFO => {
                let info = CuInfo::parse(section.name, record.bytes).ok()?;
                info.write(&mut bytes);
                let CuInfo { version, virtual_sm, toolkit } = info;
                format!("cuinfo version={version} sm={virtual_sm} toolkit={toolkit}")
            }
            _ => return None,
        });
    }
    (bytes == section.data).then_some(lines)
}

fn tool_line(tool: &ToolRecord, natural: usize, size: usize) -> String {
    let mut line = "tool".to_owned();
    let parts = [
        ("name", &tool.tool),
        ("release", &tool.release),
        ("build", &tool.build),
        ("options", &tool.options),
        ("object", &tool.object),
    ];
    for (key, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
        write!(line, " {key}={}", name::quote(value.as_bytes())).unwrap_or_default();
    }
    if size != natural {
        write!(line, " size={size}").unwrap_or_default();
    }
    line
}

/// One program header.
pub(super) fn segment(view: &View<'_>, segment: &Segment) -> String {
    let mut line = format!(
        "segment {} flags={}",
        words::word(words::SEGMENT_TYPES, u64::from(segment.p_type)),
        words::bits(words::SEGMENT_FLAGS, u64::from(segment.flags)),
    );
    let header = &view.tables.header;
    let table_size = (Segment::SIZE * view.tables.segments.len()) as u64;
    let end = segment.offset.wrapping_add(segment.file_size);
    let mut key = |key: &str, value: &str| write!(line, " {key}={value}").unwrap_or_default();
    if (segment.offset, segment.file_size) == (header.phoff, table_size) {
        key("start", "*PHDR*");
    } else {
        key("start", &start(view, segment.offset));
        match rules::section_ending_at(&view.tables.sections, end) {
            Some(last) => key("end", &view.section(last as u32)),
            None => key("size", &format!("{:#x}", segment.file_size)),
        }
    }
    if segment.memory_size != segment.file_size {
        key("memory", &format!("{:#x}", segment.memory_size));
    }
    for (name, value, usual) in
        [("vaddr", segment.vaddr, 0), ("paddr", segment.paddr, 0), ("align", segment.align, 8)]
    {
        if value != usual {
            key(name, &format!("{value:#x}"));
        }
    }
    line
}

/// The first section at `offset`, one that is not empty if there is one.
fn start(view: &View<'_>, offset: u64) -> String {
    let at = |empty: bool| {
        let mut sections = view.tables.sections.iter().skip(1);
        sections.position(|raw| raw.offset == offset && (raw.size == 0) == empty)
    };
    match at(false).or_else(|| at(true)) {
        Some(index) => view.section(index as u32 + 1),
        None => format!("#{offset}"),
    }
}
