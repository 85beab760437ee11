//! Tests the example `pack`, which links host objects for two architectures into one fat binary
//! that cuobjdump reads.
//!
//! In: objects of `testdata/e2e/nvcc` with code for both. Out: comparisons in the report.
//! Guaranteed: the images that cuobjdump extracts are nvlink's output for the same objects.

use super::{BuildBench, nvcc, succeed};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) const NAME: &str = "packer";

const ARCHS: [&str; 2] = ["sm_75", "sm_90"];
const STEMS: [&str; 4] = ["main", "rules", "scale", "fold"];

/// Packs and reports.
pub(super) fn run(bench: &BuildBench, pack: &Path) {
    let dir = bench.work.join(NAME);
    bench.check(&format!("{NAME} list"), packed(bench, pack, &dir));
    for arch in ARCHS {
        bench.check(&format!("{NAME} {arch}"), image(bench, &dir, arch));
    }
}

fn objects() -> impl Iterator<Item = String> {
    STEMS.iter().map(|stem| format!("{stem}.o"))
}

/// Makes the fat binary and checks that cuobjdump lists one image for each architecture.
fn packed(bench: &BuildBench, pack: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for (stem, object) in STEMS.iter().zip(objects()) {
        let mut nvcc = bench.reference.command("nvcc", dir);
        for arch in ARCHS {
            let number = arch.trim_start_matches("sm_");
            nvcc.arg(format!("-gencode=arch=compute_{number},code={arch}"));
        }
        succeed(nvcc.arg("-dc").arg(nvcc::source(stem)).args(["-o", &object]))?;
    }
    ensure!(pack.is_file(), "no {}: cargo build --release --workspace --examples", pack.display());
    let mut command = Command::new(pack);
    command.current_dir(dir).args(ARCHS.iter().flat_map(|arch| ["-arch", arch]));
    succeed(command.args(objects()).args(["-o", "program.fatbin"]))?;
    let mut cuobjdump = bench.reference.command("cuobjdump", dir);
    let listed = succeed(cuobjdump.args(["--list-elf", "program.fatbin"]))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let alike = listed.lines().count() == ARCHS.len()
        && listed.lines().zip(ARCHS).all(|(line, arch)| line.contains(&format!(".{arch}.")));
    ensure!(alike, "cuobjdump lists:\n{listed}");
    Ok(())
}

/// Checks that the image for one architecture is nvlink's.
fn image(bench: &BuildBench, dir: &Path, arch: &str) -> Result<()> {
    let mut cuobjdump = bench.reference.command("cuobjdump", dir);
    succeed(cuobjdump.args(["--extract-elf", arch, "program.fatbin"]))?;
    let names = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let ending = format!(".{arch}.cubin");
    let found = names.into_iter().find(|path| path.to_string_lossy().ends_with(&ending));
    let found = found.with_context(|| format!("cuobjdump extracts nothing for {arch}"))?;
    let theirs = dir.join(format!("{arch}.nvlink"));
    let mut nvlink = bench.reference.command("nvlink", dir);
    succeed(nvlink.arg(format!("-arch={arch}")).args(objects()).arg("-o").arg(&theirs))?;
    bench.same_files(&theirs, &found, 1)
}
