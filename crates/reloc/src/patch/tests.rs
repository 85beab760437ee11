//! Properties that hold for every row: fields get exactly their bits, all else stays.

use proptest::prelude::*;

use super::{PatchError, RelocValue};
use crate::{Action, CUDA, MERCURY, Observed, RelocDesc, Source, lookup};

/// Room for any place at any alignment.
const ROOM: usize = 40;

fn any_row() -> impl Strategy<Value = &'static RelocDesc> {
    (0..CUDA.len() + MERCURY.len()).prop_map(|i| CUDA.iter().chain(&MERCURY).nth(i).unwrap())
}

fn linker_row() -> impl Strategy<Value = &'static RelocDesc> {
    let rows: Vec<_> =
        CUDA.iter().chain(&MERCURY).filter(|row| row.observed == Observed::Bits).collect();
    proptest::sample::select(rows)
}

fn any_value() -> impl Strategy<Value = RelocValue> {
    (any::<u64>(), 0..32u8).prop_map(|(address, bank)| RelocValue { address, bank })
}

/// Fills the fields of a row of any kind, also of those that `apply` refuses.
fn deposit(
    row: &RelocDesc,
    bytes: &mut [u8],
    offset: usize,
    value: RelocValue,
) -> Result<(), PatchError> {
    row.update(bytes, offset, |action, _| action.take(value))
}

/// The same once more, one bit at a time.
fn deposit_bitwise(row: &RelocDesc, bytes: &mut [u8], offset: usize, value: RelocValue) {
    for action in row.actions.iter().filter(|action| action.is_number()) {
        let number = number(action, value);
        for i in 0..action.width {
            let at = offset * 8 + usize::from(action.bit + i);
            let bit = (number >> (action.shift + i) & 1) as u8;
            bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | bit << (at % 8);
        }
    }
}

fn number(action: &Action, value: RelocValue) -> u64 {
    if action.source == Source::Bank { value.bank.into() } else { value.address }
}

proptest! {
    /// The first field is what `extract` puts at its place in the value.
    #[test]
    fn first_field_is_unshifted(row in linker_row(), bytes in any::<[u8; ROOM]>(), offset in 0..16usize) {
        let first = row.actions.iter().find(|action| action.is_number()).unwrap();
        let field = row.first_field(&bytes, offset).unwrap();
        prop_assert!(first.width == 64 || field >> first.width == 0);
        let whole = row.extract(&bytes, offset).unwrap();
        let part = number(first, whole) >> first.shift;
        let mask = if first.width == 64 { u64::MAX } else { (1 << first.width) - 1 };
        prop_assert_eq!(part & mask, field);
    }
}

/// The bits of `value` that some field of the row holds.
fn held(row: &RelocDesc, value: RelocValue) -> RelocValue {
    let mut held = RelocValue::default();
    for action in row.actions.iter().filter(|action| action.is_number()) {
        for bit in action.shift..action.shift + action.width {
            let one = number(action, value) & 1 << bit;
            match action.source {
                Source::Bank => held.bank |= one as u8,
                _ => held.address |= one,
            }
        }
    }
    held
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, max_global_rejects: 40_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fields_and_nothing_else(
        row in any_row(),
        before in any::<[u8; ROOM]>(),
        offset in 0..=ROOM - 16,
        value in any_value(),
    ) {
        let mut expected = before;
        deposit_bitwise(row, &mut expected, offset, value);
        let mut bytes = before;
        deposit(row, &mut bytes, offset, value).unwrap();
        prop_assert_eq!(bytes, expected);
        prop_assert_eq!(row.extract(&bytes, offset), Ok(held(row, value)));

        let mut applied = before;
        let result = row.apply(&mut applied, offset, value);
        match row.observed {
            Observed::Bits => prop_assert_eq!((result, applied), (Ok(()), expected)),
            Observed::NoEffect | Observed::Ignored | Observed::Clears => {
                prop_assert_eq!((result, applied), (Ok(()), before))
            }
            _ => {
                let refused = Err(PatchError::NotApplicable { code: row.code });
                prop_assert_eq!((result, applied), (refused, before))
            }
        }
    }

    #[test]
    fn the_last_field_may_end_the_section_but_not_pass_it(
        row in any_row(),
        before in any::<[u8; ROOM]>(),
        offset in 0..=ROOM - 16,
        value in any_value(),
    ) {
        let end = offset + row.span_bytes();
        let mut bytes = before;
        prop_assert_eq!(deposit(row, &mut bytes[..end], offset, value), Ok(()));
        prop_assert!(row.extract(&bytes[..end], offset).is_ok());
        if end > offset {
            let mut bytes = before;
            let short = &mut bytes[..end - 1];
            let size = short.len();
            let error = Err(PatchError::OutOfBounds {
                code: row.code, offset, span: row.span_bytes(), size,
            });
            prop_assert_eq!(deposit(row, short, offset, value), error);
            prop_assert_eq!(row.clear(short, offset), error);
            prop_assert_eq!(row.extract(short, offset).map(drop), error);
            prop_assert_eq!(bytes, before);
        }
    }

    #[test]
    fn rel_adds_to_each_field(
        row in linker_row(),
        before in any::<[u8; ROOM]>(),
        offset in 0..=ROOM - 16,
        value in any_value(),
    ) {
        let mut bytes = before;
        row.add(&mut bytes, offset, value).unwrap();
        // Each field on its own: a carry out of the address may not reach the bank.
        for action in row.actions {
            let field = |bytes: &[u8]| {
                super::read(&bytes[offset + action.first_byte()..][..action.byte_count()], action)
            };
            let old = field(&before);
            let sum = if action.source == Source::Part && action.width == 8 {
                old.wrapping_add(number(action, value)) >> action.shift
            } else {
                old.wrapping_add(number(action, value) >> action.shift)
            };
            prop_assert_eq!(field(&bytes), sum & super::mask(action.width));
        }
        // And no bit outside of the fields.
        deposit_bitwise(row, &mut bytes, offset, row.extract(&before, offset).unwrap());
        prop_assert_eq!(bytes, before);
    }

    #[test]
    fn what_fits_comes_back_whole(row in linker_row(), address in any_address(), bank in 0..40u8) {
        let value = RelocValue { address, bank };
        prop_assume!(row.fits(value));
        let mut bytes = [0; 16];
        row.apply(&mut bytes, 0, value).unwrap();
        let back = row.extract(&bytes, 0).unwrap();
        // `back` is the value, or its low bits where it was negative.
        let of = |source| row.actions.iter().filter(move |action| action.source == source);
        if let Some(high) = of(Source::Address).map(|action| action.shift + action.width).max() {
            let signed = ((back.address << (64 - high)) as i64 >> (64 - high)) as u64;
            prop_assert!(back.address == address || signed == address);
        }
        prop_assert!(of(Source::Bank).next().is_none() || back.bank == bank);
    }
}

/// Addresses of all magnitudes and both signs, most of them multiples of four.
fn any_address() -> impl Strategy<Value = u64> {
    let low = prop_oneof![4 => Just(!3), 1 => Just(!0)];
    (any::<i64>(), 0..64u32, low).prop_map(|(number, shift, low)| (number >> shift) as u64 & low)
}

#[test]
fn offsets_near_the_end_of_memory_are_out_of_bounds() {
    let mut bytes = [0xff; 8];
    let error = lookup(2).unwrap().apply(&mut bytes, usize::MAX - 3, RelocValue::default());
    assert!(matches!(error, Err(PatchError::OutOfBounds { span: 8, size: 8, .. })), "{error:?}");
    assert_eq!(bytes, [0xff; 8]);
}

#[test]
fn fits() {
    // code, address, bank, answer
    let cases = [
        (66, 0xffff, 31, true),
        (66, 0x10000, 3, false),
        (66, 0, 32, false),
        (66, (-0x8000i64) as u64, 2, true),
        (66, (-0x8001i64) as u64, 2, false),
        (64, 0xfffc, 3, true),
        (64, 0x3, 3, false),
        (59, 0x12345, 0, false),
        (59, 0x2345, 99, true), // no bank field
        (2, u64::MAX, 0, true),
        (1, u64::MAX, 0, true),
        (1, 1 << 32, 0, false),
        (56, u64::MAX >> 1, 0, true),
        (57, 5, 0, true),
        (77, 0x1234, 0, true),
        (0, 7, 0, true),
        (0x10004, 0x10000, 0, false),
    ];
    for (code, address, bank, answer) in cases {
        let row = lookup(code).unwrap();
        assert_eq!(
            row.fits(RelocValue { address, bank }),
            answer,
            "{} {address:#x} {bank}",
            row.name
        );
    }
}

#[test]
fn clear_zeroes_only_what_the_clear_types_cover() {
    for row in CUDA.iter().chain(&MERCURY) {
        let mut bytes = [0xff; 24];
        row.clear(&mut bytes, 3).unwrap();
        let cleared = match row.code.0 {
            72 => 4,
            73 | 0x1000e => 8,
            _ => 0,
        };
        let mut expected = [0xff; 24];
        expected[3..3 + cleared].fill(0);
        assert_eq!(bytes, expected, "{}", row.name);
    }
}
