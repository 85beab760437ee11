//! Verifies the rows of the relocation tables bit by bit.
//!
//! In: a linker. Out: the observations for each row. Guaranteed: each of the 64 bits of an address
//! is set alone, and so is each of the five bits of a bank number. The whole slot has to be as the
//! row says, so a bit in the wrong place fails too. The driver fills some fields; for those, the
//! place must not change and the record must stay.

use super::batch::{Batch, BatchAnswer, EndingTypes, ProbeLinker, ProbeSpot};
use super::fate::{RecordFate, Slots};
use super::object::{AddendForm, BANK, is_mercury, pattern};
use super::places::ProbePlace;
use super::symbols::SymbolKind;
use anyhow::{Context, Result};
use culd_reloc::{CUDA, MERCURY, Observed, RelocDesc, RelocValue, Source};
use std::collections::BTreeMap;

/// The observations for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRow {
    /// The row.
    pub row: &'static RelocDesc,
    /// The number of values that are where the row says.
    pub right: usize,
    /// The faults.
    pub wrong: Vec<String>,
}

/// The observations for all rows of a table, by code.
type SeenRows = BTreeMap<u32, SeenRow>;

/// Bank numbers with one bit each; a section of constants can have them.
const BANKS: [u8; 5] = [1, 2, 4, 8, 16];

/// Bytes of constants of the object in front, in bank 3.
const FRONT_CONSTANTS: u64 = 0x30;

/// The bank number that nvlink uses for a symbol in no section: `(0 - 0x70000064) & 31`.
const NO_BANK: u8 = 28;

/// Tries all rows of R_CUDA, or on an architecture with Mercury sections, all of R_MERCURY.
///
/// # Errors
/// When the linker cannot be started, or its output is malformed.
pub fn rows(sm: u32, linker: &dyn ProbeLinker) -> Result<Vec<SeenRow>> {
    let seen = |row: &'static RelocDesc| (row.code.0, SeenRow { row, right: 0, wrong: Vec::new() });
    let mut table: SeenRows = table_of(sm).iter().map(seen).collect();
    walk(sm, linker, &mut table)?;
    if !is_mercury(sm) {
        banks(sm, linker, &mut table)?;
    }
    special(sm, linker, &mut table)?;
    Ok(table.into_values().collect())
}

fn table_of(sm: u32) -> &'static [RelocDesc] {
    if is_mercury(sm) { &MERCURY } else { &CUDA }
}

fn batch(sm: u32, symbol: &str, addend: i64, kinds: Vec<u32>) -> Result<Batch> {
    let place = if is_mercury(sm) { "merc" } else { "text" };
    let place = ProbePlace::named(place).context("the place")?;
    let symbol = SymbolKind::named(symbol).context("the symbol")?;
    Ok(Batch { sm, place, symbol, form: AddendForm::Rela, addend, spot: ProbeSpot::Slot(0), kinds })
}

fn kinds(sm: u32, wanted: impl Fn(&RelocDesc) -> bool) -> Vec<u32> {
    table_of(sm).iter().filter(|row| wanted(row)).map(|row| row.code.0).collect()
}

fn plain(row: &'static RelocDesc) -> &'static RelocDesc {
    row.unified.and_then(|plain| plain.desc()).unwrap_or(row)
}

fn note(table: &mut SeenRows, kind: u32, what: &str, expected: &RecordFate, seen: &RecordFate) {
    let Some(entry) = table.get_mut(&kind) else { return };
    if expected == seen {
        entry.right += 1;
    } else {
        entry.wrong.push(format!("{what}: {seen}, the table says {expected}"));
    }
}

/// The whole slot according to a row.
fn applied(sm: u32, row: &'static RelocDesc, value: RelocValue) -> Result<RecordFate> {
    let mut bytes = pattern(sm);
    plain(row).apply(&mut bytes, 0, value)?;
    Ok(RecordFate::expected(sm, row.code.0, &bytes, None))
}

/// Tries addresses of one bit, with applied and with kept types.
fn walk(sm: u32, linker: &dyn ProbeLinker, table: &mut SeenRows) -> Result<()> {
    use Observed::{Bits, Clears, Ignored, Kept, NoEffect};
    let wanted = |row: &RelocDesc| {
        let plain = row.unified.and_then(|plain| plain.desc());
        let observed = plain.map_or(row.observed, |plain| plain.observed);
        matches!(observed, NoEffect | Bits | Kept | Ignored | Clears)
    };
    let kinds = kinds(sm, wanted);
    // Symbol 0 is at 0. With it, nvlink crashes in Mercury sections; this constant is behind those
    // of another file.
    let (symbol, name, start) = match is_mercury(sm) {
        true => ("const", "const", FRONT_CONSTANTS),
        false => ("null", "#0", 0),
    };
    let mut guesses = EndingTypes::new();
    for bit in 0..64 {
        let addend = (1_u64 << bit).wrapping_sub(start) as i64;
        let fates = batch(sm, symbol, addend, kinds.clone())?.fates(linker, &mut guesses)?;
        for (kind, seen) in fates {
            let row = culd_reloc::lookup(kind).context("a row")?;
            let expected = match plain(row).observed {
                Kept => {
                    let record = (plain(row).code.0, name, addend);
                    RecordFate::expected(sm, kind, &pattern(sm), Some(record))
                }
                _ => applied(sm, row, RelocValue { address: 1 << bit, bank: NO_BANK })?,
            };
            note(table, kind, &format!("bit {bit}"), &expected, &seen);
        }
    }
    Ok(())
}

/// Tries bank numbers, against a constant at 0 behind the constants of another file.
fn banks(sm: u32, linker: &dyn ProbeLinker, table: &mut SeenRows) -> Result<()> {
    let has_bank = |row: &RelocDesc| row.actions.iter().any(|action| action.source == Source::Bank);
    let kinds = kinds(sm, has_bank);
    for bank in BANKS.into_iter().chain([BANK]) {
        let mut object = batch(sm, "const", 0, kinds.clone())?.object(&kinds);
        object.bank = bank;
        let answer = linker.link(sm, &object.bytes()?)?;
        let BatchAnswer::Linked(output) = answer else {
            for kind in &kinds {
                let entry = table.get_mut(kind).context("a row")?;
                entry.wrong.push(format!("bank {bank}: not linked"));
            }
            continue;
        };
        let slots = Slots::find(&object, &output)?;
        let front = if bank == BANK { FRONT_CONSTANTS } else { 0 };
        for (&kind, slot) in kinds.iter().zip(1..) {
            let row = culd_reloc::lookup(kind).context("a row")?;
            let expected = applied(sm, row, RelocValue { address: front + 0x10, bank })?;
            note(table, kind, &format!("bank {bank}"), &expected, &slots.fate(slot, 0, kind)?);
        }
    }
    Ok(())
}

/// Tries what only some symbols show: functions, alive and dead, and refused records.
fn special(sm: u32, linker: &dyn ProbeLinker, table: &mut SeenRows) -> Result<()> {
    let mut guesses = EndingTypes::new();
    let functions =
        kinds(sm, |row| matches!(row.observed, Observed::FunctionOnly | Observed::SameSection));
    for (kind, fate) in batch(sm, "function", 0x10, functions)?.fates(linker, &mut guesses)? {
        let expected = RecordFate::expected(sm, kind, &pattern(sm), Some((kind, "live", 0x10)));
        note(table, kind, "a function", &expected, &fate);
    }
    let clears = kinds(sm, |row| row.observed == Observed::Clears);
    for (kind, fate) in batch(sm, "dead-function", 0x10, clears)?.fates(linker, &mut guesses)? {
        let mut bytes = pattern(sm);
        culd_reloc::lookup(kind).context("a row")?.clear(&mut bytes, 0)?;
        note(table, kind, "a dead function", &RecordFate::expected(sm, kind, &bytes, None), &fate);
    }
    let refused =
        kinds(sm, |row| matches!(row.observed, Observed::SameSection | Observed::Rejected));
    for (kind, fate) in batch(sm, "const", 0x10, refused)?.fates(linker, &mut guesses)? {
        let entry = table.get_mut(&kind).context("a row")?;
        match fate {
            RecordFate::Refused(_) => entry.right += 1,
            other => entry.wrong.push(format!("a constant: {other}, the table says refused")),
        }
    }
    Ok(())
}
