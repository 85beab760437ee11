//! `culd-lto`: compiles LTO-IR for `culd -lto`.
//!
//! In: requests of `culd` on standard input, a socket. Out: a reply to each on the same socket; on
//! standard output and error the lines of NVIDIA's libraries. It is a separate program so that
//! these, which are loaded at run time, are not loaded into the linker, which ships as a static
//! program. It stays for several requests, because to load them takes as long as to compile a small
//! program.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use culd_lto::{
    CompileInput, CompileInputKind, CompileTask, LtoError, LtoTarget, NvJitLink, candidates,
    find_nvvm, lto_ir, with_library,
};
use culd_text::message;

const USAGE: &str = "\
usage: culd-lto [--toolkit DIR]...
Compiles LTO-IR with NVIDIA's libnvJitLink; started by culd -lto, which sends requests to standard
input, a socket:
  ptx|object|image|check [--roots TEXT] [--option WORD]...
      [--input ltoir|fatbin|cubin NAME BYTES]...
The first option names the target. TEXT is NVVM IR that names what has to stay; NVIDIA's libnvvm
makes LTO-IR of it. 'check' compiles nothing: its output is empty.
The library is the one that CULD_NVJITLINK names, or that of the first DIR that has one.
A reply is 'made by PATH' and the output, or 'refused CODE by PATH', or 'refused CODE at N by PATH'
for input N of the request, counted from 0, each with the library's log in the lines behind it, or
'no object: WHY' from a library that makes none, or 'failed: WHY'.";

/// What a request asks for.
struct CompileRequest {
    /// `None`: nothing but whether the library takes the inputs.
    want: Option<LtoTarget>,
    options: Vec<String>,
    inputs: Vec<(CompileInputKind, String, Vec<u8>)>,
    roots: Roots,
}

/// The names that have to stay.
enum Roots {
    None,
    /// NVVM IR.
    Text(String),
    /// LTO-IR of it.
    Made(Result<Vec<u8>, LtoError>),
}

fn main() -> ExitCode {
    match std::env::args_os().nth(1).as_ref().and_then(|word| word.to_str()) {
        Some("-h" | "--help") => return shown_to_user(USAGE),
        Some("--version") => return shown_to_user(concat!("culd-lto ", env!("CARGO_PKG_VERSION"))),
        _ => {}
    }
    let Some(toolkits) = toolkits(std::env::args_os().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match serve(&toolkits) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("culd-lto: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what a user has asked for.
fn shown_to_user(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

/// The folders of the command line.
fn toolkits(mut words: impl Iterator<Item = OsString>) -> Option<Vec<PathBuf>> {
    let mut toolkits = Vec::new();
    while let Some(word) = words.next() {
        toolkits.push(words.next().filter(|_| word == "--toolkit")?.into());
    }
    Some(toolkits)
}

/// Answers requests until there is none.
///
/// NVIDIA's compiler orders some variables and functions by a hash of their addresses. There is
/// one thread, so that these are the same each time.
fn serve(toolkits: &[PathBuf]) -> io::Result<()> {
    let socket = socket()?;
    let mut source = BufReader::new(&socket);
    let library = load(toolkits);
    while let Some(words) = message::read(&mut source)? {
        let compiled = match (&library, CompileRequest::of(words)) {
            (_, Err(why)) => Err(LtoReply::failed(why)),
            (Err(error), Ok(_)) => Err(LtoReply::without_output(error)),
            (Ok(library), Ok(request)) => compile(library, request, toolkits)
                .map_err(|error| LtoReply::without_output(&error)),
        };
        let LtoReply { report, bytes } = compiled.unwrap_or_else(|reply| reply);
        let parts = [Some(report.as_bytes()), bytes.as_deref()];
        message::write(&mut &socket, &parts.into_iter().flatten().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Standard input, which is written to, too.
#[cfg(unix)]
fn socket() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Other systems have no sockets for this.
#[cfg(not(unix))]
fn socket() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The answer to a request.
struct LtoReply {
    report: String,
    /// The output.
    bytes: Option<Vec<u8>>,
}

impl LtoReply {
    fn failed(why: String) -> Self {
        LtoReply { report: format!("failed: {why}\n"), bytes: None }
    }

    fn without_output(error: &LtoError) -> Self {
        let report = match error {
            LtoError::Refused { path, code, log, input, .. } => {
                let at = input.map(|place| format!("at {place} ")).unwrap_or_default();
                format!("refused {code} {at}by {}\n{log}", shown(path))
            }
            LtoError::NoObject { .. } => format!("no object: {error}\n"),
            error => return LtoReply::failed(error.to_string()),
        };
        LtoReply { report, bytes: None }
    }
}

/// NVIDIA's libnvJitLink.
fn load(toolkits: &[PathBuf]) -> Result<NvJitLink, LtoError> {
    with_library(None, toolkits, NvJitLink::load)
}

fn compile(
    library: &NvJitLink,
    mut request: CompileRequest,
    toolkits: &[PathBuf],
) -> Result<LtoReply, LtoError> {
    // An object needs roots if the library makes none.
    if request.want != Some(LtoTarget::Object) || library.needs_other_code() {
        request.make_roots(toolkits);
    }
    let roots = match request.roots {
        Roots::Made(roots) => Some(roots?),
        Roots::None | Roots::Text(_) => None,
    };
    let inputs = request.inputs.iter();
    let inputs: Vec<CompileInput<'_>> =
        inputs.map(|(kind, name, bytes)| CompileInput { kind: *kind, name, bytes }).collect();
    let Some(want) = request.want else {
        check(library, &request.options, &inputs)?;
        let report = format!("made by {}\n", shown(library.path()));
        return Ok(LtoReply { report, bytes: Some(Vec::new()) });
    };
    let made = library.compile(&CompileTask {
        options: &request.options,
        inputs: &inputs,
        want,
        roots: roots.as_deref(),
    })?;
    let report = format!("made by {}\n{}", shown(library.path()), made.log);
    Ok(LtoReply { report, bytes: Some(made.bytes) })
}

/// Has the library take `inputs` one by one.
fn check(
    library: &NvJitLink,
    options: &[String],
    inputs: &[CompileInput<'_>],
) -> Result<(), LtoError> {
    inputs.iter().enumerate().try_for_each(|(place, input)| {
        library.check(options, input).map_err(|mut error| {
            if let LtoError::Refused { input: Some(input), .. } = &mut error {
                *input = place;
            }
            error
        })
    })
}

/// A name or path in one line.
fn shown(name: impl AsRef<OsStr>) -> String {
    culd_text::escaped(&culd_text::name(name)).into_owned()
}

impl CompileRequest {
    /// Makes LTO-IR of the roots, if there are any.
    fn make_roots(&mut self, toolkits: &[PathBuf]) {
        let Roots::Text(text) = &self.roots else { return };
        let arch = self.options.first().map_or("", String::as_str);
        let make = || {
            // The library is still being loaded. A copy of culd's has no libnvvm beside it.
            let libraries = candidates(None, toolkits);
            let library = libraries.first().ok_or(LtoError::NotFound)?;
            let nvvm = find_nvvm(library, toolkits).ok_or(LtoError::NoNvvm)?;
            lto_ir(&nvvm, text, arch)
        };
        self.roots = Roots::Made(make());
    }

    /// The request with these words; an error says what is wrong with them.
    fn of(words: Vec<Vec<u8>>) -> Result<Self, String> {
        let text = |word: Vec<u8>| {
            let not_text = |word: &[u8]| format!("'{}' is not UTF-8", culd_text::bytes(word));
            String::from_utf8(word).map_err(|error| not_text(error.as_bytes()))
        };
        let mut words = words.into_iter();
        let mut word = || words.next().ok_or_else(|| USAGE.to_owned());
        let want = match word()?.as_slice() {
            b"ptx" => Some(LtoTarget::Ptx),
            b"object" => Some(LtoTarget::Object),
            b"image" => Some(LtoTarget::Cubin),
            b"check" => None,
            _ => return Err(USAGE.to_owned()),
        };
        let mut request =
            CompileRequest { want, options: Vec::new(), inputs: Vec::new(), roots: Roots::None };
        while let Ok(option) = word() {
            match option.as_slice() {
                b"--option" => request.options.push(text(word()?)?),
                b"--roots" => request.roots = Roots::Text(text(word()?)?),
                b"--input" => {
                    let kind = match word()?.as_slice() {
                        b"ltoir" => CompileInputKind::LtoIr,
                        b"fatbin" => CompileInputKind::Fatbin,
                        b"cubin" => CompileInputKind::Cubin,
                        _ => return Err(USAGE.to_owned()),
                    };
                    request.inputs.push((kind, text(word()?)?, word()?));
                }
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(request)
    }
}
