//! Files that contradict themselves are refused with the place of the contradiction.

use culd_inspect::text;
use culd_inspect::view::View;
use culd_testkit::fixtures::asm;

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

#[test]
fn contradictions_are_refused_with_their_place() {
    let original = common::data("linked.90.cubin");
    let text = text::dump(&View::parse(&original).unwrap(), &text::DumpOptions::default());
    let cases = [
        (
            "  0x00c0 R_CUDA_ABS55_16_34 twice\n",
            "  0x0580 R_CUDA_ABS55_16_34 twice\n",
            "section '.rela.text.kernel', offset 0x30: relocation at 0x580 is past the end",
        ),
        (
            "  0x00c0 R_CUDA_ABS55_16_34 twice\n",
            "  0x00c0 R_CUDA_ABS55_16_34 #27\n",
            "section '.rela.text.kernel', offset 0x30: relocation names symbol 27",
        ),
        (
            "section .nv.callgraph nv_callgraph align=4\n",
            "section .nv.callgraph nv_callgraph align=3\n",
            "section '.nv.callgraph', offset 0x0: alignment 0x3",
        ),
        (
            "section .nv.info.helper nv_info flags=info align=4 info=.text.helper\n",
            "section .nv.info.helper nv_info flags=info align=4 info=#99\n",
            "section '.nv.info.helper', offset 0x0: sh_info names section 99",
        ),
        (
            "global func vprintf\n",
            "global func vprintf in=#99\n",
            "section '.symtab', offset 0x1e0: symbol 20 is in section 99",
        ),
        (
            "section .nv.constant3 progbits flags=alloc align=4\n",
            "section .nv.constant3 progbits flags=alloc align=4 offset=0x7c0\n",
            "offset 0x7c0: section '.nv.constant3' overlaps section '.debug_frame'",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let text = text.replace(from, to);
        let bytes = asm::assemble(&text).unwrap_or_else(|error| panic!("{to}: {error}"));
        let Err(error) = View::parse(&bytes) else { panic!("accepted: {to}") };
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn only_a_mercury_section_may_be_the_bytes_of_another() {
    let original = common::data("linked.100.cubin");
    let text = text::dump(&View::parse(&original).unwrap(), &text::DumpOptions::default());
    let twin = "section .nv.merc.nv.global.init nv_global_init flags=write+alloc+mercury align=8 \
                twin=.nv.global.init\n";
    assert_eq!(text.matches(twin).count(), 1);
    let plain = text.replace(twin, &twin.replace("+mercury", ""));
    let bytes = asm::assemble(&plain).unwrap();
    let error = View::parse(&bytes).unwrap_err().to_string();
    assert!(error.contains("overlaps section"), "{error}");
}
