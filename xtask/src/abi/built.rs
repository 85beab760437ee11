//! Links objects made with `culd_cubin::build` and compiled ones with both linkers.
//!
//! In: generated programs. Out: the number of equal links. Every second object of a program is
//! taken apart and built again; objects with parts that the builder does not have stay as compiled.

use anyhow::{Result, ensure};
use culd_testkit::fixtures::rebuild::assemble;
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::random::generate::{GeneratorChoices, generate, ptx};
use culd_testkit::reference::compare::trial::{
    Tools, Verdict, compare_links, compile_arguments, link_arguments,
};
use culd_testkit::reference::oracle::{COMPILE_LIMIT, process};
use std::fs;

const ARCHS: [&str; 6] = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"];

/// The results of the links.
#[derive(Debug, Default)]
pub(super) struct BuiltCounts {
    /// Objects that were built again.
    pub(super) built: usize,
    /// Links that gave the same bytes.
    pub(super) identical: usize,
    /// Links that failed alike.
    pub(super) same_error: usize,
    /// Links without a verdict: ptxas refused, or nvlink failed.
    pub(super) silent: usize,
}

pub(super) fn compare(
    tools: &Tools,
    seeds: std::ops::Range<u64>,
    differences: &mut Vec<String>,
) -> Result<BuiltCounts> {
    let mut counts = BuiltCounts::default();
    for seed in seeds {
        let folder = tempfile::tempdir()?;
        let arch =
            PtxArch::ALL.into_iter().find(|arch| arch.0 == ARCHS[seed as usize % ARCHS.len()]);
        let program =
            generate(seed, GeneratorChoices { arch, plain: true, ..GeneratorChoices::default() });
        let mut built = 0;
        let mut compiled = true;
        for (place, unit) in program.units.iter().enumerate() {
            fs::write(
                folder.path().join(format!("{}.ptx", unit.name)),
                ptx::print(&program, unit),
            )?;
            let mut ptxas = tools.oracle.command("ptxas");
            ptxas.current_dir(folder.path()).args(compile_arguments(unit));
            compiled &= process::run(&mut ptxas, COMPILE_LIMIT)?.status.success();
            let object = folder.path().join(format!("{}.cubin", unit.name));
            if !compiled || place as u64 % 2 != seed % 2 {
                continue;
            }
            if let Ok(again) = assemble(&fs::read(&object)?) {
                fs::write(&object, again)?;
                built += 1;
            }
        }
        if !compiled || built == 0 {
            counts.silent += 1;
            continue;
        }
        counts.built += built;
        match compare_links(tools, &link_arguments(&program), folder.path())? {
            Verdict::Identical(_) => counts.identical += 1,
            Verdict::SameError(_) => counts.same_error += 1,
            Verdict::NotCompiled(_) | Verdict::NoVerdict(_) => counts.silent += 1,
            Verdict::Different(difference) => {
                differences.push(format!("seed {seed}, objects built: {}", difference.what));
            }
        }
    }
    ensure!(counts.identical > counts.silent, "too few links say something: {counts:?}");
    Ok(counts)
}
