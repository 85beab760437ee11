//! The seed files of fuzzing.
//!
//! In: the recorded cases. Out: `FOLDER/<target>/<name>` for each target of `tests/src/fuzz.rs`.
//! Guaranteed: the same cases give the same files.

use super::program;
use anyhow::Result;
use culd_cubin::Cubin;
use culd_cubin::arch::ARCHS;
use culd_cubin::elf::sht;
use culd_fatbin::{Format, container, sniff};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The number of damaged links whose files are considered.
const MUTANTS: u64 = 1500;
/// The most files of one target.
const MAX_FILES: usize = 120;
/// Larger ones are left out, bytes.
const MAX_SIZE: usize = 24 << 10;

/// Writes the files.
///
/// # Errors
/// When a case is invalid or a file cannot be written.
pub fn write(folder: &Path) -> Result<()> {
    let programs = program::recorded()?;
    let mut seeds = Seeds { folder, count: Default::default(), seen: BTreeSet::new() };
    for program in &programs {
        for (_, bytes) in &program.inputs {
            seeds.cubin(&program.arch, bytes)?;
        }
        for (_, bytes) in &program.others {
            seeds.add("uidx", bytes)?;
        }
        let words = [vec![format!("-arch={}", program.arch)], program.options.clone()].concat();
        seeds.add("options", words.join("\0").as_bytes())?;
    }
    for seed in 0..MUTANTS {
        let mutant = program::mutant(&programs, seed);
        seeds.add("options", mutant.args.join("\0").as_bytes())?;
        for (_, bytes) in &mutant.files {
            seeds.file(&mutant.arch, bytes)?;
        }
        let number = u8::try_from(seed % 251)?;
        let change = [number, (seed / 251) as u8, 0, 0, number.wrapping_mul(7), 1, 3, number, 1];
        seeds.add("link_records", &change)?;
    }
    Ok(())
}

struct Seeds<'f> {
    folder: &'f Path,
    count: std::collections::BTreeMap<&'static str, usize>,
    seen: BTreeSet<(&'static str, Vec<u8>)>,
}

impl Seeds<'_> {
    fn add(&mut self, target: &'static str, bytes: &[u8]) -> Result<()> {
        let count = self.count.entry(target).or_default();
        let new = !self.seen.contains(&(target, bytes.to_vec()));
        if *count < MAX_FILES && bytes.len() <= MAX_SIZE && new {
            let dir = self.folder.join(target);
            fs::create_dir_all(&dir)?;
            fs::write(dir.join(format!("seed-{count}")), bytes)?;
            *count += 1;
            self.seen.insert((target, bytes.to_vec()));
        }
        Ok(())
    }

    /// A good cubin and its sections.
    fn cubin(&mut self, arch: &str, bytes: &[u8]) -> Result<()> {
        self.add("cubin", bytes)?;
        self.add("inspect", bytes)?;
        self.link(arch, bytes)?;
        let Ok(cubin) = Cubin::parse(bytes) else { return Ok(()) };
        for section in &cubin.sections {
            let name = section.name;
            match section.sh_type {
                sht::CUDA_INFO => self.add("nv_info", section.data)?,
                sht::NOTE => self.add("notes", section.data)?,
                _ if name.starts_with(b".nv.callgraph") || name.starts_with(b".nv.proto") => {
                    self.add("callgraph", section.data)?;
                }
                _ if name.starts_with(b".nv.capmerc") => self.add("capmerc", section.data)?,
                _ => {}
            }
        }
        for symbol in &cubin.symbols {
            let name = symbol.name.strip_prefix(b"_Z").unwrap_or(symbol.name);
            self.add("demangle", name)?;
        }
        Ok(())
    }

    fn link(&mut self, arch: &str, bytes: &[u8]) -> Result<()> {
        let arch = ARCHS.iter().position(|row| row.name == arch).unwrap_or(0);
        let head =
            [arch as u8, if bytes.len().is_multiple_of(3) { 1 << (bytes.len() % 8) } else { 0 }];
        self.add("link_file", &[&head[..], bytes].concat())
    }

    /// A file of any kind, damaged.
    fn file(&mut self, arch: &str, bytes: &[u8]) -> Result<()> {
        self.link(arch, bytes)?;
        match sniff(bytes) {
            Format::Fatbin => {
                self.add("fatbin", bytes)?;
                self.payloads(bytes)
            }
            Format::HostElf { .. } => self.add("host", bytes),
            Format::Coff => self.add("coff", bytes),
            Format::Archive | Format::ThinArchive => self.add("archive", bytes),
            Format::Ptx => self.add("ptx", bytes),
            _ => Ok(()),
        }
    }

    fn payloads(&mut self, bytes: &[u8]) -> Result<()> {
        for entry in container::containers(bytes).flatten().flat_map(|one| one.entries()).flatten()
        {
            let target = match entry.encoding() {
                container::Encoding::Lz4 => "lz4",
                container::Encoding::Zstd => "zstd",
                _ => continue,
            };
            let size = u32::try_from(entry.size()).unwrap_or(u32::MAX).to_le_bytes();
            self.add(target, &[&size[..], entry.payload()].concat())?;
        }
        Ok(())
    }
}
