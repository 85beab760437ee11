//! `culd-diff A B`: the readable difference of two cubins.
//!
//! Exit status: 0 nothing differs, 1 something does, 2 trouble.

use std::ffi::OsString;
use std::process::ExitCode;

use culd_inspect::diff::{self, DiffOptions, DiffReport};
use culd_inspect::view::View;

const USAGE: &str = "\
usage: culd-diff [OPTION]... A B
Compare two cubins by the names of what is in them. A is the left side; \"missing\" is in A only.
  --limit N   at most N lines of each group (default 20)
  --tool      compare the first record of .note.nv.tkinfo too: the one of the linker itself
  --version   print the version
exit status: 0 nothing differs, 1 something does, 2 trouble
";

struct Arguments {
    limit: usize,
    tool: bool,
    files: [OsString; 2],
}

fn arguments() -> Result<Option<Arguments>, String> {
    let (mut limit, mut tool, mut files) = (20, false, Vec::new());
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let shown = culd_text::name(&argument);
        match shown.as_str() {
            "-h" | "--help" => return Ok(None),
            "--tool" => tool = true,
            "--ignore-tool" => tool = false,
            "--limit" => {
                let number = arguments.next();
                let number = number.and_then(|number| number.to_str()?.parse().ok());
                limit = number.ok_or("--limit needs a number")?;
            }
            option if option.starts_with('-') => return Err(format!("unknown option '{option}'")),
            _ => files.push(argument),
        }
    }
    let count = files.len();
    let files = files.try_into().map_err(|_| format!("two files are needed, {count} given"))?;
    Ok(Some(Arguments { limit, tool, files }))
}

fn difference(arguments: &Arguments) -> Result<DiffReport, String> {
    let [a_name, b_name] = &arguments.files;
    let (a, b) = (culd_inspect::read(a_name)?, culd_inspect::read(b_name)?);
    let a = View::parse(&a).map_err(|error| culd_inspect::about(a_name, error))?;
    let b = View::parse(&b).map_err(|error| culd_inspect::about(b_name, error))?;
    let difference = diff::compare(&a, &b, DiffOptions { tool: arguments.tool });
    if difference.is_empty() && a.data != b.data {
        let note = "only the linkers' own tool records differ (--tool shows them)";
        culd_inspect::complain("culd-diff", note, "");
    }
    Ok(difference)
}

fn run() -> Result<ExitCode, (String, &'static str)> {
    if let Some(version) = culd_inspect::asked_version("culd-diff") {
        return culd_inspect::print(&version)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| (error, ""));
    }
    match arguments().map_err(|error| (error, USAGE))? {
        None => culd_inspect::print(USAGE).map(|()| ExitCode::SUCCESS),
        Some(arguments) => show(&arguments),
    }
    .map_err(|error| (error, ""))
}

fn show(arguments: &Arguments) -> Result<ExitCode, String> {
    let difference = difference(arguments)?;
    let mut text = String::new();
    difference.write(&mut text, arguments.limit).map_err(|error| error.to_string())?;
    culd_inspect::print(&text)?;
    Ok(ExitCode::from(u8::from(!difference.is_empty())))
}

fn main() -> ExitCode {
    run().unwrap_or_else(|(error, usage)| {
        culd_inspect::complain("culd-diff", &error, usage);
        ExitCode::from(2)
    })
}
