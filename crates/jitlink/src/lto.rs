//! LTO-IR among the inputs.
//!
//! In: inputs with LTO-IR. Out: what NVIDIA's library makes of them: PTX or a cubin of a program
//! that is nothing else, code for a link with others. Guaranteed: nothing is looked at but the
//! headers of fat binaries.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use culd_driver::{LtoObject, NamedCubin, OptionId};
use culd_fatbin::container::{ImageKind, containers};
use culd_fatbin::host::HostObject;
use culd_fatbin::{Format, archive, sniff};
use culd_lto::{
    CompileInputKind, CompileOutput, CompileTask, LtoError, LtoTarget, NvJitLink, OPEN_ROOTS,
};

use crate::home;
use crate::link::name_in_logs;
use crate::options::{JitOptions, Refusal};
use crate::result::ResultCode;

/// The name of the code made of LTO-IR in messages.
pub(crate) const NAME: &str = "ltoPtx";

/// Options that are ours to follow, or come on their own.
const OURS: &[&str] = &["-arch=", "-dlto", "-lto", "-ptx", "-r", "-time", "-uidx=", "-verbose"];

/// Options about used names, which the link follows.
const SELECTING: &[&str] = &["-kernels-used=", "-variables-used="];
/// The option with which variables are dropped that LTO-IR does not use.
const DROPS_VARIABLES: &str = "-optimize-unused-variables";

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

/// What is kept of LTO-IR that is linked with other code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As NVIDIA's library has it: what LTO-IR uses itself that names no function of other code, a
    /// program of its own; else all that other code can see.
    Used,
    /// All that other code can see, where NVIDIA's library fails.
    Visible,
}

/// The output of NVIDIA's library for LTO-IR in a link with other code.
#[derive(Debug)]
pub(crate) struct LtoPart {
    pub(crate) code: LtoCode,
    /// It has only what the LTO-IR uses itself, so other code may lack something.
    pub(crate) may_lack: bool,
}

/// Code of LTO-IR.
#[derive(Debug)]
pub(crate) enum LtoCode {
    /// PTX with all that is kept.
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
    kept: Kept,
) -> Result<LtoCompilation<LtoPart>, CompileFailure> {
    let inputs: Vec<culd_lto::CompileInput<'_>> = inputs.iter().map(LtoInput::borrow).collect();
    let nvvm = culd_lto::find_nvvm(compiler.path(), &toolkits(options));
    let part = PartialLink { compiler, options, inputs, others, kept, nvvm };
    let CompileOutput { bytes, lto_ir, log, infos } = part.object()?;
    let object = LtoObject::of(&bytes);
    // The library repeats lines of ptxas.
    let infos = lines(&infos, is_about_lto_ir);
    let is_program = kept == Kept::Used && object.is_program();
    // The text in an object has no comments.
    let text = object.text().filter(|_| !options.options.keeps_ptx());
    // That of a program has all that other code can see, but before 13.3.
    let relocatable = options.options.flag(OptionId::Relocatable);
    let compiled_again =
        is_program && !relocatable && (text.is_none() || !compiler.needs_other_code());
    let code = match (text, &part.nvvm) {
        _ if compiled_again => LtoCode::Ptx(part.run(&["-ptx"], LtoTarget::Ptx, None)?.bytes),
        (Some(text), _) => LtoCode::Ptx(text.to_vec()),
        (None, Some(nvvm)) => LtoCode::Ptx(part.text_by_names(nvvm, &object)?),
        (None, None) => LtoCode::Object(bytes),
    };
    let drops = options.words.iter().any(|word| word == DROPS_VARIABLES);
    let code = LtoPart { code, may_lack: kept == Kept::Used && (is_program || drops) };
    Ok(LtoCompilation { code, lto_ir, logs: Logs { errors: log, infos } })
}

/// LTO-IR in a link with other code.
struct PartialLink<'l> {
    compiler: &'l NvJitLink,
    options: &'l JitOptions,
    inputs: Vec<culd_lto::CompileInput<'l>>,
    others: &'l [NamedCubin],
    kept: Kept,
    /// NVIDIA's libnvvm.
    nvvm: Option<PathBuf>,
}

impl PartialLink<'_> {
    /// What the library makes with the options `own` beside those of the link, and with a module of
    /// names.
    fn run(
        &self,
        own: &[&str],
        want: LtoTarget,
        roots: Option<&[u8]>,
    ) -> Result<CompileOutput, CompileFailure> {
        let mut words = words(self.options, own)?;
        words.retain(|word| !SELECTING.iter().any(|option| word.starts_with(option)));
        words.retain(|word| self.kept == Kept::Used || word != DROPS_VARIABLES);
        words.iter_mut().for_each(|word| *word = in_one_text(word));
        if want == LtoTarget::Object && self.nvvm.is_some() {
            culd_driver::without_use_of_code(&mut words);
        }
        let task = CompileTask { options: &words, inputs: &self.inputs, want, roots };
        self.compiler.compile(&task).map_err(refusal)
    }

    /// LTO-IR of a module of names.
    fn roots(&self, nvvm: &Path, text: &str) -> Result<Vec<u8>, CompileFailure> {
        let words = words(self.options, &[])?;
        let arch = words.first().map_or("", String::as_str);
        culd_lto::lto_ir(nvvm, text, arch).map_err(refusal)
    }

    /// An object of all LTO-IR.
    fn object(&self) -> Result<CompileOutput, CompileFailure> {
        // With `-g` ptxas keeps the text by itself.
        let keeps = self.options.options.flag(OptionId::Debug);
        let mut own = vec!["-r"];
        own.extend((!keeps).then_some(culd_driver::LTO_TEXT_OPTION));
        // Before 13.3 the object of a program has what it uses itself, and nothing else.
        let drops = self.kept == Kept::Visible && self.compiler.needs_other_code();
        self.run(&own, LtoTarget::Object, drops.then_some(OPEN_ROOTS))
    }

    /// PTX in which the names stay that `object` tells.
    fn text_by_names(&self, nvvm: &Path, object: &LtoObject) -> Result<Vec<u8>, CompileFailure> {
        let roots = object.roots(self.others);
        let roots = roots.map(|text| self.roots(nvvm, &text)).transpose()?;
        let made = self.run(&["-ptx"], LtoTarget::Ptx, roots.as_deref())?;
        Ok(object.like_text(made.bytes))
    }
}

/// The words that say what comes out of a program of LTO-IR alone.
fn output_words(options: &JitOptions) -> &'static [&'static str] {
    if options.ptx { &["-ptx"] } else { &[] }
}

/// The words for NVIDIA's library, with some of our own.
fn words(options: &JitOptions, own: &[&str]) -> Result<Vec<String>, Refusal> {
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

/// `word`, but for the option that makes several texts of a program and links their code: only one
/// of them could be had (docs/JITLINK.md, LTO, *extended*).
fn in_one_text(word: &str) -> String {
    match word.strip_prefix("-split-compile-extended=") {
        Some(threads) => format!("-split-compile={threads}"),
        None => word.to_owned(),
    }
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

/// True for a line about the LTO-IR as a whole: `INFO: NVVM70 LTOIR Container created (8908 bytes)`
/// of 13.5, `SUCCESS: ...` of 13.4.
fn is_about_lto_ir(line: &str) -> bool {
    ["INFO: ", "SUCCESS: "].iter().any(|begin| line.starts_with(begin))
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
    pub(crate) lto_ir: Option<Vec<u8>>,
}

impl From<Refusal> for CompileFailure {
    fn from(refusal: Refusal) -> Self {
        CompileFailure { refusal, infos: String::new(), lto_ir: None }
    }
}

fn refusal(error: LtoError) -> CompileFailure {
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
