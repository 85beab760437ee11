//! The command line.
//!
//! In: words. Out: [`CommandOptions`], or an error in nvlink's words. One table ([`TABLE`]) has a
//! row for each option and drives parsing, help, the man page, completions and the tool note. The
//! grammar is nvlink's (docs/rules/command-line.md).

pub(crate) mod budget;
mod check;
pub(crate) mod dialect;
mod note;
mod notes;
mod pages;
mod parse;
pub(crate) mod response;
mod table;

use culd_text::os::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use culd_cubin::arch::{ARCHS, Arch};
use culd_link::Dialect;
use thiserror::Error;

use crate::toolkit::marker::OwnShadow;

pub(crate) use crate::options::pages::command_help;
pub use crate::options::pages::{Shell, completions, help, man_page, version};
pub use crate::options::parse::{IgnoredOption, ParsedCommandLine, Request, parse};
pub(crate) use crate::options::parse::{number, split_name};
pub(crate) use crate::options::table::RISCV64;
pub use crate::options::table::{OptionArity, OptionId, OptionRow, Origin, TABLE};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The target of `-arch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `sm_*`: code for this architecture.
    Real(&'static Arch),
    /// `compute_*`: inputs are only checked. nvcc makes the register file in this way.
    Virtual(&'static Arch),
    /// `lto_*`: no target of a link.
    Lto(&'static Arch),
}

/// The request of a command line.
#[derive(Debug, Clone)]
pub struct CommandOptions {
    /// Paths of input files in order.
    pub inputs: Vec<OsString>,
    /// The target; [`parse`] accepts no link without one.
    pub target: Option<Target>,
    /// The given values, by [`OptionId`]: a flag has one empty value, a list any number.
    values: Vec<Option<Vec<OsString>>>,
    /// Given words that only some releases accept.
    newer: Vec<NewerWord>,
    /// The release that a command line follows ([`dialect::chosen`]); `None` if the inputs decide,
    /// and for options that a program has made.
    pub(crate) release: Option<&'static Dialect>,
    /// The shadow toolkit in which a command line is; `None` for options that a program has made.
    pub(crate) shadow: Option<OwnShadow>,
    /// Further toolkits in which ptxas and NVIDIA's libraries are looked for, before those of PATH.
    pub toolkits: Vec<PathBuf>,
    /// Inputs are read as libnvJitLink reads them: PTX in a fat binary is compiled without the
    /// options beside it, and an archive ends at the first member without code for the target.
    pub reads_like_jit: bool,
    /// The program that compiles LTO-IR; `None` for the `culd-lto` beside this program or in PATH.
    pub lto_program: Option<PathBuf>,
}

/// A word that only some releases accept.
#[derive(Debug, Clone)]
struct NewerWord {
    needs: ReleaseWord,
    /// The error of the other releases.
    error: UsageError,
    /// The number of lines about repeated options in front of it, and of values of `-Xptxas`.
    redefined: usize,
    ptxas: usize,
}

/// What a release has to have to accept a word.
#[derive(Debug, Clone, Copy)]
enum ReleaseWord {
    /// An option or a value, as [`Dialect::has_word`] takes it.
    Word(&'static str),
    Arch(&'static Arch),
    /// `-Xptxas` with one value, which may have an odd number of quotes: 11.8.
    OneOfPtxas,
}

/// A command line that cannot be followed. Texts are nvlink's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum UsageError {
    #[error("Unknown option '{0}'")]
    Unknown(String),
    #[error("argument expected after '{0}'")]
    ArgumentExpected(String),
    #[error("no argument expected after '{0}'")]
    NoArgumentExpected(String),
    #[error("Value '{value}' is not defined for option '{option}'")]
    BadValue { value: String, option: &'static str },
    #[error("'{0}': expected a number")]
    NumberExpected(String),
    #[error("32-bit integer value ({0}) out of range")]
    NumberTooLarge(String),
    #[error("'{0}': expected true or false")]
    BoolExpected(String),
    #[error("Could not open options file '{path}'")]
    OptionsFile { path: String, reason: String },
    #[error("Too many options file opened '{0}'")]
    TooManyOptionsFiles(String),
    #[error("Too many words in options files and lists")]
    TooManyWords,
    #[error("Stray '{0}' character")]
    Stray(&'static str),
    #[error("Unknown arch name '(null)'")]
    NoArch,
    #[error("Must specify output file with -o option")]
    NoOutput,
    #[error("No input files specified; use option --help for more information")]
    NoInput,
    /// There is not a single word. nvlink reports a missing architecture.
    #[error("No input files specified; use option --help for more information")]
    Nothing,
    #[error("Input files are not allowed with -ghls option; use --help for more information")]
    InputForScript,
    #[error("Conflicting options '{0}' and '{1}'")]
    Conflict(&'static str, &'static str),
    #[error("Invalid argument for option '{0}'")]
    InvalidArgument(&'static str),
    #[error("-nvvmpath should be specified with -lto")]
    NoNvvmPath,
    #[error(
        "Link target of '{0}' is virtual target that is not JIT-able; use 'sm_' target instead"
    )]
    LtoTarget(String),
    #[error("--cuda-api-version value cannot be parsed")]
    CudaVersion,
    #[error("--cuda-api-version major number must be == toolkit version")]
    CudaMajor,
    #[error("Option '--{0}' is about a single link, and none of a device link")]
    NotInDeviceLink(&'static str),
    #[error("Option '--{0}' is not supported by culd")]
    NotSupported(&'static str),
}

/// The two numbers of a value of `--cuda-api-version`; white space in front of the first counts
/// for nothing.
fn api_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim_start().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Target {
    /// The names of all targets, as `-arch` takes them.
    pub(crate) fn all_names() -> Vec<String> {
        let kinds = [Target::Real, Target::Virtual, Target::Lto];
        kinds.iter().flat_map(|kind| ARCHS.iter().map(|arch| kind(arch).name())).collect()
    }

    /// The target called `name`: `sm_90a`, `compute_80`, `lto_75`.
    pub fn by_name(name: &str) -> Option<Target> {
        let (kind, number) = name.split_once('_')?;
        let arch = Arch::by_name(&format!("sm_{number}"))?;
        match kind {
            "sm" => Some(Target::Real(arch)),
            "compute" => Some(Target::Virtual(arch)),
            "lto" => Some(Target::Lto(arch)),
            _ => None,
        }
    }

    /// The architecture whose number it has.
    pub fn arch(self) -> &'static Arch {
        let (Target::Real(arch) | Target::Virtual(arch) | Target::Lto(arch)) = self;
        arch
    }

    /// The name as `-arch` takes it.
    pub fn name(self) -> String {
        let arch = self.arch().name;
        match self {
            Target::Real(_) => arch.to_owned(),
            Target::Virtual(_) => arch.replacen("sm_", "compute_", 1),
            Target::Lto(_) => arch.replacen("sm_", "lto_", 1),
        }
    }
}

/// True if a link by `rules` takes `limit`, a number of registers, where it hands it on.
pub(crate) fn takes_limit(limit: Option<i32>, rules: &Dialect) -> bool {
    limit.is_none_or(|count| count < 1000) || !rules.limits_registers
}

impl CommandOptions {
    fn new() -> Self {
        let values = TABLE.iter().map(|_| None).collect();
        CommandOptions {
            inputs: Vec::new(),
            target: None,
            values,
            newer: Vec::new(),
            release: None,
            shadow: None,
            toolkits: Vec::new(),
            reads_like_jit: false,
            lto_program: None,
        }
    }

    /// No options, for decisions of the environment alone.
    pub(crate) fn for_nobody() -> Self {
        CommandOptions::new()
    }

    /// Options for a link to `target` that is made by a program.
    pub fn for_target(target: Target) -> Self {
        let mut options = CommandOptions { target: Some(target), ..CommandOptions::new() };
        options.set(OptionId::Arch, [target.name()]);
        options
    }

    /// True if the link makes an object by the rules of `release`.
    pub(crate) fn makes_object(&self, release: &Dialect) -> bool {
        self.flag(OptionId::Relocatable) && release.makes_objects
    }

    /// The first word that `release` does not accept; without a release, that none but 11.8 does.
    fn refused_by(&self, release: Option<&Dialect>) -> Option<&NewerWord> {
        self.newer.iter().find(|word| match word.needs {
            ReleaseWord::Word(word) => release.is_some_and(|release| !release.has_word(word)),
            ReleaseWord::Arch(arch) => release.is_some_and(|release| !release.knows(arch)),
            ReleaseWord::OneOfPtxas => release.is_none_or(|release| release.lists_ptxas_options),
        })
    }

    /// Sets the values of an option: none for a flag, one, or those of a list.
    pub fn set<T: Into<OsString>>(&mut self, id: OptionId, values: impl IntoIterator<Item = T>) {
        let mut values: Vec<OsString> = values.into_iter().map(Into::into).collect();
        if OptionRow::of(id).takes == OptionArity::Nothing {
            values = vec![OsString::new()];
        }
        self.values[id as usize] = Some(values);
    }

    /// Takes an option back.
    pub fn unset(&mut self, id: OptionId) {
        self.values[id as usize] = None;
    }

    /// All values of an option; `None` when it was not given.
    pub(crate) fn values(&self, id: OptionId) -> Option<&[OsString]> {
        self.values[id as usize].as_deref()
    }

    /// True when the option was given; not for `true|false` options.
    pub fn flag(&self, id: OptionId) -> bool {
        debug_assert!(OptionRow::of(id).takes == OptionArity::Nothing);
        self.values(id).is_some()
    }

    /// The value of a single-valued option that is text; [`CommandOptions::path`] has paths.
    pub fn text(&self, id: OptionId) -> Option<&str> {
        debug_assert!(!matches!(
            OptionRow::of(id).takes,
            OptionArity::Path(_) | OptionArity::List(_) | OptionArity::Name(_)
        ));
        self.values(id)?.last()?.to_str()
    }

    /// The value of `--cuda-api-version` as objects write it: 124 is 12.4.
    pub(crate) fn api_version(&self) -> Option<u32> {
        let (major, minor) = self.text(OptionId::CudaApiVersion).and_then(api_version)?;
        Some(major.saturating_mul(10).saturating_add(minor))
    }

    /// The value of an option that is a path.
    pub fn path(&self, id: OptionId) -> Option<&Path> {
        debug_assert!(matches!(OptionRow::of(id).takes, OptionArity::Path(_)));
        self.values(id)?.last().map(Path::new)
    }

    /// The values of a list.
    pub fn list(&self, id: OptionId) -> &[OsString] {
        self.values(id).unwrap_or_default()
    }

    /// The value of a number.
    pub fn number(&self, id: OptionId) -> Option<i32> {
        self.text(id)?.parse().ok()
    }

    /// Link-time optimization is asked for, by either name.
    pub fn lto(&self) -> bool {
        self.flag(OptionId::Lto) || self.flag(OptionId::Dlto)
    }

    /// True if ptxas puts the text of PTX into its cubin, and its hash into a name there.
    pub fn keeps_ptx(&self) -> bool {
        const WORDS: [&str; 4] = ["lineinfo", "generate-line-info", "g", "device-debug"];
        let keeps = |word: &OsString| {
            word.to_str().is_some_and(|word| WORDS.contains(&word.trim_start_matches('-')))
        };
        self.makes_debug_information() || self.ptxas_words().iter().any(keeps)
    }

    /// True if code is compiled for debuggers.
    pub(crate) fn makes_debug_information(&self) -> bool {
        self.flag(OptionId::Debug) && !self.flag(OptionId::SuppressDebugInfo)
    }

    /// The words of `-Xptxas`: nvcc hands over several in one, and nvlink splits them. libnvJitLink
    /// does not.
    pub(crate) fn ptxas_words(&self) -> Vec<OsString> {
        if self.reads_like_jit {
            return self.list(OptionId::Xptxas).to_vec();
        }
        let values = self.list(OptionId::Xptxas).iter();
        let words = values.flat_map(|value| value.as_bytes().split(|byte| b" \t".contains(byte)));
        let words = words.filter(|word| !word.is_empty());
        words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
    }

    /// The words of `-Xnvvm`, which nvlink splits at blanks that have no backslash in front. It
    /// does so when LTO-IR is compiled, and not before.
    pub(crate) fn nvvm_words(&self) -> Result<Vec<OsString>, UsageError> {
        let words = self.list(OptionId::Xnvvm).iter().map(|value| response::split(value));
        Ok(words.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The limit of `-maxrregcount`; none for a number that is no limit.
    pub(crate) fn max_registers(&self) -> Option<i32> {
        self.number(OptionId::MaxRegisters).filter(|&count| count > 0)
    }

    /// The output file.
    pub fn output(&self) -> Option<&Path> {
        self.path(OptionId::Output)
    }

    /// The name of the output in the tool note: with `-g` only.
    pub fn object_name(&self) -> String {
        let output = self.output().filter(|_| self.flag(OptionId::Debug));
        output.map(|path| culd_text::bytes(base_name(path))).unwrap_or_default()
    }
}

/// The part of a path behind its last slash.
pub(crate) fn base_name(path: &(impl AsRef<OsStr> + ?Sized)) -> &[u8] {
    let path = path.as_ref().as_bytes();
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}
