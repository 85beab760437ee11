//! Links with libraries that have a device link: a host object in them lists the modules in its
//! image.
//!
//! In: `testdata/e2e/linked`. Out: comparisons in the report. Guaranteed: each toolkit makes the
//! device link of the library, too, so all images of a program are of one linker. The objects of
//! the modules are the same in both.

use super::nvcc::same_programs;
use super::{BuildBench, BuildToolkit, finish, same_words, succeed};
use crate::workspace;
use anyhow::{Result, ensure};
use culd_testkit::reference::oracle::process::Run;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const NAME: &str = "linked";

const LIBRARY: [&str; 2] = ["lib", "lib2"];
const PROGRAM: [&str; 2] = ["app", "app2"];

/// Architectures of the library and of the program.
const ARCHS: &[(&str, &[u32], &[u32])] =
    &[("other", &[90], &[75]), ("same", &[90], &[90]), ("several", &[80, 90], &[75, 90, 100])];

/// The library in the link of the program; `SIDE` is the linker of its device link.
const LINKS: &[(&str, &[&str])] = &[
    ("archive", &["libdev-SIDE.a"]),
    ("-l", &["-L.", "-ldev-SIDE"]),
    ("objects", &["lib.o", "lib2.o", "glue-SIDE.o"]),
    ("list-first", &["glue-SIDE.o", "lib2.o", "lib.o"]),
];

/// Without names of temporary files, and without a hash of all bytes.
const BARE: &[&str] = &["-Xlinker", "--strip-all,--build-id=none"];

/// Builds and reports.
pub(super) fn run(bench: &BuildBench) {
    for (name, library, program) in ARCHS {
        let dir = bench.work.join(NAME).join(name);
        let compiled = compile(bench, &dir, library, program);
        bench.check(&format!("{NAME} {name} library"), compiled);
        for (form, words) in LINKS {
            let result = link(bench, &dir, form, words, (library, program));
            bench.check(&format!("{NAME} {name} {form}"), result);
        }
    }
    bench.check(&format!("{NAME} runtime of the first"), runtime(bench, [80, 90], true));
    // nvlink's result here depends on old contents of its memory (docs/DIFFERENCES.md,
    // register-file).
    bench.check(&format!("{NAME} runtime of the second"), runtime(bench, [90, 80], false));
}

fn source(stem: &str) -> PathBuf {
    workspace::root().join("testdata/e2e/linked").join(format!("{stem}.cu"))
}

fn targets(archs: &[u32]) -> Vec<String> {
    archs.iter().map(|sm| format!("-gencode=arch=compute_{sm},code=sm_{sm}")).collect()
}

/// A toolkit under test.
struct Side<'a> {
    toolkit: &'a BuildToolkit,
    /// Part of the names of its files. All have one length, because they are in the linkers' notes.
    name: &'static str,
}

fn sides(bench: &BuildBench) -> [Side<'_>; 2] {
    [
        Side { toolkit: &bench.reference, name: "nvlink" },
        Side { toolkit: &bench.candidate, name: "culd--" },
    ]
}

/// Compiles the objects, and makes the device link of the library with each toolkit, alone and in
/// an archive of all. The images must be the same.
fn compile(bench: &BuildBench, dir: &Path, library: &[u32], program: &[u32]) -> Result<()> {
    fs::create_dir_all(dir)?;
    for (stems, archs) in [(LIBRARY, library), (PROGRAM, program)] {
        for stem in stems {
            let mut nvcc = bench.reference.command("nvcc", dir);
            nvcc.args(targets(archs))
                .arg("-dc")
                .arg(source(stem))
                .args(["-o", &format!("{stem}.o")]);
            succeed(&mut nvcc)?;
        }
    }
    for Side { toolkit, name: side } in sides(bench) {
        let (glue, archive) = (format!("glue-{side}.o"), format!("libdev-{side}.a"));
        let mut nvcc = toolkit.command("nvcc", dir);
        nvcc.args(targets(library)).args(["-dlink", "lib.o", "lib2.o", "-o", &glue]);
        succeed(&mut nvcc)?;
        let mut nvcc = toolkit.command("nvcc", dir);
        succeed(nvcc.args(["-lib", "lib.o", "lib2.o", &glue, "-o", &archive]))?;
    }
    bench.same_files(&dir.join("glue-nvlink.o"), &dir.join("glue-culd--.o"), library.len())
}

/// Compares programs with the library: their bytes, their images, and their output.
fn link(
    bench: &BuildBench,
    dir: &Path,
    form: &str,
    words: &[&str],
    (library, program): (&[u32], &[u32]),
) -> Result<()> {
    let one = |Side { toolkit, name: side }: Side<'_>| -> Result<(PathBuf, Run)> {
        let out = dir.join(format!("{form}.{side}"));
        let mut nvcc = toolkit.command("nvcc", dir);
        nvcc.args(targets(program)).args(BARE).args(["app.o", "app2.o"]);
        nvcc.args(words.iter().map(|word| word.replace("SIDE", side))).arg("-o").arg(&out);
        Ok((out, finish(&mut nvcc)?))
    };
    let [theirs, ours] = sides(bench).map(one);
    let ((theirs, expected), (ours, actual)) = (theirs?, ours?);
    ensure!(expected.status.success(), "the reference fails: {}", expected.stderr_text());
    same_words(&expected, &actual)?;
    bench.same_files(&theirs, &ours, library.len() + program.len())?;
    same_programs(&theirs, &ours)
}

/// Tests a program that needs libcudadevrt for one of two architectures, and has its module.
fn runtime(bench: &BuildBench, archs: [u32; 2], compares: bool) -> Result<()> {
    let dir = bench.work.join(NAME);
    fs::create_dir_all(&dir)?;
    let [first, second] = archs;
    let mut programs = Vec::new();
    for Side { toolkit, name: side } in sides(bench) {
        let out = dir.join(format!("launch-{first}-{second}.{side}"));
        let mut nvcc = toolkit.command("nvcc", &dir);
        nvcc.args(targets(&archs)).arg("-rdc=true").arg(source("launch")).arg("-o").arg(&out);
        succeed(&mut nvcc)?;
        let bytes = fs::read(&out)?;
        let name: &[u8] = b"_cuda_device_runtime_cu_";
        let has = bytes.windows(name.len()).any(|window| window == name);
        programs.push((side, has));
    }
    for (side, has) in programs {
        ensure!(has || (side == "nvlink" && !compares), "no module of the library by {side}");
    }
    Ok(())
}
