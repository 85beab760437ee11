//! What a linker does with one record.
//!
//! In: the output, the object with the record. Out: [`RecordFate`]. Guaranteed: two fates are equal
//! only if the bytes of the slot and the kept records for it are. The rest of the file does not
//! count.

use super::object::{Pattern, ProbeObject, STRIDE, pattern};
use super::places::OutputBytes;
use anyhow::{Context, Result, ensure};
use culd_cubin::elf::sht;
use culd_cubin::{Cubin, Section, SectionIndex};
use culd_reloc::{RelocDesc, lookup};
use std::fmt;

/// The fate of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordFate {
    /// The linker ended with this message.
    Refused(String),
    /// The linker crashed or did not end; the text says how.
    Crashed(String),
    /// The place is not in the output.
    Gone,
    /// It is.
    Linked(Slot),
}

/// A slot of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The record's type.
    kind: u32,
    /// Where its word starts.
    at: usize,
    before: Pattern,
    bytes: Vec<u8>,
    /// The kept records for the slot.
    kept: Vec<KeptInSlot>,
}

/// A record of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeptInSlot {
    /// In the slot.
    offset: u64,
    kind: u32,
    symbol: String,
    /// None in a REL section.
    addend: Option<i64>,
}

/// The part of an output section that comes from the object.
#[derive(Clone, Copy)]
struct OutputPart {
    section: SectionIndex,
    /// Offset of the first byte in the section.
    start: u64,
}

/// The slots of an output.
pub struct Slots<'a, 'd> {
    object: &'a ProbeObject,
    output: Cubin<'d>,
    part: Option<OutputPart>,
}

impl<'a, 'd> Slots<'a, 'd> {
    /// Finds the slots.
    ///
    /// # Errors
    /// When the output is damaged, or lacks the slot without a record.
    pub fn find(object: &'a ProbeObject, output: &'d [u8]) -> Result<Self> {
        let output = Cubin::parse(output).context("a linker's output")?;
        let part = part(object, &output);
        let slots = Slots { object, output, part };
        if slots.part.is_some() {
            ensure!(slots.bytes(0)? == object.pattern(), "the slots are not found");
        } else {
            ensure!(object.place.found == OutputBytes::Gone, "the output has no such place");
        }
        Ok(slots)
    }

    /// The fate of a record of this type whose word starts at byte `at` of the slot.
    ///
    /// # Errors
    /// When the output's tables are incomplete.
    pub fn fate(&self, slot: u64, at: usize, kind: u32) -> Result<RecordFate> {
        let Some(part) = self.part else { return Ok(RecordFate::Gone) };
        let first = part.start + self.object.place.slot(slot);
        let mut kept = Vec::new();
        for section in self.relocations(part.section) {
            let symbols = match section.sh_type {
                sht::MERCURY_RELA => &self.output.mercury_symbols,
                _ => &self.output.symbols,
            };
            for record in section.relocations().iter() {
                let offset = record.offset.wrapping_sub(first);
                if offset >= STRIDE {
                    continue;
                }
                let symbol = match record.symbol.0 {
                    0 => "#0".to_owned(),
                    _ => {
                        let symbol = symbols.get(record.symbol.0 as usize).context("its symbol")?;
                        String::from_utf8_lossy(symbol.name).into_owned()
                    }
                };
                let addend = (section.sh_type != sht::REL).then_some(record.addend);
                kept.push(KeptInSlot { offset, kind: record.kind, symbol, addend });
            }
        }
        let before = self.object.pattern();
        Ok(RecordFate::Linked(Slot { kind, at, before, bytes: self.bytes(slot)?.to_vec(), kept }))
    }

    fn bytes(&self, slot: u64) -> Result<&'d [u8]> {
        let part = self.part.context("no place")?;
        let at = usize::try_from(part.start + self.object.place.slot(slot))?;
        let section = self.output.section(part.section).context("no section")?;
        section.data.get(at..at + STRIDE as usize).context("the place is cut")
    }

    fn relocations(&self, of: SectionIndex) -> impl Iterator<Item = &Section<'d>> {
        let sections = self.output.section_indices().map(|(_, section)| section);
        let has_records = |section: &Section<'_>| {
            matches!(section.sh_type, sht::RELA | sht::REL | sht::MERCURY_RELA)
        };
        sections.filter(move |section| has_records(section) && section.info == of.0)
    }
}

/// The part of `output` that comes from `object`.
fn part(object: &ProbeObject, output: &Cubin<'_>) -> Option<OutputPart> {
    let place = object.place;
    let mut sections = output.section_indices();
    let mut same_name = || sections.find(|(_, other)| other.name == place.section.as_bytes());
    match place.found {
        OutputBytes::Gone => None,
        OutputBytes::Symbol(name) => {
            let symbol = output.symbols.iter().find(|symbol| symbol.name == name.as_bytes())?;
            let start = symbol.value.checked_sub(place.start)?;
            Some(OutputPart { section: symbol.defined_in()?, start })
        }
        OutputBytes::Start => Some(OutputPart { section: same_name()?.0, start: 0 }),
        OutputBytes::End => {
            let (index, section) = same_name()?;
            let start = section.size.checked_sub(place.slot(object.slots))?;
            Some(OutputPart { section: index, start })
        }
    }
}

impl RecordFate {
    /// A slot with these bytes, and the kept record (type, symbol, addend) for its start.
    pub fn expected(sm: u32, kind: u32, bytes: &[u8], kept: Option<(u32, &str, i64)>) -> Self {
        let kept = kept.into_iter().map(|(kind, symbol, addend)| KeptInSlot {
            offset: 0,
            kind,
            symbol: symbol.to_owned(),
            addend: Some(addend),
        });
        let (before, bytes) = (pattern(sm), bytes.to_vec());
        RecordFate::Linked(Slot { kind, at: 0, before, bytes, kept: kept.collect() })
    }

    /// True for the text of a fate whose link has an output.
    pub fn is_text_of_linked(text: &str) -> bool {
        !text.starts_with("refused: ") && !text.starts_with("crash: ")
    }

    /// Whether there is an output.
    pub fn is_linked(&self) -> bool {
        matches!(self, RecordFate::Gone | RecordFate::Linked(_))
    }
}

impl fmt::Display for RecordFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFate::Refused(message) => write!(f, "refused: {message}"),
            RecordFate::Crashed(how) => write!(f, "crash: {how}"),
            RecordFate::Gone => f.write_str("gone"),
            RecordFate::Linked(slot) => slot.fmt(f),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = lookup(self.kind);
        let plain = row.and_then(|row| row.unified);
        if self.bytes != self.before {
            write_bytes(f, self, plain.and_then(|plain| plain.desc()).or(row))?;
        } else {
            f.write_str(if self.kept.is_empty() { "dropped" } else { "kept" })?;
        }
        for KeptInSlot { offset, kind, symbol, addend } in &self.kept {
            match plain {
                _ if *kind == self.kind => {}
                Some(plain) if plain.0 == *kind => f.write_str(" rewritten")?,
                _ => write!(f, " as {kind:#x}")?,
            }
            write!(f, " [{symbol}")?;
            match addend {
                Some(addend @ 0..) => write!(f, "+{addend:#x}")?,
                Some(addend) => write!(f, "-{:#x}", addend.unsigned_abs())?,
                None => {}
            }
            match self.at as u64 {
                at if at == *offset => f.write_str("]")?,
                _ => write!(f, "]@{offset}")?,
            }
        }
        Ok(())
    }
}

/// Writes the value in the type's fields if no other bit changed, else the bytes.
fn write_bytes(f: &mut fmt::Formatter<'_>, slot: &Slot, row: Option<&RelocDesc>) -> fmt::Result {
    let before = slot.before;
    if let Some(row) = row
        && let Ok(value) = row.extract(&slot.bytes, slot.at)
    {
        let mut again = before;
        if row.apply(&mut again, slot.at, value).is_ok() && again[..] == slot.bytes {
            write!(f, "patched {:#x}", value.address)?;
            return if value.bank == 0 { Ok(()) } else { write!(f, "/{}", value.bank) };
        }
        let mut again = before;
        if row.clear(&mut again, slot.at).is_ok() && again[..] == slot.bytes {
            return f.write_str("cleared");
        }
    }
    let last = slot.bytes.iter().zip(&before).rposition(|(after, before)| after != before);
    f.write_str("bytes ")?;
    slot.bytes[..=last.unwrap_or(0)].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
