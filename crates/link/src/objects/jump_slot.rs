//! A jump slot of an input with Mercury.
//!
//! In: the two halves of a slot. Out: [`SlotCode`], padded like nvlink's. Guaranteed by
//! [`find_odd`]: a slot that gets into the table of a program is six instructions and padding.

use std::borrow::Cow;

use culd_cubin::capmerc::{self, Capsule, CapsuleForm, CapsuleRecord};
use culd_cubin::unified::SLOT;
use culd_cubin::{Cubin, Malformed, RelocEntry, Section, SectionIndex, Symbol, text_of};

use super::counterparts::Counterparts;
use super::roles::SectionRole;
use crate::base::half::{BothHalves, HalfBytes};
use crate::diag::Message;

/// Instructions of a slot.
pub(crate) const INSTRUCTIONS: usize = (SLOT / capmerc::INSTRUCTION) as usize;

/// Instructions of a slot that are not padding.
pub(crate) const OWN_INSTRUCTIONS: usize = 6;

/// The first bytes of the Mercury record of a slot's jump.
const JUMP_RECORD: [u8; 2] = [0x42, 0x0a];

/// Offset of that record in the Mercury code of a slot.
pub(crate) const JUMP: u64 = 0x18;

/// A group of two instructions without records: the padding of a slot.
pub(crate) const PADDING: [u8; 2] = [0x50, 1];

/// The instruction that fills up a slot: it does nothing, and nvlink's finalizer puts it into code
/// without `-g`.
const FILLER: [u8; 16] = [0x18, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe2, 0x0f, 0];

/// One slot as it goes into the output.
pub(crate) struct SlotCode<'d> {
    /// Machine code.
    pub(crate) sass: Cow<'d, [u8]>,
    /// Mercury code; empty if the file has none.
    pub(crate) mercury: Cow<'d, [u8]>,
    /// The records of the Mercury code.
    pub(crate) records: Vec<CapsuleRecord>,
}

impl<'d> SlotCode<'d> {
    /// Reads a slot that has `expanded` bytes before compression. A slot with less than [`SLOT`] is
    /// filled up in front of its padding, which is longer by as much (cases unified/frames and
    /// unified/relocatable by CUDA 13.1). Errors: damaged Mercury code, in the section `name`.
    fn read(name: &[u8], bytes: HalfBytes<'d>, expanded: u64) -> Result<Self, Malformed> {
        let HalfBytes { sass, mercury } = bytes;
        if mercury.is_empty() {
            return Ok(SlotCode {
                sass: sass.into(),
                mercury: mercury.into(),
                records: Vec::new(),
            });
        }
        let records: Vec<CapsuleRecord> = Capsule::parse(name, mercury)?.records().collect();
        match fill(bytes, &records, expanded) {
            None => Ok(SlotCode { sass: sass.into(), mercury: mercury.into(), records }),
            Some(BothHalves { sass, mercury }) => {
                let records = Capsule::parse(name, &mercury)?.records().collect();
                Ok(SlotCode { sass: sass.into(), mercury: mercury.into(), records })
            }
        }
    }

    /// Reads a slot that phase `objects` has read before.
    pub(crate) fn read_again(halves: HalfBytes<'d>, expanded: u64) -> Self {
        SlotCode::read(b"", halves, expanded).expect("phase `objects` has read it")
    }

    /// The bytes of a record.
    pub(crate) fn bytes(&self, record: &CapsuleRecord) -> Option<&[u8]> {
        self.mercury.get(record.bytes.clone())
    }

    /// The bytes of the padding's record, and the records in front of it.
    fn split(&self) -> Option<(&[u8], &[CapsuleRecord])> {
        let (padding, front) = self.records.split_last()?;
        Some((self.bytes(padding)?, front))
    }

    /// The reason why the slot does not have the form that `layout::jump_slots::table` writes, if
    /// it has another. `halves` are its sections, each with the offset of the jump's relocation.
    fn defect(
        &self,
        file: &str,
        cubin: &Cubin<'_>,
        halves: [(SectionIndex, &Section<'_>, u64); 2],
    ) -> Option<Message> {
        let [(_, slot, _), (_, mercury, _)] = halves;
        if self.has_frame() {
            let section = text_of(slot.name);
            let reason = format!(
                "section '{section}' is a jump slot with a frame, which the table of slots has no form for"
            );
            return Some(Message::unsupported(file, reason));
        }
        if !self.has_form() {
            let what = "Mercury code of a jump slot that is not six instructions and padding";
            return Some(Message::malformed(file, Malformed::section(mercury.name, 0, what)));
        }
        let (_, section, place) =
            halves.into_iter().find(|&(target, _, place)| !has_jump(cubin, target, place))?;
        let what = format!("a jump slot without its one relocation, at {place:#x}");
        Some(Message::malformed(file, Malformed::section(section.name, place, what)))
    }

    /// True for six records of one instruction each, and the padding.
    pub(crate) fn has_form(&self) -> bool {
        let plain = |record: &CapsuleRecord| {
            matches!(record.kind, CapsuleForm::Elided | CapsuleForm::Short)
        };
        self.split().is_some_and(|(padding, front)| {
            front.len() == OWN_INSTRUCTIONS && front.iter().all(plain) && padding == PADDING
        })
    }

    /// True for the slot of a function with parameters on the stack. The frame is in front of the
    /// jump: one instruction, or three if a parameter is aligned to 16 bytes. The padding is
    /// shorter by as much. nvlink removes the padding of all slots but the last, so that the others
    /// are not where their entries say. It puts the relocation on the frame, or does not end
    /// (docs/DIFFERENCES.md, slots-with-frames).
    pub(crate) fn has_frame(&self) -> bool {
        let Some((padding, front)) = self.split() else { return false };
        // sm_120 since 13.3 has a record for the code that makes the frame, too.
        let is_jump = |record: &CapsuleRecord| {
            self.bytes(record).is_some_and(|b| b.starts_with(&JUMP_RECORD))
        };
        padding_of(padding).is_some_and(|padding| front.len() + padding == INSTRUCTIONS)
            && front.iter().position(is_jump).is_some_and(|jump| jump > 0)
            && front
                .iter()
                .all(|record| matches!(record.kind, CapsuleForm::Elided | CapsuleForm::Short))
    }
}

/// Both halves of a slot with the missing instructions; `None` if none is missing, or if the
/// padding has no room.
fn fill(
    HalfBytes { sass, mercury }: HalfBytes<'_>,
    records: &[CapsuleRecord],
    expanded: u64,
) -> Option<BothHalves<Vec<u8>>> {
    let missing = (SLOT.checked_sub(expanded)? / capmerc::INSTRUCTION) as usize;
    let (padding, front) = records.split_last()?;
    let there = padding_of(mercury.get(padding.bytes.clone())?)?;
    if missing == 0 || there <= missing || front.len() + there != INSTRUCTIONS {
        return None;
    }
    let padding = padding_bytes(there - missing);
    let records =
        front.iter().map(|record| mercury.get(record.bytes.clone()).filter(|b| !b.is_empty()));
    let entries: Vec<Option<&[u8]>> =
        records.chain(std::iter::repeat_n(None, missing)).chain([Some(&padding[..])]).collect();
    let (start, padding) = sass.split_at_checked(front.len() * capmerc::INSTRUCTION as usize)?;
    let padding = padding.get(..(there - missing) * capmerc::INSTRUCTION as usize)?;
    let sass = [start, &FILLER.repeat(missing), padding].concat();
    Some(BothHalves { sass, mercury: capmerc::encode(&entries) })
}

/// The number of padding instructions that a record stands for; `None` for any other record.
fn padding_of(record: &[u8]) -> Option<usize> {
    let value = u16::from_le_bytes(record.try_into().ok()?);
    (value & 0x7f == 0x50).then_some(usize::from(value >> 7))
}

/// The record for `count` instructions of padding, at most those of a slot.
pub(crate) fn padding_bytes(count: usize) -> [u8; 2] {
    ((count as u16) << 7 | 0x50).to_le_bytes()
}

/// Why the first odd slot of an object does not have the form that `layout::jump_slots::table`
/// writes. Errors: damaged Mercury code of any slot.
pub(super) fn find_odd(
    file: &str,
    cubin: &Cubin<'_>,
    roles: &[SectionRole],
    counterparts: &Counterparts,
) -> Result<Option<Message>, Malformed> {
    let mut first = None;
    for ((index, slot), _) in
        cubin.section_indices().zip(roles).filter(|(_, role)| **role == SectionRole::JumpSlot)
    {
        let Some(capsule) = counterparts.of(index) else { continue };
        let Some(mercury) = cubin.section(capsule) else { continue };
        let is_own =
            |symbol: &&Symbol<'_>| symbol.defined_in() == Some(capsule) && symbol.is_function();
        let size = cubin.mercury_symbols.iter().find(is_own).map_or(SLOT, |symbol| symbol.size);
        let bytes = HalfBytes { sass: slot.data, mercury: mercury.data };
        // Slots behind an odd one are read, too: an object that is linked again keeps them all.
        let read = SlotCode::read(mercury.name, bytes, size)?;
        first = first
            .or_else(|| read.defect(file, cubin, [(index, slot, 0), (capsule, mercury, JUMP)]));
    }
    Ok(first)
}

/// True for a slot with one relocation, which is at `place` and names a function.
fn has_jump(cubin: &Cubin<'_>, target: SectionIndex, place: u64) -> bool {
    let tables = cubin.sections.iter().filter(|section| section.info_section() == Some(target));
    let all: Vec<RelocEntry> =
        tables.flat_map(|table| table.relocations().iter().collect::<Vec<_>>()).collect();
    let [record] = all[..] else { return false };
    record.offset == place && cubin.symbol(record.symbol).is_some_and(Symbol::is_function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::half::HalfBytes;

    /// Slots of ptxas by their records. The frame of three instructions is that of 13.1 and later.
    #[test]
    fn slots_with_frames_are_distinguished() {
        const JUMP: Option<&[u8]> = Some(&[0x42, 0x0a, 2, 0x0e]);
        let form = |entries: &[Option<&[u8]>]| {
            let code = capmerc::encode(entries);
            let slot = SlotCode::read_again(HalfBytes { sass: &[], mercury: &code }, SLOT);
            (slot.has_form(), slot.has_frame())
        };
        let padding = |count| padding_bytes(count);
        assert_eq!(form(&[JUMP, None, None, None, None, None, Some(&padding(2))]), (true, false));
        assert_eq!(form(&[None, JUMP, None, None, None, Some(&padding(3))]), (false, true));
        assert_eq!(form(&[None, None, None, JUMP, None, Some(&padding(3))]), (false, true));
        const ADD: Option<&[u8]> = Some(&[0x42, 0x0c, 0x42, 6]);
        assert_eq!(form(&[ADD, JUMP, None, Some(&padding(5))]), (false, true));
        const OTHER: Option<&[u8]> = Some(&[0x42, 0x33, 0, 0x0e]);
        assert_eq!(form(&[JUMP, OTHER, None, None, None, None, Some(&padding(2))]), (true, false));
        // No jump, and one instruction too few.
        assert_eq!(form(&[None, None, None, None, None, Some(&padding(3))]), (false, false));
        assert_eq!(form(&[None, JUMP, None, None, Some(&padding(3))]), (false, false));
    }
}
