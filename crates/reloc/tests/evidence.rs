//! What nvlink 13.0.88 wrote, recorded from its outputs (sm_90 `.text`, sm_100
//! `.nv.merc.debug_frame`), against what the patcher writes. The records hold nvlink's results
//! only; nothing here is computed from the tables under test.

use culd_reloc::{PatchError, RelocDesc, RelocValue, lookup};

/// One type, probed with the place all zero.
struct Walk {
    code: u32,
    /// Bits `value..value + width` of S + A, set one by one, arrived at bits `word..word + width`.
    word: u32,
    value: u32,
    width: u32,
    /// What V = 0 left in the place for a symbol of constant bank 3.
    zero: u64,
    /// What V = all ones left for a symbol outside of constant banks, where nvlink takes 0x1c for
    /// the bank.
    ones: u64,
}

const fn w(code: u32, word: u32, value: u32, width: u32, zero: u64, ones: u64) -> Walk {
    Walk { code, word, value, width, zero, ones }
}

#[rustfmt::skip]
const WALKS: [Walk; 90] = [
    w(      1,  0,  0, 32,              0x0, 0x00000000ffffffff),
    w(      2,  0,  0, 64,              0x0, 0xffffffffffffffff),
    w(      5, 26,  0, 32,              0x0, 0x03fffffffc000000),
    w(     10, 26,  0, 32,              0x0, 0x03fffffffc000000),
    w(     11, 26, 32, 32,              0x0, 0x03fffffffc000000),
    w(     12, 23,  0, 32,              0x0, 0x007fffffff800000),
    w(     13, 23,  0, 32,              0x0, 0x007fffffff800000),
    w(     14, 23, 32, 32,              0x0, 0x007fffffff800000),
    w(     15, 26,  0, 24,              0x0, 0x0003fffffc000000),
    w(     16, 23,  0, 24,              0x0, 0x00007fffff800000),
    w(     17, 26,  0, 16,              0x0, 0x000003fffc000000),
    w(     18, 23,  0, 16,              0x0, 0x0000007fff800000),
    w(     19, 32,  0,  8,              0x0, 0x000000ff00000000),
    w(     20, 40,  0,  5,              0x0, 0x00001f0000000000),
    w(     21, 26,  0,  6,              0x0, 0x00000000fc000000),
    w(     22, 32,  2, 13,              0x0, 0x00001fff00000000),
    w(     23, 47,  2, 13,              0x0, 0x0fff800000000000),
    w(     24, 28,  2, 14,    0xc0000000000, 0x000033fff4000000),
    w(     25, 23,  2, 14,     0x6000000000, 0x0000039fff800000),
    w(     26, 49,  0,  9,              0x0, 0x03fe000000000000),
    w(     27, 31,  0,  6,              0x0, 0x0000001f80000000),
    w(     28, 47,  0,  2,              0x0, 0x0001800000000000),
    w(     29, 41,  2, 13,              0x0, 0x003ffe0000000000),
    w(     30, 45,  2, 13,              0x0, 0x03ffe00000000000),
    w(     36, 26,  0, 16,    0xc0000000000, 0x000073fffc000000),
    w(     37, 37,  0, 16, 0x60000000000000, 0x039fffe000000000),
    w(     38, 26,  2, 14,    0x30000000000, 0x00001cfffc000000),
    w(     39, 23,  0, 16,    0x18000000000, 0x00000e7fff800000),
    w(     42, 20,  0, 32,              0x0, 0x000ffffffff00000),
    w(     43, 20,  0, 32,              0x0, 0x000ffffffff00000),
    w(     44, 20, 32, 32,              0x0, 0x000ffffffff00000),
    w(     45, 20,  0, 24,              0x0, 0x00000ffffff00000),
    w(     46, 20,  0, 16,              0x0, 0x0000000ffff00000),
    w(     50, 20,  2, 14,      0xc00000000, 0x00000073fff00000),
    w(     51, 36,  2, 13,              0x0, 0x0001fff000000000),
    w(     54, 20,  0, 16,     0x3000000000, 0x000001cffff00000),
    w(     55, 32,  0, 32,              0x0, 0xffffffff00000000),
    w(     56, 32,  0, 32,              0x0, 0xffffffff00000000),
    w(     57, 32, 32, 32,              0x0, 0xffffffff00000000),
    w(     59, 32,  0, 16,              0x0, 0x0000ffff00000000),
    w(     60, 32,  0, 24,              0x0, 0x00ffffff00000000),
    w(     64, 40,  2, 14, 0xc0000000000000, 0x073fff0000000000),
    w(     65, 40,  2, 14,              0x0, 0x003fff0000000000),
    w(     66, 38,  0, 16, 0xc0000000000000, 0x073fffc000000000),
    w(     70,  0,  0, 32,              0x0, 0x00000000ffffffff),
    w(     71,  0, 32, 32,              0x0, 0x00000000ffffffff),
    w(     74, 40,  0, 24,              0x0, 0xffffff0000000000),
    w(     76,  0,  0,  8,              0x0, 0x00000000000000ff),
    w(     77,  0,  8,  8,              0x0, 0x00000000000000ff),
    w(     78,  0, 16,  8,              0x0, 0x00000000000000ff),
    w(     79,  0, 24,  8,              0x0, 0x00000000000000ff),
    w(     80,  0, 32,  8,              0x0, 0x00000000000000ff),
    w(     81,  0, 40,  8,              0x0, 0x00000000000000ff),
    w(     82,  0, 48,  8,              0x0, 0x00000000000000ff),
    w(     83,  0, 56,  8,              0x0, 0x00000000000000ff),
    w(    100, 44,  0, 20,              0x0, 0xfffff00000000000),
    w(    102,  0,  0, 64,              0x0, 0xffffffffffffffff),
    w(    103,  0,  0, 32,              0x0, 0x00000000ffffffff),
    w(    104,  0,  0,  8,              0x0, 0x00000000000000ff),
    w(    105,  0,  8,  8,              0x0, 0x00000000000000ff),
    w(    106,  0, 16,  8,              0x0, 0x00000000000000ff),
    w(    107,  0, 24,  8,              0x0, 0x00000000000000ff),
    w(    108,  0, 32,  8,              0x0, 0x00000000000000ff),
    w(    109,  0, 40,  8,              0x0, 0x00000000000000ff),
    w(    110,  0, 48,  8,              0x0, 0x00000000000000ff),
    w(    111,  0, 56,  8,              0x0, 0x00000000000000ff),
    w(    112, 32,  0, 32,              0x0, 0xffffffff00000000),
    w(    113, 32, 32, 32,              0x0, 0xffffffff00000000),
    w(    115, 37,  0, 17, 0xc0000000000000, 0x073fffe000000000),
    w(0x10002,  0,  0, 64,              0x0, 0xffffffffffffffff),
    w(0x10003,  0,  0, 32,              0x0, 0x00000000ffffffff),
    w(0x10004,  0,  0, 16,              0x0, 0x000000000000ffff),
    w(0x10010,  0,  0,  8,              0x0, 0x00000000000000ff),
    w(0x10011,  0,  8,  8,              0x0, 0x00000000000000ff),
    w(0x10012,  0, 16,  8,              0x0, 0x00000000000000ff),
    w(0x10013,  0, 24,  8,              0x0, 0x00000000000000ff),
    w(0x10014,  0, 32,  8,              0x0, 0x00000000000000ff),
    w(0x10015,  0, 40,  8,              0x0, 0x00000000000000ff),
    w(0x10016,  0, 48,  8,              0x0, 0x00000000000000ff),
    w(0x10017,  0, 56,  8,              0x0, 0x00000000000000ff),
    w(0x10032,  0,  0, 64,              0x0, 0xffffffffffffffff),
    w(0x10033,  0,  0, 32,              0x0, 0x00000000ffffffff),
    w(0x10034,  0,  0,  8,              0x0, 0x00000000000000ff),
    w(0x10035,  0,  8,  8,              0x0, 0x00000000000000ff),
    w(0x10036,  0, 16,  8,              0x0, 0x00000000000000ff),
    w(0x10037,  0, 24,  8,              0x0, 0x00000000000000ff),
    w(0x10038,  0, 32,  8,              0x0, 0x00000000000000ff),
    w(0x10039,  0, 40,  8,              0x0, 0x00000000000000ff),
    w(0x1003a,  0, 48,  8,              0x0, 0x00000000000000ff),
    w(0x1003b,  0, 56,  8,              0x0, 0x00000000000000ff),
];

/// One type against two symbols, addend 0x1234567: the first bit of the field and what it held.
struct Written {
    code: u32,
    bit: u32,
    /// A variable at 0x10 in constant bank 3.
    constant: u128,
    /// A shared variable at 0, for which nvlink takes 6 for the bank.
    shared: u128,
}

const fn v(code: u32, bit: u32, constant: u128, shared: u128) -> Written {
    Written { code, bit, constant, shared }
}

#[rustfmt::skip]
const WRITTEN: [Written; 55] = [
    v(  1,  0, 0x1234577, 0x1234567),
    v(  2,  0, 0x1234577, 0x1234567),
    v(  5, 26, 0x1234577, 0x1234567),
    v( 10, 26, 0x1234577, 0x1234567),
    v( 12, 23, 0x1234577, 0x1234567),
    v( 13, 23, 0x1234577, 0x1234567),
    v( 15, 26,  0x234577,  0x234567),
    v( 16, 23,  0x234577,  0x234567),
    v( 17, 26,    0x4577,    0x4567),
    v( 18, 23,    0x4577,    0x4567),
    v( 19, 32,      0x67,      0x6b),
    v( 20, 40,       0x7,       0xb),
    v( 21, 26,      0x27,      0x2b),
    v( 22, 32,    0x115d,    0x1159),
    v( 23, 47,    0x115d,    0x1159),
    v( 24, 28,    0xd15d,   0x19159),
    v( 25, 23,    0xd15d,   0x19159),
    v( 26, 49,     0x167,     0x16b),
    v( 27, 31,      0x37,      0x27),
    v( 28, 47,       0x3,       0x3),
    v( 29, 41,    0x115d,    0x1159),
    v( 30, 45,    0x115d,    0x1159),
    v( 36, 26,   0x34577,   0x64567),
    v( 37, 37,   0x34577,   0x64567),
    v( 38, 26,    0xd15d,   0x19159),
    v( 39, 23,   0x34577,   0x64567),
    v( 42, 20, 0x1234577, 0x1234567),
    v( 43, 20, 0x1234577, 0x1234567),
    v( 45, 20,  0x234577,  0x234567),
    v( 46, 20,    0x4577,    0x4567),
    v( 50, 20,    0xd15d,   0x19159),
    v( 51, 36,    0x115d,    0x1159),
    v( 54, 20,   0x34577,   0x64567),
    v( 55, 32, 0x1234577, 0x1234567),
    v( 56, 32, 0x1234577, 0x1234567),
    v( 59, 32,    0x4577,    0x4567),
    v( 60, 32,  0x234577,  0x234567),
    v( 64, 40,    0xd15d,   0x19159),
    v( 65, 40,    0x115d,    0x1159),
    v( 66, 38,   0x34577,   0x64567),
    v( 70,  0, 0x1234577, 0x1234567),
    v( 74, 40,  0x234577,  0x234567),
    v( 76,  0,      0x77,      0x67),
    v( 77,  0,      0x45,      0x45),
    v( 78,  0,      0x23,      0x23),
    v( 79,  0,       0x1,       0x1),
    v(100, 44,   0x34577,   0x34567),
    v(102,  0, 0x1234577, 0x1234567),
    v(103,  0, 0x1234577, 0x1234567),
    v(104,  0,      0x77,      0x67),
    v(105,  0,      0x45,      0x45),
    v(106,  0,      0x23,      0x23),
    v(107,  0,       0x1,       0x1),
    v(112, 32, 0x1234577, 0x1234567),
    v(115, 37,   0x74577,   0xd4567),
];

/// Types that stayed in the output with the constant as the symbol.
const KEPT: [u32; 29] = [
    3, 4, 6, 7, 8, 9, 52, 53, 58, 67, 75, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97,
    98, 99, 101, 114,
];

/// Types that left a zero place zero (the value has no high half) and were dropped.
const NOTHING_WRITTEN: [u32; 19] =
    [0, 11, 14, 44, 57, 68, 69, 71, 72, 73, 80, 81, 82, 83, 108, 109, 110, 111, 113];

/// Types on which nvlink crashed with the constant as the symbol.
const CRASHED: [u32; 11] = [31, 32, 33, 34, 35, 47, 48, 49, 61, 62, 63];

/// The row that nvlink goes by in a final link without unified tables.
fn row(code: u32) -> &'static RelocDesc {
    let row = lookup(code).expect("a known type");
    row.unified.map_or(row, |plain| plain.desc().expect("a known type"))
}

/// The place, filled with `fill` before.
fn applied(row: &RelocDesc, fill: u8, address: u64, bank: u8) -> u128 {
    let mut place = [fill; 16];
    row.apply(&mut place, 0, RelocValue { address, bank }).expect("a type that the linker applies");
    u128::from_le_bytes(place)
}

#[test]
fn every_bit_of_the_value_arrives_where_nvlink_puts_it() {
    for &Walk { code, word, value, width, zero, ones } in &WALKS {
        let row = row(code);
        assert_eq!(applied(row, 0, 0, 3), zero.into(), "{} zero", row.name);
        assert_eq!(applied(row, 0, u64::MAX, 0x1c), ones.into(), "{} ones", row.name);
        for bit in 0..64 {
            let inside = (value..value + width).contains(&bit);
            let expected = if inside { 1 << (bit - value + word) } else { 0 };
            assert_eq!(applied(row, 0, 1 << bit, 0), expected, "{} bit {bit}", row.name);
        }
    }
}

#[test]
fn values_against_a_constant_and_a_shared_variable() {
    for &Written { code, bit, constant, shared } in &WRITTEN {
        // Slot types have an S of their own (see `Source::Slot`): 0 and 4 instead of 0x10 and 0.
        let (c, s) = if matches!(code, 19..=21 | 26) { (0, 4) } else { (0x10, 0) };
        let row = row(code);
        assert_eq!(applied(row, 0, 0x1234567 + c, 3), constant << bit, "{} constant", row.name);
        assert_eq!(applied(row, 0, 0x1234567 + s, 6), shared << bit, "{} shared", row.name);
    }
}

#[test]
fn types_that_write_nothing() {
    for code in NOTHING_WRITTEN {
        assert_eq!(applied(row(code), 0, 0x1234577, 3), 0, "{}", row(code).name);
    }
    // These write nothing at all, not just zero.
    for code in [0, 68, 69, 72, 73, 0x1000e, 0x10040] {
        assert_eq!(applied(row(code), 0xff, 0x1234577, 3), u128::MAX, "{}", row(code).name);
    }
}

#[test]
fn types_that_stay_for_the_driver() {
    for code in 0..=116 {
        let row = row(code);
        assert_eq!(row.kept_for_constants(), KEPT.contains(&code), "{}", row.name);
        assert_eq!(row.needs_function(), CRASHED.contains(&code), "{}", row.name);
        assert_eq!(row.is_pc_relative(), matches!(code, 40 | 41), "{}", row.name);
    }
    for code in 0x10000..=0x10040 {
        let kept = matches!(
            code,
            0x10001 | 0x10005..=0x1000d | 0x10018..=0x10031 | 0x1003c..=0x1003f // the last two as 5 and 6
        );
        assert_eq!(row(code).kept_for_constants(), kept, "{code:#x}");
        assert_eq!(row(code).needs_function(), code == 0x1000f, "{code:#x}");
    }
    for code in KEPT.into_iter().chain(CRASHED).chain([40, 41, 116, 0x10000]) {
        let mut place = [0xff; 16];
        let result = row(code).apply(&mut place, 0, RelocValue::default());
        assert!(matches!(result, Err(PatchError::NotApplicable { code: c }) if c.0 == code));
        assert_eq!(place, [0xff; 16]);
    }
}

#[test]
fn overflow_is_cut_off_as_nvlink_does_it() {
    // code, V, bank, the place afterwards; `fits` is what a linker can warn by.
    let cases = [
        (59, 0x12345, 0, 0x2345u128 << 32),
        (60, 0x1234567, 0, 0x234567 << 32),
        (66, 0x12345, 3, 0x32345 << 38),
        (46, -4i64 as u64 & 0xffff_ffff, 0, 0xfffc << 20),
        (27, 0x7f, 0, 0x3f << 31),
        (65, 0x20001, 0, 0),
    ];
    for (code, address, bank, expected) in cases {
        let row = row(code);
        assert_eq!(applied(row, 0, address, bank), expected, "{}", row.name);
        assert!(!row.fits(RelocValue { address, bank }), "{}", row.name);
    }
}

#[test]
fn a_rel_record_adds_to_what_the_place_holds() {
    // Bank 0x15 in the place and a symbol of bank 3 gave bank 0x18.
    let mut place = (0x15u128 << 54).to_le_bytes();
    row(66).add(&mut place, 0, RelocValue { address: 0x30, bank: 3 }).unwrap();
    assert_eq!(u128::from_le_bytes(place), 0x18 << 54 | 0x30 << 38);
}

#[test]
fn codes_and_names() {
    for (code, name) in [
        (0, Some("R_CUDA_NONE")),
        (115, Some("R_CUDA_CONST_FIELD22_37")),
        (116, Some("R_CUDA_NONE_LAST")),
        (117, None),
        (0xffff, None),
        (0x10002, Some("R_MERCURY_ABS64")),
        (0x10040, Some("R_MERCURY_NONE_LAST")),
        (0x10041, None),
        (u32::MAX, None),
    ] {
        assert_eq!(lookup(code).map(|row| row.name), name);
    }
    assert_eq!(culd_reloc::RelocType(66).to_string(), "R_CUDA_CONST_FIELD21_38");
    assert_eq!(culd_reloc::RelocType(117).to_string(), "R_UNKNOWN_0x75");
}
