//! Makes the objects with the probed records.
//!
//! In: an architecture, a place, a symbol and records. Out: the bytes of two objects: one with the
//! records, and one that is linked before it, so that no part of the first starts at 0. Guaranteed:
//! no tool is needed. All slots are equal, and the first has no record, so it can be recognised in
//! the output.

use super::places::ProbePlace;
use super::symbols::SymbolKind;
use crate::fixtures::asm;
use std::fmt::Write as _;

/// Bytes from one slot to the next: the widest word, and the same number of bytes that must not
/// change.
pub const STRIDE: u64 = 32;

/// The form of a record's section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddendForm {
    /// `SHT_RELA`: the record has the addend, the field is overwritten.
    Rela,
    /// `SHT_REL`: the field has the addend.
    Rel,
}

/// One relocation record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRecord {
    /// In the input section.
    pub offset: u64,
    /// The type.
    pub kind: u32,
    /// The addend; 0 with [`AddendForm::Rel`].
    pub addend: i64,
}

/// An object with records of one place and one symbol.
#[derive(Clone, Debug)]
pub struct ProbeObject {
    /// Architecture, such as 90.
    pub sm: u32,
    /// Where the records are.
    pub place: &'static ProbePlace,
    /// Their symbol.
    pub symbol: &'static SymbolKind,
    /// Whether they have addends.
    pub form: AddendForm,
    /// Bank of the constant variables: [`BANK`], except in probes of banks.
    pub bank: u8,
    /// Slots of the place.
    pub slots: u64,
    /// The records, in file order.
    pub records: Vec<ProbeRecord>,
}

/// The bank that constant variables are in.
pub const BANK: u8 = 3;

const BASE: &str = include_str!("base.txt");
const FRONT: &str = include_str!("front.txt");

// nvlink reads Mercury code, so these texts are ptxas's output for base-mercury.ptx and
// front-mercury.ptx.
const BASE_MERCURY: &str = include_str!("base-mercury.txt");
const FRONT_MERCURY: &str = include_str!("front-mercury.txt");

/// A frame description without its length: a common entry, version 3, of no function, without
/// instructions.
const FRAME_HEAD: &str = "ffffffffffffffff0300047cffffffff0f0c8180000000000000000000000000";

/// Bytes of a frame description in front of its slots.
const FRAME_SIZE: u64 = 12 + FRAME_HEAD.len() as u64 / 2;

/// The bytes of a slot.
pub type Pattern = [u8; STRIDE as usize];

/// The bytes of every slot before a link for this architecture. In a frame description they are
/// instructions, which nvlink reads; a large number makes it crash.
pub fn pattern(sm: u32) -> Pattern {
    let mask = if is_mercury(sm) { 0x7f } else { 0xff };
    std::array::from_fn(|at| (at * 37 + 11) as u8 & mask)
}

/// Whether an architecture has Mercury sections.
pub const fn is_mercury(sm: u32) -> bool {
    sm >= 100
}

/// The machine-code type with the meaning of a Mercury type. nvlink makes the records of machine
/// code's debug information from Mercury's; it has no machine-code type for the others.
pub const fn machine_code(kind: u32) -> Option<u32> {
    Some(match kind {
        0x10001 => 4,
        0x10002 => 2,
        0x10003 => 1,
        0x1000b => 6,
        0x1000c => 101,
        0x1000d => 52,
        0x1000e => 73,
        0x1000f => 35,
        0x10010..=0x10027 => kind - 0x10010 + 76,
        0x10032..=0x1003b => kind - 0x10032 + 102,
        _ => return None,
    })
}

impl ProbeObject {
    /// The object's text form.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let base = if is_mercury(self.sm) { BASE_MERCURY } else { BASE };
        for line in lines(base, self.sm, self.bank) {
            let mark = line.strip_prefix('<').and_then(|mark| mark.strip_suffix('>'));
            let Some(mark) = mark else {
                text.push_str(&self.sized(&line));
                text.push('\n');
                continue;
            };
            match mark.split_once(' ').unwrap_or((mark, "")) {
                ("symbols", half) => self.write_symbols(&mut text, half == "mercury"),
                ("records", "") => self.write_section(&mut text),
                ("records", key) if key == self.place.key => self.write_records(&mut text, Some),
                ("section", key) => self.write_twin(&mut text, key),
                ("frame", key) if key == self.place.key => self.write_frame(&mut text),
                ("slots", key) if key == self.place.key => self.write_slots(&mut text),
                _ => {}
            }
        }
        text
    }

    /// The object's bytes.
    ///
    /// # Errors
    /// When a table of this module has a mistake.
    pub fn bytes(&self) -> Result<Vec<u8>, asm::AsmError> {
        asm::assemble(&self.text())
    }

    /// The bytes of every slot before the link.
    pub fn pattern(&self) -> Pattern {
        pattern(self.sm)
    }

    /// Writes the symbols that the record's symbol needs; symbols of Mercury sections are in the
    /// twins of their sections.
    fn write_symbols(&self, text: &mut String, mercury: bool) {
        for line in self.symbol.lines {
            let line = match mercury {
                true => line
                    .replace("in=.text.", "in=.nv.capmerc.text.")
                    .replace("in=.nv.", "in=.nv.merc.nv."),
                false => (*line).to_owned(),
            };
            let _ = writeln!(text, "  {line}");
        }
    }

    fn write_section(&self, text: &mut String) {
        if self.records.is_empty() {
            return;
        }
        let section = self.place.section;
        let (prefix, kind) = match self.form {
            AddendForm::Rela => (".rela", "rela"),
            AddendForm::Rel => (".rel", "rel"),
        };
        let _ =
            writeln!(text, "section {prefix}{section} {kind} flags=info align=8 info={section}");
        self.write_records(text, Some);
    }

    /// Writes the records of debug information in one half.
    fn write_twin(&self, text: &mut String, half: &str) {
        if self.place.key != "twin" {
            return;
        }
        let (section, kind, translate): (_, _, fn(u32) -> Option<u32>) = match half {
            "twin" => (".rela.debug_info", "rela flags=info", machine_code),
            _ => (".nv.merc.rela.debug_info", "merc_rela flags=info+mercury", Some),
        };
        let target = section.replacen(".rela", "", 1);
        let _ = writeln!(text, "section {section} {kind} align=8 info={target}");
        self.write_records(text, translate);
    }

    fn write_records(&self, text: &mut String, translate: impl Fn(u32) -> Option<u32>) {
        for ProbeRecord { offset, kind, addend } in &self.records {
            let Some(kind) = translate(*kind) else { continue };
            let word = self.symbol.word;
            let sign = if *addend < 0 { '-' } else { '+' };
            let addend = addend.unsigned_abs();
            let _ = writeln!(text, "  {offset:#x} {kind:#x} {word} {sign}{addend:#x}");
        }
    }

    /// Writes slots in a frame description of their own: nvlink reads the DWARF of Mercury
    /// programs.
    fn write_frame(&self, text: &mut String) {
        let size = FRAME_HEAD.len() as u64 / 2 + self.slots * STRIDE;
        let size: String = size.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let start = self.place.head - FRAME_SIZE;
        let _ = writeln!(text, "  {start:#x} ffffffff{size}{FRAME_HEAD}");
        self.write_slots(text);
    }

    fn write_slots(&self, text: &mut String) {
        for slot in 0..self.slots {
            let _ = write!(text, "  {:#x} ", self.place.slot(slot));
            text.extend(self.pattern().iter().map(|byte| format!("{byte:02x}")));
            text.push('\n');
        }
    }

    /// A line with the sizes of sections and symbols with slots.
    fn sized(&self, line: &str) -> String {
        let Some((front, rest)) = line.split_once("<size ") else { return line.to_owned() };
        let Some((key, back)) = rest.split_once('>') else { return line.to_owned() };
        let slots = if key == self.place.key { self.slots } else { 0 };
        let size =
            ProbePlace::named(key).map_or(0, |place| place.head - place.start + slots * STRIDE);
        format!("{front}{size:#x}{back}")
    }
}

/// The object in front.
///
/// # Errors
/// When a table of this module has a mistake.
pub fn front(sm: u32) -> Result<Vec<u8>, asm::AsmError> {
    let front = if is_mercury(sm) { FRONT_MERCURY } else { FRONT };
    let text: Vec<String> = lines(front, sm, BANK).collect();
    asm::assemble(&text.join("\n"))
}

/// The lines of a template for one architecture, without those that start with another number.
fn lines(template: &'static str, sm: u32, bank: u8) -> impl Iterator<Item = String> {
    let has_compat = sm >= 90;
    // The start of the parameters, and the end of 8 bytes of them.
    let params: u64 = if has_compat { 0x210 } else { 0x160 };
    template.lines().filter_map(move |line| {
        let line = match line.split_once('|') {
            Some(("75", rest)) => (!has_compat).then_some(rest)?,
            Some(("90", rest)) => has_compat.then_some(rest)?,
            _ => line,
        };
        let line = line.replace("<sm>", &sm.to_string());
        let line = line.replace("<bank>", &bank.to_string());
        let line = line.replace("<type3>", &format!("{:#x}", 0x7000_0064 + u32::from(bank)));
        let line = line.replace("<params>", &format!("{:#x}", 8 << 16 | params));
        Some(line.replace("<bank0>", &format!("{:#x}", params + 8)))
    })
}
