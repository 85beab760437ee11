//! Measures links with compilation, by both linkers in turns.
//!
//! In: rows. Out: a table with medians of the wall time, and of the CPU time of the linker and its
//! children, which is the better figure on a shared machine. Only links with equal outputs are
//! measured.

use super::{LtoBench, sources};
use crate::bench::measure::{Usage, measure};
use anyhow::{Context, Result};
use std::path::Path;

/// The name of a measurement, and its words.
const ROWS: &[(&str, &str)] = &[
    ("LTO alone", "a.o b.o c.o -lcudadevrt"),
    ("LTO alone, C++", "parts.o more.o -lcudadevrt"),
    ("LTO alone, large", "wide.o -lcudadevrt"),
    ("LTO alone, -split-compile 2", "-split-compile 2 wide.o more.o -lcudadevrt"),
    ("LTO partial", "parts.o more.o needss.o -lcudadevrt"),
    ("LTO partial, large", "wide.o parts.o mores.o -lcudadevrt"),
    ("LTO partial, only LTO-IR in its files", "al.o bl.o cs.o -lcudadevrt"),
    ("LTO and three PTX files", "a.o b.o c.ptx x.ptx y.ptx -lcudadevrt"),
    ("one PTX file", "x.ptx"),
    ("eight PTX files", "a.ptx b.ptx c.ptx x.ptx y.ptx z.ptx fast.ptx slow.ptx"),
    ("one large PTX file", "wide.ptx"),
    ("two large PTX files", "wide.ptx wider.ptx"),
    ("two large PTX files, -split-compile 2", "-split-compile 2 wide.ptx wider.ptx"),
];

pub(super) fn run(bench: &LtoBench, rounds: usize) -> Result<()> {
    println!(
        "\n{}, {}, {rounds} rounds: medians in ms, nvlink / culd (ratio)",
        bench.release(),
        bench.arch
    );
    println!("| link | wall | CPU |\n|---|--:|--:|");
    for (name, words) in ROWS {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        for word in &words {
            sources::make(&bench.tools.oracle, &bench.arch, &bench.folder, word)?;
        }
        let lto = words.iter().any(|word| sources::is_lto(word));
        let mut all = bench.fixed(lto)?;
        all.extend(words);
        let theirs = bench.link(bench.tools.oracle.command("nvlink"), &all)?;
        let ours = bench.link(bench.candidate(), &all)?;
        if let Some(what) = bench.difference(&all, &theirs, &ours) {
            println!("| {name} | differs: {what} | |");
            continue;
        }
        all.extend(["-o", "out"].map(str::to_owned));
        let ptxas = format!("--ptxas-path={}", bench.tools.oracle.tool("ptxas").display());
        let own = [all.as_slice(), &[ptxas, format!("--dialect={}", bench.release())]].concat();
        let linkers: [(&Path, &[String]); 2] =
            [(&bench.tools.oracle.tool("nvlink"), &all), (&bench.tools.candidate, &own)];
        let mut figures: [Vec<Usage>; 2] = Default::default();
        for _ in 0..rounds {
            for ((program, words), figures) in linkers.iter().zip(&mut figures) {
                let usage = measure(program, words, &bench.folder, super::LIMIT)?;
                figures.push(usage.context("a link that takes too long")?);
            }
        }
        let cell = |of: fn(&Usage) -> f64| {
            let [theirs, ours] = figures.each_ref().map(|figures| median(figures, of));
            format!("{theirs:.1} / {ours:.1} ({:.2})", ours / theirs)
        };
        let wall = cell(|usage| usage.wall.as_secs_f64() * 1e3);
        println!("| {name} | {wall} | {} |", cell(|usage| usage.cpu.as_secs_f64() * 1e3));
    }
    Ok(())
}

fn median(figures: &[Usage], of: fn(&Usage) -> f64) -> f64 {
    let mut sorted: Vec<f64> = figures.iter().map(of).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
