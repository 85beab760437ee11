//! Predicts the output of nvlink's finalizer for the code of a kernel.
//!
//! In: ptxas's code after relocation. Out: [`Finalized`], by the first line that applies:
//!
//! | code | what the finalizer does |
//! |---|---|
//! | calls anything | nothing |
//! | has words around fences that are left out | closes up what is left, and allocates barriers again |
//! | is optimized, starts with the load of the stack's end into R1, which sets a barrier, and never reads R1 | drops that barrier, and allocates barriers again |
//! | all other | nothing |
//!
//! In front of each fence (MEMBAR), ptxas puts instructions that only some programs need, because
//! it does not know what called functions do. The finalizer leaves out
//!
//! * loads that never happen (`@!PT LDS RZ, [RZ]`) directly in front of a fence, unless the code
//!   has an asynchronous copy (LDGSTS; case mercury/fences, `copies_and_fences`);
//! * `MEMBAR.ALL.CTA` directly in front of a fence of the device or the system, unless the code
//!   does something to a barrier in shared memory (SYNCS; `barriers_and_fences`).
//!
//! Later code moves up, and distances in instructions change with it. NOPs fill the code up to a
//! multiple of eight instructions; there are at least eight.
//!
//! The allocation of barriers is not known in all cases, so control bits are compared only where
//! none are allocated.

mod instruction;
mod shortened;
#[cfg(test)]
mod tests;

pub(super) use shortened::ShortenedCode;

use instruction::Instruction;

/// Bytes of an instruction.
pub(super) const INSTRUCTION: usize = instruction::SIZE as usize;

/// The finalizer's output for some code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finalized {
    Same,
    /// The same instructions with other barriers.
    Barriers,
    /// Fewer instructions.
    Shortened(ShortenedCode),
}

/// The finalizer's output for `code`.
pub(super) fn finalized(code: &[u8]) -> Finalized {
    let code = Instruction::all(code);
    let spare = has_spare_barrier(&code);
    let left_out = left_out(&code);
    match () {
        () if code.iter().any(|instruction| instruction.is_call()) => Finalized::Same,
        () if !left_out.is_empty() => {
            Finalized::Shortened(ShortenedCode::of(&code, left_out, spare))
        }
        () if spare => Finalized::Barriers,
        () => Finalized::Same,
    }
}

/// True for code with an early end or a jump in front of its end. The finalizer of CUDA 12 keeps
/// barriers of such code that nobody waits for (cases mercury/kept-code and
/// literals/jumps-without-table by 12.9).
pub(super) fn branches(code: &[u8]) -> bool {
    let code = Instruction::all(code);
    let first = code.iter().find(|instruction| instruction.is_end_or_jump());
    first.is_some_and(|first| !first.is_end_of_all())
}

/// True for instructions that differ only in their operands.
pub(super) fn same_operation(one: &[u8], other: &[u8]) -> bool {
    let all = |code| Instruction::all(code).into_iter().map(Instruction::without_operands);
    all(one).eq(all(other))
}

/// True for code that calls a function.
pub(super) fn calls(code: &[u8]) -> bool {
    Instruction::all(code).iter().any(|instruction| instruction.is_call())
}

/// True if R1 is loaded with a barrier, and nothing needs it.
fn has_spare_barrier(code: &[Instruction]) -> bool {
    code.first().is_some_and(|first| first.loads_stack() && first.result_has_barrier())
        && !is_plain(code)
        && !code.iter().any(|instruction| instruction.reads_r1())
}

/// True for code without optimization. There each instruction, even the first, waits for all
/// barriers, and none is allocated.
fn is_plain(code: &[Instruction]) -> bool {
    code.first().is_some_and(|first| first.waits())
}

/// True when the first instruction of `code` is the load of the stack's end, without a barrier.
pub(super) fn loads_stack_for_nobody(code: &[u8]) -> bool {
    Instruction::all(code)
        .first()
        .is_some_and(|first| first.loads_stack() && !first.result_has_barrier())
}

/// The numbers of the instructions that are left out, ascending.
fn left_out(code: &[Instruction]) -> Vec<usize> {
    let copies = code.iter().any(|instruction| instruction.is_asynchronous_copy());
    let barriers = code.iter().any(|instruction| instruction.is_on_barrier());
    let mut left_out = Vec::new();
    for (at, fence) in code.iter().enumerate().filter(|(_, instruction)| instruction.is_fence()) {
        let before = code.get(..at).unwrap_or_default();
        if !copies {
            let loads = before.iter().rev().take_while(|word| word.is_idle_load()).count();
            left_out.extend(at - loads..at);
        }
        let doubled = || before.last().is_some_and(|word| word.is_fence_of_block());
        if !barriers && fence.is_wide_fence() && doubled() {
            left_out.push(at - 1);
        }
    }
    left_out
}
