//! Code without the instructions that the finalizer leaves out.
//!
//! In: code and the numbers of those instructions. Out: the remaining code, the new places in it,
//! and the Mercury code of the function. Guaranteed: places behind an instruction that is left out
//! move up, all others stay.

use super::instruction::{Instruction, SIZE};
use super::is_plain;
use culd_cubin::capmerc::{Capsule, CapsuleForm};
use std::ops::Range;

/// The number of NOPs at the end of a function's code; its length is a multiple of this many
/// instructions.
const PADDING: usize = 8;
/// The first byte of a group's record has the lowest bit of the number of its instructions; the
/// second one has the rest.
const ODD: u8 = 0x80;

/// The remaining code of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct ShortenedCode {
    code: Vec<Instruction>,
    /// The numbers of the instructions that were left out, ascending.
    left_out: Vec<usize>,
    /// The barriers of the instructions may differ.
    allocated: bool,
}

impl ShortenedCode {
    /// `code` without the instructions `left_out`; `spare`: a barrier was dropped besides.
    pub(super) fn of(code: &[Instruction], left_out: Vec<usize>, spare: bool) -> Self {
        let is_left = |(at, _): &(usize, &Instruction)| left_out.binary_search(at).is_err();
        let (kept, dropped): (Vec<_>, Vec<_>) = code.iter().enumerate().partition(is_left);
        let uses_barriers = || dropped.iter().any(|(_, instruction)| instruction.uses_barriers());
        let allocated = spare || (!is_plain(code) && uses_barriers());
        let mut shortened = ShortenedCode { code: Vec::new(), left_out, allocated };
        let moved = kept.into_iter().map(|(at, &instruction)| shortened.moved(at, instruction));
        shortened.code = moved.collect();
        shortened.pad();
        shortened
    }

    /// The instruction with the old number `at`, at its new place.
    fn moved(&self, at: usize, instruction: Instruction) -> Instruction {
        let Some(distance) = instruction.distance() else { return instruction };
        let next = (at as u64 + 1) * SIZE;
        let target = next.wrapping_add_signed(distance);
        // The place behind an instruction that stays, not the place of the next one that stays.
        let from = self.place(at as u64 * SIZE) + SIZE;
        instruction.with_distance(self.place(target) as i64 - from as i64)
    }

    fn pad(&mut self) {
        let Some(&nop) = self.code.last().filter(|last| last.is_nop()) else { return };
        let used = self.code.iter().rposition(|instruction| !instruction.is_nop());
        let used = used.map_or(0, |last| last + 1);
        self.code.resize((used + PADDING).next_multiple_of(PADDING), nop);
        self.code.iter_mut().skip(used).for_each(|word| *word = nop);
    }

    /// Bytes of the code.
    pub(in super::super) fn size(&self) -> u64 {
        self.code.len() as u64 * SIZE
    }

    /// The new place of the byte at `place`; for an instruction that was left out, the place of the
    /// code after it.
    pub(in super::super) fn place(&self, place: u64) -> u64 {
        let in_front = |&&at: &&usize| (at as u64) < place.div_ceil(SIZE);
        place - self.left_out.iter().filter(in_front).count() as u64 * SIZE
    }

    /// Where `theirs` is other code.
    pub(in super::super) fn difference(&self, theirs: &[u8]) -> Option<String> {
        if self.size() != theirs.len() as u64 {
            let (own, their) = (self.size(), theirs.len());
            return Some(format!(": {own:#x} bytes are left instead of {their:#x}"));
        }
        let pairs = self.code.iter().zip(Instruction::all(theirs)).enumerate();
        let differ = |(_, (own, theirs)): &(usize, (&Instruction, Instruction))| {
            **own != *theirs
                && !(self.allocated && own.without_control() == theirs.without_control())
        };
        let (at, (own, theirs)) = pairs.into_iter().find(differ)?;
        let (own, theirs) = (own.bytes(), theirs.bytes());
        Some(format!("+{:#x}: {own:02x?} instead of {theirs:02x?}", at as u64 * SIZE))
    }

    /// The Mercury code `data` of the function in `section`, for the remaining instructions: a
    /// group of one instruction keeps only its record.
    pub(in super::super) fn capsule(&self, section: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let capsule = Capsule::parse(section, data).ok()?;
        let all = capsule.instructions();
        let mut bytes = data.get(..capsule.records().next()?.bytes.start)?.to_vec();
        for record in capsule.records() {
            let own = data.get(record.bytes.clone())?;
            let Range { start, end } = record.instructions;
            let place = |at: u64| if at == all { self.size() } else { self.place(at * SIZE) };
            let count = (place(end) - place(start)) / SIZE;
            match (record.kind, own) {
                (CapsuleForm::Group, [_, _, left @ ..]) if count == 1 && end - start > 1 => {
                    bytes.extend(left);
                }
                (CapsuleForm::Group, [first, _, records @ ..]) => {
                    let odd = if count.is_multiple_of(2) { 0 } else { ODD };
                    bytes.extend([first & !ODD | odd, u8::try_from(count / 2).ok()?]);
                    bytes.extend(records);
                }
                _ => bytes.extend(own),
            }
        }
        Some(bytes)
    }
}
