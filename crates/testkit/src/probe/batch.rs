//! Records that share a link.
//!
//! In: a [`Batch`], a [`ProbeLinker`]. Out: the fate of every record. Guaranteed: a record that
//! ends the link, or that changes the fate of others, has a link of its own; all others share one.

use super::fate::{RecordFate, Slots};
use super::object::{AddendForm, BANK, ProbeObject, ProbeRecord, STRIDE};
use super::places::ProbePlace;
use super::symbols::SymbolKind;
use anyhow::{Context, Result};
use culd_reloc::lookup;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A linker.
pub trait ProbeLinker {
    /// Links `object` after the object of [`super::object::front`].
    ///
    /// # Errors
    /// When it cannot be started.
    fn link(&self, sm: u32, object: &[u8]) -> Result<BatchAnswer>;
}

/// The result of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchAnswer {
    /// With an output.
    Linked(Vec<u8>),
    /// With a message.
    Refused(String),
    /// It crashed or did not end; the text says how.
    Crashed(String),
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeSpot {
    /// This many bytes from the start of its slot.
    Slot(u64),
    /// This many bytes from the end of the section.
    End(i64),
    /// At the start of its slot, followed by another record, `R_CUDA_64` with the addend 0x77.
    Twice,
}

/// Records that differ in their types only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Architecture.
    pub sm: u32,
    /// Where they are.
    pub place: &'static ProbePlace,
    /// Their symbol.
    pub symbol: &'static SymbolKind,
    /// Whether they have addends.
    pub form: AddendForm,
    /// The addend of all of them.
    pub addend: i64,
    /// Where in the place.
    pub spot: ProbeSpot,
    /// Their types.
    pub kinds: Vec<u32>,
}

/// Slots of constants: more than any batch has types.
const CONST_SLOTS: u64 = 128;

/// Types that end a link of some linker, as earlier batches have shown.
pub type EndingTypes = BTreeSet<u32>;

/// The fate of every type.
pub type Fates = BTreeMap<u32, RecordFate>;

impl Batch {
    /// The object with the records of `kinds`, which are types of this batch.
    pub fn object(&self, kinds: &[u32]) -> ProbeObject {
        let Batch { sm, place, symbol, form, addend, spot, .. } = *self;
        // The size of the constants is a value (symbol `.nv.ptx.const0.size`), so it must not
        // depend on the records that share a link.
        let slots = match spot {
            ProbeSpot::Slot(_) if place.key == "const" => CONST_SLOTS.max(kinds.len() as u64 + 1),
            _ => kinds.len() as u64 + 1,
        };
        let mut records = Vec::new();
        for (&kind, slot) in kinds.iter().zip(1..) {
            let offset = match spot {
                ProbeSpot::Slot(at) => place.slot(slot) + at,
                ProbeSpot::End(at) => place.slot(slots).wrapping_add_signed(at),
                ProbeSpot::Twice => place.slot(slot),
            };
            records.push(ProbeRecord { offset, kind, addend });
            if spot == ProbeSpot::Twice {
                records.push(ProbeRecord { offset, kind: 2, addend: 0x77 });
            }
        }
        ProbeObject { sm, place, symbol, form, bank: BANK, slots, records }
    }

    /// The fate of every record with `linker`.
    ///
    /// # Errors
    /// When it cannot be started, or its output is malformed.
    pub fn fates(&self, linker: &dyn ProbeLinker, guesses: &mut EndingTypes) -> Result<Fates> {
        let mut fates = Fates::new();
        let (guessed, others): (Vec<u32>, Vec<u32>) =
            self.kinds.iter().partition(|kind| guesses.contains(kind));
        for group in self.groups(&others) {
            self.split(linker, &group, &mut fates)?;
        }
        for kind in guessed {
            self.split(linker, &[kind], &mut fates)?;
        }
        guesses.retain(|kind| !self.kinds.contains(kind));
        guesses.extend(fates.iter().filter(|(_, fate)| !fate.is_linked()).map(|(kind, _)| kind));
        Ok(fates)
    }

    /// Groups of `kinds` that can share a link. Types that keep functions alive change the fate of
    /// others, and only one record can be at the end.
    pub fn groups(&self, kinds: &[u32]) -> Vec<Vec<u32>> {
        let alone = |kind: &u32| {
            let keeps_alive = lookup(*kind).is_some_and(|row| row.needs_function());
            keeps_alive || matches!(self.spot, ProbeSpot::End(_))
        };
        let (single, shared): (Vec<u32>, Vec<u32>) = kinds.iter().partition(|kind| alone(kind));
        let mut groups: Vec<Vec<u32>> = single.into_iter().map(|kind| vec![kind]).collect();
        if !shared.is_empty() {
            groups.push(shared);
        }
        groups
    }

    /// Links `kinds` together, and each half alone if that fails.
    fn split(&self, linker: &dyn ProbeLinker, kinds: &[u32], fates: &mut Fates) -> Result<()> {
        let object = self.object(kinds);
        let failed = match (linker.link(self.sm, &object.bytes()?)?, kinds) {
            (BatchAnswer::Linked(output), _) => {
                let slots = Slots::find(&object, &output).with_context(|| self.to_string())?;
                for (&kind, slot) in kinds.iter().zip(1..) {
                    fates.insert(kind, slots.fate(slot, self.start_in_slot(), kind)?);
                }
                return Ok(());
            }
            (_, [_, _, ..]) => {
                let (front, back) = kinds.split_at(kinds.len() / 2);
                self.split(linker, front, fates)?;
                return self.split(linker, back, fates);
            }
            (BatchAnswer::Refused(message), _) => RecordFate::Refused(message),
            (BatchAnswer::Crashed(how), _) => RecordFate::Crashed(how),
        };
        fates.extend(kinds.iter().map(|&kind| (kind, failed.clone())));
        Ok(())
    }

    fn start_in_slot(&self) -> usize {
        match self.spot {
            ProbeSpot::Slot(at) => at as usize,
            ProbeSpot::End(at) => STRIDE.wrapping_add_signed(at) as usize,
            ProbeSpot::Twice => 0,
        }
    }
}

impl fmt::Display for Batch {
    /// A line that identifies the batch among those of an architecture.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place.key, self.symbol.key)?;
        match (self.form, self.addend) {
            (AddendForm::Rel, _) => f.write_str(" rel")?,
            (AddendForm::Rela, addend @ 0..) => write!(f, " +{addend:#x}")?,
            (AddendForm::Rela, addend) => write!(f, " -{:#x}", addend.unsigned_abs())?,
        }
        match self.spot {
            ProbeSpot::Slot(0) => Ok(()),
            ProbeSpot::Slot(at) => write!(f, " at+{at}"),
            ProbeSpot::End(at) => write!(f, " end{at:+}"),
            ProbeSpot::Twice => f.write_str(" twice"),
        }
    }
}

impl BatchAnswer {
    /// The message of a link that failed: the line that ends it, without the linker's name. Names
    /// of types and hexadecimal numbers are left out, so that records which are refused alike can
    /// be reported as one.
    pub fn message(text: &str) -> String {
        let has = |word: &'static str| move |line: &&str| line.contains(word);
        let lines = || text.lines().filter(|line| !line.starts_with(' '));
        let line = lines().find(has("fatal")).or_else(|| lines().find(has("error")));
        let line = line.or_else(|| lines().next()).unwrap_or_default();
        let message = line.split_once(": ").map_or(line, |(_, message)| message);
        let general = |word: &str| match word.split_at_checked(2) {
            Some(("R_", _)) => "R_*:".to_owned(),
            Some(("0x", rest)) => format!("0x*{}", rest.trim_start_matches(char::is_alphanumeric)),
            _ => word.to_owned(),
        };
        message.split(' ').map(general).collect::<Vec<_>>().join(" ")
    }
}
