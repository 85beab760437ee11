//! Links objects that either linker made with `-r` again by both, alone and with compiled objects.
//!
//! In: a command line. Out: the differences, and counts by the maker of the object and the next
//! step. Guaranteed: both linkers make the same bytes of the same files, or give the same messages.
//! Every program of culd is that of one step ([`ProgramText`]). culd refuses objects that nvlink's
//! `-r` has made unusable (docs/DIFFERENCES.md, early-relocations); each refusal is counted with
//! whether nvlink's program is wrong.
//!
//! | step | files |
//! |---|---|
//! | first | each of: the first file, the last one, all but the last, all but the first, all; by either linker |
//! | last | the object in front of the files that are left, and behind them |
//! | between | for the first file and for all: the object in front of the rest made an object by either linker |

use super::mercury::{self, Classes, Directions};
use super::steps::{faithful, makes_program};
use super::trial::{Difference, FINALIZED_OBJECTS, Tools, Verdict, candidate, compare_links_of};
use super::whole;
use super::{deliberate, is_any_whole_program};
use crate::reference::oracle::Release;
use crate::reference::oracle::process::{self, Status};
use crate::reference::program::{Objects, ProgramText};
use anyhow::{Context, Result};
use culd_cubin::Cubin;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// The maker of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectMaker {
    Nvlink,
    Culd,
}

const MAKERS: [ObjectMaker; 2] = [ObjectMaker::Nvlink, ObjectMaker::Culd];

impl ObjectMaker {
    fn name(self) -> &'static str {
        match self {
            ObjectMaker::Nvlink => "nvlink",
            ObjectMaker::Culd => "culd",
        }
    }

    /// The makers of an object that was made of an object of `first`.
    fn again(self, first: ObjectMaker) -> &'static str {
        match (first, self) {
            (ObjectMaker::Nvlink, ObjectMaker::Nvlink) => "nvlink of nvlink's",
            (ObjectMaker::Culd, ObjectMaker::Nvlink) => "nvlink of culd's",
            (ObjectMaker::Nvlink, ObjectMaker::Culd) => "culd of nvlink's",
            (ObjectMaker::Culd, ObjectMaker::Culd) => "culd of culd's",
        }
    }

    /// The name of the rows about another `-r` of its object.
    fn object(self) -> &'static str {
        match self {
            ObjectMaker::Nvlink => "-r of nvlink's",
            ObjectMaker::Culd => "-r of culd's",
        }
    }
}

/// Names of the objects in the folder.
const FIRST: &str = "step-1.cubin";
const SECOND: &str = "step-2.cubin";

/// An object that a linker made of some files.
struct SteppedObject<'a> {
    by: ObjectMaker,
    group: &'a [String],
    /// The other files.
    rest: &'a [String],
    /// Its makers, in words.
    what: String,
}

/// A link in several steps.
struct SteppedLink {
    files: Vec<String>,
    /// The compiled files in it, in order.
    sources: Vec<String>,
    /// It makes an object.
    object: bool,
}

/// One program, and the data of its comparison.
struct Relinking<'a> {
    tools: &'a Tools,
    arguments: &'a [String],
    files: Vec<String>,
    options: Vec<String>,
    dir: &'a Path,
    objects: Objects<'a>,
    /// Steps do not change the program.
    one_program: bool,
    /// The programs of one step by the order of the files; `None` if it does not link.
    one: HashMap<Vec<String>, Option<ProgramText>>,
    classes: Classes,
}

/// Compares the links of `arguments` in `dir` in several steps by either linker. There is no
/// verdict if the options make no plain program.
///
/// # Errors
/// When a linker cannot be started, or a file cannot be read.
pub fn compare_relinked(
    tools: &Tools,
    arguments: &[String],
    dir: &Path,
    one_program: bool,
) -> Result<Verdict> {
    let (files, options): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|word| word.ends_with(".cubin"));
    if !makes_program(arguments) || files.is_empty() {
        return Ok(Verdict::NoVerdict("no plain program".to_owned()));
    }
    let read = |name: &String| fs::read(dir.join(name)).with_context(|| name.clone());
    let inputs: Vec<Vec<u8>> = files.iter().map(read).collect::<Result<_>>()?;
    let objects = Objects::parse(&inputs)?;
    let classes = Classes::default();
    let one = HashMap::new();
    let mut relinking =
        Relinking { tools, arguments, files, options, dir, objects, one_program, one, classes };
    let found = relinking.all()?;
    Ok(found.map_or(Verdict::Identical(relinking.classes), Verdict::Different))
}

/// Numbers of files: those that are linked to one object, and the others.
#[derive(PartialEq)]
struct FileSplit {
    group: Vec<usize>,
    rest: Vec<usize>,
}

/// The ways to split `files` files.
fn splits(files: usize) -> Vec<FileSplit> {
    let split = |from: usize, to: usize| FileSplit {
        group: (from..to).collect(),
        rest: (0..files).filter(|file| !(from..to).contains(file)).collect(),
    };
    let mut all = vec![split(0, 1), split(0, files)];
    if files > 1 {
        all.push(split(files - 1, files));
    }
    if files > 2 {
        all.extend([split(0, files - 1), split(1, files)]);
    }
    all.dedup();
    all
}

impl Relinking<'_> {
    fn all(&mut self) -> Result<Option<Difference>> {
        for (number, split) in splits(self.files.len()).into_iter().enumerate() {
            let name = |at: &usize| self.files[*at].clone();
            let group: Vec<String> = split.group.iter().map(name).collect();
            let rest: Vec<String> = split.rest.iter().map(name).collect();
            for maker in MAKERS {
                if self.make(maker, &group, true, FIRST)?.is_none() {
                    continue;
                }
                let what = format!("{} -r {}", maker.name(), group.join(" "));
                let made = SteppedObject { by: maker, group: &group, rest: &rest, what };
                let mut found = self.last_steps(&made)?;
                if found.is_none() && number < 2 {
                    found = self.further_steps(&made)?;
                }
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Links the object with the rest of the files, in both orders.
    fn last_steps(&mut self, made: &SteppedObject<'_>) -> Result<Option<Difference>> {
        let first = [FIRST.to_owned()];
        let (by, what) = (made.by.name(), &made.what);
        let front = SteppedLink {
            files: [&first, made.rest].concat(),
            sources: [made.group, made.rest].concat(),
            object: false,
        };
        let behind = SteppedLink {
            files: [made.rest, &first].concat(),
            sources: [made.rest, made.group].concat(),
            object: false,
        };
        let found = self.compare(by, &front, what)?;
        if found.is_some() || made.rest.is_empty() {
            Ok(found)
        } else {
            self.compare(by, &behind, what)
        }
    }

    /// Makes an object of the object and the rest.
    fn further_steps(&mut self, made: &SteppedObject<'_>) -> Result<Option<Difference>> {
        let (first, what) = (made.by, &made.what);
        let files = [&[FIRST.to_owned()][..], made.rest].concat();
        let sources = [made.group, made.rest].concat();
        let link = SteppedLink { files: files.clone(), sources: sources.clone(), object: true };
        let mut found = self.compare(first.object(), &link, what)?;
        for second in MAKERS {
            if found.is_some() || self.make(second, &files, true, SECOND)?.is_none() {
                continue;
            }
            let what = format!("{what}; {} -r {}", second.name(), files.join(" "));
            let files = vec![SECOND.to_owned()];
            let link = SteppedLink { files, sources: sources.clone(), object: false };
            found = self.compare(second.again(first), &link, &what)?;
        }
        Ok(found)
    }

    /// Links with one of the linkers; `None` if that fails.
    fn make(
        &self,
        maker: ObjectMaker,
        files: &[String],
        object: bool,
        out: &str,
    ) -> Result<Option<Vec<u8>>> {
        let mut command = match maker {
            ObjectMaker::Nvlink => self.tools.oracle.command("nvlink"),
            ObjectMaker::Culd => candidate(self.tools),
        };
        command.current_dir(self.dir).args(&self.options).args(object.then_some("-r"));
        command.args(files).args(["-o", out]);
        let run = process::run(&mut command, self.tools.limit)?;
        let done = run.status == Status::Exit(0);
        done.then(|| fs::read(self.dir.join(out)).context("no output")).transpose()
    }

    /// Makes `link` with both linkers and counts the result.
    fn compare(
        &mut self,
        direction: &'static str,
        link: &SteppedLink,
        what: &str,
    ) -> Result<Option<Difference>> {
        let mut arguments = self.options.clone();
        if link.object {
            // Sizes of shared memory depend on the records that are kept (docs/DIFFERENCES.md,
            // early-relocations).
            arguments.retain(|word| word != "-v");
            arguments.push("-r".to_owned());
        }
        arguments.extend(link.files.iter().cloned());
        let verdict = compare_links_of(self.tools, &arguments, self.arguments, self.dir)?;
        let mut row = Directions::default();
        let mut listed = None;
        let mut fault = None;
        match verdict {
            Verdict::Identical(found) => {
                self.classes += found;
                fault = self.fault("culd", link)?;
                // Of what nvlink resolved twice nothing is left to be seen, and what a second `-r`
                // of nvlink's has lost is gone.
                let twice = direction == ObjectMaker::Nvlink.again(ObjectMaker::Nvlink);
                let again = twice || direction == ObjectMaker::Nvlink.again(ObjectMaker::Culd);
                if fault.is_some() && again && self.has_lost_shared(link)? {
                    (fault, listed) = (None, Some(whole::AGAIN));
                } else if fault.is_some() && twice {
                    (fault, listed) = (None, Some("early-relocations"));
                } else if fault.is_some()
                    && direction.starts_with(ObjectMaker::Nvlink.name())
                    && self.has_equal_names(&link.files)?
                {
                    (fault, listed) = (None, Some("equal-names-of-objects"));
                } else if fault.is_some() && self.has_new_code(&link.files)? {
                    (fault, listed) = (None, Some("kept-code"));
                } else {
                    row.identical = 1;
                }
            }
            Verdict::SameError(_) => row.same_error = 1,
            Verdict::NoVerdict(_) | Verdict::NotCompiled(_) => row.no_verdict = 1,
            Verdict::Different(difference) if deliberate::is_resolved_early(&difference.what) => {
                row.refused = 1;
                let theirs = self.dir.join("nvlink/out.cubin").exists();
                let known = theirs && !link.object && self.one(&link.sources)?.is_some();
                row.needless = usize::from(known && self.fault("nvlink", link)?.is_none());
            }
            Verdict::Different(_) if self.has_equal_names(&link.files)? => {
                listed = Some("equal-names-of-objects");
                fault = self.fault("culd", link)?;
            }
            Verdict::Different(_) if self.declares_unsized_first(&link.sources)? => {
                listed = Some("shared-unsized-first");
                fault = self.fault("culd", link)?;
            }
            Verdict::Different(_) if self.has_lost_literals(&link.files)? => {
                listed = Some("literals-of-replaced");
                fault = self.fault("culd", link)?;
            }
            Verdict::Different(difference) if deliberate::is_parameter_name(&difference.what) => {
                listed = Some("parameter-names");
            }
            Verdict::Different(difference)
                if self.lacks_shared_sections(link, &difference.what)? =>
            {
                listed = Some(whole::AGAIN);
                fault = self.fault("culd", link)?;
            }
            // Only nvlink makes such objects.
            Verdict::Different(_) if whole::has_placed(&self.compiled()?)? => {
                listed = Some(whole::SANITIZED);
            }
            Verdict::Different(difference)
                if self.is_clash_of_one_step(link, &difference.what)? =>
            {
                listed = Some(whole::AGAIN);
            }
            // The code that nvlink writes is not predicted; culd's must be that of one step.
            Verdict::Different(_) if whole::has_mercury(&self.compiled()?) => {
                listed = Some(FINALIZED_OBJECTS);
                if !direction.contains(ObjectMaker::Nvlink.name()) {
                    fault = self.fault("culd", link)?;
                }
            }
            Verdict::Different(_) if self.has_unselected_memory(link)? => {
                listed = Some(whole::LATE);
                fault = self.fault("culd", link)?;
            }
            Verdict::Different(difference) => fault = Some(difference.what),
        }
        if let Some(key) = listed {
            *self.classes.listed.entry(key).or_default() += 1;
            row.listed = 1;
        }
        *self.classes.directions.entry(direction).or_default() += row;
        Ok(fault.map(|fault| Difference { arguments, what: format!("of {what}: {fault}") }))
    }

    /// The program of one step; `None` if there is none, or if steps may change it because names
    /// are defined repeatedly.
    fn one(&mut self, files: &[String]) -> Result<Option<&ProgramText>> {
        if !self.one.contains_key(files) {
            let linked = self.make(ObjectMaker::Culd, files, false, "one-step.out")?;
            let linked = linked.filter(|_| self.one_program && faithful(&self.objects) > 3);
            let program = linked.map(|linked| ProgramText::read(&linked, &self.objects));
            let program = program.transpose().context("the program of one step")?;
            let program = program.map(ProgramText::without_alignments);
            self.one.insert(files.to_vec(), program);
        }
        Ok(self.one.get(files).and_then(Option::as_ref))
    }

    /// The fault of the program that a linker has just made.
    fn fault(&mut self, folder: &str, link: &SteppedLink) -> Result<Option<String>> {
        if link.object || self.one(&link.sources)?.is_none() {
            return Ok(None);
        }
        let maker = if folder == "nvlink" { ObjectMaker::Nvlink } else { ObjectMaker::Culd };
        let linked = match self.without_bare_shared(&link.files)? {
            Some(files) => self.make(maker, &files, false, "bare.out")?.context("no program")?,
            None => fs::read(self.dir.join(folder).join("out.cubin"))?,
        };
        let program = ProgramText::read(&linked, &self.objects);
        let usual = self.tools.oracle.release() == Release::usual();
        let one = self.one(&link.sources)?;
        Ok(match program {
            Ok(program) if usual && !program.short_kernels().is_empty() => {
                Some(format!("arrays behind the shared memory of {:?}", program.short_kernels()))
            }
            Ok(program) => one.and_then(|one| one.difference(&program.without_alignments())),
            Err(error) => Some(format!("{error:#}")),
        })
    }

    /// The files without unused room in the shared memory of kernels; `None` if no file has such
    /// room. nvlink 13.1 and later adds it with `-r`, 13.4 and later keeps it (docs/DIALECTS.md,
    /// shared sections without a variable). Without it, the program has to be that of one step.
    fn without_bare_shared(&self, files: &[String]) -> Result<Option<Vec<String>>> {
        let mut any = false;
        let mut names = Vec::new();
        for file in files {
            let mut bytes = fs::read(self.dir.join(file))?;
            if whole::remove_bare_shared(&mut bytes)? && [FIRST, SECOND].contains(&file.as_str()) {
                any = true;
                names.push(format!("bare-{file}"));
                fs::write(self.dir.join(format!("bare-{file}")), bytes)?;
            } else {
                names.push(file.clone());
            }
        }
        Ok(any.then_some(names))
    }

    /// True if nvlink's program lacks the shared memory of whole programs (docs/DIFFERENCES.md,
    /// whole-program-again), and is culd's but for that.
    fn lacks_shared_sections(&self, link: &SteppedLink, what: &str) -> Result<bool> {
        if !whole::may_lack_shared(self.tools, &self.options, &self.compiled()?) {
            return Ok(false);
        }
        if link.object {
            return Ok(whole::is_about_shared(what));
        }
        let Some((theirs, ours)) = self.programs()? else { return Ok(false) };
        Ok(ours.differs_in_shared_sections(&theirs))
    }

    /// True where a program by culd lacks the same, since nvlink's objects in front of it do.
    fn has_lost_shared(&mut self, link: &SteppedLink) -> Result<bool> {
        if !whole::may_lack_shared(self.tools, &self.options, &self.compiled()?) {
            return Ok(false);
        }
        let linked = fs::read(self.dir.join("culd").join("out.cubin"))?;
        // Code that nvlink wrote anew is of no object.
        let Ok(program) = ProgramText::read(&linked, &self.objects) else { return Ok(false) };
        let one = self.one(&link.sources)?;
        Ok(one.is_some_and(|one| one.differs_in_shared_sections(&program)))
    }

    /// nvlink's program and culd's of the link that was just compared, if both can be read.
    fn programs(&self) -> Result<Option<(ProgramText, ProgramText)>> {
        let [theirs, ours] = ["nvlink", "culd"].map(|folder| {
            let linked = fs::read(self.dir.join(folder).join("out.cubin")).ok()?;
            ProgramText::read(&linked, &self.objects).ok()
        });
        Ok(theirs.zip(ours))
    }

    /// True where culd refuses variables that kernels of whole programs reach, and nvlink does so
    /// too in one step (docs/DIFFERENCES.md, whole-program-again).
    fn is_clash_of_one_step(&self, link: &SteppedLink, what: &str) -> Result<bool> {
        if !what.contains(whole::CLASH) || !is_any_whole_program(&self.compiled()?) {
            return Ok(false);
        }
        let arguments = [&self.options[..], &link.sources].concat();
        let verdict = compare_links_of(self.tools, &arguments, self.arguments, self.dir)?;
        Ok(matches!(verdict, Verdict::SameError(_)))
    }

    /// True where a step has shared memory without a variable of a kernel that is not selected
    /// (docs/DIFFERENCES.md, late-kernels-of-objects).
    fn has_unselected_memory(&self, link: &SteppedLink) -> Result<bool> {
        let selected = self.options.iter().find_map(|word| word.strip_prefix("-kernels-used="));
        let Some(selected) = selected.filter(|_| whole::counts_bare(self.tools)) else {
            return Ok(false);
        };
        let left = |name: &Vec<u8>| !String::from_utf8_lossy(name).contains(selected);
        for step in self.steps(&link.files)? {
            if whole::bare_shared(&Cubin::parse(&step)?).iter().any(left) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The bytes of the compiled files.
    fn compiled(&self) -> Result<Vec<Vec<u8>>> {
        self.files.iter().map(|name| self.read(name)).collect()
    }

    /// The bytes of those of `files` that a linker made.
    fn steps(&self, files: &[String]) -> Result<Vec<Vec<u8>>> {
        let steps = files.iter().filter(|file| [FIRST, SECOND].contains(&file.as_str()));
        steps.map(|name| self.read(name)).collect()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.dir.join(name)).with_context(|| name.to_owned())
    }

    /// True if a step has code that nvlink wrote anew: it has no counterpart in one step.
    fn has_new_code(&self, files: &[String]) -> Result<bool> {
        let compiled = self.compiled()?;
        let anew = |step: &Vec<u8>| mercury::is_written_anew(step, &compiled);
        Ok(self.steps(files)?.iter().any(anew))
    }

    /// True if a file declares a shared array without size and a later file defines it with one.
    fn declares_unsized_first(&self, files: &[String]) -> Result<bool> {
        let mut arrays = HashSet::new();
        for file in files {
            let bytes = fs::read(self.dir.join(file))?;
            let cubin = Cubin::parse(&bytes)?;
            for symbol in cubin.symbols.iter().filter(|symbol| symbol.is_shared()) {
                if symbol.size == 0 {
                    arrays.insert(symbol.name.to_vec());
                } else if symbol.defined_in().is_some() && arrays.contains(symbol.name) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// True if nvlink kept symbols of literals that are gone.
    fn has_lost_literals(&self, files: &[String]) -> Result<bool> {
        let mut found = false;
        for file in files {
            let bytes = fs::read(self.dir.join(file))?;
            let cubin = Cubin::parse(&bytes)?;
            found |= cubin.symbols.iter().any(|symbol| {
                let section = symbol.defined_in().and_then(|at| cubin.section(at));
                let bank = section.filter(|section| section.constant_bank().is_some());
                bank.is_some_and(|bank| symbol.value + symbol.size > bank.size)
            });
        }
        Ok(found)
    }

    fn has_equal_names(&self, files: &[String]) -> Result<bool> {
        Ok(self.steps(files)?.iter().any(|step| mercury::has_equal_names(step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_put_together_or_left() {
        for files in 1..6 {
            for FileSplit { group, rest } in splits(files) {
                let mut all = [group, rest].concat();
                all.sort_unstable();
                assert_eq!(all, (0..files).collect::<Vec<_>>());
            }
        }
        assert_eq!([1, 2, 3].map(|files| splits(files).len()), [1, 3, 5]);
    }
}
