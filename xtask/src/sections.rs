//! `xtask sections`: programs around and beyond 65,280 sections, linked by nvlink and by culd.
//!
//! In: objects made in memory. Out: a line for each link that differs. Guaranteed: all bytes count but the linkers' own
//! notes; objects of either linker are linked by both.

use crate::args::Args;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::compare::cubins;
use culd_testkit::compare::trial::Tools;
use culd_testkit::many::{Form, object};
use culd_testkit::oracle::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
usage: cargo xtask sections [--culd PATH]
  links objects of 65,274 to 70,000 sections with nvlink and culd, all functions live or nearly none, in one step and
  in two, and compares";

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

/// The index that ELF has for common symbols.
const COMMON: usize = 0xfff2;

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    if args.flag("--help") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let tools = workspace::tools(args.option("--culd")?)?;
    args.finish()?;
    let dir = tempfile::tempdir()?;
    let linkers = Linkers { tools: &tools, dir: dir.path() };
    let (mut links, mut different) = (0, 0);
    for &(sm, sections, live_every) in INPUTS {
        let name = format!("{sections} sections, 1/{live_every} live, sm_{sm}");
        let input = dir.path().join("input.cubin");
        fs::write(&input, object(&Form { sections, kernel: "work", live_every, sm }))?;
        for (what, difference) in linkers.compare(&input, (sections, sm)).context(name.clone())? {
            links += 1;
            if let Some(difference) = difference {
                different += 1;
                println!("{name}, {what}: {difference}");
            }
        }
    }
    println!("| links | identical | different |");
    println!("|---|--:|--:|");
    println!("| all | {} | {different} |", links - different);
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

    fn link(&self, ours: bool, options: &[&str], input: &Path, sm: u16) -> Result<Vec<u8>> {
        let linker: PathBuf =
            if ours { self.tools.candidate.clone() } else { self.tools.oracle.tool("nvlink") };
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
