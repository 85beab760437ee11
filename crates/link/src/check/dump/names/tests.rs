//! nvlink 13.0's output of `-dump-callgraph` for these names.

use std::fmt::Write as _;

use super::declaration;
use crate::check::dump::name;
use crate::options::CallGraphNames;
use crate::options::dialect::Dialect;

#[test]
fn names_are_declared_like_nvlinks() {
    let cases = include_str!("names.txt");
    let mut lines = cases.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    while let (Some(mangled), Some(declared)) = (lines.next(), lines.next()) {
        let shown = |names| name(mangled, names, Dialect::usual());
        assert_eq!(shown(CallGraphNames::Source), declared.trim_start(), "{mangled}");
        assert_eq!(shown(CallGraphNames::Mangled), mangled);
        count += 1;
    }
    assert_eq!(count, cases.lines().count() / 2);
}

#[test]
fn work_on_a_name_is_bounded() {
    // Every argument holds the one before it twice.
    let mut doubling = String::from("_Z1f1aIiiE");
    let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for digit in digits.chars() {
        write!(doubling, "S_IS{digit}_S{digit}_E").expect("strings take everything");
    }
    assert_eq!(declaration(&doubling, true), None);
    assert!(declaration("_Z1f1aIiiES_IS0_S0_E", true).is_some());
    for deep in ["P", "1aI", "DT", "N1aI", "Z1fI", "LA", "M"] {
        assert_eq!(declaration(&format!("_Z1f{}", deep.repeat(20_000)), true), None);
    }
}

#[test]
fn every_beginning_of_a_name_is_read() {
    let cases = include_str!("names.txt");
    for mangled in cases.lines().step_by(2) {
        for (end, _) in mangled.char_indices() {
            let _ = declaration(&mangled[..end], true);
        }
    }
    for odd in [
        "_ZfL",
        "_Z1fIXfLé",
        "_ZC",
        "_ZCI",
        "_ZN1aCIé",
        "_Z999999999999999999999a",
        "_ZS_",
        "_Z\u{e9}",
    ] {
        let _ = declaration(odd, true);
    }
}
