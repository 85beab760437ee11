//! Links LTO-IR with both libraries, alone and with other code.
//!
//! In: sources of suite `lto`, rows with the options and inputs of a link. Out: a line for each
//! that differs. Guaranteed: results, logs, PTX and images count; a row that names an entry of
//! docs/JITLINK.md or docs/DIFFERENCES.md has to differ.

use super::super::lto::sources;
use super::super::tally::Checks;
use super::{CallTranscript, JitLinkBench, LIMIT, compare_images, first_difference, groups, timed};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::wheels::Environment;
use culd_testkit::reference::oracle::{Oracle, Release, process};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options and inputs, and `complete` where a link is made before more inputs come. Behind a `#`:
/// the entry that explains a difference, and where it occurs: `old` is 13.0 to 13.2, `later` sm_100
/// and later. The target is `sm_@`, for the number of an architecture, or `compute_@`.
const ROWS: &str = "\
a.ltoir b.ltoir c.ltoir
c.ltoir b.ltoir a.ltoir
a.o b.o c.o
a.fatbin b.ltoir c.o
x.ltoir
a.ltoir
lost.ltoir
calls.ltoir
child.ltoir
child.ltoir -lcudadevrt
parts.ltoir more.ltoir
x.ltoir -r # relocatable old
a.ltoir -r # relocatable old
a.ltoir b.ltoir c.ltoir -r # relocatable old
a.ltoir b.ltoir c.ltoir -time
a.ltoir b.ltoir c.ltoir -g
a.ltoir b.ltoir c.ltoir -lineinfo
a.ltoir b.ltoir c.ltoir -kernels-used=k2
a.ltoir b.ltoir c.ltoir -kernels-used=nosuch
a.ltoir b.ltoir c.ltoir -variables-used=count
a.ltoir b.ltoir c.ltoir -kernels-used=k2 -optimize-unused-variables
a.ltoir b.ltoir c.ltoir -maxrregcount=16
a.ltoir b.ltoir c.ltoir -O0
a.ltoir b.ltoir c.ltoir -Ofc=min
a.ltoir b.ltoir c.ltoir -Ofc=mid
fast.ltoir slow.ltoir -ftz=1 -prec-div=0 -fma=0
fast.ltoir slow.ltoir -Xnvvm=-opt=0
fast.ltoir slow.ltoir -Xnvvm=-bogus
fast.ltoir slow.ltoir -Xptxas=-bogus
fast.ltoir slow.ltoir -Xptxas=-v
fast.ltoir slow.ltoir -split-compile=1
fast.ltoir slow.ltoir -fast-compile
fast.ltoir slow.ltoir -ptx
a.ltoir -ptx
newer.ltoir
newer.ltoir x.ltoir
x.ltoir newer.ltoir
x.ltoir newer.ltoir -ptx
newer.ltoir x.cubin
x.ltoir x.ltoir
x.ltoir -ptx -arch=compute_@
xi.o -ptx -arch=compute_@
x.ltoir x.ptx -ptx -arch=compute_@
x.ltoir x.cubin -ptx -arch=compute_@
x.ltoir -arch=sm_@
x.ltoir -ptx -r
x.ltoir far.cubin
x.ltoir far.cubin -ptx
a.ltoir complete b.ltoir c.ltoir
a.ltoir complete b.ltoir c.ltoir complete
x.ltoir complete c.ltoir -ptx
x.ltoir complete x.cubin -ptx
x.ltoir complete x.ltoir
x.cubin complete c.ltoir
x.cubin complete x.ltoir -ptx
a.ltoir b.cubin complete c.ltoir # partial-image
x.ltoir complete x.ltoir -Xnvvm=-bogus

-ptx
x.cubin
x.cubin -ptx
x.ptx -Ofc=max
x.cubin x.ltoir # errors
x.ltoir x.cubin # errors
a.ltoir b.ltoir c.cubin
a.ltoir b.ltoir c.ptx
c.ptx a.ltoir b.ltoir
a.ltoir b.cubin c.cubin
a.ltoir b.ptx c.ltoir
a.ltoir b.cubin c.ltoir
c.ltoir x.cubin
a.ltoir b.ltoir c.ltoir x.cubin
x.cubin c.ltoir b.ltoir a.ltoir -g # kept later
a.ltoir b.ltoir c.ltoir x.ptx -kernels-used=k2
a.ltoir b.ltoir c.ltoir x.cubin -optimize-unused-variables
fast.ltoir slow.ltoir -lcudadevrt
fast.ltoir slow.ltoir -lcudadevrt -lineinfo
a.ltoir b.ltoir c.cubin -split-compile-extended=2
a.ltoir b.ltoir c.cubin -optimize-unused-variables
fast.ltoir slow.cubin
fast.ltoir slow.cubin -fast-compile
fast.ltoir slow.ptx -fast-compile
slow.ltoir fast.cubin
slow.ltoir fast.ptx
a.ltoir b.ltoir c.ptx -Ofc=min
a.ltoir b.ltoir c.cubin -kernels-used=k2
a.ltoir b.ltoir c.cubin -r
a.ltoir b.ltoir c.cubin -g # kept later
a.ltoir b.ltoir c.cubin -ptx
a.ltoir b.ltoir c.cubin -time
c.cubin a.ltoir b.ptx -time
parts.ltoir more.cubin needs.cubin
parts.ltoir more.ltoir needs.cubin # closed
parts.ltoir more.ltoir needs.ptx -maxrregcount=24 # closed
pooli.o pooled.cubin # closed
tilei.o tiled.cubin
tile.o tiled.cubin
tile.ltoir tiled.cubin -lineinfo
tile.ltoir tiled.cubin -g # kept later
locali.o xi.o y.cubin
partsi.o more.cubin needs.cubin
ai.o b.cubin c.cubin
ai.o bi.o c.cubin
c.cubin bi.o ai.o
";

/// PTX is compiled with `-Ofc` even if nothing is LTO-IR.
const PLAIN: &[&str] = &[
    "x.ptx c.ptx -Ofc=max",
    "fast.ptx slow.ptx -Ofc=min",
    "fast.ptx slow.ptx -fast-compile",
    "fast.ptx slow.ptx",
];

/// The numbers of the kinds of inputs.
const KINDS: &[(&str, u32)] = &[("cubin", 1), ("ptx", 2), ("ltoir", 3), ("fatbin", 4), ("o", 5)];

/// An architecture whose LTO-IR is newer than every target here, and whose cubins are for none.
const NEWER: &str = "sm_121";
/// Inputs for it, and what they are called when they are made.
const NEWER_INPUTS: &[(&str, &str)] = &[("newer.ltoir", "z.ltoir"), ("far.cubin", "z.cubin")];
/// A target for which only PTX can be made.
const VIRTUAL: &str = "-arch=compute_@";

/// Inputs that NVRTC makes, and their sources.
const NVRTC: [&str; 3] = ["ltoir", "ptx", "cubin"];
const NVRTC_SOURCES: [&str; 10] =
    ["a", "b", "c", "x", "fast", "slow", "parts", "more", "needs", "lost"];

/// The call that makes a link.
const COMPLETE: &str = "complete";

/// Links that are timed: LTO-IR alone, programs of their own with a cubin, LTO-IR and a cubin that
/// need each other, PTX.
const TIMED: [&str; 5] = [
    "more.ltoir parts.ltoir",
    "calls.ltoir b.cubin",
    "fast.ltoir slow.cubin",
    "parts.ltoir more.cubin",
    "c.ptx b.cubin",
];
/// Links of each library that are timed.
const ROUNDS: &str = "41";

/// Options of our library: LTO-IR is compiled once at a time, and twice, whatever else the machine
/// does.
const OWN_OPTIONS: [&str; 2] = ["-threads=1", "-threads=2"];

/// The maker of the inputs.
enum InputMaker {
    Nvcc,
    /// The library, in its own environment.
    Nvrtc(PathBuf),
}

struct LtoRow {
    words: String,
    /// An entry, if the link differs.
    listed: Option<String>,
}

pub(super) fn run(
    bench: &JitLinkBench,
    releases: &str,
    archs: &[String],
    work: &Path,
    checks: &mut Checks,
) -> Result<()> {
    for release in releases.split(',') {
        let oracle = workspace::oracle_of(release.parse()?)?;
        for arch in archs {
            for maker in [InputMaker::Nvcc, InputMaker::Nvrtc(nvrtc(release)?)] {
                links(bench, &oracle, release, arch, &maker, work, checks)?;
            }
        }
    }
    Ok(())
}

/// Times links by the libraries of `releases`, and by ours with these.
pub(super) fn times(
    bench: &JitLinkBench,
    releases: &str,
    archs: &[String],
    work: &Path,
) -> Result<()> {
    println!("us of NVIDIA's, us of ours, median of the ratios");
    for release in releases.split(',') {
        let oracle = workspace::oracle_of(release.parse()?)?;
        for arch in archs {
            let dir = work.join(format!("lto-{release}-sm_{arch}"));
            fs::create_dir_all(&dir)?;
            for row in TIMED {
                let inputs: Vec<&str> = row.split(' ').collect();
                for name in &inputs {
                    sources::make(&oracle, &format!("sm_{arch}"), &dir, name)?;
                }
                let original = oracle.toolkit_library("libnvJitLink.so.13");
                let mut timer = bench.timer(&original, arch, ROUNDS);
                set_toolkit(timer.args(inputs).current_dir(&dir), &oracle);
                println!("{release} sm_{arch} {row}\n{}", timed(&mut timer)?);
            }
        }
    }
    Ok(())
}

/// Has our library in `command` use NVIDIA's programs of `oracle`.
fn set_toolkit(command: &mut Command, oracle: &Oracle) {
    command.env("CULD_NVJITLINK", oracle.toolkit_library("libnvJitLink.so.13"));
    command.env("CULD_PTXAS", oracle.toolkit().join("bin/ptxas"));
    command.env("CUDA_HOME", oracle.toolkit());
}

/// Compares the links of one release for one target, with inputs of one maker.
fn links(
    bench: &JitLinkBench,
    oracle: &Oracle,
    release: &str,
    arch: &str,
    maker: &InputMaker,
    work: &Path,
    checks: &mut Checks,
) -> Result<()> {
    let (name, mut rows) = match maker {
        InputMaker::Nvcc => ("", rows(release, arch)),
        InputMaker::Nvrtc(_) => (" NVRTC", rows(release, arch)),
    };
    if matches!(maker, InputMaker::Nvrtc(_)) {
        rows.retain(LtoRow::is_for_nvrtc);
    }
    let dir = work.join(format!("lto-{release}-sm_{arch}{}", name.trim()));
    fs::create_dir_all(&dir)?;
    let list = list(bench, oracle, arch, maker, &dir, &rows)?;
    let path = dir.join("list");
    fs::write(&path, list)?;
    let theirs = transcript(bench, oracle, arch, &dir, None)?;
    let mut found: Vec<Option<String>> = vec![None; rows.len()];
    for option in OWN_OPTIONS {
        let ours = transcript(bench, oracle, arch, &dir, Some((&bench.under_test, option)))?;
        for (number, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            let what = difference(&dir, arch, &number.to_string(), &theirs, &ours)?;
            *found = what.map(|what| format!("{option}: {what}"));
        }
    }
    for (row, what) in rows.iter().zip(found) {
        let what = match (&row.listed, what) {
            (Some(_), Some(_)) => None,
            (Some(key), None) => Some(format!("the same, but listed under *{key}*")),
            (None, what) => what,
        };
        checks.add(&format!("{release} sm_{arch}{name} {}", row.words), what.as_deref());
    }
    Ok(())
}

/// The NVRTC of the release.
fn nvrtc(release: &str) -> Result<PathBuf> {
    let release: &'static Release = release.parse()?;
    // Of 13.3 there is none of the build of nvcc's.
    let of_library = |wheel: &&&str| wheel.starts_with("nvidia-nvjitlink");
    let library = release.wheels.iter().find(of_library).context("the library's wheel")?;
    let wheel = library.replace("nvidia-nvjitlink", "nvidia-cuda-nvrtc");
    let folder = workspace::target().join(format!("nvrtc-{}", release.name));
    let environment = Environment::install_alone(&folder, &[&wheel])?;
    Ok(environment.package("nvidia/cu13")?.join("lib/libnvrtc.so.13"))
}

impl LtoRow {
    /// True if NVRTC makes all its inputs.
    fn is_for_nvrtc(&self) -> bool {
        let mut inputs =
            self.words.split_whitespace().filter(|word| !word.starts_with('-')).peekable();
        let made = |name: &str| {
            name.split_once('.').is_some_and(|(stem, ending)| {
                NVRTC.contains(&ending) && NVRTC_SOURCES.contains(&stem)
            })
        };
        inputs.peek().is_some() && inputs.all(made) && !self.words.contains("-lcudadevrt")
    }
}

/// The rows, with the entries for this release and target.
fn rows(release: &str, arch: &str) -> Vec<LtoRow> {
    let old = release < "13.3";
    let later = arch.parse::<u32>().is_ok_and(|number| number >= 100);
    let with_lto = ROWS.lines().map(|row| {
        let (words, note) = row.split_once('#').unwrap_or((row, ""));
        let mut note = note.split_whitespace();
        let key = note.next();
        let here = match note.next() {
            Some("old") => old,
            Some("later") => later,
            _ => true,
        };
        let listed = key.filter(|_| here).map(str::to_owned);
        LtoRow { words: format!("-lto {}", words.trim()), listed }
    });
    let plain = PLAIN.iter().map(|&words| LtoRow { words: words.to_owned(), listed: None });
    with_lto.chain(plain).collect()
}

/// The calls; makes the inputs.
fn list(
    bench: &JitLinkBench,
    oracle: &Oracle,
    arch: &str,
    maker: &InputMaker,
    dir: &Path,
    rows: &[LtoRow],
) -> Result<String> {
    let mut list = String::new();
    let target = format!("sm_{arch}");
    for (number, row) in rows.iter().enumerate() {
        let (options, inputs): (Vec<&str>, Vec<&str>) =
            row.words.split_whitespace().partition(|word| word.starts_with('-'));
        let system = options.contains(&"-lcudadevrt");
        let mut options: Vec<&str> =
            options.into_iter().filter(|word| !word.starts_with("-lc")).collect();
        if !options.contains(&VIRTUAL) {
            options.insert(0, "-arch=sm_@");
        }
        writeln!(list, "= {number}\ncreate {}", options.join(" "))?;
        for name in inputs {
            if name == COMPLETE {
                writeln!(list, "{COMPLETE}")?;
                continue;
            }
            let newer = NEWER_INPUTS.iter().find(|newer| newer.0 == name);
            if let InputMaker::Nvrtc(library) = maker {
                compile(bench, library, arch, dir, name)?;
            } else if let Some((_, made)) = newer {
                if !dir.join(name).exists() {
                    sources::make(oracle, NEWER, dir, made)?;
                    fs::rename(dir.join(made), dir.join(name))?;
                }
            } else {
                sources::make(oracle, &target, dir, name)?;
            }
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            let kind = KINDS.iter().find(|kind| kind.0 == ending).context("a kind of input")?;
            writeln!(list, "data {} {name} {name}", kind.1)?;
        }
        if system {
            let library = oracle.toolkit().join("lib/libcudadevrt.a");
            writeln!(list, "file 6 {}", library.display())?;
        }
        writeln!(list, "complete\nlogs\ncubin {number}\nptx {number}\ndestroy")?;
    }
    Ok(list)
}

/// Makes the file called `name` in `dir` with NVRTC.
fn compile(bench: &JitLinkBench, library: &Path, arch: &str, dir: &Path, name: &str) -> Result<()> {
    if dir.join(name).exists() {
        return Ok(());
    }
    let (stem, kind) = name.split_once('.').context("a name with its ending")?;
    let source = format!("{stem}.cu");
    fs::write(dir.join(&source), sources::text(stem).context("a source")?)?;
    let mut python = Command::new("python3");
    python.arg(bench.folder.join("nvrtc.py")).arg(library).args([kind, arch, &source, name]);
    let folder = library.parent().context("the library's folder")?;
    let run = process::run(python.current_dir(dir).env("LD_LIBRARY_PATH", folder), LIMIT)?;
    ensure!(run.status.success(), "nvrtc.py: {}", run.stderr_text());
    Ok(())
}

/// Runs the calls against NVIDIA's library, or `own`.
fn transcript(
    bench: &JitLinkBench,
    oracle: &Oracle,
    arch: &str,
    dir: &Path,
    own: Option<(&PathBuf, &str)>,
) -> Result<CallTranscript> {
    let out = dir.join(if own.is_some() { "ours" } else { "theirs" });
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    let original = oracle.toolkit_library("libnvJitLink.so.13");
    let mut command = Command::new(&bench.program);
    let library = own.map_or(&original, |(library, _)| library);
    command.arg(library).arg(dir.join("list")).arg(arch);
    set_toolkit(command.current_dir(dir).env("OUT", &out), oracle);
    if let Some((_, option)) = own {
        command.env("OWN_OPTION", option);
    }
    let run = process::run(&mut command, LIMIT)?;
    ensure!(run.status.success(), "{command:?}: {}: {}", run.status, run.stderr_text());
    Ok(groups(&String::from_utf8_lossy(&run.stdout)))
}

/// The difference of a link.
fn difference(
    dir: &Path,
    arch: &str,
    number: &str,
    theirs: &CallTranscript,
    ours: &CallTranscript,
) -> Result<Option<String>> {
    let of = |transcript: &CallTranscript| transcript.get(number).cloned().unwrap_or_default();
    if let Some(what) = first_difference(&of(theirs), &of(ours)) {
        return Ok(Some(what));
    }
    for kind in ["cubin", "ptx"] {
        let files = ["theirs", "ours"].map(|side| dir.join(side).join(format!("{number}.{kind}")));
        if !files[0].exists() {
            continue;
        }
        let [expected, actual] = [fs::read(&files[0])?, fs::read(&files[1])?];
        let same = match kind {
            // The folder has the same functions as cubins, compiled with other options.
            _ if expected == actual => Ok(()),
            "cubin" => match compare_images(dir, arch, number, &expected, &actual) {
                // The tool notes of PTX that was compiled on the way may have another length.
                Err(what) if what.ends_with("sections that differ: .note.nv.tkinfo") => Ok(()),
                same => same,
            },
            _ => Err("another text".to_owned()),
        };
        if let Err(what) = same {
            return Ok(Some(format!("{kind}: {what}")));
        }
    }
    Ok(None)
}
