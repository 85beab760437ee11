//! Edits of sections: sizes, alignments and bytes of code and data.
//!
//! In: an object and a number. Out: the changed object and a description.

use super::object::{EditedObject, EditedSection};
use super::pick::pick;
use crate::random::generate::rng::Rng;
use culd_cubin::elf::{is_nobits, sht, stt};

fn choose(
    object: &EditedObject,
    seed: u64,
    wanted: impl Fn(&EditedSection) -> bool,
) -> Option<usize> {
    let sections = object.sections.iter().enumerate().filter(|(_, section)| wanted(section));
    pick(seed, sections.map(|(at, section)| (section.name.clone(), at)))
}

/// Code and data, with or without bytes in the file.
fn is_memory(section: &EditedSection) -> bool {
    match section.header.sh_type {
        sht::PROGBITS | sht::CUDA_GLOBAL_INIT => true,
        sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST => true,
        kind => is_nobits(kind),
    }
}

pub(super) fn size(object: &mut EditedObject, seed: u64) -> Option<String> {
    let at = choose(object, seed, is_memory)?;
    let mut rng = Rng::new(seed);
    let section = &mut object.sections[at];
    let before = section.size();
    let unit = if section.name.starts_with(".text") { 16 } else { rng.pick(&[1, 4, 8, 64]) };
    let after = if rng.chance(95) {
        before + unit * rng.range(1, 4) as u64
    } else {
        before.saturating_sub(unit)
    };
    if is_nobits(section.header.sh_type) {
        section.header.size = after;
    } else {
        section.data.resize(after as usize, 0);
    }
    // Code is as long as its function.
    for symbol in object.symbols.iter_mut() {
        let entry = &mut symbol.entry;
        if usize::from(entry.section) == at && entry.info & 15 == stt::FUNC {
            entry.size = after.saturating_sub(entry.value);
        }
    }
    let name = &object.sections[at].name;
    (after != before).then(|| format!("size of {name}: {before:#x} -> {after:#x}"))
}

/// Changes the alignment of code, of variables and of named constants. Banks of functions and debug
/// sections all have one alignment, because records put them together.
pub(super) fn align(object: &mut EditedObject, seed: u64) -> Option<String> {
    let placed = |section: &EditedSection| {
        is_memory(section)
            && (section.name.starts_with(".text.")
                || section.name.starts_with(".nv.global")
                || section.name.contains("shared")
                || section.name == ".nv.constant3")
    };
    let at = choose(object, seed, placed)?;
    let mut rng = Rng::new(seed);
    let section = &mut object.sections[at];
    let before = section.header.align;
    section.header.align = if rng.chance(3) { 24 } else { 1 << rng.below(10) };
    let after = section.header.align;
    (after != before).then(|| format!("alignment of {}: {before} -> {after}", section.name))
}

pub(super) fn bytes(object: &mut EditedObject, seed: u64) -> Option<String> {
    let with_bytes = |section: &EditedSection| is_memory(section) && !section.data.is_empty();
    let at = choose(object, seed, with_bytes)?;
    let mut rng = Rng::new(seed);
    let section = &mut object.sections[at];
    let offset = rng.below(section.data.len());
    let byte = section.data.get_mut(offset)?;
    let before = *byte;
    *byte ^= 1 << rng.below(8);
    Some(format!("{}+{offset:#x}: {before:#04x} -> {byte:#04x}", section.name))
}
