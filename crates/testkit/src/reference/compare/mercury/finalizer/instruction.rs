//! The fields of an instruction that the rules of the finalizer need.
//!
//! In: the 16 bytes of an instruction of sm_100 or later. Out: its operation, its barriers, the
//! place it names, whether it reads R1. Guaranteed: nothing else is decoded. Registers have fixed
//! bits. Which operations have other fields there comes from a disassembly of 870 objects of our
//! own, sm_100 and sm_120.

use std::ops::Range;

/// Bytes of an instruction.
pub(super) const SIZE: u64 = 16;

/// The operation, and its parts: the row, and the form of its operands.
const OPCODE: Range<u32> = 0..12;
/// The predicate under which it runs, and the number of the one that is always true.
const GUARD: Range<u32> = 12..16;
const ALWAYS: u64 = 7;
const OPERATION: Range<u32> = 0..9;
const FORM: Range<u32> = 9..12;
/// The barrier that the result sets, the one that the operands set, and those that the instruction
/// waits for.
const RESULT_BARRIER: Range<u32> = 110..113;
const OPERAND_BARRIER: Range<u32> = 113..116;
const WAITED: Range<u32> = 116..122;
/// The number of no barrier.
const NO_BARRIER: u64 = 7;
/// The bits that say when an instruction may start: stall, yield, and the three fields above.
const CONTROL: Range<u32> = 105..122;
/// Where registers that are read stand.
const FIRST: Range<u32> = 24..32;
const SECOND: Range<u32> = 32..40;
const THIRD: Range<u32> = 64..72;
/// The rows of operations on uniform registers, and the first row of operations on memory.
const UNIFORM: Range<u64> = 0x80..0xc0;
const MEMORY: u64 = 0x180;
/// The forms in which the second operand is a register.
const SECOND_IS_REGISTER: [u64; 2] = [1, 3];
/// `SEL.64` with a number of 64 bits, which covers the bits of the third register.
const SELECT_NUMBER: u64 = 0x407;
/// The scope of a fence: [`SYSTEM_OR_DEVICE`] and more is wider than a block. And the bit of the
/// kind of fence that ptxas puts in front of a wider one.
const SCOPE: Range<u32> = 76..79;
const SCOPE_AND_KIND: Range<u32> = 76..80;
const SYSTEM_OR_DEVICE: u64 = 2;
const ALL_IN_BLOCK: u64 = 8;
/// `LDC R1, c[0][0x37c]` without its control bits: the first instruction of a kernel, which reads
/// the stack's end.
const LOAD_STACK: u128 = 0x0800_0000_df00_ff01_7b82;
/// The low bits of a load from shared memory that never happens, `@!PT LDS RZ, [RZ]`.
const IDLE_LOAD: u64 = 0xffff_f984;
/// The unit of distances in instructions, in bytes.
const UNIT: i64 = 4;

/// The operations of SYNCS: arrive and query, end, begin.
const SYNCS: [u64; 3] = [0x1a7, 0x1b1, 0x1b2];

/// The opcodes of instructions with a name here.
mod opcode {
    pub(super) const MEMBAR: u64 = 0x992;
    pub(super) const LDGSTS: u64 = 0xfae;
    pub(super) const NOP: u64 = 0x918;
    pub(super) const BRANCH: u64 = 0x947;
    pub(super) const BRANCH_INDEXED: u64 = 0x949;
    pub(super) const EXIT: u64 = 0x94d;
    /// BRA.U: a uniform predicate stands where others have their first register.
    pub(super) const BRANCH_UNIFORM: u64 = 0x547;
    /// Calls of a function, through a register, and within a section.
    pub(super) const CALLS: [u64; 3] = [0x943, 0x343, 0x944];
}

/// The bits of a distance, from the lowest on.
const LONG: &[Range<u32>] = &[16..24, 34..82];
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges like LONG, of one range")]
const SHORT: &[Range<u32>] = &[34..64];
/// Instructions with the distance of a place from the next instruction.
const RELATIVE: [(u64, &[Range<u32>]); 6] = [
    (opcode::BRANCH, LONG), // BRA, BRA.DIV
    (opcode::BRANCH_UNIFORM, LONG),
    (opcode::BRANCH_INDEXED, LONG), // BRX, whose table counts from the start of the function
    (0x348, LONG),                  // WARPSYNC.COLLECTIVE
    (0x948, LONG),                  // WARPSYNC.COLLECTIVE.ALL
    (0x945, SHORT),                 // BSSY
];

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction(u128);

impl Instruction {
    /// The instructions of `code`.
    pub(super) fn all(code: &[u8]) -> Vec<Self> {
        let (words, _) = code.as_chunks::<{ SIZE as usize }>();
        words.iter().map(|word| Instruction(u128::from_le_bytes(*word))).collect()
    }

    pub(super) fn bytes(self) -> [u8; SIZE as usize] {
        self.0.to_le_bytes()
    }

    /// The same without the bits that say when it may start.
    pub(super) fn without_control(self) -> Self {
        self.with(CONTROL, 0)
    }

    /// The operation and when it may start.
    pub(super) fn without_operands(self) -> Self {
        let (opcode, control) = (self.get(OPCODE), self.get(CONTROL));
        Instruction(0).with(OPCODE, opcode).with(CONTROL, control)
    }

    pub(super) fn is_call(self) -> bool {
        opcode::CALLS.contains(&self.get(OPCODE))
    }

    /// True for the end of a thread, whatever guards it, and for a jump.
    pub(super) fn is_end_or_jump(self) -> bool {
        [opcode::EXIT, opcode::BRANCH, opcode::BRANCH_INDEXED].contains(&self.get(OPCODE))
    }

    /// True for an end of all threads that get there.
    pub(super) fn is_end_of_all(self) -> bool {
        self.get(OPCODE) == opcode::EXIT && self.get(GUARD) == ALWAYS
    }

    pub(super) fn is_nop(self) -> bool {
        self.get(OPCODE) == opcode::NOP
    }

    pub(super) fn is_fence(self) -> bool {
        self.get(OPCODE) == opcode::MEMBAR
    }

    /// True for a fence of more than a block.
    pub(super) fn is_wide_fence(self) -> bool {
        self.is_fence() && self.get(SCOPE) >= SYSTEM_OR_DEVICE
    }

    /// `MEMBAR.ALL.CTA`.
    pub(super) fn is_fence_of_block(self) -> bool {
        self.is_fence() && self.get(SCOPE_AND_KIND) == ALL_IN_BLOCK
    }

    pub(super) fn is_idle_load(self) -> bool {
        self.get(0..32) == IDLE_LOAD
    }

    /// True for an asynchronous copy from global to shared memory.
    pub(super) fn is_asynchronous_copy(self) -> bool {
        self.get(OPCODE) == opcode::LDGSTS
    }

    /// True for operations on a barrier in shared memory (`mbarrier`), except the arrival of such
    /// copies.
    pub(super) fn is_on_barrier(self) -> bool {
        SYNCS.contains(&self.get(OPERATION))
    }

    pub(super) fn loads_stack(self) -> bool {
        self.without_control().0 == LOAD_STACK
    }

    /// True when its result sets a barrier.
    pub(super) fn result_has_barrier(self) -> bool {
        self.get(RESULT_BARRIER) != NO_BARRIER
    }

    /// True when it waits for a barrier.
    pub(super) fn waits(self) -> bool {
        self.get(WAITED) != 0
    }

    /// True when it sets a barrier or waits for one.
    pub(super) fn uses_barriers(self) -> bool {
        self.result_has_barrier() || self.get(OPERAND_BARRIER) != NO_BARRIER || self.waits()
    }

    /// True when it may read R1.
    pub(super) fn reads_r1(self) -> bool {
        let (operation, form) = (self.get(OPERATION), self.get(FORM));
        if UNIFORM.contains(&operation) || self.get(OPCODE) == opcode::BRANCH_UNIFORM {
            return false;
        }
        let second = SECOND_IS_REGISTER.contains(&form) || operation >= MEMORY;
        let third = self.get(OPCODE) != SELECT_NUMBER;
        self.get(FIRST) == 1 || (second && self.get(SECOND) == 1) || (third && self.get(THIRD) == 1)
    }

    /// The distance of the place in it from the next instruction, in bytes.
    pub(super) fn distance(self) -> Option<i64> {
        let (mut value, mut width) = (0, 0);
        for field in self.fields()? {
            value |= self.get(field.clone()) << width;
            width += field.len() as u32;
        }
        let unused = u64::BITS - width;
        Some(((value << unused) as i64 >> unused) * UNIT)
    }

    /// The same instruction with another distance, in bytes.
    pub(super) fn with_distance(self, distance: i64) -> Self {
        let mut value = (distance / UNIT) as u64;
        self.fields().unwrap_or_default().iter().fold(self, |instruction, field| {
            let part = instruction.with(field.clone(), value);
            value >>= field.len();
            part
        })
    }

    fn fields(self) -> Option<&'static [Range<u32>]> {
        let opcode = self.get(OPCODE);
        RELATIVE.iter().find(|(own, _)| *own == opcode).map(|(_, fields)| *fields)
    }

    fn get(self, bits: Range<u32>) -> u64 {
        (self.0 >> bits.start) as u64 & mask(&bits)
    }

    fn with(self, bits: Range<u32>, value: u64) -> Self {
        let rest = self.0 & !(u128::from(mask(&bits)) << bits.start);
        Instruction(rest | u128::from(value & mask(&bits)) << bits.start)
    }
}

/// Ones for all of `bits`, fewer than 64.
fn mask(bits: &Range<u32>) -> u64 {
    (1 << bits.len()) - 1
}
