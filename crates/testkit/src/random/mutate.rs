//! Damages files, as disks, networks and attackers do.
//!
//! In: the bytes of a good file, or a [`program::MutationSource`], and a generator. Out: the same
//! with fields, bytes, records or pieces changed. Guaranteed: the same seed and the same good files
//! give the same damage. Any bytes are accepted.
//!
//! [`fields`] finds the number fields of a format, so that most damage passes the first check.
//! [`program`] makes links of damaged files, [`containers`] links of sound containers in unusual
//! combinations.

pub mod containers;
pub mod fields;
pub mod program;
pub mod seeds;

use crate::random::generate::rng::Rng;
use fields::{NumberField, NumberForm};

/// No file grows beyond this, bytes.
const MAX_GROWTH: usize = 1 << 20;

/// Damages `bytes` in one to three of the fields in `fields`, or at any place.
pub fn damage(bytes: &mut Vec<u8>, fields: &[NumberField], rng: &mut Rng) {
    for _ in 0..1 + rng.below(3) {
        if bytes.is_empty() {
            return;
        }
        match rng.below(20) {
            0 => bytes.truncate(rng.below(bytes.len())),
            1..=2 => {
                let at = rng.below(bytes.len());
                bytes[at] = rng.bits() as u8;
            }
            3 => piece(bytes, rng),
            _ => match rng.choose(fields) {
                Some(&field) => number(bytes, field, rng),
                None => piece(bytes, rng),
            },
        }
    }
}

/// Finds the fields of `bytes` and damages them.
pub fn damage_file(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let fields = fields::of(bytes);
    damage(bytes, &fields, rng);
}

/// Moves, repeats, drops or clears some bytes: records, or a part of one.
fn piece(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let unit = rng.pick(&[1, 4, 8, 16, 24, 64]);
    let places = bytes.len() / unit;
    let (at, to) = (unit * rng.below(places), unit * rng.below(places));
    let size = (unit * rng.range(1, 4)).min(bytes.len() - at);
    let some = bytes[at..at + size].to_vec();
    match rng.below(4) {
        0 => drop(bytes.drain(at..at + size)),
        1 if bytes.len() < MAX_GROWTH => drop(bytes.splice(to..to, some)),
        2 => bytes[at..at + size].fill(if rng.chance(50) { 0 } else { 0xff }),
        _ => {
            let size = size.min(bytes.len() - to);
            bytes[to..to + size].copy_from_slice(&some[..size]);
        }
    }
}

fn number(bytes: &mut [u8], field: NumberField, rng: &mut Rng) {
    let Some(place) = bytes.get_mut(field.at..field.at + field.size) else { return };
    match field.form {
        NumberForm::Little => {
            let mut old = [0; 8];
            let size = place.len().min(8);
            old[..size].copy_from_slice(&place[..size]);
            let new = value(u64::from_le_bytes(old), size, rng);
            place[..size].copy_from_slice(&new.to_le_bytes()[..size]);
        }
        NumberForm::Decimal => {
            let old = str::from_utf8(place).ok().and_then(|text| text.trim().parse().ok());
            let new = match rng.below(8) {
                0 => "-1".to_owned(),
                1 => "9x".to_owned(),
                _ => value(old.unwrap_or(0), 4, rng).to_string(),
            };
            for (at, byte) in place.iter_mut().enumerate() {
                *byte = new.as_bytes().get(at).copied().unwrap_or(b' ');
            }
        }
    }
}

/// A value of `size` bytes that is likely to cause errors in the place of `old`.
pub fn value(old: u64, size: usize, rng: &mut Rng) -> u64 {
    match rng.below(12) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old.wrapping_shl(1 + rng.below(16) as u32),
        5 => 1 << rng.below(64),
        6 => i64::MAX as u64,
        7 => u64::from(u32::MAX >> 1),
        8 => rng.bits(),
        9 => old ^ (1 << rng.below(8 * size.clamp(1, 8))),
        _ => rng.below(48) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culd_fatbin::{Format, sniff};

    #[test]
    fn any_bytes_can_be_damaged() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut bytes: Vec<u8> = (0..rng.below(200)).map(|_| rng.bits() as u8).collect();
            let magic: &[u8] =
                [&b"\x7fELF\x02\x01"[..], b"!<arch>\n", b"\x50\xed\x55\xba\x01\0\x10\0", b""]
                    [rng.below(4)];
            bytes.splice(0..0, magic.iter().copied());
            damage_file(&mut bytes, &mut rng);
        }
    }

    #[test]
    fn the_fields_of_every_kind_of_file_are_found() {
        let programs = program::recorded().expect("the cases");
        let mut kinds: Vec<Format> = Vec::new();
        for seed in 0..600 {
            let link = program::mutant(&programs, seed);
            for (_, bytes) in &link.files {
                let format = sniff(bytes);
                if format != Format::Unknown && !kinds.contains(&format) {
                    kinds.push(format);
                }
            }
        }
        for format in [
            Format::RelocatableCubin,
            Format::Fatbin,
            Format::HostElf { relocatable: true },
            Format::Coff,
            Format::Archive,
            Format::ThinArchive,
            Format::Ptx,
        ] {
            assert!(kinds.contains(&format), "{format:?} is in none of the links");
        }
    }
}
