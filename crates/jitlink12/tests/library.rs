//! The library of CUDA 12: its name, its functions, the architectures that it knows, and
//! its links.
#![allow(clippy::expect_used)]

use culd_testkit::fixtures::case::{self, CaseFile};
use culd_testkit::reference::readers;
use nvJitLink12::link::JitLink;
use nvJitLink12::result::ResultCode;
use std::ffi::{OsStr, c_int};
use std::fs;
use std::path::PathBuf;

/// The kind of an input that says itself what it is.
const ANY: c_int = 10;

fn library() -> PathBuf {
    let folder = std::env::current_exe().expect("a path");
    folder.parent().expect("a folder").join("libnvJitLink12.so")
}

#[test]
fn the_shared_library_exports_what_nvidias_of_12_9_does() {
    let list = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/exports.txt"));
    let list = list.expect("exports.txt");
    let expected: Vec<&str> = list.lines().collect();
    assert_eq!(readers::exports(&library()).expect("exports"), expected);
    assert_eq!(readers::soname(&library()).expect("a name"), "libnvJitLink.so.12");
}

#[test]
fn architectures_are_those_of_cuda_12() {
    let created = |arch: &str| {
        let link = JitLink::new(&[format!("-arch={arch}").into()]);
        (link.created() as i32, link.error_log().to_owned())
    };
    for arch in ["sm_50", "sm_70", "sm_75", "sm_90a", "sm_101", "sm_120"] {
        assert_eq!(created(arch), (0, String::new()), "{arch}");
    }
    // One that was dropped before, and one that came later.
    assert!(created("sm_35").1.contains("unsupported architecture (compute_35)"));
    assert!(created("sm_110").1.contains("unrecognized architecture (compute_110)"));
}

#[test]
fn recorded_links_of_cuda_12_are_the_same() {
    let mut linked = 0;
    for case in case::all().expect("cases") {
        let CaseFile { release, args, arch, uidx, .. } = &case.recipe;
        let is_of_12 = release.as_ref().is_some_and(|release| release.starts_with("12."));
        let expected = case.expected_output().expect("an output").filter(|_| is_of_12);
        let Some(expected) = expected.filter(|_| args.is_empty() && uidx.is_empty()) else {
            continue;
        };
        let mut link = JitLink::new(&[format!("-arch={arch}").into()]);
        assert_eq!(link.created(), ResultCode::Success, "{}", case.name);
        for (name, bytes) in case.inputs().expect("inputs") {
            let code = link.add_data(ANY, Some(OsStr::new(&name)), &bytes);
            assert_eq!(code, ResultCode::Success, "{}: {}", case.name, link.error_log());
        }
        assert_eq!(link.complete(), ResultCode::Success, "{}: {}", case.name, link.error_log());
        // Files of these releases have no record of the tool: all bytes count.
        assert!(link.cubin() == Ok(&expected), "{}: another image", case.name);
        linked += 1;
    }
    assert!(linked >= 9, "only {linked} links");
}
