//! Sections of our own programs, sections made of parts, and damage to both.

use super::*;
use proptest::prelude::*;

/// The code of kernel `the_last` of testdata/corpus/selection/kernels-used/b.ptx, sm_100: nvlink
/// writes section index 0x12 for 0x13 and the 16 bits of an address at byte 60, which is at 0x2c in
/// Mercury's and at 0x10 in the machine code.
const THE_LAST: &str = "\
    13000000010000c00700000020000000010b040af8000400000041000004000002220e06f80042000000410142000200000000000000000000\
    00000000000000010b0e0afa000500000003013904000002220e06f800520000008300400002000000000000000000000000000000000002380e\
    32f80040110000000082000a00000201400100000000000000000000005005";
/// Function `helper` of the same file: an elided record, a short one and a group.
const HELPER: &str = "14000000010000c003000000010000004233000e5007";

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn kinds(capsule: &Capsule<'_>) -> Vec<(CapsuleForm, u64)> {
    let records = capsule.records();
    records.map(|r| (r.kind, r.instructions.end - r.instructions.start)).collect()
}

#[test]
fn records_of_compiled_functions() {
    let data = bytes(HELPER);
    let capsule = Capsule::parse(b".nv.capmerc.text.helper", &data).unwrap();
    assert_eq!(capsule.code(), SectionIndex(0x14));
    assert_eq!(capsule.instructions(), 16);
    assert_eq!(
        kinds(&capsule),
        [(CapsuleForm::Elided, 1), (CapsuleForm::Short, 1), (CapsuleForm::Group, 14)]
    );
    let data = bytes(THE_LAST);
    let capsule = Capsule::parse(b".nv.capmerc.text.the_last", &data).unwrap();
    assert_eq!((capsule.len(), capsule.instructions()), (7, 16));
    let last = capsule.records().last().unwrap();
    assert_eq!((last.instructions, last.bytes), (6..16, 144..146));
}

/// The same function compiled by CUDA 12.8: one word less in front of the bits.
#[test]
fn cuda_12_8_has_no_version() {
    let data = bytes("0d00000003000040030000005007");
    let capsule = Capsule::parse(b".nv.capmerc.text.f", &data).unwrap();
    assert!(!capsule.has_version());
    assert_eq!((capsule.code(), capsule.len()), (SectionIndex(0xd), 3));
    assert_eq!(
        kinds(&capsule),
        [(CapsuleForm::Elided, 1), (CapsuleForm::Elided, 1), (CapsuleForm::Group, 14)]
    );
    let error = Capsule::parse(b"c", &bytes("0d00000003000040")).unwrap_err();
    assert!(error.what.contains("the bits of 3 entries"), "{error}");
}

#[test]
fn a_value_goes_into_the_last_sixteen_bytes_of_its_record() {
    let data = bytes(THE_LAST);
    let capsule = Capsule::parse(b".nv.capmerc.text.the_last", &data).unwrap();
    let site = |code, mercury, width| Site { code, mercury, width };
    assert_eq!(capsule.fields(&[site(0x10, 0x2c, 2)]), Ok(vec![Some(60..62)]));
    // Record 5 is elided, record 6 a group, and there is no instruction at 0x100.
    assert_eq!(
        capsule.fields(&[site(0x10, 0x2c, 2), site(0x50, 0x9c, 4)]),
        Ok(vec![Some(60..62), None])
    );
    for (wrong, offset, what) in [
        (site(0x60, 0xac, 4), 144, "record 6 is a group record"),
        (site(0x10, 0x2f, 2), 32, "run past the end of record 1"),
        (site(0x100, 0x2c, 2), 146, "no record for the instruction at 0x100"),
    ] {
        let error = capsule.fields(&[wrong]).unwrap_err();
        assert_eq!(error.section.as_deref(), Some(".nv.capmerc.text.the_last"));
        assert!(error.offset == offset && error.what.contains(what), "{error}");
    }
}

/// A load of function `f2` of testdata/corpus/textures/in-registers, sm_100, -O0, and one of the
/// same form of a kernel's parameter, `a[i + 5]`.
const SLOT: &str = "02220c06 f8004200 0000c100 4900c000 000a0000 00000000 00000000 00000000";
const PARAMETER: &str = "02220c06 f8004200 00004101 40000000 000a0000 00000000 00000000 14000000";

#[test]
fn loads_from_slots_of_textures() {
    let loads = |records: &[Option<&[u8]>]| {
        let data = encode(records);
        let capsule = Capsule::parse(b".nv.capmerc.text.f", &data).unwrap();
        capsule.image_loads().map_err(|error| (error.offset, error.what))
    };
    let (slot, parameter) = (bytes(SLOT), bytes(PARAMETER));
    let edited = |at: usize, byte: u8| {
        let mut record = slot.clone();
        record[at] = byte;
        record
    };
    assert_eq!(loads(&[None, Some(&parameter), None]), Ok(vec![]));
    let behind = edited(28, 0x14);
    let found = vec![ImageLoad { code: 16, offset: 0 }, ImageLoad { code: 48, offset: 0x14 }];
    assert_eq!(loads(&[None, Some(&slot), Some(&parameter), Some(&behind)]), Ok(found));
    // Without a register, a relocation of machine code says everything.
    assert_eq!(loads(&[Some(&edited(2, 0x0e)), Some(&edited(2, 0x08))]), Ok(vec![]));
    // Others were never seen: another form, an offset of more than 16 bits, one of a group.
    let group: Vec<u8> = [&[0x51, 4][..], &slot].concat();
    for unknown in [edited(2, 0x0a), edited(30, 1), group] {
        let (offset, what) = loads(&[None, Some(&unknown)]).unwrap_err();
        assert_eq!(offset, 16);
        assert!(what.starts_with("record 1 reads slots of textures in an unknown way"), "{what}");
    }
}

#[test]
fn damage_is_named() {
    let section = b".nv.capmerc.text.f";
    let good = bytes(HELPER);
    let edit = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        Capsule::parse(section, &bad).map(|_| ()).unwrap_err().to_string()
    };
    let at = |offset, what: &str| format!("section '.nv.capmerc.text.f', offset {offset}: {what}");
    assert_eq!(edit(7, 0xc1), at("0x4", "0xc1000001 instead of 0xc0000001"));
    assert_eq!(edit(11, 0x80), at("0x8", "the bits of 2147483651 entries run past the end"));
    assert_eq!(edit(8, 4), at("0x16", "record 3 runs past the end or is empty"));
    assert_eq!(edit(12, 3), at("0x14", "bytes behind the last of 3 records"));
    assert_eq!(edit(15, 0x80), at("0xc", "bits are set behind those of 3 entries"));
    assert_eq!(edit(16, 0), at("0x10", "record 1 runs past the end or is empty"));
    assert_eq!(edit(20, 0x51), at("0x14", "record 2 runs past the end or is empty"));
    let short = Capsule::parse(section, &good[..11]).unwrap_err();
    assert_eq!(short.to_string(), at("0x0", "too short for the head of Mercury code"));
}

/// A record to write: its kind, and the contents of its first bytes.
#[derive(Debug, Clone)]
enum Part {
    Elided,
    Full(u8),
    Short,
    Group(Vec<u8>, u16),
}

impl Part {
    fn write(&self, out: &mut Vec<u8>) -> (CapsuleForm, u64) {
        let full = |out: &mut Vec<u8>, units: &u8| {
            out.push(0x20 | units);
            out.resize(out.len() + usize::from(*units) * 16 - 1, 0xff);
        };
        match self {
            Part::Elided => (CapsuleForm::Elided, 1),
            Part::Full(units) => {
                full(out, units);
                (CapsuleForm::Full, 1)
            }
            Part::Short => {
                out.extend([0x41, 0xff, 0xff, 0xff]);
                (CapsuleForm::Short, 1)
            }
            Part::Group(members, count) => {
                out.extend([
                    0x50 | members.len() as u8 | ((count & 1) << 7) as u8,
                    (count >> 1) as u8,
                ]);
                members.iter().for_each(|units| full(out, units));
                (CapsuleForm::Group, u64::from(*count))
            }
        }
    }
}

fn any_part() -> impl Strategy<Value = Part> {
    let group = (prop::collection::vec(1u8..16, 0..16), 0u16..512);
    prop_oneof![
        3 => Just(Part::Elided),
        3 => (1u8..16).prop_map(Part::Full),
        1 => Just(Part::Short),
        1 => group.prop_map(|(members, count)| Part::Group(members, count)),
    ]
}

/// A section of `parts`, and what they are.
fn section_of(parts: &[Part]) -> (Vec<u8>, Vec<(CapsuleForm, u64)>) {
    let mut out = [7, MAGIC, parts.len() as u32].map(u32::to_le_bytes).concat();
    let mut bits = vec![0u8; parts.len().div_ceil(32) * 4];
    for (i, part) in parts.iter().enumerate() {
        bits[i / 8] |= u8::from(matches!(part, Part::Elided)) << (i % 8);
    }
    out.extend(bits);
    let kinds = parts.iter().map(|part| part.write(&mut out)).collect();
    (out, kinds)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read(parts in prop::collection::vec(any_part(), 0..80)) {
        let (data, expected) = section_of(&parts);
        let capsule = Capsule::parse(b"c", &data).unwrap();
        prop_assert_eq!(kinds(&capsule), expected);
        let mut end = 12 + parts.len().div_ceil(32) * 4;
        let mut instruction = 0;
        for record in capsule.records() {
            prop_assert_eq!((record.bytes.start, record.instructions.start), (end, instruction));
            (end, instruction) = (record.bytes.end, record.instructions.end);
        }
        prop_assert_eq!((end, instruction), (data.len(), capsule.instructions()));
    }

    #[test]
    fn every_instruction_has_the_field_of_its_record(
        parts in prop::collection::vec(any_part(), 1..40),
        mercury in any::<u64>(),
    ) {
        let (data, _) = section_of(&parts);
        let capsule = Capsule::parse(b"c", &data).unwrap();
        for record in capsule.records() {
            for i in record.instructions.clone() {
                let site = Site { code: 16 * i + 3, mercury, width: 4 };
                let fits = mercury % 16 <= 12;
                match (record.kind, capsule.fields(&[site])) {
                    (CapsuleForm::Elided, found) => prop_assert_eq!(found, Ok(vec![None])),
                    (CapsuleForm::Full, Ok(found)) => {
                        let start = record.bytes.end - 16 + (mercury % 16) as usize;
                        prop_assert!(fits);
                        prop_assert_eq!(found, vec![Some(start..start + 4)]);
                    }
                    (kind, found) => prop_assert!(found.is_err() && !(kind == CapsuleForm::Full && fits)),
                }
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_another_sound_section(
        parts in prop::collection::vec(any_part(), 1..12),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        sites in prop::collection::vec((0u64..2048, any::<u64>(), prop::sample::select(vec![2, 4, 8])), 0..6),
    ) {
        let (mut data, _) = section_of(&parts);
        for (at, byte) in edits {
            let at = at.index(data.len());
            data[at] = byte;
        }
        if let Some(cut) = cut {
            data.truncate(cut.index(data.len() + 1));
        }
        if let Ok(capsule) = Capsule::parse(b"c", &data) {
            prop_assert_eq!(capsule.records().count(), capsule.len() as usize);
            let mut sites: Vec<_> =
                sites.into_iter().map(|(code, mercury, width)| Site { code, mercury, width }).collect();
            sites.sort_by_key(|site| site.code);
            let first = capsule.records().next().map_or(data.len(), |record| record.bytes.start);
            for field in capsule.fields(&sites).unwrap_or_default().into_iter().flatten() {
                prop_assert!(first <= field.start && field.end <= data.len());
            }
        }
    }
}

fn relocation(offset: u64, symbol: u32, addend: i64) -> RelocEntry {
    RelocEntry { offset, symbol: SymbolIndex(symbol), kind: 0, addend }
}

#[test]
fn twins_are_counted_for_each_symbol_and_addend() {
    let code = [(0x70, 1, 0), (0x20, 2, 0), (0x10, 1, 8), (0x30, 1, 0)]
        .map(|(offset, symbol, addend)| relocation(offset, symbol, addend));
    let mercury =
        [(0x9c, 1, 0), (0x3c, 1, 0), (0x5c, 1, 8), (0xac, 1, 0), (0x2c, 2, 0), (0x0c, 3, 0)]
            .map(|(offset, symbol, addend)| relocation(offset, symbol, addend));
    let offsets =
        counterparts(&code, &mercury).into_iter().map(|found| found.map(|found| found.offset));
    assert_eq!(
        offsets.collect::<Vec<_>>(),
        [Some(0x70), Some(0x30), Some(0x10), None, Some(0x20), None]
    );
}

#[test]
fn records_written_again_are_the_same_but_for_the_index() {
    for hex in [HELPER, THE_LAST] {
        let data = bytes(hex);
        let capsule = Capsule::parse(b".nv.capmerc.text.f", &data).unwrap();
        let entries: Vec<Option<&[u8]>> = capsule
            .records()
            .map(|record| (record.kind != CapsuleForm::Elided).then(|| &data[record.bytes]))
            .collect();
        let written = encode(&entries);
        assert_eq!(written[..4], [0; 4]);
        assert_eq!(written[4..], data[4..]);
    }
    // More entries than a word has bits.
    let many = vec![None; 33];
    let written = encode(&many);
    assert_eq!(Capsule::parse(b"", &written).unwrap().instructions(), 33);
}
