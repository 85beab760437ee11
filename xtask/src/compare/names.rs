//! Suite `names`: links every name in the toolkit's headers, used in every way, with both linkers.
//!
//! In: the headers of a release. Out: a table of uses and, for each name that the linkers treat
//! differently, a line. Guaranteed: each name that ptxas accepts is linked with others that give
//! the same result; exit code 1 if there is a difference.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::{Tally, VerdictCounts};
use crate::pool;
use crate::workspace::lock;
use anyhow::{Context, Result, bail};
use culd_testkit::probe::names::{self, NameUse, USES};
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::reference::compare::trial::{Tools, Verdict, compare_links};
use culd_testkit::reference::oracle::process;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "names",
    about: "every name in the toolkit's headers, used in every way",
    takes: &[Common::Archs("sm_90"), Common::Jobs, Common::Release],
    help: "\
\x20 --use USE[,USE]  only these ways of using a name (crates/testkit/src/probe/names.rs lists them)
  --derived        names made of the words of those in the headers, instead of these
  --library        with -lcudadevrt
  --kernels N      kernels of each program (default 1)
  --every N        every N-th name only (default 1)
  --batch N        names in a program (default 4000)
",
    run,
};

/// ptxas needs some seconds for a batch.
const LIMIT: Duration = Duration::from_secs(300);

struct NamesPlan {
    tools: Tools,
    library: bool,
    kernels: usize,
}

/// Names that are used together.
struct NameBatch<'n> {
    arch: PtxArch,
    how: NameUse,
    names: Vec<&'n str>,
}

/// The results of names, by use and target.
struct NamesReport {
    tally: Tally,
    links: usize,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let args = &mut setup.args;
    let uses = uses(args.option::<String>("--use")?.as_deref())?;
    let derived = args.flag("--derived");
    let library = args.flag("--library");
    let kernels: usize = args.option("--kernels")?.unwrap_or(1);
    let every: usize = args.option("--every")?.unwrap_or(1);
    let size: usize = args.option("--batch")?.unwrap_or(4000);
    let tools = Tools { limit: LIMIT, ..setup.tools()? };
    setup.finish()?;
    let mut names = names::of_headers(&tools.oracle.toolkit().join("include"))?;
    if derived {
        names = names::derived(&names);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).step_by(every.max(1)).collect();
    println!("{} names", names.len());
    let plan = NamesPlan { tools, library, kernels };
    let batches = setup.archs.iter().flat_map(|&arch| {
        let names = &names;
        uses.iter().flat_map(move |&how| {
            names.chunks(size.max(1)).map(move |names| NameBatch {
                arch,
                how,
                names: names.to_vec(),
            })
        })
    });
    let report = Mutex::new(NamesReport { tally: Tally::new("use", "names"), links: 0 });
    pool::run(setup.jobs, batches, |queue| {
        while let Some(batch) = queue.take() {
            plan.sweep(batch, &report)?;
        }
        Ok(())
    })?;
    let report = lock(&report);
    println!(
        "{}\n{} links; ptxas refuses what is not compiled",
        report.tally.table(),
        report.links
    );
    Ok(report.tally.exit_code())
}

fn uses(list: Option<&str>) -> Result<Vec<NameUse>> {
    let Some(list) = list else { return Ok(USES.to_vec()) };
    let named = |name: &str| {
        USES.iter().find(|how| how.name == name).copied().with_context(|| format!("no use {name}"))
    };
    list.split(',').map(named).collect()
}

impl NamesPlan {
    /// Links a batch; names that cannot be in one link are split and linked again.
    fn sweep(&self, batch: NameBatch<'_>, report: &Mutex<NamesReport>) -> Result<()> {
        let NameBatch { arch, how, .. } = batch;
        let dir = tempfile::tempdir()?;
        let mut waiting = vec![batch.names];
        while let Some(names) = waiting.pop() {
            let halves = |waiting: &mut Vec<_>| {
                let (first, second) = names.split_at(names.len() / 2);
                waiting.extend([first.to_vec(), second.to_vec()]);
            };
            let one = names.len() == 1;
            let mut counts = VerdictCounts::default();
            if !self.compile(arch, how, &names, dir.path())? {
                match one {
                    true => counts.not_compiled = 1,
                    false => halves(&mut waiting),
                }
            } else {
                let verdict = compare_links(&self.tools, &self.arguments(arch)?, dir.path())?;
                lock(report).links += 1;
                match verdict {
                    Verdict::Identical(_) => counts.identical = names.len(),
                    Verdict::SameError(messages) => match fatal_names(&messages, &names) {
                        Some(apart) if apart.len() < names.len() => {
                            let rest: Vec<&str> = names
                                .iter()
                                .copied()
                                .filter(|name| !apart.contains(name))
                                .collect();
                            waiting.extend([apart.into_iter().collect(), rest]);
                        }
                        _ => counts.same_error = names.len(),
                    },
                    Verdict::Different(_) | Verdict::NoVerdict(_) if !one => halves(&mut waiting),
                    Verdict::Different(difference) => {
                        counts.failed = 1;
                        println!("{arch} {} {}: {}", how.name, names[0], difference.what);
                    }
                    Verdict::NoVerdict(what) => {
                        counts.no_verdict = 1;
                        println!("{arch} {} {}: no verdict: {what}", how.name, names[0]);
                    }
                    Verdict::NotCompiled(what) => bail!("{what}"),
                }
            }
            lock(report).tally.add(how.name, arch.0, counts);
        }
        Ok(())
    }

    fn compile(&self, arch: PtxArch, how: NameUse, names: &[&str], dir: &Path) -> Result<bool> {
        let text = names::ptx(arch.0, how, names, self.kernels);
        let text = self.tools.oracle.release().ptx(&text, arch.0).into_owned();
        fs::write(dir.join("a.ptx"), text)?;
        let mut command = self.tools.oracle.command("ptxas");
        command.current_dir(dir).args(["-c", "-O0", &format!("-arch={arch}")]);
        command.args(["a.ptx", "-o", "a.cubin"]);
        Ok(process::run(&mut command, LIMIT).context("cannot start ptxas")?.status.success())
    }

    fn arguments(&self, arch: PtxArch) -> Result<Vec<String>> {
        let mut arguments = vec![format!("-arch={arch}"), "a.cubin".to_owned()];
        if self.library {
            let path = self.tools.oracle.toolkit_library("libcudadevrt.a");
            let folder = path.parent().context("a folder")?.display().to_string();
            arguments.extend([format!("-L{folder}"), "-lcudadevrt".to_owned()]);
        }
        Ok(arguments)
    }
}

/// The names that ended a link before its search for undefined names: the others have to be linked
/// without them.
fn fatal_names<'n>(messages: &str, names: &[&'n str]) -> Option<BTreeSet<&'n str>> {
    let reported: BTreeSet<&str> = messages
        .lines()
        .filter(|line| !line.contains("Undefined reference"))
        .filter_map(|line| line.split('\'').nth(1))
        .collect();
    messages
        .contains("fatal")
        .then(|| {
            names.iter().copied().filter(|&name| reported.contains(name)).collect::<BTreeSet<_>>()
        })
        .filter(|apart| !apart.is_empty())
}
