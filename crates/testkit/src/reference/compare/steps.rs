//! Compares a program linked in one step with the same in several.
//!
//! In: a command line whose output is a program. Out: the differences. Guaranteed: for all
//! groupings of the files into objects, the last link gives the same program ([`ProgramText`]) as
//! one link of all files. nvlink makes the same bytes of culd's objects as culd does.

use super::mercury::{self, Classes};
use super::trial::{Difference, Tools, Verdict, candidate, compare_links_of};
use super::whole;
use crate::reference::oracle::Release;
use crate::reference::oracle::process::Status;
use crate::reference::program::{Objects, ProgramText};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Compares the links of `arguments` in `dir` in one step and in several. There is no verdict if
/// the candidate makes no program of them, or no object.
///
/// # Errors
/// When a linker cannot be started or a file not be read.
pub fn compare_steps(tools: &Tools, arguments: &[String], dir: &Path) -> Result<Verdict> {
    let (files, options): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|word| word.ends_with(".cubin"));
    if !makes_program(arguments) {
        return Ok(Verdict::NoVerdict("no plain program".to_owned()));
    }
    let Some(linked) = link(tools, arguments, dir, "one-step.out")? else {
        return Ok(Verdict::NoVerdict("no program".to_owned()));
    };
    let read = |name: &String| fs::read(dir.join(name)).with_context(|| name.clone());
    let inputs: Vec<Vec<u8>> = files.iter().map(read).collect::<Result<_>>()?;
    let objects = Objects::parse(&inputs)?;
    let different = |arguments: Vec<String>, what: String| {
        Ok(Verdict::Different(Difference { arguments, what }))
    };
    let one = match ProgramText::read(&linked, &objects) {
        Ok(program) => program,
        Err(fault) => {
            return different(arguments.to_vec(), format!("the program of one step: {fault:#}"));
        }
    };
    let mut classes = Classes::default();
    for grouping in groupings(files.len()).into_iter().take(faithful(&objects)) {
        let mut steps = Vec::new();
        let mut last = options.clone();
        let mut equal_names = false;
        for (number, group) in grouping.iter().enumerate() {
            let name = format!("step-{number}.cubin");
            let mut step = options.clone();
            step.push("-r".to_owned());
            step.extend(group.iter().filter_map(|&at| files.get(at).cloned()));
            let Some(object) = link(tools, &step, dir, &name)? else {
                return Ok(Verdict::NoVerdict(format!("no object of {}", step.join(" "))));
            };
            equal_names |= mercury::has_equal_names(&object);
            steps.push(step.join(" "));
            last.push(name);
        }
        match compare_links_of(tools, &last, arguments, dir)? {
            Verdict::Identical(found) => classes += found,
            // It is still compared with the program of one step.
            Verdict::Different(_) if equal_names => {
                *classes.listed.entry("equal-names-of-objects").or_default() += 1;
            }
            // The same holds here, and nvlink's program has no other difference.
            Verdict::Different(_)
                if whole::may_lack_shared(tools, &options, &inputs)
                    && lacks_shared_sections(&one, &objects, dir) =>
            {
                *classes.listed.entry(whole::AGAIN).or_default() += 1;
            }
            Verdict::Different(difference) => {
                let what = format!("of {}: {}", steps.join("; "), difference.what);
                return different(difference.arguments, what);
            }
            other => return Ok(other),
        }
        let linked = fs::read(dir.join("culd/out.cubin"))?;
        let two = ProgramText::read(&linked, &objects);
        let usual = tools.oracle.release() == Release::usual();
        let what = match two {
            Ok(two) if usual && !two.short_kernels().is_empty() => {
                Some(format!("arrays behind the shared memory of {:?}", two.short_kernels()))
            }
            Ok(two) => one.difference(&two),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(what) = what {
            return different(last, format!("of {}: {what}", steps.join("; ")));
        }
    }
    Ok(Verdict::Identical(classes))
}

/// True if nvlink's last program lacks shared memory that `one` has.
fn lacks_shared_sections(one: &ProgramText, objects: &Objects<'_>, dir: &Path) -> bool {
    let linked = fs::read(dir.join("nvlink/out.cubin"));
    let program = linked.ok().and_then(|linked| ProgramText::read(&linked, objects).ok());
    program.is_some_and(|program| one.differs_in_shared_sections(&program))
}

/// False for arguments of a link that makes an object, or that lists resolved records, which depend
/// on the steps.
pub fn makes_program(arguments: &[String]) -> bool {
    let preserves = |word: &String| word.trim_start_matches('-') == "preserve-relocs";
    !super::is_relocatable(arguments) && !arguments.iter().any(preserves)
}

/// The groupings of files: each alone, all, the first ones, the last ones. Files keep their order.
pub fn groupings(files: usize) -> Vec<Vec<Vec<usize>>> {
    let range = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
    let mut all = vec![(0..files).map(|file| vec![file]).collect(), vec![range(0, files)]];
    if files > 2 {
        all.push(vec![range(0, files - 1), range(files - 1, files)]);
        all.push(vec![range(0, 1), range(1, files)]);
    }
    all.dedup();
    all
}

/// The number of [`groupings`] that must give the same program. Repeated definitions must meet in
/// the same order, and the one target of an object decides among equal copies.
pub fn faithful(objects: &Objects<'_>) -> usize {
    match (objects.any_repeated(), objects.one_target()) {
        (false, _) => 4,
        (true, true) => 3,
        (true, false) => 2,
    }
}

/// Links with the candidate; `None` if that fails.
fn link(tools: &Tools, arguments: &[String], dir: &Path, out: &str) -> Result<Option<Vec<u8>>> {
    let mut command = candidate(tools);
    command.current_dir(dir).args(arguments).args(["-o", out]);
    let run = crate::reference::oracle::process::run(&mut command, tools.limit)?;
    let done = run.status == Status::Exit(0);
    done.then(|| fs::read(dir.join(out)).context("no output")).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_one_group_of_each_grouping() {
        for files in 1..6 {
            for grouping in groupings(files) {
                let all: Vec<usize> = grouping.into_iter().flatten().collect();
                assert_eq!(all, (0..files).collect::<Vec<_>>());
            }
        }
        assert_eq!(groupings(1).len(), 1);
        assert_eq!(groupings(3).len(), 4);
    }
}
