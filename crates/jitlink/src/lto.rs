//! LTO-IR among the inputs.
//!
//! In: inputs with LTO-IR. Out: what NVIDIA's library makes of them: PTX or a cubin of a program
//! that is nothing else, code for a link with others. Guaranteed: nothing is looked at but the
//! headers of fat binaries.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use culd_driver::NamedCubin;
use culd_fatbin::container::{ImageKind, containers};
use culd_fatbin::host::HostObject;
use culd_fatbin::{Format, archive, sniff};
use culd_lto::{CompileInputKind, CompileOutput, CompileTask, LtoError, LtoTarget, NvJitLink};

use crate::home;
use crate::link::name_in_logs;
use crate::options::{JitOptions, Refusal};
use crate::result::ResultCode;

/// The name of the code made of LTO-IR in messages.
pub(crate) const NAME: &str = "ltoPtx";

/// Options that are ours to follow, or come on their own.
const OURS: &[&str] = &["-arch=", "-dlto", "-lto", "-ptx", "-r", "-time", "-uidx=", "-verbose"];

/// An input for the compiler of LTO-IR.
#[derive(Debug)]
pub(crate) struct LtoInput {
    kind: CompileInputKind,
    name: String,
    bytes: Vec<u8>,
}

impl LtoInput {
    pub(crate) fn borrow(&self) -> culd_lto::CompileInput<'_> {
        culd_lto::CompileInput { kind: self.kind, name: &self.name, bytes: &self.bytes }
    }
}

/// The inputs for the compiler in `bytes`; `None` if there are none.
pub(crate) fn inputs(format: Format, name: &str, bytes: &[u8], sm: u32) -> Option<Vec<LtoInput>> {
    let one = |kind| Some(vec![LtoInput { kind, name: name.to_owned(), bytes: bytes.to_vec() }]);
    match format {
        Format::LtoIr => one(CompileInputKind::LtoIr),
        Format::Fatbin if has_lto(bytes, sm) => one(CompileInputKind::Fatbin),
        Format::HostElf { .. } => {
            let object = HostObject::parse(bytes).ok()??;
            let any = object.fatbins.iter().any(|section| has_lto(section.data, sm));
            if any { one(CompileInputKind::Object) } else { None }
        }
        Format::Archive => members(name, bytes, sm),
        _ => None,
    }
}

/// The members of an archive, if all that have device code have LTO-IR.
fn members(name: &str, bytes: &[u8], sm: u32) -> Option<Vec<LtoInput>> {
    let mut all = Vec::new();
    for member in archive::members(bytes).ok()? {
        let archive::MemberContents::Here { data, .. } = member.ok()?.contents else { return None };
        match sniff(data) {
            format @ Format::HostElf { .. } => {
                let object = HostObject::parse(data).ok()?;
                if object.is_some_and(|object| !object.fatbins.is_empty()) {
                    all.extend(inputs(format, name, data, sm)?);
                }
            }
            _ => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}

/// True when a fat binary has LTO-IR for the architecture with this number.
fn has_lto(bytes: &[u8], sm: u32) -> bool {
    let entries = containers(bytes)
        .map_while(Result::ok)
        .flat_map(|container| container.entries().map_while(Result::ok).collect::<Vec<_>>());
    entries.into_iter().any(|entry| entry.kind() == ImageKind::LtoIr && entry.sm() <= sm)
}

/// Toolkits that may have NVIDIA's libraries.
pub(crate) fn toolkits(options: &JitOptions) -> Vec<PathBuf> {
    let mut toolkits = home::toolkits().to_vec();
    toolkits.extend(culd_driver::toolkit_homes(&options.options));
    toolkits
}

/// NVIDIA's library for the links with `options`.
pub(crate) fn compiler(options: &JitOptions) -> Result<NvJitLink, Refusal> {
    let found = culd_lto::with_library(home::library(), &toolkits(options), NvJitLink::load);
    found.map_err(|error| refusal(error).refusal)
}

/// The result of NVIDIA's library for `inputs` when they are added.
pub(crate) fn check(
    compiler: &NvJitLink,
    options: &JitOptions,
    inputs: &[LtoInput],
) -> Result<(), Refusal> {
    // The library takes a virtual target for PTX only.
    let words = words(options, output_words(options))?;
    inputs.iter().try_for_each(|input| {
        compiler.check(&words, &input.borrow()).map_err(|error| refusal(error).refusal)
    })
}

/// The output for LTO-IR.
#[derive(Debug)]
pub(crate) struct LtoCompilation<T> {
    pub(crate) code: T,
    pub(crate) lto_ir: Option<Vec<u8>>,
    pub(crate) logs: Logs,
}

/// Logs of NVIDIA's library.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub(crate) errors: String,
    pub(crate) infos: String,
}

/// Has a program compiled that is nothing but LTO-IR: a cubin, or PTX, as `options` ask. Nothing is
/// linked here; `others` are linked with it by NVIDIA's library.
pub(crate) fn whole(
    compiler: &NvJitLink,
    options: &JitOptions,
    inputs: &[LtoInput],
    others: &[NamedCubin],
) -> Result<LtoCompilation<Vec<u8>>, CompileFailure> {
    let want = if options.ptx { LtoTarget::Ptx } else { LtoTarget::Cubin };
    let mut words = words(options, output_words(options))?;
    words.extend(options.verbose.then(|| "-verbose".to_owned()));
    words.extend(options.time.then(|| "-time".to_owned()));
    if let Some(path) = &options.index {
        let word = [OsStr::new("-uidx"), path.as_os_str()].join(OsStr::new("="));
        words.push(format!("-uidx={}", text(&word, path.as_os_str())?));
    }
    let others = others.iter().map(|NamedCubin { name, bytes }| culd_lto::CompileInput {
        kind: CompileInputKind::Cubin,
        name,
        bytes,
    });
    let inputs = inputs.iter().map(LtoInput::borrow);
    let inputs: Vec<culd_lto::CompileInput<'_>> = others.chain(inputs).collect();
    let task = CompileTask { options: &words, inputs: &inputs, want, roots: None };
    let CompileOutput { bytes, lto_ir, log, infos } = compiler.compile(&task).map_err(refusal)?;
    let logs = Logs { errors: log, infos: without_times(&infos) };
    Ok(LtoCompilation { code: bytes, lto_ir, logs })
}

/// The words that say what comes out of a program of LTO-IR alone.
fn output_words(options: &JitOptions) -> &'static [&'static str] {
    if options.ptx { &["-ptx"] } else { &[] }
}

/// The words for NVIDIA's library, with some of our own.
pub(crate) fn words(options: &JitOptions, own: &[&str]) -> Result<Vec<String>, Refusal> {
    let kind = if options.is_virtual { "compute_" } else { "sm_" };
    let name = options.arch.name.trim_start_matches("sm_");
    let mut words = vec![format!("-arch={kind}{name}"), "-lto".to_owned()];
    words.extend(own.iter().map(|&word| word.to_owned()));
    let is_arch = |word: &&OsString| word.as_bytes().starts_with(b"-arch=");
    // The compiler refuses a second target.
    let further = options.words.iter().filter(is_arch).skip(1);
    for word in further {
        words.push(text(word, word)?.to_owned());
    }
    for word in &options.words {
        let text = text(word, word)?;
        if !OURS.iter().any(|option| text.starts_with(option)) {
            words.push(text.to_owned());
        }
    }
    Ok(words)
}

/// `part` of `word` for NVIDIA's library, which takes UTF-8 only.
fn text<'w>(word: &OsStr, part: &'w OsStr) -> Result<&'w str, Refusal> {
    part.to_str().ok_or_else(|| {
        let text = format!("unrecognized option: {}\n", name_in_logs(word));
        (ResultCode::UnrecognizedOption, text)
    })
}

/// An info log without the times from call to call, which are not those of the caller.
fn without_times(infos: &str) -> String {
    const TIMES: [&str; 2] =
        ["nvJitLink time until Complete:", "nvJitLinkComplete time to finish:"];
    lines(infos, |line| !TIMES.iter().any(|time| line.starts_with(time)))
}

/// The lines of `text` that are `wanted`.
pub(crate) fn lines(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| wanted(line)).collect()
}

/// The reason why there is no output.
#[derive(Debug)]
pub(crate) struct CompileFailure {
    pub(crate) refusal: Refusal,
    pub(crate) infos: String,
    pub(crate) lto_ir: Option<Vec<u8>>,
}

impl From<Refusal> for CompileFailure {
    fn from(refusal: Refusal) -> Self {
        CompileFailure { refusal, infos: String::new(), lto_ir: None }
    }
}

/// The reason in `error`, as a log has it.
pub(crate) fn refusal(error: LtoError) -> CompileFailure {
    let said = format!("error   : LTO-IR cannot be compiled: {error}\n");
    match error {
        LtoError::Refused { code, log, infos, lto_ir, .. } => {
            let code = ResultCode::of(code).filter(|code| *code != ResultCode::Success);
            let line = |line: &str| match line.strip_suffix('\n') {
                Some(line) => format!("{}\n", culd_text::escaped(line)),
                None => culd_text::escaped(line).into_owned(),
            };
            let escaped = |log: &str| log.split_inclusive('\n').map(line).collect::<String>();
            let text = if log.is_empty() { said } else { escaped(&log) };
            let infos = escaped(&without_times(&infos));
            let refusal = (code.unwrap_or(ResultCode::NvvmCompile), text);
            CompileFailure { refusal, infos, lto_ir }
        }
        _ => (ResultCode::NvvmCompile, said).into(),
    }
}
