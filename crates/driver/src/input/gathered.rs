//! The result of reading the inputs: device code on its way into the link, and facts about it.

use std::path::PathBuf;

use culd_fatbin::container::FatbinEntry;
use culd_fatbin::{Format, sniff};
use culd_link::{Dialect, Input, Severity};

use crate::hints::UnlinkedCode;
#[cfg(feature = "lto")]
use crate::lto_program::LtoProgram;
use crate::messages::{InputError, InputPlace, Line};
use crate::options::{CommandOptions, OptionId};
use crate::registration::{ModuleNumber, Registration};

/// Bytes of images that may be unpacked for one link: a small file can declare any size.
pub(crate) const MAX_UNPACKED: u64 = 8 << 30;

/// The result of reading the inputs.
#[derive(Default)]
pub(crate) struct Inputs<'a> {
    /// Cubins in link order.
    pub(crate) inputs: Vec<LinkCubin<'a>>,
    /// The modules of the program.
    pub(crate) registration: Registration<'a>,
    /// Kernels that host code refers to; `None` if some input has no such list.
    pub(crate) references: Option<HostUses<'a>>,
    /// Device code that is not linked, to explain undefined references.
    pub(crate) elsewhere: Vec<UnlinkedCode<'a>>,
    /// Names of the archives that were looked into, as messages name them.
    pub(crate) archives: Vec<String>,
    /// All files that were read, in order.
    pub(crate) files: Vec<PathBuf>,
    /// Archives that `-l` names: path as messages name it, name.
    pub(crate) libraries: Vec<(String, String)>,
    /// Names of `-l` without an archive.
    pub(crate) missing_libraries: Vec<String>,
    /// The number of fat binaries without an image for the target.
    pub(crate) without_code: usize,
    /// Another release would choose other images.
    pub(crate) depends_on_release: bool,
    /// Compilations.
    pub(crate) times: Vec<CompileTime>,
    /// LTO-IR that is linked, in order.
    pub(crate) lto: Vec<LtoPiece<'a>>,
    /// The number of pieces of it whose place is known.
    lto_placed: usize,
    /// The program that compiles it, if there is LTO-IR.
    #[cfg(feature = "lto")]
    pub(crate) lto_program: Option<LtoProgram>,
    /// There is LTO-IR in the inputs.
    pub(crate) has_lto: bool,
    /// nvlink finds out whether LTO-IR needs libcudadevrt: there is some in a host object, or a fat
    /// binary without an image for the target.
    pub(crate) asks_for_library: bool,
    /// The number of [`Inputs::inputs`] in front of the last LTO-IR, or of the last fat binary
    /// without an image for the target behind it.
    pub(crate) lto_place: usize,
    /// The cubin of all LTO-IR, in a link with other code.
    pub(crate) lto_cubin: Option<LtoCubin<'a>>,
    /// There is code that is not linked, because the target is virtual.
    pub(crate) leaves_code: bool,
    /// So is a system library.
    pub(crate) leaves_library: bool,
    /// The program is LTO-IR alone.
    pub(crate) whole: bool,
    /// The output, if it needs no link: PTX, or a program of LTO-IR alone.
    pub(crate) finished: Option<Vec<u8>>,
    /// The number of lines of the link in front of the first about inputs.
    pub(crate) lines_before: usize,
}

impl Inputs<'_> {
    /// Notes that a fat binary without an image for the target stands behind the inputs so far. To
    /// nvlink it is LTO-IR as far as places are concerned (docs/rules/lto.md, 1).
    pub(crate) fn place_without_code(&mut self) {
        self.lto_place = self.inputs.len();
    }

    /// Notes that the next piece of LTO-IR stands behind the inputs so far, and behind so many
    /// lines.
    pub(crate) fn place_lto(&mut self, lines: usize) {
        let place = InputPlace { inputs: self.inputs.len(), lines };
        self.lto_place = place.inputs;
        if let Some(piece) = self.lto.get_mut(self.lto_placed) {
            piece.place = place;
        }
        self.lto_placed += 1;
    }

    /// The inputs of the linker.
    pub(crate) fn link_inputs(&self) -> Vec<Input<'_>> {
        let ready = self.inputs.iter();
        ready
            .map(|LinkCubin { name, bytes, system, .. }| Input { name, bytes, system: *system })
            .collect()
    }

    /// The number of lines about inputs up to the cubin at `place`.
    pub(crate) fn lines_up_to(&self, place: usize) -> usize {
        self.inputs.get(place).map_or(usize::MAX, |input| input.lines)
    }
}

/// Patterns of kernels and constants that host code refers to, as sections in which NUL ends each
/// pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostUses<'a> {
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
    /// Some list is not from a system library; lists of system libraries alone select nothing.
    pub(crate) selects: bool,
}

/// One row of the time table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompileTime {
    /// Source, compiler, its input and its output, in nvlink's words.
    pub(crate) names: [String; 4],
    pub(crate) milliseconds: f64,
}

impl CompileTime {
    pub(crate) fn new(names: [&str; 4], milliseconds: f64) -> Self {
        CompileTime { names: names.map(str::to_owned), milliseconds }
    }

    /// PTX in `file`, which may be all of it.
    pub(crate) fn of_ptx(file: &str, whole_file: bool, milliseconds: f64) -> Self {
        let (source, made) = if whole_file { (file, "") } else { ("ptx", "cubin") };
        CompileTime::new([source, "ptxas", file, made], milliseconds)
    }
}

/// Something in the order of the inputs.
pub(super) enum InputEvent<'a> {
    Line(Line),
    Piece(InputPiece<'a>),
    /// LTO-IR of this module stands here.
    Lto(ModuleNumber),
    /// A fat binary of this module without an image for the target stands here.
    WithoutCode(ModuleNumber),
}

impl<'a> InputEvent<'a> {
    /// Its lines, for a link without an output.
    pub(super) fn lines(self, options: &CommandOptions) -> impl Iterator<Item = Line> {
        let lines = match self {
            InputEvent::Line(line) => [Some(line), None],
            InputEvent::Lto(_) | InputEvent::WithoutCode(_) => [None, None],
            InputEvent::Piece(InputPiece { name, system, info_behind_compiler, .. }) => {
                let wanted = options.lto() && !system;
                let partial = || Line::about(Severity::Info, InputError::PartialLto(name));
                [info_behind_compiler, wanted.then(partial)]
            }
        };
        lines.into_iter().flatten()
    }

    /// An object that needs neither unpacking nor a compiler.
    pub(super) fn cubin(&self) -> Option<LinkCubin<'a>> {
        let InputPiece { name, system, code: DeviceCode::Cubin(bytes), .. } = self.piece()? else {
            return None;
        };
        let (name, system, kind) = (name.clone(), *system, CubinOrigin::Cubin);
        let object = sniff(bytes) == Format::RelocatableCubin;
        object.then_some(LinkCubin { name, bytes, system, kind, lines: 0 })
    }

    pub(super) fn piece(&self) -> Option<&InputPiece<'a>> {
        match self {
            InputEvent::Line(_) | InputEvent::Lto(_) | InputEvent::WithoutCode(_) => None,
            InputEvent::Piece(piece) => Some(piece),
        }
    }
}

/// The inputs cannot be gathered. The lines say why, unless the link was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputStop;

/// Device code on its way into the link.
pub(super) struct InputPiece<'a> {
    pub(crate) name: String,
    pub(crate) system: bool,
    /// The code is a whole file.
    pub(crate) whole_file: bool,
    /// The module that it is in.
    pub(crate) module: ModuleNumber,
    pub(crate) code: DeviceCode<'a>,
    /// A line that nvlink prints once it has compiled the code.
    pub(crate) info_behind_compiler: Option<Line>,
}

/// Device code as it was found.
pub(crate) enum DeviceCode<'a> {
    Cubin(&'a [u8]),
    /// A cubin in a fat binary.
    Packed(FatbinEntry<'a>),
    Ptx(&'a [u8]),
    /// PTX in a fat binary.
    PackedPtx(FatbinEntry<'a>),
}

/// A cubin to be linked.
#[derive(Debug, Clone)]
pub(crate) struct LinkCubin<'a> {
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) bytes: &'a [u8],
    /// Part of a library that is linked only if something needs it.
    pub(crate) system: bool,
    /// Its kind before compilation.
    pub(crate) kind: CubinOrigin,
    /// The number of lines about inputs up to this one: nvlink prints no more of them if the link
    /// ends here.
    pub(crate) lines: usize,
}

impl<'a> LinkCubin<'a> {
    /// The cubin of the compiled LTO-IR of a link.
    pub(crate) fn of_lto_ir(bytes: &'a [u8]) -> Self {
        let name = LTO_CUBIN.to_owned();
        LinkCubin { name, bytes, system: false, kind: CubinOrigin::OfLtoIr, lines: usize::MAX }
    }
}

/// The name of the cubin of all LTO-IR in messages, as in nvlink.
pub(crate) const LTO_CUBIN: &str = "lto.cubin";

/// What a cubin was before it was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CubinOrigin {
    /// A cubin.
    Cubin,
    OfPtx,
    OfLtoIr,
}

/// A piece of LTO-IR.
#[derive(Debug, Clone)]
pub(crate) struct LtoPiece<'a> {
    /// A fat binary, or bare LTO-IR.
    pub(crate) fatbin: bool,
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) bytes: &'a [u8],
    /// The module that it is in.
    pub(crate) module: ModuleNumber,
    /// An image of the same source for the same target that is not LTO-IR.
    pub(crate) sibling: Option<FatbinEntry<'a>>,
    /// The options with which it was compiled, as far as they stand beside it.
    pub(crate) options: &'a [u8],
    /// Where it stands.
    pub(crate) place: InputPlace,
}

/// A cubin of LTO-IR, and where the last LTO-IR stood: behind how many of the other inputs.
pub(crate) struct LtoCubin<'a> {
    pub(crate) ready: LinkCubin<'a>,
    pub(crate) place: usize,
    pub(crate) reason: PartReason,
}

/// Why LTO-IR is not the whole program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartReason {
    /// Other code is linked, or the output is an object.
    OtherCode,
    /// It needs a function of a system library.
    Library,
}

impl<'a> LtoCubin<'a> {
    /// Puts it where `rules` want it among `inputs`.
    pub(crate) fn insert(self, inputs: &mut Vec<LinkCubin<'a>>, rules: &Dialect) {
        let place = if rules.lto_comes_first { 0 } else { self.place.min(inputs.len()) };
        inputs.insert(place, self.ready);
    }
}

/// A cubin from an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCubin {
    /// Its name in messages.
    pub name: String,
    /// The whole file.
    pub bytes: Vec<u8>,
}

/// The severity of a line about an ignored input; `None` if such lines are silenced.
pub(super) fn ignored_severity(options: &CommandOptions) -> Option<Severity> {
    match (options.flag(OptionId::Strict), options.flag(OptionId::DisableWarnings)) {
        (true, _) => Some(Severity::Error),
        (false, true) => None,
        (false, false) => Some(Severity::Warning),
    }
}
