//! Suite `lto`: compares `nvlink -dlto` and `culd -dlto` with LTO-IR of nvcc, alone and with other
//! code.
//!
//! In: sources, and rows with the files and options of links. Out: a table with a row for each kind
//! of link. Guaranteed: exit code 1 if exit status, messages, image or register file differ in a
//! way that no row lists.

mod again;
mod families;
mod generated;
mod images;
mod kinds;
mod listed;
mod nvcc;
pub(crate) mod sources;
mod steps;
mod times;
mod values;

use super::Suite;
use super::setup::{Common, Setup};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::fixtures::case::plain_lines;
use culd_testkit::reference::compare;
use culd_testkit::reference::compare::code::{CodeSize, functions};
use culd_testkit::reference::compare::trial::{Tools, is_own, without_stale_barriers};
use culd_testkit::reference::oracle::process::{self, Run};
use families::{FAMILIES, VIRTUAL};
use listed::{DifferingLink, ListedDifference};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "lto",
    about: "objects of nvcc -dlto, with nvlink -dlto and culd -dlto",
    takes: &[Common::Releases, Common::Archs("sm_90"), Common::Seeds(0, 6)],
    help: "\
\x20 --family F[,F]   whole mixed devrt objects host options words beside register images virtual steps again
                   generated kinds nvcc values (default: all but the last four); the first two have seeds
  --code           registers and bytes of code of every program, by both linkers
\x20 --times N        times instead, medians of N rounds
culd-lto has to lie beside the linker under test. By 12.4, with its toolkit in the folder of CULD_TOOLKITS.
",
    run,
};

/// The number in the name of a target: 120 for `sm_120a`.
fn target_number(arch: &str) -> u32 {
    let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// A link takes seconds, much more on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The data of the comparison.
struct LtoBench {
    tools: Tools,
    arch: String,
    /// Of the sources.
    folder: PathBuf,
    keep: PathBuf,
    /// Registers and bytes are reported.
    code: bool,
    /// Counts by kind: equal links, and links by listed difference.
    counts: BTreeMap<String, LtoCounts>,
    /// The outputs of nvlink and culd in earlier steps, if the link is a later step.
    steps: Vec<Vec<u8>>,
    /// culd's object of the earlier step, and nvlink's program of it, where there is one.
    sound: Option<[Vec<u8>; 2]>,
    /// Sums over the kernels of equal and listed links: nvlink's, culd's.
    sums: [CodeSize; 2],
    /// Kernels of culd with more registers or bytes than nvlink's.
    worse: Vec<String>,
}

#[derive(Default)]
struct LtoCounts {
    equal: usize,
    /// By the entries that explain the difference.
    listed: BTreeMap<String, usize>,
    different: usize,
}

/// The result of a linker.
struct LtoLink {
    run: Run,
    output: Option<Vec<u8>>,
    register: Option<Vec<u8>>,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let usual = "whole,mixed,devrt,objects,host,options,words,register,images,virtual,steps,again";
    let wanted = setup.args.option("--family")?.unwrap_or_else(|| usual.to_owned());
    let wanted: Vec<String> = wanted.split(',').map(str::to_owned).collect();
    let code = setup.args.flag("--code");
    let rounds: Option<usize> = setup.args.option("--times")?;
    setup.finish()?;
    let seeds = setup.bounded_seeds()?;
    let own = |name: &&String| FAMILIES.iter().any(|family| family.name == name.as_str());
    let others = ["again", "images", "generated", "kinds", "nvcc", "steps", "values"];
    if let Some(name) = wanted.iter().find(|name| !own(name) && !others.contains(&name.as_str())) {
        bail!("no family is called '{name}'");
    }
    let mut different = 0;
    for release in &setup.releases() {
        for arch in &setup.archs {
            let folder = tempfile::tempdir()?;
            let oracle = workspace::oracle_with_lto(release.parse()?, folder.path())?;
            let tools = setup.tools_with(oracle)?;
            let mut bench = LtoBench {
                tools,
                arch: arch.0.to_owned(),
                folder: folder.path().to_owned(),
                keep: setup.keep.join(format!("{release}-{arch}")),
                code,
                counts: BTreeMap::new(),
                steps: Vec::new(),
                sound: None,
                sums: [CodeSize::default(); 2],
                worse: Vec::new(),
            };
            if let Some(rounds) = rounds {
                times::run(&bench, rounds)?;
                continue;
            }
            bench.check_open_roots()?;
            // Before 13.0 -r makes a program, which is no input of a later step.
            let is_old = !bench.tools.oracle.release().is_of_13();
            for name in wanted.iter().filter(|name| !is_old || name.as_str() != "steps") {
                match name.as_str() {
                    "again" => again::run(&mut bench)?,
                    "images" => images::run(&mut bench)?,
                    "generated" => generated::run(&mut bench, seeds.clone())?,
                    "kinds" => kinds::run(&mut bench, seeds.clone())?,
                    "nvcc" => nvcc::run(&mut bench)?,
                    "steps" => steps::run(&mut bench)?,
                    "values" => values::run(&mut bench)?,
                    _ => bench.family(name)?,
                }
            }
            different += bench.end();
        }
    }
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl LtoBench {
    fn release(&self) -> &'static str {
        self.tools.oracle.release().name
    }

    /// Has libnvvm 13.0 make the LTO-IR again that culd-lto has of it.
    fn check_open_roots(&self) -> Result<()> {
        if self.release() != "13.0" {
            return Ok(());
        }
        let nvvm = self.tools.oracle.toolkit_library("libnvvm.so.4");
        let made = culd_lto::lto_ir(&nvvm, culd_lto::OPEN_ROOTS_TEXT, "-arch=sm_75")?;
        ensure!(
            made == culd_lto::OPEN_ROOTS,
            "crates/lto/src/open_roots.ltoir is not that of libnvvm"
        );
        Ok(())
    }

    /// The release as a number, 130 for 13.0.
    fn toolkit(&self) -> u16 {
        self.release().replace('.', "").parse().unwrap_or(0)
    }

    fn family(&mut self, name: &str) -> Result<()> {
        let family = FAMILIES.iter().find(|family| family.name == name).context("a family")?;
        let mut fixed = self.fixed(true)?;
        if name == VIRTUAL {
            fixed[0] = fixed[0].replace("sm_", "compute_");
        }
        for (words, listed) in family.links {
            let mark = if words.contains('\t') { '\t' } else { ' ' };
            let words: Vec<String> = words.split(mark).map(str::to_owned).collect();
            for word in &words {
                let (oracle, folder) = (&self.tools.oracle, &self.folder);
                sources::make(oracle, &self.arch, folder, word)?;
            }
            self.compare_with(&fixed, name, &words, listed)?;
        }
        Ok(())
    }

    /// The words in front of those of a link, with LTO-IR or without.
    fn fixed(&self, lto: bool) -> Result<Vec<String>> {
        let library = self.tools.oracle.toolkit().join("lib");
        let mut fixed = vec![format!("-arch={}", self.arch), format!("-L{}", library.display())];
        if lto {
            fixed.push("-dlto".to_owned());
            fixed.push(format!("-nvvmpath={}", self.nvvm()?.display()));
        }
        Ok(fixed)
    }

    /// Compares a link of LTO-IR.
    fn compare(&mut self, kind: &str, words: &[String], listed: &[ListedDifference]) -> Result<()> {
        let fixed = self.fixed(true)?;
        self.compare_with(&fixed, kind, words, listed).map(|_| ())
    }

    /// Links with both and counts the result. Returns the outputs if both have one.
    fn compare_with(
        &mut self,
        fixed: &[String],
        kind: &str,
        words: &[String],
        listed: &[ListedDifference],
    ) -> Result<Option<[Vec<u8>; 2]>> {
        let all = [fixed, words].concat();
        let theirs = self.link(self.tools.oracle.command("nvlink"), &all)?;
        let ours = self.link(self.candidate(), &all)?;
        let difference = self.difference(&all, &theirs, &ours);
        let differing = DifferingLink { bench: self, fixed, words, theirs: &theirs, ours: &ours };
        let accounted = match difference {
            Some(_) => differing.accounted(listed)?,
            None => None,
        };
        let counts = self.counts.entry(kind.to_owned()).or_default();
        match (difference, accounted) {
            (None, _) => counts.equal += 1,
            (_, Some(listed)) => *counts.listed.entry(listed).or_default() += 1,
            (Some(what), None) => {
                counts.different += 1;
                let (release, words) = (self.release(), words.join(" "));
                println!("{release} {} {kind}: {words}: {what}", self.arch);
                self.keep(words.split(' '), &theirs, &ours)?;
            }
        }
        self.add_code(words, &theirs, &ours);
        Ok(theirs.output.zip(ours.output).map(<[Vec<u8>; 2]>::from))
    }

    /// The linker under test, to be run with words.
    fn candidate(&self) -> Command {
        let mut culd = Command::new(&self.tools.candidate);
        culd.arg(format!("--dialect={}", self.release()));
        culd.env("CUDA_HOME", self.tools.oracle.toolkit()).env_remove("LD_LIBRARY_PATH");
        culd
    }

    /// The nvvm folder of a toolkit; an installation from wheels may have no library in it.
    fn nvvm(&self) -> Result<PathBuf> {
        let folder = self.tools.oracle.toolkit().join("nvvm");
        if folder.join("lib64/libnvvm.so").exists() {
            return Ok(folder);
        }
        let folder = self.folder.join("nvvm");
        let link = folder.join("lib64/libnvvm.so");
        if !link.exists() {
            fs::create_dir_all(folder.join("lib64"))?;
            std::os::unix::fs::symlink(self.tools.oracle.toolkit_library("libnvvm.so.4"), link)?;
        }
        Ok(folder)
    }

    fn link(&self, linker: Command, words: &[String]) -> Result<LtoLink> {
        let own = Path::new(linker.get_program()) == self.tools.candidate;
        if let Some(object) = self.steps.get(usize::from(own)) {
            fs::write(self.folder.join(steps::OBJECT), object)?;
        }
        self.link_as_it_is(linker, words)
    }

    /// The same with the object of the first step that lies there.
    fn link_as_it_is(&self, mut linker: Command, words: &[String]) -> Result<LtoLink> {
        let (output, register) = (self.folder.join("out"), self.folder.join("reg"));
        for file in [&output, &register] {
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        linker.args(words).args(["-o", "out"]).current_dir(&self.folder);
        let run = process::run(&mut linker, LIMIT).with_context(|| format!("{linker:?}"))?;
        Ok(LtoLink { run, output: fs::read(output).ok(), register: fs::read(register).ok() })
    }

    /// Where the two part.
    fn difference(&self, words: &[String], theirs: &LtoLink, ours: &LtoLink) -> Option<String> {
        if theirs.run.status != ours.run.status {
            let status = (&ours.run.status, &theirs.run.status);
            return Some(format!(
                "{} instead of {}: {}",
                status.0,
                status.1,
                ours.run.stderr_text()
            ));
        }
        let [expected, actual] = both_messages(&theirs.run, &ours.run, "culd");
        if expected != actual {
            return Some(format!("messages {actual:?} instead of {expected:?}"));
        }
        if theirs.register != ours.register {
            let text = |file: &Option<Vec<u8>>| {
                file.as_deref().map(|text| String::from_utf8_lossy(text).into_owned())
            };
            let files = (text(&ours.register), text(&theirs.register));
            return Some(format!("register file {:?} instead of {:?}", files.0, files.1));
        }
        self.compare_outputs(words, theirs, ours)
    }

    fn compare_outputs(
        &self,
        words: &[String],
        theirs: &LtoLink,
        ours: &LtoLink,
    ) -> Option<String> {
        match (&theirs.output, &ours.output) {
            (None, None) => None,
            (Some(expected), Some(actual)) if !expected.starts_with(b"\x7fELF") => {
                (expected != actual).then(|| "another text".to_owned())
            }
            (Some(expected), Some(actual)) => {
                let outputs = [expected, actual];
                let [expected, actual] = &self.without_notes_of_steps(outputs);
                let what = compare::outputs_in(words, &self.folder, expected, actual).err()?;
                // docs/DIFFERENCES.md: then the record of ptxas names its files, and for targets
                // such as sm_100f nvlink's names sm_100.
                let note = what.ends_with("sections that differ: .note.nv.tkinfo")
                    || what.starts_with(".note.nv.tkinfo: ");
                let same_code = self.has_same_code(words, [expected, actual]);
                let debug = words.iter().any(|word| word == "-g");
                let family = self.arch.ends_with('f');
                (!(note && same_code && (debug || family))).then_some(what)
            }
            _ => Some("only one of them has made an output".to_owned()),
        }
    }

    /// True if all functions of both `outputs` have the same sizes and registers. From sm_100 on
    /// nvlink writes code of other inputs anew, which does not count then.
    fn has_same_code(&self, words: &[String], outputs: [&[u8]; 2]) -> bool {
        let mut others = BTreeMap::new();
        if target_number(&self.arch) >= 100 {
            let objects = compare::objects_in(words, &self.folder);
            others.extend(objects.iter().filter_map(|object| functions(object)).flatten());
        }
        let [expected, actual] = outputs.map(|output| {
            let mut found = functions(output)?;
            found.retain(|name, _| !others.contains_key(name));
            Some(found)
        });
        expected == actual
    }

    /// Outputs without the notes that the linkers left in the objects of earlier steps.
    fn without_notes_of_steps(&self, outputs: [&Vec<u8>; 2]) -> [Vec<u8>; 2] {
        let mut steps = self.steps.iter();
        outputs.map(|output| match steps.next() {
            Some(object) => compare::without_note_of(output, object),
            None => output.clone(),
        })
    }

    /// Adds the kernels of both images if both have the same.
    fn add_code(&mut self, words: &[String], theirs: &LtoLink, ours: &LtoLink) {
        let of = |done: &LtoLink| done.output.as_deref().and_then(functions);
        let (Some(expected), Some(actual)) = (of(theirs), of(ours)) else { return };
        for (name, theirs) in &expected {
            let Some(ours) = actual.get(name) else { continue };
            for (sum, code) in self.sums.iter_mut().zip([theirs, ours]) {
                sum.bytes += code.bytes;
                sum.registers += code.registers;
            }
            if ours.bytes > theirs.bytes || ours.registers > theirs.registers {
                self.worse.push(format!(
                    "{}: {name}: {} registers, {} bytes; nvlink {}, {}",
                    words.join(" "),
                    ours.registers,
                    ours.bytes,
                    theirs.registers,
                    theirs.bytes
                ));
            }
        }
    }

    /// Writes inputs and outputs of a link, for inspection.
    fn keep<'w>(
        &self,
        words: impl Iterator<Item = &'w str> + Clone,
        theirs: &LtoLink,
        ours: &LtoLink,
    ) -> Result<()> {
        let name: Vec<&str> = words.clone().collect();
        let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
        let folder = self.keep.join(name.join("_").chars().map(plain).collect::<String>());
        fs::create_dir_all(&folder)?;
        for word in words {
            let file = self.folder.join(word);
            if file.is_file() {
                fs::copy(&file, folder.join(Path::new(word).file_name().unwrap_or_default()))?;
            }
        }
        for (name, done) in [("nvlink", theirs), ("culd", ours)] {
            if let Some(output) = &done.output {
                fs::write(folder.join(format!("out.{name}")), output)?;
            }
        }
        Ok(())
    }

    /// Prints the table and returns the number of differences.
    fn end(self) -> usize {
        println!("\n{}, {}", self.release(), self.arch);
        println!("| links | equal | listed | different |\n|---|--:|---|--:|");
        let mut all = LtoCounts::default();
        for (kind, counts) in &self.counts {
            println!("{}", row(kind, counts));
            all.equal += counts.equal;
            all.different += counts.different;
            for (listed, count) in &counts.listed {
                *all.listed.entry(listed.clone()).or_default() += count;
            }
        }
        println!("{}", row("all", &all));
        let [theirs, ours] = self.sums;
        println!(
            "functions that both have: nvlink {} registers, {} bytes; culd {}, {}; culd has more in {}",
            theirs.registers,
            theirs.bytes,
            ours.registers,
            ours.bytes,
            self.worse.len()
        );
        if self.code {
            self.worse.iter().for_each(|line| println!("  {line}"));
        }
        all.different
    }
}

fn row(kind: &str, counts: &LtoCounts) -> String {
    let listed: Vec<String> =
        counts.listed.iter().map(|(listed, count)| format!("{listed} {count}")).collect();
    format!("| {kind} | {} | {} | {} |", counts.equal, listed.join(", "), counts.different)
}

/// The lines of nvlink that count, and those of culd, whose program is called `program`.
fn both_messages(theirs: &Run, ours: &Run, program: &str) -> [Vec<String>; 2] {
    let text = match theirs.stderr_text().contains(" barriers, ") {
        true => without_stale_barriers(theirs, ours),
        false => theirs.stderr_text(),
    };
    // docs/DIFFERENCES.md, escaped-names.
    let expected = messages(&text.replace('\t', "\\t"), "nvlink");
    [expected, messages(&ours.stderr_text(), program)]
}

/// The lines that count. Times differ; of equal lines one after the other nvlink has more
/// (docs/DIFFERENCES.md, stack-warning-once).
fn messages(text: &str, program: &str) -> Vec<String> {
    let lines = plain_lines(text, program);
    let counts = |line: &String| {
        !line.trim().is_empty() && !line.contains("Compile time = ") && !is_own(line)
    };
    let mut lines: Vec<String> = lines.into_iter().filter(counts).collect();
    lines.dedup();
    lines
}
