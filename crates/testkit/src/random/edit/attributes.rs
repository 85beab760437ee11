//! Edits of attributes, of `.nv.compat`, of the call graph and of prototypes.
//!
//! In: an object and a number. Out: the changed object and a description. Guaranteed: attribute
//! sections stay lists of whole records; call graphs stay pairs of words, and their symbols exist.

use super::object::{EditedObject, EditedSection};
use super::pick::pick;
use crate::random::generate::rng::Rng;
use culd_cubin::attr::{self, Shape, format::SIZED};
use culd_cubin::elf::{sht, stt};
use std::ops::Range;

/// The byte ranges of the records of an attribute section.
fn records(data: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = data.get(at..at + 4) {
        let payload = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let end = at + 4 + if head[0] == SIZED { payload } else { 0 };
        found.push(at..end.min(data.len()));
        at = end;
    }
    found
}

/// One record of a section for which `wanted` holds.
fn record(
    object: &EditedObject,
    seed: u64,
    wanted: impl Fn(&EditedSection) -> bool,
) -> Option<(usize, Range<usize>)> {
    let mut found = Vec::new();
    for (at, section) in object.sections.iter().enumerate().filter(|(_, s)| wanted(s)) {
        for range in records(&section.data) {
            let content = section.data.get(range.clone())?;
            found.push((format!("{} {content:02x?}", section.name), (at, range)));
        }
    }
    pick(seed, found)
}

/// True for records that cannot change: every function has one REGCOUNT, or nvlink ends with `no
/// regcount?`; SPARSE_MMA_MASK is in the list of every function or of none.
fn is_fixed(object: &EditedObject, (at, range): &(usize, Range<usize>)) -> bool {
    let code = object.sections[*at].data.get(range.start + 1);
    let fixed = [attr::code::REGCOUNT, attr::code::SPARSE_MMA_MASK];
    code.is_some_and(|code| fixed.contains(code))
}

fn is_info(section: &EditedSection) -> bool {
    section.header.sh_type == sht::CUDA_INFO
}

fn is_compat(section: &EditedSection) -> bool {
    section.header.sh_type == sht::CUDA_COMPAT
}

fn describe(object: &EditedObject, at: usize, range: &Range<usize>) -> String {
    let section = &object.sections[at];
    format!("{} {:02x?}", section.name, section.data.get(range.clone()).unwrap_or_default())
}

fn drop_record(object: &mut EditedObject, (at, range): (usize, Range<usize>)) -> String {
    let line = format!("attribute less: {}", describe(object, at, &range));
    object.sections[at].data.drain(range);
    line
}

fn repeat_record(
    object: &mut EditedObject,
    (at, range): (usize, Range<usize>),
    rng: &mut Rng,
) -> String {
    let line = format!("attribute twice: {}", describe(object, at, &range));
    let data = &mut object.sections[at].data;
    let copy = data[range.clone()].to_vec();
    let to = if rng.chance(50) { range.end } else { data.len() };
    data.splice(to..to, copy);
    line
}

/// Changes a number in the value. Symbols in it stay: else another function would have two such
/// records, and its own function none.
fn change_record(
    object: &mut EditedObject,
    (at, range): (usize, Range<usize>),
    rng: &mut Rng,
) -> String {
    let before = describe(object, at, &range);
    let record = &mut object.sections[at].data[range.clone()];
    let named = match attr::known(record[1]) {
        Some((_, Shape::Symbols)) => return String::new(),
        Some((_, Shape::Symbol | Shape::Parameter)) => 4,
        Some((_, Shape::Plain)) | None => 0,
    };
    let first = if record[0] == SIZED { 4 + named } else { 2 };
    let words = record.len().saturating_sub(first) / 4;
    let byte = if words > 0 { first + 4 * rng.below(words) } else { first };
    if let Some(byte) = record.get_mut(byte) {
        *byte = match rng.below(4) {
            0 => 0,
            1 => byte.wrapping_add(1),
            2 => byte.wrapping_sub(1),
            _ => rng.below(32) as u8,
        };
    }
    format!("attribute {before} -> {}", describe(object, at, &range))
}

pub(super) fn gone(object: &mut EditedObject, seed: u64) -> Option<String> {
    let found = record(object, seed, is_info)?;
    if is_fixed(object, &found) {
        return None;
    }
    Some(drop_record(object, found))
}

pub(super) fn twice(object: &mut EditedObject, seed: u64) -> Option<String> {
    let found = record(object, seed, is_info)?;
    if is_fixed(object, &found) {
        return None;
    }
    Some(repeat_record(object, found, &mut Rng::new(seed)))
}

pub(super) fn value(object: &mut EditedObject, seed: u64) -> Option<String> {
    let found = record(object, seed, is_info)?;
    if is_fixed(object, &found) {
        return None;
    }
    unless_same(object, |object| change_record(object, found, &mut Rng::new(seed)))
}

pub(super) fn moved(object: &mut EditedObject, seed: u64) -> Option<String> {
    let (at, range) = record(object, seed, |s| is_info(s) && s.name != ".nv.info")?;
    if is_fixed(object, &(at, range.clone())) {
        return None;
    }
    let others = object.sections.iter().enumerate();
    let others = others.filter(|(to, s)| is_info(s) && s.name != ".nv.info" && *to != at);
    let to: usize = pick(seed, others.map(|(to, section)| (section.name.clone(), to)))?;
    let line = format!("to {}: {}", object.sections[to].name, describe(object, at, &range));
    let content: Vec<u8> = object.sections[at].data.drain(range).collect();
    object.sections[to].data.extend(content);
    Some(line)
}

pub(super) fn compat(object: &mut EditedObject, seed: u64) -> Option<String> {
    let found = record(object, seed, is_compat)?;
    let mut rng = Rng::new(seed);
    match rng.below(4) {
        0 => Some(drop_record(object, found)),
        1 => Some(repeat_record(object, found, &mut rng)),
        _ => unless_same(object, |object| change_record(object, found, &mut rng)),
    }
}

/// Runs `edit`; `None` if no section has changed.
fn unless_same(
    object: &mut EditedObject,
    edit: impl FnOnce(&mut EditedObject) -> String,
) -> Option<String> {
    let before: Vec<Vec<u8>> = object.sections.iter().map(|s| s.data.clone()).collect();
    let line = edit(object);
    let same = object.sections.iter().map(|s| &s.data).eq(&before);
    (!same).then_some(line)
}

/// A section that is a list of pairs of words.
struct PairSection {
    /// Its number in the object.
    at: usize,
    pairs: Vec<[u32; 2]>,
}

/// The section of type `sh_type`.
fn pair_section(object: &EditedObject, sh_type: u32) -> Option<PairSection> {
    let at = object.sections.iter().position(|section| section.header.sh_type == sh_type)?;
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let pairs = object.sections[at].data.chunks_exact(8);
    let pairs = pairs.map(|pair| [word(&pair[..4]), word(&pair[4..])]).collect();
    Some(PairSection { at, pairs })
}

fn set_pairs(
    object: &mut EditedObject,
    at: usize,
    list: &[[u32; 2]],
    what: &str,
) -> Option<String> {
    let bytes: Vec<u8> = list.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let section = &mut object.sections[at];
    let before = std::mem::replace(&mut section.data, bytes);
    (section.data != before).then(|| format!("{}: {what}", section.name))
}

/// Edits records about functions of this file: calls, calls through pointers, taken addresses.
/// Functions whose address is taken stay as they are: they have a prototype, and all files have the
/// same one.
pub(super) fn call_graph(object: &mut EditedObject, seed: u64) -> Option<String> {
    const TAKEN: u32 = -2_i32 as u32;
    let PairSection { at, pairs: mut list } = pair_section(object, sht::CUDA_CALLGRAPH)?;
    let defined = |index: u32| {
        let symbol = object.symbols.get(index as usize);
        symbol.is_some_and(|s| s.entry.info & 15 == stt::FUNC && s.entry.section != 0)
    };
    let mut own = Vec::new();
    let mut which = 0;
    for (index, pair) in list.iter().enumerate() {
        match pair[0] {
            0 => which = pair[1],
            first if which != TAKEN && defined(first) => own.push(index),
            _ => {}
        }
    }
    let label = |&index: &usize| (format!("{:?}", list[index]), index);
    let index: usize = pick(seed, own.iter().map(label))?;
    let functions = (0..object.symbols.len() as u32).filter(|&index| defined(index));
    let named = functions.map(|at| (object.symbols[at as usize].name.clone(), at));
    let function: u32 = pick(!seed, named)?;
    let mut rng = Rng::new(seed);
    let what = match rng.below(5) {
        0 => pair_less(&mut list, index),
        1 => pair_twice(&mut list, index),
        2 => {
            list[index][0] = function;
            "a record about another function"
        }
        3 => {
            let other = *rng.choose(&own)?;
            // The second words of different lists have different meanings.
            let (first, second) = (list[index][0], list[other][0]);
            (list[index][0], list[other][0]) = (second, first);
            "two records are about each other's functions"
        }
        _ => {
            list.insert(index, [function, list[index][1]]);
            "a record more"
        }
    };
    set_pairs(object, at, &list, what)
}

fn pair_less(list: &mut Vec<[u32; 2]>, index: usize) -> &'static str {
    list.remove(index);
    "a record less"
}

fn pair_twice(list: &mut Vec<[u32; 2]>, index: usize) -> &'static str {
    list.insert(index, list[index]);
    "a record twice"
}

/// Repeats, drops or reorders records. The prototypes stay: else the files would contradict each
/// other.
pub(super) fn prototypes(object: &mut EditedObject, seed: u64) -> Option<String> {
    let PairSection { at, pairs: mut list } = pair_section(object, sht::CUDA_PROTOTYPE)?;
    let labels = list.iter().enumerate().map(|(index, pair)| (format!("{pair:?}"), index));
    let index: usize = pick(seed, labels)?;
    let mut rng = Rng::new(seed);
    let what = match rng.below(3) {
        0 => pair_less(&mut list, index),
        1 => pair_twice(&mut list, index),
        _ => {
            let other = rng.below(list.len());
            list.swap(index, other);
            "two records changed places"
        }
    };
    set_pairs(object, at, &list, what)
}
