//! The meaning of a linked program, independent of the steps in which it was linked.
//!
//! In: a linked cubin, and the compiled objects of the program. Out: a [`ProgramText`]: functions,
//! variables, calls and attributes by name, without an order. In code, an address in constant or
//! shared memory is replaced by the name of the definition there. Guaranteed: an address of another
//! definition than the compiler's object names, and shared variables of one kernel that overlap,
//! are faults of the program.
//!
//! Debug information and the compiler's notes are left out: objects lose them (docs/DIFFERENCES.md,
//! debug-offsets-of-objects; LINKING.md, -r).

mod code;
mod memory;
mod objects;

use anyhow::{Context, Result};
use culd_cubin::attr::Records;
use culd_cubin::callgraph::Edge;
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Cubin, Section, SectionIndex, Symbol, SymbolIndex, callgraph};
use culd_inspect::view::{self, View};
use culd_reloc::RelocValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use objects::AddressField;
pub use objects::Objects;

/// A program as text by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramText {
    items: BTreeMap<String, Vec<String>>,
    short: BTreeSet<String>,
}

impl ProgramText {
    /// Reads the program that was linked from `objects`.
    ///
    /// # Errors
    /// When it cannot be read, or has a fault.
    pub fn read(linked: &[u8], objects: &Objects<'_>) -> Result<Self> {
        let mut view = View::parse(linked).context("the linked program")?;
        view.symbols = names(&view);
        let mut items = BTreeMap::new();
        calls(&view, objects, &mut items);
        attributes(&view, &mut items);
        sections(&view, &mut items);
        variables(&view, objects, &mut items);
        let short = code::functions(&view, objects, &mut items)?;
        Ok(ProgramText { items, short })
    }

    /// The kernels whose shared memory ends in front of their arrays without size
    /// (docs/DIFFERENCES.md, short-dynamic-sections).
    pub fn short_kernels(&self) -> &BTreeSet<String> {
        &self.short
    }

    /// The same without the alignments of shared memory: nvlink makes them larger in objects with
    /// `extern` arrays.
    #[must_use]
    pub fn without_alignments(mut self) -> Self {
        self.items.retain(|key, _| !key.starts_with(ALIGNMENT));
        self
    }

    /// True if one program lacks sections of shared memory of the other, and there is no other
    /// difference.
    pub fn differs_in_shared_sections(&self, other: &Self) -> bool {
        let mut keys = self.items.keys().chain(other.items.keys());
        keys.all(|key| {
            let shared = key.starts_with("section .nv.shared.");
            self.items.get(key) == other.items.get(key) || shared || key.starts_with(ALIGNMENT)
        })
    }

    /// The difference of two programs; `None` if they are the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let names: BTreeSet<&String> = self.items.keys().chain(other.items.keys()).collect();
        let none = Vec::new();
        names.into_iter().find_map(|name| {
            let get = |program: &'_ Self| program.items.get(name).cloned().unwrap_or_default();
            let (one, two) = (get(self), get(other));
            let length = one.len().max(two.len());
            let at = (0..length).find(|&at| one.get(at) != two.get(at))?;
            let line = |lines: &Vec<String>| {
                lines.get(at).or(none.first()).cloned().unwrap_or_else(|| "(nothing)".to_owned())
            };
            Some(format!("{name}: {} instead of {}", line(&two), line(&one)))
        })
    }
}

/// The start of keys about the alignment of shared memory.
const ALIGNMENT: &str = "alignment ";

type Items = BTreeMap<String, Vec<String>>;

/// A word for every symbol: repeated names get numbers. Functions and other symbols count
/// separately, because steps change their relative order.
fn names(view: &View<'_>) -> Vec<String> {
    let mut seen: HashMap<(bool, &[u8]), usize> = HashMap::new();
    let name = |symbol: &Symbol<'_>| String::from_utf8_lossy(symbol.name).into_owned();
    let numbered = view.cubin.symbols.iter().map(|symbol| {
        let count = seen.entry((symbol.is_function(), symbol.name)).or_default();
        *count += 1;
        if *count == 1 { name(symbol) } else { format!("{}@{count}", name(symbol)) }
    });
    numbered.collect()
}

/// Adds edges and prototypes, each once: an object lists an edge once. Edges of functions that
/// several objects define are left out: the steps decide which copies were accepted and leave their
/// edges.
fn calls(view: &View<'_>, objects: &Objects<'_>, items: &mut Items) {
    let several = |index: SymbolIndex| {
        let name = view.cubin.symbol(index).map_or(&[][..], |symbol| symbol.name);
        objects.functions(name, false).len() > 1
    };
    let mut lines = BTreeSet::new();
    for section in &view.cubin.sections {
        if section.sh_type == sht::CUDA_CALLGRAPH {
            for (_, edge) in callgraph::edges(section).map_while(Result::ok) {
                let (list, from, to) = view.edge(section, &edge);
                if several(caller(&edge)) {
                    continue;
                }
                lines.insert(format!("[{list}] {from} -> {to}"));
            }
        }
        if section.sh_type == sht::CUDA_PROTOTYPE {
            for (function, string) in callgraph::prototypes(section) {
                let name = view.symbol(section, function.0);
                lines.insert(format!("prototype {name} {}", view.string(string)));
            }
        }
    }
    items.insert("calls".to_owned(), lines.into_iter().collect());
}

/// The function of a record of the call graph.
fn caller(edge: &Edge) -> SymbolIndex {
    match *edge {
        Edge::Call { caller: function, .. }
        | Edge::AddressTaken { function, .. }
        | Edge::IndirectCall { function, .. }
        | Edge::Reference { function, .. } => function,
    }
}

/// Adds the records of every list, without their order.
fn attributes(view: &View<'_>, items: &mut Items) {
    for section in &view.cubin.sections {
        if !view::is_attributes(section) {
            continue;
        }
        let mut lines = Vec::new();
        for record in Records::new(section.name, section.data).map_while(Result::ok) {
            let value = view.attribute_value(section, &record);
            let mut words: Vec<&str> = value.split(' ').collect();
            if record.code == culd_cubin::attr::code::EXTERNS {
                words.sort_unstable();
            }
            lines.push(format!(
                "{} {}",
                view::attribute_name(section, record.code),
                words.join(" ")
            ));
        }
        // Mercury lists of local functions of one name have one key.
        let all = items.entry(format!("attributes {}", owner(view, section))).or_default();
        all.append(&mut lines);
        all.sort();
    }
}

/// The name of a section and its function: the order of sections of one name depends on the steps.
fn owner(view: &View<'_>, section: &Section<'_>) -> String {
    let code = match section.info_section() {
        Some(index) => view.cubin.section(index),
        None => section.is_code().then_some(section),
    };
    let symbol =
        code.filter(|code| code.is_code()).map(|code| view.symbol(code, code.info & 0xff_ffff));
    format!("{} of {}", raw_name(section), symbol.unwrap_or_default())
}

fn raw_name(section: &Section<'_>) -> String {
    String::from_utf8_lossy(section.name).into_owned()
}

/// Adds the headers of sections of kernels and functions, and the parameters. The size of shared
/// memory depends on the order of variables of equal size and alignment, which steps change; so it
/// only has to be large enough.
fn sections(view: &View<'_>, items: &mut Items) {
    let header = view.cubin.header;
    items.insert("header".to_owned(), vec![format!("{} {:#x}", header.e_type, header.sm())]);
    for section in &view.cubin.sections {
        let shared = section.name.starts_with(b".nv.shared.");
        let owned = section.is_code() || shared || section.constant_bank() == Some(0);
        if owned {
            let (flags, align) = (section.flags, section.align());
            let size = if shared { 0 } else { section.size };
            if shared {
                let key = format!("{ALIGNMENT}{}", owner(view, section));
                items.insert(key, vec![align.to_string()]);
            }
            let align = if shared { 0 } else { align };
            let mut lines = vec![format!(
                "{} flags={flags:#x} align={align} size={size:#x}",
                view::section_type(section)
            )];
            if section.is_code() {
                lines.push(format!("{} registers", section.info >> 24));
            }
            if section.constant_bank() == Some(0) {
                lines.push(view::hex(section.data));
            }
            items.insert(format!("section {}", owner(view, section)), lines);
        }
    }
}

/// Adds every symbol that is no section, with the bytes and relocations of its definition.
fn variables(view: &View<'_>, objects: &Objects<'_>, items: &mut Items) {
    for (symbol, name) in view.cubin.symbols.iter().zip(&view.symbols).skip(1) {
        if symbol.kind() == stt::SECTION {
            continue;
        }
        let (info, other) = (symbol.info, symbol.other);
        let section = symbol.defined_in().and_then(|at| view.cubin.section(at));
        let place = section.map_or("undefined".to_owned(), raw_name);
        // In files with Mercury code, the first name of code has its size, even if it is an alias;
        // the steps decide which one is first.
        let code = place.strip_prefix(".text.").filter(|_| !view.cubin.mercury_symbols.is_empty());
        let is_alias =
            symbol.is_function() && code.is_some_and(|code| code.as_bytes() != symbol.name);
        let size = if is_alias { 0 } else { symbol.size };
        let mut lines = vec![format!("info={info:#x} other={other:#x} size={size:#x} {place}")];
        if !symbol.is_function()
            && let Some(index) = symbol.defined_in()
        {
            let range = symbol.value..symbol.value + symbol.size;
            let addresses = objects.addresses(symbol.name);
            lines.extend(content(view, index, range, &addresses));
        }
        let kind = if symbol.is_function() { "function" } else { "variable" };
        items.insert(format!("{kind} {name}"), lines);
    }
}

/// The bytes of a range of a section, and the records that patch it, with offsets from its start.
/// Fields at `addresses`, which hold addresses in constant or shared memory, are cleared.
fn content(
    view: &View<'_>,
    index: SectionIndex,
    range: Range<u64>,
    addresses: &[AddressField],
) -> Vec<String> {
    let data = view.cubin.section(index).map_or(&[][..], |section| section.data);
    let bytes = data.get(range.start as usize..range.end as usize).unwrap_or_default();
    let mut bytes = bytes.to_vec();
    for &AddressField { offset, kind } in addresses {
        if let Some(row) = culd_reloc::cuda(kind).filter(|row| row.is_applicable()) {
            // A place at the end of another definition of the name may be outside this one.
            let _ = row.apply(&mut bytes, offset as usize, RelocValue::default());
        }
    }
    let mut lines = vec![view::hex(&bytes)];
    let mut records = Vec::new();
    for patches in patches(&view.cubin, index) {
        for record in patches.relocations().iter().filter(|record| range.contains(&record.offset)) {
            let (offset, kind) = (record.offset - range.start, view::reloc_name(record.kind));
            let symbol = view.reloc_symbol(patches, &record);
            records.push(format!("+{offset:#x} {kind} {symbol} {}", view::signed(record.addend)));
        }
    }
    records.sort();
    lines.extend(records);
    lines
}

/// The relocation sections of a section.
fn patches<'c, 'd>(
    cubin: &'c Cubin<'d>,
    target: SectionIndex,
) -> impl Iterator<Item = &'c Section<'d>> {
    let of_target = move |s: &&Section<'_>| s.is_reloc() && s.info_section() == Some(target);
    cubin.sections.iter().filter(of_target)
}
