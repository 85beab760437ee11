//! Takes objects apart and builds them again: each linker has to make the same output of them as of
//! the compiled ones.
//!
//! In: a link in a folder. Out: a [`Verdict`]. Guaranteed: all bytes of the outputs count, messages
//! and exit status too.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::mercury::Classes;
use super::trial::{Difference, Tools, Verdict, candidate, link};
use crate::fixtures::rebuild::rebuild;
use crate::reference::oracle::process::Status;

/// The folder of the objects that were built again.
const FOLDER: &str = "rebuilt";

/// Compares the links of the files in `dir` with those of the same files built again.
pub(super) fn compare_rebuilt(tools: &Tools, arguments: &[String], dir: &Path) -> Result<Verdict> {
    let different =
        |what: String| Verdict::Different(Difference { arguments: arguments.to_vec(), what });
    let again = dir.join(FOLDER);
    fs::create_dir_all(&again)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
        let mut bytes = fs::read(&path)?;
        if path.extension().is_some_and(|extension| extension == "cubin") {
            bytes = match rebuild(&bytes) {
                Ok(bytes) => bytes,
                Err(error) => return Ok(different(format!("{}: {error:#}", name.display()))),
            };
        }
        fs::write(again.join(name), bytes)?;
    }
    let mut error = None;
    for name in ["nvlink", "culd"] {
        let command = || match name {
            "nvlink" => tools.oracle.command(name),
            _ => candidate(tools),
        };
        let (run, out) = link(command(), arguments, dir, (name, tools.limit))?;
        let (second, out_again) = link(command(), arguments, &again, (name, tools.limit))?;
        if matches!(run.status, Status::Signal(_) | Status::TimedOut) {
            return Ok(Verdict::NoVerdict(format!("{name}: {}", run.status)));
        }
        if run.status != second.status || run.stderr_text() != second.stderr_text() {
            let (first, second) = (run.stderr_text(), second.stderr_text());
            return Ok(different(format!("{name} says '{second}' instead of '{first}'")));
        }
        if out != out_again {
            return Ok(different(format!("{name} makes another image of objects built again")));
        }
        if !run.status.success() {
            error = Some(run.stderr_text());
        }
    }
    Ok(error.map_or(Verdict::Identical(Classes::default()), Verdict::SameError))
}
