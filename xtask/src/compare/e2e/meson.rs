//! Builds a program of two files by Meson.
//!
//! In: `testdata/e2e/meson`, with the sources of `testdata/e2e/clang`; meson and ninja from PyPI.
//! Out: a comparison in the report. Guaranteed: the builds differ in the native file that names
//! nvcc, and nothing else. They have one folder, because nvcc makes names of variables of its path.

use super::nvcc::same_programs;
use super::{BuildBench, BuildToolkit, succeed};
use crate::workspace;
use anyhow::{Context, Result};
use culd_testkit::reference::oracle::wheels::Environment;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const NAME: &str = "meson";

const WHEELS: &[&str] = &["meson==1.12.1", "ninja==1.13.2"];

const SOURCES: [&str; 3] = ["meson/meson.build", "clang/caller.cu", "clang/callee.cu"];

/// Builds the project with both toolkits and reports.
pub(super) fn run(bench: &BuildBench) {
    bench.check(NAME, compare(bench));
}

fn compare(bench: &BuildBench) -> Result<()> {
    let tools = Environment::install(&workspace::target().join("meson-tools"), WHEELS)?;
    let place = bench.work.join(NAME);
    let theirs = build(&tools, &bench.reference, &place)?;
    let ours = build(&tools, &bench.candidate, &place)?;
    bench.same_files(&theirs, &ours, 1)?;
    same_programs(&theirs, &ours)
}

/// Builds the project in the folder `project` of `place`; the path of the program, beside it.
fn build(tools: &Environment, toolkit: &BuildToolkit, place: &Path) -> Result<PathBuf> {
    let dir = &place.join("project");
    fs::create_dir_all(dir)?;
    for source in SOURCES.map(Path::new) {
        let from = workspace::root().join("testdata/e2e").join(source);
        fs::copy(from, dir.join(source.file_name().context("a name")?))?;
    }
    let nvcc = toolkit.dir.join("bin/nvcc");
    fs::write(dir.join("native.ini"), format!("[binaries]\ncuda = '{}'\n", nvcc.display()))?;
    let run = |words: &[&str]| {
        let mut meson = Command::new(tools.program("meson"));
        meson.args(words).current_dir(dir);
        meson.env("NINJA", tools.program("ninja")).env("CULD_NVCC", "off");
        succeed(&mut meson)
    };
    run(&["setup", "build", "--native-file", "native.ini"])?;
    run(&["compile", "-C", "build"])?;
    let program = place.join(toolkit.linker);
    fs::copy(dir.join("build/program"), &program)?;
    fs::remove_dir_all(dir)?;
    Ok(program)
}
