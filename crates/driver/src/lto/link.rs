//! The LTO-IR of a link.
//!
//! In: LTO-IR, the other inputs and the options. Out: the output, if the program is LTO-IR alone;
//! else a cubin for the link. Guaranteed: the decision is nvlink's (docs/rules/lto.md); a partial
//! link reports its reason.

use culd_text::os::OsStrExt;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::mem;
use std::time::Instant;

use culd_cubin::arch::Arch;
use culd_cubin::elf::stb;
use culd_cubin::{Cubin, Symbol, SymbolSection, text_of};
use culd_fatbin::container::{FatbinEntry, ImageKind};
use culd_link::{Dialect, Session, Severity};

use super::agreement::{Disagreement, LtoCompilation, PieceOptions, agreement};
use super::outline::{Outline, is_of_driver};
use super::reach::CallMap;
use super::text::ObjectText;
use super::{LtoTask, unused, words};
use crate::input::{
    CompileError, CompileTime, HostUses, InputStop, Inputs, LTO_CUBIN, LtoPiece, MAX_UNPACKED,
    PartReason, PtxCompilation, PtxCompiler, PtxJob, PtxLimits, PtxasAhead, Store,
};
use crate::lto_program::{CompilerLog, LtoFailure, LtoOutput, LtoProgram, LtoRoots};
use crate::messages::{Cause, InputError, InputPlace, Line, LineKind};
use crate::options::{CommandOptions, OptionId, UsageError, takes_limit};
use crate::threads::overlaps;

/// libnvJitLink's code for PTX that its ptxas refuses.
const PTX_COMPILE: i32 = 4;
/// Its code for a failed compilation.
const NVVM_COMPILE: i32 = 5;
/// Its code for LTO-IR of a later target.
const ARCH_MISMATCH: i32 = 13;

/// True for a code of libnvJitLink about the compilation of LTO-IR.
pub(super) fn is_of_compiler(code: i32) -> bool {
    matches!(code, NVVM_COMPILE | ARCH_MISMATCH)
}

/// True for a line of ptxas.
pub(super) fn is_of_ptxas(line: &str) -> bool {
    line.starts_with("ptxas ")
}

impl LtoFailure {
    /// True if the ptxas within the library has refused a text, and said why.
    pub(super) fn is_of_ptxas(&self) -> bool {
        matches!(self, LtoFailure::Refused { code: PTX_COMPILE, said, .. }
            if said.log.lines().any(is_of_ptxas))
    }
}

/// True for a code of libnvJitLink about the compilation of LTO-IR or of the text made of it.
pub(super) fn is_of_text(code: i32) -> bool {
    code == PTX_COMPILE || is_of_compiler(code)
}

const OPTIONS_HINT: &str = "compile all with the same -use_fast_math, -ftz, -prec-div, \
                            -prec-sqrt, -fmad, -maxrregcount and -split-compile";

/// LTO-IR of a link on its way into it.
pub(crate) struct LinkTime<'a, 'l> {
    pub(super) options: &'l CommandOptions,
    pub(super) target: &'static Arch,
    pub(super) rules: &'static Dialect,
    /// What the options of the link and those beside LTO-IR ask for.
    pub(super) compilation: LtoCompilation,
    /// The options in the words of libnvJitLink.
    pub(super) words: Vec<OsString>,
    /// The used kernels and variables of a whole program, in the same words.
    used: Vec<OsString>,
    pub(super) store: &'a Store,
    pub(super) found: &'l mut Inputs<'a>,
    pub(super) lines: &'l mut Vec<Line>,
    pub(super) session: &'l Session,
    pub(super) program: LtoProgram,
    /// The ptxas that will get the text, and whether it takes it for a whole program.
    pub(super) ahead: Option<(bool, PtxasAhead)>,
}

/// The names of all LTO-IR.
#[derive(Default)]
pub(super) struct LtoNames<'a> {
    pub(super) outline: Outline,
    /// LTO-IR without a sibling that can be read.
    pub(super) unknown: Vec<LtoPiece<'a>>,
    /// The PTX in the object that told the names; its lines of source files may be lost.
    pub(super) object_text: Option<Vec<u8>>,
    /// The reason why these names are not known.
    pub(super) failure: Option<LtoFailure>,
    /// What ptxas says of the text of an object that it has refused.
    pub(super) refusal: Option<LtoFailure>,
}

/// What is found out about LTO-IR with unknown names.
enum Answer {
    /// No LTO-IR defines this function, which is needed.
    Needs(String),
    /// It defines all that is needed: the PTX of the whole program, begun at this time.
    Whole(LtoOutput, Instant),
    /// Its names, as far as they can be had.
    Names,
}

impl LtoNames<'_> {
    /// Adds the names in `object`, which is made of all pieces whose names are not known.
    pub(super) fn complete(&mut self, object: &[u8]) {
        let text = ObjectText::of(object);
        match Outline::of_object(object, text.as_ref()) {
            Some(outline) => {
                self.outline.add(outline);
                self.unknown.clear();
                self.object_text = text.map(|text| text.ptx);
            }
            None => {
                let why = "no object can be made of LTO-IR to read its names".to_owned();
                self.failure = Some(LtoFailure::Failed(vec![why]));
            }
        }
    }
}

impl<'a, 'l> LinkTime<'a, 'l> {
    /// The LTO-IR of the link with `options`, by the rules of a release.
    pub(crate) fn new(
        options: &'l CommandOptions,
        target: &'static Arch,
        rules: &'static Dialect,
        store: &'a Store,
        found: &'l mut Inputs<'a>,
        lines: &'l mut Vec<Line>,
        session: &'l Session,
    ) -> Self {
        let used = used(options, found.references.as_ref());
        let words = Vec::new();
        let program = found.lto_program.take().unwrap_or_default();
        let compilation = LtoCompilation::default();
        LinkTime {
            options,
            target,
            rules,
            compilation,
            words,
            used,
            store,
            found,
            lines,
            session,
            program,
            ahead: None,
        }
    }

    /// Has the LTO-IR compiled: it becomes the output, or [`Inputs::lto_cubin`].
    pub(crate) fn compile(mut self) -> Result<(), InputStop> {
        let made = self.compile_all();
        self.end();
        made
    }

    /// Looks at the options of the link, and compiles nothing.
    pub(crate) fn check(mut self) -> Result<(), InputStop> {
        let checked = self.check_folder().and_then(|()| self.check_options());
        self.end();
        checked
    }

    /// Leaves the program to the end of the link.
    fn end(mut self) {
        self.program.no_more();
        self.found.lto_program = Some(self.program);
    }

    fn compile_all(&mut self) -> Result<(), InputStop> {
        self.check_folder()?;
        self.check_options()?;
        let words = words(self.options, self.rules, &self.compilation);
        self.words = words.map_err(|error| self.refuse(error))?;
        let mut names = self.names();
        let inputs = &self.found.inputs;
        let others = self.found.leaves_code || !inputs.iter().all(|input| input.system);
        let system = self.found.leaves_library || inputs.iter().any(|input| input.system);
        let partial = others || self.options.makes_object(self.rules);
        let open = |names: &LtoNames| names.outline.open().filter(|_| system).map(str::to_owned);
        if partial {
            return self.part(names, PartReason::OtherCode);
        }
        if names.unknown.is_empty() && self.is_without_kernels(&names) {
            return self.part_without_kernels(names);
        }
        self.start_ptxas(true);
        // Definitions of a piece without known names are not counted yet.
        let asked = !names.unknown.is_empty() && open(&names).is_some();
        if asked {
            match self.ask(&mut names)? {
                Answer::Needs(function) => {
                    self.report_need(&function);
                    return self.part(names, PartReason::Library);
                }
                Answer::Whole(made, begin) => {
                    return self.whole_unless_library(names, made, begin);
                }
                Answer::Names => {}
            }
        }
        // Where they cannot be had, only what is left after optimization counts.
        if names.unknown.is_empty()
            && let Some(open) = open(&names)
        {
            self.report_need(&open);
            // The names of code without optimization are more than those that stay.
            let names = if asked { self.names() } else { names };
            return self.part(names, PartReason::Library);
        }
        let begin = Instant::now();
        let made = match self.ptx(true, None) {
            Ok(made) => made,
            // From sm_100 on it is an error if no kernel is used.
            Err(_) if self.is_without_kernels(&names) && self.has_no_kernel_at_all() => {
                return self.part_without_kernels(names);
            }
            Err(failure) => return Err(self.failed(failure)),
        };
        // Of LTO-IR with known names nothing is open.
        let may_need = system && !names.unknown.is_empty();
        match may_need.then(|| open_in(&made.bytes)).flatten() {
            Some(open) => {
                self.say(made.said);
                self.report_need(&open);
                self.part(names, PartReason::Library)
            }
            None => self.whole_unless_library(names, made, begin),
        }
    }

    /// Makes the output of a program of which `made` is the text, begun at `begin`, unless nvlink
    /// takes libcudadevrt to be needed.
    fn whole_unless_library(
        &mut self,
        names: LtoNames<'a>,
        made: LtoOutput,
        begin: Instant,
    ) -> Result<(), InputStop> {
        if self.is_without_kernels(&names)
            && !has_kernels(&made.bytes)
            && (self.used.is_empty() || self.has_no_kernel_at_all())
        {
            return self.part_without_kernels(names);
        }
        let ptx = self.made(Ok(made), begin)?;
        self.whole(ptx)
    }

    /// True if there is no kernel where all are used. It is asked where some may be unused.
    fn has_no_kernel_at_all(&mut self) -> bool {
        let used = mem::take(&mut self.used);
        let all = if used.is_empty() { None } else { self.ptx(true, None).ok() };
        self.used = used;
        all.is_some_and(|all| !has_kernels(&all.bytes))
    }

    /// True if nvlink asks whether libcudadevrt is needed, and no kernel is known. Without that
    /// library it ends (docs/DIFFERENCES.md, lto, *demanded*).
    fn is_without_kernels(&self, names: &LtoNames<'_>) -> bool {
        let asks = self.found.asks_for_library || self.rules.lto_always_asks;
        asks && names.outline.kernels().next().is_none()
    }

    /// Compiles a program without kernels: to nvlink it needs libcudadevrt.
    fn part_without_kernels(&mut self, names: LtoNames<'a>) -> Result<(), InputStop> {
        self.report_part(InputError::LtoWithoutKernels);
        self.part(names, PartReason::Library)
    }

    /// Reports a folder that does not exist: the user has mistyped it, and does not want another
    /// toolkit.
    fn check_folder(&mut self) -> Result<(), InputStop> {
        let Some(folder) = self.options.path(OptionId::NvvmPath) else { return Ok(()) };
        if folder.is_dir() {
            return Ok(());
        }
        let notes =
            vec![format!("'{}', which -nvvmpath names, is no folder", culd_text::name(folder))];
        // nvlink loads the compiler before it says which inputs are not for LTO.
        let is_partial =
            |line: &Line| matches!(line.cause, Some(Cause::Input(InputError::PartialLto(_))));
        self.lines.retain(|line| !is_partial(line));
        self.lines.push(Line::about(Severity::Fatal, InputError::NvvmLoad).with_notes(notes));
        Err(InputStop)
    }

    /// Looks at the options beside LTO-IR, and refuses different ones as nvlink does: one program
    /// would round or flush in two ways.
    fn check_options(&mut self) -> Result<(), InputStop> {
        let pieces: Vec<PieceOptions<'_>> = self
            .found
            .lto
            .iter()
            .map(|LtoPiece { name, fatbin, options, .. }| PieceOptions {
                name,
                packed: *fatbin,
                text: options,
            })
            .collect();
        let mut infos = Vec::new();
        let made = agreement(&pieces, self.options, self.rules, &mut infos);
        // No option silences these.
        self.lines.extend(infos.into_iter().map(|info| Line::about(Severity::Info, info)));
        match made {
            Ok(made) if !takes_limit(made.registers, self.rules) => {
                self.lines.push(Line::about(Severity::Fatal, InputError::RegisterLimit));
                Err(InputStop)
            }
            Ok(made) => {
                self.compilation = made;
                Ok(())
            }
            Err(Disagreement { option, pieces }) => {
                let [one, other] =
                    pieces.map(|(name, value)| format!("{option}={value} in '{name}'"));
                let notes = vec![format!("{one}, {other}"), OPTIONS_HINT.to_owned()];
                let error = InputError::LtoOptions(option);
                let line = Line::about(Severity::Fatal, error).with_notes(notes);
                // nvlink has taken each piece when it had read it, and compares options at the end.
                if let Some(failure) = self.not_taken() {
                    return Err(self.failed(failure));
                }
                self.lines.push(line);
                Err(InputStop)
            }
        }
    }

    /// The refusal of a piece that the library does not take, if there is one.
    fn not_taken(&mut self) -> Option<LtoFailure> {
        let LinkTime { options, session, target, found, program, .. } = self;
        let task = LtoTask { options, session, words: &[], arch: target.name, parts: &found.lto };
        let refusal = task.check(program).err();
        refusal.filter(|failure| matches!(failure, LtoFailure::NotTaken { .. }))
    }

    /// Reports the fault in the words for the compiler.
    fn refuse(&mut self, error: UsageError) -> InputStop {
        let notes = vec!["in the value of -Xnvvm".to_owned()];
        let error = InputError::NvvmWords(error.to_string());
        self.lines.push(Line::about(Severity::Fatal, error).with_notes(notes));
        InputStop
    }

    /// The names in the images next to the LTO-IR.
    fn names(&self) -> LtoNames<'a> {
        let mut names = LtoNames::default();
        for part in &self.found.lto {
            match part.sibling.as_ref().and_then(outline) {
                Some(outline) => names.outline.add(outline),
                None => names.unknown.push(part.clone()),
            }
        }
        names
    }

    /// Adds names of LTO-IR without a sibling, from an object that libnvJitLink makes of it with
    /// `words`. Optimization drops inline functions that nothing calls any more.
    pub(super) fn complete(&mut self, names: &mut LtoNames<'a>, words: &[OsString]) {
        let LinkTime { options, session, target, found, program, .. } = self;
        let (arch, parts) = (target.name, &names.unknown);
        let task = LtoTask { options, session, words, arch, parts };
        let object = task.object(program, &found.lto, &found.inputs);
        match object {
            Ok(made) => names.complete(&made.bytes),
            // The compilation that follows reports the reason, or else [`LinkTime::part`].
            Err(failure) => names.failure = Some(failure),
        }
    }

    /// Finds out whether LTO-IR with unknown names defines what the known names leave open. Most
    /// programs are whole, and to compile one tells it more cheaply than an object does.
    fn ask(&mut self, names: &mut LtoNames<'a>) -> Result<Answer, InputStop> {
        if let Some(function) = self.need_of_system(names) {
            return Ok(Answer::Needs(function));
        }
        let begin = Instant::now();
        if let Ok(made) = self.ptx(true, None)
            && self.defines_all_open(names, &made.bytes)
        {
            return Ok(Answer::Whole(made, begin));
        }
        // Without optimization no definition is missing.
        self.complete(names, &["-O0".into()]);
        Ok(Answer::Names)
    }

    /// A function that LTO-IR with known names needs and a system library defines: no LTO-IR has
    /// it.
    fn need_of_system(&self, names: &LtoNames<'_>) -> Option<String> {
        let system = self.found.inputs.iter().filter(|input| input.system);
        let cubins = system.filter_map(|input| Cubin::parse(input.bytes).ok());
        let defined: HashSet<&[u8]> = cubins
            .flat_map(|cubin| cubin.symbols)
            .filter(|symbol| symbol.is_function() && symbol.defined_in().is_some())
            .map(|symbol| symbol.name)
            .collect();
        let mut open = names.outline.all_open();
        open.find(|name| defined.contains(name.as_bytes())).map(str::to_owned)
    }

    /// True if `ptx`, the whole program, shows that LTO-IR with unknown names defines each function
    /// that the known names leave open: it is in `ptx`, or a kernel reaches it and `ptx` needs
    /// nothing. What only dead code reaches is not in `ptx` in any case.
    fn defines_all_open(&self, names: &LtoNames<'_>, ptx: &[u8]) -> bool {
        let whole = Outline::of_ptx(ptx);
        if whole.open().is_some() {
            return false;
        }
        let mut known = CallMap::default();
        for sibling in self.found.lto.iter().filter_map(|piece| piece.sibling.as_ref()) {
            match (sibling.kind(), sibling.data(MAX_UNPACKED)) {
                (ImageKind::Ptx, Ok(bytes)) => known.add_ptx(&text_of(up_to_nul(&bytes))),
                (ImageKind::Elf, Ok(bytes)) => known.add_cubin(&bytes),
                _ => {}
            }
        }
        let reached = known.reached(whole.kernels());
        names.outline.all_open().all(|name| whole.defines(name) || reached.contains(name))
    }

    fn report_need(&mut self, function: &str) {
        self.report_part(InputError::LtoNeeds(function.to_owned()));
    }

    /// Reports why LTO-IR is a part of the program.
    fn report_part(&mut self, why: InputError) {
        if !self.options.flag(OptionId::DisableInfos) {
            self.lines.push(Line::about(Severity::Info, why));
        }
    }

    /// Makes the output of a program that is LTO-IR alone.
    fn whole(&mut self, ptx: Vec<u8>) -> Result<(), InputStop> {
        self.found.inputs.clear();
        self.found.whole = true;
        let host = self.found.references.as_ref().and_then(|host| that_counts(self.options, host));
        let host = host.filter(|_| !self.used.is_empty());
        let ptx = match host {
            Some(host) => unused::without_unused(ptx, host),
            None => ptx,
        };
        let emit = self.options.flag(OptionId::EmitPtx);
        self.found.finished = Some(if emit { ptx } else { self.assemble(&ptx, true)? });
        Ok(())
    }

    /// PTX of all LTO-IR, of a whole program or with `roots`.
    pub(super) fn ptx(
        &mut self,
        whole: bool,
        roots: Option<LtoRoots>,
    ) -> Result<LtoOutput, LtoFailure> {
        let LinkTime { options, session, words, used, target, found, program, .. } = self;
        let more = if whole { used.as_slice() } else { &[] };
        let (arch, parts) = (target.name, &found.lto);
        LtoTask { options, session, words, arch, parts }.ptx(program, more, roots)
    }

    pub(super) fn made(
        &mut self,
        made: Result<LtoOutput, LtoFailure>,
        begin: Instant,
    ) -> Result<Vec<u8>, InputStop> {
        match made {
            Ok(LtoOutput { bytes, said }) => {
                self.found.times.push(time_of_text(begin));
                self.say(said);
                Ok(bytes)
            }
            Err(failure) => Err(self.failed(failure)),
        }
    }

    /// Reports why there is no output, as far as possible in nvlink's words.
    pub(super) fn failed(&mut self, failure: LtoFailure) -> InputStop {
        let failure = match failure {
            LtoFailure::NotTaken { refusal, place } => {
                self.end_at(place);
                *refusal
            }
            failure => failure,
        };
        if let LtoFailure::Refused { said, .. } = &failure
            && failure.is_of_ptxas()
        {
            return self.failed_in_ptxas(said);
        }
        let file = self.found.lto.first().map(|part| part.name.clone()).unwrap_or_default();
        let (why, mut notes) = (failure.to_string(), failure.notes());
        let error = match failure {
            LtoFailure::Refused { code, said, .. } => {
                notes.push(why);
                if code == NVVM_COMPILE {
                    self.say(said);
                } else {
                    // nvlink has other words for it, or none.
                    notes.extend(
                        said.log
                            .lines()
                            .chain(said.lines.iter().map(String::as_str))
                            .map(str::to_owned),
                    );
                }
                match is_of_compiler(code) {
                    true => InputError::NvvmCompile,
                    false => InputError::NvvmInput,
                }
            }
            _ => InputError::Lto { file, error: why },
        };
        self.lines.push(Line::about(Severity::Fatal, error).with_notes(notes));
        InputStop
    }

    /// Reports what the ptxas within the library says of the text of an object. It is what the
    /// link's own ptxas would say.
    fn failed_in_ptxas(&mut self, said: &CompilerLog) -> InputStop {
        let lines = said.log.lines().filter(|line| is_of_ptxas(line));
        self.lines.extend(lines.map(|line| Line::plain(LineKind::Tool, line.to_owned())));
        self.lines.push(Line::about(Severity::Fatal, InputError::Fatbinary));
        InputStop
    }

    /// Drops what is behind an input at this place, which ends the link.
    fn end_at(&mut self, InputPlace { inputs, lines }: InputPlace) {
        self.lines.truncate(lines);
        self.found.inputs.truncate(inputs);
    }

    /// Prints the libraries' lines.
    pub(super) fn say(&mut self, said: CompilerLog) {
        let CompilerLog { log, lines } = said;
        self.lines.extend(lines.into_iter().map(|line| Line::plain(LineKind::Tool, line)));
        let log = log_of_nvlink(&log);
        if !log.trim().is_empty() {
            self.lines.push(Line::about(Severity::Info, InputError::NvvmLog(log)));
        }
    }

    /// A cubin of `ptx`.
    pub(super) fn assemble(&mut self, ptx: &[u8], whole: bool) -> Result<Vec<u8>, InputStop> {
        let job = PtxJob { text: ptx, options: String::new() };
        let (compiler, ahead) =
            (self.ptx_compiler(whole), self.ahead.take().map(|(_, ahead)| ahead));
        // The system ends a program before this one goes on, if it has no other processor.
        let end_program = || self.program.no_more();
        let compilation = compiler.compile_with(ahead, &job, self.session, end_program);
        self.assembled(compilation, whole)
    }

    /// Starts ptxas, which loads while the text is made.
    pub(super) fn start_ptxas(&mut self, whole: bool) {
        let runs = self.ahead.as_ref().is_some_and(|(other, _)| *other == whole);
        let emits = self.options.flag(OptionId::EmitPtx);
        if !runs && !emits && overlaps(self.options, self.session) {
            self.ahead = PtxasAhead::start(self.ptx_compiler(whole)).map(|ahead| (whole, ahead));
        }
    }

    pub(super) fn ptx_compiler(&self, whole: bool) -> PtxCompiler {
        let LtoCompilation { registers, threads, .. } = &self.compilation;
        let limits = PtxLimits { registers: *registers, threads: threads.as_deref() };
        let arch = self.target.name;
        let mut compiler = PtxCompiler::with_limits(self.options, limits, arch, self.rules);
        compiler.whole_program = whole;
        compiler
    }

    /// The cubin that ptxas has made, of a whole program or not, and what it said.
    pub(super) fn assembled(
        &mut self,
        made: PtxCompilation,
        whole: bool,
    ) -> Result<Vec<u8>, InputStop> {
        let PtxCompilation { cubin, lines, time } = made;
        // The text is right, and the program takes too much of something.
        let is_of_text =
            |line: &String| line.starts_with("ptxas fatal") || line.contains(", line ");
        let too_large = whole && !lines.is_empty() && !lines.iter().any(is_of_text);
        self.found.times.push(CompileTime::new(["lto.ptx", "ptxas", "", LTO_CUBIN], time));
        self.lines.extend(lines.into_iter().map(|line| Line::plain(LineKind::Tool, line)));
        cubin.map_err(|error| {
            let (error, notes) = match error {
                CompileError::Refused(None) if too_large => (InputError::NvvmCompile, None),
                CompileError::Refused(reason) => (InputError::Fatbinary, reason),
                error => {
                    let (file, error) = (LTO_CUBIN.to_owned(), error.to_string());
                    (InputError::Compiler { file, error }, None)
                }
            };
            let notes = notes.into_iter().collect();
            self.lines.push(Line::about(Severity::Fatal, error).with_notes(notes));
            InputStop
        })
    }
}

/// The row of [`CompileTime`] for a text whose compilation began at `begin`.
pub(super) fn time_of_text(begin: Instant) -> CompileTime {
    let time = begin.elapsed().as_secs_f64() * 1e3;
    CompileTime::new(["lto.nvvm", "cicc", "", "lto.ptx"], time)
}

/// Functions that the cubins `others` need and do not define.
pub(super) fn needed<'c>(others: impl Iterator<Item = &'c [u8]>) -> Vec<String> {
    let cubins: Vec<Cubin<'_>> = others.filter_map(|bytes| Cubin::parse(bytes).ok()).collect();
    let global = cubins.iter().flat_map(|cubin| &cubin.symbols);
    let global = global.filter(|symbol| symbol.is_function() && symbol.binding() != stb::LOCAL);
    let (undefined, defined): (Vec<&Symbol<'_>>, Vec<&Symbol<'_>>) =
        global.partition(|symbol| symbol.section == SymbolSection::Undefined);
    let defined: HashSet<&[u8]> = defined.iter().map(|symbol| symbol.name).collect();
    let undefined = undefined.iter().map(|symbol| symbol.name);
    let needed = undefined.filter(|name| !is_of_driver(name) && !defined.contains(name));
    needed.map(text_of).collect()
}

/// The names in a sibling of LTO-IR.
fn outline(sibling: &FatbinEntry<'_>) -> Option<Outline> {
    let bytes = sibling.data(MAX_UNPACKED).ok()?;
    match sibling.kind() {
        ImageKind::Ptx => Some(Outline::of_ptx(up_to_nul(&bytes))),
        ImageKind::Elf => Outline::of_cubin(&bytes),
        _ => None,
    }
}

pub(super) fn up_to_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// True if `ptx` has kernels.
fn has_kernels(ptx: &[u8]) -> bool {
    Outline::of_ptx(ptx).kernels().next().is_some()
}

/// A function that `ptx` needs and does not define.
fn open_in(ptx: &[u8]) -> Option<String> {
    Outline::of_ptx(ptx).open().map(str::to_owned)
}

/// The used kernels and variables of a whole program, as options of libnvJitLink: those that the
/// options name, else those that host code refers to.
fn used(options: &CommandOptions, host: Option<&HostUses<'_>>) -> Vec<OsString> {
    let named = [OptionId::KernelsUsed, OptionId::VariablesUsed].map(|id| options.list(id));
    let host = host.and_then(|host| that_counts(options, host));
    let names = |lists: &[&Vec<&[u8]>]| -> Vec<OsString> {
        let sections = lists.iter().flat_map(|list| list.iter());
        let names = sections.flat_map(|section| section.split(|&byte| byte == 0));
        let names = names.filter(|name| !name.is_empty());
        names.map(|name| OsStr::from_bytes(name).to_owned()).collect()
    };
    let (kernels, variables) = match host {
        None => (named[0].to_vec(), named[1].to_vec()),
        Some(host) => (
            names(&[&host.external, &host.internal]),
            names(&[
                &host.variables,
                &host.internal_variables,
                &host.constants,
                &host.internal_constants,
            ]),
        ),
    };
    // Without a word about variables all of them would stay.
    let unused = !kernels.is_empty() && variables.is_empty();
    let word = |option: &str, name: &OsString| [OsStr::new(option), name].join(OsStr::new("="));
    let kernels = kernels.iter().map(|name| word("-kernels-used", name));
    let variables = variables.iter().map(|name| word("-variables-used", name));
    let unused = unused.then(|| "-optimize-unused-variables".into());
    kernels.chain(variables).chain(unused).collect()
}

/// The names that host code uses, unless options name others, or none.
fn that_counts<'u, 'a>(
    options: &CommandOptions,
    host: &'u HostUses<'a>,
) -> Option<&'u HostUses<'a>> {
    let named = [OptionId::KernelsUsed, OptionId::VariablesUsed];
    let is_named = named.iter().any(|&id| !options.list(id).is_empty());
    let counts = host.selects && !is_named && !options.flag(OptionId::IgnoreHostInfo);
    counts.then_some(host)
}

/// The log of libnvJitLink in nvlink's form: the compiler's lines, then the name of the error.
fn log_of_nvlink(log: &str) -> String {
    const BEFORE: &str = "ERROR in nvvmCompileProgram: ";
    const BEHIND: &str = " in nvvmCompileProgram";
    if let Some((name, said)) = log.strip_prefix(BEFORE).and_then(|rest| rest.split_once('\n')) {
        return format!("{said}{name}");
    }
    // Since 13.1: the name, its number and the function are behind.
    let end = log.trim_end();
    if let Some(start) = end.rfind("ERROR NVVM_").filter(|&start| end[start..].contains(BEHIND)) {
        let name = end[start..].split(' ').nth(1).unwrap_or_default();
        return format!("{}{name}", &end[..start]);
    }
    log.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Target;

    #[test]
    fn logs_of_all_releases_become_those_of_nvlink() {
        let cases = [
            ("", ""),
            ("opt: no\n", "opt: no\n"),
            (
                "ERROR in nvvmCompileProgram: NVVM_ERROR_INVALID_OPTION\nlibnvvm : error: -x is an unsupported option",
                "libnvvm : error: -x is an unsupported optionNVVM_ERROR_INVALID_OPTION",
            ),
            (
                "libnvvm : error: -x is an unsupported optionERROR NVVM_ERROR_INVALID_OPTION (7) in nvvmCompileProgram\n",
                "libnvvm : error: -x is an unsupported optionNVVM_ERROR_INVALID_OPTION",
            ),
            (
                "Error encountered while compiling\nERROR NVVM_ERROR_COMPILATION (9) in nvvmCompileProgram callback\n",
                "Error encountered while compiling\nNVVM_ERROR_COMPILATION",
            ),
        ];
        for (log, expected) in cases {
            assert_eq!(log_of_nvlink(log), expected);
        }
    }

    #[test]
    fn used_names_are_passed_on_and_that_no_variable_is() {
        let arch = Arch::by_name("sm_90").unwrap();
        let mut options = CommandOptions::for_target(Target::Real(arch));
        assert_eq!(used(&options, None), [""; 0]);
        let mut host = HostUses {
            external: vec![b"k\0\0", b"l"],
            constants: vec![b"c"],
            variables: vec![b"v"],
            selects: true,
            ..HostUses::default()
        };
        let words =
            ["-kernels-used=k", "-kernels-used=l", "-variables-used=v", "-variables-used=c"];
        assert_eq!(used(&options, Some(&host)), words);
        host.selects = false;
        assert_eq!(used(&options, Some(&host)), [""; 0]);
        host.selects = true;
        options.set(OptionId::VariablesUsed, ["named".to_owned()]);
        assert_eq!(used(&options, Some(&host)), ["-variables-used=named"]);
        options.unset(OptionId::VariablesUsed);
        options.set(OptionId::KernelsUsed, ["named".to_owned()]);
        let words = ["-kernels-used=named", "-optimize-unused-variables"];
        assert_eq!(used(&options, Some(&host)), words);
        options.unset(OptionId::KernelsUsed);
        options.set(OptionId::IgnoreHostInfo, [""; 0]);
        assert_eq!(used(&options, Some(&host)), [""; 0]);
    }
}
