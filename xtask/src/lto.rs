//! `xtask lto`: `nvlink -lto` and `culd -lto` with objects that nvcc made with `-dlto`, alone and beside others.
//!
//! In: three small sources. Out: a line for each link. Guaranteed: exit code 1 when a program of nothing but LTO-IR is not the
//! same bytes, or when beside other code not both link, or not to the same kernels.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::compare;
use culd_testkit::compare::trial::Tools;
use culd_testkit::oracle::{COMPILE_LIMIT, process};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask lto [--culd PATH]
Links objects of `nvcc -dlto` with nvlink -lto and culd -lto; culd-lto has to lie beside culd.";

const SOURCES: &[(&str, &str)] = &[
    ("a", "extern __device__ int f(int); __global__ void k(int *p) { *p = f(p[1]); }\n"),
    ("b", "__device__ int g(int); __device__ int f(int x) { return x * 3 + g(x); }\n"),
    (
        "c",
        "__device__ int count = 5; __device__ int g(int x) { return x + count; }\n\
         __global__ void k2(int *p) { *p = g(*p) + count; }\n",
    ),
];

/// What is known of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// The same bytes.
    Same,
    /// The same kernels.
    Kernels,
    /// nvlink links, culd has undefined functions (docs/DIFFERENCES.md, lto).
    Refused,
}

use Expect::{Kernels, Refused, Same};

/// Inputs, and what is known. `s` is for objects without LTO-IR.
const LINKS: &[(&str, Expect)] = &[
    ("a.ltoir b.ltoir c.ltoir", Same),
    ("c.ltoir b.ltoir a.ltoir", Same),
    ("a.o b.o c.o -lcudadevrt", Same),
    ("-emit-ptx a.ltoir b.ltoir c.ltoir", Same),
    ("-Ofc=max a.ltoir b.ltoir c.ltoir", Same),
    ("-Ofc=min a.ltoir b.ltoir c.ltoir", Same),
    ("-emit-ptx -Ofc=mid a.ltoir b.ltoir c.ltoir", Same),
    ("-split-compile-extended 2 a.ltoir b.ltoir c.ltoir", Same),
    ("-device-stack-protector true a.ltoir b.ltoir c.ltoir", Same),
    ("-Xptxas -O1 a.ltoir b.ltoir c.ltoir", Same),
    // The notes of the tools have other lengths.
    ("-g a.ltoir b.ltoir c.ltoir", Kernels),
    ("a.o b.o cs.o", Kernels),
    ("as.o b.o c.o", Refused),
    ("a.o bs.o c.o", Refused),
    ("a.o b.o cs.o -lcudadevrt", Kernels),
    // Not defined anywhere.
    ("a.ltoir b.ltoir", Same),
    ("a.o b.o -lcudadevrt", Same),
];

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let tools = workspace::tools(args.option("--culd")?)?;
    args.finish()?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    compile(&tools, folder)?;
    let mut failed = 0;
    for (words, expect) in LINKS {
        let nvlink = tools.oracle.command("nvlink");
        let (theirs, expected) = link(&tools, nvlink, folder, words, "theirs")?;
        let (ours, actual) = link(&tools, Command::new(&tools.candidate), folder, words, "ours")?;
        let differs = match expect {
            Refused => (theirs, ours) != (Some(0), Some(255)),
            Same | Kernels => theirs != ours,
        };
        let difference = if differs {
            Some(format!("exit status {ours:?}, nvlink {theirs:?}"))
        } else {
            compared(expected.as_deref(), actual.as_deref(), *expect)
        };
        println!("{words}: {}", difference.as_deref().unwrap_or("as expected"));
        failed += usize::from(difference.is_some());
    }
    println!("{} passed, {failed} failed", LINKS.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compile(tools: &Tools, folder: &Path) -> Result<()> {
    for (name, text) in SOURCES {
        fs::write(folder.join(format!("{name}.cu")), text)?;
        for (options, end) in
            [(&["-dlto", "-dc"][..], ".o"), (&["-dc"], "s.o"), (&["-dlto", "-ltoir"], ".ltoir")]
        {
            let mut nvcc = tools.oracle.command("nvcc");
            nvcc.args(["-arch=sm_90", "-rdc=true"]).args(options).arg(format!("{name}.cu"));
            nvcc.args(["-o", &format!("{name}{end}")]).current_dir(folder);
            let run = process::run(&mut nvcc, COMPILE_LIMIT)?;
            ensure!(run.status.success(), "{nvcc:?}: {}", run.stderr_text());
        }
    }
    // As a toolkit has it.
    fs::create_dir_all(folder.join("nvvm/lib64"))?;
    let library = tools.oracle.toolkit_library("libnvvm.so.4");
    std::os::unix::fs::symlink(library, folder.join("nvvm/lib64/libnvvm.so"))?;
    Ok(())
}

/// Exit status, and the output if there is one.
fn link(
    tools: &Tools,
    mut linker: Command,
    folder: &Path,
    words: &str,
    output: &str,
) -> Result<(Option<i32>, Option<Vec<u8>>)> {
    let toolkit = tools.oracle.toolkit();
    linker.args(["-arch=sm_90", "-lto", "-nvvmpath=nvvm"]).args(words.split(' '));
    linker.arg(format!("-L{}", toolkit.join("lib").display())).args(["-o", output]);
    linker.env("CULD_NVJITLINK", tools.oracle.toolkit_library("libnvJitLink.so.13"));
    linker.env("CUDA_HOME", toolkit).current_dir(folder);
    let run = linker.output().with_context(|| format!("{linker:?}"))?;
    let made = fs::read(folder.join(output)).ok();
    if made.is_some() {
        fs::remove_file(folder.join(output))?;
    }
    Ok((run.status.code(), made))
}

fn compared(expected: Option<&[u8]>, actual: Option<&[u8]>, expect: Expect) -> Option<String> {
    match (expected, actual) {
        _ if expect == Refused => None,
        (None, None) => None,
        (Some(expected), Some(actual)) if !expected.starts_with(b"\x7fELF") => {
            (expected != actual).then(|| "another text".to_owned())
        }
        (Some(expected), Some(actual)) if expect == Same => compare::cubins(expected, actual),
        (Some(expected), Some(actual)) => {
            let kernels = (kernels(expected), kernels(actual));
            (kernels.0 != kernels.1).then(|| format!("kernels {kernels:?}"))
        }
        _ => Some("only one of them has made an output".to_owned()),
    }
}

/// The names of the kernels of a cubin.
fn kernels(cubin: &[u8]) -> Option<Vec<String>> {
    let all = culd_testkit::layouts::kernel_parameters(cubin).ok()?;
    let mut names: Vec<String> =
        all.into_iter().filter(|(_, one)| one.size != 0).map(|(name, _)| name).collect();
    names.sort();
    Some(names)
}
