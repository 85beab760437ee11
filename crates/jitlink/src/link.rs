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
use crate::lto;
use crate::options::{self, JitOptions, Refusal};
use crate::partial::{Kept, LtoCode, LtoPart, partial};
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
    /// The result of `nvJitLinkCreate`.
    created: ResultCode,
    /// Those that were valid. A link whose index file is missing goes on without it.
    options: Result<JitOptions, ResultCode>,
    cubins: Vec<NamedCubin>,
    /// NVIDIA's library, once there is an input for it.
    compiler: Option<Result<NvJitLink, Refusal>>,
    /// Inputs for the compiler of LTO-IR.
    lto: Vec<lto::LtoInput>,
    /// The LTO-IR that NVIDIA's library made of all inputs.
    lto_ir: Option<Vec<u8>>,
    index: Option<IndexFile>,
    /// There is other code than LTO-IR, though it was refused: a cubin, or PTX.
    has_refused_code: bool,
    /// PTX could not be compiled.
    ptx_failed: bool,
    errors: String,
    infos: String,
    /// The end of the last step whose time is logged.
    step_began: Instant,
    state: LinkState,
}

enum LinkState {
    /// Inputs may come.
    Open,
    /// The link of cubins failed.
    Failed,
    Linked(Vec<u8>),
    /// PTX was asked for. Inputs may come.
    Compiled(Vec<u8>),
}

impl LinkState {
    /// True if cubins may come.
    fn is_open(&self) -> bool {
        matches!(self, LinkState::Open | LinkState::Compiled(_))
    }
}

impl JitLink {
    /// A link with the options `words`; [`JitLink::created`] says whether they are valid.
    pub fn new(words: &[OsString]) -> Self {
        let mut index = None;
        let (options, (created, errors)) = match options::parse(words) {
            Ok(options) => {
                let read = options.index.as_deref().map_or(Ok((None, String::new())), index_file);
                let read = read.map(|(file, message)| {
                    index = file;
                    (ResultCode::Success, message)
                });
                (Ok(options), read.unwrap_or_else(in_one_line))
            }
            Err(refusal) => (Err(refusal.0), in_one_line(refusal)),
        };
        JitLink {
            created,
            options,
            cubins: Vec::new(),
            compiler: None,
            lto: Vec::new(),
            lto_ir: None,
            index,
            has_refused_code: false,
            ptx_failed: false,
            errors,
            infos: String::new(),
            step_began: Instant::now(),
            state: LinkState::Open,
        }
    }

    /// The result of `nvJitLinkCreate`.
    pub fn created(&self) -> ResultCode {
        self.created
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
        if bytes.is_empty() {
            return Err((ResultCode::InvalidInput, format!("bad input: {shown}\n")));
        }
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
        if format == Format::Ptx && self.options.as_ref().is_ok_and(|options| options.is_virtual) {
            return Err(self.ptx_of_virtual(plain, name));
        }
        let cubins = self.unpack((kind, format), name, bytes).inspect_err(|(code, _)| {
            self.ptx_failed |= *code == ResultCode::PtxCompile;
            self.has_refused_code |= self.ptx_failed;
        })?;
        if !self.state.is_open() || self.options.is_err() {
            let text = format!("ERROR 1: empty elfw when adding cubin{plain}\n");
            return Err((ResultCode::Internal, text));
        }
        for cubin in &cubins {
            let checked = self.check(cubin, plain);
            self.log_cubin(&cubin.bytes);
            let is_code = || culd_cubin::Cubin::parse(&cubin.bytes).is_ok();
            checked.inspect_err(|_| self.has_refused_code |= is_code())?;
        }
        self.cubins.extend(cubins);
        Ok(())
    }

    /// Refuses PTX for a virtual target: it would be compiled for the target when it is added.
    fn ptx_of_virtual(&mut self, plain: &str, name: Option<&str>) -> Refusal {
        self.has_refused_code = true;
        let compiler = self
            .options
            .as_ref()
            .ok()
            .map(|options| self.compiler.get_or_insert_with(|| lto::compiler(options)));
        let old = matches!(compiler, Some(Ok(compiler)) if compiler.release() < (13, 1));
        let number = if old { 3 } else { 10 };
        let text = format!("ERROR {number}: ptxjit:{plain}\n{}", compile_failed(name));
        (ResultCode::PtxCompile, text)
    }

    /// Logs the time of a step that ended at `end`, with `-time`.
    fn log_step(&mut self, step: &str, end: Instant) {
        if self.options.as_ref().is_ok_and(|options| options.time) {
            let time = end.duration_since(self.step_began).as_secs_f64() * 1e3;
            let _ = writeln!(self.infos, "{step}: {time:.6}");
            self.step_began = end;
        }
    }

    /// Logs the time of a cubin that was added, if the release has it.
    fn log_cubin(&mut self, cubin: &[u8]) {
        let Ok(options) = &self.options else { return };
        // Without `-time` the cubin's release is not looked up.
        if options.time && options.dialect([cubin]).jit_logs_cubins {
            self.log_step("nvJitLink time until Add_Cubin", Instant::now());
        }
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

    /// The cubins in an input.
    fn unpack(
        &mut self,
        (kind, format): (InputType, Format),
        name: Option<&str>,
        bytes: &[u8],
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
        let (mut cubins, outcome) = unpacked(options, shown, bytes, None, &Session::serial());
        let said = self.add_lines(outcome, name);
        // Of an archive, the members in front of the first without code for the target are linked.
        if said.is_err() && format == Format::Archive && self.state.is_open() {
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
        match (&self.state, &self.options) {
            (_, Err(_)) => {
                let text = "ERROR 1: empty elfw in nvJitLinkComplete\n";
                return self.refuse((ResultCode::Internal, text.to_owned()));
            }
            // A release that makes LTO-IR ends a link with it. Else only a link of cubins is the
            // end: a compilation that failed, or made PTX, can be repeated with more inputs.
            _ if self.lto_ir.is_some() || !self.state.is_open() => return ResultCode::Internal,
            _ => {}
        }
        self.log_step("nvJitLink time until Complete", Instant::now());
        let result = self.link();
        if result.is_ok() {
            self.log_step("nvJitLinkComplete time to finish", Instant::now());
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
        // A cubin or PTX counts that was refused when it was added.
        let alone = self.cubins.is_empty() && !self.has_refused_code;
        let relocatable = options.options.flag(culd_driver::OptionId::Relocatable);
        let no_ptx_of_object = relocatable && !compiler.needs_other_code();
        if options.ptx && (!alone || no_ptx_of_object) {
            let text = "ERROR: -ptx requires that all inputs have LTOIR\n";
            return Err((ResultCode::IncorrectInputType, text.to_owned()));
        }
        let is_whole = alone && (options.ptx || !relocatable);
        if is_whole || self.lto.is_empty() || !INTERFACE.has_objects_of_lto {
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
        set_compiler(options);
        let options = &*options;
        let name = lto::NAME;
        let compile = |ptx: &[u8], ahead: Option<PtxasAhead>, session: &Session| {
            unpacked(options, name, ptx, ahead, session)
        };
        let made = partial(compiler, options, &self.lto, &self.cubins, kept, compile);
        let LtoPart { code, text_made, may_lack } = self.keep_rest(made)?;
        self.log_step("nvJitLinkComplete time to create PTX", text_made);
        let cubins = match code {
            LtoCode::Object(bytes) => vec![NamedCubin { name: name.to_owned(), bytes }],
            LtoCode::Compiled((cubins, outcome)) => {
                self.add_lines(outcome, Some(name))?;
                cubins
            }
        };
        cubins.iter().for_each(|cubin| self.log_cubin(&cubin.bytes));
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
            self.lto_ir = failure.lto_ir;
            failure.refusal
        })?;
        self.errors.push_str(&logs.errors);
        self.infos.push_str(&logs.infos);
        self.lto_ir = lto_ir;
        Ok(code)
    }

    /// Links the inputs and `more`, which come last.
    fn link_cubins(&mut self, more: Vec<NamedCubin>) -> Result<(), LinkFailure> {
        self.state = LinkState::Failed;
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
        let outcome = culd_link::link(&options.session(), &inputs, &link_options);
        let failed = outcome.image.is_none();
        let ended = match options.lto || !dialect.jit_logs_cubins {
            true => "finish",
            false => "complete",
        };
        // After PTX that failed the log has the number of another error.
        let number = if self.ptx_failed { 1 } else { 9 };
        let ended = format!("ERROR {number}: {ended}\n");
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

/// A refusal whose text is one line, with a word of the caller's in it.
fn in_one_line((code, text): Refusal) -> Refusal {
    let line = text.strip_suffix('\n');
    let line = line.map(|line| format!("{}\n", culd_text::escaped(line)));
    (code, line.unwrap_or(text))
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

/// The cubins in an input that are linked, which have its name, and the driver's lines about it.
/// PTX is compiled by `ahead`, if that was started for it.
fn unpacked(
    options: &JitOptions,
    name: &str,
    bytes: &[u8],
    ahead: Option<PtxasAhead>,
    session: &Session,
) -> (Vec<NamedCubin>, RunOutcome) {
    let item = InputItem {
        name: name.to_owned(),
        kind: InputKind::Any,
        content: Content::Bytes(bytes.into()),
    };
    let request = LinkRequest {
        options: &options.options,
        target: Target::Real(options.arch),
        items: &[item],
        index: None,
        session,
        account: false,
    };
    let (mut cubins, outcome) = culd_driver::unpack(request, ahead);
    // Members have the name of their archive.
    cubins.iter_mut().for_each(|cubin| name.clone_into(&mut cubin.name));
    (cubins, outcome)
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
/// of the program as a whole, with the last line `ended`.
fn failure(diagnostics: &[LinkDiagnostic], ended: String) -> Refusal {
    let mut errors = diagnostics.iter().rev().filter(|line| line.severity >= Severity::Error);
    match errors.find_map(|line| bad_file(&line.message)) {
        Some(file) => {
            let file = if file == NO_NAME { "" } else { file };
            (ResultCode::InvalidInput, format!("ERROR 4: bad input:{file}\n"))
        }
        None => (ResultCode::Internal, ended),
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
