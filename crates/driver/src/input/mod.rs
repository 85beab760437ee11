//! From the files of a command line, or of a program, to cubins.
//!
//! In: [`Options`] and [`Item`]s. Out: [`Gathered`]: named cubin bytes in link order, the modules
//! for the register file, the names that host code refers to; and lines for the user. Guaranteed:
//! what a file offers and is not linked is told, unless it is no device code at all; nothing is
//! compiled or unpacked that is not linked; lines come in the order of the inputs whatever ran at
//! the same time. The rules are nvlink's (docs/rules/inputs.md) except where docs/DIFFERENCES.md
//! says so.
//!
//! [`walk`] tells what a file is; [`archive`], [`host`] and [`fatbin`] look into it; [`select`]
//! chooses images; [`ready`] unpacks and compiles them.

mod archive;
mod fatbin;
mod host;
mod item;
mod library;
mod ptx;
mod ready;
mod record;
mod select;
mod walk;

use std::collections::HashMap;
use std::path::PathBuf;

use culd_fatbin::host::{Reference, Section};
use culd_link::{Dialect, Input, Session, Severity};
use thiserror::Error;

use crate::files::Identity;
use crate::hints::Elsewhere;
use crate::input::ready::Piece;
use crate::lines::{Cause, Line};
use crate::lto::{Part, Placed};
use crate::options::{Id, Options, Target};
use crate::registration::{ModuleNumber, Registration};

pub(crate) use crate::files::Store;
pub use crate::input::item::{Content, InputKind, Item};
pub(crate) use crate::input::ptx::{CompileError, Compiled, Compiler, Job as PtxJob};
pub(crate) use crate::input::ready::{Ready, no_lto};

/// Bytes of images that may be unpacked for one link: a small file can declare any size.
pub(crate) const MAX_UNPACKED: u64 = 8 << 30;

/// What the inputs come to.
#[derive(Default)]
pub(crate) struct Gathered<'a> {
    /// Cubins in link order.
    pub(crate) inputs: Vec<Ready<'a>>,
    /// The modules of the program.
    pub(crate) registration: Registration<'a>,
    /// Kernels that host code refers to; `None` when some input does not tell.
    pub(crate) references: Option<References<'a>>,
    /// Device code that is not linked, to explain undefined references.
    pub(crate) elsewhere: Vec<Elsewhere<'a>>,
    /// Names of the archives that were looked into, as messages name them.
    pub(crate) archives: Vec<String>,
    /// Names of `-l` for which there is no archive.
    pub(crate) missing_libraries: Vec<String>,
    /// How many fat binaries have nothing for the target.
    pub(crate) without_code: usize,
    /// Another release would choose other images.
    pub(crate) depends_on_release: bool,
    /// Compilations.
    pub(crate) times: Vec<Time>,
    /// LTO-IR that is linked, in order.
    pub(crate) lto: Vec<Part<'a>>,
    /// There is LTO-IR in the inputs.
    pub(crate) has_lto: bool,
    /// How many of [`Gathered::inputs`] stand in front of the last of it.
    pub(crate) lto_place: usize,
    /// What was made of it, if that is linked with other code.
    pub(crate) lto_cubin: Option<Placed<'a>>,
    /// The program is nothing but LTO-IR.
    pub(crate) whole: bool,
    /// The output, if it needs no link: PTX, or a program of nothing but LTO-IR.
    pub(crate) finished: Option<Vec<u8>>,
}

impl Gathered<'_> {
    /// What the linker is given.
    pub(crate) fn link_inputs(&self) -> Vec<Input<'_>> {
        let ready = self.inputs.iter();
        ready.map(|Ready { name, bytes, system }| Input { name, bytes, system: *system }).collect()
    }
}

/// Patterns of kernels and constants that host code refers to: sections of them, each pattern ended
/// by NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct References<'a> {
    /// For kernels with external linkage.
    pub(crate) external: Vec<&'a [u8]>,
    /// For kernels with internal linkage.
    pub(crate) internal: Vec<&'a [u8]>,
    /// For constants with external linkage.
    pub(crate) constants: Vec<&'a [u8]>,
    /// For constants with internal linkage.
    pub(crate) internal_constants: Vec<&'a [u8]>,
    /// For variables in global memory with external linkage. They count for LTO only.
    pub(crate) variables: Vec<&'a [u8]>,
    /// For variables in global memory with internal linkage.
    pub(crate) internal_variables: Vec<&'a [u8]>,
    /// One of them is not from a system library; the lists of those alone select nothing.
    pub(crate) selects: bool,
}

/// One row of the time table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Time {
    /// Source, compiler, its input and its output, in nvlink's words.
    pub(crate) names: [String; 4],
    pub(crate) milliseconds: f64,
}

impl Time {
    pub(crate) fn new(names: [&str; 4], milliseconds: f64) -> Self {
        Time { names: names.map(str::to_owned), milliseconds }
    }

    /// PTX in `file`, which may be all of it.
    pub(crate) fn of_ptx(file: &str, whole_file: bool, milliseconds: f64) -> Self {
        let (source, made) = if whole_file { (file, "") } else { ("ptx", "cubin") };
        Time::new([source, "ptxas", file, made], milliseconds)
    }
}

/// What an input is when it is not linked. Texts are culd's own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Ignored {
    #[error("Input file '{0}' is empty and was ignored")]
    Empty(String),
    #[error("Input file '{0}' was ignored: it is a linked cubin, which cannot be linked again")]
    Linked(String),
    #[error(
        "Input file '{0}' was ignored: it is no object, archive, cubin, fat binary or PTX text"
    )]
    Unknown(String),
    #[error("Input file '{0}' was ignored: LTO-IR is linked with -lto only")]
    LtoIr(String),
    #[error("Input file '{0}' was ignored: it is LLVM bitcode, which has to be compiled first")]
    Bitcode(String),
    #[error("Library '{name}' was ignored: there is no lib{name}.a in the library paths")]
    Library { name: String },
    #[error(
        "Library '{file}' has no code for '{arch}' in {count} of its members, which were ignored"
    )]
    Members { file: String, arch: String, count: usize },
    #[error("Library '{file}' has {count} more members that were ignored")]
    Others { file: String, count: usize },
}

/// Messages about inputs. Texts are nvlink's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum InputError {
    #[error("Could not open input file '{0}'")]
    Open(String),
    #[error("Could not read file '{0}'")]
    Read(String),
    #[error("Input '{name}' is {found}, not {wanted}")]
    WrongKind { name: String, wanted: &'static str, found: &'static str },
    #[error("cubin not an elf?")]
    NotElf,
    #[error("cubin not a device elf?")]
    NotDeviceElf,
    /// nvlink makes the name with room for three digits.
    #[error("Unknown arch name ''")]
    NoArch,
    #[error("fatbin wrong format?")]
    NotFatbin,
    #[error("should only see nvvm files when -lto")]
    Nvvm,
    #[error("should never see bc files")]
    Bitcode,
    #[error("Binary format for key='0', ident='' is not recognized")]
    UnknownFormat,
    #[error("Could not find fatbin in '{0}'")]
    NoFatbin(String),
    #[error("unexpected archive format")]
    NotArchive,
    #[error(
        "Input '{0}' has no host code, which could cause later host link error if there is a \
         reference to it"
    )]
    NoHostCode(String),
    #[error("unexpected data in module_ids")]
    ModuleIds,
    #[error("Skipping incompatible '{path}' when searching for -l{name}")]
    Incompatible { path: String, name: String },
    #[error("SM Arch ('{arch}') not found in '{file}'")]
    ArchNotFound { arch: String, file: String },
    #[error("LTO objects found, use -dlto")]
    LtoFound,
    #[error("Uncompress failed")]
    Uncompress,
    #[error("Input file '{0}' size does not match target '-m64'")]
    NotCubin(String),
    #[error("elfLink internal error")]
    Internal,
    #[error("elfLink fatbinary error")]
    Fatbinary,
    #[error("requested LTO but '{0}' not built for LTO so doing partial LTO")]
    PartialLto(String),
    #[error("Ignoring -dlto option because no LTO objects found")]
    NoLto,
    #[error("merge_elf failed")]
    MergeFailed,
    #[error("LTO-IR in '{file}' cannot be compiled: {error}")]
    Lto { file: String, error: String },
    /// What NVIDIA's compiler says.
    #[error("{0}")]
    NvvmLog(String),
    #[error("elfLink JIT compile failed")]
    NvvmCompile,
    #[error("elfLink nvvm error")]
    NvvmInput,
    #[error("elfLink linker library load error")]
    NvvmLoad,
    #[error("doing partial LTO because no LTO-IR defines '{0}'")]
    LtoNeeds(String),
    #[error("PTX in '{file}' cannot be compiled: {error}")]
    Compiler { file: String, error: String },
}

/// Something in the order of the inputs.
enum Event<'a> {
    Line(Line),
    Piece(Piece<'a>),
    /// LTO-IR of this module stands here.
    Lto(ModuleNumber),
}

impl<'a> Event<'a> {
    /// What is told of it when nothing is linked.
    fn line(self, options: &Options) -> Option<Line> {
        match self {
            Event::Line(line) => Some(line),
            Event::Lto(_) => None,
            Event::Piece(piece) => {
                let told = InputError::PartialLto(piece.name);
                let wanted = options.lto() && !piece.system;
                wanted.then(|| Line::about(Severity::Info, told))
            }
        }
    }

    fn piece(&self) -> Option<&Piece<'a>> {
        match self {
            Event::Line(_) | Event::Lto(_) => None,
            Event::Piece(piece) => Some(piece),
        }
    }
}

/// The inputs cannot be gathered; why is in the lines, or the link was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// What an input tells of the kernels that host code refers to.
struct Told<'a> {
    /// The modules of the input.
    modules: Vec<ModuleNumber>,
    /// Part of a system library.
    system: bool,
    /// Lists of names; `None` when it does not tell.
    lists: Option<Vec<(Reference, Section<'a>)>>,
}

/// What a walk over the inputs collects.
struct Gather<'a, 'o> {
    options: &'o Options,
    items: &'a [Item<'a>],
    target: Target,
    /// The release whose images are chosen.
    rules: &'static Dialect,
    store: &'a Store,
    session: &'o Session,
    events: Vec<Event<'a>>,
    /// What each input tells of the kernels that host code refers to.
    told: Vec<Told<'a>>,
    /// Some event is an error: nvlink stops at the next container it opens.
    failed: bool,
    found: Gathered<'a>,
    /// Archives seen, by device and inode.
    seen: Vec<Identity>,
    /// Files that thin archives name.
    thin_members: HashMap<Identity, &'a [u8]>,
    /// How many members of the archive that is being read are ignored so far.
    members_ignored: Option<usize>,
    /// The working folder, once somebody asked for it.
    folder: Option<PathBuf>,
}

/// Reads all inputs; `failed` when there was an error before. Returns what there is to say: with
/// [`Stopped`] the last line is fatal.
pub(crate) fn gather<'a>(
    options: &Options,
    items: &'a [Item<'a>],
    target: Target,
    rules: &'static Dialect,
    store: &'a Store,
    session: &Session,
    failed: bool,
) -> (Gathered<'a>, Vec<Line>, Result<(), Stopped>) {
    let mut gather = Gather {
        options,
        items,
        target,
        rules,
        store,
        session,
        events: Vec::new(),
        told: Vec::new(),
        failed,
        found: Gathered::default(),
        seen: Vec::new(),
        thin_members: HashMap::new(),
        members_ignored: None,
        folder: None,
    };
    let walked = gather.walk();
    gather.leave_out_linked();
    let Gather { events, told, mut found, .. } = gather;
    let mut lines = Vec::new();
    let ready = match target {
        Target::Real(arch) => {
            ready::ready(options, arch, events, &mut found, &mut lines, store, session)
        }
        // Nothing is made of the inputs.
        _ => {
            let other = |piece: &Piece<'_>| !piece.system;
            found.whole =
                !found.lto.is_empty() && !events.iter().filter_map(Event::piece).any(other);
            lines.extend(events.into_iter().filter_map(|event| event.line(options)));
            Ok(())
        }
    };
    found.references = host::references(&told, &found.registration);
    (found, lines, ready.and(walked))
}

impl<'a> Gather<'a, '_> {
    /// A line of nvlink's.
    fn say(&mut self, severity: Severity, cause: impl Into<Cause>, notes: Vec<String>) {
        self.failed |= severity >= Severity::Error;
        self.line(severity, cause, notes);
    }

    fn line(&mut self, severity: Severity, cause: impl Into<Cause>, notes: Vec<String>) {
        self.events.push(Event::Line(Line::about(severity, cause).with_notes(notes)));
    }

    fn fatal(&mut self, error: InputError, notes: Vec<String>) -> Stopped {
        self.say(Severity::Fatal, error, notes);
        Stopped
    }

    /// A warning of nvlink's, which `-Werror` makes an error.
    fn warning(&mut self, error: InputError, notes: Vec<String>) {
        let severity = crate::lines::warning_severity(self.options);
        self.say(severity, error, notes);
    }

    /// Tells that an input is not linked: nvlink says nothing (docs/DIFFERENCES.md,
    /// ignored-inputs).
    fn ignored(&mut self, ignored: Ignored) {
        if let Some(count) = &mut self.members_ignored {
            *count += 1;
            if *count > archive::MAX_TOLD {
                return;
            }
        }
        if let Some(severity) = ignored_severity(self.options) {
            self.line(severity, ignored, Vec::new());
        }
    }
}

/// What it is when an input is not linked; `None` when nobody wants to know.
fn ignored_severity(options: &Options) -> Option<Severity> {
    match (options.flag(Id::Strict), options.flag(Id::DisableWarnings)) {
        (true, _) => Some(Severity::Error),
        (false, true) => None,
        (false, false) => Some(Severity::Warning),
    }
}
