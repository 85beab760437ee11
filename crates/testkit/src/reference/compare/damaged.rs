//! A link of damaged files by both linkers.
//!
//! In: a [`Mutant`] and the [`Tools`]. Out: a [`DamageAnswer`]: which linker accepts the files,
//! whether the outputs are equal, and the entry of docs/DIFFERENCES.md that explains a difference.
//! Guaranteed: an entry is named only if a linker's message, or another link of the same files,
//! shows that it applies.

use super::carried::objects;
use super::damaged_rules::{self, DamageFacts};
use super::trial::{Tools, candidate};
use super::{outcomes, outputs};
use crate::fixtures::case::plain_lines;
use crate::fixtures::pack::{self, ArchiveFlavour};
use crate::random::mutate::program::{Mutant, OUTPUT};
use crate::reference::oracle::process::{self, Run, Status};
use anyhow::{Context, Result};
use culd_cubin::raw::{SectionHeader, Tables};
use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::container;
use culd_fatbin::host::HostObject;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The results of two linkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DamageClass {
    /// Both link, with equal outputs and messages.
    Equal,
    /// Both link, with equal outputs; the messages differ.
    EqualOutputs,
    /// Both refuse in the same words.
    SameRefusal,
    /// Both refuse, in different words.
    OtherRefusal,
    /// nvlink ended by a signal or reported an internal error; culd refuses.
    DiedRefused,
    /// The same; culd links.
    DiedLinked,
    /// nvlink did not end; culd does.
    Hung,
    /// nvlink links, culd refuses.
    CuldRefuses,
    /// culd links, nvlink refuses.
    CuldAccepts,
    /// Both link, and the outputs differ.
    OutputsDiffer,
    /// culd ended by a signal, or did not end.
    CuldFails,
}

impl DamageClass {
    /// All of them.
    pub const ALL: [DamageClass; 11] = [
        DamageClass::Equal,
        DamageClass::EqualOutputs,
        DamageClass::SameRefusal,
        DamageClass::OtherRefusal,
        DamageClass::DiedRefused,
        DamageClass::DiedLinked,
        DamageClass::Hung,
        DamageClass::CuldRefuses,
        DamageClass::CuldAccepts,
        DamageClass::OutputsDiffer,
        DamageClass::CuldFails,
    ];

    /// True where a reason is needed.
    pub fn needs_reason(self) -> bool {
        use DamageClass::{CuldAccepts, CuldFails, CuldRefuses, EqualOutputs, OutputsDiffer};
        matches!(self, EqualOutputs | CuldRefuses | CuldAccepts | OutputsDiffer | CuldFails)
    }
}

impl fmt::Display for DamageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DamageClass::Equal => "equal",
            DamageClass::EqualOutputs => "equal, other messages",
            DamageClass::SameRefusal => "both refuse, same words",
            DamageClass::OtherRefusal => "both refuse, other words",
            DamageClass::DiedRefused => "nvlink died, culd refuses",
            DamageClass::DiedLinked => "nvlink died, culd links",
            DamageClass::Hung => "nvlink hung",
            DamageClass::CuldRefuses => "culd refuses, nvlink links",
            DamageClass::CuldAccepts => "culd links, nvlink refuses",
            DamageClass::OutputsDiffer => "outputs differ",
            DamageClass::CuldFails => "culd fails",
        })
    }
}

/// The result of a link by both.
#[derive(Clone, Debug)]
pub struct DamageAnswer {
    /// The class of their results.
    pub class: DamageClass,
    /// The key of the entry of docs/DIFFERENCES.md that explains the class, if it needs one.
    pub key: Option<&'static str>,
    /// The difference, in a line.
    pub what: String,
}

/// One linker's link.
pub(super) struct DamagedLink {
    pub(super) run: Run,
    pub(super) output: Option<Vec<u8>>,
}

/// Options that only culd has, or that choose other rules than those of this nvlink.
const OWN: &[&str] =
    &["--stats", "--strict", "--trace=trace.json", "--threads=2", "--dialect=13.5"];

/// Makes the link of `mutant` with both linkers in folders below `dir`.
///
/// # Errors
/// When a linker cannot be started, or a file cannot be written or read.
pub fn compare(tools: &Tools, mutant: &Mutant, dir: &Path) -> Result<DamageAnswer> {
    let words_of = |mutant: &Mutant| -> Vec<String> {
        mutant.args.iter().filter(|word| !OWN.contains(&word.as_str())).cloned().collect()
    };
    let words = words_of(mutant);
    let nvlink = || {
        let mut command = tools.oracle.command("nvlink");
        command.env("TMPDIR", dir);
        command
    };
    // culd has no PTX compiler of its own.
    let culd = || {
        let mut command = candidate(tools);
        command.env("PATH", tools.oracle.toolkit().join("bin"));
        // The rules of this nvlink, not those of the release that compiled the files.
        command.arg(format!("--dialect={}", tools.oracle.release().name));
        command
    };
    let theirs = link(tools, nvlink(), mutant, &words, &dir.join("nvlink"))?;
    let ours = link(tools, culd(), mutant, &words, &dir.join("culd"))?;
    let (class, what) = class_of(&words, &theirs, &ours, &dir.join("culd"));
    let mut answer = DamageAnswer { class, key: None, what };
    if class.needs_reason() {
        let facts = DamageFacts { theirs: &theirs, ours: &ours, what: &answer.what };
        answer.key = damaged_rules::key(class, &facts);
        if class == DamageClass::OutputsDiffer
            && answer.key.is_none()
            && let Some(good) = mutant.undamaged()
        {
            let words = words_of(&good);
            let folder = dir.join("good-culd");
            let good_theirs = link(tools, nvlink(), &good, &words, &dir.join("good-nvlink"))?;
            let good_ours = link(tools, culd(), &good, &words, &folder)?;
            let differ = class_of(&words, &good_theirs, &good_ours, &folder).0 == class;
            let both = (&theirs, &ours, &good_theirs);
            answer.key = damaged_rules::key_beside_good(&words, differ, both);
        }
        let linkers = Linkers { tools, nvlink: &nvlink, culd: &culd };
        let may = matches!(
            class,
            DamageClass::OutputsDiffer | DamageClass::CuldRefuses | DamageClass::CuldAccepts
        );
        if may
            && answer.key.is_none()
            && let Some(file) = linkers.left_out(mutant, &words, &theirs, dir)?
        {
            answer.key = Some("ignored-inputs");
            answer.what = format!("nvlink leaves out {file}");
        }
    }
    Ok(answer)
}

fn link(
    tools: &Tools,
    mut command: Command,
    mutant: &Mutant,
    words: &[String],
    dir: &Path,
) -> Result<DamagedLink> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    for (name, bytes) in &mutant.files {
        fs::write(dir.join(name), bytes)?;
    }
    command.current_dir(dir).args(words);
    let run = process::run(&mut command, tools.limit)
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let out = dir.join(OUTPUT);
    let output = if out.exists() { Some(fs::read(&out)?) } else { None };
    Ok(DamagedLink { run, output })
}

/// True if the linker crashed or did not end.
fn died(link: &DamagedLink) -> bool {
    matches!(link.run.status, Status::Signal(_))
        || ["Internal error", "Internal FNLZR error"]
            .iter()
            .any(|words| link.run.stderr_text().contains(words))
}

fn class_of(
    words: &[String],
    theirs: &DamagedLink,
    ours: &DamagedLink,
    dir: &Path,
) -> (DamageClass, String) {
    let first = |link: &DamagedLink| {
        let text = link.run.stderr_text();
        let bad = |line: &&str| line.contains("fatal") || line.contains("error");
        text.lines().find(bad).or(text.lines().next()).unwrap_or_default().to_owned()
    };
    let both = || format!("{} | {}", first(theirs), first(ours));
    let linked = |link: &DamagedLink| link.run.status.success();
    if !matches!(ours.run.status, Status::Exit(_)) {
        return (DamageClass::CuldFails, format!("{}: {}", ours.run.status, first(ours)));
    }
    if theirs.run.status == Status::TimedOut {
        return (DamageClass::Hung, first(ours));
    }
    if died(theirs) {
        let class = if linked(ours) { DamageClass::DiedLinked } else { DamageClass::DiedRefused };
        return (class, format!("{}: {}", theirs.run.status, both()));
    }
    match (linked(theirs), linked(ours)) {
        (false, false) => match outcomes(&theirs.run, &ours.run) {
            None => (DamageClass::SameRefusal, first(theirs)),
            Some(_) => (DamageClass::OtherRefusal, both()),
        },
        (true, false) => (DamageClass::CuldRefuses, both()),
        (false, true) => (DamageClass::CuldAccepts, both()),
        (true, true) => {
            let difference = match (&theirs.output, &ours.output) {
                (Some(theirs), Some(ours)) => {
                    outputs(words, || objects(words, dir), theirs, ours).err()
                }
                (None, None) => None,
                (Some(_), None) => Some("no output of culd's".to_owned()),
                (None, Some(_)) => Some("no output of nvlink's".to_owned()),
            };
            match (difference, outcomes(&theirs.run, &ours.run)) {
                (Some(what), _) => (DamageClass::OutputsDiffer, what),
                (None, Some(what)) => (DamageClass::EqualOutputs, what),
                (None, None) => (DamageClass::Equal, String::new()),
            }
        }
    }
}

/// Both linkers.
struct Linkers<'a> {
    tools: &'a Tools,
    nvlink: &'a dyn Fn() -> Command,
    culd: &'a dyn Fn() -> Command,
}

impl Linkers<'_> {
    /// The input of which nvlink silently ignores a part: culd does the same as nvlink if it gets
    /// only the rest.
    fn left_out(
        &self,
        mutant: &Mutant,
        words: &[String],
        theirs: &DamagedLink,
        dir: &Path,
    ) -> Result<Option<String>> {
        let folder: PathBuf = dir.join("less");
        let all = mutant.files.iter().enumerate();
        let trials =
            all.flat_map(|(at, (_, bytes))| less(bytes).into_iter().map(move |less| (at, less)));
        for (at, bytes) in trials {
            let mut less = mutant.clone();
            less.files[at].1 = bytes;
            let made = link(self.tools, (self.culd)(), &less, words, &folder)?;
            let same_end = made.run.status == theirs.run.status;
            let explained = match (&theirs.output, &made.output) {
                (Some(expected), Some(actual)) => {
                    same_end && outputs(words, || objects(words, &folder), expected, actual).is_ok()
                }
                (Some(_), None) => self.refuses_rest(&less, words, theirs, &made, dir)?,
                (None, None) => same_end && refusal(theirs, "nvlink") == refusal(&made, "culd"),
                (None, Some(_)) => false,
            };
            if explained {
                return Ok(Some(mutant.files[at].0.clone()));
            }
        }
        Ok(None)
    }

    /// True if nvlink makes the same bytes of `less`, so it ignores the rest, and `made`, culd's
    /// link of `less`, is refused for a reason of docs/DIFFERENCES.md.
    fn refuses_rest(
        &self,
        less: &Mutant,
        words: &[String],
        theirs: &DamagedLink,
        made: &DamagedLink,
        dir: &Path,
    ) -> Result<bool> {
        let (class, what) = class_of(words, theirs, made, &dir.join("less"));
        let facts = DamageFacts { theirs, ours: made, what: &what };
        if class != DamageClass::CuldRefuses || damaged_rules::key(class, &facts).is_none() {
            return Ok(false);
        }
        let of_rest = link(self.tools, (self.nvlink)(), less, words, &dir.join("less-nvlink"))?;
        Ok(of_rest.output == theirs.output)
    }
}

/// The parts of a file that nvlink may read: none, the first of several fat binaries, alone or in
/// its host object, whose references to kernels select, or the objects of an archive.
fn less(bytes: &[u8]) -> Vec<Vec<u8>> {
    let parts = [Vec::new()].into_iter().chain(first_container(bytes));
    parts.chain(with_first_container(bytes)).chain(objects_of(bytes)).collect()
}

/// The host object `bytes` with the first of several fat binaries: their section ends behind it.
fn with_first_container(bytes: &[u8]) -> Option<Vec<u8>> {
    let object = HostObject::parse(bytes).ok()??;
    let fatbins = object.fatbins.first()?;
    let first = first_container(bytes)?;
    let Tables { header, mut sections, .. } = Tables::parse(bytes).ok()?;
    let size = u64::try_from(fatbins.data.len()).ok()?;
    let is_theirs = |one: &&mut SectionHeader| (one.offset, one.size) == (fatbins.offset, size);
    sections.iter_mut().find(is_theirs)?.size = u64::try_from(first.len()).ok()?;
    let mut table = Vec::new();
    sections.iter().for_each(|section| section.write(&mut table));
    let start = usize::try_from(header.shoff).ok()?;
    let mut made = bytes.to_vec();
    made.get_mut(start..)?.get_mut(..table.len())?.copy_from_slice(&table);
    Some(made)
}

/// The first of several fat binaries.
fn first_container(bytes: &[u8]) -> Option<Vec<u8>> {
    let fatbins = match HostObject::parse(bytes) {
        Ok(Some(object)) => object.fatbins.first().map_or(bytes, |section| section.data),
        _ => bytes,
    };
    let mut containers = container::containers(fatbins);
    let first = containers.next()?.ok()?.bytes();
    containers.next().is_some().then(|| first.to_vec())
}

/// The archive with the host objects in front of the first member that is no ELF file, and of each
/// only the first fat binary.
fn objects_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let contents = archive::members(bytes).ok()?.map_while(|member| match member.ok()?.contents {
        MemberContents::Here { data, .. } => Some(data),
        MemberContents::Elsewhere { .. } => None,
    });
    let elf = contents.take_while(|data| data.starts_with(b"\x7fELF"));
    let objects = elf.filter(|data| matches!(HostObject::parse(data), Ok(Some(_))));
    let parts: Vec<Vec<u8>> =
        objects.map(|data| first_container(data).unwrap_or_else(|| data.to_vec())).collect();
    let members: Vec<(&str, &[u8])> = parts.iter().map(|part| ("m.o", &part[..])).collect();
    Some(pack::archive(&members, ArchiveFlavour::Gnu))
}

/// The lines that are no warnings.
fn refusal(link: &DamagedLink, program: &str) -> Vec<String> {
    let mut lines = plain_lines(&link.run.stderr_text(), program);
    lines.retain(|line| line.starts_with("error") || line.starts_with("fatal"));
    lines
}
