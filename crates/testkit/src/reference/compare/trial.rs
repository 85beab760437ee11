//! One trial: compiles a program, links it with the oracle and the linker under test, and compares
//! the results.
//!
//! In: a [`GeneratedProgram`] and the [`Tools`]. Out: a [`Verdict`]. Guaranteed: both linkers get
//! the same command line in the same folder, once in file order and once reversed.

use super::carried::objects;
use super::deliberate;
use super::mercury::{Classes, LinkObjects};
use super::rebuilt::compare_rebuilt;
use super::relinked::compare_relinked;
use super::report::compare_report;
use super::steps::compare_steps;
use super::{is_any_whole_program, is_relocatable, outcomes, outputs_of};
use crate::fixtures::case::{plain_lines, stack_warnings_once};
use crate::fixtures::uidx;
use crate::random::edit::edited;
use crate::random::generate::model::{DebugLevel, GeneratedProgram, Index, Unit};
use crate::random::generate::ptx;
use crate::reference::oracle::process::{self, Run, Status};
use crate::reference::oracle::{Oracle, Release};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limits; generous, because a slow machine must not look like a difference.
const COMPILE_LIMIT: Duration = Duration::from_secs(60);
/// See [`Tools::limit`].
pub const LINK_LIMIT: Duration = Duration::from_secs(20);

/// The exit status of the program that stands in for nvlink if its library lacks a feature.
const CANNOT: Status = Status::Exit(77);

/// The two linkers and the compiler.
#[derive(Clone, Debug)]
pub struct Tools {
    /// ptxas and nvlink.
    pub oracle: Oracle,
    /// The compilers of objects, which take turns.
    pub compilers: Vec<Oracle>,
    /// The linker under test.
    pub candidate: PathBuf,
    /// The `--dialect` option that it always gets, if any.
    pub dialect_option: Vec<String>,
    /// The time limit of a link.
    pub limit: Duration,
}

impl Tools {
    /// The compiler of the object at `place` of a program.
    pub fn compiler(&self, place: usize) -> &Oracle {
        let turn = place.checked_rem(self.compilers.len());
        turn.map_or(&self.oracle, |turn| &self.compilers[turn])
    }
}

/// The links of a program that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkMethod {
    /// The link of the options, by both linkers.
    #[default]
    Program,
    /// A program in one step and in several, see [`super::steps`].
    Steps,
    /// Objects that either linker made, linked again, see [`super::relinked`].
    Relinked {
        /// The program must be that of one step.
        one_program: bool,
    },
    /// A program of the compiled objects, and of the same objects built again.
    Rebuilt,
    /// The library's report of a program, and the output of other tools.
    Report,
}

impl LinkMethod {
    /// Links in `dir` and compares.
    ///
    /// # Errors
    /// When a linker cannot be started, or an output cannot be read.
    pub fn compare(self, tools: &Tools, arguments: &[String], dir: &Path) -> Result<Verdict> {
        if self == LinkMethod::Steps {
            return compare_steps(tools, arguments, dir);
        }
        if let LinkMethod::Relinked { one_program } = self {
            return compare_relinked(tools, arguments, dir, one_program);
        }
        if self == LinkMethod::Rebuilt {
            return compare_rebuilt(tools, arguments, dir);
        }
        if self == LinkMethod::Report {
            return compare_report(tools, arguments, dir);
        }
        let mut arguments = arguments.to_vec();
        if is_relocatable(&arguments) {
            // Sizes of shared memory depend on the records that are kept (docs/DIFFERENCES.md,
            // early-relocations).
            arguments.retain(|word| word != "-v");
        }
        let verdict = compare_links(tools, &arguments, dir)?;
        Ok(if is_finalized_object(&verdict, &arguments, dir) {
            Verdict::NoVerdict(FINALIZED_OBJECTS.to_owned())
        } else {
            verdict
        })
    }
}

/// Why objects of whole programs may have no verdict (docs/DIFFERENCES.md, finalized-objects).
pub(super) const FINALIZED_OBJECTS: &str = "finalized-objects";

/// The starts of lines about the output of nvlink's finalizer: control bits, and frames
/// (frames-of-whole-programs).
const OF_FINALIZER: [&str; 2] = ["bytes  .text.", "attr  .nv.info FRAME_SIZE "];

/// True if objects (`-r`) of whole programs differ only in the output of the finalizer. nvlink
/// rewrites that code, and no comparison can predict how.
fn is_finalized_object(verdict: &Verdict, arguments: &[String], dir: &Path) -> bool {
    let Verdict::Different(difference) = verdict else { return false };
    is_relocatable(arguments)
        && difference
            .what
            .lines()
            .all(|line| OF_FINALIZER.iter().any(|start| line.starts_with(start)))
        && is_any_whole_program(&objects(arguments, dir))
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All links gave the same bytes, except the code of kernels on sm_100 and later.
    Identical(Classes),
    /// At least one link failed, and all gave the same status and messages, here those of the
    /// oracle.
    SameError(String),
    /// ptxas refused a file; its message.
    NotCompiled(String),
    /// The oracle crashed, did not end, or reported an internal error; the text says how.
    NoVerdict(String),
    /// They differ.
    Different(Difference),
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The linker's arguments.
    pub arguments: Vec<String>,
    /// The difference, in one line or a few.
    pub what: String,
}

/// The library of the toolkit that a program may be linked with.
const LIBRARY: &str = "libcudadevrt.a";

/// Name of the index file of a program.
const INDEX_FILE: &str = "index.uidx";

/// A trial of a program.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The result; of several links the first that differs, else the most interesting one.
    pub verdict: Verdict,
    /// Pairs of links.
    pub links: usize,
    /// Pairs that differ in a way that docs/DIFFERENCES.md lists, by its keys.
    pub deliberate: BTreeMap<&'static str, usize>,
    /// Kernels of the equal links, by class.
    pub classes: Classes,
    /// Descriptions of the edits in the round of the verdict.
    pub edits: Vec<String>,
}

impl Trial {
    fn of(verdict: Verdict) -> Self {
        let (deliberate, classes, edits) = Default::default();
        Self { verdict, links: 0, deliberate, classes, edits }
    }
}

/// Compiles `program` in `dir` and compares the links, once or once for each round of edits. The
/// files in `dir` are those of the last links.
///
/// # Errors
/// When a tool cannot be started, or a file cannot be written.
pub fn trial(
    tools: &Tools,
    program: &GeneratedProgram,
    method: LinkMethod,
    dir: &Path,
) -> Result<Trial> {
    for (place, unit) in program.units.iter().enumerate() {
        if let Some(message) = compile(tools.compiler(place), program, unit, dir)? {
            return Ok(Trial::of(Verdict::NotCompiled(message)));
        }
    }
    let mut trial = Trial::of(Verdict::Identical(Classes::default()));
    let files: Vec<PathBuf> =
        program.units.iter().map(|unit| dir.join(format!("{}.cubin", unit.name))).collect();
    let compiled = files.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
    if program.library {
        fs::copy(tools.oracle.toolkit_library(LIBRARY), dir.join(LIBRARY))?;
    }
    if let Some(index) = program.index {
        fs::write(dir.join(INDEX_FILE), index_file(index, &compiled)?)?;
    }
    if program.rounds.is_empty() {
        links(tools, program, method, dir, &mut trial)?;
        return Ok(trial);
    }
    for round in &program.rounds {
        let mut edits = Vec::new();
        for ((unit, file), bytes) in program.units.iter().zip(&files).zip(&compiled) {
            let own = round.iter().filter(|edit| edit.unit == unit.name);
            let (bytes, done) = edited(bytes, own)?;
            fs::write(file, bytes)?;
            edits.extend(done.into_iter().map(|what| format!("{}: {what}", unit.name)));
        }
        let before = trial.verdict.clone();
        links(tools, program, method, dir, &mut trial)?;
        if trial.verdict != before {
            trial.edits = edits;
        }
        if matches!(trial.verdict, Verdict::Different(_)) {
            break;
        }
    }
    Ok(trial)
}

/// The bytes of an index file for `objects`.
fn index_file(index: Index, objects: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut uidx = uidx::for_objects(objects, index.order)?;
    uidx.version = index.version;
    if let Some(missing) = index.missing {
        let functions = uidx.functions.places.len();
        match missing.checked_sub(functions) {
            None => _ = uidx.functions.places.remove(missing),
            Some(missing) if missing < uidx.variables.places.len() => {
                uidx.variables.places.remove(missing);
            }
            Some(_) => {}
        }
    }
    Ok(uidx.bytes())
}

/// Compares the links of the files in `dir` in both orders.
fn links(
    tools: &Tools,
    program: &GeneratedProgram,
    method: LinkMethod,
    dir: &Path,
    trial: &mut Trial,
) -> Result<()> {
    let forward = link_arguments(program);
    let mut reversed = forward.clone();
    reversed[forward.len() - program.units.len()..].reverse();
    for arguments in [forward, reversed] {
        trial.links += 1;
        let unusual = program.index.is_some() || !program.rounds.is_empty();
        let verdict = if method == LinkMethod::Program && !is_relocatable(&arguments) {
            let pair = LinkPair::link(tools, &arguments, dir)?;
            let verdict = pair.verdict(&arguments, &arguments, dir);
            let aliases =
                || objects(&arguments, dir).iter().any(|object| deliberate::has_alias(object));
            let keys = match &verdict {
                Verdict::NoVerdict(how) if deliberate::is_unused_alias(how, aliases) => {
                    vec!["unused-alias"]
                }
                Verdict::NoVerdict(how)
                    if deliberate::is_replaced_with_selection(how, &arguments, || {
                        objects(&arguments, dir)
                    }) =>
                {
                    vec!["replaced-with-selection"]
                }
                _ if unusual || program.units.iter().any(|unit| unit.whole_program) => {
                    pair.deliberate(&verdict, !program.rounds.is_empty())
                }
                _ => Vec::new(),
            };
            if !keys.is_empty() {
                keys.into_iter().for_each(|key| *trial.deliberate.entry(key).or_default() += 1);
                continue;
            }
            verdict
        } else {
            method.compare(tools, &arguments, dir)?
        };
        match (&verdict, &trial.verdict) {
            (Verdict::Identical(found), _) => trial.classes += found.clone(),
            (Verdict::Different(_), _) => {
                trial.verdict = verdict;
                return Ok(());
            }
            // The first unusual round counts for an edited program; any other program ends at the
            // first crash.
            (Verdict::SameError(_), Verdict::NoVerdict(_)) => {}
            _ => trial.verdict = verdict,
        }
        if program.rounds.is_empty() && matches!(trial.verdict, Verdict::NoVerdict(_)) {
            return Ok(());
        }
    }
    Ok(())
}

/// Arguments of the linkers for a program in file order, without the output.
pub fn link_arguments(program: &GeneratedProgram) -> Vec<String> {
    let mut arguments = vec![format!("-arch={}", program.link_arch)];
    arguments.extend(program.link_options.iter().cloned());
    arguments.extend(program.index.map(|_| format!("-uidx={INDEX_FILE}")));
    if program.library {
        arguments.extend(["-L.".to_owned(), "-lcudadevrt".to_owned()]);
    }
    arguments.extend(program.units.iter().map(|unit| format!("{}.cubin", unit.name)));
    arguments
}

/// Writes and compiles one unit in `dir`. Returns the message of ptxas if it refuses.
///
/// # Errors
/// When the compiler cannot be started, or the source cannot be written.
pub fn compile(
    compiler: &Oracle,
    program: &GeneratedProgram,
    unit: &Unit,
    dir: &Path,
) -> Result<Option<String>> {
    let text = ptx::print(program, unit);
    fs::write(dir.join(source(unit)), &*compiler.release().ptx(&text, unit.arch.0))?;
    let mut command = compiler.command(compiler_name(unit));
    command.current_dir(dir).args(compile_arguments(unit));
    let run = process::run(&mut command, COMPILE_LIMIT).context("cannot start the compiler")?;
    Ok((!run.status.success()).then(|| run.stderr_text()))
}

/// The program that compiles a unit.
pub fn compiler_name(unit: &Unit) -> &'static str {
    if unit.cuda.is_some() { "nvcc" } else { "ptxas" }
}

fn source(unit: &Unit) -> String {
    format!("{}.{}", unit.name, if unit.cuda.is_some() { "cu" } else { "ptx" })
}

/// Arguments of the compiler for a unit.
pub fn compile_arguments(unit: &Unit) -> Vec<String> {
    let kind: &[&str] = match (unit.cuda.is_some(), unit.whole_program) {
        (true, true) => &["-ewp", "-cubin"],
        (true, false) => &["-dc", "-cubin"],
        (false, true) => &["-ewp"],
        (false, false) => &["-c"],
    };
    let mut arguments: Vec<String> = kind.iter().map(|&word| word.to_owned()).collect();
    arguments.push(format!("-arch={}", unit.arch));
    arguments.extend(unit.options.iter().cloned());
    match unit.debug {
        DebugLevel::Off => {}
        DebugLevel::Lines => arguments.push("-lineinfo".to_owned()),
        DebugLevel::Full => arguments.push("-g".to_owned()),
    }
    arguments.extend([source(unit), "-o".to_owned(), format!("{}.cubin", unit.name)]);
    arguments
}

/// Links with both linkers and compares outcome and output.
///
/// # Errors
/// When a linker cannot be started, or an output cannot be read.
pub fn compare_links(tools: &Tools, arguments: &[String], dir: &Path) -> Result<Verdict> {
    compare_links_of(tools, arguments, arguments, dir)
}

/// The same for objects that a linker made of the files that `compiled` names: those say how code
/// was compiled.
pub(super) fn compare_links_of(
    tools: &Tools,
    arguments: &[String],
    compiled: &[String],
    dir: &Path,
) -> Result<Verdict> {
    let pair = LinkPair::link(tools, arguments, dir)?;
    let verdict = pair.verdict(arguments, compiled, dir);
    let usual = tools.oracle.release() == Release::usual();
    // Cases avoid such differences of the usual release; another release may have them elsewhere.
    Ok(match pair.deliberate(&verdict, false).first() {
        Some(&key) if !usual || key == deliberate::BARRIERS => {
            Verdict::NoVerdict(format!("differs on purpose: {key}"))
        }
        _ => verdict,
    })
}

/// The same link by both linkers.
struct LinkPair {
    expected: Run,
    expected_out: Option<Vec<u8>>,
    actual: Run,
    actual_out: Option<Vec<u8>>,
}

impl LinkPair {
    fn link(tools: &Tools, arguments: &[String], dir: &Path) -> Result<Self> {
        let (mut expected, expected_out) =
            link(tools.oracle.command("nvlink"), arguments, dir, ("nvlink", tools.limit))?;
        let (mut actual, actual_out) =
            link(candidate(tools), arguments, dir, ("culd", tools.limit))?;
        if tools.oracle.is_stand_in() {
            as_library(&expected, &mut actual);
        }
        if tools.oracle.release() != Release::usual() {
            expected.stderr = without_stale_barriers(&expected, &actual).into_bytes();
        }
        Ok(Self { expected, expected_out, actual, actual_out })
    }

    /// nvlink failed as described; what culd did.
    fn no_verdict(&self, how: &str) -> Verdict {
        let messages = self.actual.stderr_text();
        let line = messages.lines().find(|line| line.contains("fatal") || line.contains("error"));
        let ours = line.map_or_else(|| self.actual.status.to_string(), str::to_owned);
        Verdict::NoVerdict(format!("{how}; {ours}"))
    }

    /// The keys of docs/DIFFERENCES.md that explain `verdict`. A compiled file is not damaged
    /// unless it was `edited` after that.
    fn deliberate(&self, verdict: &Verdict, edited: bool) -> Vec<&'static str> {
        let key = deliberate::key(&self.expected, &self.actual, verdict);
        if let Some(key) = key.filter(|&key| edited || key != deliberate::DAMAGED) {
            return vec![key];
        }
        match (verdict, &self.expected_out, &self.actual_out) {
            (Verdict::Different(_), Some(expected), Some(actual)) => {
                deliberate::keys_of_outputs(expected, actual)
            }
            _ => Vec::new(),
        }
    }

    fn verdict(&self, arguments: &[String], compiled: &[String], dir: &Path) -> Verdict {
        let Self { expected, expected_out, actual, actual_out } = self;
        let different =
            |what: String| Verdict::Different(Difference { arguments: arguments.to_vec(), what });
        if matches!(actual.status, Status::Signal(_) | Status::TimedOut)
            && actual.status != expected.status
        {
            return different(format!("{}: {}", actual.status, actual.stderr_text()));
        }
        if matches!(expected.status, Status::Signal(_) | Status::TimedOut) {
            return self.no_verdict(&expected.status.to_string());
        }
        if expected.status == CANNOT {
            return Verdict::NoVerdict("the library that stands in for nvlink cannot".to_owned());
        }
        let messages = expected.stderr_text();
        let mut what = outcomes(expected, actual);
        if what.is_some()
            && let Some(line) = messages.lines().find(|line| line.contains("Internal error"))
        {
            return self.no_verdict(line);
        }
        let mut classes = Classes::default();
        let inputs = || {
            let inputs = LinkObjects::of(arguments, &objects(compiled, dir));
            if arguments == compiled { inputs } else { inputs.with_steps(&objects(arguments, dir)) }
        };
        what = what.or_else(|| match (expected_out, actual_out) {
            (Some(expected), Some(actual)) => {
                match outputs_of(arguments, inputs, expected, actual) {
                    Ok(found) => {
                        classes = found;
                        None
                    }
                    Err(what) => Some(what),
                }
            }
            (None, None) => None,
            (Some(_), None) => Some("no output file".to_owned()),
            (None, Some(_)) => Some("an output file, and the oracle wrote none".to_owned()),
        });
        match what {
            Some(what) => different(what),
            None if expected.status.success() => Verdict::Identical(classes),
            None => Verdict::SameError(messages),
        }
    }
}

/// Makes the lines of `actual` comparable with those of a library in nvlink's place. The library
/// reports errors of merging without the line that ends the link, and has no exit status.
fn as_library(expected: &Run, actual: &mut Run) {
    let failed = |run: &Run| matches!(run.status, Status::Exit(code) if code != 0);
    if !failed(actual) || !failed(expected) || expected.status == CANNOT {
        return;
    }
    actual.status = expected.status;
    let text = actual.stderr_text();
    let lines = text.lines().filter(|line| !line.ends_with("merge_elf failed"));
    actual.stderr = lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes();
}

/// True for a line about LTO that only culd has (docs/DIFFERENCES.md, lto and ignored-inputs).
pub fn is_own(line: &str) -> bool {
    const OWN: [&str; 2] =
        ["doing partial LTO because no LTO-IR", "' was ignored: there is no lib"];
    OWN.iter().any(|own| line.contains(own))
}

/// nvlink's lines, with 0 barriers where culd prints 0: later releases print any number for a
/// kernel that has none (docs/DIFFERENCES.md, verbose-barriers).
pub fn without_stale_barriers(expected: &Run, actual: &Run) -> String {
    let (theirs, ours) = (expected.stderr_text(), actual.stderr_text());
    let mut ours = plain_lines(&ours, "culd").into_iter().filter(|line| !is_own(line));
    let mut text = String::new();
    for line in stack_warnings_once(theirs.lines().map(str::to_owned).collect()) {
        let none = ours.next().is_some_and(|line| line.contains(" used 0 barriers, "));
        let parts = line.split_once(", used ").filter(|_| none);
        let rest = parts.and_then(|(front, rest)| Some((front, rest.split_once(" barriers, ")?.1)));
        match rest {
            Some((front, rest)) => text.push_str(&format!("{front}, used 0 barriers, {rest}")),
            None => text.push_str(&line),
        }
        text.push('\n');
    }
    text
}

/// The command of the linker under test.
pub(super) fn candidate(tools: &Tools) -> Command {
    let mut command = Command::new(&tools.candidate);
    command.env_remove("LD_LIBRARY_PATH").args(&tools.dialect_option);
    command
}

/// Runs one linker; its output goes to `<folder>/out.cubin`, the same base name for both.
pub(super) fn link(
    mut command: Command,
    arguments: &[String],
    dir: &Path,
    (folder, limit): (&str, Duration),
) -> Result<(Run, Option<Vec<u8>>)> {
    let out_dir = dir.join(folder);
    fs::create_dir_all(&out_dir)?;
    let out = out_dir.join("out.cubin");
    if out.exists() {
        fs::remove_file(&out)?;
    }
    command.current_dir(dir).args(arguments).args(["-o", &format!("{folder}/out.cubin")]);
    let run = process::run(&mut command, limit)
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let bytes = if out.exists() { Some(fs::read(&out)?) } else { None };
    Ok((run, bytes))
}
