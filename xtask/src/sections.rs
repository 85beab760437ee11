//! `xtask sections`: programs around and beyond 65,280 sections, linked by nvlink and by culd.
//!
//! In: objects made in memory, alone and in front of the recorded cases. Out: a line for each link that differs.
//! Guaranteed: all bytes count but the linkers' own notes; objects of either linker are linked by both. An object in
//! front takes nearly all indices that fit, so that those of a small program's sections, and with them how many of each
//! kind are created in which order, stand in the table of section indices.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::case;
use culd_testkit::compare::cubins;
use culd_testkit::compare::trial::Tools;
use culd_testkit::many::{Form, object};
use culd_testkit::oracle::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask sections [--culd PATH] [--cases [TOPIC|TOPIC/CASE]...]
  links objects of 65,274 to 70,000 sections with nvlink and culd, all functions live or nearly none, in one step and
  in two, and compares
  --cases  links the recorded cases behind such an object, each as it is, with -g and with --preserve-relocs";

/// SM number, sections of the input, the part of its functions that is live: around the limits of inputs, programs and
/// objects, and beyond.
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

/// From so many sections on objects are linked again.
const TWO_STEPS: usize = 65_300;

/// nvlink needs about a second.
const LIMIT: Duration = Duration::from_secs(120);

/// Sections of the object in front of a case: the case's own are those that no longer fit.
const IN_FRONT: usize = 65_262;

/// With what each case is linked, besides its own options.
const CASE_OPTIONS: [Option<&str>; 3] = [None, Some("-g"), Some("--preserve-relocs")];

/// The index that ELF has for common symbols.
const COMMON: usize = 0xfff2;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let tools = workspace::tools(args.option("--culd")?)?;
    let with_cases = args.flag("--cases");
    let selection = args.operands()?;
    let dir = tempfile::tempdir()?;
    let linkers = Linkers { tools: &tools, dir: dir.path() };
    let (links, different) =
        if with_cases { behind(&linkers, &selection)? } else { alone(&linkers)? };
    println!("| links | identical | different |");
    println!("|---|--:|--:|");
    println!("| all | {} | {different} |", links - different);
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Objects of many sections alone: number of links, and of those that differ.
fn alone(linkers: &Linkers<'_>) -> Result<(usize, usize)> {
    let dir = linkers.dir;
    let (mut links, mut different) = (0, 0);
    for &(sm, sections, live_every) in INPUTS {
        let name = format!("{sections} sections, 1/{live_every} live, sm_{sm}");
        let input = dir.join("input.cubin");
        fs::write(
            &input,
            object(&Form { sections, attributes: false, kernel: "work", live_every, sm }),
        )?;
        for (what, difference) in linkers.compare(&input, (sections, sm)).context(name.clone())? {
            links += 1;
            if let Some(difference) = difference {
                different += 1;
                println!("{name}, {what}: {difference}");
            }
        }
    }
    Ok((links, different))
}

/// The recorded cases behind an object of many sections.
fn behind(linkers: &Linkers<'_>, selection: &[String]) -> Result<(usize, usize)> {
    let (mut links, mut different) = (0, 0);
    for case in case::all()?.iter().filter(|case| case::is_chosen(&case.name, selection)) {
        let Some(sm) = classic_sm(&case.recipe.arch) else { continue };
        // Objects differ where nvlink resolves too much (docs/DIFFERENCES.md, early-relocations).
        let makes_object = case.recipe.args.iter().any(|option| option == "-r");
        if makes_object || case.expect()?.status != 0 {
            continue;
        }
        let dir = linkers.dir.join("case");
        fs::create_dir_all(&dir)?;
        let sections = IN_FRONT;
        let front = Form { sections, attributes: true, kernel: "in_front", live_every: 1, sm };
        fs::write(dir.join("in_front.cubin"), object(&front))?;
        for (name, bytes) in case.inputs()?.into_iter().chain(case.index_files()?) {
            fs::write(dir.join(name), bytes)?;
        }
        let mut arguments = case.arguments();
        arguments.insert(1, "in_front.cubin".to_owned());
        for option in CASE_OPTIONS {
            let mut arguments = arguments.clone();
            arguments.extend(option.map(str::to_owned));
            let outcome = |ours| linkers.outcome(ours, &arguments, &dir);
            let difference = match (outcome(false)?, outcome(true)?) {
                (Ok(theirs), Ok(ours)) => cubins(&theirs, &ours),
                (Err(theirs), Err(ours)) if theirs == ours => None,
                (theirs, ours) => Some(format!("{:?} and {:?}", theirs.err(), ours.err())),
            };
            links += 1;
            if let Some(difference) = difference {
                different += 1;
                println!("{} {}: {difference}", case.name, option.unwrap_or_default());
            }
        }
        fs::remove_dir_all(&dir)?;
    }
    Ok((links, different))
}

/// The SM number of a target before sm_100.
fn classic_sm(arch: &str) -> Option<u16> {
    let number = arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_lowercase());
    number.parse().ok().filter(|&sm| sm < 100)
}

struct Linkers<'t> {
    tools: &'t Tools,
    dir: &'t Path,
}

impl Linkers<'_> {
    /// What was linked, and how the results differ.
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
        // nvlink's objects of more functions are wrong, and it cannot link them (docs/DIFFERENCES.md, section-0xfff2).
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
    fn outcome(
        &self,
        ours: bool,
        arguments: &[String],
        dir: &Path,
    ) -> Result<Result<Vec<u8>, Vec<String>>> {
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
