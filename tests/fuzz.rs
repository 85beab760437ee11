//! Runs the bodies of the fuzz targets on the files of `testdata/fuzz`, and on damaged files of the
//! recorded cases.
//!
//! In: `testdata/fuzz/<target>/*`, which fuzzing found, minimised, or which once failed. Out: one
//! test for each target. Guaranteed: a target without files, or files without a target, fail.

use anyhow::{Context, Result, ensure};
use culd_testkit::random::mutate::program;
use culd_tests::fuzz::{FuzzBody, TARGETS};
use culd_tests::{root, run_trials};
use libtest_mimic::{Failed, Trial};
use std::fs;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The number of damaged files of any kind for every body.
const MUTANTS: u64 = 400;

fn main() -> ExitCode {
    run_trials("fuzz", trials)
}

fn folder() -> PathBuf {
    root().join("testdata/fuzz")
}

fn trials() -> Result<Vec<Trial>> {
    let programs = program::recorded()?;
    let mutants: Vec<Vec<u8>> = (0..MUTANTS)
        .flat_map(|seed| program::mutant(&programs, seed).files.into_iter().map(|file| file.1))
        .collect();
    let mutants = Arc::new(mutants);
    let mut trials: Vec<Trial> = TARGETS
        .iter()
        .map(|&(name, body)| {
            let mutants = Arc::clone(&mutants);
            Trial::test(name, move || run(name, body, &mutants).map_err(Failed::from))
        })
        .collect();
    trials
        .push(Trial::test("every folder is that of a target", || folders().map_err(Failed::from)));
    Ok(trials)
}

fn run(name: &str, body: FuzzBody, mutants: &[Vec<u8>]) -> Result<()> {
    let mut kept = 0;
    let dir = folder().join(name);
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        let ended = panic::catch_unwind(|| body(&bytes));
        ensure!(ended.is_ok(), "{}", path.display());
        kept += 1;
    }
    ensure!(kept > 0, "{}: no files", dir.display());
    mutants.iter().for_each(|bytes| body(bytes));
    Ok(())
}

fn folders() -> Result<()> {
    for entry in fs::read_dir(folder())? {
        let name = entry?.file_name();
        ensure!(TARGETS.iter().any(|target| name == target.0), "{name:?} is no target");
    }
    Ok(())
}
