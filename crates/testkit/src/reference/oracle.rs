//! The reference tools of a [`Release`] of CUDA from PyPI, by default 13.0.88.
//!
//! In: a release and a folder to install into. Out: an [`Oracle`] that starts ptxas, nvcc and
//! nvlink. Guaranteed: versions are pinned and installed once in each folder. No part of them
//! becomes part of this project.

pub mod cache;
pub mod process;
pub mod release;
pub mod wheels;

use anyhow::{Context, Result, bail};
pub use release::{RELEASES, Release};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wheels::Environment;

/// Time limit of one compilation: nvcc takes seconds, and much longer on a busy machine.
pub const COMPILE_LIMIT: Duration = Duration::from_secs(300);

/// An installation of the reference tools.
#[derive(Clone, Debug)]
pub struct Oracle {
    release: &'static Release,
    toolkit: PathBuf,
    linker: ReferenceLinker,
}

/// The reference linker of a release.
#[derive(Clone, Debug)]
enum ReferenceLinker {
    /// nvlink among the tools.
    Own,
    /// nvlink of another installation of the same release.
    Other(PathBuf),
    /// A program with nvlink's command line that links with this libnvJitLink.
    StandIn {
        program: PathBuf,
        library: PathBuf,
    },
    Missing,
}

/// Environment variable with the path of the library, for the program that stands in for nvlink.
const LIBRARY: &str = "LIBNVJITLINK";

/// Source of that program, in the source tree.
const STAND_IN: &str = "testdata/jitlink/nvlink.c";

impl Oracle {
    /// The installation in `dir`, which is made if it is missing. `existing` (from `CULD_ORACLE`)
    /// is a folder with the same layout to use instead.
    ///
    /// # Errors
    /// When python3 or pip is missing or fails, or when `existing` has no such tools.
    pub fn locate(release: &'static Release, dir: &Path, existing: Option<&OsStr>) -> Result<Self> {
        if let Some(existing) = existing {
            return Self::open(release, Path::new(existing))
                .with_context(|| format!("CULD_ORACLE={}", existing.display()));
        }
        let environment = Environment::install(dir, release.wheels)
            .with_context(|| format!("cannot install the tools of CUDA {}", release.name))?;
        let toolkit = environment.package(release.package)?;
        if release.has_nvcc() {
            // nvcc looks for lib64 and for an unversioned runtime library, which the wheels do not
            // have.
            link("lib", &toolkit.join("lib64"))?;
            link("libcudart.so.13", &toolkit.join("lib/libcudart.so"))?;
            // nvlink looks for libnvvm in one place.
            fs::create_dir_all(toolkit.join("nvvm/lib64"))?;
            link("../../lib/libnvvm.so.4", &toolkit.join("nvvm/lib64/libnvvm.so"))?;
        }
        let mut oracle = Self::open(release, dir)?;
        if !release.has_nvlink() && release.has_jitlink() {
            let library = environment.package("nvidia/nvjitlink")?.join("lib/libnvJitLink.so.12");
            oracle.linker = ReferenceLinker::StandIn { program: stand_in(dir)?, library };
        }
        Ok(oracle)
    }

    /// The same with nvlink of `toolkit`, a folder in NVIDIA's layout, if it has one.
    pub fn with_toolkit(mut self, toolkit: &Path) -> Self {
        let nvlink = toolkit.join("bin/nvlink");
        if nvlink.is_file() {
            self.linker = ReferenceLinker::Other(nvlink);
        }
        self
    }

    /// All tools of `toolkit`, a folder in NVIDIA's layout.
    pub fn of_toolkit(release: &'static Release, toolkit: &Path) -> Self {
        Self { release, toolkit: toolkit.to_owned(), linker: ReferenceLinker::Own }
    }

    /// True if there is a linker to compare with.
    pub fn has_linker(&self) -> bool {
        !matches!(self.linker, ReferenceLinker::Missing)
    }

    /// True if a library stands in for nvlink: it knows fewer options.
    pub fn is_stand_in(&self) -> bool {
        matches!(self.linker, ReferenceLinker::StandIn { .. })
    }

    /// As [`Self::locate`], but nothing is installed: `None` when the tools are missing.
    ///
    /// # Errors
    /// When `existing` or `dir` is an installation without tools.
    pub fn installed(
        release: &'static Release,
        dir: &Path,
        existing: Option<&OsStr>,
    ) -> Result<Option<Self>> {
        let there = existing.is_some() || Environment::is_installed(dir, release.wheels);
        there.then(|| Self::locate(release, dir, existing)).transpose()
    }

    fn open(release: &'static Release, dir: &Path) -> Result<Self> {
        let toolkit = fs::canonicalize(Environment::existing(dir).package(release.package)?)?;
        for tool in release.tools {
            if !toolkit.join("bin").join(tool).is_file() {
                bail!("no {tool} in {}", toolkit.join("bin").display());
            }
        }
        let linker =
            if release.has_nvlink() { ReferenceLinker::Own } else { ReferenceLinker::Missing };
        Ok(Self { release, toolkit, linker })
    }

    /// Which release it is.
    pub fn release(&self) -> &'static Release {
        self.release
    }

    /// The toolkit: a folder with `bin/nvcc`, `include` and `lib64`.
    pub fn toolkit(&self) -> &Path {
        &self.toolkit
    }

    /// Path of one of the tools.
    pub fn tool(&self, name: &str) -> PathBuf {
        match &self.linker {
            ReferenceLinker::Other(program) | ReferenceLinker::StandIn { program, .. }
                if name == "nvlink" =>
            {
                program.clone()
            }
            _ => self.toolkit.join("bin").join(name),
        }
    }

    /// The release's libnvJitLink.
    ///
    /// # Errors
    /// When there is none, as in CUDA 11.
    pub fn jitlink(&self) -> Result<PathBuf> {
        let folder = self.toolkit.ancestors().find(|folder| folder.ends_with("nvidia"));
        let wheel = folder.map(|folder| folder.join("nvjitlink/lib/libnvJitLink.so.12"));
        let places = [Some(self.toolkit_library("libnvJitLink.so.13")), wheel];
        let found = places.into_iter().flatten().find(|library| library.is_file());
        found.with_context(|| format!("no libnvJitLink of {}", self.release.name))
    }

    /// Path of one of the libraries.
    pub fn toolkit_library(&self, name: &str) -> PathBuf {
        self.toolkit.join("lib").join(name)
    }

    /// A command that compiles `source` to a relocatable cubin: ptxas, or nvcc for CUDA C++. The
    /// caller adds `flags`; `-ewp` among them replaces the usual mode.
    pub fn compiler(&self, source: &Path, flags: &[String]) -> Command {
        let cuda = source.extension().is_some_and(|extension| extension == "cu");
        let mut command = self.command(if cuda { "nvcc" } else { "ptxas" });
        let whole_program = flags.iter().any(|flag| flag == "-ewp");
        command.args(match (cuda, whole_program) {
            (true, true) => &["-cubin"][..],
            (true, false) => &["-dc", "-cubin"],
            (false, true) => &[],
            (false, false) => &["-c"],
        });
        command
    }

    /// A command that runs a tool. `LD_LIBRARY_PATH` is removed: it only changes the start-up time.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.tool(name));
        command.env("CUDA_HOME", &self.toolkit).env_remove("LD_LIBRARY_PATH");
        if let ReferenceLinker::StandIn { library, .. } = &self.linker {
            command.env(LIBRARY, library);
        }
        command
    }
}

/// The program that stands in for nvlink, in the folder `dir`; it is compiled again if its source
/// has changed.
fn stand_in(dir: &Path) -> Result<PathBuf> {
    let source = crate::fixtures::case::source_root().join(STAND_IN);
    let text = fs::read(&source).with_context(|| source.display().to_string())?;
    let (program, made_of) = (dir.join("bin/nvlink-stand-in"), dir.join("bin/nvlink-stand-in.c"));
    if program.is_file() && fs::read(&made_of).is_ok_and(|old| old == text) {
        return Ok(program);
    }
    let mut gcc = Command::new("gcc");
    // Under a temporary name, because several tasks may do this at the same time.
    let fresh = tempfile::Builder::new().tempfile_in(dir)?.into_temp_path();
    gcc.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&fresh).arg(&source).arg("-ldl");
    let run = process::run(&mut gcc, COMPILE_LIMIT).context("gcc is needed")?;
    if !run.status.success() {
        bail!("{}: {}", source.display(), run.stderr_text());
    }
    fresh.persist(&program)?;
    fs::write(made_of, text)?;
    Ok(program)
}

fn link(target: &str, path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        std::os::unix::fs::symlink(target, path)
            .with_context(|| format!("cannot link {}", path.display()))?;
    }
    Ok(())
}
