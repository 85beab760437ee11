//! A cache of compiled sources that lasts between runs.
//!
//! In: a `.ptx` or `.cu` file, architectures and flags. Out: the path of its cubin or object.
//! Guaranteed: an entry is used again only if the source, the flags and the release of the tools
//! are the same. Entries are complete even after a crash.

use super::process;
use super::{COMPILE_LIMIT, Oracle};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of compiled files.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// The cache in `dir`, which need not exist.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The cubin of `source`, from the cache, or compiled by ptxas or nvcc according to its
    /// extension.
    ///
    /// # Errors
    /// When the compiler refuses the source or cannot be started; the message has its output.
    pub fn compile(
        &self,
        oracle: &Oracle,
        source: &Path,
        arch: &str,
        flags: &[String],
    ) -> Result<PathBuf> {
        let mut compiler = oracle.compiler(source, flags);
        compiler.arg(format!("-arch={arch}"));
        self.make((oracle, compiler), source, "cubin", arch, flags)
    }

    /// The host object of a CUDA C++ `source` with relocatable device code; `flags` name the
    /// architectures.
    ///
    /// # Errors
    /// As [`Cache::compile`].
    pub fn object(&self, oracle: &Oracle, source: &Path, flags: &[String]) -> Result<PathBuf> {
        let mut nvcc = oracle.command("nvcc");
        nvcc.args(["-rdc=true", "-c"]);
        self.make((oracle, nvcc), source, "o", "host object", flags)
    }

    /// The output of `command` for `source`; `what` and `flags` are the rest of the key.
    fn make(
        &self,
        (oracle, mut command): (&Oracle, Command),
        source: &Path,
        extension: &str,
        what: &str,
        flags: &[String],
    ) -> Result<PathBuf> {
        let read = fs::read_to_string(source);
        let read = read.with_context(|| format!("cannot read {}", source.display()))?;
        let text = oracle.release().ptx(&read, what);
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let mut key = Fnv::default();
        for part in [&*text, &*name, what].iter().chain(oracle.release().wheels) {
            key.add(part.as_bytes());
        }
        flags.iter().for_each(|flag| key.add(flag.as_bytes()));
        let dir = self.dir.join(format!("{:032x}", key.0));
        let stem = source.file_stem().unwrap_or_default();
        let made = dir.join(stem).with_extension(extension);
        if made.exists() {
            return Ok(made);
        }
        fs::create_dir_all(&dir)?;
        // Written under a temporary name and renamed: two workers may compile the same file, and
        // one may be killed.
        let suffix = format!(".{extension}");
        let fresh = tempfile::Builder::new().suffix(&suffix).tempfile_in(&dir)?.into_temp_path();
        // Compiled in the folder of the source by its bare name, so that debug sections do not
        // depend on the path.
        let aside = tempfile::tempdir_in(&dir)?;
        if text == read {
            command.current_dir(source.parent().unwrap_or(Path::new(".")));
        } else {
            fs::write(aside.path().join(&*name), &*text)?;
            command.current_dir(aside.path());
        }
        command.args(flags).arg(&*name).arg("-o").arg(fs::canonicalize(&fresh)?);
        let run = process::run(&mut command, COMPILE_LIMIT)?;
        if !run.status.success() {
            let source = source.display();
            bail!("{source} for {what} {flags:?}: {}\n{}", run.status, run.stderr_text());
        }
        fresh.persist(&made)?;
        Ok(made)
    }
}

/// FNV-1a with 128 bits: stable, and without accidental collisions.
struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    /// Adds a part with its length, so that the borders of parts count.
    fn add(&mut self, part: &[u8]) {
        for &byte in (part.len() as u64).to_le_bytes().iter().chain(part) {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
}
