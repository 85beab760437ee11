//! Code of kernels of our own, as ptxas 13.0 wrote it for sm_100 and as nvlink 13.0 left it.

use super::*;
use culd_cubin::capmerc;

const LOAD_STACK: u128 = 0x000f_f000_0000_0800_0000_df00_ff01_7b82;
/// The same with barrier 0, and as code without optimization has it.
const LOAD_STACK_LATE: u128 = 0x000e_3000_0000_0800_0000_df00_ff01_7b82;
const LOAD_STACK_PLAIN: u128 = 0x003e_3e00_0000_0800_0000_df00_ff01_7b82;
const STORE: u128 = 0x001f_e200_0c10_1904_0000_0005_0200_7986;
const IDLE: u128 = 0x000f_e200_0000_0800_0000_0000_ffff_f984;
const BLOCK_FIRST: u128 = 0x000f_c000_0000_8000_0000_0000_0000_7992;
const BLOCK: u128 = 0x0001_ec00_0000_0000_0000_0000_0000_7992;
const DEVICE: u128 = 0x000f_ec00_0000_2000_0000_0000_0000_7992;
const SYSTEM: u128 = 0x000f_ec00_0000_3000_0000_0000_0000_7992;
const COPY: u128 = 0x0003_e200_0b9a_1024_0000_0000_0403_7fae;
const ARRIVE: u128 = 0x000e_a200_0810_0026_0000_00ff_ff12_79a7;
const COPY_ARRIVES: u128 = 0x000f_e200_0800_1a06_0000_0000_ff00_79b0;
const CALL: u128 = 0x020f_ea00_03c0_0000_0000_0000_0200_7343;
const EXIT: u128 = 0x000f_ea00_0380_0000_0000_0000_0000_794d;
/// To itself.
const BRANCH: u128 = 0x000f_c000_0383_ffff_ffff_fffc_00fc_7947;
/// `SEL.64` with a number that reaches over the third register.
const SELECT: u128 = 0x040f_e400_0300_0001_ffff_ffff_0628_7407;
const NOP: u128 = 0x000f_c000_0000_0000_0000_0000_0000_7918;

/// `words`, then the end of every function.
fn code(words: &[u128]) -> Vec<u8> {
    let mut all = words.to_vec();
    all.extend([EXIT, BRANCH]);
    all.resize((all.len() + 8).next_multiple_of(8), NOP);
    all.into_iter().flat_map(u128::to_le_bytes).collect()
}

/// What is left of `words`, when the finalizer leaves something out.
fn shortened(words: &[u128]) -> ShortenedCode {
    match finalized(&code(words)) {
        Finalized::Shortened(shortened) => shortened,
        other => panic!("{other:?}"),
    }
}

#[test]
fn barriers_are_allocated_again_where_nobody_waits_for_r1() {
    assert_eq!(finalized(&code(&[LOAD_STACK_LATE, STORE])), Finalized::Barriers);
    // No barrier; no load; without optimization; a call.
    for words in [[LOAD_STACK, STORE], [STORE, STORE], [LOAD_STACK_PLAIN, STORE]] {
        assert_eq!(finalized(&code(&words)), Finalized::Same);
    }
    assert_eq!(finalized(&code(&[LOAD_STACK_LATE, CALL])), Finalized::Same);
    assert_eq!(finalized(&code(&[LOAD_STACK_LATE, IDLE, BLOCK, CALL])), Finalized::Same);
    assert!(calls(&code(&[CALL])) && !calls(&code(&[STORE])));
    assert!(loads_stack_for_nobody(&code(&[LOAD_STACK])));
    assert!(!loads_stack_for_nobody(&code(&[LOAD_STACK_LATE])));
}

#[test]
fn r1_is_read_where_a_register_stands() {
    let reads: [(u128, &str); 8] = [
        (0x0041_e200_0010_0800_0000_0002_0100_7387, "STL [R1], R2"),
        (0x000e_a800_0010_0a00_0000_0800_0108_0983, "@P0 LDL.64 R8, [R1+0x8]"),
        (0x001f_e200_0000_0f00_0000_0001_0002_7202, "MOV R2, R1"),
        (0x000f_e200_078e_0001_0000_00ff_ff00_7224, "IMAD.MOV.U32 R0, RZ, RZ, R1"),
        (0x000f_e200_07ff_e0ff_0000_0000_0119_7210, "IADD3 R25, PT, PT, R1, R0, RZ"),
        (0x000f_ca00_078e_10ff_0000_0001_0003_7211, "LEA R3, R0, R1, 0x2"),
        (0x000f_e400_07ff_e0ff_ffff_ffd8_0101_7810, "IADD3 R1, PT, PT, R1, -0x28, RZ"),
        (0x000f_ca00_078e_0001_0000_0008_0029_7824, "IMAD.U32 R41, R0, 0x8, R1"),
    ];
    for (word, text) in reads {
        assert_eq!(finalized(&code(&[LOAD_STACK_LATE, word])), Finalized::Same, "{text}");
    }
    let does_not: [(u128, &str); 8] = [
        (0x000f_e200_07ff_e0ff_0000_0001_0f0f_7810, "IADD3 R15, PT, PT, R15, 0x1, RZ"),
        (0x000f_ca00_0000_01ff_0000_0001_ff07_7431, "HFMA2 R7, -RZ, RZ, 0, 5.96e-08"),
        (0x002f_da00_03f0_6270_0000_0001_0000_780c, "ISETP.GE.AND P0, PT, R0, 0x1, PT"),
        (SELECT, "SEL.64 R40, R6, -0x1, P6"),
        (0x000f_c800_0fff_e0ff_0000_0001_0404_7890, "UIADD3 UR4, UPT, UPT, UR4, 0x1, URZ"),
        (0x000f_c800_0fff_e001_0000_0001_0104_7290, "UIADD3 UR4, UPT, UPT, UR1, UR1, UR1"),
        (0x001f_f200_0b80_0000_0000_0001_0818_7547, "BRA.U !UP0"),
        (0x000f_e200_078e_00ff_0000_0001_ff0e_7424, "IMAD.MOV.U32 R14, RZ, RZ, 0x1"),
    ];
    for (word, text) in does_not {
        assert_eq!(finalized(&code(&[LOAD_STACK_LATE, word])), Finalized::Barriers, "{text}");
    }
}

#[test]
fn what_only_a_called_function_could_need_is_left_out() {
    let left = |words: &[u128], left: &[u128]| {
        assert_eq!(shortened(words).difference(&code(left)), None, "{words:x?}");
    };
    let stays = |words: &[u128]| assert_eq!(finalized(&code(words)), Finalized::Same, "{words:x?}");
    left(&[LOAD_STACK, IDLE, IDLE, IDLE, IDLE, BLOCK], &[LOAD_STACK, BLOCK]);
    left(&[STORE, BLOCK_FIRST, DEVICE], &[STORE, DEVICE]);
    left(&[STORE, IDLE, IDLE, IDLE, IDLE, BLOCK_FIRST, SYSTEM], &[STORE, SYSTEM]);
    // A fence of a block is no part of one, and neither are loads in front of something else.
    stays(&[STORE, BLOCK, DEVICE]);
    stays(&[STORE, IDLE, IDLE, IDLE, STORE]);
    left(&[BLOCK_FIRST, BLOCK_FIRST, DEVICE], &[BLOCK_FIRST, DEVICE]);
    // Copies need the loads, what is done to a barrier needs the other one.
    left(
        &[IDLE, IDLE, IDLE, COPY, IDLE, BLOCK_FIRST, DEVICE],
        &[IDLE, IDLE, IDLE, COPY, IDLE, DEVICE],
    );
    stays(&[IDLE, IDLE, IDLE, COPY, IDLE, BLOCK]);
    left(&[ARRIVE, IDLE, BLOCK_FIRST, DEVICE], &[ARRIVE, BLOCK_FIRST, DEVICE]);
    stays(&[ARRIVE, BLOCK_FIRST, DEVICE]);
    left(&[COPY_ARRIVES, BLOCK_FIRST, DEVICE], &[COPY_ARRIVES, DEVICE]);
}

#[test]
fn control_bits_count_where_no_barrier_is_allocated() {
    let later = STORE ^ 1 << 105;
    for (words, other, allowed) in [
        ([LOAD_STACK, IDLE, BLOCK, STORE], [LOAD_STACK, BLOCK, later], false),
        ([LOAD_STACK_LATE, IDLE, BLOCK, STORE], [LOAD_STACK, BLOCK, later], true),
        ([LOAD_STACK_LATE, IDLE, BLOCK, STORE], [LOAD_STACK, BLOCK, STORE ^ 1 << 104], false),
        // CUDA 13.5 lets the first one set a barrier.
        ([LOAD_STACK, BLOCK_FIRST ^ 7 << 110, DEVICE, STORE], [LOAD_STACK, DEVICE, later], true),
        ([LOAD_STACK, BLOCK_FIRST, DEVICE, STORE], [LOAD_STACK, DEVICE, later], false),
    ] {
        let difference = shortened(&words).difference(&code(&other));
        assert_eq!(difference.is_none(), allowed, "{difference:?}");
    }
}

/// A branch over so many instructions.
fn branch(instructions: i64) -> u128 {
    number(instruction(BRANCH).with_distance(instructions * 16))
}

fn instruction(word: u128) -> Instruction {
    Instruction::all(&word.to_le_bytes())[0]
}

fn number(instruction: Instruction) -> u128 {
    u128::from_le_bytes(instruction.bytes())
}

#[test]
fn places_move_up_and_nops_fill_the_last_eight() {
    let words = [branch(6), branch(0), IDLE, IDLE, IDLE, IDLE, BLOCK, branch(-8), branch(-3)];
    let left = [branch(2), branch(0), BLOCK, branch(-4), branch(-3)];
    let shortened = shortened(&words);
    assert_eq!(shortened.difference(&code(&left)), None);
    assert_eq!((code(&words).len(), shortened.size()), (0x180, 0x100));
    for (from, to) in [(0, 0), (0x10, 0x10), (0x20, 0x20), (0x30, 0x20), (0x60, 0x20), (0x70, 0x30)]
    {
        assert_eq!(shortened.place(from), to, "{from:#x}");
    }
}

#[test]
fn every_kind_of_branch_moves() {
    assert_eq!(instruction(BRANCH).distance(), Some(-16));
    assert_eq!(instruction(0x000f_e200_0380_0200_0000_09a0_0000_7945).distance(), Some(0x9a0));
    assert_eq!(instruction(STORE).distance(), None);
    for opcode in [0x947, 0x547, 0x949, 0x348, 0x948, 0x945] {
        let word = instruction(BRANCH & !0xfff | opcode);
        for distance in [-0x400, -16, 0, 16, 0x3_fff0] {
            let moved = word.with_distance(distance);
            assert_eq!(moved.distance(), Some(distance), "{opcode:#x}");
            assert_eq!(moved.with_distance(0), word.with_distance(0));
        }
    }
}

#[test]
fn groups_stand_for_what_is_left() {
    let full = [0x01_u8, 0x49, 0x10, 0x0a, 0xf8, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let group = |first: u8, pairs: u8| [&[first, pairs][..], &full].concat();
    let left = |words: &[u128], before: &[Option<&[u8]>], after: &[Option<&[u8]>]| {
        let before = capmerc::encode(before);
        let capsule = shortened(words).capsule(b".nv.capmerc.text.k", &before);
        assert_eq!(capsule, Some(capmerc::encode(after)));
    };
    let (of_five, of_two) = (group(0xd1, 2), group(0x51, 1));
    // Four loads and a fence, of which one instruction is left; EXIT, the branch behind it, and
    // NOPs.
    left(
        &[STORE, IDLE, IDLE, IDLE, IDLE, BLOCK],
        &[None, Some(&of_five), None, None, Some(&[0x50, 4])],
        &[None, Some(&full), None, None, Some(&[0x50, 6])],
    );
    // What is a group of its own stays one.
    left(
        &[STORE, BLOCK_FIRST, DEVICE, DEVICE],
        &[Some(&[0xd0, 0]), Some(&group(0xd1, 1)), None, None, Some(&[0x50, 5])],
        &[Some(&[0xd0, 0]), Some(&of_two), None, None, Some(&[0xd0, 5])],
    );
}
