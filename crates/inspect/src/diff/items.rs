//! The lists that two files are compared by.

use std::collections::HashMap;

use culd_cubin::attr::{Records, Shape};
use culd_cubin::capmerc::{self, Capsule};
use culd_cubin::elf::sht;
use culd_cubin::note::{self, ToolRecord};
use culd_cubin::raw::{SectionHeader, Segment};
use culd_cubin::unified::{self, Entry};
use culd_cubin::{Section, attr, callgraph};

use super::DiffOptions;
use super::lists::ListedItem;
use crate::name;
use crate::view::{self, View};
use crate::words;

type ItemList = fn(&View<'_>, DiffOptions) -> Vec<ListedItem>;

/// Name and maker of each list, the most useful first.
pub(super) const LISTS: &[(&str, ItemList)] = &[
    ("header", header),
    ("section", sections),
    ("symbol", symbols),
    ("attr", attributes),
    ("callgraph", edges),
    ("prototype", prototypes),
    ("unified", entries),
    ("note", notes),
    ("reloc", relocations),
    ("record", capsules),
    ("segment", segments),
    ("string", strings),
];

fn header(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let header = &view.tables.header;
    let gap = |offset: u64, natural: u64| format!("{:#x}", offset.wrapping_sub(natural));
    let end = view.tables.sections.iter().map(|section| section.offset).max().unwrap_or(0);
    let sections_end = header.shoff.wrapping_add(64 * view.tables.sections.len() as u64);
    let fields = [
        ("type", words::word(words::FILE_TYPES, u64::from(header.e_type))),
        ("ident", view::hex(&header.ident)),
        ("version", header.version.to_string()),
        ("entry", format!("{:#x}", header.entry)),
        ("flags.kind", format!("{:#x}", header.flags & 0xff)),
        ("flags.sm", (header.flags >> 8 & 0xffff).to_string()),
        ("flags.cuinfo", view.section(header.flags >> 24)),
        ("sections", view.tables.sections.len().to_string()),
        ("segments", view.tables.segments.len().to_string()),
        ("names", view.section(u32::from(header.shstrndx))),
        ("section_table.before_data", (header.shoff < end).to_string()),
        (
            "segment_table.gap",
            match header.phoff {
                0 => "none".to_owned(),
                offset => gap(offset, sections_end),
            },
        ),
    ];
    let item = |(key, value): (&str, String)| ListedItem {
        list: String::new(),
        key: key.to_owned(),
        fields: vec![("", value)],
    };
    fields.into_iter().map(item).collect()
}

/// The tool note differs in size whenever its first record does.
fn is_tool_note(section: &Section<'_>) -> bool {
    section.name == b".note.nv.tkinfo"
}

fn sections<'v>(view: &'v View<'_>, options: DiffOptions) -> Vec<ListedItem> {
    let mut end = 64;
    let mut owners: HashMap<(u64, u64), &str> = HashMap::new();
    let raws = &view.tables.sections;
    let item = |((section, name), raw): ((&Section<'_>, &'v String), &SectionHeader)| {
        let gap = raw.offset.wrapping_sub(u64::next_multiple_of(end, section.align()));
        let range = (raw.offset, raw.size);
        // The section shares the bytes of another one, at the place of that one.
        let twin = owners.get(&range).filter(|_| gap != 0 && view::is_mercury(section));
        let place = match twin {
            Some(twin) => format!("that of {twin}"),
            None => {
                end = raw.offset.saturating_add(section.data.len() as u64);
                format!("{gap:#x}")
            }
        };
        if !section.data.is_empty() {
            owners.entry(range).or_insert(name);
        }
        let known_size = options.tool || !is_tool_note(section);
        ListedItem {
            list: String::new(),
            key: name.clone(),
            fields: vec![
                ("size", if known_size { format!("{:#x}", raw.size) } else { "(tool)".into() }),
                ("align", raw.align.to_string()),
                ("type", view::section_type(section)),
                ("flags", words::bits(words::SECTION_FLAGS, raw.flags)),
                ("link", view.section(raw.link)),
                ("info", view.info(section)),
                ("entsize", raw.entsize.to_string()),
                ("addr", format!("{:#x}", raw.addr)),
                ("gap", place),
            ],
        }
    };
    // The null section has no place in the file.
    view.cubin.sections.iter().zip(&view.sections).zip(raws).skip(1).map(item).collect()
}

fn symbols(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let tables = [
        ("", &view.cubin.symbols, &view.symbols),
        ("mercury", &view.cubin.mercury_symbols, &view.mercury_symbols),
    ];
    let mut items = Vec::new();
    for (list, symbols, names) in tables {
        items.extend(symbols.iter().zip(names).map(|(symbol, name)| ListedItem {
            list: list.to_owned(),
            key: name.clone(),
            fields: vec![
                ("binding", words::word(words::SYMBOL_BINDINGS, u64::from(symbol.binding()))),
                ("type", words::word(words::SYMBOL_TYPES, u64::from(symbol.kind()))),
                ("other", words::bits(words::SYMBOL_OTHER, u64::from(symbol.other))),
                ("section", view.place(symbol)),
                ("value", format!("{:#x}", symbol.value)),
                ("size", format!("{:#x}", symbol.size)),
            ],
        }));
    }
    items
}

fn attributes(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let sections = view.cubin.sections.iter().zip(&view.sections);
    for (section, list) in sections.filter(|(section, _)| view::is_attributes(section)) {
        // Damaged records are compared as bytes.
        for record in Records::new(section.name, section.data).map_while(Result::ok) {
            let mut key = view::attribute_name(section, record.code);
            let shape = attr::known(record.code).map(|row| row.1);
            if section.sh_type != sht::CUDA_COMPAT && shape == Some(Shape::Symbol) {
                let symbol = record.word(0).map(|index| view.symbol(section, index));
                key = format!("{key} {}", symbol.unwrap_or_default());
            }
            let value = view.attribute_value(section, &record);
            items.push(ListedItem { list: list.clone(), key, fields: vec![("", value)] });
        }
    }
    items
}

/// The sections of `types`, with their shown names.
fn of_types<'v, 'd>(
    view: &'v View<'d>,
    types: &'v [u32],
) -> impl Iterator<Item = (&'v Section<'d>, &'v String)> {
    let sections = view.cubin.sections.iter().zip(&view.sections);
    sections.filter(|(section, _)| types.contains(&section.sh_type))
}

fn edges(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let types = [sht::CUDA_CALLGRAPH, sht::MERCURY_CALLGRAPH];
    for (section, name) in of_types(view, &types) {
        for (_, edge) in callgraph::edges(section).map_while(Result::ok) {
            let (list, from, to) = view.edge(section, &edge);
            let key = format!("{from} -> {to}");
            items.push(ListedItem { list: format!("{name} [{list}]"), key, fields: Vec::new() });
        }
    }
    items
}

fn prototypes(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let types = [sht::CUDA_PROTOTYPE, sht::MERCURY_PROTOTYPE];
    for (section, list) in of_types(view, &types) {
        for (function, string) in callgraph::prototypes(section) {
            items.push(ListedItem {
                list: list.clone(),
                key: view.symbol(section, function.0),
                fields: vec![("", view.string(string))],
            });
        }
    }
    items
}

fn entries(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let types = [sht::CUDA_UFT_ENTRY, sht::CUDA_UDT_ENTRY];
    for (section, list) in of_types(view, &types) {
        for (_, Entry { symbol, flags, offset, id }) in unified::entries(section) {
            items.push(ListedItem {
                list: list.clone(),
                key: format!("{:#x},{:#x}", id.0, id.1),
                fields: vec![
                    ("symbol", view.symbol(section, symbol.0)),
                    ("flags", format!("{flags:#x}")),
                    ("offset", format!("{offset:#x}")),
                ],
            });
        }
    }
    items
}

fn notes(view: &View<'_>, options: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let sections = view.cubin.sections.iter().zip(&view.sections);
    for (section, list) in sections.filter(|(section, _)| section.sh_type == sht::NOTE) {
        let records = note::records(section.name, section.data).map_while(Result::ok);
        let ignored = usize::from(is_tool_note(section) && !options.tool);
        for record in records.skip(ignored) {
            let tool = (record.note_type == note::TYPE_TKINFO)
                .then(|| ToolRecord::parse(record.descriptor))
                .flatten();
            let (key, value) = match tool {
                Some(tool) => {
                    let parts = [tool.release, tool.build, tool.options, tool.object];
                    (format!("tool {}", tool.tool), parts.join(" | "))
                }
                None => (format!("type {}", record.note_type), view::hex(record.bytes)),
            };
            items.push(ListedItem { list: list.clone(), key, fields: vec![("", value)] });
        }
    }
    items
}

fn relocations(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    for (section, list) in view.cubin.sections.iter().zip(&view.sections) {
        items.extend(section.relocations().iter().map(|reloc| ListedItem {
            list: list.clone(),
            key: format!("+{:#x}", reloc.offset),
            fields: vec![
                ("type", view::reloc_name(reloc.kind)),
                ("symbol", view.reloc_symbol(section, &reloc)),
                ("addend", view::signed(reloc.addend)),
            ],
        }));
    }
    items
}

/// The records of Mercury code, by the offsets of their instructions.
fn capsules(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let sections = view.cubin.sections.iter().zip(&view.sections);
    for (section, list) in sections.filter(|(section, _)| section.sh_type == sht::MERCURY_CODE) {
        // Damaged ones are compared as bytes.
        let Ok(capsule) = Capsule::parse(section.name, section.data) else { continue };
        let code = vec![("", view.section(capsule.code().0))];
        items.push(ListedItem { list: list.clone(), key: "code".to_owned(), fields: code });
        items.extend(capsule.records().map(|record| ListedItem {
            list: list.clone(),
            key: format!("+{:#x}", record.instructions.start * capmerc::INSTRUCTION),
            fields: vec![
                ("kind", record.kind.name().to_owned()),
                ("bytes", view::hex(section.data.get(record.bytes).unwrap_or_default())),
            ],
        }));
    }
    items
}

/// Sections that start and end there stand for offsets, which move with the tool note.
fn segments(view: &View<'_>, options: DiffOptions) -> Vec<ListedItem> {
    let sections = || view.tables.sections.iter().zip(&view.cubin.sections).zip(&view.sections);
    let header = &view.tables.header;
    let start = |offset: u64| {
        let found = sections().skip(1).find(|((raw, _), _)| raw.offset == offset && raw.size != 0);
        match found {
            Some((_, name)) => name.clone(),
            None if offset == header.phoff => "(program headers)".to_owned(),
            None => "(nowhere)".to_owned(),
        }
    };
    let end = |segment: &Segment| {
        let end = segment.offset.wrapping_add(segment.file_size);
        let mut ends = sections().filter(|((raw, section), _)| {
            !section.data.is_empty() && raw.offset.wrapping_add(raw.size) == end
        });
        match ends.next_back() {
            Some((_, name)) if !options.tool => name.clone(),
            _ => format!("{:#x}", segment.file_size),
        }
    };
    let item = |segment: &Segment| ListedItem {
        list: String::new(),
        key: words::word(words::SEGMENT_TYPES, u64::from(segment.p_type)),
        fields: vec![
            ("start", start(segment.offset)),
            ("end", end(segment)),
            ("flags", words::bits(words::SEGMENT_FLAGS, u64::from(segment.flags))),
            ("bss", format!("{:#x}", segment.memory_size.wrapping_sub(segment.file_size))),
            ("align", segment.align.to_string()),
            ("address", format!("{:#x} {:#x}", segment.vaddr, segment.paddr)),
        ],
    };
    view.tables.segments.iter().map(item).collect()
}

fn strings(view: &View<'_>, _: DiffOptions) -> Vec<ListedItem> {
    let mut items = Vec::new();
    let sections = view.cubin.sections.iter().zip(&view.sections);
    for (section, list) in sections.filter(|(section, _)| section.sh_type == sht::STRTAB) {
        items.extend(section.data.split(|&byte| byte == 0).map(|string| ListedItem {
            list: list.clone(),
            key: name::quote(string),
            fields: Vec::new(),
        }));
    }
    items
}
