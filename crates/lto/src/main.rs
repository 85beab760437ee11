//! `culd-lto`: compiles LTO-IR for `culd -lto`.
//!
//! In: the wanted output and its path, options and inputs, from `culd`. Out: a file with PTX or a
//! cubin; on standard output a line about the result, and the log of NVIDIA's library; on standard
//! error the libraries' own lines. Exit status 1 if there is no output. It is a separate program so
//! that NVIDIA's library, which is loaded at run time, is not loaded into the linker, which ships
//! as a static program.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use culd_lto::{
    CompileInput, CompileInputKind, CompileTask, LtoError, LtoTarget, NvJitLink, find, find_nvvm,
    lto_ir,
};

const USAGE: &str = "\
usage: culd-lto ptx|object|cubin OUTPUT [--toolkit DIR]... [--roots FILE] [--option WORD]...
                [--input KIND NAME FILE]...
Compiles LTO-IR with NVIDIA's libnvJitLink; started by culd -lto. The first option names the target.
KIND is ltoir, fatbin, object or cubin.
FILE of --roots is NVVM IR that names what has to stay; NVIDIA's libnvvm makes LTO-IR of it.
The library is the one that CULD_NVJITLINK names, or that of the first DIR that has one.
Standard output: 'made by PATH', 'refused CODE by PATH', each with the library's log behind it, or
'failed: WHY'.";

/// The request of the command line.
#[derive(Default)]
struct CommandWords {
    toolkits: Vec<PathBuf>,
    options: Vec<String>,
    inputs: Vec<(CompileInputKind, String, Vec<u8>)>,
    /// NVVM IR.
    roots: Option<String>,
}

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(report) => {
            print!("{report}");
            ExitCode::FAILURE
        }
    }
}

/// The report, of a success or of a failure.
fn run(words: Vec<OsString>) -> Result<String, String> {
    let failed = |why: String| format!("failed: {why}\n");
    let mut words = words.into_iter();
    let (want, output) = (words.next(), words.next().ok_or(failed(USAGE.to_owned()))?);
    let want = match want.as_ref().and_then(|want| want.to_str()) {
        Some("ptx") => LtoTarget::Ptx,
        Some("object") => LtoTarget::Object,
        Some("cubin") => LtoTarget::Cubin,
        _ => return Err(failed(USAGE.to_owned())),
    };
    let words = read(words).map_err(failed)?;
    let report = |error: LtoError| match &error {
        LtoError::Refused { path, code, log, .. } => {
            format!("refused {code} by {}\n{log}", shown(path))
        }
        _ => failed(error.to_string()),
    };
    let path = find(None, &words.toolkits).ok_or_else(|| report(LtoError::NotFound))?;
    let inputs: Vec<CompileInput<'_>> = words
        .inputs
        .iter()
        .map(|(kind, name, bytes)| CompileInput { kind: *kind, name, bytes })
        .collect();
    let (compiler, roots) = prepared(&words, path, want).map_err(report)?;
    let task =
        CompileTask { options: &words.options, inputs: &inputs, want, roots: roots.as_deref() };
    let made = compiler.compile(&task).map_err(report)?;
    std::fs::write(&output, made.bytes)
        .map_err(|error| failed(format!("'{}': {error}", shown(&output))))?;
    Ok(format!("made by {}\n{}", shown(compiler.path()), made.log))
}

/// The library at `path`, and LTO-IR of the roots if they are needed.
fn prepared(
    words: &CommandWords,
    path: PathBuf,
    want: LtoTarget,
) -> Result<(NvJitLink, Option<Vec<u8>>), LtoError> {
    let Some(text) = &words.roots else { return Ok((NvJitLink::load(path)?, None)) };
    let nvvm = find_nvvm(&path, &words.toolkits).ok_or(LtoError::NoNvvm)?;
    let arch = words.options.first().map_or("", String::as_str);
    let make = || lto_ir(&nvvm, text, arch);
    if want == LtoTarget::Object {
        let compiler = NvJitLink::load(path)?;
        let roots = compiler.needs_other_code().then(make).transpose()?;
        return Ok((compiler, roots));
    }
    // To load and set up either takes as long as to compile a small program.
    let (compiler, roots) = std::thread::scope(|scope| {
        let roots = scope.spawn(make);
        (NvJitLink::load(path), roots.join())
    });
    let roots = roots.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok((compiler?, Some(roots?)))
}

/// A name or path in one line.
fn shown(name: impl AsRef<OsStr>) -> String {
    culd_text::escaped(&culd_text::name(name)).into_owned()
}

fn read(mut words: impl Iterator<Item = OsString>) -> Result<CommandWords, String> {
    let mut read = CommandWords::default();
    let text = |word: OsString| {
        word.into_string().map_err(|word| format!("'{}' is not UTF-8", shown(word)))
    };
    let unreadable = |file: OsString, error| format!("'{}': {error}", shown(file));
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| USAGE.to_owned());
        match word.to_str().unwrap_or_default() {
            "--toolkit" => read.toolkits.push(value()?.into()),
            "--option" => read.options.push(text(value()?)?),
            "--roots" => {
                let file = value()?;
                let text = std::fs::read_to_string(&file);
                read.roots = Some(text.map_err(|error| unreadable(file, error))?);
            }
            "--input" => {
                let kind = match text(value()?)?.as_str() {
                    "ltoir" => CompileInputKind::LtoIr,
                    "fatbin" => CompileInputKind::Fatbin,
                    "object" => CompileInputKind::Object,
                    "cubin" => CompileInputKind::Cubin,
                    other => return Err(format!("'{other}' is no kind of input\n{USAGE}")),
                };
                let (name, file) = (text(value()?)?, value()?);
                let bytes = std::fs::read(&file).map_err(|error| unreadable(file, error))?;
                read.inputs.push((kind, name, bytes));
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(read)
}
