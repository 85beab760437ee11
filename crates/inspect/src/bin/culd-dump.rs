//! `culd-dump FILE`: the text form of a cubin.
//!
//! Exit status: 0 done, 2 trouble.

use std::ffi::OsString;
use std::process::ExitCode;

use culd_inspect::text::{self, DumpOptions};
use culd_inspect::view::View;

const USAGE: &str = "\
usage: culd-dump [OPTION]... FILE
Print a cubin as text: names instead of indices, one line per record (docs/TEXT-FORMAT.md).
  --only NAME   print this section only
  --summary     sizes instead of the contents of string tables, code and data
  --abi         where kernels have their parameters, prototypes, system calls and address classes
  --version     print the version
exit status: 0 done, 2 trouble
";

/// The request of the command line.
struct DumpRequest {
    file: OsString,
    options: DumpOptions,
    /// Interfaces instead of the text form.
    abi: bool,
}

fn arguments() -> Result<Option<DumpRequest>, String> {
    let (mut options, mut files, mut abi) = (DumpOptions::default(), Vec::new(), false);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let shown = culd_text::name(&argument);
        match shown.as_str() {
            "-h" | "--help" => return Ok(None),
            "--abi" => abi = true,
            "--summary" => options.summary = true,
            "--only" => {
                let name = arguments.next().ok_or("--only needs a name")?;
                options.only = Some(culd_text::name(name));
            }
            option if option.starts_with('-') => return Err(format!("unknown option '{option}'")),
            _ => files.push(argument),
        }
    }
    let count = files.len();
    let [file] = files.try_into().map_err(|_| format!("one file is needed, {count} given"))?;
    Ok(Some(DumpRequest { file, options, abi }))
}

fn run() -> Result<(), (String, &'static str)> {
    if let Some(version) = culd_inspect::asked_version("culd-dump") {
        return culd_inspect::print(&version).map_err(|error| (error, ""));
    }
    let Some(request) = arguments().map_err(|error| (error, USAGE))? else {
        return culd_inspect::print(USAGE).map_err(|error| (error, ""));
    };
    show(request).map_err(|error| (error, ""))
}

fn show(DumpRequest { file, options, abi }: DumpRequest) -> Result<(), String> {
    let data = culd_inspect::read(&file)?;
    let view = View::parse(&data).map_err(|error| culd_inspect::about(&file, error))?;
    if abi {
        return culd_inspect::print(&culd_inspect::abi::describe(&view));
    }
    if let Some(only) = options.only.as_ref().filter(|only| !view.sections.contains(only)) {
        return Err(culd_inspect::about(&file, format!("no section '{only}'")));
    }
    culd_inspect::print(&text::dump(&view, &options))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err((error, usage)) => {
            culd_inspect::complain("culd-dump", &error, usage);
            ExitCode::from(2)
        }
    }
}
