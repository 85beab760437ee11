//! Compares the library's report of a program with the output of NVIDIA's tools.
//!
//! In: a link in a folder. Out: a [`Verdict`]. Guaranteed: registers, barriers (of 13.0), stack and
//! shared memory of each kernel are those that `nvlink -v` prints; shared memory, constant banks,
//! textures, surfaces and samplers those that cuobjdump reads from the program; sections, in order
//! and with their sizes, those that readelf lists; the command's JSON is that of `serde_json` for
//! the library's report of the same link.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::mercury::Classes;
use super::trial::{Difference, Tools, Verdict, candidate, link};
use crate::reference::oracle::process::{self, Status};
use crate::reference::readers::{self, SectionSize};

/// The numbers of a kernel, by their names in the report.
type KernelFacts = BTreeMap<String, u64>;
/// The numbers by kernel; several kernels of one name are in any order.
type Kernels = BTreeMap<String, Vec<KernelFacts>>;

/// Compares the reports of the link of the files in `dir`.
pub(super) fn compare_report(tools: &Tools, arguments: &[String], dir: &Path) -> Result<Verdict> {
    let different =
        |what: String| Ok(Verdict::Different(Difference { arguments: arguments.to_vec(), what }));
    let mut verbose = arguments.to_vec();
    verbose.push("-v".to_owned());
    let nvlink = tools.oracle.command("nvlink");
    let (run, _) = link(nvlink, &verbose, dir, ("nvlink", tools.limit))?;
    let (_, image) = link(candidate(tools), arguments, dir, ("culd", tools.limit))?;
    let Some(image) = image.filter(|_| run.status.success()) else {
        return Ok(match run.status {
            Status::Signal(_) | Status::TimedOut => Verdict::NoVerdict(run.status.to_string()),
            _ => Verdict::SameError(run.stderr_text()),
        });
    };
    let program = tools.candidate.with_file_name("examples").join("report");
    let mut report = Command::new(&program);
    let run_report = process::run(report.args(arguments).current_dir(dir), tools.limit)
        .with_context(|| format!("{}: cargo build -p culd --example report", program.display()))?;
    if !run_report.status.success() {
        return different(run_report.stderr_text());
    }
    if let Some(what) = unequal_json(tools, arguments, dir)? {
        return different(what);
    }
    let report = String::from_utf8_lossy(&run_report.stdout).into_owned();
    let ReportText { kernels: ours, sections } = reported(&report)?;
    let file = dir.join("culd/out.cubin");
    let all = readers::sections(&file)?;
    let relocatable = super::is_relocatable(arguments);
    if !relocatable {
        let printed = as_printed(&run.stderr_text());
        let classic = image.get(49).is_some_and(|&sm| sm < 100);
        let mut names = match classic {
            true => vec!["registers", "barriers", "stack", "shared", "constant0"],
            // Shared memory is printed without the part of the system.
            false => vec!["registers", "barriers", "stack"],
        };
        // Releases before print no barriers, later ones random numbers (docs/DIFFERENCES.md,
        // verbose-barriers).
        if tools.oracle.release().name != "13.0" {
            names.retain(|name| *name != "barriers");
        }
        if let Some(what) = first_unequal("nvlink -v", &printed, &ours, &names) {
            return different(what);
        }
        let mut cuobjdump = tools.oracle.command("cuobjdump");
        let dumped = process::run(cuobjdump.arg("-res-usage").arg(&file), tools.limit)?;
        if !dumped.status.success() {
            // cuobjdump cannot read all of nvlink's programs.
            return Ok(Verdict::NoVerdict(dumped.stderr_text()));
        }
        let dumped = as_dumped(&String::from_utf8_lossy(&dumped.stdout));
        let mut names =
            vec!["shared", "constant0", "constant2", "textures", "surfaces", "samplers"];
        // cuobjdump reads only one of several banks of a name.
        let mut banks: Vec<&str> = all.iter().map(|section| section.name.as_str()).collect();
        banks.retain(|name| name.starts_with(".nv.constant2."));
        banks.sort_unstable();
        if banks.windows(2).any(|pair| pair.first() == pair.last()) {
            names.retain(|name| *name != "constant2");
        }
        // It reads only one of several kernels of a name.
        let mut single = ours.clone();
        single.retain(|_, all| all.len() == 1);
        if let Some(what) = first_unequal("cuobjdump", &dumped, &single, &names) {
            return different(what);
        }
    }
    // Linkers name themselves at different lengths.
    let is_other = |section: &SectionSize| section.name != ".note.nv.tkinfo";
    let listed: Vec<_> = all.into_iter().filter(is_other).collect();
    let sections: Vec<_> = sections.into_iter().filter(is_other).collect();
    if let Some((expected, actual)) = listed.iter().zip(&sections).find(|(a, b)| a != b) {
        return different(format!("section {actual:?}, readelf {expected:?}"));
    }
    if listed.len() != sections.len() {
        return different(format!("{} sections, readelf {}", sections.len(), listed.len()));
    }
    Ok(Verdict::Identical(Classes::default()))
}

/// What differs between the command's JSON, which is written without a report, and that of
/// `serde_json` for the library's report.
fn unequal_json(tools: &Tools, arguments: &[String], dir: &Path) -> Result<Option<String>> {
    const FILE: &str = "report.json";
    let mut reporting = arguments.to_vec();
    reporting.push(format!("--report={FILE}"));
    let (run, _) = link(candidate(tools), &reporting, dir, ("culd-report", tools.limit))?;
    if !run.status.success() {
        return Ok(Some(run.stderr_text()));
    }
    let program = tools.candidate.with_file_name("culd-report-check");
    let mut check = Command::new(&program);
    // The tool note of -g names all options, and the output.
    reporting.push("--output-file=culd-report/out.cubin".to_owned());
    check.arg(FILE).args(&tools.dialect_option).args(&reporting).current_dir(dir);
    let run = process::run(&mut check, tools.limit)
        .with_context(|| format!("{}: cargo build --workspace --bins", program.display()))?;
    Ok((!run.status.success()).then(|| run.stderr_text()))
}

/// Facts of culd's report.
struct ReportText {
    kernels: Kernels,
    sections: Vec<SectionSize>,
}

/// Parses culd's report.
fn reported(text: &str) -> Result<ReportText> {
    let (mut kernels, mut sections) = (Kernels::new(), Vec::new());
    for line in text.lines() {
        let (what, rest) = line.split_once(' ').context("a line of one word")?;
        if !matches!(what, "kernel" | "section") {
            continue;
        }
        let (mut facts, mut name) = (KernelFacts::new(), rest);
        while let Some((word, tail)) = name.split_once(' ')
            && let Some((key, value)) = word.split_once('=')
        {
            name = tail;
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            facts.extend(number.ok().map(|number| (key.to_owned(), number)));
        }
        match what {
            "kernel" => kernels.entry(name.to_owned()).or_default().push(facts),
            _ => {
                let size = facts.get("size").copied().unwrap_or_default();
                sections.push(SectionSize { name: name.to_owned(), size });
            }
        }
    }
    Ok(ReportText { kernels, sections })
}

/// Kernels of `nvlink -v`.
fn as_printed(text: &str) -> Kernels {
    let mut kernels = Kernels::new();
    let mut name = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Function properties for '") {
            name = rest.strip_suffix("':").map(str::to_owned);
        } else if let (Some((_, rest)), Some(kernel)) = (line.split_once(": used "), name.take()) {
            let mut facts = KernelFacts::new();
            for part in rest.split(", ") {
                let words: Vec<&str> = part.trim_start_matches("used ").split(' ').collect();
                let key = match words.last() {
                    Some(&"smem") => "shared",
                    Some(&"cmem[0]") => "constant0",
                    Some(word) => word,
                    None => continue,
                };
                let number = words.first().and_then(|number| number.parse().ok());
                facts.extend(number.map(|number| (key.to_owned(), number)));
            }
            kernels.entry(kernel).or_default().push(facts);
        }
    }
    kernels
}

/// Functions of `cuobjdump -res-usage`.
fn as_dumped(text: &str) -> Kernels {
    const NAMES: &[(&str, &str)] = &[
        ("SHARED", "shared"),
        ("CONSTANT[0]", "constant0"),
        ("CONSTANT[2]", "constant2"),
        ("TEXTURE", "textures"),
        ("SURFACE", "surfaces"),
        ("SAMPLER", "samplers"),
    ];
    let mut kernels = Kernels::new();
    let mut name = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Function ") {
            name = rest.strip_suffix(':').map(str::to_owned);
        } else if let Some(function) = name.take() {
            let values = line.split(' ').filter_map(|word| word.split_once(':'));
            let fact = |(key, value): (&str, &str)| {
                let (_, name) = NAMES.iter().find(|(theirs, _)| *theirs == key)?;
                Some(((*name).to_owned(), value.parse().ok()?))
            };
            kernels.entry(function).or_default().push(values.filter_map(fact).collect());
        }
    }
    kernels
}

/// The first number of a kernel of the report that differs. Missing numbers are 0.
fn first_unequal(tool: &str, theirs: &Kernels, ours: &Kernels, names: &[&str]) -> Option<String> {
    let picked = |all: &[KernelFacts]| {
        let one = |facts: &KernelFacts| -> Vec<u64> {
            names.iter().map(|name| facts.get(*name).copied().unwrap_or_default()).collect()
        };
        let mut all: Vec<Vec<u64>> = all.iter().map(one).collect();
        all.sort();
        all
    };
    for (kernel, own) in ours {
        let Some(their) = theirs.get(kernel) else {
            return Some(format!("{tool} does not know '{kernel}'"));
        };
        let (their, own) = (picked(their), picked(own));
        if their != own {
            return Some(format!("'{kernel}': {names:?} {own:?}, {tool} {their:?}"));
        }
    }
    None
}
