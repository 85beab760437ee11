//! Edits of relocations.
//!
//! In: an object and a number. Out: the changed object and a description. The values are those at
//! which linkers differ: existing types and a few unknown ones, places at the ends of fields and
//! sections, addends around 16, 24, 32 and 64 bits.

use super::object::{EditedObject, EditedReloc, EditedSection};
use super::pick::pick;
use crate::random::generate::rng::Rng;
use culd_cubin::elf::{shf, sht};
use culd_cubin::raw::SectionHeader;
use culd_reloc::RelocType;

/// Addends that matter to some field.
const ADDENDS: [i64; 18] = [
    0,
    1,
    -1,
    4,
    8,
    -4,
    0x10,
    0x7f,
    0xff,
    0xfff,
    0xffff,
    0x1_0000,
    0xff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MIN,
];

/// The place of a record: the numbers of its section, and of the record there.
#[derive(Clone, Copy)]
struct RecordPlace {
    section: usize,
    record: usize,
}

/// The place of a record that `seed` picks.
fn place(object: &EditedObject, seed: u64) -> Option<RecordPlace> {
    let mut places = Vec::new();
    for (at, section) in object.sections.iter().enumerate().filter(|(_, s)| s.is_relocations()) {
        for (index, record) in section.records.iter().enumerate() {
            let place = RecordPlace { section: at, record: index };
            places.push((label(object, section, record), place));
        }
    }
    pick(seed, places)
}

fn label(object: &EditedObject, section: &EditedSection, record: &EditedReloc) -> String {
    let symbol = object.symbols.get(record.symbol as usize);
    let name = symbol.map_or_else(|| format!("#{}", record.symbol), |symbol| name(object, symbol));
    let (kind, offset, addend) = (RelocType(record.kind), record.offset, record.addend);
    format!("{}+{offset:#x} {kind} {name} {addend:#x}", section.name)
}

/// A name for section symbols too.
fn name(object: &EditedObject, symbol: &super::object::EditedSymbol) -> String {
    match object.sections.get(usize::from(symbol.entry.section)) {
        Some(section) if symbol.entry.info & 15 == 3 => section.name.clone(),
        _ => symbol.name.clone(),
    }
}

/// Changes one record by `edit`; returns its old and new form.
fn change(
    object: &mut EditedObject,
    seed: u64,
    edit: impl FnOnce(&EditedObject, usize, &mut EditedReloc, &mut Rng),
) -> Option<String> {
    let RecordPlace { section: at, record: index } = place(object, seed)?;
    let mut record = *object.sections[at].records.get(index)?;
    let before = label(object, &object.sections[at], &record);
    edit(object, at, &mut record, &mut Rng::new(seed));
    let same = object.sections[at].records[index] == record;
    object.sections[at].records[index] = record;
    let after = label(object, &object.sections[at], &record);
    (!same).then(|| format!("{before} -> {after}"))
}

fn any_kind(rng: &mut Rng) -> u32 {
    if rng.chance(1) {
        return rng.pick(&[117, 118, 200, 0xffff, 0x10000, 0x1_0005, u32::MAX]);
    }
    rng.below(culd_reloc::CUDA.len()) as u32
}

fn any_symbol(object: &EditedObject, seed: u64) -> u32 {
    let symbols = object.symbols.iter().enumerate();
    let named = symbols.map(|(index, symbol)| {
        (format!("{} {:#x}", name(object, symbol), symbol.entry.info), index as u32)
    });
    pick(seed, named).unwrap_or(0)
}

/// An offset in the section that `records` patches: mostly of an instruction, sometimes any offset
/// or one near the end.
fn any_offset(object: &EditedObject, records: usize, rng: &mut Rng) -> u64 {
    let target = object.sections.get(object.sections[records].header.info as usize);
    let size = target.map_or(0, EditedSection::size);
    match rng.below(20) {
        0 => size.saturating_sub(rng.pick(&[1, 4, 8, 12, 16])),
        1 if rng.chance(20) => size,
        2 | 3 => rng.below(size as usize) as u64,
        4..8 => rng.below(size as usize / 4) as u64 * 4,
        _ => rng.below(size as usize / 16) as u64 * 16,
    }
}

pub(super) fn kind(object: &mut EditedObject, seed: u64) -> Option<String> {
    change(object, seed, |_, _, record, rng| record.kind = any_kind(rng))
}

pub(super) fn symbol(object: &mut EditedObject, seed: u64) -> Option<String> {
    change(object, seed, |object, _, record, rng| record.symbol = any_symbol(object, rng.bits()))
}

pub(super) fn addend(object: &mut EditedObject, seed: u64) -> Option<String> {
    change(object, seed, |_, _, record, rng| record.addend = rng.pick(&ADDENDS))
}

pub(super) fn offset(object: &mut EditedObject, seed: u64) -> Option<String> {
    change(object, seed, |object, at, record, rng| {
        record.offset = match rng.below(3) {
            0 => record.offset ^ rng.pick(&[1, 2, 4, 8, 16]),
            _ => any_offset(object, at, rng),
        };
    })
}

pub(super) fn twice(object: &mut EditedObject, seed: u64) -> Option<String> {
    let RecordPlace { section: at, record: index } = place(object, seed)?;
    let mut record = *object.sections[at].records.get(index)?;
    let mut rng = Rng::new(seed);
    match rng.below(4) {
        0 => record.kind = any_kind(&mut rng),
        1 => record.symbol = any_symbol(object, rng.bits()),
        2 => record.addend = rng.pick(&ADDENDS),
        _ => {}
    }
    let to = rng.pick(&[index, index + 1, object.sections[at].records.len()]);
    object.sections[at].records.insert(to, record);
    Some(format!("record more: {}", label(object, &object.sections[at], &record)))
}

pub(super) fn order(object: &mut EditedObject, seed: u64) -> Option<String> {
    let RecordPlace { section: at, record: index } = place(object, seed)?;
    let mut rng = Rng::new(seed);
    let section = &mut object.sections[at];
    let before = section.records.clone();
    match rng.below(3) {
        0 => section.records.reverse(),
        1 => section.records.rotate_left(index),
        _ => {
            let other = rng.below(section.records.len());
            section.records.swap(index, other);
        }
    }
    (section.records != before).then(|| format!("records of {} in another order", section.name))
}

pub(super) fn gone(object: &mut EditedObject, seed: u64) -> Option<String> {
    let RecordPlace { section: at, record: index } = place(object, seed)?;
    let record = object.sections[at].records.remove(index);
    Some(format!("record less: {}", label(object, &object.sections[at], &record)))
}

pub(super) fn moved(object: &mut EditedObject, seed: u64) -> Option<String> {
    let RecordPlace { section: from, record: index } = place(object, seed)?;
    let mut rng = Rng::new(seed);
    let to = list_of_any(object, &mut rng)?;
    if to == from {
        return None;
    }
    let mut record = object.sections[from].records.remove(index);
    if rng.chance(80) {
        record.offset = any_offset(object, to, &mut rng);
    }
    object.sections[to].records.push(record);
    Some(format!("moved: {}", label(object, &object.sections[to], &record)))
}

pub(super) fn new(object: &mut EditedObject, seed: u64) -> Option<String> {
    let mut rng = Rng::new(seed);
    let to = list_of_any(object, &mut rng)?;
    let kind = any_kind(&mut rng);
    let symbol = any_symbol(object, rng.bits());
    let offset = any_offset(object, to, &mut rng);
    let addend = if rng.chance(60) { 0 } else { rng.pick(&ADDENDS) };
    let record = EditedReloc { offset, symbol, kind, addend };
    object.sections[to].records.push(record);
    Some(format!("new: {}", label(object, &object.sections[to], &record)))
}

/// A relocation section for a section that can have one, rarely for one that cannot.
fn list_of_any(object: &mut EditedObject, rng: &mut Rng) -> Option<usize> {
    let rare = rng.chance(5);
    let patched = |section: &EditedSection| match section.header.sh_type {
        sht::PROGBITS | sht::CUDA_GLOBAL_INIT => true,
        sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST => true,
        sht::CUDA_INFO | sht::CUDA_GLOBAL | sht::CUDA_SHARED => rare,
        _ => false,
    };
    let sections = object.sections.iter().enumerate().filter(|(_, section)| patched(section));
    let choices = sections.map(|(index, section)| (section.name.clone(), index));
    let target: usize = pick(rng.bits(), choices)?;
    let form = if rng.chance(85) { sht::RELA } else { sht::REL };
    let there = object.sections.iter().position(|section| {
        section.is_relocations()
            && section.header.info as usize == target
            && section.header.sh_type == form
    });
    there.or_else(|| Some(add_list(object, form, target)))
}

fn add_list(object: &mut EditedObject, form: u32, target: usize) -> usize {
    let (prefix, entsize) = if form == sht::RELA { (".rela", 24) } else { (".rel", 16) };
    let name = format!("{prefix}{}", object.sections[target].name);
    let header = SectionHeader {
        sh_type: form,
        flags: shf::INFO_LINK,
        link: object.symbol_table(),
        info: target as u32,
        align: 8,
        entsize,
        ..SectionHeader::default()
    };
    object.add_section(&name, header)
}

/// Makes REL of RELA and RELA of REL. The addends of RELA records are dropped, or written to the
/// places as 32 bits.
pub(super) fn other_form(object: &mut EditedObject, seed: u64) -> Option<String> {
    let lists = object.sections.iter().enumerate().filter(|(_, s)| s.is_relocations());
    let at: usize = pick(seed, lists.map(|(at, section)| (section.name.clone(), at)))?;
    let target = object.sections[at].header.info as usize;
    let form = if object.sections[at].header.sh_type == sht::RELA { sht::REL } else { sht::RELA };
    let (prefix, entsize) = if form == sht::RELA { (".rela", 24) } else { (".rel", 16) };
    let name = format!("{prefix}{}", object.sections.get(target)?.name);
    if Rng::new(seed).chance(50) && form == sht::REL {
        for record in object.sections[at].records.clone() {
            let from = record.offset as usize;
            if let Some(place) = object.sections[target].data.get_mut(from..from + 4) {
                place.copy_from_slice(&(record.addend as u32).to_le_bytes());
            }
        }
    }
    let offset = object.section_name(&name);
    let section = &mut object.sections[at];
    let before = std::mem::replace(&mut section.name, name);
    (section.header.name, section.header.sh_type, section.header.entsize) = (offset, form, entsize);
    Some(format!("{before} is {} now", section.name))
}

pub(super) fn resolved(object: &mut EditedObject, seed: u64) -> Option<String> {
    let lists = object.sections.iter().enumerate().filter(|(_, s)| s.is_relocations());
    let at: usize = pick(seed, lists.map(|(at, section)| (section.name.clone(), at)))?;
    let list = object.sections[at].clone();
    let name = format!(".nv.resolvedrela{}", object.sections.get(list.header.info as usize)?.name);
    let header = SectionHeader {
        sh_type: sht::CUDA_RESOLVED_RELA,
        flags: shf::INFO_LINK,
        align: 8,
        entsize: 24,
        ..list.header
    };
    let made = object.add_section(&name, header);
    for record in &list.records {
        let info = u64::from(record.symbol) << 32 | u64::from(record.kind);
        let data = &mut object.sections[made].data;
        data.extend(
            [record.offset, info, record.addend as u64].iter().flat_map(|w| w.to_le_bytes()),
        );
    }
    Some(format!("{name} with {} records", list.records.len()))
}
