//! `xtask hosts nvlink-aarch64`: NVIDIA's nvlink for AArch64 beside that for x86-64.
//!
//! In: recorded cases of the usual release. Out: what differs. Guaranteed: both link the same files
//! with the same words in folders of their own; compared are status, lines and bytes.

use crate::dist::zig;
use crate::workspace;
use anyhow::{Context, Result, bail};
use culd_testkit::fixtures::case::{self, Case};
use culd_testkit::reference::oracle::process::{self, Status};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The word for it among the names of systems.
pub(super) const NAME: &str = "nvlink-aarch64";

/// The wheel with nvlink, of the release that cases are recorded with, and its name for pip.
const WHEEL: &str = "nvidia-cuda-nvcc==13.0.88";
const PLATFORM: &str = "manylinux2014_aarch64";

/// An emulated link takes a second.
const LIMIT: Duration = Duration::from_secs(120);

/// The end of a link: status, what it said, and its output.
#[derive(PartialEq)]
struct LinkEnd(Status, [Vec<u8>; 2], Option<Vec<u8>>);

/// Links all recorded cases with both.
pub(super) fn compare() -> Result<ExitCode> {
    let ours = workspace::oracle()?.tool("nvlink");
    let theirs = install()?;
    let (mut same, mut failed) = (0, 0);
    for case in case::all()?.iter().filter(|case| case.recipe.release.is_none()) {
        let [here, there] =
            [&ours, &theirs].map(|nvlink| link(nvlink, case).with_context(|| case.name.clone()));
        let (here, there) = (here?, there?);
        if here == there {
            same += 1;
            continue;
        }
        failed += 1;
        for LinkEnd(status, [_, stderr], _) in [here, there] {
            println!("{}: {status} {}", case.name, String::from_utf8_lossy(&stderr));
        }
    }
    println!("{NAME}: {same} cases are the same, {failed} are not");
    if same == 0 {
        bail!("no case was compared");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program, which is installed if it is missing.
fn install() -> Result<PathBuf> {
    let dir = workspace::target().join(NAME);
    let nvlink = dir.join("nvidia/cu13/bin/nvlink");
    if !nvlink.is_file() {
        // Any environment with a pip can install files for another machine.
        let pip = zig::install()?;
        let mut pip = Command::new(pip.program("pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]);
        pip.args(["--only-binary=:all:", "--platform", PLATFORM, "--target"]).arg(&dir).arg(WHEEL);
        process::succeed(&mut pip, LIMIT)?;
    }
    Ok(nvlink)
}

fn link(nvlink: &Path, case: &Case) -> Result<LinkEnd> {
    let folder = tempfile::tempdir()?;
    for (name, bytes) in case.inputs()?.into_iter().chain(case.index_files()?) {
        fs::write(folder.path().join(name), bytes)?;
    }
    let mut command = Command::new(nvlink);
    command.current_dir(&folder).env("QEMU_LD_PREFIX", super::AARCH64_ROOT);
    command.args(case.reference_arguments()).args(["-o", "out.cubin"]);
    let run = process::run(&mut command, LIMIT)
        .with_context(|| format!("cannot start {} (qemu-user-binfmt)", nvlink.display()))?;
    let output = fs::read(folder.path().join("out.cubin")).ok();
    Ok(LinkEnd(run.status, [run.stdout, run.stderr], output))
}
