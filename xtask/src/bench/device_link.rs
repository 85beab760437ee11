//! `xtask bench --device-links`: whole device links, by `nvcc -dlink` and by `culd device-link`.
//!
//! In: the objects of generated programs. Out: a Markdown table: wall time, CPU time, memory of
//! both, medians of runs in turn. Guaranteed: the images and modules of both objects were compared
//! before a time is shown.

use super::measure::Usage;
use super::report::shown_ratio;
use super::{SHORT, measure::measure, median, paired};
use anyhow::{Context, Result, bail, ensure};
use culd_fatbin::container::containers;
use culd_fatbin::host::HostObject;
use culd_testkit::reference::compare::linked;
use culd_testkit::reference::compare::mercury::LinkObjects;
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::scale::{ScaleCase, ScaleInputs, case, generate_objects};
use std::fs;
use std::path::Path;
use std::time::Duration;

const ONE: &[&str] = &["sm_90"];
const THREE: &[&str] = &["sm_80", "sm_90", "sm_120"];
const SIX: &[&str] = &["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"];

/// Number of files, architectures, and the most of nvcc's wall time that it may take.
const ROWS: &[(usize, &[&str], f64)] = &[
    (3, ONE, 0.10),
    (3, SIX, 0.06),
    (50, ONE, 0.08),
    (50, THREE, 0.08),
    (50, SIX, 0.08),
    (1000, ONE, 0.15),
    (1000, SIX, 0.05),
];

/// The size of an image, at most.
const LIMIT: u64 = 1 << 30;
/// The rounds where nvcc takes seconds.
const FEW: usize = 3;

const TITLES: &str = "\
| files | architectures | MB in | MB unpacked | nvcc ms | culd ms | ratio | target | | nvcc CPU ms | culd CPU ms | CPU ratio | nvcc MiB | culd MiB |
|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|";

/// Measures the rows of these names, all without any; false if some output differs.
pub(super) fn run(tools: &Tools, runs: usize, names: &[String], base: &Path) -> Result<bool> {
    let name = |files: usize, archs: &[&str]| format!("{files}x{}", archs.len());
    for wanted in names {
        let known = ROWS.iter().any(|&(files, archs, _)| name(files, archs) == *wanted);
        ensure!(known, "no device link '{wanted}'");
    }
    println!("{TITLES}");
    let mut good = true;
    for &(files, archs, most) in ROWS {
        if !names.is_empty() && !names.contains(&name(files, archs)) {
            continue;
        }
        let dir = base.join(format!("dlink-{files}-{}", archs.len()));
        let row = Row::new(tools, files, archs, &dir)?;
        match row.measured(runs, most) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                println!("| {files} | {} | {error:#} |", archs.len());
                good = false;
            }
        }
        fs::remove_dir_all(&dir)?;
    }
    Ok(good)
}

/// What a device link makes.
struct LinkedObject {
    /// The linked images with their SM numbers.
    images: Vec<(u32, Vec<u8>)>,
    /// Its modules.
    modules: String,
}

/// A device link.
struct Row<'a> {
    tools: &'a Tools,
    dir: &'a Path,
    archs: &'a [&'a str],
    inputs: ScaleInputs,
}

impl<'a> Row<'a> {
    fn new(tools: &'a Tools, files: usize, archs: &'a [&'a str], dir: &'a Path) -> Result<Self> {
        let tree = case("many1000").context("no such case")?;
        let tree = ScaleCase { modules: files, ..*tree };
        let inputs = generate_objects(&tools.oracle, &tree, archs, dir)?;
        Ok(Row { tools, dir, archs, inputs })
    }

    fn link(&self, own: bool) -> Result<Usage> {
        let (program, name) = match own {
            true => (self.tools.candidate.clone(), "culd.o"),
            false => (self.tools.oracle.tool("nvcc"), "nvcc.o"),
        };
        let mut words: Vec<String> = Vec::new();
        if own {
            let toolkit = self.tools.oracle.toolkit().display().to_string();
            words.extend(["device-link".to_owned(), "--cuda".to_owned(), toolkit]);
        } else {
            words.push("-dlink".to_owned());
        }
        let number = |arch: &str| arch.trim_start_matches("sm_").to_owned();
        let generate = |arch: &&str| format!("-gencode=arch=compute_{0},code=sm_{0}", number(arch));
        words.extend(self.archs.iter().map(generate));
        words.extend(self.inputs.files.iter().cloned());
        words.extend(["-o".to_owned(), name.to_owned()]);
        let _ = fs::remove_file(self.dir.join(name));
        let limit = Duration::from_secs(600);
        measure(&program, &words, self.dir, limit)?.context("it did not end")
    }

    fn object(&self, name: &str) -> Result<LinkedObject> {
        let bytes = fs::read(self.dir.join(name)).with_context(|| name.to_owned())?;
        let Some(object) = HostObject::parse(&bytes)? else { bail!("no host object") };
        let mut images = Vec::new();
        for section in &object.whole_programs {
            for container in containers(section.data) {
                for entry in container?.entries() {
                    let entry = entry?;
                    images.push((entry.sm(), entry.data(LIMIT)?.into_owned()));
                }
            }
        }
        Ok(LinkedObject { images, modules: format!("{:?}", object.module_ids) })
    }

    fn compare(&self) -> Result<()> {
        let (theirs, ours) = (self.object("nvcc.o")?, self.object("culd.o")?);
        ensure!(theirs.modules == ours.modules, "other modules");
        let (theirs, ours) = (theirs.images, ours.images);
        ensure!(theirs.len() == ours.len() && theirs.len() == self.archs.len(), "other images");
        for ((sm, theirs), (own, ours)) in theirs.iter().zip(&ours) {
            ensure!(sm == own, "images in another order");
            let same = linked(theirs, ours, LinkObjects::default);
            same.map_err(|what| anyhow::anyhow!("sm_{sm}: {what}"))?;
        }
        Ok(())
    }

    /// The row of the table.
    fn measured(&self, runs: usize, most: f64) -> Result<String> {
        let first = self.link(false)?;
        self.link(true)?;
        self.compare()?;
        let unpacked: usize = self.object("culd.o")?.images.iter().map(|image| image.1.len()).sum();
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for round in 0..if first.wall > SHORT { runs.min(FEW) } else { runs } {
            // Who goes first changes.
            for own in [round % 2 == 0, round % 2 != 0] {
                if own { &mut ours } else { &mut theirs }.push(self.link(own)?);
            }
        }
        let ratio = paired(&ours, &theirs);
        let (Some(theirs), Some(ours)) = (median(&theirs), median(&ours)) else {
            bail!("no rounds")
        };
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let mebibytes = |usage: &Usage| format!("{:.1}", usage.peak_kib as f64 / 1024.0);
        let mark = match ratio {
            Some(ratio) if ratio <= most => "met",
            _ => "missed",
        };
        let cells = [
            self.inputs.files.len().to_string(),
            self.archs.len().to_string(),
            megabytes(self.inputs.bytes),
            megabytes(unpacked as u64),
            ms(theirs.wall),
            ms(ours.wall),
            shown_ratio(ratio),
            format!("{most:.2}"),
            mark.to_owned(),
            ms(theirs.cpu),
            ms(ours.cpu),
            shown_ratio(Some(ours.cpu.as_secs_f64() / theirs.cpu.as_secs_f64())),
            mebibytes(&theirs),
            mebibytes(&ours),
        ];
        Ok(format!("| {} |", cells.join(" | ")))
    }
}
