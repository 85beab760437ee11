//! Builds programs of several files with nvcc: with and without a static library, for one
//! architecture and for two, with debug information, from PTX; and links that must fail.
//!
//! In: `testdata/e2e/nvcc`. Out: comparisons in the report. Guaranteed: objects and the library are
//! made once, without a device linker, and used by both links.

use super::{BuildBench, BuildToolkit, finish, same_words, succeed};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::process::Run;
use std::fs;
use std::path::{Path, PathBuf};

/// One way to build the program.
pub(super) struct BuildVariant {
    pub(super) name: &'static str,
    /// Flags of compilation.
    compile: &'static [&'static str],
    /// Flags of the link.
    link: &'static [&'static str],
    /// Architectures of the link.
    archs: usize,
    /// With links that fail, and compilation and link in one command.
    full: bool,
}

const SM_80_AND_90: &[&str] =
    &["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"];

#[rustfmt::skip]
pub(super) const VARIANTS: &[BuildVariant] = &[
    BuildVariant { name: "nvcc/plain", compile: &["-arch=sm_90"], link: &["-arch=sm_90"], archs: 1, full: true },
    BuildVariant { name: "nvcc/two-archs", compile: SM_80_AND_90, link: SM_80_AND_90, archs: 2, full: true },
    BuildVariant { name: "nvcc/one-of-two-archs", compile: SM_80_AND_90, link: &["-arch=sm_80"], archs: 1, full: false },
    BuildVariant { name: "nvcc/lines", compile: &["-arch=sm_90", "-lineinfo"], link: &["-arch=sm_90", "-lineinfo"], archs: 1, full: false },
    // Without --no-compress, the linked images of debug builds are compressed; others never are.
    BuildVariant { name: "nvcc/debug", compile: &["-arch=sm_80", "-G"], link: &["-arch=sm_80", "-G", "--no-compress"], archs: 1, full: false },
    BuildVariant { name: "nvcc/ptx", compile: &["-gencode=arch=compute_80,code=compute_80"], link: &["-arch=sm_90"], archs: 1, full: false },
];

/// The files of the program, without the library.
const PROGRAM: &[&str] = &["main", "rules"];
const LIBRARY: &[&str] = &["scale", "fold"];

/// Arguments of a device link, by name.
const LINKS: &[(&str, &[&str])] = &[
    ("objects", &["main.o", "rules.o", "scale.o", "fold.o"]),
    ("archive", &["main.o", "rules.o", "libshapes.a"]),
    ("-l", &["main.o", "rules.o", "-L.", "-lshapes"]),
    ("archive-first-and-again", &["libshapes.a", "main.o", "rules.o", "-L.", "-lshapes"]),
    ("shared", &["-shared", "-Xcompiler=-fPIC", "main.o", "rules.o", "-L.", "-lshapes"]),
    ("verbose", &["-Xnvlink", "-v", "main.o", "rules.o", "-L.", "-lshapes"]),
];

/// Options for programs that are compared byte by byte: no names of temporary files, and no hash of
/// all bytes.
const BARE: &[&str] = &["-Xlinker", "--strip-all,--build-id=none"];

/// Device links that fail.
const FAILURES: &[(&str, &[&str])] = &[
    ("undefined", &["main.o", "rules.o", "missing.o"]),
    ("defined-twice", &["main.o", "rules.o", "scale.o", "-L.", "-lshapes"]),
    ("warning-as-error", &["-Xnvlink", "-Werror", "main.o", "rules.o", "libshapes.a"]),
];

/// Builds one variant and reports.
pub(super) fn run(bench: &BuildBench, variant: &BuildVariant) {
    let dir = bench.work.join(variant.name);
    if let Err(error) = compile(&bench.reference, variant, &dir) {
        bench.check(variant.name, Err(error));
        return;
    }
    for (name, arguments) in LINKS {
        let result = device_link(bench, variant, &dir, name, arguments);
        bench.check(&format!("{} {name}", variant.name), result);
    }
    bench.check(&format!("{} cubin", variant.name), cubin(bench, variant, &dir));
    bench.check(&format!("{} program", variant.name), program(bench, variant, &dir));
    if variant.full {
        for (name, arguments) in FAILURES {
            let result = failure(bench, variant, &dir, name, arguments);
            bench.check(&format!("{} {name}", variant.name), result);
        }
        bench.check(&format!("{} in-one", variant.name), in_one(bench, variant, &dir));
    }
}

/// The path of a source file of the program.
pub(super) fn source(stem: &str) -> PathBuf {
    workspace::root().join("testdata/e2e/nvcc").join(format!("{stem}.cu"))
}

fn compile(toolkit: &BuildToolkit, variant: &BuildVariant, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for stem in PROGRAM.iter().chain(LIBRARY).chain(&["missing"]) {
        let mut nvcc = toolkit.command("nvcc", dir);
        nvcc.args(variant.compile).args(["-rdc=true", "-c", "-Xcompiler=-fPIC"]);
        succeed(nvcc.arg(source(stem)).args(["-o", &format!("{stem}.o")]))?;
    }
    let mut nvcc = toolkit.command("nvcc", dir);
    let members = LIBRARY.iter().map(|stem| format!("{stem}.o"));
    succeed(nvcc.arg("-lib").args(members).args(["-o", "libshapes.a"]))?;
    Ok(())
}

/// Runs the same link with both toolkits, with outputs in separate folders.
fn both(
    bench: &BuildBench,
    variant: &BuildVariant,
    dir: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<[(PathBuf, Run); 2]> {
    let one = |toolkit: &BuildToolkit, side: &str| -> Result<(PathBuf, Run)> {
        let out = dir.join(format!("{name}.{side}"));
        fs::create_dir_all(&out)?;
        let mut nvcc = toolkit.command("nvcc", dir);
        nvcc.args(variant.link)
            .args(arguments)
            .arg("--keep-dir")
            .arg(&out)
            .arg("-o")
            .arg(out.join("out"));
        Ok((out, finish(&mut nvcc)?))
    };
    Ok([one(&bench.reference, "nvlink")?, one(&bench.candidate, "culd")?])
}

/// Compares a device link: the object for the host linker, the file with the names to register, and
/// each cubin.
fn device_link(
    bench: &BuildBench,
    variant: &BuildVariant,
    dir: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<()> {
    let line = [&["-dlink", "--keep"], arguments].concat();
    let [(theirs, expected), (ours, actual)] = both(bench, variant, dir, name, &line)?;
    ensure!(expected.status.success(), "the reference fails: {}", expected.stderr_text());
    same_words(&expected, &actual)?;
    bench.same_files(&theirs.join("out"), &ours.join("out"), variant.archs)?;
    let kept = fs::read_dir(&theirs)?.collect::<Result<Vec<_>, _>>()?;
    let mut registers = 0;
    for file in kept.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        if file.ends_with(".reg.c") {
            registers += 1;
            let text = |dir: &Path| fs::read_to_string(dir.join(&file));
            ensure!(text(&theirs)? == text(&ours)?, "{file} differs");
        }
    }
    ensure!(registers == 1, "{registers} register files in {}", theirs.display());
    Ok(())
}

/// Compares a link that fails: the same status and lines, and no output.
fn failure(
    bench: &BuildBench,
    variant: &BuildVariant,
    dir: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<()> {
    let line = [&["-dlink"], arguments].concat();
    let [(_, expected), (ours, actual)] = both(bench, variant, dir, name, &line)?;
    ensure!(!expected.status.success(), "the reference links it");
    same_words(&expected, &actual)?;
    ensure!(!ours.join("out").exists(), "it left an output");
    Ok(())
}

/// Compares `-dlink -cubin`: the linked cubin itself, for one architecture only.
fn cubin(bench: &BuildBench, variant: &BuildVariant, dir: &Path) -> Result<()> {
    let line = ["-dlink", "-cubin", "main.o", "rules.o", "-L.", "-lshapes"];
    let [(theirs, expected), (ours, actual)] = both(bench, variant, dir, "cubin", &line)?;
    same_words(&expected, &actual)?;
    if variant.archs > 1 {
        return Ok(());
    }
    bench.same_files(&theirs.join("out"), &ours.join("out"), 1)
}

/// Compares device link and host link; the program runs and has the same output.
fn program(bench: &BuildBench, variant: &BuildVariant, dir: &Path) -> Result<()> {
    let line = [BARE, &["main.o", "rules.o", "-L.", "-lshapes"]].concat();
    let [(theirs, expected), (ours, actual)] = both(bench, variant, dir, "program", &line)?;
    ensure!(expected.status.success(), "the reference fails: {}", expected.stderr_text());
    same_words(&expected, &actual)?;
    bench.same_files(&theirs.join("out"), &ours.join("out"), variant.archs)?;
    same_programs(&theirs.join("out"), &ours.join("out"))
}

/// Compilation and link in one command.
fn in_one(bench: &BuildBench, variant: &BuildVariant, dir: &Path) -> Result<()> {
    let files: Vec<PathBuf> = PROGRAM.iter().chain(LIBRARY).map(|stem| source(stem)).collect();
    let mut line = BARE.to_vec();
    line.push("-rdc=true");
    line.extend(files.iter().filter_map(|path| path.to_str()));
    let [(theirs, expected), (ours, actual)] = both(bench, variant, dir, "in-one", &line)?;
    ensure!(expected.status.success(), "the reference fails: {}", expected.stderr_text());
    same_words(&expected, &actual)?;
    bench.same_files(&theirs.join("out"), &ours.join("out"), variant.archs)?;
    same_programs(&theirs.join("out"), &ours.join("out"))
}

/// Checks that both programs have the same status and output: their results, or without a GPU the
/// reason why there are none.
pub(super) fn same_programs(expected: &Path, actual: &Path) -> Result<()> {
    let start = |path: &Path| {
        let run = finish(&mut std::process::Command::new(path));
        run.with_context(|| path.display().to_string())
    };
    let (expected, actual) = (start(expected)?, start(actual)?);
    ensure!(!expected.stdout.is_empty(), "the program says nothing");
    same_words(&expected, &actual)
}
