//! Suite `jitlink`: makes the same calls of NVIDIA's libnvJitLink and ours, from C and from Python.
//!
//! In: `testdata/jitlink`. Out: a line for each architecture and group of calls. Guaranteed:
//! results, logs and images must be the same, except times and tool notes. The groups that
//! `differences.toml` lists must differ. Otherwise the exit code is 1.

mod inputs;
mod lto;
mod numba;
mod places;

use super::Suite;
use super::setup::{Common, Setup};
use super::tally::Checks;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use culd_testkit::random::generate::model::PtxArch;
use culd_testkit::reference::compare;
use culd_testkit::reference::oracle::Release;
use culd_testkit::reference::oracle::process::{self, Run};
use culd_testkit::reference::oracle::wheels::Environment;
use culd_testkit::reference::readers;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(super) const SUITE: Suite = Suite {
    name: "jitlink",
    about: "the same calls of libnvJitLink, with NVIDIA's and ours",
    takes: &[Common::Archs("sm_75,sm_80,sm_90,sm_100,sm_120")],
    help: "\
\x20 --release R      libnvJitLink of this release (default 13.0); of CUDA 12, CULD_TOOLKITS names a folder in which 12.4 is
                   a toolkit with nvcc, and cuda.bindings of CUDA 12 makes calls, too
  --library PATH   the library under test (default the one beside this program)
  --lto R[,R]      links of LTO-IR by libnvJitLink of these releases instead (13.0 to 13.5), both with the
                   compiler of that release
  --numba          links of PTX and of LTO-IR by numba-cuda instead
  --bench          times links of three small objects with both libraries in one process, in turns; with --lto, of
                   LTO-IR and PTX; compares nothing
",
    run,
};

/// Much longer than any call takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// `differences.toml`.
#[derive(Debug, Deserialize)]
struct DifferencesFile {
    difference: Vec<ListedCalls>,
    option: Vec<OptionOfLater>,
}

/// An option of later releases that our library accepts too.
#[derive(Debug, Deserialize)]
struct OptionOfLater {
    /// The start of its text.
    name: String,
    /// The entry of docs/JITLINK.md about it.
    key: String,
}

/// A group of calls with a deliberate difference.
#[derive(Debug, Deserialize)]
struct ListedCalls {
    /// Its name in `calls.txt`.
    group: String,
    /// The entry of docs/JITLINK.md that explains it.
    key: String,
    /// The text of our library.
    ours: String,
    /// The first number of the releases in which it differs; all without one.
    major: Option<String>,
}

/// The library of a transcript, and its caller.
#[derive(Clone, Copy)]
enum Caller {
    C,
    Python,
}

struct JitLinkBench {
    original: PathBuf,
    under_test: PathBuf,
    /// The compiled calls.c.
    program: PathBuf,
    /// The compiled time_links.c.
    timer: PathBuf,
    folder: PathBuf,
    toolkit: PathBuf,
    /// One with cuda.bindings.
    python: PathBuf,
    major: MajorRelease,
    release: &'static Release,
}

/// The releases whose options and logs our libraries have.
const FOLLOWED: [&str; 2] = ["12.9", "13.0"];

/// The last line of a group of calls that did not end.
const DIED: &str = "died\n";

/// What depends on the major release.
#[derive(Clone, Copy)]
struct MajorRelease {
    /// The library under test.
    library: &'static str,
    /// The end of the functions' names in the first header.
    suffix: &'static str,
    /// An environment in which cuda.bindings runs, and its wheel.
    bindings: (&'static str, &'static str),
    /// An environment in which numba-cuda runs, and its wheels, with a ptxas.
    numba: (&'static str, &'static [&'static str]),
    /// The wheels with NVIDIA's library and ptxas; without any, those of the release.
    wheels: &'static [&'static str],
    /// The package with NVIDIA's library, and its name in there.
    place: (&'static str, &'static str),
    /// Each group of calls has a process of its own: NVIDIA's library dies of some.
    alone: bool,
}

const CUDA_12: MajorRelease = MajorRelease {
    library: "libnvJitLink12.so",
    suffix: "12_0",
    bindings: ("bindings-12", "cuda-bindings==12.9.4"),
    numba: ("numba-12", &["numba-cuda[cu12]==0.30.4"]),
    wheels: &[],
    place: ("nvidia/nvjitlink", "libnvJitLink.so.12"),
    alone: true,
};

const CUDA_13: MajorRelease = MajorRelease {
    library: "libnvJitLink.so",
    suffix: "13_0",
    bindings: ("bindings", "cuda-bindings==13.0.3"),
    numba: ("numba-13", &["numba-cuda[cu13]==0.30.4", "nvidia-cuda-nvcc>=13,<14"]),
    wheels: &["nvidia-nvjitlink==13.0.88", "nvidia-cuda-nvcc==13.0.88"],
    place: ("nvidia/cu13", "libnvJitLink.so.13"),
    alone: false,
};

fn run(mut setup: Setup) -> Result<ExitCode> {
    let release: Option<String> = setup.args.option("--release")?;
    let oracle = match &release {
        Some(name) => workspace::oracle_of(name.parse()?)?,
        None => workspace::oracle()?,
    };
    let major = if oracle.release().has_nvcc() { CUDA_13 } else { CUDA_12 };
    let named = setup.args.option::<PathBuf>("--library")?;
    let times = setup.args.flag("--bench");
    let by_numba = setup.args.flag("--numba");
    let releases: Option<String> = setup.args.option("--lto")?;
    setup.finish()?;
    let library = named.unwrap_or_else(|| workspace::built(major.library));
    ensure!(library.is_file(), "no library at {}: cargo build --release", library.display());
    let work = release.iter().fold(setup.keep, |work, release| work.join(release));
    fs::create_dir_all(&work)?;
    let folder = workspace::root().join("testdata/jitlink");
    let text = fs::read_to_string(folder.join("differences.toml"))?;
    let listed: DifferencesFile = toml::from_str(&text).context("differences.toml")?;
    let page = fs::read_to_string(workspace::root().join("docs/JITLINK.md"))?;
    let groups = listed.difference.iter().map(|one| (&one.group, &one.key));
    for (what, key) in groups.chain(listed.option.iter().map(|one| (&one.name, &one.key))) {
        ensure!(page.contains(&format!("**{key}**")), "{what}: docs/JITLINK.md has no {key}");
    }
    let bench = JitLinkBench {
        original: oracle.jitlink()?,
        under_test: fs::canonicalize(library)?,
        program: work.join("calls"),
        timer: work.join("time_links"),
        folder,
        toolkit: oracle.toolkit().to_owned(),
        python: Environment::install(
            &workspace::target().join(major.bindings.0),
            &[major.bindings.1],
        )?
        .program("python3"),
        major,
        release: oracle.release(),
    };
    bench.compile()?;
    let number = |arch: &PtxArch| arch.0.trim_start_matches("sm_").to_owned();
    let archs: Vec<String> = setup.archs.iter().map(number).collect();
    let mut checks = Checks::default();
    if !times {
        checks.add("names", bench.names()?.as_deref());
    }
    if let Some(releases) = releases {
        if times {
            lto::times(&bench, &releases, &archs, &work)?;
            return Ok(ExitCode::SUCCESS);
        }
        lto::run(&bench, &releases, &archs, &work, &mut checks)?;
        return Ok(checks.end());
    }
    for arch in archs {
        let dir = work.join(format!("sm_{arch}"));
        if by_numba {
            fs::create_dir_all(&dir)?;
            let script = bench.folder.join("numba_links.py");
            let what = numba::check(&bench.under_test, &bench.major, (&script, &arch), &dir)?;
            checks.add(&format!("sm_{arch} numba-cuda"), what.as_deref());
            continue;
        }
        inputs::make(&oracle, &bench.folder, &work, &arch, &dir)?;
        if times {
            println!(
                "sm_{arch}, us of NVIDIA's, us of ours, median of the ratios:\n{}",
                bench.time(&dir, &arch)?
            );
            continue;
        }
        if bench.is_followed() {
            let later = if major.alone { &[] } else { listed.option.as_slice() };
            checks.add(&format!("sm_{arch} options"), bench.options(&arch, later)?.as_deref());
        }
        for (group, what) in bench.compare(&dir, &arch, &listed.difference)? {
            checks.add(&format!("sm_{arch} {group}"), what.as_deref());
        }
    }
    Ok(if times { ExitCode::SUCCESS } else { checks.end() })
}

/// The times that `timer` says.
fn timed(timer: &mut Command) -> Result<String> {
    let run = process::run(timer, LIMIT).context("time_links")?;
    ensure!(run.status.success(), "{timer:?}: {}", run.stderr_text());
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// The lines of each group.
type CallTranscript = BTreeMap<String, String>;

/// Links of each library that are timed.
const ROUNDS: &str = "1000";

impl JitLinkBench {
    /// True for a release whose options and logs ours has. Of others, codes and images are
    /// compared.
    fn is_followed(&self) -> bool {
        FOLLOWED.contains(&self.release.name)
    }

    /// What a program that was linked with NVIDIA's library, of any release up to this one, would
    /// not find in ours: the name of the file, or a function with its version.
    fn names(&self) -> Result<Option<String>> {
        let (theirs, ours) = (readers::soname(&self.original)?, readers::soname(&self.under_test)?);
        if theirs != ours {
            return Ok(Some(format!("'{ours}' is for '{theirs}'")));
        }
        // The version node is a symbol, too, if GNU ld has made the library; nothing refers to it.
        let functions = |library: &Path| -> Result<Vec<String>> {
            let mut rows = readers::exports(library)?;
            rows.retain(|row| row.starts_with("FUNC "));
            Ok(rows)
        };
        let (theirs, ours) = (functions(&self.original)?, functions(&self.under_test)?);
        ensure!(!theirs.is_empty(), "{} has no functions", self.original.display());
        let lacking: Vec<String> = theirs.into_iter().filter(|name| !ours.contains(name)).collect();
        Ok((!lacking.is_empty()).then(|| format!("lacks {}", lacking.join(", "))))
    }

    /// Times of a program of three small objects.
    fn time(&self, dir: &Path, arch: &str) -> Result<String> {
        let mut timer = self.timer(&self.original, arch, ROUNDS);
        timed(timer.args(["a.cubin", "b.cubin", "c.cubin"]).current_dir(dir))
    }

    /// The program that times links of its further arguments by NVIDIA's library `original` and by
    /// ours.
    fn timer(&self, original: &Path, arch: &str, rounds: &str) -> Command {
        let mut timer = Command::new(&self.timer);
        timer.arg(original).arg(&self.under_test).args([&format!("sm_{arch}"), rounds]);
        timer
    }

    /// Compiles the programs with our header.
    fn compile(&self) -> Result<()> {
        for (source, program) in [("calls.c", &self.program), ("time_links.c", &self.timer)] {
            let mut gcc = Command::new("gcc");
            gcc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(program);
            gcc.arg(self.folder.join(source)).arg(format!("-DRELEASE={}", self.major.suffix));
            gcc.arg("-I").arg(workspace::root().join("crates/jitlink/include")).arg("-ldl");
            let run = process::run(&mut gcc, LIMIT).context("gcc")?;
            ensure!(run.status.success(), "{source}: {}", run.stderr_text());
        }
        Ok(())
    }

    /// The differences when each of many words is an option.
    fn options(&self, arch: &str, later: &[OptionOfLater]) -> Result<Option<String>> {
        let said = |library: &Path| -> Result<String> {
            let mut python = Command::new("python3");
            python.arg(self.folder.join("options.py")).arg(library).arg(arch);
            let run = process::run(&mut python, LIMIT)?;
            ensure!(run.status.success(), "options.py: {}", run.stderr_text());
            Ok(String::from_utf8_lossy(&run.stdout).into_owned())
        };
        let (theirs, ours) = (said(&self.original)?, said(&self.under_test)?);
        let is_later = |line: &&str| later.iter().any(|one| line.starts_with(&one.name));
        let taken = |line: &&str| line.ends_with(": 0 ''");
        if let Some(line) = ours.lines().filter(is_later).find(|line| !taken(line)) {
            return Ok(Some(format!("'{line}', which later releases take")));
        }
        if let Some(line) = theirs.lines().filter(is_later).find(taken) {
            return Ok(Some(format!("'{line}', but differences.toml lists it")));
        }
        // NVIDIA's library of CUDA 12 takes any number (docs/JITLINK.md, architectures).
        let unknown = |line: &&str| {
            let words = line.split_once(": ").map_or("", |(words, _)| words);
            let said = format!("{words}: 1 'ERROR NVJITLINK_ERROR_UNRECOGNIZED_ARCH");
            self.major.alone && ours.lines().any(|line| line.starts_with(&said))
        };
        let rest = |text: &str| -> String {
            let lines = text.lines().filter(|line| !is_later(line) && !unknown(line));
            lines.flat_map(|line| [line, "\n"]).collect()
        };
        Ok(first_difference(&rest(&theirs), &rest(&ours)))
    }

    /// The result of each group of calls: `None`, or the fault.
    fn compare(
        &self,
        dir: &Path,
        arch: &str,
        differences: &[ListedCalls],
    ) -> Result<Vec<(String, Option<String>)>> {
        let theirs = self.transcript(dir, arch, Caller::C, &self.original, "theirs")?;
        let ours = self.transcript(dir, arch, Caller::C, &self.under_test, "ours")?;
        let theirs_python =
            self.transcript(dir, arch, Caller::Python, &self.original, "theirs-python")?;
        let ours_python =
            self.transcript(dir, arch, Caller::Python, &self.under_test, "ours-python")?;
        let mut results = Vec::new();
        for (group, expected) in &theirs {
            let actual = ours.get(group).map_or("", String::as_str);
            if actual.ends_with(DIED) {
                results.push((group.clone(), Some("our library dies".to_owned())));
                continue;
            }
            if expected.ends_with(DIED) {
                results.push((format!("{group}: NVIDIA's library dies"), None));
                continue;
            }
            let mut what = first_difference(expected, actual);
            let is_here = |entry: &&ListedCalls| {
                let major = entry.major.as_ref();
                entry.group == *group
                    && major.is_none_or(|major| self.major.suffix.starts_with(major.as_str()))
            };
            if let Some(difference) = differences.iter().find(is_here) {
                what = match what {
                    _ if !self.is_followed() => None,
                    None => Some("the same, but differences.toml lists it".to_owned()),
                    Some(_) if actual.contains(&difference.ours) => None,
                    Some(_) => Some(format!("not '{}':\n{actual}", difference.ours)),
                };
            }
            let from_python = |transcript: &CallTranscript, c: &str| {
                transcript.get(group).is_some_and(|python| python == c)
            };
            // A deliberate difference may be freed memory in NVIDIA's library.
            let listed = differences.iter().any(|entry| is_here(&entry));
            if !from_python(&ours_python, actual)
                || !(listed || from_python(&theirs_python, expected))
            {
                what = what.or(Some("other results from Python".to_owned()));
            }
            results.push((group.clone(), what));
        }
        results.push((
            "images".to_owned(),
            images(dir, arch, ("theirs", "ours"), self.is_followed())?,
        ));
        results.push(("cuda.bindings".to_owned(), self.bindings(dir, arch)?));
        let script = self.folder.join("places.py");
        let places =
            places::check(&self.under_test, (&self.major, self.release), (&script, arch), dir)?;
        results.push(("places".to_owned(), places));
        Ok(results)
    }

    /// The difference when cuda.bindings makes the calls, with our library in place of NVIDIA's.
    fn bindings(&self, dir: &Path, arch: &str) -> Result<Option<String>> {
        let theirs = self.with_bindings(dir, arch, &self.original, "theirs-bindings")?;
        let ours = self.with_bindings(dir, arch, &self.under_test, "ours-bindings")?;
        ensure!(theirs.contains("loaded: only the one"), "for NVIDIA's library:\n{theirs}");
        match first_difference(&theirs, &ours) {
            None => images(dir, arch, ("theirs-bindings", "ours-bindings"), self.is_followed()),
            what => Ok(what),
        }
    }

    fn with_bindings(&self, dir: &Path, arch: &str, library: &Path, name: &str) -> Result<String> {
        let out = dir.join(name);
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        fs::create_dir_all(&out)?;
        let mut python = Command::new(&self.python);
        python.arg(self.folder.join("bindings.py")).arg(arch).arg(library);
        python.current_dir(dir).env("OUT", &out).env("LD_PRELOAD", library);
        python.env("CULD_PTXAS", self.toolkit.join("bin/ptxas"));
        let run = process::run(&mut python, LIMIT)?;
        ensure!(run.status.success(), "{name}: {}: {}", run.status, run.stderr_text());
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        // What fails comes with a log.
        let logs = |line: &str| {
            ["version ", "error ", "ERROR "].iter().any(|start| line.starts_with(start))
        };
        let other = |line: &&str| self.is_followed() || !logs(line);
        Ok(text.lines().filter(other).flat_map(|line| [line, "\n"]).collect())
    }

    /// Runs all calls against `library`.
    fn transcript(
        &self,
        dir: &Path,
        arch: &str,
        caller: Caller,
        library: &Path,
        name: &str,
    ) -> Result<CallTranscript> {
        let out = dir.join(name);
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        fs::create_dir_all(&out)?;
        let calls = self.folder.join("calls.txt");
        if !self.major.alone {
            let (run, text) = self.calls(dir, arch, caller, library, (&out, &calls))?;
            if !run.status.success() {
                bail!("{name} for sm_{arch}: {}: {}", run.status, run.stderr_text());
            }
            return Ok(groups(&text));
        }
        let mut all = CallTranscript::new();
        for group in fs::read_to_string(calls)?.split("= ").filter(|group| !group.is_empty()) {
            let list = out.join("calls.txt");
            fs::write(&list, format!("= {group}"))?;
            let (run, mut text) = self.calls(dir, arch, caller, library, (&out, &list))?;
            if !run.status.success() {
                text.push_str(DIED);
            }
            all.extend(groups(&text));
        }
        Ok(all)
    }

    /// Runs the calls of a list; results go to a folder.
    fn calls(
        &self,
        dir: &Path,
        arch: &str,
        caller: Caller,
        library: &Path,
        (out, list): (&Path, &Path),
    ) -> Result<(Run, String)> {
        let mut command = match caller {
            Caller::C => Command::new(&self.program),
            Caller::Python => {
                let mut python = Command::new("python3");
                python.arg(self.folder.join("calls.py"));
                python
            }
        };
        command.arg(library).arg(list).arg(arch);
        command.current_dir(dir).env("OUT", out).env("CULD_PTXAS", self.toolkit.join("bin/ptxas"));
        command.env("CULD_NVJITLINK", &self.original);
        let run = process::run(&mut command, LIMIT)?;
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        fs::write(out.join("transcript"), &text)?;
        let text = if self.is_followed() { text } else { codes(&text) };
        Ok((run, text))
    }
}

/// Images of links in which no input is left: they have the release of the library.
const WITHOUT_INPUTS: [&str; 4] =
    ["nothing.cubin", "ignored.cubin", "bad-ptxas.cubin", "other-kinds.cubin"];

/// Groups about the release itself: an image of no input, and options and kinds that it lacks.
const ABOUT_RELEASE: [&str; 3] = ["nothing", "what is ignored", "options that are refused"];

/// A transcript without logs, and without the groups that are about the release itself.
fn codes(text: &str) -> String {
    const STARTS: [&str; 9] =
        ["= ", "create:", "data:", "cut:", "text:", "file:", "complete:", "cubin:", "ptx:"];
    let mut is_about_release = true;
    let mut codes = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("= ") {
            is_about_release = ABOUT_RELEASE.contains(&name);
        }
        if !is_about_release && STARTS.iter().any(|start| line.starts_with(start)) {
            codes.push_str(line);
            codes.push('\n');
        }
    }
    codes
}

/// The lines of each group of a transcript.
fn groups(text: &str) -> CallTranscript {
    let mut groups = CallTranscript::new();
    let mut group = "version".to_owned();
    for line in text.lines() {
        match line.strip_prefix("= ") {
            Some(name) => name.clone_into(&mut group),
            None => {
                let lines = groups.entry(group.clone()).or_default();
                lines.push_str(&timeless(line));
                lines.push('\n');
            }
        }
    }
    groups
}

/// A line without times, and without the size of a log that has times.
fn timeless(line: &str) -> String {
    let starts = [
        "nvJitLink time",
        "nvJitLinkComplete time to create PTX",
        "nvJitLinkComplete time",
        "ptxas info    : Compile time =",
    ];
    match starts.iter().find(|start| line.starts_with(**start)) {
        Some(start) => format!("{start} ..."),
        None if line.starts_with("infos: ") => {
            line.rsplit_once(", ").map_or(line, |(codes, _)| codes).to_owned()
        }
        // Images are compared by themselves.
        None if line.starts_with("cubin: 0, ") => "cubin: 0".to_owned(),
        None => {
            // The number is that of the last error in the process, in any link.
            let ends = |step: &&&str| line.starts_with("ERROR ") && line.ends_with(**step);
            let step = [": finish", ": complete"].iter().find(ends);
            step.map_or(line.to_owned(), |step| format!("ERROR{step}"))
        }
    }
}

fn first_difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (mut theirs, mut ours) = (expected.lines(), actual.lines());
    loop {
        let (expected, actual) = (theirs.next(), ours.next());
        if expected != actual || expected.is_none() {
            let shown = |line: Option<&str>| line.unwrap_or("the end").to_owned();
            return Some(format!("'{}' instead of '{}'", shown(actual), shown(expected)));
        }
    }
}

/// Compares two images as those of the commands are compared (docs/DIFFERENCES.md), without all
/// tool notes: those of PTX that was compiled on the way name another compiler.
fn compare_images(
    dir: &Path,
    arch: &str,
    name: &str,
    expected: &[u8],
    actual: &[u8],
) -> Result<(), String> {
    let mut arguments = vec![format!("-arch=sm_{arch}")];
    let options = [("relocatable", "-r"), ("debug", "-g")];
    let option = options.iter().find(|(group, _)| name.starts_with(group));
    arguments.extend(option.map(|(_, option)| (*option).to_owned()));
    let suffix = if name.starts_with("debug") { "-g" } else { "" };
    let objects = ["a", "b", "c"].map(|stem| format!("{stem}{suffix}.cubin"));
    let bytes = || objects.iter().filter_map(|object| fs::read(dir.join(object)).ok()).collect();
    arguments.extend(objects.iter().cloned());
    let [expected, actual] = [expected, actual].map(compare::without_notes);
    compare::outputs(&arguments, bytes, &expected, &actual).map(|_| ())
}

/// Compares the images that both libraries made in `theirs` and `ours`.
fn images(
    dir: &Path,
    arch: &str,
    (theirs, ours): (&str, &str),
    followed: bool,
) -> Result<Option<String>> {
    let mut compared = 0;
    for entry in fs::read_dir(dir.join(ours))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.extension().is_none_or(|extension| extension != "cubin") {
            continue;
        }
        // The transcripts say which images there are: a group that is listed, or of which NVIDIA's
        // library dies, may have more.
        let expected = dir.join(theirs).join(name);
        if !expected.exists() || (!followed && WITHOUT_INPUTS.iter().any(|image| name == *image)) {
            continue;
        }
        let expected = fs::read(expected)?;
        let what = compare_images(dir, arch, &name.to_string_lossy(), &expected, &fs::read(&path)?);
        if let Err(what) = what {
            return Ok(Some(format!("{}: {what}", name.display())));
        }
        compared += 1;
    }
    ensure!(compared != 0, "no images");
    Ok(None)
}
