//! The interfaces in compiled files, and in damaged ones.

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use culd_inspect::abi::describe;
use culd_inspect::view::View;

fn described(name: &str) -> String {
    let data = common::data(name);
    describe(&View::parse(&data).unwrap())
}

#[test]
fn interfaces_are_listed() {
    let text = described("main.90.cubin");
    let begin = "\
kernels
  kernel: 0x8 bytes of parameters at c[0][0x210]
    0: offset 0x0, 0x8 bytes
prototypes
  twice: (.b32) (.b32) (#ii), its address is taken
  vprintf: (.b32) (.b64, .b64) (#ill), registers 12p4r";
    assert!(text.starts_with(begin), "{text}");
    let end = "
indirect calls
  kernel: (.b32) (.b32) (#ii)
system calls
  vprintf: .extern .func (.param .s32 status) vprintf (.param .b64 format, .param .b64 valist), of printf in stdio.h
";
    assert!(text.ends_with(end), "{text}");
    assert!(described("linked.100.cubin").contains("parameters at c[0][0x380]"));
}

#[test]
fn address_classes_have_names() {
    let text = described("classes.90.cubin");
    let (_, classes) = text.split_once("address classes\n").unwrap();
    // Offsets aside.
    let lines: Vec<&str> = classes.lines().map(|line| &line[13..]).collect();
    assert_eq!(
        lines,
        [
            "DW_TAG_variable sh: 8 ADDR_shared_space, Shared storage",
            "DW_TAG_variable cc: 4 ADDR_const_space, Constant storage",
            "DW_TAG_variable gg: 5 ADDR_global_space, Global storage",
            "DW_TAG_formal_parameter x: 2 ADDR_reg_space, Register storage",
            "DW_TAG_formal_parameter p: 2 ADDR_reg_space, Register storage",
            "DW_TAG_variable local: 6 ADDR_local_space, Local storage",
            "DW_TAG_variable inner: 8 ADDR_shared_space, Shared storage",
            "DW_TAG_formal_parameter out: 7 ADDR_param_space, Parameter storage",
            "DW_TAG_formal_parameter n: 7 ADDR_param_space, Parameter storage",
            "DW_TAG_variable q: 2 ADDR_reg_space, Register storage",
            "DW_TAG_pointer_type: 12 ADDR_generic_space, Generic-address storage",
            "DW_TAG_pointer_type: 12 ADDR_generic_space, Generic-address storage",
        ]
    );
}

/// Every byte of the records that are read, changed in three ways: a text or an error, no panic.
#[test]
fn damage_is_no_trouble() {
    let good = common::data("classes.90.cubin");
    let ranges: Vec<std::ops::Range<usize>> = {
        let view = View::parse(&good).unwrap();
        let read = |name: &[u8]| {
            [&b".debug_info"[..], b".debug_abbrev", b".nv.callgraph", b".nv.prototype"]
                .contains(&name)
                || name.starts_with(b".nv.info")
        };
        let sections = view.cubin.sections.iter().filter(|section| read(section.name));
        let start = |data: &[u8]| data.as_ptr() as usize - good.as_ptr() as usize;
        sections.map(|one| start(one.data)..start(one.data) + one.data.len()).collect()
    };
    let mut changed = 0;
    for at in ranges.into_iter().flatten() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            if let Ok(view) = View::parse(&bad) {
                describe(&view);
                changed += 1;
            }
        }
    }
    assert!(changed > 1000, "{changed}");
}
