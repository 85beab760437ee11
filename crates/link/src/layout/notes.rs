//! The notes and `.nv.compat` of the output.
//!
//! In: the inputs' notes and attributes. Out: section contents. Rules: docs/LINKING.md, notes.

use culd_cubin::arch::{Flavour, Variant};
use culd_cubin::attr::{Record, format};
use culd_cubin::compat::code;
use culd_cubin::note::{self, CuInfo};

use crate::base::id::{IdVec, ObjectId};
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::options::LinkOptions;
use crate::options::dialect::Dialect;
use crate::options::form::FileForm;

/// `.note.nv.tkinfo`: this linker's record, padded to the length of nvlink's, then the inputs'
/// records.
pub(crate) fn tkinfo(objects: &InputObjects<'_>, options: &LinkOptions) -> Vec<u8> {
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

/// The lowest virtual architecture of the inputs and the target. Only edited files have one above
/// the target's (`xtask mutate --differential`).
pub(crate) fn virtual_sm(objects: &InputObjects<'_>, options: &LinkOptions) -> u16 {
    let least = objects.iter().map(|(_, object)| object.cuinfo.virtual_sm).min();
    let target = options.target.sm as u16;
    least.map_or(target, |least| least.min(target))
}

/// `.note.nv.cuinfo`: the virtual architecture and the release of the dialect; or
/// `.note.nv.cuver`.
pub(crate) fn cuinfo(objects: &InputObjects<'_>, options: &LinkOptions) -> Vec<u8> {
    let mut out = Vec::new();
    if options.form() == FileForm::Version {
        // That of the last file, by 12.8 the target's own (cases headers-and-order/lowest-target,
        // weak/latest-target).
        let last = objects.iter().last().filter(|_| options.dialect.names_files_target);
        let named = last.map(|(_, object)| object.cuinfo.virtual_sm);
        CuInfo::write_version(named.unwrap_or(options.target.sm as u16), &mut out);
    } else {
        let virtual_sm = virtual_sm(objects, options);
        CuInfo { version: 2, virtual_sm, toolkit: options.dialect.toolkit }.write(&mut out);
    }
    out
}

/// How two values of an attribute merge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CompatMerge {
    /// 0 if either is 0, else the larger.
    ZeroOrMax,
    Or,
    /// Bits 0-1 and the other bits, each by [`CompatMerge::ZeroOrMax`].
    Pair,
    /// The value if both are equal, else 1.
    SameOrOne,
    Max,
    /// The bits that both have; a file without the attribute does not count.
    And,
    /// The larger; none if one of the files has none.
    MaxOfAll,
}

/// A merged attribute: code, format, rule, and the value of a file without it.
struct CompatRule {
    pub(crate) code: u8,
    pub(crate) format: u8,
    pub(crate) mode: CompatMerge,
    default: Option<u64>,
}

const fn rule(code: u8, format: u8, merge: CompatMerge, default: Option<u64>) -> CompatRule {
    CompatRule { code, format, mode: merge, default }
}

/// In the order in which missing attributes are added.
const RULES: [CompatRule; 10] = [
    rule(code::ISA_CLASS, format::BYTE, CompatMerge::ZeroOrMax, Some(0)),
    rule(code::FEATURES, format::BYTE, CompatMerge::Or, Some(3)),
    rule(code::PAIR, format::BYTE, CompatMerge::Pair, Some(0)),
    rule(code::COMMON, format::BYTE, CompatMerge::SameOrOne, Some(1)),
    rule(code::VERSION, format::HALF, CompatMerge::Max, Some(0x100)),
    rule(code::MAXIMUM, format::HALF, CompatMerge::Max, None),
    rule(code::ISA_LEVEL, format::BYTE, CompatMerge::Max, Some(2)),
    rule(code::ISA_VERSION, format::HALF, CompatMerge::Max, Some(0x100)),
    rule(code::FINALIZER_VERSION, format::HALF, CompatMerge::MaxOfAll, None),
    rule(code::FINALIZER, format::SIZED, CompatMerge::And, None),
];

impl Dialect {
    /// True for an attribute that the release merges; it drops others.
    fn merges(&self, code: u8) -> bool {
        match code {
            code::ISA_VERSION => self.compat_isa_version,
            code::ISA_LEVEL | code::FINALIZER_VERSION => self.compat_finalizer_version.is_some(),
            _ => true,
        }
    }

    /// The rules of the release.
    fn compat_rules(&self) -> impl Iterator<Item = &'static CompatRule> {
        RULES.iter().filter(|rule| self.merges(rule.code))
    }

    /// True for a merged attribute that the release does not write.
    fn omits(&self, code: u8, value: u64, flavour: Flavour) -> bool {
        match code {
            _ if self.all_in_header => !OF_CUDA_12.contains(&code),
            code::COMMON => !self.compat_keeps_common,
            code::PAIR => !self.compat_keeps_common && value == 0,
            code::VERSION => self.compat_isa_version && value == 0x100,
            code::FINALIZER => flavour == Flavour::Classic && !self.compat_keeps_finalizer,
            _ => false,
        }
    }
}

fn zero_or_max(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 { 0 } else { a.max(b) }
}

impl CompatMerge {
    fn apply(self, old: u64, new: u64) -> u64 {
        match self {
            CompatMerge::ZeroOrMax => zero_or_max(old, new),
            CompatMerge::Or => old | new,
            CompatMerge::Pair => {
                zero_or_max(old & 3, new & 3) | zero_or_max(old >> 2, new >> 2) << 2
            }
            CompatMerge::SameOrOne if old == new => old,
            CompatMerge::SameOrOne => 1,
            CompatMerge::Max | CompatMerge::MaxOfAll => old.max(new),
            CompatMerge::And => old & new,
        }
    }
}

/// The merged value of an attribute.
struct CompatValue {
    rule: &'static CompatRule,
    value: u64,
}

/// `.nv.compat`, merged from all files that have one. `live` has the files with code in the
/// program.
pub(crate) fn compat(
    objects: &InputObjects<'_>,
    options: &LinkOptions,
    live: &IdVec<ObjectId, bool>,
) -> Vec<u8> {
    let dialect = options.dialect;
    let flavour = options.target.flavour;
    let mut merged: Vec<CompatValue> = Vec::new();
    let mut first = true;
    for (_, object) in objects.iter() {
        let Some(records) = &object.records.compat else { continue };
        if first {
            start(&mut merged, records, dialect);
        } else {
            merge(&mut merged, records, dialect);
        }
        first = false;
    }
    if flavour == Flavour::Mercury {
        if let Some(value) = finalizer(objects, options, live) {
            let pair = merged.iter().find(|old| old.rule.code == code::PAIR).map(|old| old.value);
            let value = match own_target(options) {
                Some(own) if live.values().any(|&live| live) && keeps_to_itself(options, pair) => {
                    value & own
                }
                _ => value,
            };
            if !dialect.compat_keeps_finalizer {
                // Moves it after the attributes that the first file lacks
                // (`tests/invalid_values.rs`).
                merged.retain(|old| old.rule.code != code::FINALIZER);
            }
            set(&mut merged, code::FINALIZER, value);
        }
        if let Some(value) = dialect.compat_finalizer_version {
            // Moves it after the attributes of later files (case dialects/two-members).
            merged.retain(|old| old.rule.code != code::FINALIZER_VERSION);
            set(&mut merged, code::FINALIZER_VERSION, u64::from(value));
        }
    }
    let mut out = Vec::new();
    let accelerated = u16::from(options.target.variant == Variant::Accelerated);
    let mut write = |code, format, value, payload: &[u8]| {
        Record { format, code, value, payload }.write(&mut out);
    };
    if !dialect.all_in_header {
        write(code::ACCELERATED, format::BYTE, accelerated, &[]);
    }
    merged.retain(|attribute| !dialect.omits(attribute.rule.code, attribute.value, flavour));
    for CompatValue { rule, value } in merged {
        match rule.format {
            format::SIZED => write(rule.code, rule.format, 8, &value.to_le_bytes()),
            _ => write(rule.code, rule.format, value as u16, &[]),
        }
    }
    out
}

/// The attributes in files of CUDA 12.
const OF_CUDA_12: [u8; 4] = [code::ISA_CLASS, code::FEATURES, code::PAIR, code::COMMON];

/// Bytes of the attribute FINALIZER, on targets with a Mercury half.
pub(crate) const FINALIZER_SIZE: u64 = 12;

/// Targets whose code a finalizer may reuse for other targets; the value of FINALIZER in later
/// releases; and the bit of the target itself.
const FAST_TARGETS: [(u32, u64, u64); 2] = [(100, 9, 1), (120, 0x50, 0x10)];
/// The value of PAIR for which code of an accelerated target runs on other devices of the family.
const SUITS_FAMILY: u64 = 5;

/// True for code that runs on the target only: code of an accelerated target whose PAIR does not
/// say otherwise (case dialects/accelerated-devices-13-1).
fn keeps_to_itself(options: &LinkOptions, pair: Option<u64>) -> bool {
    let accelerated = options.target.variant == Variant::Accelerated;
    accelerated && options.dialect.compat_asks_pair && pair != Some(SUITS_FAMILY)
}

/// The bit of the target itself in FINALIZER.
fn own_target(options: &LinkOptions) -> Option<u64> {
    let own = FAST_TARGETS.iter().find(|target| target.0 == options.target.sm);
    own.map(|target| target.2)
}

/// The value of FINALIZER: the other targets for which machine code may be used unchanged. These
/// are the targets common to all files with code in the program (cases generated/kept-functions,
/// weak/entry-literals); since 13.3 a constant. nvlink looks at the functions themselves
/// (docs/DIFFERENCES.md, family-of-dead-code).
fn finalizer(
    objects: &InputObjects<'_>,
    options: &LinkOptions,
    live: &IdVec<ObjectId, bool>,
) -> Option<u64> {
    let own = FAST_TARGETS.iter().find(|target| target.0 == options.target.sm);
    if options.dialect.compat_isa_version {
        return Some(own.map_or(0, |target| target.1));
    }
    let targets = |(_, object): (ObjectId, &InputObject<'_>)| object.fast_targets();
    // A program without files has the attribute too (testdata/jitlink/calls.txt, nothing).
    if objects.iter().next().is_some() {
        objects.iter().find_map(targets)?;
    }
    let words = objects.iter().filter(|(id, _)| live[*id]).filter_map(targets);
    Some(words.reduce(|a, b| a & b).filter(|_| own.is_some()).unwrap_or(0))
}

/// The value of an attribute as a number.
fn value(record: &Record<'_>) -> u64 {
    match record.payload.first_chunk() {
        Some(bytes) if record.format == format::SIZED => u64::from_le_bytes(*bytes),
        _ => u64::from(record.value),
    }
}

fn value_of(records: &[Record<'_>], code: u8) -> Option<u64> {
    records.iter().find(|record| record.code == code).map(value)
}

/// Sets an attribute to a value that does not depend on the files.
fn set(merged: &mut Vec<CompatValue>, code: u8, value: u64) {
    match merged.iter_mut().find(|old| old.rule.code == code) {
        Some(old) => old.value = value,
        None => {
            let rule = RULES.iter().find(|rule| rule.code == code);
            merged.extend(rule.map(|rule| CompatValue { rule, value }));
        }
    }
}

/// The first file sets the order; attributes that it lacks follow with their defaults.
fn start(merged: &mut Vec<CompatValue>, records: &[Record<'_>], dialect: &Dialect) {
    for record in records {
        let known = dialect.compat_rules().find(|rule| rule.code == record.code);
        let repeated = merged.iter().any(|old| old.rule.code == record.code);
        if let Some(rule) = known.filter(|_| !repeated) {
            merged.push(CompatValue { rule, value: value(record) });
        }
    }
    for rule in dialect.compat_rules() {
        let absent = merged.iter().all(|old| old.rule.code != rule.code);
        if let Some(value) = rule.default.filter(|_| absent) {
            merged.push(CompatValue { rule, value });
        }
    }
}

fn merge(merged: &mut Vec<CompatValue>, records: &[Record<'_>], dialect: &Dialect) {
    for rule in dialect.compat_rules() {
        let place = merged.iter().position(|old| old.rule.code == rule.code);
        let value = value_of(records, rule.code).or(rule.default);
        match (place, value) {
            (Some(place), Some(value)) => {
                let old = &mut merged[place];
                old.value = rule.mode.apply(old.value, value);
            }
            (Some(place), None) if rule.mode == CompatMerge::MaxOfAll => _ = merged.remove(place),
            (None, Some(value)) if rule.mode != CompatMerge::MaxOfAll => {
                merged.push(CompatValue { rule, value });
            }
            _ => {}
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
        assert_eq!(CompatMerge::ZeroOrMax.apply(2, 1), 2);
        assert_eq!(CompatMerge::ZeroOrMax.apply(0, 3), 0);
        assert_eq!(CompatMerge::Pair.apply(0b0110, 0b1001), 0b1010);
        assert_eq!(CompatMerge::Pair.apply(0b0101, 0b0001), 0b0001);
        assert_eq!(CompatMerge::SameOrOne.apply(0, 0), 0);
        assert_eq!(CompatMerge::SameOrOne.apply(0, 2), 1);
    }

    #[test]
    fn the_first_file_sets_the_order_and_defaults_follow() {
        let mut merged = Vec::new();
        start(&mut merged, &attributes(&[(9, 1), (7, 0x101), (2, 1), (0x0f, 0)]), Dialect::usual());
        let codes: Vec<u8> = merged.iter().map(|attribute| attribute.rule.code).collect();
        assert_eq!(codes, [7, 2, 3, 5, 6]);
        merge(&mut merged, &attributes(&[(8, 5), (2, 2)]), Dialect::usual());
        let last = merged.last().unwrap();
        assert_eq!((last.rule.code, last.value), (8, 5));
        assert_eq!(merged[1].value, 2);
    }
}
