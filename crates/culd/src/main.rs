//! The command `culd`: arguments in, exit status out. Everything else is in the driver.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use culd_driver::{Product, RunOutcome, parse, subcommand};

fn main() -> ExitCode {
    ExitCode::from(culd_driver::on_enough_stack(whole))
}

/// All of it; the exit status. Not part of `main`, which may have little stack.
#[inline(never)]
fn whole() -> u8 {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let program = program_name(&culd_text::name(program)).to_owned();
    let args: Vec<OsString> = args.collect();
    // In a shadow toolkit, culd replaces three programs.
    match program.as_str() {
        "nvcc" => return print_outcome("nvlink", culd_driver::nvcc_front(&args), None),
        "fatbinary" => {
            return print_outcome("fatbinary", culd_driver::fatbinary_front(&args), None);
        }
        _ => {}
    }
    match command(&program, &args) {
        Some(said) => print_outcome(&program, print_product(said), None),
        None => {
            let parsed = parse(&args);
            let color = parsed.color.clone();
            print_outcome(&program, culd_driver::command(parsed), color.as_deref())
        }
    }
}

/// The result of one of culd's commands, if `args` is one.
fn command(program: &str, args: &[OsString]) -> Option<(Product, RunOutcome)> {
    // nvlink knows no commands: under its name they are names of files.
    match program {
        "nvlink" => None,
        _ => {
            subcommand(args, || std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()))
        }
    }
}

/// Prints the text that a command was started for: where it finds no room, the command fails. A
/// closed pipe is the reader's choice.
fn print_product((product, outcome): (Product, RunOutcome)) -> (String, RunOutcome) {
    let mut out = std::io::stdout().lock();
    let written = product.pieces().try_for_each(|piece| out.write_all(piece));
    let outcome = match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => outcome.with_lost_text(&error),
        _ => outcome,
    };
    (String::new(), outcome)
}

/// Prints the text and the lines; returns the exit status.
fn print_outcome(program: &str, (text, outcome): (String, RunOutcome), color: Option<&str>) -> u8 {
    // A closed pipe is the reader's choice, no error of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
    print(program, &outcome, is_coloured(color));
    outcome.status
}

/// The start of messages: the last part of the name that the program was started by, without its
/// extension, as in nvlink.
fn program_name(started_by: &str) -> &str {
    let name = started_by.rsplit(std::path::is_separator).next().unwrap_or(started_by);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Whether severities are in colour, as `--color` says: else on a terminal that knows colours,
/// unless the user wants none (no-color.org).
fn is_coloured(color: Option<&str>) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match color {
        Some("always") => true,
        Some("never") => false,
        _ => {
            let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
            std::io::stderr().is_terminal() && !is_dumb && !is_set("NO_COLOR")
        }
    }
}

fn print(program: &str, outcome: &RunOutcome, coloured: bool) {
    let mut out = BufWriter::new(std::io::stderr().lock());
    for line in &outcome.lines {
        let first = if coloured { line.show_in_colour(program) } else { line.show(program) };
        for text in std::iter::once(first).chain(line.show_notes()) {
            if writeln!(out, "{text}").is_err() {
                return;
            }
        }
    }
}
