//! Links generated programs of CUDA C++: all files as LTO-IR, and all but one.

use super::listed::ListedDifference;
use super::{LtoBench, sources};
use anyhow::{Context, Result};
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::random::generate::{GeneratorChoices, family, generate, ptx};
use std::fs;
use std::ops::Range;

/// What may differ if a file is no LTO-IR.
const MIXED: &[ListedDifference] = &[ListedDifference::Order];

pub(super) fn run(bench: &mut LtoBench, seeds: Range<u64>) -> Result<()> {
    let arch = PtxArch::parse(&bench.arch).context("an architecture")?;
    let family = family("cplusplus").context("a family of programs")?;
    for seed in seeds {
        let choices = GeneratorChoices {
            family: Some(family),
            arch: Some(arch),
            plain: true,
            ..GeneratorChoices::default()
        };
        let program = generate(seed, choices);
        let mut compiled = true;
        for unit in &program.units {
            let source = format!("{}.cu", unit.name);
            fs::write(bench.folder.join(&source), ptx::print(&program, unit))?;
            for (ending, word) in [(".o", "-dlto"), ("s.o", "-DNO_LTO")] {
                let target = format!("-arch={}", bench.arch);
                let output = format!("{}{ending}", unit.name);
                let words = [word, "-dc", &target, &source, "-o", &output];
                compiled &= sources::nvcc(&bench.tools.oracle, &bench.folder, &words).is_ok();
            }
        }
        if !compiled {
            println!("seed {seed}: does not compile with these options");
            continue;
        }
        let names: Vec<&str> = program.units.iter().map(|unit| unit.name.as_str()).collect();
        let words = |plain: Option<usize>, first: &[&str]| -> Vec<String> {
            let file = |(place, name): (usize, &&str)| match plain == Some(place) {
                true => format!("{name}s.o"),
                false => format!("{name}.o"),
            };
            let files = names.iter().enumerate().map(file);
            let own = first.iter().map(|&word| word.to_owned());
            own.chain(files).chain(["-lcudadevrt".to_owned()]).collect()
        };
        bench.compare("generated, whole", &words(None, &[]), &[])?;
        if names.len() > 1 {
            for place in [0, names.len() - 1] {
                bench.compare("generated, mixed", &words(Some(place), &[]), MIXED)?;
            }
        }
        bench.compare("generated, -r", &words(None, &["-r"]), MIXED)?;
    }
    Ok(())
}
