//! The command `culd`: arguments in, exit status out. Everything else is in the driver.
#![forbid(unsafe_code)]

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use culd_driver::{Outcome, command, parse, subcommand};

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let program = program_name(&program).to_owned();
    let args = args.collect::<Vec<_>>();
    // nvlink knows no commands: under its name they are names of files.
    let command = match program.as_str() {
        "nvlink" => None,
        _ => {
            subcommand(&args, &std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()))
        }
    };
    let (text, outcome) = command.unwrap_or_else(|| link(&args));
    // A closed pipe is the reader's choice, no error of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
    print(&program, &outcome);
    ExitCode::from(outcome.status)
}

/// What messages begin with: the last part of the name that the program was started by, without
/// what follows its last dot, as in nvlink.
fn program_name(started_by: &str) -> &str {
    let name = started_by.rsplit('/').next().unwrap_or(started_by);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn link(args: &[String]) -> (String, Outcome) {
    command(parse(args))
}

fn print(program: &str, outcome: &Outcome) {
    let mut out = BufWriter::new(std::io::stderr().lock());
    for line in &outcome.lines {
        for text in std::iter::once(line.show(program)).chain(line.show_notes()) {
            if writeln!(out, "{text}").is_err() {
                return;
            }
        }
    }
}
