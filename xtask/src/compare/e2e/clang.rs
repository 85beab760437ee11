//! Builds a program by Clang with relocatable device code, by both of its offload drivers.
//!
//! In: `testdata/e2e/clang`; a clang++ of release 20 or later in PATH, and curand's headers, which
//! Clang includes, from PyPI. Out: comparisons in the report; none where there is no such Clang.
//! Guaranteed: the commands of both builds differ only in the path of the toolkit.

use super::nvcc::same_programs;
use super::{BuildBench, BuildToolkit, succeed};
use crate::workspace;
use anyhow::{Context, Result};
use culd_testkit::reference::oracle::wheels::Environment;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const NAME: &str = "clang";

const WHEELS: &[&str] = &["nvidia-curand==10.4.0.35"];

/// The releases that are looked for. Clang 19 asks `fatbinary` of CUDA 13 for what it refuses.
const RELEASES: std::ops::RangeInclusive<u32> = 20..=30;

const FILES: [&str; 2] = ["caller", "callee"];

/// The names of builds, and their options.
const BUILDS: &[(&str, &[&str])] = &[
    ("new driver", &["--offload-new-driver"]),
    ("new driver, LTO", &["--offload-new-driver", "-foffload-lto"]),
];

/// The end of a command that links a host program. A build identifier would be a hash of the
/// cubins.
const HOST: [&str; 7] =
    ["-lcudart_static", "-lrt", "-lpthread", "-ldl", "-Wl,--build-id=none", "-o", "program"];

const ARCHS: &[&[&str]] = &[&["sm_90"], &["sm_75", "sm_80", "sm_90"]];

/// Builds with both toolkits and reports.
pub(super) fn run(bench: &BuildBench) {
    let Some(clang) = newest() else {
        println!("       {NAME}: no clang++ of a release from 20 on in PATH");
        return;
    };
    let result = (|| -> Result<ClangBuild<'_>> {
        let headers =
            Environment::install_alone(&workspace::target().join("clang-headers"), WHEELS)?;
        Ok(ClangBuild { bench, clang, headers: include(&headers)? })
    })();
    match result {
        Ok(build) => build.compare(),
        Err(error) => bench.check(NAME, Err(error)),
    }
}

/// The newest clang++, by Debian's names.
fn newest() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = RELEASES.rev().map(|release| format!("clang++-{release}"));
    let mut files = names.flat_map(|name| folders.iter().map(move |folder| folder.join(&name)));
    files.find(|file| file.is_file())
}

/// The folder of headers in an environment with NVIDIA's wheels.
fn include(environment: &Environment) -> Result<PathBuf> {
    let root = environment.package("nvidia")?;
    let folders = fs::read_dir(&root)?.filter_map(Result::ok).map(|entry| entry.path());
    let mut headers = folders.map(|folder| folder.join("include"));
    headers.find(|folder| folder.join("curand.h").is_file()).context("no curand.h")
}

struct ClangBuild<'b> {
    bench: &'b BuildBench,
    clang: PathBuf,
    /// A folder with curand's headers.
    headers: PathBuf,
}

impl ClangBuild<'_> {
    fn compare(&self) {
        for archs in ARCHS {
            for (name, options) in BUILDS {
                let name = format!("{NAME} {name} {}", archs.join(" "));
                let both = self
                    .both(&name, archs, |toolkit, dir| self.whole(toolkit, dir, options, archs));
                self.bench.check(&name, both);
            }
            let name = format!("{NAME} old driver {}", archs.join(" "));
            let both = self.both(&name, archs, |toolkit, dir| self.by_hand(toolkit, dir, archs));
            self.bench.check(&name, both);
        }
    }

    /// Builds with both toolkits, and compares the programs and what they print.
    fn both(
        &self,
        name: &str,
        archs: &[&str],
        build: impl Fn(&BuildToolkit, &Path) -> Result<()>,
    ) -> Result<()> {
        let folder = self.bench.work.join(name.replace([' ', ','], "-"));
        let [theirs, ours] = ["nvlink", "culd--"].map(|side| folder.join(side));
        for (toolkit, dir) in [(&self.bench.reference, &theirs), (&self.bench.candidate, &ours)] {
            fs::create_dir_all(dir)?;
            build(toolkit, dir)?;
        }
        let [theirs, ours] = [theirs, ours].map(|dir| dir.join("program"));
        self.bench.same_files(&theirs, &ours, archs.len())?;
        same_programs(&theirs, &ours)
    }

    /// A command of Clang for device code of `archs`.
    fn command(&self, toolkit: &BuildToolkit, dir: &Path, archs: &[&str]) -> Command {
        let mut clang = Command::new(&self.clang);
        clang.current_dir(dir).env_remove("LD_LIBRARY_PATH");
        clang.args(["-Wno-unknown-cuda-version", "-fgpu-rdc", "-I"]).arg(&self.headers);
        clang.arg(format!("--cuda-path={}", toolkit.dir.display()));
        clang.args(archs.iter().map(|arch| format!("--offload-arch={arch}")));
        clang
    }

    /// The program by one command.
    fn whole(
        &self,
        toolkit: &BuildToolkit,
        dir: &Path,
        options: &[&str],
        archs: &[&str],
    ) -> Result<()> {
        let mut clang = self.command(toolkit, dir, archs);
        clang.args(options).args(["-x", "cuda"]).args(FILES.map(source));
        clang.arg(format!("-L{}", toolkit.dir.join("lib").display()));
        succeed(clang.args(HOST))?;
        Ok(())
    }

    /// The program by the old driver, which leaves the device link to its user.
    fn by_hand(&self, toolkit: &BuildToolkit, dir: &Path, archs: &[&str]) -> Result<()> {
        let objects = FILES.map(|file| format!("{file}.o"));
        for (file, object) in FILES.iter().zip(&objects) {
            let mut clang = self.command(toolkit, dir, archs);
            clang.args(["--no-offload-new-driver", "-x", "cuda", "-c"]).arg(source(file));
            succeed(clang.args(["-o", object]))?;
        }
        let mut nvcc = toolkit.command("nvcc", dir);
        nvcc.args(archs.iter().map(|arch| {
            let number = arch.trim_start_matches("sm_");
            format!("-gencode=arch=compute_{number},code=sm_{number}")
        }));
        succeed(nvcc.arg("-dlink").args(&objects).args(["-o", "device.o"]))?;
        let mut gcc = Command::new("g++");
        gcc.current_dir(dir).args(&objects).arg("device.o");
        gcc.arg(format!("-L{}", toolkit.dir.join("lib").display()));
        succeed(gcc.args(HOST))?;
        Ok(())
    }
}

fn source(file: &str) -> PathBuf {
    workspace::root().join("testdata/e2e/clang").join(file).with_extension("cu")
}
