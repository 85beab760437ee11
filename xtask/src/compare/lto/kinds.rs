//! Links random sources as files of random kinds, with random options.
//!
//! In: seeds. Out: links with at least one piece of LTO-IR, in which no function is undefined.

use super::listed::ListedDifference::{self, Demanded, Library, Local, Lost, Order, Within, Words};
use super::{LtoBench, sources};
use anyhow::Result;
use culd_testkit::random::generate::rng::Rng;
use std::ops::Range;

/// Sources that need no others. Those that need libcudadevrt are in family *devrt*: where their
/// kernels are dropped, most links of them would be of class *library*.
const SOURCES: &[&[&str]] = &[
    &["a", "b", "c"],
    &["x"],
    &["y"],
    &["z"],
    &["fast", "slow"],
    &["host"],
    &["plain"],
    &["calls"],
];
/// Kinds of files with LTO-IR. The last two are in no host object: nvlink before 13.5 loses such
/// LTO-IR.
const LTO: [&str; 7] = [".o", "l.o", "e.o", ".o", "l.o", ".ltoir", ".fatbin"];
/// Other kinds.
const OTHERS: &[&str] = &["s.o", "s.o", ".cubin", "p.fatbin", ".ptx"];
/// A file without an image for the target.
const FOREIGN: &str = "z75.o";

const OPTIONS: &[&str] = &[
    "-emit-ptx",
    "-kernels-used=k",
    "-kernels-used=none",
    "-variables-used=count",
    "-ignore-host-info",
    "-use-host-info",
    "-keep-system-libraries",
    "-w",
    "-disable-infos",
    "-suppress-arch-warning",
    "-maxrregcount=24",
    "-Xptxas=-O1",
    "-v",
    "--register-link-binaries=reg",
];

/// What may differ in some of these links.
const LISTED: &[ListedDifference] = &[Order, Local, Within, Library, Lost, Words, Demanded];

pub(super) fn run(bench: &mut LtoBench, seeds: Range<u64>) -> Result<()> {
    let lto = if bench.toolkit() < 135 { &LTO[..5] } else { &LTO };
    for seed in seeds {
        let words = link_of(&mut Rng::new(seed), lto);
        for word in &words {
            sources::make(&bench.tools.oracle, &bench.arch, &bench.folder, word)?;
        }
        bench.compare("kinds", &words, LISTED)?;
    }
    Ok(())
}

/// The words of a link, with LTO-IR in files of `kinds`.
fn link_of(rng: &mut Rng, kinds: &[&str]) -> Vec<String> {
    let mut stems: Vec<&str> = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let group = rng.pick(SOURCES);
        if !stems.contains(&group[0]) {
            stems.extend(group);
        }
    }
    let lto = rng.below(stems.len());
    let mut files = Vec::new();
    for (place, stem) in stems.iter().enumerate() {
        let is_lto = place == lto || rng.below(3) > 0;
        let kind = rng.pick(if is_lto { kinds } else { OTHERS });
        files.insert(rng.below(files.len() + 1), format!("{stem}{kind}"));
    }
    if rng.below(5) == 0 && !stems.contains(&"z") {
        files.insert(rng.below(files.len() + 1), FOREIGN.to_owned());
    }
    let mut words = Vec::new();
    for _ in 0..rng.below(3) {
        let option = rng.pick(OPTIONS).to_owned();
        if !words.contains(&option) {
            words.push(option);
        }
    }
    words.append(&mut files);
    // Without a kernel and the library nvlink ends, and what culd makes has another tool note than
    // nvlink's output with the library.
    if rng.below(8) > 0 || stems == ["plain"] {
        words.push("-lcudadevrt".to_owned());
    }
    words
}
