//! `culd-lto`: compiles LTO-IR for `culd -lto`.
//!
//! In: requests of `culd` on standard input, a socket. Out: a reply to each on the same socket; on
//! standard output and error the lines of NVIDIA's libraries. It is a separate program so that
//! these, which are loaded at run time, are not loaded into the linker, which ships as a static
//! program. It stays for several requests, because to load them takes as long as to compile a small
//! program.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use culd_lto::{
    CompileInput, CompileInputKind, CompileTask, LtoError, LtoTarget, NvJitLink, OPEN_ROOTS,
    OPEN_ROOTS_TEXT, ProcessCopy, candidates, find_nvvm, lto_ir, with_library,
};
use culd_text::message;

const USAGE: &str = "\
usage: culd-lto [--names] [--toolkit DIR]...
Compiles LTO-IR with NVIDIA's libnvJitLink; started by culd -lto, which sends requests to standard
input, a socket:
  ptx|object|image|check|both|names
      [--roots TEXT|--made-roots LTO-IR] [--option WORD]...
      [--object-option WORD]...
      [--input ltoir|fatbin|cubin NAME BYTES]...
The first option names the target. TEXT is NVVM IR that names what has to stay; NVIDIA's libnvvm
makes LTO-IR of it, which is the output for 'names'. In 'object' and 'image' all stays that other
code can see. 'check' compiles nothing: its output is empty. 'both' is 'ptx' and, with options of
its own, 'object' at the same time: there are two replies, in this order, and the lines of the
second are in a third part of it.
With --names libnvJitLink is loaded for a request that needs it, not before.
The library is the one that CULD_NVJITLINK names, or that of the first DIR that has one.
A reply is 'made by PATH' and the output, or 'refused CODE by PATH', or 'refused CODE at N by PATH'
for input N of the request, counted from 0, each with the library's log in the lines behind it, or
'no object: WHY' from a library that makes none, or 'failed: WHY'.";

/// A request.
struct CompileRequest {
    want: Wanted,
    way: CompileWay,
    /// The way to an object.
    object: CompileWay,
    inputs: Vec<(CompileInputKind, String, Vec<u8>)>,
}

/// What a request asks for.
#[derive(Clone, Copy)]
enum Wanted {
    One(LtoTarget),
    /// PTX, and an object at the same time.
    Both,
    /// Nothing but whether the library takes the inputs.
    Check,
    /// LTO-IR of the roots.
    Names,
}

/// How inputs are compiled.
#[derive(Default)]
struct CompileWay {
    options: Vec<String>,
    roots: Option<Roots>,
}

/// The names that have to stay.
enum Roots {
    /// NVVM IR.
    Text(String),
    /// LTO-IR of it.
    Made(Vec<u8>),
}

fn main() -> ExitCode {
    match std::env::args_os().nth(1).as_ref().and_then(|word| word.to_str()) {
        Some("-h" | "--help") => return shown_to_user(USAGE),
        Some("--version") => return shown_to_user(concat!("culd-lto ", env!("CARGO_PKG_VERSION"))),
        _ => {}
    }
    let mut words = std::env::args_os().skip(1).peekable();
    let names = words.next_if(|word| word == "--names").is_some();
    let Some(toolkits) = toolkits(words) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match serve(&toolkits, names) {
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

/// Answers requests until there is none; `names` says that they will be about names.
///
/// NVIDIA's compiler orders some variables and functions by a hash of their addresses. There is
/// one thread, so that these are the same each time.
fn serve(toolkits: &[PathBuf], names: bool) -> io::Result<()> {
    let socket = socket()?;
    let mut source = BufReader::new(&socket);
    let compiler = Compiler { library: OnceCell::new(), toolkits };
    if !names {
        // It loads while culd looks at other inputs; a request reports the reason if it cannot.
        let _ = compiler.library();
    }
    while let Some(words) = message::read(&mut source)? {
        let send = |reply: LtoReply| message::write(&mut &socket, &reply.into_parts());
        match CompileRequest::of(words) {
            Ok(request) => compiler.answer(&request, send)?,
            Err(why) => send(LtoReply::failed(why))?,
        }
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
    /// Lines of the libraries that are not on standard output.
    said: Option<Vec<u8>>,
}

impl LtoReply {
    fn failed(why: String) -> Self {
        LtoReply { report: format!("failed: {why}\n"), bytes: None, said: None }
    }

    /// The reply with an output of the library at `path`, which says `log`.
    fn made(path: &Path, log: &str, bytes: Vec<u8>) -> Self {
        let report = format!("made by {}\n{log}", shown(path));
        LtoReply { report, bytes: Some(bytes), said: None }
    }

    fn into_parts(self) -> Vec<Vec<u8>> {
        [Some(self.report.into_bytes()), self.bytes, self.said].into_iter().flatten().collect()
    }

    /// The reply that `copy` has made. It may still be on its way out.
    fn of_copy(copy: &ProcessCopy) -> Self {
        let (parts, said) = match copy.result() {
            Ok(result) => result,
            Err(error) => return LtoReply::failed(format!("a copy of culd-lto failed: {error}")),
        };
        let mut parts = parts.into_iter();
        let report = culd_text::bytes(&parts.next().unwrap_or_default());
        let bytes = parts.next();
        let said = bytes.as_ref().map(|_| said);
        LtoReply { report, bytes, said }
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
        LtoReply { report, bytes: None, said: None }
    }
}

impl From<LtoError> for LtoReply {
    fn from(error: LtoError) -> Self {
        LtoReply::without_output(&error)
    }
}

/// What answers requests.
struct Compiler<'c> {
    /// NVIDIA's, or why there is none, once it was needed.
    library: OnceCell<Result<NvJitLink, LtoError>>,
    toolkits: &'c [PathBuf],
}

impl Compiler<'_> {
    fn library(&self) -> Result<&NvJitLink, LtoReply> {
        let load = || with_library(None, self.toolkits, NvJitLink::load);
        self.library.get_or_init(load).as_ref().map_err(LtoReply::without_output)
    }

    /// Sends the replies to `request`: two if it wants two outputs, even if there is none.
    fn answer(
        &self,
        request: &CompileRequest,
        send: impl Fn(LtoReply) -> io::Result<()>,
    ) -> io::Result<()> {
        let CompileRequest { want, way, object, inputs } = request;
        let inputs = inputs.iter();
        let inputs: Vec<CompileInput<'_>> =
            inputs.map(|(kind, name, bytes)| CompileInput { kind: *kind, name, bytes }).collect();
        let reply = |made: Result<LtoReply, LtoReply>| made.unwrap_or_else(|failure| failure);
        let make = |want: LtoTarget, way| reply(self.compile(want, way, &inputs));
        match want {
            Wanted::One(want) => send(make(*want, way)),
            Wanted::Check => send(reply(self.check(&way.options, &inputs))),
            Wanted::Names => send(reply(way.names(self.toolkits).map_err(LtoReply::from))),
            Wanted::Both => {
                let make_object = || make(LtoTarget::Object, object);
                // The copy has loaded the library, too.
                let copy = ProcessCopy::start(|| make_object().into_parts());
                send(make(LtoTarget::Ptx, way))?;
                send(copy.as_ref().map_or_else(|_| make_object(), LtoReply::of_copy))
            }
        }
    }

    fn compile(
        &self,
        want: LtoTarget,
        way: &CompileWay,
        inputs: &[CompileInput<'_>],
    ) -> Result<LtoReply, LtoReply> {
        let library = self.library()?;
        let roots = match (&way.roots, want) {
            (Some(roots), _) => Some(roots.lto_ir(&way.options, self.toolkits)?),
            (None, LtoTarget::Object) if library.needs_other_code() => Some(OPEN_ROOTS.into()),
            (None, LtoTarget::Cubin) => {
                Some(made_lto_ir(OPEN_ROOTS_TEXT, &way.options, self.toolkits)?.into())
            }
            (None, _) => None,
        };
        let (options, roots) = (way.options.as_slice(), roots.as_deref());
        let made = library.compile(&CompileTask { options, inputs, want, roots })?;
        Ok(LtoReply::made(library.path(), &made.log, made.bytes))
    }

    /// Has the library take `inputs` one by one.
    fn check(&self, options: &[String], inputs: &[CompileInput<'_>]) -> Result<LtoReply, LtoReply> {
        let library = self.library()?;
        inputs.iter().enumerate().try_for_each(|(place, input)| {
            library.check(options, input).map_err(|mut error| {
                if let LtoError::Refused { input: Some(input), .. } = &mut error {
                    *input = place;
                }
                error
            })
        })?;
        Ok(LtoReply::made(library.path(), "", Vec::new()))
    }
}

impl CompileWay {
    /// The reply with LTO-IR of the roots.
    fn names(&self, toolkits: &[PathBuf]) -> Result<LtoReply, LtoError> {
        let roots = self.roots.as_ref().map(|roots| roots.lto_ir(&self.options, toolkits));
        let bytes = roots.transpose()?.unwrap_or_default().into_owned();
        Ok(LtoReply::made(Path::new("libnvvm"), "", bytes))
    }
}

impl Roots {
    /// LTO-IR of them for the target that `options` begin with.
    fn lto_ir(&self, options: &[String], toolkits: &[PathBuf]) -> Result<Cow<'_, [u8]>, LtoError> {
        match self {
            Roots::Made(bytes) => Ok(bytes.into()),
            Roots::Text(text) => made_lto_ir(text, options, toolkits).map(Cow::from),
        }
    }
}

/// LTO-IR of `text`, NVVM IR, for the target that `options` begin with.
fn made_lto_ir(text: &str, options: &[String], toolkits: &[PathBuf]) -> Result<Vec<u8>, LtoError> {
    let arch = options.first().map_or("", String::as_str);
    // A copy of culd's has no libnvvm beside it.
    let libraries = candidates(None, toolkits);
    let library = libraries.first().ok_or(LtoError::NotFound)?;
    let nvvm = find_nvvm(library, toolkits).ok_or(LtoError::NoNvvm)?;
    lto_ir(&nvvm, text, arch)
}

/// A name or path in one line.
fn shown(name: impl AsRef<OsStr>) -> String {
    culd_text::escaped(&culd_text::name(name)).into_owned()
}

impl CompileRequest {
    /// The request with these words; an error says what is wrong with them.
    fn of(words: Vec<Vec<u8>>) -> Result<Self, String> {
        let text = |word: Vec<u8>| {
            let not_text = |word: &[u8]| format!("'{}' is not UTF-8", culd_text::bytes(word));
            String::from_utf8(word).map_err(|error| not_text(error.as_bytes()))
        };
        let mut words = words.into_iter();
        let mut word = || words.next().ok_or_else(|| USAGE.to_owned());
        let want = match word()?.as_slice() {
            b"ptx" => Wanted::One(LtoTarget::Ptx),
            b"object" => Wanted::One(LtoTarget::Object),
            b"image" => Wanted::One(LtoTarget::Cubin),
            b"both" => Wanted::Both,
            b"check" => Wanted::Check,
            b"names" => Wanted::Names,
            _ => return Err(USAGE.to_owned()),
        };
        let (way, object) = <(CompileWay, CompileWay)>::default();
        let mut request = CompileRequest { want, way, object, inputs: Vec::new() };
        while let Ok(option) = word() {
            match option.as_slice() {
                b"--option" => request.way.options.push(text(word()?)?),
                b"--object-option" => request.object.options.push(text(word()?)?),
                b"--roots" => request.way.roots = Some(Roots::Text(text(word()?)?)),
                b"--made-roots" => request.way.roots = Some(Roots::Made(word()?)),
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
