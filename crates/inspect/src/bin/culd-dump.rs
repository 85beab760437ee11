//! `culd-dump FILE`: the text form of a cubin.
//!
//! Exit status: 0 done, 2 trouble.

use std::process::ExitCode;

use culd_inspect::text::{self, Options};
use culd_inspect::view::View;

const USAGE: &str = "\
usage: culd-dump [OPTION]... FILE
Print a cubin as text: names instead of indices, one line per record (docs/TEXT-FORMAT.md).
  --only NAME   print this section only
  --summary     sizes instead of the contents of string tables, code and data
exit status: 0 done, 2 trouble";

fn arguments() -> Result<Option<(String, Options)>, String> {
    let (mut options, mut files) = (Options::default(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "--help" => return Ok(None),
            "--summary" => options.summary = true,
            "--only" => options.only = Some(arguments.next().ok_or("--only needs a name")?),
            option if option.starts_with('-') => return Err(format!("unknown option '{option}'")),
            _ => files.push(argument),
        }
    }
    let count = files.len();
    let [file] = files.try_into().map_err(|_| format!("one file is needed, {count} given"))?;
    Ok(Some((file, options)))
}

fn run() -> Result<(), String> {
    let usage = |error: String| format!("{error}\n{USAGE}");
    let Some((file, options)) = arguments().map_err(usage)? else {
        return culd_inspect::print(&format!("{USAGE}\n"));
    };
    let data = std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
    let view = View::parse(&data).map_err(|error| format!("{file}: {error}"))?;
    if let Some(only) = options.only.as_ref().filter(|only| !view.sections.contains(only)) {
        return Err(format!("{file}: no section '{only}'"));
    }
    culd_inspect::print(&text::dump(&view, &options))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("culd-dump: {error}");
            ExitCode::from(2)
        }
    }
}
