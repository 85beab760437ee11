//! LTO-IR among the inputs.
//!
//! In: inputs with LTO-IR. Out: what NVIDIA's library makes of them: PTX or a cubin of a program
//! that is nothing else, code for a link with others. Guaranteed: nothing is looked at but the
//! headers of fat binaries.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use culd_driver::{NamedCubin, OptionId};
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

/// Options about used names.
const SELECTING: &[&str] = &["-kernels-used=", "-variables-used=", "-optimize-unused-variables"];

/// An input for the compiler of LTO-IR.
#[derive(Debug)]
pub(crate) struct LtoInput {
    kind: CompileInputKind,
    name: String,
    bytes: Vec<u8>,
}

impl LtoInput {
    fn borrow(&self) -> culd_lto::CompileInput<'_> {
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
fn toolkits(options: &JitOptions) -> Vec<PathBuf> {
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
    let words = words(options, &[])?;
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
    let own: Vec<&str> = if options.ptx { vec!["-ptx"] } else { Vec::new() };
    let mut words = words(options, &own)?;
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

/// The output of NVIDIA's library for LTO-IR in a link with other code.
#[derive(Debug)]
pub(crate) enum LtoResult {
    /// PTX of which everything is kept that other code can see.
    Ptx(Vec<u8>),
    /// An object, if there is no libnvvm. It has been linked once.
    Object(Vec<u8>),
}

/// Has LTO-IR compiled that is linked with `others`.
pub(crate) fn partial(
    compiler: &NvJitLink,
    options: &JitOptions,
    inputs: &[LtoInput],
    others: &[NamedCubin],
) -> Result<LtoCompilation<LtoResult>, CompileFailure> {
    let begin = Instant::now();
    let inputs: Vec<culd_lto::CompileInput<'_>> = inputs.iter().map(LtoInput::borrow).collect();
    let run = |own: &[&str], want, roots: Option<&[u8]>| {
        // The link selects.
        let mut words = words(options, own)?;
        words.retain(|word| !SELECTING.iter().any(|option| word.starts_with(option)));
        compiler
            .compile(&CompileTask { options: &words, inputs: &inputs, want, roots })
            .map_err(refusal)
    };
    // The text in an object has no comments.
    let with_comments = options.options.keeps_ptx();
    // With this option ptxas keeps the text by itself.
    let keeps = options.options.flag(OptionId::Debug);
    let with_text = ["-r", culd_driver::LTO_TEXT_OPTION];
    let own = if keeps { &with_text[..1] } else { &with_text };
    let CompileOutput { bytes: object, lto_ir, log, infos } = run(own, LtoTarget::Object, None)?;
    // The library repeats lines of ptxas.
    let mut infos = lines(&infos, |line| line.starts_with("INFO: "));
    let nvvm = culd_lto::find_nvvm(compiler.path(), &toolkits(options));
    let of_names = |nvvm: &Path| match culd_driver::lto_roots(&object, others) {
        None => run(&["-ptx"], LtoTarget::Ptx, None),
        Some(text) => {
            let arch = words(options, &[])?;
            let arch = arch.first().map_or("", String::as_str);
            let roots = culd_lto::lto_ir(nvvm, &text, arch).map_err(refusal)?;
            run(&["-ptx"], LtoTarget::Ptx, Some(roots.as_slice()))
        }
    };
    let text = if with_comments { None } else { culd_driver::lto_text(&object) };
    let code = match (text, nvvm) {
        (Some(text), _) => LtoResult::Ptx(text),
        (None, Some(nvvm)) => {
            let ptx = of_names(&nvvm)?.bytes;
            LtoResult::Ptx(culd_driver::lto_text_by_names(&object, ptx))
        }
        (None, None) => LtoResult::Object(object),
    };
    if options.time {
        let time = begin.elapsed().as_secs_f64() * 1e3;
        let _ = writeln!(infos, "nvJitLinkComplete time to create PTX: {time:.6}");
    }
    Ok(LtoCompilation { code, lto_ir, logs: Logs { errors: log, infos } })
}

/// The words for NVIDIA's library, with some of our own.
fn words(options: &JitOptions, own: &[&str]) -> Result<Vec<String>, Refusal> {
    let kind = if options.is_virtual { "compute_" } else { "sm_" };
    let name = options.arch.name.trim_start_matches("sm_");
    let mut words = vec![format!("-arch={kind}{name}"), "-lto".to_owned()];
    words.extend(own.iter().map(|&word| word.to_owned()));
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
fn lines(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| wanted(line)).collect()
}

/// The reason why there is no output.
#[derive(Debug)]
pub(crate) struct CompileFailure {
    pub(crate) refusal: Refusal,
    pub(crate) infos: String,
}

impl From<Refusal> for CompileFailure {
    fn from(refusal: Refusal) -> Self {
        CompileFailure { refusal, infos: String::new() }
    }
}

fn refusal(error: LtoError) -> CompileFailure {
    let said = format!("error   : LTO-IR cannot be compiled: {error}\n");
    match error {
        LtoError::Refused { code, log, infos, .. } => {
            let codes = [
                ResultCode::InvalidInput,
                ResultCode::PtxCompile,
                ResultCode::Internal,
                ResultCode::IncorrectInputType,
                ResultCode::ArchMismatch,
                ResultCode::LtoNotEnabled,
            ];
            let code = codes.into_iter().find(|known| *known as i32 == code);
            let line = |line: &str| match line.strip_suffix('\n') {
                Some(line) => format!("{}\n", culd_text::escaped(line)),
                None => culd_text::escaped(line).into_owned(),
            };
            let escaped = |log: &str| log.split_inclusive('\n').map(line).collect::<String>();
            let text = if log.is_empty() { said } else { escaped(&log) };
            let infos = escaped(&without_times(&infos));
            CompileFailure { refusal: (code.unwrap_or(ResultCode::NvvmCompile), text), infos }
        }
        _ => CompileFailure { refusal: (ResultCode::NvvmCompile, said), infos: String::new() },
    }
}
