//! Suite `corpus`: the hand-written programs of `testdata/corpus` through both linkers.
//!
//! In: `testdata/corpus/<topic>/<case>/` with `.ptx` and `.cu` files and a `case.toml`
//! ([`CorpusCase`]). Out: a table of topics and architectures. Guaranteed: exit code 1 if outputs
//! differ, or if the result of a link is not the one in its case.

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::{Tally, VerdictCounts};
use crate::pool;
use crate::workspace::{self, lock};
use anyhow::{Context, Result, bail};
use culd_testkit::fixtures::case::{folders, is_chosen};
use culd_testkit::fixtures::uidx;
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::reference::compare::entry_of_refusal;
use culd_testkit::reference::compare::mercury::Classes;
use culd_testkit::reference::compare::trial::{Difference, LinkMethod, Tools, Verdict};
use culd_testkit::reference::oracle::Release;
use culd_testkit::reference::oracle::cache::Cache;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

/// The start of the difference of a link that only culd refuses.
const REFUSED_BY_CULD: &str = "exit code 1 instead of exit code 0: ";

pub(super) const SUITE: Suite = Suite {
    name: "corpus",
    about: "the hand-written programs of testdata/corpus",
    takes: &[Common::Archs(""), Common::With, Common::Methods, Common::Jobs, Common::Release, Common::Objects],
    help: "\
\x20 --report         compare what the library reports of programs with nvlink -v, cuobjdump and readelf; examples/report
                   of the linker under test has to be built
Operands: [topic | topic/case]... Targets from sm_100 on also for cases that have sm_90. With --with the linkers must agree,
however a case ends.
",
    run,
};

/// `case.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CorpusCase {
    /// What the case is about, for readers.
    #[serde(rename = "what")]
    _what: String,
    /// Architectures to compile and link for.
    archs: Option<Vec<String>>,
    /// Architectures to link for, if files are compiled for others.
    link_arch: Option<Vec<String>>,
    /// Architecture of single files, by stem.
    #[serde(default)]
    file_arch: BTreeMap<String, String>,
    /// More compiler flags of single files, by stem.
    #[serde(default)]
    file_flags: BTreeMap<String, Vec<String>>,
    /// Sets of compiler flags to try.
    compile: Option<Vec<Vec<String>>>,
    /// Orders of the files.
    #[serde(default)]
    orders: Orders,
    /// Further options of the linker.
    #[serde(default)]
    link_flags: Vec<String>,
    /// Index files of unified functions and variables, by name.
    #[serde(default)]
    uidx: BTreeMap<String, uidx::IndexText>,
    /// Why the program linked in several steps differs from that linked in one.
    one_step: Option<String>,
    /// The results of the links.
    #[serde(default)]
    expect: CorpusEnd,
    /// The result for sm_100 and later, if it differs.
    expect_mercury: Option<CorpusEnd>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Orders {
    Named(NamedOrders),
    Listed(Vec<Vec<String>>),
    #[default]
    Default,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NamedOrders {
    All,
    Both,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum CorpusEnd {
    #[default]
    Ok,
    Error,
}

struct CorpusPlan {
    archs: Vec<PtxArch>,
    with: Option<String>,
    method: LinkMethod,
    keep: PathBuf,
    tools: Tools,
    cache: Cache,
}

fn run(mut setup: Setup) -> Result<ExitCode> {
    let plan = CorpusPlan {
        tools: setup.tools()?,
        method: if setup.args.flag("--report") { LinkMethod::Report } else { setup.method },
        archs: setup.archs,
        with: setup.with,
        keep: setup.keep,
        cache: Cache::new(workspace::target().join("oracle-cache")),
    };
    let cases = find(&setup.args.operands()?)?;
    let report = Mutex::new(CorpusReport::default());
    pool::run(setup.jobs, cases.iter(), |queue| {
        while let Some((name, dir)) = queue.take() {
            one(&plan, name, dir, &report).with_context(|| name.clone())?;
        }
        Ok(())
    })?;
    let report = lock(&report);
    println!("{} cases\n\n{}{}", report.cases.len(), report.tally.table(), report.classes);
    Ok(report.tally.exit_code())
}

/// Folders of cases whose `topic/case` starts with one of the selections.
fn find(selection: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let root = workspace::root().join("testdata/corpus");
    let mut cases = Vec::new();
    for topic in folders(&root)? {
        for case in folders(&topic)? {
            let name = case.strip_prefix(&root)?.display().to_string();
            if case.join("case.toml").exists() && is_chosen(&name, selection) {
                cases.push((name, case));
            }
        }
    }
    if cases.is_empty() {
        bail!("no case in {} matches {selection:?}", root.display());
    }
    Ok(cases)
}

impl CorpusPlan {
    /// The wanted targets of a case. A result for sm_90 is expected for later ones too.
    fn archs_of(&self, case: &CorpusCase) -> Vec<String> {
        let all = || PtxArch::ALL.map(|arch| arch.0.to_owned()).to_vec();
        let mut archs = case.link_arch.clone().or_else(|| case.archs.clone()).unwrap_or_else(all);
        let mixed = case.link_arch.is_some() || !case.file_arch.is_empty();
        if !mixed {
            let later = PtxArch::MERCURY.into_iter().chain(PtxArch::NAMED);
            let later = later.map(|arch| arch.0.to_owned());
            let wanted: Vec<String> = later.filter(|arch| shows_later(&archs, arch)).collect();
            archs.extend(wanted);
            // A result for sm_75 is expected for earlier ones, too.
            if archs.iter().any(|arch| arch == "sm_75") {
                archs.extend(PtxArch::OLD.map(|arch| arch.0.to_owned()));
            }
        }
        let usual = |arch: &str| PtxArch::ALL.iter().any(|usual| usual.0 == arch);
        archs.retain(|arch| match &*self.archs {
            [] => usual(arch) || case.names(arch),
            list => list.iter().any(|wanted| wanted.0 == arch),
        });
        archs.dedup();
        archs
    }
}

/// True if the results for `archs` are expected for `arch`, sm_100 or later. Those for sm_90 are;
/// but those for all but sm_90a are not expected for accelerated targets.
fn shows_later(archs: &[String], arch: &str) -> bool {
    let has = |name: &str| archs.iter().any(|arch| arch == name);
    let spares_accelerated = PtxArch::ALL.iter().all(|arch| has(arch.0) != (arch.0 == "sm_90a"));
    has("sm_90") && !(arch.ends_with('a') && spares_accelerated)
}

impl CorpusCase {
    /// The expected result of links for `arch`.
    fn expected(&self, arch: &str) -> CorpusEnd {
        let mut later = PtxArch::MERCURY.iter().chain(&PtxArch::NAMED);
        let mercury = later.any(|mercury| mercury.0 == arch);
        self.expect_mercury.filter(|_| mercury).unwrap_or(self.expect)
    }

    /// The method for links whose program may depend on the steps.
    fn method(&self, method: LinkMethod) -> LinkMethod {
        match method {
            LinkMethod::Relinked { .. } => {
                LinkMethod::Relinked { one_program: self.one_step.is_none() }
            }
            method => method,
        }
    }

    /// The verdict; none for a link that culd refuses in the words of the entry of
    /// docs/DIFFERENCES.md that `one_step` names.
    fn unless_listed(&self, verdict: Verdict) -> Verdict {
        let entry = self.one_step.as_deref();
        match verdict {
            Verdict::Different(Difference { what, .. })
                if entry.is_some()
                    && what.starts_with(REFUSED_BY_CULD)
                    && entry_of_refusal(&what) == entry =>
            {
                Verdict::NoVerdict(what)
            }
            verdict => verdict,
        }
    }

    /// True for a target that is in the case's file.
    fn names(&self, arch: &str) -> bool {
        [&self.link_arch, &self.archs].into_iter().flatten().flatten().any(|named| named == arch)
    }
}

/// All links of a case: architectures × flags × orders.
fn one(plan: &CorpusPlan, name: &str, dir: &Path, report: &Mutex<CorpusReport>) -> Result<()> {
    let case: CorpusCase = toml::from_str(&fs::read_to_string(dir.join("case.toml"))?)?;
    if plan.method == LinkMethod::Steps && case.one_step.is_some() {
        return Ok(());
    }
    // The resolved records differ, and so do their lists (docs/DIFFERENCES.md, early-relocations).
    let preserves = case.link_flags.iter().any(|flag| flag == "--preserve-relocs");
    if preserves && plan.with.as_deref() == Some("-r") {
        return Ok(());
    }
    let sources = workspace::sources(dir)?;
    let stems: Vec<String> = sources.iter().map(|source| stem(source)).collect();
    let mut orders = orders(&case.orders, &stems);
    if matches!(plan.method, LinkMethod::Relinked { .. }) {
        // Files change places with each step.
        orders.truncate(2);
    }
    let archs = plan.archs_of(&case);
    let added = plan.with.clone().filter(|option| !case.link_flags.contains(option));
    let variants = case.compile.clone().unwrap_or_else(|| vec![Vec::new()]);
    for arch in &archs {
        for flags in &variants {
            let work = tempfile::tempdir()?;
            let mut refused = false;
            for (place, (source, stem)) in sources.iter().zip(&stems).enumerate() {
                let arch = case.file_arch.get(stem).unwrap_or(arch);
                let mut flags = flags.clone();
                flags.extend(case.file_flags.get(stem).into_iter().flatten().cloned());
                let compiler = plan.tools.compiler(place);
                match plan.cache.compile(compiler, source, arch, &flags) {
                    Ok(cubin) => {
                        fs::copy(cubin, work.path().join(format!("{stem}.cubin")))?;
                    }
                    // Refusals: instructions and targets that the release does not know, and CUDA
                    // C++ if the wheels have no nvcc.
                    Err(_) if !compiler.release().has_nvcc() => refused = true,
                    Err(error) => return Err(error),
                }
            }
            if refused {
                lock(report).count_not_compiled(name, arch);
                continue;
            }
            for (name, bytes) in uidx::files(&case.uidx)? {
                fs::write(work.path().join(name), bytes)?;
            }
            for order in &orders {
                let mut arguments = vec![format!("-arch={arch}")];
                arguments.extend(case.link_flags.iter().cloned());
                arguments.extend(added.clone());
                arguments.extend(order.iter().map(|stem| format!("{stem}.cubin")));
                let verdict =
                    case.method(plan.method).compare(&plan.tools, &arguments, work.path())?;
                let verdict = case.unless_listed(verdict);
                let usual = plan.tools.oracle.release() == Release::usual();
                let plain = usual
                    && plan.tools.compilers.is_empty()
                    && plan.with.is_none()
                    && plan.method == LinkMethod::Program;
                let expect = plain.then_some(case.expected(arch));
                let failure = failure(&verdict, expect);
                if let Some(what) = &failure {
                    let number = lock(report).tally.total().failed;
                    let kept = plan.keep.join(format!("{number:03}-{}", name.replace('/', "-")));
                    workspace::keep_tree(work.path(), &kept)?;
                    let line = format!("{name} {}: {what}", arguments.join(" "));
                    fs::write(kept.join("what.txt"), format!("{line}\n"))?;
                    eprintln!("{line}\n  compiled with {flags:?}, kept in {}", kept.display());
                }
                lock(report).count(name, arch, &verdict, failure.is_some());
            }
        }
    }
    Ok(())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn orders(orders: &Orders, stems: &[String]) -> Vec<Vec<String>> {
    let mut list = match orders {
        Orders::Listed(list) => list.clone(),
        Orders::Named(NamedOrders::All) => permutations(stems),
        Orders::Named(NamedOrders::Both) | Orders::Default => {
            vec![stems.to_vec(), stems.iter().rev().cloned().collect()]
        }
    };
    list.dedup();
    list
}

fn permutations(stems: &[String]) -> Vec<Vec<String>> {
    let Some((first, rest)) = stems.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for at in 0..stems.len() {
        for mut list in permutations(rest) {
            list.insert(at, first.clone());
            all.push(list);
        }
    }
    all
}

/// The fault of a verdict; without an expectation, only a difference of the linkers is one.
fn failure(verdict: &Verdict, expect: Option<CorpusEnd>) -> Option<String> {
    match (verdict, expect) {
        (Verdict::Identical(_), Some(CorpusEnd::Error)) => {
            Some("links, but its case expects an error".to_owned())
        }
        (Verdict::SameError(messages), Some(CorpusEnd::Ok)) => {
            Some(format!("unexpected error: {messages}"))
        }
        (Verdict::Identical(_) | Verdict::SameError(_), _) => None,
        // Nothing to compare with: nvlink crashed or reported an internal error.
        (Verdict::NoVerdict(_), _) => None,
        (Verdict::NotCompiled(message), _) => Some(message.clone()),
        (Verdict::Different(difference), _) => Some(difference.what.clone()),
    }
}

struct CorpusReport {
    tally: Tally,
    /// The names of all linked cases.
    cases: BTreeSet<String>,
    classes: Classes,
}

impl Default for CorpusReport {
    fn default() -> Self {
        let tally = Tally::new("topic", "links");
        CorpusReport { tally, cases: BTreeSet::new(), classes: Classes::default() }
    }
}

impl CorpusReport {
    /// Counts a program that the compiler of an old release refused.
    fn count_not_compiled(&mut self, name: &str, arch: &str) {
        let topic = name.split('/').next().unwrap_or(name);
        self.tally.add(topic, arch, VerdictCounts { not_compiled: 1, ..VerdictCounts::default() });
    }

    fn count(&mut self, name: &str, arch: &str, verdict: &Verdict, failed: bool) {
        self.cases.insert(name.to_owned());
        let topic = name.split('/').next().unwrap_or(name);
        let counts = if failed { VerdictCounts::failed(1) } else { VerdictCounts::of(verdict) };
        self.tally.add(topic, arch, counts);
        if let (Verdict::Identical(classes), false) = (verdict, failed) {
            self.classes += classes.of(&format!("{name} {arch}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_file_with_everything() {
        let text = r#"
            what = "x"
            archs = ["sm_75"]
            compile = [[], ["-G"]]
            orders = [["a", "b"]]
            link_flags = ["-g"]
            expect = "error"
            expect_mercury = "ok"
            [file_arch]
            a = "sm_80"
            [file_flags]
            b = ["-lineinfo"]
        "#;
        let case: CorpusCase = toml::from_str(text).expect("parses");
        assert_eq!(case.expected("sm_90a"), CorpusEnd::Error);
        assert_eq!(case.expected("sm_100a"), CorpusEnd::Ok);
        assert!(matches!(case.orders, Orders::Listed(list) if list == [["a", "b"]]));
        assert!(toml::from_str::<CorpusCase>("what = 'x'\nordres = 'all'").is_err());
        assert!(toml::from_str::<CorpusCase>("what = 'x'\norders = 'some'").is_err());
    }

    #[test]
    fn what_is_expected_to_show_later() {
        let names = |list: &str| list.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let all = PtxArch::ALL.map(|arch| arch.0.to_owned()).to_vec();
        let shows = |archs: &[String]| ["sm_100", "sm_100a"].map(|arch| shows_later(archs, arch));
        assert_eq!(shows(&all), [true, true]);
        assert_eq!(shows(&names("sm_75 sm_90")), [true, true]);
        assert_eq!(shows(&names("sm_75 sm_89")), [false, false]);
        assert_eq!(shows(&names("sm_90a")), [false, false]);
        let plain: Vec<String> = all.into_iter().filter(|arch| arch != "sm_90a").collect();
        assert_eq!(shows(&plain), [true, false]);
    }

    #[test]
    fn all_orders_of_three() {
        let stems = ["a", "b", "c"].map(str::to_owned);
        let mut all = orders(&Orders::Named(NamedOrders::All), &stems);
        assert_eq!(all.first(), Some(&stems.to_vec()));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert_eq!(orders(&Orders::Default, &stems[..1]).len(), 1);
    }
}
