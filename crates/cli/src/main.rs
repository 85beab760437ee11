//! The command `culd`: arguments in, exit status out. Everything else is in the driver.
#![forbid(unsafe_code)]

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use culd_driver::{Id, Outcome, Request, command, install_shadow, parse};

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or("culd").to_owned();
    let args = args.collect::<Vec<_>>();
    let (text, outcome) = match args.split_first() {
        // nvlink knows no such word: there it is the name of a file.
        Some((word, rest)) if word == "install-shadow" && program != "nvlink" => shadow(rest),
        _ => link(&args),
    };
    // A closed pipe is the reader's choice, no error of ours.
    let _ = std::io::stdout().write_all(text.as_bytes());
    print(&program, &outcome);
    ExitCode::from(outcome.status)
}

fn link(args: &[String]) -> (String, Outcome) {
    let parsed = parse(args);
    if let Ok(Request::Link(options)) = &parsed.request
        && options.flag(Id::Trace)
    {
        trace();
    }
    command(parsed)
}

/// Makes a shadow toolkit with this very program in it.
fn shadow(args: &[String]) -> (String, Outcome) {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    install_shadow(args, &program)
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

/// Prints spans with their times as they close.
fn trace() {
    use tracing_subscriber::fmt::format::FmtSpan;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter("debug")
        .with_span_events(FmtSpan::CLOSE)
        .init();
}
