//! Link-time optimization: LTO-IR becomes PTX, by the program `culd-lto` and NVIDIA's libnvJitLink.
//!
//! In: LTO-IR and the options of the link. Out: PTX, or why not. Guaranteed: nothing of
//! NVIDIA's is loaded into this process; one private folder that is gone afterwards.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

use culd_link::Session;
use thiserror::Error;

use crate::child;
use crate::guard::Scratch;
use crate::input::STACK_PROTECTOR;
use crate::options::{Id, Options};
use crate::programs;

/// The program that has NVIDIA's library compile.
const PROGRAM: &str = "culd-lto";

/// What messages call the cubin of all LTO-IR, as nvlink does.
pub(crate) const CUBIN: &str = "lto.cubin";

/// A piece of LTO-IR.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    /// A fat binary, or bare LTO-IR.
    pub(crate) fatbin: bool,
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) bytes: &'a [u8],
}

/// Why nothing was made.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("there is no {PROGRAM} beside this program or in PATH, which compiles it")]
    NoProgram,
    #[error("cannot run '{}': {error}", path.display())]
    CannotRun { path: PathBuf, error: io::Error },
    #[error("cannot write a temporary file: {0}")]
    Temporary(#[from] io::Error),
    /// Nobody wants the link any more.
    #[error("cancelled")]
    Cancelled,
    /// What the program says, a line each; the first says why.
    #[error("{}", .0.first().map_or("it does not say why", String::as_str))]
    Refused(Vec<String>),
}

impl Failure {
    /// Lines that explain it.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self {
            Failure::Refused(lines) => lines.iter().skip(1).cloned().collect(),
            _ => Vec::new(),
        }
    }
}

/// PTX of all `parts` for the target called `arch`.
pub(crate) fn compile(
    options: &Options,
    arch: &str,
    parts: &[Part<'_>],
    session: &Session,
) -> Result<Vec<u8>, Failure> {
    let mut made = run(options, arch, parts, ("ptx", "-ptx"), session)?;
    // It ends with NUL.
    made.truncate(made.iter().position(|&byte| byte == 0).unwrap_or(made.len()));
    Ok(made)
}

/// A relocatable cubin of them with all their functions, if the user's library makes such.
pub(crate) fn object(
    options: &Options,
    arch: &str,
    parts: &[Part<'_>],
    session: &Session,
) -> Option<Vec<u8>> {
    let made = run(options, arch, parts, ("object", "-r"), session).ok()?;
    made.starts_with(b"\x7fELF").then_some(made)
}

fn run(
    options: &Options,
    arch: &str,
    parts: &[Part<'_>],
    (what, word): (&str, &str),
    session: &Session,
) -> Result<Vec<u8>, Failure> {
    let program = find().ok_or(Failure::NoProgram)?;
    let files: Vec<String> = (0..parts.len()).map(|number| number.to_string()).collect();
    let fixed = ["out", child::STDOUT, child::STDERR];
    let files: Vec<&str> = files.iter().map(String::as_str).chain(fixed).collect();
    let folder = Scratch::new("culd-lto-", &files)?;
    let output = folder.join("out");
    let mut command = Command::new(&program);
    command.arg(what).arg(&output);
    for toolkit in programs::toolkit_homes(options) {
        command.arg("--toolkit").arg(toolkit);
    }
    for word in words(options, arch, word) {
        command.arg("--option").arg(word);
    }
    for (number, Part { fatbin, name, bytes }) in parts.iter().enumerate() {
        let file = folder.join(files[number]);
        fs::write(&file, bytes)?;
        let kind = if *fatbin { "fatbin" } else { "ltoir" };
        command.args(["--input", kind, name]).arg(file);
    }
    let done = child::output(&mut command, session.cancel(), &folder);
    let done = done.map_err(|error| match error {
        child::Failure::CannotRun(error) => Failure::CannotRun { path: program, error },
        child::Failure::Temporary(error) => Failure::Temporary(error),
        child::Failure::Cancelled => Failure::Cancelled,
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(Failure::Refused(said.lines().map(str::to_owned).collect()));
    }
    Ok(fs::read(&output)?)
}

/// The options in the words of libnvJitLink.
fn words(options: &Options, arch: &str, what: &str) -> Vec<String> {
    let mut words = vec![format!("-arch={arch}"), "-lto".to_owned(), what.to_owned()];
    if options.flag(Id::Debug) {
        words.push("-g".to_owned());
    }
    for (id, name) in [
        (Id::Xnvvm, "-Xnvvm"),
        (Id::Xptxas, "-Xptxas"),
        (Id::KernelsUsed, "-kernels-used"),
        (Id::VariablesUsed, "-variables-used"),
    ] {
        words.extend(options.list(id).iter().map(|value| format!("{name}={value}")));
    }
    for (id, name) in [
        (Id::FastCompile, "-Ofc"),
        (Id::SplitCompile, "-split-compile"),
        (Id::SplitCompileExtended, "-split-compile-extended"),
        (Id::MaxRegisters, "-maxrregcount"),
    ] {
        words.extend(options.text(id).map(|value| format!("{name}={value}")));
    }
    // The library has no option for it, but one for options of ptxas.
    let protector = options.text(Id::StackProtector);
    words.extend(protector.map(|value| format!("-Xptxas={STACK_PROTECTOR}={value}")));
    words
}

/// The program beside this one, or in PATH.
fn find() -> Option<PathBuf> {
    // The file behind a link: a shadow's nvlink has no such neighbour.
    let own = env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    programs::in_folders(own.into_iter().chain(programs::folders()), PROGRAM)
}
