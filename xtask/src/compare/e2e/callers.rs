//! Runs the command lines by which other programs than nvcc start nvlink (docs/USING.md).
//!
//! In: cubins and objects of `testdata/e2e/nvcc`. Out: comparisons in the report. Guaranteed: the
//! lines come from the sources of these programs; the programs themselves do not run.

use super::{BuildBench, BuildToolkit, finish, nvcc, same_words, succeed};
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::process::Run;
use std::fs;
use std::path::Path;

pub(super) const NAME: &str = "callers";

/// The caller and its words: `OUT` is the output, `LIB` the folder with libcudadevrt.
const LINES: &[(&str, &[&str])] = &[
    (
        "xla",
        &["-arch=sm_90", "main.cubin", "rules.cubin", "scale.cubin", "fold.cubin", "-o", "OUT"],
    ),
    (
        "julia",
        &[
            "--verbose",
            "--extra-warnings",
            "--arch",
            "sm_90",
            "--library-path",
            "LIB",
            "--library",
            "cudadevrt",
            "--output-file",
            "OUT",
            "scale.cubin",
        ],
    ),
    (
        "rules_cuda",
        &[
            "--arch=sm_90",
            "--register-link-binaries=OUT.reg.h",
            "--output-file=OUT",
            "main.o",
            "rules.o",
            "scale.o",
            "fold.o",
        ],
    ),
    (
        "clang",
        &["-arch", "sm_90", "-o", "OUT", "main.cubin", "rules.cubin", "scale.cubin", "fold.cubin"],
    ),
];

/// Links as each caller does and reports the results.
pub(super) fn run(bench: &BuildBench) {
    let dir = bench.work.join(NAME);
    if let Err(error) = compile(&bench.reference, &dir) {
        bench.check(NAME, Err(error));
        return;
    }
    for (caller, words) in LINES {
        bench.check(&format!("{NAME} {caller}"), line(bench, &dir, caller, words));
    }
    bench.check(&format!("{NAME} xla --version"), version(bench, &dir));
}

fn compile(toolkit: &BuildToolkit, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for stem in ["main", "rules", "scale", "fold"] {
        for (flags, extension) in [(&["-dc", "-cubin"][..], "cubin"), (&["-dc"], "o")] {
            let mut nvcc = toolkit.command("nvcc", dir);
            nvcc.arg("-arch=sm_90").args(flags).arg(nvcc::source(stem));
            succeed(nvcc.arg("-o").arg(format!("{stem}.{extension}")))?;
        }
    }
    Ok(())
}

fn line(bench: &BuildBench, dir: &Path, caller: &str, words: &[&str]) -> Result<()> {
    let one = |toolkit: &BuildToolkit, side: &str| -> Result<Run> {
        let out = format!("{caller}.{side}");
        let library = toolkit.dir.join("lib64");
        let word =
            |word: &&str| word.replace("LIB", &library.to_string_lossy()).replace("OUT", &out);
        finish(toolkit.command("nvlink", dir).args(words.iter().map(word)))
    };
    let (expected, actual) = (one(&bench.reference, "nvlink")?, one(&bench.candidate, "culd")?);
    ensure!(expected.status.success(), "the reference fails: {}", expected.stderr_text());
    same_words(&expected, &actual)?;
    let [theirs, ours] = ["nvlink", "culd"].map(|side| dir.join(format!("{caller}.{side}")));
    bench.same_files(&theirs, &ours, 1)?;
    let register = |out: &Path| fs::read(format!("{}.reg.h", out.display())).ok();
    ensure!(register(&theirs) == register(&ours), "the register files differ");
    Ok(())
}

/// XLA reads the version in the output of `--version` and refuses tools before 11.8.
fn version(bench: &BuildBench, dir: &Path) -> Result<()> {
    let run = succeed(bench.candidate.command("nvlink", dir).arg("--version"))?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let numbers = |word: &str| -> Option<Vec<u32>> {
        word.strip_prefix('V')?.split('.').map(|number| number.parse().ok()).collect()
    };
    let mut words = text.split(|c: char| c.is_whitespace() || c == ',');
    let found = words.find_map(|word| numbers(word).filter(|numbers| numbers.len() == 3));
    let found = found.with_context(|| format!("no version in {text:?}"))?;
    ensure!(found >= vec![11, 8, 0], "{found:?} is too old");
    Ok(())
}
