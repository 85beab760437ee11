//! A program with a kernel of each class: nvlink's output (`nvlink.txt`), and the same with the
//! code of the object (`kept.txt`, with the sections of ptxas's file in their places). Both are in
//! the text form.

use super::*;
use crate::fixtures::asm::assemble;

const NVLINK: &str = include_str!("nvlink.txt");
const KEPT: &str = include_str!("kept.txt");

fn bytes(text: &str) -> Vec<u8> {
    assemble(text).unwrap_or_else(|error| panic!("{error}"))
}

fn compared(theirs: &str, ours: &str) -> Result<Classes, String> {
    compare(&bytes(theirs), &bytes(ours), &LinkObjects::default())
}

/// `text` with `new` for `old`, which occurs once after the first line of the section `section`.
fn edited(text: &str, section: &str, old: &str, new: &str) -> String {
    let at = text.find(&format!("section {section} ")).expect("the section");
    let (head, rest) = text.split_at(at);
    let end =
        rest.get(1..).and_then(|rest| rest.find("\nsection ")).map_or(rest.len(), |end| end + 1);
    let (body, tail) = rest.split_at(end);
    assert!(body.contains(old), "{section}: {body}");
    format!("{head}{}{tail}", body.replacen(old, new, 1))
}

#[test]
fn kept_code_is_what_may_differ() {
    let classes = compared(NVLINK, KEPT).unwrap();
    assert_eq!(classes, Classes { unchanged: 1, control: 1, fences: 1, ..Classes::default() });
    let same = compared(NVLINK, NVLINK).unwrap();
    assert_eq!(same, Classes { unchanged: 3, ..Classes::default() });
}

#[test]
fn control_bits_count_outside_of_leaf_kernels_and_other_bits_everywhere() {
    // Bit 105 is the second lowest of byte 13, bit 121 of byte 15.
    for (section, old, new, same) in [
        (".text.leaf", "7050f00b 00da2f00", "7050f00b 00d82f00", true),
        (".text.leaf", "7050f00b 00da2f00", "7050f00b 00da2f02", true),
        (".text.leaf", "7050f00b 00da2f00", "7050f00b 00db2f00", false),
        (".text.leaf", "7050f00b 00da2f00", "7050f00b 00da2f04", false),
        (".text.leaf", "7050f00b", "7051f00b", false),
        (".text.caller", "00080000 00", "00080000 02", false),
        (".text.f", "00e20f00", "00e00f00", false),
        (".nv.constant0.leaf", "zero", "zero", true),
        (".nv.info.leaf", "MAXREG_COUNT half 0xff", "MAXREG_COUNT half 0xfe", false),
        (".nv.merc.nv.info.leaf", "MAXREG_COUNT half 0xff", "MAXREG_COUNT half 0xfe", false),
        (".nv.capmerc.text.leaf", "010b040a", "010b050a", false),
    ] {
        let ours = edited(KEPT, section, old, new);
        assert_eq!(compared(NVLINK, &ours).is_ok(), same, "{section}: {old} {new}");
    }
}

#[test]
fn of_a_rewritten_kernel_only_counts_may_differ() {
    for (section, old, new, what) in [
        (
            ".nv.info.fenced",
            "SPARSE_MMA_MASK half 0x0",
            "SPARSE_MMA_MASK half 0x1",
            ".nv.info.fenced: ",
        ),
        (".nv.merc.symtab", "global func fenced", "weak func fenced", ".nv.merc.symtab: "),
        (
            ".nv.merc.nv.info.fenced",
            "MAXREG_COUNT half 0xff",
            "MAXREG_COUNT half 0xfe",
            ".nv.merc.nv.info.fenced: ",
        ),
        (".nv.info", "REGCOUNT words fenced 0xa", "REGCOUNT words fenced 0x9", ".nv.info: "),
        (".rela.debug_frame", "R_CUDA_64 fenced", "R_CUDA_32 fenced", ".rela.debug_frame: "),
    ] {
        let error = compared(NVLINK, &edited(KEPT, section, old, new)).unwrap_err();
        assert!(error.starts_with(what), "{error}");
    }
}

#[test]
fn code_around_fences_is_what_the_finalizer_leaves() {
    // An operand of what is left in nvlink's, a control bit of a kernel that allocates nothing, a
    // group, an exit.
    for (section, old, new, what) in [
        (".text.fenced", "02780700 02000000", "02780700 03000000", ".text.fenced+0x40: "),
        (".text.fenced", "0419100c 00e21f00", "0419100c 00e61f00", ".text.fenced+0x50: "),
        (
            ".nv.capmerc.text.fenced",
            "group 5006",
            "group 5007",
            ".text.fenced: other groups in its Mercury code",
        ),
        (".nv.info.fenced", "words 0xb0", "words 0xc0", ".nv.info.fenced: "),
        (".symtab", "fenced in=.text.fenced size=0x180", "fenced in=.text.fenced size=0x190", ""),
    ] {
        let error = compared(&edited(NVLINK, section, old, new), KEPT).unwrap_err();
        assert!(error.starts_with(what), "{error}");
    }
}

#[test]
fn nvlink_drops_the_barrier_of_r1_where_nobody_needs_it() {
    let theirs = edited(NVLINK, ".text.leaf", "00080000 00e20f00", "00080000 00220e00");
    let error = compared(&theirs, KEPT).unwrap_err();
    assert_eq!(error, ".text.leaf: nvlink keeps the barrier of R1, which nobody reads");
}

#[test]
fn code_that_may_differ_is_as_it_was_compiled() {
    let object = [KEPT];
    let compared =
        |ours: &str| compare(&bytes(NVLINK), &bytes(ours), &inputs(&object)).map(|c| c.control);
    assert_eq!(compared(KEPT), Ok(1));
    // Control bits that nvlink's are compared without.
    let ours = edited(KEPT, ".text.leaf", "7050f00b 00da2f00", "7050f00b 00da1f00");
    assert_eq!(compared(&ours), Err(".text.leaf+0x20: not as it was compiled".to_owned()));
    let ours = edited(KEPT, ".text.fenced", "00080000 00e20f00", "00080000 00e60f00");
    assert_eq!(compared(&ours), Err(".text.fenced+0x60: not as it was compiled".to_owned()));
}

#[test]
fn contradictions_are_found() {
    let n = "contradiction: ";
    for (section, old, new, what) in [
        (
            ".nv.info.fenced",
            "words 0x100",
            "words 0x110",
            ".text.fenced: exits at [100], listed are [110]",
        ),
        (
            ".nv.capmerc.text.fenced",
            "group d007",
            "group d006",
            ".text.fenced: 0x200 bytes, its Mercury code is of 30 instructions",
        ),
        (
            ".nv.capmerc.text.fenced",
            "code .text.fenced",
            "code .text.leaf",
            ".text.fenced: no Mercury code",
        ),
        (".symtab", "size=0x200", "size=0x180", ".text.fenced: 0x200 bytes, its symbol has 0x180"),
        (
            ".debug_frame",
            "00020000",
            "80010000",
            ".debug_frame+0x11c: 0x180 bytes of code, there are 0x200",
        ),
    ] {
        let error = compared(NVLINK, &edited(KEPT, section, old, new)).unwrap_err();
        assert!(error.starts_with(n) && error[n.len()..].starts_with(what), "{error}");
    }
}

#[test]
fn what_was_compiled_for_a_debugger_is_rewritten_in_a_link_for_none() {
    let object = edited(
        KEPT,
        ".note.nv.tkinfo",
        "options=\"-arch sm_100 -c  \"",
        "options=\"-g -arch sm_100 -c  \"",
    );
    let with = bytes(&object);
    let without = bytes(KEPT);
    let debug = |objects: &[&Vec<u8>], arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let objects: Vec<Vec<u8>> = objects.iter().map(|&object| object.clone()).collect();
        let debug = LinkObjects::of(&arguments, &objects);
        compare(&bytes(NVLINK), &bytes(KEPT), &debug).unwrap()
    };
    assert_eq!(debug(&[&with], &["-arch=sm_100"]).rewritten, ["fenced", "leaf"]);
    assert!(debug(&[&with], &["-g"]).rewritten.is_empty());
    assert_eq!(debug(&[&with], &["-g", "-suppress-debug-info"]).rewritten, ["fenced", "leaf"]);
    assert_eq!(debug(&[&without], &["-g"]).rewritten, ["caller", "fenced", "leaf"]);
    let names = ["caller", "fenced", "leaf"];
    let other = names.iter().fold(object, |text, name| text.replace(name, &format!("{name}2")));
    assert_eq!(debug(&[&without, &bytes(&other)], &[]).rewritten, names);
}

/// Inputs of a link without options.
fn inputs(objects: &[&str]) -> LinkObjects {
    let objects: Vec<Vec<u8>> = objects.iter().map(|text| bytes(text)).collect();
    LinkObjects::of(&[], &objects)
}

#[test]
fn debug_data_of_copies_may_differ_and_nothing_else() {
    let compared = |section, old, new, objects: &[&str]| {
        let ours = edited(NVLINK, section, old, new);
        compare(&bytes(NVLINK), &bytes(&ours), &inputs(objects))
    };
    // An operation of the frame of `f`, which two objects have, and of `caller`, which one has.
    let other = NVLINK.replace("caller", "taller");
    let objects = [NVLINK, other.as_str()];
    let same = compared(
        ".debug_frame",
        "0c818080\n  0x0060 28000404",
        "0c818080\n  0x0060 28000408",
        &objects,
    );
    assert_eq!(same.unwrap().listed["debug-of-replaced"], 1);
    let error = compared(".debug_frame", "040c0000", "04100000", &objects).unwrap_err();
    assert!(error.starts_with(".debug_frame: 'caller "), "{error}");
    // Its size, and the code itself.
    let error = compared(".debug_frame", "00010000", "80010000", &objects).unwrap_err();
    assert!(error.starts_with(".debug_frame: 'f "), "{error}");
    assert!(compared(".text.f", "00e20f00", "00e00f00", &objects).is_err());
    assert!(compared(".debug_frame", "28000404", "28000408", &[NVLINK]).is_err());
}

/// Only those of kernels with functions inside.
#[test]
fn frames_of_functions_inside_may_differ() {
    let compared = |theirs: &str, ours: &str| {
        compare(&bytes(theirs), &bytes(ours), &inputs(&[theirs])).map(|classes| classes.listed)
    };
    let program =
        include_str!("../../../../../../testdata/cases/whole-program/inner-100/expect.cubin.txt");
    let frame = |text: &str, name: &str| {
        let line = format!("FRAME_SIZE words {name} 0x0");
        edited(text, ".nv.info", &line, &line.replace("0x0", "0x8"))
    };
    for name in ["_Z5firstPi", "$_Z6secondPi$_Z4stepi"] {
        assert_eq!(
            compared(program, &frame(program, name)).unwrap()["frames-of-whole-programs"],
            1
        );
    }
    assert!(compared(program, &frame(program, "_Z5thirdPi")).is_err());
}

#[test]
fn devices_may_differ_where_code_is_dead() {
    let less = edited(NVLINK, ".nv.compat", "FINALIZER words 0x9", "FINALIZER words 0x1");
    let compared = |ours: &str, objects: &[&str]| {
        compare(&bytes(NVLINK), &bytes(ours), &inputs(objects)).map(|classes| classes.listed)
    };
    let dead = less.replace("caller", "taller");
    assert_eq!(compared(&less, &[&dead]).unwrap()["family-of-dead-code"], 1);
    assert_eq!(compared(&less, &[NVLINK, &less]).unwrap()["family-of-dead-code"], 1);
    // All code of the object is in the program, or culd lists more.
    assert!(compared(&less, &[&less]).is_err());
    let more = edited(NVLINK, ".nv.compat", "FINALIZER words 0x9", "FINALIZER words 0xb");
    assert!(compared(&more, &[&dead]).is_err());
}

#[test]
fn of_code_of_a_later_compiler_only_counts_may_differ() {
    let attribute =
        ["SPARSE_MMA_MASK half 0x0", "SPARSE_MMA_MASK half 0x0\n  ATTRIBUTE_6B half 0x1"];
    let later = edited(KEPT, ".nv.info.f", attribute[0], attribute[1]);
    let code = |text: &str| edited(text, ".text.f", "00e20f00", "00e00f00");
    let classes = compared(NVLINK, &code(&later)).unwrap();
    assert_eq!((classes.later, classes.fences), ((1, 1), 1));
    assert!(compared(NVLINK, &code(KEPT)).is_err());
    for (section, old, new) in [
        (".nv.info.f", "SW_WAR words 0x8", "SW_WAR words 0x9"),
        (".nv.info.f", "CUDA_API_VERSION words 0x82", "CUDA_API_VERSION words 0x83"),
        (".nv.merc.symtab", "global func fenced", "weak func fenced"),
    ] {
        assert!(compared(NVLINK, &edited(&later, section, old, new)).is_err(), "{section}: {old}");
    }
}
