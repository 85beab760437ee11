//! Layouts against what compilers said of random records: testdata/abi/layouts.txt, written by
//! `cargo xtask abi --record`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use culd_testkit::random::layouts::sample;

#[test]
fn layouts_are_those_of_nvcc_and_gcc() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/abi/layouts.txt");
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for record in lines.chunks(3) {
        let [seed, source, layout] = record else { panic!("{record:?}") };
        let sample = sample(seed.parse().unwrap());
        assert_eq!(sample.source("R"), source.trim(), "the generator has changed: record anew");
        assert_eq!(sample.ours(true).unwrap(), layout.trim(), "{source}");
    }
    assert_eq!(lines.len(), 3 * 400);
}
