//! The messages of a link, as values, with all their texts.
//!
//! Where nvlink prints a line for the same situation, the text equals nvlink's word for word
//! (docs/rules/diagnostics.md). The printer adds the program's name and the severity. culd's own
//! explanations below a line are [`Note`]s.

pub(crate) mod demangle;
pub(crate) mod note;

use culd_cubin::Malformed;
use culd_cubin::unified::BadUidx;
use culd_reloc::RelocType;
use thiserror::Error;

use self::note::Note;
use crate::options::LinkOptions;
use crate::options::dialect::Dialect;

/// nvlink's internal error for a needed reference to something that is not in the output.
pub(crate) const DELETED: &str = "reference to deleted symbol";

/// The severity of a line, which decides the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Severity {
    /// Information.
    Info,
    /// The output is made, but something may be wrong.
    Warning,
    /// No output; the link goes on, to find more errors.
    Error,
    /// No output; the link ends here.
    Fatal,
}

/// One line for the user, with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkDiagnostic {
    /// The severity.
    pub severity: Severity,
    /// The message.
    pub message: Message,
    /// The place and the reason, in reading order.
    pub notes: Vec<Note>,
}

impl Message {
    /// The message as a line of `severity`. For each mangled name in it, a note gives the name in
    /// the source.
    fn at(self, severity: Severity, notes: Vec<Note>) -> LinkDiagnostic {
        let names = self.names().into_iter().filter_map(Note::source_name);
        let notes = names.chain(notes).collect();
        LinkDiagnostic { severity, message: self, notes }
    }

    /// The names of functions and variables in the message.
    fn names(&self) -> Vec<&str> {
        match self {
            Message::NotGlobalEverywhere { symbol }
            | Message::SpaceMismatch { symbol, .. }
            | Message::ManagedMismatch { symbol, .. }
            | Message::SizeMismatch { symbol, .. }
            | Message::MultipleDefinition { symbol, .. }
            | Message::CommonTooLarge { symbol, .. }
            | Message::WeakParameterBank { symbol }
            | Message::PrototypeMismatch { symbol, .. }
            | Message::BadUnified { symbol, .. }
            | Message::NoUnifiedId { symbol }
            | Message::NoToolsPatch { symbol, .. }
            | Message::Undefined { symbol, .. } => vec![symbol],
            Message::PlacedAlready { symbol, entry } => vec![symbol, entry],
            Message::NeverCalled { function } => vec![function],
            Message::ParametersTooLarge { entry, .. }
            | Message::LiteralsTooLarge { entry }
            | Message::SharedTooLarge { entry, .. }
            | Message::StackTooLarge { entry, .. }
            | Message::MixedGroups { entry }
            | Message::StackSizeUnknown { entry } => vec![entry],
            Message::TooManyRegisters { entry, function, .. } => vec![entry, function],
            Message::Malformed { .. }
            | Message::Unsupported { .. }
            | Message::ResolvedEarly { .. }
            | Message::ArchMismatch { .. }
            | Message::ForOneArch { .. }
            | Message::No64BitFlag { .. }
            | Message::UnifiedNotKnown { .. }
            | Message::SlotsNotKnown { .. }
            | Message::AbiMismatch { .. }
            | Message::BeforeCuda12 { .. }
            | Message::AddressSizeMismatch { .. }
            | Message::AcceleratedMismatch
            | Message::NoCompat
            | Message::NewerToolkit { .. }
            | Message::ExtensibleOfOtherToolkit
            | Message::BesideExtensible { .. }
            | Message::UnknownToolkit { .. }
            | Message::DebugMixture { .. }
            | Message::OlderCompiler { .. }
            | Message::LaterCompiler { .. }
            | Message::NoBarriersAtExit { .. }
            | Message::MissingIsaClass { .. }
            | Message::NoIndexFile
            | Message::TensorMemoryMismatch { .. }
            | Message::LaterApiVersion { .. }
            | Message::MergeFailed
            | Message::ConstantTooLarge { .. }
            | Message::Internal { .. }
            | Message::BadRelocation { .. }
            | Message::RelocationOverflow { .. }
            | Message::Dump { .. }
            | Message::Cancelled
            | Message::TooLarge { .. } => Vec::new(),
        }
    }
}

/// Every message of the linker. Fields hold names as they were given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Message {
    // Reading inputs.
    #[error("Malformed input file '{file}': {defect}")]
    Malformed {
        file: String,
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        defect: Malformed,
    },
    #[error("Input file '{file}' cannot be linked: {reason}")]
    Unsupported { file: String, reason: String },
    #[error("Input file '{file}' cannot be linked here: {linker} -r resolved references to {what}")]
    ResolvedEarly { file: String, linker: &'static str, what: String },
    #[error(
        "Output is limited to run on SM Arch '{sm}' only due to limitations in input file {file}"
    )]
    ForOneArch { file: String, sm: u32 },
    #[error("Input file '{file}' arch does not match target '{target}'")]
    ArchMismatch { file: String, target: String },
    #[error("expected 64bit object '{file}' to have EF_CUDA_64BIT_ADDRESS set")]
    No64BitFlag { file: String },
    #[error("Unified functions and variables cannot be linked by the rules of CUDA {release}")]
    UnifiedNotKnown {
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        release: &'static Dialect,
    },
    #[error("Jump slots of such a program cannot be linked by the rules of CUDA {release}")]
    SlotsNotKnown {
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        release: &'static Dialect,
    },
    #[error("Input file '{file}' abi does not match")]
    AbiMismatch { file: String },
    #[error("Input file '{file}' must be recompiled with toolkit >= Cuda 12.0")]
    BeforeCuda12 { file: String },
    #[error("Input file '{file}' size does not match target '-m64'")]
    AddressSizeMismatch { file: String },
    #[error("cannot link accelerated arch to non-accelerated")]
    AcceleratedMismatch,
    #[error("cannot read nvcompat")]
    NoCompat,
    #[error("Input file '{file}' newer than toolkit ({made_by} vs {own})")]
    NewerToolkit { file: String, made_by: u16, own: u16 },
    #[error("linking with -ewp objects requires using current toolkit")]
    ExtensibleOfOtherToolkit,
    #[error(
        "Input file '{file}' was made by CUDA {}.{}, newer than the rules followed (CUDA {own})",
        made_by / 10, made_by % 10
    )]
    UnknownToolkit {
        file: String,
        made_by: u16,
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        own: &'static Dialect,
    },
    #[error(
        "Output is limited to run on SM Arch '{sm}' only, due to missing attribute 'ISA_CLASS' \
         in input file '{file}'"
    )]
    MissingIsaClass { file: String, sm: u32 },

    // Merging.
    #[error("'{file}': -ewp compiled objects should only link with libcudadevrt")]
    BesideExtensible { file: String },
    #[error("Function '{symbol}' not declared __global__ in all source files")]
    NotGlobalEverywhere { symbol: String },
    #[error("Memory space doesn't match for '{symbol}' in '{file}', first specified in '{first}'")]
    SpaceMismatch { symbol: String, file: String, first: String },
    #[error(
        "Managed attribute doesn't match for '{symbol}' in '{file}', first specified in '{first}'"
    )]
    ManagedMismatch { symbol: String, file: String, first: String },
    #[error("Size doesn't match for '{symbol}' in '{file}', first specified in '{first}'")]
    SizeMismatch { symbol: String, file: String, first: String },
    #[error("Multiple definition of '{symbol}' in '{file}', first defined in '{first}'")]
    MultipleDefinition { symbol: String, file: String, first: String },
    #[error("Common symbol '{symbol}' in file '{file}' has larger size than initialization")]
    CommonTooLarge { symbol: String, file: String },
    #[error("Duplicate weak parameter bank for '{symbol}' is not the same size")]
    WeakParameterBank { symbol: String },
    #[error("Prototype doesn't match for '{symbol}' in '{file}', first defined in '{first}'")]
    PrototypeMismatch { symbol: String, file: String, first: String },
    #[error(
        "Object '{file}' cannot be linked due to version mismatch. Objects using tcgen05 in 12.x cannot be linked with 13.0 or later, they must be rebuilt with latest compiler"
    )]
    TensorMemoryMismatch { file: String },
    #[error(
        "Object '{file}' has cuda-api-version of {version} which is greater than version on link line ({limit})"
    )]
    LaterApiVersion { file: String, version: u32, limit: u32 },
    #[error("Unified symbols found but index file not specified.")]
    NoIndexFile,
    #[error("Unified id ({id}) of '{symbol}' in '{file}': {what}")]
    BadUnified { id: String, symbol: String, file: String, what: String },
    #[error("Unified variable '{symbol}' has no id")]
    NoUnifiedId { symbol: String },
    #[error(
        "Function '{symbol}' in '{file}' is missing EIATTR_TOOLS_PATCH_FUNC attribute required by {option} option"
    )]
    NoToolsPatch { symbol: String, file: String, option: &'static str },
    #[error("merge_elf failed")]
    MergeFailed,

    // Finishing.
    #[error("Cannot link shared object '{symbol}' with partially linked kernel '{entry}'")]
    PlacedAlready { symbol: String, entry: String },
    #[error("Undefined reference to '{symbol}' in '{file}'")]
    Undefined { symbol: String, file: String },
    #[error("File uses too much global constant data ({size:#x} bytes, {limit:#x} max)")]
    ConstantTooLarge { size: u64, limit: u64 },
    #[error(
        "Entry function '{entry}' uses too much constant data ({size:#x} bytes, {limit:#x} max)"
    )]
    ParametersTooLarge { entry: String, size: u64, limit: u64 },
    #[error(
        "Entry function '{entry}' uses too much data for compiler-generated constants; please \
         recompile with -Xptxas --disable-optimizer-constants"
    )]
    LiteralsTooLarge { entry: String },
    #[error("Entry function '{entry}' uses too much shared data ({size:#x} bytes, {limit:#x} max)")]
    SharedTooLarge { entry: String, size: u64, limit: u64 },
    #[error(
        "entry function '{entry}' with max regcount of {limit} calls function '{function}' with \
         regcount of {registers}"
    )]
    TooManyRegisters { entry: String, limit: u32, function: String, registers: u32 },
    #[error(
        "Function '{entry}' uses single CTA(.cta_group::1) and CTA pair granularity(.cta_group::2) \
         and that is not allowed."
    )]
    MixedGroups { entry: String },
    #[error("Function '{entry}' uses {needed} bytes stack but limited to {limit}")]
    StackTooLarge { entry: String, needed: i32, limit: i32 },
    #[error("Function '{function}' has address taken but no calls to it found")]
    NeverCalled { function: String },
    #[error("Stack size for entry function '{entry}' cannot be statically determined")]
    StackSizeUnknown { entry: String },
    #[error("Internal error: {what}")]
    Internal { what: &'static str },
    #[error("Input file '{file}', section '{section}', offset {offset:#x}: {what}")]
    BadRelocation { file: String, section: String, offset: u64, what: String },
    #[error(
        "Input file '{file}', section '{section}', offset {offset:#x}: {kind} against '{symbol}': \
         value {value:#x} does not fit in the field, which holds bits {low} to {high} of it"
    )]
    RelocationOverflow {
        file: String,
        section: String,
        offset: u64,
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        kind: RelocType,
        symbol: String,
        value: u64,
        low: u8,
        high: u8,
    },
    #[error(
        "Input file '{file}'{} compiled {} -g, the program is {}; machine code is kept as compiled",
        and_others(*.others),
        if *.debug { "with" } else { "without" },
        if *.debug { "linked without" } else { "linked with it" }
    )]
    DebugMixture { file: String, debug: bool, others: usize },
    #[error(
        "Input file '{file}'{} compiled by an older release than the one followed (CUDA {dialect}); machine code is kept as compiled",
        and_others(*.others)
    )]
    OlderCompiler {
        file: String,
        others: usize,
        #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
        dialect: &'static Dialect,
    },
    #[error(
        "Input file '{file}'{} compiled by a later ptxas than the release followed; machine code is kept as compiled",
        and_others(*.others)
    )]
    LaterCompiler { file: String, others: usize },
    #[error(
        "Input file '{file}'{} compiled without -make-errors-visible-at-exit, other files with it; machine code is kept as compiled",
        and_others(*.others)
    )]
    NoBarriersAtExit { file: String, others: usize },
    /// A line of `-dump-callgraph`, printed as it is.
    #[error("{line}")]
    Dump { line: String },
    #[error("Output too large: {what}")]
    TooLarge { what: String },
    /// A program that uses the library has stopped the link.
    #[error("Link cancelled")]
    Cancelled,
}

impl Message {
    /// A message about malformed bytes of input `file`.
    pub(crate) fn malformed(file: &str, defect: Malformed) -> Self {
        Message::Malformed { file: file.to_owned(), defect }
    }

    /// A message about input `file`, which is well-formed but cannot be linked.
    pub(crate) fn unsupported(file: &str, reason: impl Into<String>) -> Self {
        Message::Unsupported { file: file.to_owned(), reason: reason.into() }
    }
}

/// Serializes a value as its text.
#[cfg(feature = "serde")]
fn as_text<T: std::fmt::Display, S: serde::Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl From<BadUidx> for Message {
    fn from(defect: BadUidx) -> Self {
        let what = match defect {
            BadUidx::Magic => "not uidx input",
            BadUidx::Size => "malformed uidx input",
        };
        Message::Internal { what }
    }
}

/// The words behind the name of the first of several files.
fn and_others(others: usize) -> String {
    match others {
        0 => " was".to_owned(),
        1 => " and one other were".to_owned(),
        _ => format!(" and {others} others were"),
    }
}

/// The lines of one link in order.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    lines: Vec<LinkDiagnostic>,
    /// The severity of a warning; `None`: it is dropped.
    warning: Option<Severity>,
    ended_at: Option<usize>,
}

/// What was said about inputs while they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedInputs {
    /// All lines in order.
    pub diagnostics: Vec<LinkDiagnostic>,
    /// The place of the input that cannot be linked, which has the last line: no later one counts.
    pub ended_at: Option<usize>,
}

/// The link cannot go on; the diagnostics say why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed;

impl Diagnostics {
    /// No lines so far, for a link with `options`.
    pub(crate) fn new(options: &LinkOptions) -> Self {
        let warning = match (options.disable_warnings, options.warnings_are_errors) {
            (true, _) => None,
            (false, true) => Some(Severity::Error),
            (false, false) => Some(Severity::Warning),
        };
        Diagnostics { lines: Vec::new(), warning, ended_at: None }
    }

    /// Records a warning; returns whether it counts as an error.
    pub(crate) fn warning(&mut self, message: Message) -> bool {
        self.explained_warning(message, Vec::new())
    }

    /// Records a warning with notes below it; returns whether it counts as an error.
    pub(crate) fn explained_warning(&mut self, message: Message, notes: Vec<Note>) -> bool {
        let lines = self.warning.map(|severity| message.at(severity, notes));
        self.lines.extend(lines);
        self.warning == Some(Severity::Error)
    }

    /// Records an error with notes below it.
    pub(crate) fn error(&mut self, message: Message, notes: Vec<Note>) {
        self.lines.push(message.at(Severity::Error, notes));
    }

    /// Records a line that ends the link.
    pub(crate) fn fatal(&mut self, message: Message) -> Failed {
        self.explained_fatal(message, Vec::new())
    }

    /// Records a line that ends the link, with notes below it.
    pub(crate) fn explained_fatal(&mut self, message: Message, notes: Vec<Note>) -> Failed {
        self.lines.push(message.at(Severity::Fatal, notes));
        Failed
    }

    /// `Err` if there is an error already: a barrier between stages.
    pub(crate) fn check(&self) -> Result<(), Failed> {
        let failed = self.lines.iter().any(|line| line.severity >= Severity::Error);
        if failed { Err(Failed) } else { Ok(()) }
    }

    /// Records a line of information.
    pub(crate) fn info(&mut self, message: Message) {
        self.lines.push(message.at(Severity::Info, Vec::new()));
    }

    /// Records a line of a dump that the user asked for.
    pub(crate) fn dump(&mut self, line: String) {
        self.lines.push(Message::Dump { line }.at(Severity::Info, Vec::new()));
    }

    /// Records that the link ended when the input at `place` was read.
    pub(crate) fn end_at(&mut self, place: usize) {
        self.ended_at = Some(place);
    }

    pub(crate) fn into_checked(self) -> CheckedInputs {
        CheckedInputs { diagnostics: self.lines, ended_at: self.ended_at }
    }
}
