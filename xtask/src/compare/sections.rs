//! Suite `sections`: programs with about 65,280 sections and more.
//!
//! In: objects made in memory, alone and in front of the recorded cases; those of the benchmark's
//! case. Out: a line for each link that differs. Guaranteed: all bytes count except the linkers'
//! own notes; both linkers link the objects of either. An object in front takes nearly all indices
//! that fit. So the table of section indices has those of a small program's sections, and with them
//! the number and order of created sections of each kind.

use super::Suite;
use super::setup::Setup;
use super::tally::{Tally, VerdictCounts};
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::fixtures::case;
use culd_testkit::fixtures::many::{ObjectForm, object};
use culd_testkit::reference::compare::cubins;
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::reference::oracle::process;
use culd_testkit::reference::readers::{self, FunctionPlace};
use culd_testkit::scale;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "sections",
    about: "programs around and beyond 65,280 sections",
    takes: &[],
    help: "\
\x20 --cases          the recorded cases behind such an object, each as it is, with -g and with --preserve-relocs; operands:
                   [TOPIC | TOPIC/CASE]...
Objects of 65,274 to 70,000 sections, all functions live or nearly none, in one step and in two; then 17,100 kernels of
sm_100, and 400 objects of 122,416 sections together, with options; goblin and readelf read the programs.
",
    run,
};

/// SM number, sections of the input, the live part of its functions: around the limits of inputs,
/// programs and objects, and beyond.
const INPUTS: &[(u16, usize, usize)] = &[
    (80, 65_274, 1),
    (90, 65_274, 1),
    (80, 65_275, 1),
    (90, 65_275, 1),
    (80, 65_276, 1),
    (90, 65_277, 1),
    (80, 65_278, 1),
    (90, 65_279, 1),
    (80, 65_280, 1),
    (90, 65_281, 1),
    (80, 65_400, 1),
    (90, 65_400, 1),
    (90, 70_000, 100),
];

/// Objects with at least so many sections are linked again.
const TWO_STEPS: usize = 65_300;

/// nvlink needs about a second.
const LIMIT: Duration = Duration::from_secs(120);

/// Sections of the object in front of a case: the case's own are those that no longer fit.
const IN_FRONT: usize = 65_262;

/// The options for each case besides its own.
const CASE_OPTIONS: [Option<&str>; 3] = [None, Some("-g"), Some(PRESERVE)];
const PRESERVE: &str = "--preserve-relocs";

/// The options for the benchmark's objects in one step.
const LARGE_OPTIONS: [&[&str]; 4] =
    [&[], &["-g"], &[PRESERVE], &["-kernels-used=k_M0000001_00000,k_M0000002_00000"]];
const ARCH: &str = "sm_90";

/// Files of sm_100, and kernels in each: each has three sections in the first half and two in the
/// second, so that 65,280 and 0xfff2 are indices of code that symbols name.
const FILES: usize = 9;
const KERNELS: usize = 1_900;

/// The index that ELF has for common symbols.
const COMMON: usize = 0xfff2;

fn run(mut setup: Setup) -> Result<ExitCode> {
    let tools = setup.tools()?;
    let with_cases = setup.args.flag("--cases");
    let selection = setup.args.operands()?;
    let dir = tempfile::tempdir()?;
    let linkers = BothLinkers { tools: &tools, dir: dir.path() };
    let mut tally = Tally::new("inputs", "links");
    if with_cases {
        behind(&linkers, &selection, &mut tally)?;
    } else {
        alone(&linkers, &mut tally)?;
        beside_mercury(&linkers, &mut tally)?;
        large(&linkers, &mut tally)?;
    }
    print!("{}", tally.table());
    Ok(tally.exit_code())
}

/// Objects of many sections alone.
fn alone(linkers: &BothLinkers<'_>, tally: &mut Tally) -> Result<()> {
    let dir = linkers.dir;
    for &(sm, sections, live_every) in INPUTS {
        let name = format!("{sections} sections, 1/{live_every} live, sm_{sm}");
        let input = dir.join("input.cubin");
        fs::write(
            &input,
            object(&ObjectForm { sections, attributes: false, kernel: "work", live_every, sm }),
        )?;
        for (what, difference) in linkers.compare(&input, (sections, sm)).context(name.clone())? {
            tally.add("objects", "", VerdictCounts::same(difference.is_none()));
            if let Some(difference) = difference {
                println!("{name}, {what}: {difference}");
            }
        }
    }
    Ok(())
}

/// Links so many kernels of sm_100 that the indices end in the code of the second half.
fn beside_mercury(linkers: &BothLinkers<'_>, tally: &mut Tally) -> Result<()> {
    let mut arguments = vec!["-arch=sm_100".to_owned()];
    for file in 0..FILES {
        let mut text = ".version 9.0\n.target sm_100\n.address_size 64\n".to_owned();
        for kernel in 0..KERNELS {
            writeln!(text, ".visible .entry k{file}_{kernel}() {{ ret; }}")?;
        }
        let (source, cubin) = (format!("{file}.ptx"), format!("{file}.cubin"));
        fs::write(linkers.dir.join(&source), text)?;
        let mut ptxas = linkers.tools.oracle.command("ptxas");
        ptxas.args(["-c", "-arch=sm_100", &source, "-o", &cubin]).current_dir(linkers.dir);
        let compiled = process::run(&mut ptxas, LIMIT)?;
        ensure!(compiled.status.success(), "ptxas: {}", compiled.stderr_text());
        arguments.push(cubin);
    }
    let outcome = |ours| linkers.outcome(ours, &arguments, linkers.dir);
    let difference = difference(&outcome(false)?, &outcome(true)?);
    if let Some(difference) = &difference {
        println!("{} kernels, sm_100: {difference}", FILES * KERNELS);
    }
    tally.add("kernels of sm_100", "", VerdictCounts::same(difference.is_none()));
    Ok(())
}

/// Links the benchmark's objects, which have 122,416 sections together.
fn large(linkers: &BothLinkers<'_>, tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = folder.path();
    let case = scale::case("xindex").context("the case is there")?;
    let inputs = scale::generate(&linkers.tools.oracle, case, ARCH, dir)?.files;
    let both = |options: &[&str], inputs: &[String]| {
        let arguments = [&[format!("-arch={ARCH}")][..], inputs].concat();
        let arguments: Vec<String> =
            arguments.into_iter().chain(options.iter().map(|&option| option.to_owned())).collect();
        let outcome = |ours| linkers.outcome(ours, &arguments, dir);
        anyhow::Ok([outcome(false)?, outcome(true)?])
    };
    let mut count = |what: &str, [theirs, ours]: &[LinkResult; 2]| {
        let difference = difference(theirs, ours).or_else(|| unreadable(ours.as_ref().ok()?));
        tally.add("objects together", "", VerdictCounts::same(difference.is_none()));
        if let Some(difference) = difference {
            println!("{} sections, {what}: {difference}", case.name);
        }
    };
    for options in LARGE_OPTIONS {
        count(&options.join(" "), &both(options, &inputs)?);
    }
    let objects = both(&["-r"], &inputs)?;
    count("-r", &objects);
    for (what, object) in
        ["program of nvlink's object", "program of culd's object"].iter().zip(&objects)
    {
        let Ok(object) = object else { continue };
        fs::write(dir.join("object.cubin"), object)?;
        count(what, &both(&[], &["object.cubin".to_owned()])?);
    }
    Ok(())
}

/// The fault that other ELF readers find: goblin must find the functions in their sections, and
/// readelf, if installed, must agree.
fn unreadable(image: &[u8]) -> Option<String> {
    let misplaced = |functions: Vec<FunctionPlace>| {
        functions.into_iter().find(|placed| {
            let section = placed.section.as_deref().and_then(|name| name.strip_prefix(".text."));
            section != Some(&placed.function)
        })
    };
    let problem = match readers::functions(image).map(misplaced) {
        Ok(None) => readers::agree(image).err().map(|problem| format!("{problem:#}")),
        Ok(Some(FunctionPlace { function, section })) => {
            Some(format!("goblin: function {function} is in section {section:?}"))
        }
        Err(problem) => Some(format!("{problem:#}")),
    };
    problem.map(|problem| format!("cannot be read: {problem}"))
}

/// The difference of two links of the same files.
fn difference(theirs: &LinkResult, ours: &LinkResult) -> Option<String> {
    match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => cubins(theirs, ours),
        (Err(theirs), Err(ours)) if theirs == ours => None,
        (theirs, ours) => {
            Some(format!("{:?} and {:?}", theirs.as_ref().err(), ours.as_ref().err()))
        }
    }
}

/// Links the recorded cases after an object of many sections.
fn behind(linkers: &BothLinkers<'_>, selection: &[String], tally: &mut Tally) -> Result<()> {
    for case in case::all()?.iter().filter(|case| case::is_chosen(&case.name, selection)) {
        let Some(sm) = classic_sm(&case.recipe.arch) else { continue };
        // Objects differ if nvlink resolves too much (docs/DIFFERENCES.md, early-relocations).
        let makes_object = case.recipe.args.iter().any(|option| option == "-r");
        if makes_object || case.recipe.release.is_some() || case.expect()?.status != 0 {
            continue;
        }
        let dir = linkers.dir.join("case");
        fs::create_dir_all(&dir)?;
        let sections = IN_FRONT;
        let front =
            ObjectForm { sections, attributes: true, kernel: "in_front", live_every: 1, sm };
        fs::write(dir.join("in_front.cubin"), object(&front))?;
        for (name, bytes) in case.inputs()?.into_iter().chain(case.index_files()?) {
            fs::write(dir.join(name), bytes)?;
        }
        let mut arguments = case.arguments();
        arguments.insert(1, "in_front.cubin".to_owned());
        // docs/DIFFERENCES.md, preserve-with-selection.
        let selects = case.recipe.args.iter().any(|option| option.contains("s-used"));
        for option in
            CASE_OPTIONS.into_iter().filter(|&option| !selects || option != Some(PRESERVE))
        {
            let mut arguments = arguments.clone();
            arguments.extend(option.map(str::to_owned));
            let outcome = |ours| linkers.outcome(ours, &arguments, &dir);
            let difference = difference(&outcome(false)?, &outcome(true)?);
            tally.add("recorded cases", "", VerdictCounts::same(difference.is_none()));
            if let Some(difference) = difference {
                println!("{} {}: {difference}", case.name, option.unwrap_or_default());
            }
        }
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

/// The SM number of a target before sm_100.
fn classic_sm(arch: &str) -> Option<u16> {
    let number = arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_lowercase());
    number.parse().ok().filter(|&sm| sm < 100)
}

/// The output of a link, or its lines.
type LinkResult = Result<Vec<u8>, Vec<String>>;

struct BothLinkers<'t> {
    tools: &'t Tools,
    dir: &'t Path,
}

impl BothLinkers<'_> {
    /// Compares the results of a link.
    fn compare(
        &self,
        input: &Path,
        (sections, sm): (usize, u16),
    ) -> Result<Vec<(&'static str, Option<String>)>> {
        let both = |options: &[&str], input: &Path| -> Result<[Vec<u8>; 2]> {
            Ok([self.link(false, options, input, sm)?, self.link(true, options, input, sm)?])
        };
        let [theirs, ours] = both(&[], input)?;
        let mut all = vec![("program", cubins(&theirs, &ours))];
        // nvlink's objects of more functions are wrong, and it cannot link them
        // (docs/DIFFERENCES.md, section-0xfff2).
        if sections >= COMMON {
            return Ok(all);
        }
        let [theirs, ours] = both(&["-r"], input)?;
        all.push(("object", cubins(&theirs, &ours)));
        if sections < TWO_STEPS {
            return Ok(all);
        }
        let object = self.dir.join("object.cubin");
        for (what, bytes) in
            [("program of nvlink's object", theirs), ("program of culd's object", ours)]
        {
            fs::write(&object, bytes)?;
            let [theirs, ours] = both(&[], &object)?;
            all.push((what, cubins(&theirs, &ours)));
        }
        let [theirs, ours] = both(&["--preserve-relocs"], input)?;
        all.push(("--preserve-relocs", cubins(&theirs, &ours)));
        Ok(all)
    }

    /// The output of a link in `dir`, or its lines.
    fn outcome(&self, ours: bool, arguments: &[String], dir: &Path) -> Result<LinkResult> {
        let linker = self.linker(ours);
        let mut command = Command::new(&linker);
        command.args(arguments).args(["-o", "out.cubin"]).current_dir(dir);
        let finished = process::run(&mut command, LIMIT)?;
        if finished.status.success() {
            return Ok(Ok(fs::read(dir.join("out.cubin"))?));
        }
        let program = linker.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Err(case::plain_lines(&finished.stderr_text(), &program)))
    }

    fn linker(&self, ours: bool) -> PathBuf {
        if ours { self.tools.candidate.clone() } else { self.tools.oracle.tool("nvlink") }
    }

    fn link(&self, ours: bool, options: &[&str], input: &Path, sm: u16) -> Result<Vec<u8>> {
        let linker = self.linker(ours);
        let out = self.dir.join("out.cubin");
        let mut command = Command::new(&linker);
        command.arg(format!("-arch=sm_{sm}")).args(options).arg(input).arg("-o").arg(&out);
        let finished = process::run(&mut command, LIMIT)?;
        if !finished.status.success() {
            let text = finished.stderr_text();
            bail!("{} {options:?}: {}: {text}", linker.display(), finished.status);
        }
        Ok(fs::read(out)?)
    }
}
