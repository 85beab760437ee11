//! The dependencies of this project: every crate has one version, comes from crates.io and has a
//! licence of the list.
//!
//! In: Cargo.lock, and cargo's data about the crates. Out: no report, or the crates that break a
//! rule. Advisories need a network: `cargo deny check` with `deny.toml`.

use culd_tests::root;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Licences that are compatible with MIT or Apache 2.0, as crates spell them.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT OR Apache-2.0",
    "Apache-2.0 OR MIT",
    "MIT/Apache-2.0",
    "0BSD OR MIT OR Apache-2.0",
    "MIT OR Zlib OR Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    "(MIT OR Apache-2.0) AND Unicode-3.0",
    "Unlicense OR MIT",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
];

#[test]
fn every_crate_has_one_version_and_comes_from_the_registry() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let lock: toml::Table = toml::from_str(&lock).expect("a lock file");
    let packages = lock["package"].as_array().expect("packages");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package.get(key).and_then(toml::Value::as_str);
        let name = text("name").expect("a name");
        versions.entry(name).or_default().push(text("version").expect("a version"));
        let source = text("source");
        let ours = name.starts_with("culd") || name == "xtask";
        let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
        assert_eq!(source, if ours { None } else { registry }, "{name}");
        assert_eq!(text("checksum").is_some(), !ours, "{name}");
    }
    assert!(versions.len() > 50, "only {} crates", versions.len());
    let several: Vec<_> = versions.iter().filter(|(_, list)| list.len() > 1).collect();
    assert!(several.is_empty(), "{several:?}");
}

#[test]
fn every_crate_has_a_licence_of_the_list() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--locked", "--workspace", "--prefix", "none"]);
    cargo.args(["--edges", "all", "--format", "{p}\t{l}"]).current_dir(root());
    let output = cargo.output().expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut seen = 0;
    for line in text.lines() {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        let licence = licence.trim_end_matches(" (*)");
        assert!(LICENCES.contains(&licence), "{package}: '{licence}'");
        seen += 1;
    }
    assert!(seen > 50, "only {seen} lines");
}
