//! A file of a system library is linked if something needs it.
//!
//! In: recorded cases with some inputs marked as a system library. Out: no report, or a link that
//! differs from that of the expected files. `cargo xtask compare real` links with libcudadevrt
//! itself.

use culd_link::{Input, LinkOutcome, Session};
use culd_testkit::fixtures::case;
use culd_tests::link_options;

/// Links files of a recorded case, with those at `system` marked.
fn linked(case: &str, files: &[&str], system: &[&str], keep: bool) -> LinkOutcome {
    let inputs = case::named(case).and_then(|case| case.inputs()).expect("the recorded case");
    let input = |file: &&str| {
        let (name, bytes) = inputs.iter().find(|(name, _)| name == file).expect("an input");
        Input { name, bytes, system: system.contains(file) }
    };
    let inputs: Vec<Input<'_>> = files.iter().map(input).collect();
    let mut options = link_options(&["-arch=sm_90".to_owned()]).expect("options");
    options.keep_system_libraries = keep;
    culd_link::link(&Session::with_threads(1), &inputs, &options)
}

fn image(case: &str, files: &[&str]) -> Option<Vec<u8>> {
    let outcome = linked(case, files, &[], false);
    assert!(outcome.image.is_some(), "{:?}", outcome.diagnostics);
    outcome.image
}

/// Two files that do not need each other.
const APART: &str = "selection/kernels-used";
/// `a` names a kernel that `b` defines.
const TIED: &str = "selection/address-taken-one";

#[test]
fn what_nothing_needs_is_left_out() {
    let outcome = linked(APART, &["a.cubin", "b.cubin"], &["b.cubin"], false);
    assert_eq!(outcome.unused, [1]);
    assert_eq!(outcome.image, image(APART, &["a.cubin"]));
}

#[test]
fn unless_it_is_to_be_kept() {
    let outcome = linked(APART, &["a.cubin", "b.cubin"], &["b.cubin"], true);
    assert!(outcome.unused.is_empty());
    assert_eq!(outcome.image, image(APART, &["a.cubin", "b.cubin"]));
}

#[test]
fn what_an_earlier_file_needs_is_linked() {
    let files = ["a.cubin", "b.cubin"];
    let outcome = linked(TIED, &files, &["b.cubin"], false);
    assert!(outcome.unused.is_empty());
    assert_eq!(outcome.image, image(TIED, &files));
}

#[test]
fn what_only_a_later_file_needs_is_left_out() {
    let outcome = linked(TIED, &["b.cubin", "a.cubin"], &["b.cubin"], false);
    assert_eq!(outcome.unused, [0]);
    assert_eq!(outcome.image, None);
    let lines: Vec<String> =
        outcome.diagnostics.iter().map(|line| line.message.to_string()).collect();
    assert_eq!(lines, ["Undefined reference to 'taken' in 'a.cubin'"]);
}

#[test]
fn what_needs_others_needs_no_library() {
    let outcome = linked(TIED, &["b.cubin", "a.cubin"], &["a.cubin"], false);
    assert_eq!(outcome.unused, [1]);
    assert_eq!(outcome.image, image(TIED, &["b.cubin"]));
}
