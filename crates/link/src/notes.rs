//! The notes and `.nv.compat` of the output.
//!
//! In: the inputs' notes and attributes. Out: section contents. Rules: docs/LINKING.md, notes.

use culd_cubin::arch::{Flavour, Variant};
use culd_cubin::attr::{Record, format};
use culd_cubin::compat::code;
use culd_cubin::note::{self, CuInfo};
use hashbrown::HashSet;

use crate::LinkOptions;
use crate::id::ObjectId;
use crate::objects::{Object, Objects};

/// `.note.nv.tkinfo`: this linker's record, as long as nvlink's would be, then the inputs'.
pub(crate) fn tkinfo(objects: &Objects<'_>, options: &LinkOptions) -> Vec<u8> {
    let mut out = Vec::new();
    let descriptor = options.tool.descriptor();
    let own = options.tool.object.len() + options.tool.options.len() + 1;
    let length = 24 + options.dialect.tool_strings + own;
    note::write_record(&mut out, note::TYPE_TKINFO, &descriptor, length);
    if !options.relocatable {
        objects.iter().for_each(|(_, object)| out.extend_from_slice(object.tkinfo));
    }
    out
}

/// `.note.nv.cuinfo`: the lowest virtual architecture of the inputs, our release.
pub(crate) fn cuinfo(objects: &Objects<'_>, options: &LinkOptions) -> Vec<u8> {
    let virtual_sm = objects.iter().map(|(_, object)| object.cuinfo.virtual_sm).min();
    let virtual_sm = virtual_sm.unwrap_or(options.target.sm as u16);
    let info = CuInfo { version: 2, virtual_sm, toolkit: options.dialect.toolkit };
    let mut out = Vec::new();
    info.write(&mut out);
    out
}

/// How two values of an attribute become one.
#[derive(Clone, Copy)]
enum Merge {
    /// 0 if either is 0, else the larger.
    ZeroOrMax,
    Or,
    /// Bits 0-1 and 2-3 each like [`Merge::ZeroOrMax`], the rest as in the first file.
    Pair,
    /// 1 unless equal.
    SameOrOne,
    Max,
}

/// One attribute that is merged: code, format, rule, what a file without it stands for.
struct Rule {
    code: u8,
    format: u8,
    merge: Merge,
    default: Option<u16>,
}

/// In the order in which missing ones are added.
const RULES: [Rule; 6] = [
    Rule { code: code::ISA_CLASS, format: 2, merge: Merge::ZeroOrMax, default: Some(0) },
    Rule { code: code::FEATURES, format: 2, merge: Merge::Or, default: Some(3) },
    Rule { code: code::PAIR, format: 2, merge: Merge::Pair, default: Some(0) },
    Rule { code: code::COMMON, format: 2, merge: Merge::SameOrOne, default: Some(1) },
    Rule { code: code::VERSION, format: 3, merge: Merge::Max, default: Some(0x100) },
    Rule { code: code::MAXIMUM, format: 3, merge: Merge::Max, default: None },
];

fn zero_or_max(a: u16, b: u16) -> u16 {
    if a == 0 || b == 0 { 0 } else { a.max(b) }
}

impl Merge {
    fn apply(self, old: u16, new: u16) -> u16 {
        match self {
            Merge::ZeroOrMax => zero_or_max(old, new),
            Merge::Or => old | new,
            Merge::Pair => {
                let field = |value: u16, shift: u32| (value >> shift) & 3;
                let low = zero_or_max(field(old, 0), field(new, 0));
                let high = zero_or_max(field(old, 2), field(new, 2));
                (old & !15) | low | high << 2
            }
            Merge::SameOrOne => {
                if old == new {
                    old
                } else {
                    1
                }
            }
            Merge::Max => old.max(new),
        }
    }
}

/// One merged attribute on its way out.
struct Merged {
    rule: &'static Rule,
    value: u16,
}

/// `.nv.compat`, merged over all files that have one. `live`: the files whose code is in the program.
pub(crate) fn compat(
    objects: &Objects<'_>,
    options: &LinkOptions,
    live: &HashSet<ObjectId>,
) -> Vec<u8> {
    let mut merged: Vec<Merged> = Vec::new();
    let mut first = true;
    for (_, object) in objects.iter() {
        let Some(records) = &object.records.compat else { continue };
        if first {
            start(&mut merged, records);
        } else {
            merge(&mut merged, records);
        }
        first = false;
    }
    let mut out = Vec::new();
    let accelerated = u16::from(options.target.variant == Variant::Accelerated);
    let mut write = |code, format, value| {
        Record { format, code, value, payload: &[] }.write(&mut out);
    };
    write(code::ACCELERATED, format::BYTE, accelerated);
    for attribute in merged {
        write(attribute.rule.code, attribute.rule.format, attribute.value);
    }
    if options.target.flavour == Flavour::Mercury {
        finalizer(objects, options, live, &mut out);
    }
    out
}

/// Bytes of the attribute that tells what the finalizer finds, on targets with Mercury.
pub(crate) const FINALIZER_SIZE: u64 = 12;

/// Targets whose code a finalizer may take over for other ones.
const FAST_TARGETS: [u32; 2] = [100, 120];

/// Which other targets machine code is good for as it is: what all files agree on whose code is in the program (cases
/// generated/kept-functions, weak/entry-literals). nvlink looks at the functions themselves (docs/DIFFERENCES.md,
/// family-of-dead-code).
fn finalizer(
    objects: &Objects<'_>,
    options: &LinkOptions,
    live: &HashSet<ObjectId>,
    out: &mut Vec<u8>,
) {
    let targets = |(_, object): (ObjectId, &Object<'_>)| object.fast_targets();
    if objects.iter().find_map(targets).is_none() {
        return;
    }
    let words = objects.iter().filter(|(id, _)| live.contains(id)).filter_map(targets);
    let tells = FAST_TARGETS.contains(&options.target.sm);
    let all = words.reduce(|a, b| a & b).filter(|_| tells).unwrap_or(0);
    let payload = &all.to_le_bytes();
    Record { format: format::SIZED, code: code::FINALIZER, value: 8, payload }.write(out);
}

fn value_of(records: &[Record<'_>], code: u8) -> Option<u16> {
    records.iter().find(|record| record.code == code).map(|record| record.value)
}

/// The first file sets the order; what it lacks is added by default.
fn start(merged: &mut Vec<Merged>, records: &[Record<'_>]) {
    for record in records {
        let known = RULES.iter().find(|rule| rule.code == record.code);
        let repeated = merged.iter().any(|old| old.rule.code == record.code);
        if let Some(rule) = known.filter(|_| !repeated) {
            merged.push(Merged { rule, value: record.value });
        }
    }
    for rule in &RULES {
        let absent = merged.iter().all(|old| old.rule.code != rule.code);
        if let Some(value) = rule.default.filter(|_| absent) {
            merged.push(Merged { rule, value });
        }
    }
}

fn merge(merged: &mut Vec<Merged>, records: &[Record<'_>]) {
    for rule in &RULES {
        let Some(value) = value_of(records, rule.code).or(rule.default) else { continue };
        match merged.iter_mut().find(|old| old.rule.code == rule.code) {
            Some(old) => old.value = rule.merge.apply(old.value, value),
            None => merged.push(Merged { rule, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(u8, u16)]) -> Vec<Record<'static>> {
        let record = |&(code, value): &(u8, u16)| Record { format: 2, code, value, payload: &[] };
        pairs.iter().map(record).collect()
    }

    #[test]
    fn values_merge_as_observed() {
        // docs/LINKING.md, .nv.compat: value pairs tried by editing inputs.
        assert_eq!(Merge::ZeroOrMax.apply(2, 1), 2);
        assert_eq!(Merge::ZeroOrMax.apply(0, 3), 0);
        assert_eq!(Merge::Pair.apply(0b0110, 0b1001), 0b1010);
        assert_eq!(Merge::Pair.apply(0b0101, 0b0001), 0b0001);
        assert_eq!(Merge::SameOrOne.apply(0, 0), 0);
        assert_eq!(Merge::SameOrOne.apply(0, 2), 1);
    }

    #[test]
    fn the_first_file_sets_the_order_and_defaults_follow() {
        let mut merged = Vec::new();
        start(&mut merged, &attributes(&[(9, 1), (7, 0x101), (2, 1), (0x0b, 0)]));
        let codes: Vec<u8> = merged.iter().map(|attribute| attribute.rule.code).collect();
        assert_eq!(codes, [7, 2, 3, 5, 6]);
        merge(&mut merged, &attributes(&[(8, 5), (2, 2)]));
        let last = merged.last().unwrap();
        assert_eq!((last.rule.code, last.value), (8, 5));
        assert_eq!(merged[1].value, 2);
    }
}
