//! A link behind a handle.
//!
//! In: options, inputs one by one, and that there will be no more. Out: codes, logs, the image.
//! Guaranteed: the codes and the texts of the logs are those of libnvJitLink 13.0.88 where
//! docs/JITLINK.md says nothing else.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use culd_cubin::arch::Flavour;
use culd_driver::{
    Cause, Content, Ignored, InputError, InputItem, InputKind, Line, LineKind, LinkRequest,
    NOTE as NOTE_BEGIN, NamedCubin, PtxasAhead, RunOutcome, Target,
};
use culd_fatbin::{Format, sniff};
use culd_link::{IndexFile, Input, LinkDiagnostic, Message, Session, Severity};
use culd_lto::NvJitLink;

use crate::home;
use crate::interface::INTERFACE;
use crate::lto::{self, Kept, LtoCode, LtoPart};
use crate::options::{self, JitOptions, Refusal};
use crate::result::{InputType, ResultCode};

/// The name of NVIDIA's library in the tool note; ours has the same length in bytes.
const OBJECT_NAME: &str = "in-memory-ELF-image";
const NOTE: &str = "through the functions of libnvJitLink";
/// Bytes of an ELF header.
const ELF_HEADER: usize = 64;
/// The name of an input without a name in messages.
const NO_NAME: &str = "(null)";

/// A link in the making.
pub struct JitLink {
    options: Result<JitOptions, ResultCode>,
    cubins: Vec<NamedCubin>,
    /// NVIDIA's library, once there is an input for it.
    compiler: Option<Result<NvJitLink, Refusal>>,
    /// Inputs for the compiler of LTO-IR.
    lto: Vec<lto::LtoInput>,
    /// The LTO-IR that NVIDIA's library made of all inputs.
    lto_ir: Option<Vec<u8>>,
    index: Option<IndexFile>,
    errors: String,
    infos: String,
    begin: Instant,
    state: LinkState,
}

enum LinkState {
    /// Inputs may come.
    Open,
    /// It failed.
    Failed,
    Linked(Vec<u8>),
    /// PTX was asked for.
    Compiled(Vec<u8>),
}

impl JitLink {
    /// A link with the options `words`; [`JitLink::created`] says whether they are valid.
    pub fn new(words: &[OsString]) -> Self {
        let (mut index, mut message) = (None, String::new());
        let parsed = options::parse(words).and_then(|options| {
            if let Some(path) = &options.index {
                (index, message) = index_file(path)?;
            }
            Ok(options)
        });
        let (options, errors) = match parsed {
            Ok(options) => (Ok(options), message),
            // One line, with a word of the caller's in it.
            Err((code, text)) => {
                let line = text.strip_suffix('\n');
                let line = line.map(|line| format!("{}\n", culd_text::escaped(line)));
                (Err(code), line.unwrap_or(text))
            }
        };
        JitLink {
            options,
            cubins: Vec::new(),
            compiler: None,
            lto: Vec::new(),
            lto_ir: None,
            index,
            errors,
            infos: String::new(),
            begin: Instant::now(),
            state: LinkState::Open,
        }
    }

    /// The result of `nvJitLinkCreate`.
    pub fn created(&self) -> ResultCode {
        match &self.options {
            Ok(_) => ResultCode::Success,
            Err(code) => *code,
        }
    }

    /// The error log.
    pub fn error_log(&self) -> &str {
        &self.errors
    }

    /// The info log.
    pub fn info_log(&self) -> &str {
        &self.infos
    }

    /// The linked cubin.
    ///
    /// # Errors
    /// There is none yet.
    pub fn cubin(&self) -> Result<&[u8], ResultCode> {
        match &self.state {
            LinkState::Linked(image) => Ok(image),
            LinkState::Open | LinkState::Failed | LinkState::Compiled(_) => {
                Err(ResultCode::Internal)
            }
        }
    }

    /// Linked PTX.
    ///
    /// # Errors
    /// There is none.
    pub fn ptx(&self) -> Result<&[u8], ResultCode> {
        match (&self.state, &self.options) {
            (LinkState::Compiled(ptx), _) => Ok(ptx),
            (_, Ok(options)) if options.ptx => Err(ResultCode::Internal),
            _ => Err(ResultCode::InvalidInput),
        }
    }

    /// Linked LTO-IR, if the release of NVIDIA's library makes it.
    ///
    /// # Errors
    /// There is none.
    pub fn lto_ir(&self) -> Result<&[u8], ResultCode> {
        match (&self.lto_ir, &self.options) {
            (Some(bytes), _) => Ok(bytes),
            (None, Ok(options)) if options.lto => Err(ResultCode::Internal),
            _ => Err(ResultCode::InvalidInput),
        }
    }

    /// Adds the file at `path`.
    pub fn add_file(&mut self, kind: i32, path: &Path) -> ResultCode {
        match culd_driver::read_file(path) {
            Ok(bytes) => self.add_data(kind, Some(path.as_os_str()), &bytes),
            // NVIDIA's library says so of whatever it cannot read.
            Err(error) => {
                let plain = [ErrorKind::NotFound, ErrorKind::IsADirectory].contains(&error.kind());
                let why = if plain { String::new() } else { format!("{NOTE_BEGIN}{error}\n") };
                let path = name_in_logs(path.as_os_str());
                self.refuse((ResultCode::InvalidInput, format!("no such file: {path}\n{why}")))
            }
        }
    }

    /// Adds an input in memory.
    pub fn add_data(&mut self, kind: i32, name: Option<&OsStr>, bytes: &[u8]) -> ResultCode {
        match self.add(kind, name.map(name_in_logs).as_deref(), bytes) {
            Ok(()) => ResultCode::Success,
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, (code, text): Refusal) -> ResultCode {
        self.errors.push_str(&text);
        code
    }

    fn add(&mut self, kind: i32, name: Option<&str>, bytes: &[u8]) -> Result<(), Refusal> {
        // Some messages have the name of an input, or nothing if it has none.
        let (plain, shown) = (name.unwrap_or_default(), name.unwrap_or(NO_NAME));
        let Some(kind) = InputType::of(kind) else {
            let text = format!("unsupported input type: {shown}\n");
            return Err((ResultCode::IncorrectInputType, text));
        };
        if kind == InputType::Index && self.index(bytes) {
            return Ok(());
        }
        let format = format(bytes);
        if !kind.takes(format) {
            return Err(match kind {
                InputType::Any => {
                    (ResultCode::UnrecognizedInput, format!("unrecognized input type: {shown}\n"))
                }
                _ => {
                    let kind = kind.name();
                    let text = format!(
                        "ERROR 1: bad input: does not match type NVJITLINK_INPUT_{kind}{plain}\n"
                    );
                    (ResultCode::IncorrectInputType, text)
                }
            });
        }
        if let Some(inputs) = self.lto_in(format, shown, bytes)? {
            return self.add_lto(inputs);
        }
        let cubins = self.unpack((kind, format), name, bytes, None)?;
        if !matches!((&self.state, &self.options), (LinkState::Open, Ok(_))) {
            let text = format!("ERROR 1: empty elfw when adding cubin{plain}\n");
            return Err((ResultCode::Internal, text));
        }
        for cubin in &cubins {
            self.check(cubin, plain)?;
        }
        self.cubins.extend(cubins);
        Ok(())
    }

    /// Adds inputs for the compiler of LTO-IR. One that is not there is missed when the link is
    /// made.
    fn add_lto(&mut self, inputs: Vec<lto::LtoInput>) -> Result<(), Refusal> {
        let Ok(options) = &self.options else { return Ok(()) };
        let compiler = self.compiler.get_or_insert_with(|| lto::compiler(options));
        if let Ok(compiler) = compiler {
            lto::check(compiler, options, &inputs)?;
        }
        self.lto.extend(inputs);
        Ok(())
    }

    /// Takes an index file of unified functions and variables, if `bytes` are one.
    fn index(&mut self, bytes: &[u8]) -> bool {
        match IndexFile::parse(bytes.to_vec()) {
            Ok(index) => {
                self.index = Some(index);
                true
            }
            Err(_) => false,
        }
    }

    /// The cubins in an input. PTX is compiled by `ahead`, if that was started for it.
    fn unpack(
        &mut self,
        (kind, format): (InputType, Format),
        name: Option<&str>,
        bytes: &[u8],
        ahead: Option<PtxasAhead>,
    ) -> Result<Vec<NamedCubin>, Refusal> {
        let shown = name.unwrap_or(NO_NAME);
        let Ok(options) = &mut self.options else { return Ok(Vec::new()) };
        match format {
            // NVIDIA's library does not take a cubin as an object, and ignores a linked one.
            Format::RelocatableCubin if kind == InputType::Object => return Ok(Vec::new()),
            Format::ExecutableCubin => return Ok(Vec::new()),
            Format::RelocatableCubin => {
                return Ok(vec![NamedCubin { name: shown.to_owned(), bytes: bytes.to_vec() }]);
            }
            _ => {}
        }
        // The input may have PTX in it.
        set_compiler(options);
        let item = InputItem {
            name: shown.to_owned(),
            kind: InputKind::Any,
            content: Content::Bytes(bytes.into()),
        };
        let session = Session::serial();
        let request = LinkRequest {
            options: &options.options,
            target: Target::Real(options.arch),
            items: &[item],
            index: None,
            session: &session,
            account: false,
        };
        let (mut cubins, outcome) = culd_driver::unpack(request, ahead);
        // Members have the name of their archive.
        cubins.iter_mut().for_each(|cubin| shown.clone_into(&mut cubin.name));
        let said = self.add_lines(outcome, name);
        // Of an archive, the members in front of the first without code for the target are linked.
        if said.is_err() && format == Format::Archive && matches!(self.state, LinkState::Open) {
            self.cubins.append(&mut cubins);
        }
        said.map(|()| cubins)
    }

    /// The parts of an input that are LTO-IR, if it is to be taken for that.
    fn lto_in(
        &self,
        format: Format,
        name: &str,
        bytes: &[u8],
    ) -> Result<Option<Vec<lto::LtoInput>>, Refusal> {
        let Ok(options) = &self.options else { return Ok(None) };
        match format {
            Format::LtoIr if !options.lto => Err(no_lto()),
            _ if options.lto => Ok(lto::inputs(format, name, bytes, options.arch.sm)),
            _ => Ok(None),
        }
    }

    /// Adds the driver's lines about an input.
    fn add_lines(&mut self, outcome: RunOutcome, name: Option<&str>) -> Result<(), Refusal> {
        let failed = outcome.status != 0;
        let tool_failed = failed && outcome.lines.iter().any(|line| line.kind == LineKind::Tool);
        let mut refusal = None;
        for line in outcome.lines {
            let text = shown(&line);
            match line.cause {
                _ if line.kind == LineKind::Tool => {
                    let log = if failed { &mut self.errors } else { &mut self.infos };
                    log.push_str(&text);
                }
                // The compiler has said why.
                Some(Cause::Input(InputError::Fatbinary)) if tool_failed => {
                    refusal = Some((ResultCode::PtxCompile, compile_failed(name)));
                }
                Some(Cause::Input(InputError::Compiler { .. })) => {
                    refusal = Some((ResultCode::PtxCompile, text + &compile_failed(name)));
                }
                Some(Cause::Input(InputError::LtoFound)) => {
                    refusal = Some(no_lto());
                }
                Some(
                    Cause::Input(InputError::ArchNotFound { .. })
                    | Cause::Ignored(Ignored::Members { .. }),
                ) => {
                    refusal.get_or_insert_with(|| no_code(name));
                }
                _ if line.severity() >= Some(Severity::Error) => {
                    let (_, before) =
                        refusal.take().unwrap_or((ResultCode::InvalidInput, String::new()));
                    refusal = Some((ResultCode::InvalidInput, before + &text));
                }
                _ => self.infos.push_str(&text),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Looks whether a cubin can be linked for the target.
    fn check(&self, cubin: &NamedCubin, input_name: &str) -> Result<(), Refusal> {
        let Ok(options) = &self.options else { return Ok(()) };
        // A small link takes as long as its inputs are looked at: one for the very target is not
        // looked at twice. Its tables are, so that a damaged file is refused when it is added.
        let parsed = culd_cubin::Cubin::parse(&cubin.bytes);
        if parsed.is_ok_and(|parsed| parsed.header.sm() == options.arch.sm) {
            return Ok(());
        }
        let input = Input { name: &cubin.name, bytes: &cubin.bytes, system: false };
        let dialect = options.dialect([&*cubin.bytes]);
        let link_options = culd_driver::link_options(&options.options, options.arch, dialect);
        let found = culd_link::check(&Session::serial(), &[input], &link_options);
        let worst = found.diagnostics.into_iter().filter(|line| line.severity >= Severity::Error);
        let mut text = String::new();
        let mut any = false;
        for line in worst {
            any = true;
            if !matches!(line.message, Message::ArchMismatch { .. }) {
                text.push_str(&shown(&culd_driver::line(line)));
            } else if options.arch.flavour == Flavour::Mercury && is_classic(&cubin.bytes) {
                let problem = "Mercury or Capmerc target was requested, but SASS input";
                let text = format!("{problem} {} was found.\n", cubin.name);
                return Err((ResultCode::InvalidInput, text));
            }
        }
        let _ = writeln!(text, "ERROR 4: bad input:{input_name}");
        if any { Err((ResultCode::InvalidInput, text)) } else { Ok(()) }
    }

    /// Links.
    pub fn complete(&mut self) -> ResultCode {
        let began = Instant::now();
        match (&self.state, &self.options) {
            (_, Err(_)) => {
                let text = "ERROR 1: empty elfw in nvJitLinkComplete\n";
                return self.refuse((ResultCode::Internal, text.to_owned()));
            }
            (LinkState::Failed | LinkState::Linked(_) | LinkState::Compiled(_), _) => {
                return ResultCode::Internal;
            }
            (LinkState::Open, Ok(_)) => {}
        }
        self.state = LinkState::Failed;
        let time = self.options.as_ref().is_ok_and(|options| options.time);
        if time {
            let before = began.duration_since(self.begin).as_secs_f64() * 1e3;
            let _ = writeln!(self.infos, "nvJitLink time until Complete: {before:.6}");
        }
        let result = self.link();
        if time && result.is_ok() {
            let own = began.elapsed().as_secs_f64() * 1e3;
            let _ = writeln!(self.infos, "nvJitLinkComplete time to finish: {own:.6}");
        }
        result.map_or_else(|refusal| self.refuse(refusal), |()| ResultCode::Success)
    }

    fn link(&mut self) -> Result<(), Refusal> {
        match &self.options {
            Ok(options) if options.lto => self.link_lto(),
            _ => self.link_cubins(Vec::new()).map_err(|failure| failure.refusal),
        }
    }

    fn link_lto(&mut self) -> Result<(), Refusal> {
        let Ok(options) = &self.options else { return Ok(()) };
        let compiler = self.compiler.get_or_insert_with(|| lto::compiler(options));
        let compiler = compiler.as_ref().map_err(Refusal::clone)?;
        if options.ptx && !self.cubins.is_empty() {
            let text = "ERROR: -ptx requires that all inputs have LTOIR\n";
            return Err((ResultCode::IncorrectInputType, text.to_owned()));
        }
        let relocatable = options.options.flag(culd_driver::OptionId::Relocatable);
        let alone = self.cubins.is_empty() && (options.ptx || !relocatable);
        if alone || self.lto.is_empty() || !INTERFACE.has_objects_of_lto {
            let others = if self.lto.is_empty() { &[][..] } else { &self.cubins };
            let made = lto::whole(compiler, options, &self.lto, others);
            let is_ptx = options.ptx;
            let bytes = self.keep_rest(made)?;
            self.state = if is_ptx { LinkState::Compiled(bytes) } else { LinkState::Linked(bytes) };
            return Ok(());
        }
        let logs = (self.errors.len(), self.infos.len());
        match self.link_part(Kept::Used) {
            // NVIDIA's library fails here.
            Err(LinkFailure { lost: true, .. }) => {
                self.errors.truncate(logs.0);
                self.infos.truncate(logs.1);
                self.link_part(Kept::Visible).map_err(|failure| failure.refusal)
            }
            linked => linked.map_err(|failure| failure.refusal),
        }
    }

    /// Links code of LTO-IR, of which `kept` is kept, with the other inputs.
    fn link_part(&mut self, kept: Kept) -> Result<(), LinkFailure> {
        let (Ok(options), Some(Ok(compiler))) = (&mut self.options, &self.compiler) else {
            return Ok(());
        };
        // It loads while there is no PTX yet.
        set_compiler(options);
        let ahead = PtxasAhead::for_ptx(&options.options, options.arch);
        let made = lto::partial(compiler, options, &self.lto, &self.cubins, kept);
        let LtoPart { code, may_lack } = self.keep_rest(made)?;
        let name = lto::NAME;
        let cubins = match code {
            LtoCode::Object(bytes) => vec![NamedCubin { name: name.to_owned(), bytes }],
            LtoCode::Ptx(ptx) => {
                self.unpack((InputType::Ptx, Format::Ptx), Some(name), &ptx, ahead)?
            }
        };
        let linked = self.link_cubins(cubins);
        linked.map_err(|failure| LinkFailure { lost: failure.lost && may_lack, ..failure })
    }

    /// Keeps what was said and the LTO-IR; the code.
    fn keep_rest<T>(
        &mut self,
        made: Result<lto::LtoCompilation<T>, lto::CompileFailure>,
    ) -> Result<T, Refusal> {
        let lto::LtoCompilation { code, lto_ir, logs } = made.map_err(|failure| {
            self.infos.push_str(&failure.infos);
            failure.refusal
        })?;
        self.errors.push_str(&logs.errors);
        self.infos.push_str(&logs.infos);
        self.lto_ir = lto_ir;
        Ok(code)
    }

    /// Links the inputs and `more`, which come last.
    fn link_cubins(&mut self, more: Vec<NamedCubin>) -> Result<(), LinkFailure> {
        let Ok(options) = &self.options else { return Ok(()) };
        let cubins = || self.cubins.iter().chain(&more);
        let dialect = options.dialect(cubins().map(|cubin| &*cubin.bytes));
        let mut link_options = culd_driver::link_options(&options.options, options.arch, dialect);
        link_options.index.clone_from(&self.index);
        OBJECT_NAME.clone_into(&mut link_options.tool.object);
        NOTE.clone_into(&mut link_options.tool.options);
        link_options.report_resources = options.verbose;
        let inputs: Vec<Input<'_>> = cubins()
            .map(|cubin| Input { name: &cubin.name, bytes: &cubin.bytes, system: false })
            .collect();
        let outcome = culd_link::link(&Session::with_threads(0), &inputs, &link_options);
        let failed = outcome.image.is_none();
        let ended = match options.lto || !dialect.jit_ends_complete {
            true => "finish",
            false => "complete",
        };
        let failure = failed.then(|| failure(&outcome.diagnostics, ended));
        let undefined = |line: &LinkDiagnostic| matches!(line.message, Message::Undefined { .. });
        let lost = failed && outcome.diagnostics.iter().any(undefined);
        let mut errors = String::new();
        for diagnostic in outcome.diagnostics {
            if !is_logged(&diagnostic.message) {
                continue;
            }
            let is_error = diagnostic.severity >= Severity::Error;
            let log = if is_error { &mut errors } else { &mut self.infos };
            log.push_str(&shown(&culd_driver::line(diagnostic)));
        }
        for text in outcome.report.iter().flat_map(culd_link::ResourceReport::lines) {
            self.infos.push_str(&shown(&Line::new(Severity::Info, text)));
        }
        match (outcome.image, failure) {
            (Some(image), _) => {
                self.state = LinkState::Linked(image);
                Ok(())
            }
            (None, failure) => {
                let (code, text) = failure.unwrap_or((ResultCode::Internal, String::new()));
                Err(LinkFailure { refusal: (code, errors + &text), lost })
            }
        }
    }
}

/// The reason why there is no image.
struct LinkFailure {
    refusal: Refusal,
    /// A name is not defined.
    lost: bool,
}

impl From<Refusal> for LinkFailure {
    fn from(refusal: Refusal) -> Self {
        LinkFailure { refusal, lost: false }
    }
}

/// The name of an input, or another word of the caller's, as logs have it.
pub(crate) fn name_in_logs(name: &OsStr) -> String {
    culd_text::escaped(&culd_text::name(name)).into_owned()
}

/// The index file at `path`, and a log line for a file that is not one.
fn index_file(path: &Path) -> Result<(Option<IndexFile>, String), Refusal> {
    let refused = |text: String| Err((ResultCode::InvalidInput, text));
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    // Only regular files are read, so that a pipe is not waited for.
    let read = if is_file { culd_driver::read_file(path) } else { Ok(Vec::new()) };
    let path = name_in_logs(path.as_os_str());
    match read {
        Ok(bytes) if is_file && !bytes.is_empty() => Ok(match IndexFile::parse(bytes) {
            Ok(index) => (Some(index), String::new()),
            Err(_) => {
                let kind = InputType::Index.name();
                let text = format!(
                    "ERROR 1: bad input: does not match type NVJITLINK_INPUT_{kind}{path}\n"
                );
                (None, text)
            }
        }),
        _ if is_file => refused(format!("ERROR: Could not read file '{path}'\n")),
        _ => refused(format!("ERROR: File '{path}' does not exist\n")),
    }
}

/// True for a cubin without Mercury.
fn is_classic(cubin: &[u8]) -> bool {
    let cubin = culd_cubin::Cubin::parse(cubin);
    cubin.is_ok_and(|cubin| Flavour::of_sm(cubin.header.sm()) == Flavour::Classic)
}

/// The format of `bytes`; a truncated ELF header has none.
fn format(bytes: &[u8]) -> Format {
    match sniff(bytes) {
        Format::HostElf { .. } if bytes.len() < ELF_HEADER => Format::Unknown,
        format => format,
    }
}

/// A line as it is in a log.
fn shown(line: &Line) -> String {
    let text = line.show("");
    match line.kind {
        // ptxas begins a line that goes on with blanks; here it has ptxas's name, too.
        LineKind::Tool => text.replace("\n    ", "\nptxas         .     ") + "\n",
        _ => format!("{}\n", text.trim_start()),
    }
}

/// Looks for the compiler of PTX, once it may be needed.
fn set_compiler(options: &mut JitOptions) {
    if options.has_compiler {
        return;
    }
    options.has_compiler = true;
    if let Some(path) = home::ptxas() {
        options.options.set(culd_driver::OptionId::PtxasPath, [path]);
    }
}

/// The refusal of LTO-IR without `-lto`.
fn no_lto() -> Refusal {
    let text = "ERROR 1: LTO-IR input cannot be used without LTO enabled (-lto)\n";
    (ResultCode::LtoNotEnabled, text.to_owned())
}

/// The refusal of an input without code for the target.
fn no_code(name: Option<&str>) -> Refusal {
    (ResultCode::InvalidInput, format!("ERROR 3: bad input: {}\n", name.unwrap_or_default()))
}

fn compile_failed(name: Option<&str>) -> String {
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    format!("ERROR NVJITLINK_ERROR_PTX_COMPILE: JIT the PTX{name}\n")
}

/// False for messages of the command only.
fn is_logged(message: &Message) -> bool {
    !matches!(
        message,
        Message::MergeFailed | Message::ForOneArch { .. } | Message::MissingIsaClass { .. }
    )
}

/// The result of a link that failed: a bad input, one that conflicts with earlier ones, or an error
/// of the program as a whole, which the step `ended` has reported.
fn failure(diagnostics: &[LinkDiagnostic], ended: &str) -> Refusal {
    let mut errors = diagnostics.iter().rev().filter(|line| line.severity >= Severity::Error);
    match errors.find_map(|line| bad_file(&line.message)) {
        Some(file) => {
            let file = if file == NO_NAME { "" } else { file };
            (ResultCode::InvalidInput, format!("ERROR 4: bad input:{file}\n"))
        }
        None => (ResultCode::Internal, format!("ERROR 9: {ended}\n")),
    }
}

/// The input that is bad, or does not go with those before.
fn bad_file(message: &Message) -> Option<&str> {
    match message {
        Message::Malformed { file, .. }
        | Message::Unsupported { file, .. }
        | Message::SpaceMismatch { file, .. }
        | Message::ManagedMismatch { file, .. }
        | Message::SizeMismatch { file, .. }
        | Message::MultipleDefinition { file, .. }
        | Message::CommonTooLarge { file, .. }
        | Message::PrototypeMismatch { file, .. }
        | Message::BadUnified { file, .. } => Some(file),
        _ => None,
    }
}
