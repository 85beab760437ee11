//! The two linkers as commands.
//!
//! In: their paths. Out: [`ProbeLinkers`]. Guaranteed: both get the same file names and options, in
//! separate folders.

use anyhow::{Context, Result};
use culd_testkit::probe::batch::{BatchAnswer, ProbeLinker};
use culd_testkit::probe::{object, series};
use culd_testkit::reference::compare::trial::Tools;
use culd_testkit::reference::oracle::process::{self, Status};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Generous: a link takes a hundredth of a second.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) struct ProbeLinkers {
    nvlink: PathBuf,
    culd: PathBuf,
}

/// The number of remembered links: most links of a batch are needed twice or more, for fates,
/// digest and comparison.
const REMEMBERED: usize = 32;

/// A linker and its folder.
pub(super) struct Tool {
    program: PathBuf,
    dir: TempDir,
    /// The last objects and their results.
    last: RefCell<VecDeque<(u32, Vec<u8>, BatchAnswer)>>,
}

impl ProbeLinkers {
    pub(super) fn new(tools: Tools) -> Self {
        Self { nvlink: tools.oracle.tool("nvlink"), culd: tools.candidate }
    }

    /// nvlink and the linker under test, for one worker.
    pub(super) fn start(&self) -> Result<[Tool; 2]> {
        Ok([Tool::new(self.nvlink.clone())?, Tool::new(self.culd.clone())?])
    }
}

impl Tool {
    fn new(program: PathBuf) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        for sm in series::ARCHS {
            fs::write(dir.path().join(front(sm)), object::front(sm)?)?;
        }
        Ok(Self { program, dir, last: RefCell::default() })
    }

    fn remembered(&self, sm: u32, object: &[u8]) -> Option<BatchAnswer> {
        let last = self.last.borrow();
        let same = last.iter().find(|(other, bytes, _)| *other == sm && bytes == object);
        same.map(|(_, _, answer)| answer.clone())
    }

    fn remember(&self, sm: u32, object: &[u8], answer: &BatchAnswer) {
        let mut last = self.last.borrow_mut();
        last.truncate(REMEMBERED - 1);
        last.push_front((sm, object.to_vec(), answer.clone()));
    }

    fn run(&self, sm: u32, object: &[u8]) -> Result<BatchAnswer> {
        let dir = self.dir.path();
        fs::write(dir.join("probe.cubin"), object)?;
        let out = dir.join("out.cubin");
        if out.exists() {
            fs::remove_file(&out)?;
        }
        let mut command = Command::new(&self.program);
        command.env_remove("LD_LIBRARY_PATH").current_dir(dir);
        command.args([&format!("-arch=sm_{sm}"), &front(sm), "probe.cubin", "-o", "out.cubin"]);
        let run = process::run(&mut command, LIMIT)
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        Ok(match run.status {
            Status::Exit(0) => BatchAnswer::Linked(fs::read(&out).context("no output")?),
            Status::Exit(_) => BatchAnswer::Refused(BatchAnswer::message(&run.stderr_text())),
            other => BatchAnswer::Crashed(other.to_string()),
        })
    }
}

fn front(sm: u32) -> String {
    format!("front-{sm}.cubin")
}

impl ProbeLinker for Tool {
    fn link(&self, sm: u32, object: &[u8]) -> Result<BatchAnswer> {
        if let Some(answer) = self.remembered(sm, object) {
            return Ok(answer);
        }
        let answer = self.run(sm, object)?;
        self.remember(sm, object, &answer);
        Ok(answer)
    }
}
