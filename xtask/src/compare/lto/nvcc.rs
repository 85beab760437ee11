//! Builds the same programs with `nvcc -dlto`, in a shadow toolkit with culd as the linker and in
//! one with nvlink.

use super::{LtoBench, LtoLink, both_messages, sources};
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of nvcc, the same for all steps; `\t` separates them where a word has blanks.
const SETS: &[&str] = &[
    "",
    "-Xptxas\t-O3 -v",
    "-Xptxas -O1",
    "-Xptxas -v,-O2",
    "-Xptxas=-v -Xptxas=-O1",
    "-maxrregcount=24",
    "-maxrregcount=32 -use_fast_math -Xptxas -v",
    "-use_fast_math",
    "-ftz=true -prec-div=false",
    "-fmad=false",
    "-O1",
    "-lineinfo",
    "-split-compile=4",
    "-split-compile-extended=4",
    "-device-stack-protector=true",
    "-Ofc=mid",
    "-res-usage",
    "-Xnvlink -v",
    "-Xnvlink\t-v -w",
    "-dopt=on -G",
    "-extra-device-vectorization",
    "-gen-opt-lto",
    "-w",
    "-Werror all-warnings",
    "-default-stream per-thread",
];

/// The objects of each link; names of objects without LTO-IR end with `s`.
const LINKS: &[&str] = &["parts.o more.o", "parts.o more.o needss.o", "child.o x.o", "host.o x.o"];

/// The kinds of nvcc's output.
const KINDS: &[&[&str]] = &[&["-cubin"], &["-fatbin"], &["-ptx"], &["-r", "-cubin"]];

pub(super) fn run(bench: &mut LtoBench) -> Result<()> {
    let (reference, shadow) = (toolkit(bench)?, shadow(bench)?);
    for set in SETS {
        let mark = if set.contains('\t') { '\t' } else { ' ' };
        let options: Vec<&str> = set.split(mark).filter(|word| !word.is_empty()).collect();
        let folder =
            bench.folder.join(format!("nvcc-{}", options.join("")).replace(['/', ' '], "_"));
        fs::create_dir_all(&folder)?;
        for link in LINKS {
            for file in link.split(' ') {
                object(bench, &folder, file, &options)?;
            }
            // Other kinds of output than an image only with the first set.
            let kinds = if options.is_empty() { KINDS } else { &KINDS[..1] };
            for kind in kinds {
                let files: Vec<&str> = link.split(' ').collect();
                let words = |toolkit: &Path| {
                    let mut nvcc = Command::new(toolkit.join("bin/nvcc"));
                    nvcc.args(["-dlto", "-dlink", &format!("-arch={}", bench.arch)]);
                    nvcc.args(*kind).args(&options).args(&files).args(["-o", "out"]);
                    nvcc.current_dir(&folder).env_remove("CUDA_HOME");
                    nvcc
                };
                let theirs = link_with(words(&reference), &folder)?;
                let ours = link_with(words(&shadow), &folder)?;
                let all: Vec<String> = options
                    .iter()
                    .chain(kind.iter())
                    .chain(&files)
                    .map(|&word| word.to_owned())
                    .collect();
                let difference = difference(bench, &all, &folder, &theirs, &ours);
                let counts = bench.counts.entry("nvcc".to_owned()).or_default();
                match difference {
                    None => counts.equal += 1,
                    Some(what) => {
                        counts.different += 1;
                        println!(
                            "{} {} nvcc: {}: {what}",
                            bench.release(),
                            bench.arch,
                            all.join(" ")
                        );
                        bench.keep(all.iter().map(String::as_str), &theirs, &ours)?;
                    }
                }
                bench.add_code(&all, &theirs, &ours);
            }
        }
    }
    Ok(())
}

fn difference(
    bench: &LtoBench,
    words: &[String],
    folder: &Path,
    theirs: &LtoLink,
    ours: &LtoLink,
) -> Option<String> {
    if theirs.run.status != ours.run.status {
        let text = ours.run.stderr_text();
        return Some(format!("{} instead of {}: {text}", ours.run.status, theirs.run.status));
    }
    // The shadow's linker is called nvlink; its lines may begin with either name.
    let [expected, actual] = both_messages(&theirs.run, &ours.run, "nvlink");
    let actual: Vec<String> =
        actual.iter().map(|line| line.trim_start_matches("culd ").to_owned()).collect();
    if expected != actual {
        return Some(format!("messages {actual:?} instead of {expected:?}"));
    }
    match (&theirs.output, &ours.output) {
        (None, None) => None,
        (Some(expected), Some(actual)) if expected.starts_with(b"\x7fELF") => {
            // nvcc adds the library.
            let mut arguments = bench.fixed(false).ok()?;
            arguments.extend_from_slice(words);
            arguments.push("-lcudadevrt".to_owned());
            culd_testkit::reference::compare::outputs_in(&arguments, folder, expected, actual).err()
        }
        (Some(expected), Some(actual)) if words.iter().any(|word| word == "-fatbin") => {
            culd_testkit::reference::compare::embedded::files(expected, actual)
        }
        (Some(expected), Some(actual)) => (expected != actual).then(|| "another text".to_owned()),
        _ => Some("only one of them has made an output".to_owned()),
    }
}

fn link_with(mut nvcc: Command, folder: &Path) -> Result<LtoLink> {
    let output = folder.join("out");
    if output.exists() {
        fs::remove_file(&output)?;
    }
    let run = process::run(&mut nvcc, super::LIMIT).with_context(|| format!("{nvcc:?}"))?;
    Ok(LtoLink { run, output: fs::read(output).ok(), register: None })
}

/// The object called `file` in `folder`, compiled with `options`.
fn object(bench: &LtoBench, folder: &Path, file: &str, options: &[&str]) -> Result<()> {
    if folder.join(file).exists() {
        return Ok(());
    }
    let stem = file.trim_end_matches(".o");
    let is_source = |stem: &str| sources::SOURCES.iter().find(|one| one.0 == stem);
    let (source, kind) = match is_source(stem) {
        Some(source) => (source, "-dlto"),
        None => {
            (is_source(stem.strip_suffix('s').unwrap_or(stem)).context("a source")?, "-DNO_LTO")
        }
    };
    let name = format!("{}.cu", source.0);
    fs::write(folder.join(&name), source.1)?;
    let target = format!("-arch={}", bench.arch);
    let mut words = vec![kind, "-dc", &target, &name, "-o", file];
    words.extend(options);
    sources::nvcc(&bench.tools.oracle, folder, &words)
}

/// The toolkit under another path. That of [`shadow`] has the same length, as far as notes tell.
fn toolkit(bench: &LtoBench) -> Result<PathBuf> {
    let dir = bench.folder.join("cuda-nvlink");
    std::os::unix::fs::symlink(bench.tools.oracle.toolkit(), &dir)?;
    Ok(dir)
}

/// A shadow of the toolkit with culd, whose nvcc links device code without nvlink.
fn shadow(bench: &LtoBench) -> Result<PathBuf> {
    let dir = bench.folder.join("cuda---culd");
    let mut command = Command::new(&bench.tools.candidate);
    command.arg("install-shadow").arg(&dir).arg("--cuda").arg(bench.tools.oracle.toolkit());
    let run = process::run(&mut command, super::LIMIT)?;
    ensure!(run.status.success(), "{command:?}: {}", run.stderr_text());
    Ok(dir)
}
