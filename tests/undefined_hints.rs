//! Hints about undefined names, on recorded objects.

use culd_driver::hints::{UnlinkedCode, UnlinkedReason, holds, undefined};
use culd_testkit::fixtures::case;
use std::cell::Cell;

/// The bytes of an object that defines `_Z4stepj`, `reduce_sun` and the local `_Z4hidev`.
fn object() -> Vec<u8> {
    let inputs = case::named("explained/undefined").and_then(|case| case.inputs());
    inputs.expect("a recorded case").pop().expect("its last input").1
}

fn part<'a>(file: &str, why: UnlinkedReason, bytes: Option<&'a [u8]>) -> UnlinkedCode<'a> {
    let cubin = bytes.map(|bytes| Box::new(move || Some(bytes.to_vec())) as _);
    UnlinkedCode { file: file.to_owned(), why, cubin }
}

fn texts(names: &[&str], elsewhere: &[UnlinkedCode<'_>], missing: &[&str]) -> Vec<Vec<String>> {
    let missing: Vec<String> = missing.iter().map(|&name| name.to_owned()).collect();
    let hints = undefined(names, elsewhere, &[], &missing);
    hints.iter().map(|hints| hints.iter().map(ToString::to_string).collect()).collect()
}

#[test]
fn code_for_other_architectures_is_reported_once_for_each_file() {
    let bytes = object();
    let for_arch =
        |file, arch: &str| part(file, UnlinkedReason::OtherArch(arch.to_owned()), Some(&bytes));
    let parts = [for_arch("a.o", "sm_80"), for_arch("a.o", "sm_90"), for_arch("b.o", "sm_90")];
    assert_eq!(
        texts(&["reduce_sun", "_Z4hidev", "other"], &parts, &[]),
        [
            vec!["'a.o' defines it for sm_80, sm_90 only", "'b.o' defines it for sm_90 only"],
            vec![],
            vec!["'a.o' defines it for sm_80, sm_90 only", "'b.o' defines it for sm_90 only"],
        ]
    );
}

#[test]
fn what_may_explain_any_name_stands_with_the_last_one() {
    let bytes = object();
    let parts = [
        part("lto.o", UnlinkedReason::LtoIr, None),
        part("lto.o", UnlinkedReason::LtoIr, None),
        part("whole.o", UnlinkedReason::WholeProgram, Some(b"no cubin")),
        part("known.o", UnlinkedReason::WholeProgram, Some(&bytes)),
    ];
    assert_eq!(
        texts(&["reduce_sun", "cudaGetDevice"], &parts, &["extra"]),
        [
            vec!["'known.o' defines it, but was compiled without -rdc=true"],
            vec![
                "libcudadevrt.a defines names like it: add -lcudadevrt",
                "'lto.o' holds only LTO-IR, which needs -lto",
                "'whole.o' holds code that was compiled without -rdc=true and cannot be linked",
                "libextra.a of -lextra is in no folder of -L",
            ],
        ]
    );
}

#[test]
fn nothing_is_read_while_nothing_is_undefined() {
    let read = Cell::new(false);
    let cubin = Some(Box::new(|| {
        read.set(true);
        None
    }) as _);
    let parts = [UnlinkedCode { file: "a.o".to_owned(), why: UnlinkedReason::WholeProgram, cubin }];
    assert!(undefined(&[], &parts, &[], &["x".to_owned()]).is_empty());
    assert!(!read.get());
    undefined(&["f"], &parts, &[], &[]);
    assert!(read.get());
}

#[test]
fn a_library_that_is_given_is_not_asked_for() {
    let hints = |archives: &[&str], missing: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let hints = undefined(&["cudaGetDevices"], &[], &owned(archives), &owned(missing));
        hints[0].iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let asked = ["libcudadevrt.a defines names like it: add -lcudadevrt"];
    assert_eq!(hints(&[], &[]), asked);
    assert_eq!(hints(&["libother.a"], &[]), asked);
    assert!(hints(&["lib/libcudadevrt.a"], &[]).is_empty());
    assert_eq!(hints(&[], &["cudadevrt"]), ["libcudadevrt.a of -lcudadevrt is in no folder of -L"]);
}

#[test]
fn functions_of_a_later_driver_name_its_release() {
    let all = ["cudaFabricOpErrorStatusGet", "cudaDeviceMemcpyAsync", "cudaGraphLaunch"];
    let hint = |since| {
        format!(
            "the driver has it since CUDA {since}: --dialect={since} follows a release that knows"
        )
    };
    assert_eq!(texts(&all, &[], &[]), [vec![hint("13.3")], vec![hint("13.5")], vec![]]);
}

#[test]
fn a_file_without_the_target_says_what_it_has() {
    let hint = holds("a.o", ["sm_80", "sm_90a", "compute_75"]).map(|hint| hint.to_string());
    assert_eq!(hint.as_deref(), Some("'a.o' holds code for sm_80, sm_90a, compute_75"));
    assert_eq!(holds("a.o", []), None);
}
