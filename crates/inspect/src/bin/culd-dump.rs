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
  --abi         where kernels have their parameters, prototypes, system calls and address classes
exit status: 0 done, 2 trouble";

/// What to print.
struct Wish {
    file: String,
    options: Options,
    /// Interfaces instead of the text form.
    abi: bool,
}

fn arguments() -> Result<Option<Wish>, String> {
    let (mut options, mut files, mut abi) = (Options::default(), Vec::new(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "--help" => return Ok(None),
            "--abi" => abi = true,
            "--summary" => options.summary = true,
            "--only" => options.only = Some(arguments.next().ok_or("--only needs a name")?),
            option if option.starts_with('-') => return Err(format!("unknown option '{option}'")),
            _ => files.push(argument),
        }
    }
    let count = files.len();
    let [file] = files.try_into().map_err(|_| format!("one file is needed, {count} given"))?;
    Ok(Some(Wish { file, options, abi }))
}

fn run() -> Result<(), String> {
    let usage = |error: String| format!("{error}\n{USAGE}");
    let Some(Wish { file, options, abi }) = arguments().map_err(usage)? else {
        return culd_inspect::print(&format!("{USAGE}\n"));
    };
    let data = std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
    let view = View::parse(&data).map_err(|error| format!("{file}: {error}"))?;
    if abi {
        return culd_inspect::print(&culd_inspect::abi::describe(&view));
    }
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
