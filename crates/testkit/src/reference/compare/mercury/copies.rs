//! The debug data of machine code about functions that several objects define, functions with an
//! alias, and functions whose code nvlink rewrites.
//!
//! In: a linked cubin and the names of those functions. Out: the contents of the sections in lines,
//! without the data that nvlink computes anew for code that replaced other code
//! (docs/DIFFERENCES.md, debug-of-replaced): operations of frames, lines, and ranges of registers;
//! for rewritten code, also the length of the frame. Guaranteed: debug data of all other functions
//! is in the lines.

use super::inputs::LinkObjects;
use culd_cubin::elf::{sht, stt};
use culd_cubin::{Section, SectionIndex, SymbolIndex};
use culd_inspect::view::{View, hex, is_mercury};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// The contents of one section.
type SectionContents = Vec<String>;

/// The tables of lines.
const LINES: [&[u8]; 2] = [b".debug_line", b".nv_debug_line_sass"];
/// Bytes of a relocation, of its first fields, and of its last one.
const RECORD: usize = 24;
const PLACE_AND_TYPE: usize = 12;
const ADDEND: usize = 8;
/// The section that says what each register holds.
const REGISTERS: &[u8] = b".nv_debug_info_reg_sass";
/// Bytes of an entry of `.debug_frame` before the contents, then up to the address, and to the
/// operations.
const HEAD: usize = 12;
const ADDRESS: usize = HEAD + 8;
const OPERATIONS: usize = ADDRESS + 16;
/// Bytes of the operation that sets the address, before that.
const SET_ADDRESS: usize = 3;

/// Functions whose debug data differs.
#[derive(Clone, Debug, Default)]
pub(in crate::reference::compare) struct OtherFunctions {
    /// Those that [`all`] finds.
    pub(in crate::reference::compare) copies: HashSet<Vec<u8>>,
    /// Functions whose code nvlink rewrites.
    pub(in crate::reference::compare) anew: HashSet<Vec<u8>>,
}

impl OtherFunctions {
    pub(in crate::reference::compare) fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.anew.is_empty()
    }

    pub(in crate::reference::compare) fn contains(&self, name: &[u8]) -> bool {
        self.copies.contains(name) || self.anew.contains(name)
    }
}

/// The functions of a program that several of its inputs define, and those that share their code
/// with an alias.
pub(in crate::reference::compare) fn all(
    program: &View<'_>,
    inputs: &LinkObjects,
) -> HashSet<Vec<u8>> {
    let mut names: HashMap<SectionIndex, Vec<&[u8]>> = HashMap::new();
    for symbol in program.cubin.symbols.iter().filter(|symbol| symbol.is_function()) {
        if let Some(code) = symbol.defined_in() {
            names.entry(code).or_default().push(symbol.name);
        }
    }
    let shared = names.into_values().filter(|names| names.len() > 1).flatten();
    shared.map(<[u8]>::to_vec).chain(inputs.copies().iter().cloned()).collect()
}

/// The contents of the sections that may differ, by name.
pub(in crate::reference::compare) fn debug_lines(
    view: &View<'_>,
    others: &OtherFunctions,
) -> HashMap<&'static str, SectionContents> {
    let mut debug_lines = HashMap::new();
    for (index, section) in view.cubin.section_indices().filter(|(_, s)| !is_mercury(s)) {
        let functions = || functions(view, index);
        match section.name {
            b".debug_frame" => {
                debug_lines.insert(".debug_frame", frames(section, &functions(), others))
            }
            b".debug_line" => {
                debug_lines.insert(".debug_line", units(section, &functions(), others))
            }
            b".nv_debug_line_sass" => {
                debug_lines.insert(".nv_debug_line_sass", units(section, &functions(), others))
            }
            REGISTERS => {
                debug_lines.insert(".nv_debug_info_reg_sass", registers(section.data, others))
            }
            _ => None,
        };
    }
    debug_lines
}

/// The functions whose addresses are in section `target`, by place.
fn functions<'v>(view: &'v View<'_>, target: SectionIndex) -> BTreeMap<usize, &'v [u8]> {
    let tables = view.cubin.sections.iter();
    let tables = tables.filter(|table| table.is_reloc() && table.info_section() == Some(target));
    let mut functions = BTreeMap::new();
    for record in tables.flat_map(|table| table.relocations().iter().collect::<Vec<_>>()) {
        let symbol = view.cubin.symbol(record.symbol).filter(|symbol| symbol.is_function());
        if let Some(symbol) = symbol {
            functions.insert(record.offset as usize, symbol.name);
        }
    }
    functions
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn word(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes) as usize)
}

/// One line for each entry: for copies the function and its size, for rewritten code the function.
fn frames(
    section: &Section<'_>,
    functions: &BTreeMap<usize, &[u8]>,
    others: &OtherFunctions,
) -> SectionContents {
    let (data, mut at, mut lines) = (section.data, 0, SectionContents::new());
    while let Some(end) = word(data, at + 4).map(|length| at + HEAD + length) {
        let part = |from: usize, end: usize| hex(data.get(from..end).unwrap_or_default());
        let line = match functions.get(&(at + ADDRESS)) {
            Some(&name) if others.contains(name) => {
                // Its common entry, which has the same form.
                lines.pop();
                match others.anew.contains(name) {
                    true => text(name),
                    false => format!("{} {}", text(name), part(at + ADDRESS, at + OPERATIONS)),
                }
            }
            Some(&name) => format!("{} {}", text(name), part(at + ADDRESS, end)),
            None => part(at, end),
        };
        lines.push(line);
        at = end;
    }
    lines.push(hex(data.get(at..).unwrap_or_default()));
    lines
}

/// A line for the header of each unit and for each function; for copies only the name.
fn units(
    section: &Section<'_>,
    functions: &BTreeMap<usize, &[u8]>,
    others: &OtherFunctions,
) -> SectionContents {
    let (data, mut at, mut lines) = (section.data, 0, SectionContents::new());
    while let Some(end) = word(data, at).map(|length| at + 4 + length) {
        let part = |from: usize, end: usize| hex(data.get(from..end).unwrap_or_default());
        let mut starts = functions
            .range(at..end.max(at))
            .map(|(place, name)| (place.saturating_sub(SET_ADDRESS), *name))
            .collect::<Vec<_>>()
            .into_iter()
            .peekable();
        lines.push(part(at + 4, starts.peek().map_or(end, |start| start.0)));
        while let Some((from, name)) = starts.next() {
            let end = starts.peek().map_or(end, |start| start.0);
            lines.push(if others.contains(name) {
                text(name)
            } else {
                // The address is zero before it is patched.
                format!("{} {}", text(name), part(from, end))
            });
        }
        at = end;
    }
    lines
}

/// A line for each register; for copies without the ranges. If any code is rewritten, the ranges of
/// all functions are undefined: two runs of nvlink differ.
fn registers(data: &[u8], others: &OtherFunctions) -> SectionContents {
    let (mut at, mut lines) = (0, SectionContents::new());
    for range in ranges(data, |name| !others.anew.is_empty() || others.contains(name)) {
        lines.push(hex(data.get(at..range.start).unwrap_or_default()));
        at = range.end;
    }
    lines.push(hex(data.get(at..).unwrap_or_default()));
    lines
}

/// The places in `.nv_debug_info_reg_sass` of the ranges of functions for which `is_other` holds.
fn ranges(data: &[u8], is_other: impl Fn(&[u8]) -> bool) -> Vec<Range<usize>> {
    let (mut at, mut ranges) = (0, Vec::new());
    let string = |at: usize| {
        let tail = data.get(at..)?;
        tail.get(..tail.iter().position(|&byte| byte == 0)?)
    };
    while let Some((name, count)) =
        string(at).and_then(|n| Some((n, word(data, at + n.len() + 1)?)))
    {
        at += name.len() + 5;
        for _ in 0..count {
            // u32, register, u32, u32 start, u32 end
            let Some(register) = string(at + 4) else { return ranges };
            let start = at + 4 + register.len() + 1 + 4;
            at = start + 8;
            ranges.extend(is_other(name).then_some(start..at));
        }
    }
    ranges
}

/// `bytes` without some addends of relocations of machine code's debug sections: those about the
/// functions `names` and places in them, and those about tables of lines, in which these functions
/// have another size.
pub(in crate::reference::compare) fn without_ends(
    bytes: &[u8],
    names: &HashSet<Vec<u8>>,
) -> Vec<u8> {
    let mut cleared = bytes.to_vec();
    let Some(view) = View::parse(bytes).ok().filter(|_| !names.is_empty()) else { return cleared };
    for (index, table) in view.cubin.section_indices().filter(|(_, s)| s.sh_type == sht::RELA) {
        let raw = view.tables.sections.get(index.0 as usize).map(|raw| raw.offset as usize);
        let of_debug = [&b".rela.debug_"[..], b".rela.nv_debug_"];
        let Some(start) = raw.filter(|_| of_debug.iter().any(|name| table.name.starts_with(name)))
        else {
            continue;
        };
        for (number, record) in table.relocations().iter().enumerate() {
            let about = view.cubin.symbol(record.symbol).is_some_and(|symbol| {
                let table = symbol.defined_in().filter(|_| symbol.kind() == stt::SECTION);
                match table.and_then(|table| view.cubin.section(table)) {
                    Some(table) => LINES.contains(&table.name),
                    None => names.contains(symbol.name),
                }
            });
            let addend = start + number * RECORD + RECORD - ADDEND;
            if let Some(addend) = cleared.get_mut(addend..addend + ADDEND).filter(|_| about) {
                addend.fill(0);
            }
        }
    }
    cleared
}

/// Clears the ranges of registers of functions that share their name with others in an object:
/// nvlink looks for their places in the code of another of them, and behind the end of its list
/// (docs/DIFFERENCES.md, registers-of-equal-names). Returns the cleared bytes.
pub(in crate::reference::compare) fn clear_equal_names(
    view: &View<'_>,
    bytes: &mut [u8],
) -> Vec<u8> {
    let names = equal_names(view);
    let sections = view.cubin.section_indices();
    let sections = sections.filter(|(_, s)| s.name == REGISTERS && !is_mercury(s));
    let places = sections.flat_map(|(index, section)| {
        let start = view.tables.sections.get(index.0 as usize).map_or(0, |raw| raw.offset as usize);
        let places = ranges(section.data, |name| names.contains(name)).into_iter();
        places.map(move |range| start + range.start..start + range.end)
    });
    clear(bytes, places.collect())
}

/// Clears places and types in the records that `--preserve-relocs` keeps for functions that share
/// their name with others: nvlink looks them all up in the code of the first (docs/DIFFERENCES.md,
/// resolved-of-equal-names). Returns the cleared bytes.
pub(super) fn clear_resolved(view: &View<'_>, bytes: &mut [u8]) -> Vec<u8> {
    let names = equal_names(view);
    let sections = view.cubin.section_indices();
    let of_equal = |section: &Section<'_>| {
        let name = section.name.strip_prefix(b".nv.merc").unwrap_or(section.name);
        let name = name.strip_prefix(b".nv.resolvedrela.text.");
        name.is_some_and(|name| names.contains(name))
    };
    let places = sections.filter(|(_, section)| of_equal(section)).flat_map(|(index, section)| {
        let start = view.tables.sections.get(index.0 as usize).map_or(0, |raw| raw.offset as usize);
        (0..section.data.len() / RECORD).map(move |number| {
            let record = start + number * RECORD;
            record..record + PLACE_AND_TYPE
        })
    });
    clear(bytes, places.collect())
}

/// Clears in `.debug_info` of both files the places of units in `.debug_line`, where they are those
/// of the same unit: the lines of functions that several objects define take more or less room in
/// front of it. True where any differed.
pub(super) fn clear_units(
    (theirs, ours): (&View<'_>, &View<'_>),
    masked: &mut (Vec<u8>, Vec<u8>),
) -> bool {
    let starts = |view: &View<'_>| {
        let table = view.cubin.section_by_name(LINES[0]).map_or(&[][..], |table| table.data);
        let next = |&at: &usize| word(table, at).map(|length| at + 4 + length);
        std::iter::successors(Some(0), next).collect::<Vec<_>>()
    };
    let info = |view: &View<'_>| {
        let mut sections = view.cubin.section_indices();
        let (index, section) = sections.find(|(_, section)| section.name == b".debug_info")?;
        let start = view.tables.sections.get(index.0 as usize)?.offset as usize;
        Some((start, section.data.len()))
    };
    let (Some(their), Some(own)) = (info(theirs), info(ours)) else { return false };
    let units: Vec<_> = starts(theirs).into_iter().zip(starts(ours)).collect();
    let mut any = false;
    for at in 0..their.1.min(own.1) {
        let places = (word(&masked.0, their.0 + at), word(&masked.1, own.0 + at));
        let (Some(one), Some(other)) = places else { break };
        if one != other && units.contains(&(one, other)) {
            any = true;
            clear(&mut masked.0, std::iter::once(their.0 + at..their.0 + at + 4).collect());
            clear(&mut masked.1, std::iter::once(own.0 + at..own.0 + at + 4).collect());
        }
    }
    any
}

fn clear(bytes: &mut [u8], places: Vec<Range<usize>>) -> Vec<u8> {
    let mut before = Vec::new();
    for place in places {
        if let Some(place) = bytes.get_mut(place) {
            before.extend_from_slice(place);
            place.fill(0);
        }
    }
    before
}

/// True if several functions have one name.
pub(super) fn has_equal_names(view: &View<'_>) -> bool {
    !equal_names(view).is_empty()
}

/// The names that several functions have.
fn equal_names(view: &View<'_>) -> HashSet<Vec<u8>> {
    let mut uses: HashMap<&[u8], usize> = HashMap::new();
    for (index, section) in view.cubin.section_indices().filter(|(_, s)| s.is_code()) {
        let function = view.cubin.symbol(SymbolIndex(section.info & 0xff_ffff));
        let own = function.filter(|function| function.defined_in() == Some(index));
        own.into_iter().for_each(|function| *uses.entry(function.name).or_default() += 1);
    }
    uses.into_iter().filter(|(_, uses)| *uses > 1).map(|(name, _)| name.to_vec()).collect()
}
