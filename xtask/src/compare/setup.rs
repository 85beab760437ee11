//! The common options of suites: linkers, targets, seeds, and the folder for differences.
//!
//! In: the words after the name of a suite. Out: a [`Setup`]. Guaranteed: an option that the suite
//! does not take is refused.

use super::Suite;
use crate::args::Args;
use crate::workspace;
use anyhow::{Result, bail};
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::reference::compare::trial::{LINK_LIMIT, LinkMethod, Tools};
use culd_testkit::reference::oracle::Oracle;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

/// An option that several suites take.
#[derive(Debug, Clone, Copy)]
pub(super) enum Common {
    /// `--release 13.N`.
    Release,
    /// `--release R[,R]`.
    Releases,
    /// `--objects R[,R]`.
    Objects,
    /// `--arch SM[,SM]`; by default these, or the choice of the suite.
    Archs(&'static str),
    /// `--seeds A..B`; by default these.
    Seeds(u64, u64),
    /// `--jobs N`.
    Jobs,
    /// `--with OPTION`.
    With,
    /// `--steps`, `--relinked`, `--rebuilt`.
    Methods,
}

/// The common options of a run.
pub(super) struct Setup {
    culd: Option<String>,
    release: Option<String>,
    objects: Option<String>,
    /// Targets; none where the suite chooses.
    pub(super) archs: Vec<PtxArch>,
    pub(super) seeds: Range<u64>,
    pub(super) jobs: usize,
    /// The folder for files of differences, or for all files.
    pub(super) keep: PathBuf,
    /// A further option of every link.
    pub(super) with: Option<String>,
    pub(super) method: LinkMethod,
    /// The remaining words, for the suite.
    pub(super) args: Args,
    /// Behind `--`.
    pub(super) words: Vec<String>,
}

impl Setup {
    pub(super) fn new(suite: &Suite, mut words: Vec<String>) -> Result<Self> {
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let behind = words.drain(end..).skip(1).collect();
        let mut args = Args::new(words);
        let mut setup = Setup {
            culd: args.culd()?,
            release: None,
            objects: None,
            archs: Vec::new(),
            seeds: 0..0,
            jobs: 2,
            keep: args.keep(&format!("compare/{}", suite.name))?,
            with: None,
            method: LinkMethod::Program,
            args,
            words: behind,
        };
        let args = &mut setup.args;
        for common in suite.takes {
            match *common {
                Common::Release | Common::Releases => setup.release = args.option("--release")?,
                Common::Objects => setup.objects = args.option("--objects")?,
                Common::Archs(usual) => setup.archs = args.archs(usual)?,
                Common::Seeds(first, end) => setup.seeds = args.seeds(first..end)?,
                Common::Jobs => setup.jobs = args.jobs()?,
                Common::With => setup.with = args.option("--with")?,
                Common::Methods => setup.method = method(args),
            }
        }
        Ok(setup)
    }

    /// Both linkers, of the releases that the options name. The linker under test is a path,
    /// `nvlink` for the oracle itself, or by default the release build of culd.
    pub(super) fn tools(&self) -> Result<Tools> {
        let oracle = match &self.release {
            Some(name) => workspace::oracle_of(name.parse()?)?,
            None => workspace::oracle()?,
        };
        self.tools_of(oracle)
    }

    /// The same, of a release with an nvcc.
    pub(super) fn tools_with_nvcc(&self) -> Result<Tools> {
        let name = self.release.as_deref().unwrap_or("13.0");
        self.tools_of(workspace::oracle_with_nvcc(name.parse()?)?)
    }

    fn tools_of(&self, oracle: Oracle) -> Result<Tools> {
        if !oracle.has_linker() {
            bail!("there is no nvlink of {}", oracle.release().name);
        }
        let mut tools = self.tools_with(oracle)?;
        for name in self.objects.iter().flat_map(|list| list.split(',')) {
            tools.compilers.push(workspace::oracle_of(name.parse()?)?);
        }
        if self.release.is_none() && self.objects.is_none() {
            tools.dialect_option.clear();
        }
        Ok(tools)
    }

    /// nvlink of `oracle`, and the linker under test for the same release.
    pub(super) fn tools_with(&self, oracle: Oracle) -> Result<Tools> {
        let candidate = workspace::candidate(self.culd.as_deref(), &oracle)?;
        let itself = candidate == oracle.tool("nvlink");
        let dialect_option = (!itself).then(|| format!("--dialect={}", oracle.release().name));
        let dialect_option = dialect_option.into_iter().collect();
        Ok(Tools { oracle, compilers: Vec::new(), candidate, dialect_option, limit: LINK_LIMIT })
    }

    /// The releases of `--release`, 13.0 without it.
    pub(super) fn releases(&self) -> Vec<String> {
        let list = self.release.as_deref().unwrap_or("13.0");
        list.split(',').map(str::to_owned).collect()
    }

    /// The given seeds, which must have an end.
    pub(super) fn bounded_seeds(&self) -> Result<Range<u64>> {
        if self.seeds.end == u64::MAX {
            bail!("--seeds A..B");
        }
        Ok(self.seeds.clone())
    }

    /// Refuses words that the suite did not take.
    pub(super) fn finish(&mut self) -> Result<()> {
        std::mem::replace(&mut self.args, Args::new(Vec::new())).finish()
    }
}

/// The method of a comparison: a program; with `--steps` in several steps; with `--relinked` of
/// objects that either linker made; with `--rebuilt` of objects built again.
fn method(args: &mut Args) -> LinkMethod {
    let methods = [
        ("--steps", LinkMethod::Steps),
        ("--relinked", LinkMethod::Relinked { one_program: true }),
        ("--rebuilt", LinkMethod::Rebuilt),
    ];
    methods
        .into_iter()
        .find(|(flag, _)| args.flag(flag))
        .map_or(LinkMethod::Program, |(_, method)| method)
}

/// The help of `--release`.
const RELEASE_HELP: &str = "nvlink of this release, 11.8 to 13.5 (default 13.0). Of CUDA 12 libnvJitLink takes its
                   place, unless the folder of CULD_TOOLKITS has a toolkit of that name; 11.8 needs one";

/// The help for the common options of a suite.
pub(super) fn help(suite: &Suite) -> String {
    let mut text = String::new();
    let mut add = |option: &str, about: &str| {
        let _ = writeln!(text, "  {option:16} {about}");
    };
    for common in suite.takes {
        match *common {
            Common::Release => add("--release R", RELEASE_HELP),
            Common::Releases => add("--release R[,R]", "nvlink of these releases (default 13.0)"),
            Common::Objects => {
                add("--objects R[,R]", "have these releases compile the objects in turn");
            }
            Common::Archs("") => add("--arch SM[,SM]", "only these targets"),
            Common::Archs(usual) => add("--arch SM[,SM]", &format!("targets (default {usual})")),
            Common::Seeds(first, end) => {
                add("--seeds A..B", &format!("which programs (default {first}..{end})"));
            }
            Common::Jobs => add("--jobs N", "how many at a time (default 2)"),
            Common::With => {
                add("--with OPTION", "a further option of every link, '--with=--preserve-relocs'");
            }
            Common::Methods => {
                add("--steps", "link in one step and in several, with objects (-r) between");
                add("--relinked", "link objects of either linker (-r), with fresh ones and again");
                add("--rebuilt", "link the objects, and the same taken apart and built again");
            }
        }
    }
    let keep = format!("where to keep what differs (default <target>/compare/{})", suite.name);
    add("--keep DIR", &keep);
    add(
        "--culd PATH",
        "the linker under test (default the one beside this program; 'nvlink': itself)",
    );
    text
}
