//! Tests shadow toolkits whose culd is gone, and whose toolkit has changed: nvcc must not use
//! another nvlink.
//!
//! In: objects that nvcc makes of `testdata/e2e/linked`. Out: checks in the report. Guaranteed:
//! NVIDIA's nvlink is in PATH, where nvcc looks if it cannot run the one in its folder.

use super::{BuildBench, BuildToolkit, finish, succeed};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use culd_testkit::reference::compare::embedded;
use culd_testkit::reference::oracle::process::Run;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const NAME: &str = "shadow";

/// Runs the tests and reports; `culd` is the program, `toolkit` the toolkit of the shadows.
pub(super) fn run(bench: &BuildBench, culd: &Path, toolkit: &Path) {
    let dir = bench.work.join(NAME);
    match ShadowBuild::new(bench, dir, culd, toolkit) {
        Ok(world) => {
            bench.check(&format!("{NAME} of a culd that is gone"), world.gone());
            bench.check(&format!("{NAME} that has moved"), world.moved());
            bench.check(&format!("{NAME} of a toolkit that has changed"), world.changed());
        }
        Err(error) => bench.check(NAME, Err(error)),
    }
}

struct ShadowBuild {
    dir: PathBuf,
    /// A toolkit of links, with a release of its own.
    toolkit: PathBuf,
    /// Where NVIDIA's nvlink is.
    usual: PathBuf,
}

impl ShadowBuild {
    fn new(bench: &BuildBench, dir: PathBuf, culd: &Path, toolkit: &Path) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let own = dir.join("cuda");
        fs::create_dir_all(&own)?;
        for entry in fs::read_dir(toolkit)? {
            let entry = entry?;
            symlink(entry.path(), own.join(entry.file_name()))?;
        }
        let world = ShadowBuild { toolkit: own, usual: toolkit.join("bin"), dir };
        world.release("13.0")?;
        fs::create_dir_all(world.dir.join("target"))?;
        let copy = world.dir.join("target/culd");
        fs::copy(culd, &copy)?;
        let mut install = Command::new(&copy);
        install.arg("install-shadow").arg(world.dir.join("tk")).arg("--cuda").arg(&world.toolkit);
        succeed(&mut install)?;
        for stem in ["lib", "lib2"] {
            let source = workspace::root().join("testdata/e2e/linked").join(format!("{stem}.cu"));
            let mut nvcc = bench.reference.command("nvcc", &world.dir);
            succeed(
                nvcc.args(["-arch=sm_90", "-dc"]).arg(source).args(["-o", &format!("{stem}.o")]),
            )?;
        }
        Ok(world)
    }

    fn release(&self, name: &str) -> Result<()> {
        let text = format!("{{\"cuda\" : {{ \"version\" : \"{name}.1\" }} }}");
        Ok(fs::write(self.toolkit.join("version.json"), text)?)
    }

    /// A device link by the nvcc of the shadow called `name`.
    fn link(&self, name: &str) -> Result<Run> {
        let shadow = BuildToolkit { dir: self.dir.join(name), linker: "culd" };
        let mut nvcc = shadow.command("nvcc", &self.dir);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [self.usual.clone()].into_iter().chain(std::env::split_paths(&path));
        nvcc.env("PATH", std::env::join_paths(path)?);
        finish(nvcc.args(["-arch=sm_90", "-dlink", "lib.o", "lib2.o", "-o", "out.o"]))
    }

    fn links_with_culd(&self, name: &str) -> Result<()> {
        let run = self.link(name)?;
        ensure!(run.status.success(), "{}", run.stderr_text());
        let out = self.dir.join("out.o");
        let linkers = embedded::linkers(&fs::read(&out).context("no output")?);
        ensure!(linkers == ["culd"], "linked by {linkers:?}");
        Ok(fs::remove_file(out)?)
    }

    fn gone(&self) -> Result<()> {
        self.links_with_culd("tk")?;
        fs::remove_dir_all(self.dir.join("target"))?;
        self.links_with_culd("tk")
    }

    fn moved(&self) -> Result<()> {
        fs::rename(self.dir.join("tk"), self.dir.join("tk-2"))?;
        self.links_with_culd("tk-2")
    }

    fn changed(&self) -> Result<()> {
        self.release("13.5")?;
        let run = self.link("tk-2")?;
        let said = run.stderr_text();
        ensure!(!run.status.success(), "it links");
        ensure!(said.contains("it is CUDA 13.5"), "it says {said:?}");
        ensure!(!self.dir.join("out.o").exists(), "it leaves an output");
        Ok(())
    }
}
