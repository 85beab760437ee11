//! Installs pinned wheels from PyPI into folders.
//!
//! In: a folder and its wheels. Out: an [`Environment`] with their programs and packages.
//! Guaranteed: they are installed once, and again if the list has changed or an installation was
//! interrupted. No part of them becomes part of this project.

use super::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The file with the list of wheels; written last, so that an interrupted installation is repeated.
const READY: &str = ".ready";

/// Time limit of one step. The largest wheels have some 200 MB.
const LIMIT: Duration = Duration::from_secs(900);

/// A Python environment with only some wheels and their dependencies.
#[derive(Clone, Debug)]
pub struct Environment {
    dir: PathBuf,
}

impl Environment {
    /// The environment in `dir` with `wheels`, which is made if it is missing.
    ///
    /// # Errors
    /// When python3 or pip is missing or fails.
    pub fn install(dir: &Path, wheels: &[&str]) -> Result<Self> {
        Self::install_with(dir, wheels, &[])
    }

    /// The same without dependencies of the wheels, for libraries that are not run.
    ///
    /// # Errors
    /// As [`Environment::install`].
    pub fn install_alone(dir: &Path, wheels: &[&str]) -> Result<Self> {
        Self::install_with(dir, wheels, &["--no-deps"])
    }

    fn install_with(dir: &Path, wheels: &[&str], options: &[&str]) -> Result<Self> {
        if Self::is_installed(dir, wheels) {
            return Ok(Self::existing(dir));
        }
        eprintln!("installing from PyPI into {}: {}", dir.display(), wheels.join(" "));
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(dir);
        step(
            &mut venv,
            "python3 with its venv module is needed (on Debian: apt install python3-venv)",
        )?;
        let mut pip = Command::new(dir.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        step(pip.args(options).args(wheels), "pip has to reach PyPI or a mirror of it")?;
        fs::write(dir.join(READY), list(wheels))?;
        Ok(Self::existing(dir))
    }

    /// True if `dir` holds these wheels.
    pub fn is_installed(dir: &Path, wheels: &[&str]) -> bool {
        fs::read_to_string(dir.join(READY)).is_ok_and(|installed| installed == list(wheels))
    }

    /// An environment that exists already.
    pub fn existing(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Path of a program of the wheels.
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }

    /// Folder of a package of the wheels, for any version of Python.
    ///
    /// # Errors
    /// When there is none.
    pub fn package(&self, name: &str) -> Result<PathBuf> {
        let lib = self.dir.join("lib");
        let entries =
            fs::read_dir(&lib).with_context(|| format!("cannot list {}", lib.display()))?;
        for entry in entries {
            let package = entry?.path().join("site-packages").join(name);
            if package.is_dir() {
                return Ok(package);
            }
        }
        bail!("no python3*/site-packages/{name} in {}", lib.display())
    }
}

/// What [`READY`] holds.
fn list(wheels: &[&str]) -> String {
    wheels.join("\n")
}

fn step(command: &mut Command, hint: &str) -> Result<()> {
    let shown = format!("{:?}", command.get_program());
    let run =
        process::run(command, LIMIT).with_context(|| format!("cannot start {shown}: {hint}"))?;
    if !run.status.success() {
        bail!("{shown} failed ({}): {hint}\n{}", run.status, run.stderr_text());
    }
    Ok(())
}
