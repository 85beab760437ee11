//! One damaged link under limits.
//!
//! In: a [`Mutant`]. Out: a [`DamageTrial`]. Guaranteed: only the files of a link with a fault are
//! kept, in the folder for these.

use anyhow::{Context, Result};
use culd_testkit::random::mutate::program::{Mutant, OUTPUT};
use culd_testkit::reference::oracle::process::{self, Run, Status};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longer is a hang.
const LIMIT: Duration = Duration::from_secs(10);
/// The limit of resident memory that does not depend on the inputs, KiB.
const MEMORY: u64 = 64 << 10;
/// The additional memory, as a multiple of the size of the inputs.
const TIMES: u64 = 3;
/// The limit of address space in bytes; larger requests fail. It includes stacks and arenas of
/// threads, so it is no measure of memory.
const ADDRESS_SPACE: u64 = 2 << 30;
/// The size limit of output files in bytes, far above the outputs of files of a few kilobytes.
const MAX_FILE: u64 = 256 << 20;
/// The option for a file that nvlink writes even after errors, and culd too: nvcc compiles it into
/// the host program.
const AFTER_ERRORS: &str = "--register-link-binaries=";
/// The old output before half of the links.
const OLD: &[u8] = b"the output of an earlier link";

/// The end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkEnd {
    /// With an output.
    Linked,
    /// With an error, and the output as it was.
    Refused,
    /// By a panic.
    Panicked,
    /// By a signal.
    Signal,
    /// Not within the limit.
    Hang,
    /// With more memory than the limit.
    Memory,
    /// With an error, and a new output or file.
    LeftOver,
    /// With an error status but no error line, or with neither error nor output.
    Mute,
    /// With an output that is not sound.
    Unsound,
}

impl LinkEnd {
    pub(super) const ALL: [LinkEnd; 9] = [
        LinkEnd::Linked,
        LinkEnd::Refused,
        LinkEnd::Panicked,
        LinkEnd::Signal,
        LinkEnd::Hang,
        LinkEnd::Memory,
        LinkEnd::LeftOver,
        LinkEnd::Mute,
        LinkEnd::Unsound,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            LinkEnd::Linked => "linked",
            LinkEnd::Refused => "refused",
            LinkEnd::Panicked => "panicked",
            LinkEnd::Signal => "signal",
            LinkEnd::Hang => "hang",
            LinkEnd::Memory => "memory",
            LinkEnd::LeftOver => "left over",
            LinkEnd::Mute => "mute",
            LinkEnd::Unsound => "unsound",
        }
    }

    pub(super) fn is_good(self) -> bool {
        matches!(self, LinkEnd::Linked | LinkEnd::Refused)
    }
}

/// The result of a link.
pub(super) struct DamageTrial {
    pub(super) outcome: LinkEnd,
    /// The fault, in words.
    pub(super) what: String,
    pub(super) wall: Duration,
    /// The peak of all links of this worker so far, KiB.
    pub(super) peak_kib: u64,
}

/// Makes links.
pub(super) struct LimitedLinker {
    culd: PathBuf,
    verify: bool,
    keep: PathBuf,
    world: tempfile::TempDir,
}

impl LimitedLinker {
    /// Sets the limits of this process, and so of all links.
    pub(super) fn new(culd: &Path, verify: bool, keep: &Path) -> Result<Self> {
        setrlimit(Resource::RLIMIT_AS, ADDRESS_SPACE, ADDRESS_SPACE)?;
        setrlimit(Resource::RLIMIT_FSIZE, MAX_FILE, MAX_FILE)?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        let world = tempfile::tempdir()?;
        Ok(Self { culd: culd.to_owned(), verify, keep: keep.to_owned(), world })
    }

    /// Makes one link.
    pub(super) fn trial(&mut self, seed: u64, mutant: &Mutant) -> Result<DamageTrial> {
        let dir = self.world.path().join(seed.to_string());
        fs::create_dir(&dir)?;
        for (name, bytes) in &mutant.files {
            fs::write(dir.join(name), bytes)?;
        }
        if seed % 2 == 1 {
            fs::write(dir.join(OUTPUT), OLD)?;
        }
        let before = contents(&dir)?;
        let mut command = Command::new(&self.culd);
        command.arg0("culd");
        // No ptxas is found: these tests are not about it.
        command.current_dir(&dir).args(&mutant.args).env_clear().env("PATH", "/nonexistent");
        if self.verify {
            command.arg("--verify");
        }
        let run = process::run(&mut command, LIMIT).context("the linker does not start")?;
        let after = contents(&dir)?;
        let input: u64 = mutant.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let peak_kib = u64::try_from(getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss())?;
        let allowed = MEMORY + TIMES * input.div_ceil(1024);
        let mut judgement = judge(&run, &mutant.args, &before, &after);
        if judgement.end.is_good() && peak_kib > allowed {
            let what = format!("{peak_kib} KiB for {input} bytes");
            judgement = Judgement { end: LinkEnd::Memory, what };
        }
        let Judgement { end: outcome, what } = judgement;
        fs::remove_dir_all(&dir)?;
        if !outcome.is_good() {
            self.keep(seed, mutant, &run, &what)?;
        }
        Ok(DamageTrial { outcome, what, wall: run.wall, peak_kib })
    }

    /// Writes a link that went wrong.
    fn keep(&self, seed: u64, mutant: &Mutant, run: &Run, what: &str) -> Result<()> {
        let dir = self.keep.join(seed.to_string());
        fs::create_dir_all(&dir)?;
        for (name, bytes) in &mutant.files {
            fs::write(dir.join(name), bytes)?;
        }
        let quoted = mutant.args.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        let line = format!("culd {}\n", quoted.collect::<Vec<_>>().join(" "));
        fs::write(dir.join("run.sh"), line)?;
        let said = format!("{what}\n{}\n{}", run.status, run.stderr_text());
        Ok(fs::write(dir.join("said.txt"), said)?)
    }
}

type FileContents = BTreeMap<String, Vec<u8>>;

/// Names and bytes of the files in a folder.
fn contents(dir: &Path) -> Result<FileContents> {
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry?;
        let bytes = fs::read(entry.path())?;
        Ok((entry.file_name().to_string_lossy().into_owned(), bytes))
    };
    fs::read_dir(dir)?.map(file).collect()
}

/// The end of a link.
struct Judgement {
    end: LinkEnd,
    /// The fault in words; empty if there is none.
    what: String,
}

fn judge(run: &Run, args: &[String], before: &FileContents, after: &FileContents) -> Judgement {
    let said = run.stderr_text();
    let line = |part: &str| said.lines().find(|line| line.contains(part)).map(str::to_owned);
    let changed = || {
        after.iter().find(|(name, bytes)| before.get(*name) != Some(bytes)).map(|(name, _)| name)
    };
    if let Some(panic) = line("panicked at") {
        return Judgement { end: LinkEnd::Panicked, what: panic };
    }
    if let Some(unsound) = line("culd fatal   : --verify: ") {
        return Judgement { end: LinkEnd::Unsound, what: unsound };
    }
    let status = match run.status {
        Status::Signal(signal) => {
            return Judgement { end: LinkEnd::Signal, what: format!("signal {signal}") };
        }
        Status::TimedOut => {
            return Judgement { end: LinkEnd::Hang, what: "no end".to_owned() };
        }
        Status::Exit(status) => status,
    };
    let failed =
        said.lines().any(|line| line.starts_with("culd fatal") || line.starts_with("culd error"));
    let (end, what) = match (status, failed) {
        (0, false) => match changed() {
            Some(name) if name.starts_with(".culd-") => (LinkEnd::LeftOver, name.clone()),
            Some(_) => (LinkEnd::Linked, String::new()),
            // Text in place of a link: help, versions.
            None if !run.stdout.is_empty() => (LinkEnd::Refused, String::new()),
            None => (LinkEnd::Mute, "no output and no error".to_owned()),
        },
        (0, true) => (LinkEnd::Mute, "an error and exit status 0".to_owned()),
        (1 | 255, true) => match changed() {
            Some(name) if !args.iter().any(|arg| arg.strip_prefix(AFTER_ERRORS) == Some(name)) => {
                (LinkEnd::LeftOver, name.clone())
            }
            _ => (LinkEnd::Refused, String::new()),
        },
        (101, _) => (LinkEnd::Panicked, said),
        _ => (LinkEnd::Mute, format!("exit status {status} without an error")),
    };
    Judgement { end, what }
}
