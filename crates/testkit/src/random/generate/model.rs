//! The model of a generated program: a syntax tree of several PTX files that are linked together.
//!
//! In: a tree that [`super::generate`] builds and [`crate::random::reduce`] reduces. Out: PTX,
//! which [`super::ptx`] prints. Guaranteed: a tree without some unit, item or statement can still
//! be printed, because every reference is a [`GeneratedSymbolId`] whose declaration follows from
//! its symbol.

use crate::fixtures::uidx::TableOrder;
use crate::random::edit::Edit;
use std::fmt;

/// An architecture that ptxas accepts and PTX can name as its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PtxArch(pub &'static str);

impl PtxArch {
    /// Architectures whose cubins have Mercury code too; the generator uses one only if it is
    /// named.
    pub const MERCURY: [PtxArch; 8] = [
        PtxArch("sm_100"),
        PtxArch("sm_100a"),
        PtxArch("sm_100f"),
        PtxArch("sm_103"),
        PtxArch("sm_107"),
        PtxArch("sm_110"),
        PtxArch("sm_120"),
        PtxArch("sm_121"),
    ];

    /// Architectures before those of CUDA 13; the generator uses one only if it is named.
    pub const OLD: [PtxArch; 8] = [
        PtxArch("sm_50"),
        PtxArch("sm_52"),
        PtxArch("sm_53"),
        PtxArch("sm_60"),
        PtxArch("sm_61"),
        PtxArch("sm_62"),
        PtxArch("sm_70"),
        PtxArch("sm_72"),
    ];

    /// The architectures the generator draws from.
    pub const ALL: [PtxArch; 8] = [
        PtxArch("sm_75"),
        PtxArch("sm_80"),
        PtxArch("sm_86"),
        PtxArch("sm_87"),
        PtxArch("sm_88"),
        PtxArch("sm_89"),
        PtxArch("sm_90"),
        PtxArch("sm_90a"),
    ];

    /// Targets of some releases only, or with the rules of another: used where they are named.
    pub const NAMED: [PtxArch; 5] = [
        PtxArch("sm_101"),
        PtxArch("sm_101a"),
        PtxArch("sm_103a"),
        PtxArch("sm_120a"),
        PtxArch("sm_121a"),
    ];

    /// The architecture of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::known().find(|arch| arch.0 == name)
    }

    /// All architectures.
    pub fn known() -> impl Iterator<Item = Self> {
        Self::OLD.into_iter().chain(Self::ALL).chain(Self::MERCURY).chain(Self::NAMED)
    }

    /// The SM number, without a suffix such as `a`.
    pub fn number(self) -> u32 {
        let digits: String = self.0.chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }

    /// The version of PTX that has everything generated for it.
    pub fn ptx_version(self) -> &'static str {
        if self.number() == 107 { "9.4" } else { "9.0" }
    }

    /// Other architectures whose cubins can be in a link for `self`.
    pub fn guests(self) -> &'static [PtxArch] {
        match self.0 {
            "sm_52" => &[PtxArch("sm_50")],
            "sm_61" => &[PtxArch("sm_60")],
            "sm_86" => &[PtxArch("sm_80")],
            "sm_89" => &[PtxArch("sm_86"), PtxArch("sm_80")],
            "sm_90" => &[PtxArch("sm_90a")],
            "sm_90a" => &[PtxArch("sm_90")],
            "sm_100" => &[PtxArch("sm_100a"), PtxArch("sm_100f")],
            "sm_100a" | "sm_100f" => &[PtxArch("sm_100")],
            "sm_121" => &[PtxArch("sm_120")],
            _ => &[],
        }
    }
}

impl fmt::Display for PtxArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Index of a [`GeneratedSymbol`] in [`GeneratedProgram::symbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GeneratedSymbolId(pub u32);

/// Several PTX files, and the options of their link.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedProgram {
    /// The seed it was made from.
    pub seed: u64,
    /// Name of the family it was made for.
    pub family: &'static str,
    /// Value of `-arch`.
    pub link_arch: PtxArch,
    /// Further linker options.
    pub link_options: Vec<String>,
    /// All names; two local symbols of different files may share one.
    pub symbols: Vec<GeneratedSymbol>,
    /// The files, in command-line order.
    pub units: Vec<Unit>,
    /// The link gets libcudadevrt.
    pub library: bool,
    /// The index file of unified functions and variables that the link gets.
    pub index: Option<Index>,
    /// Edits of the compiled files; each list is for a link of its own. If empty, the files are
    /// linked as compiled.
    pub rounds: Vec<Vec<Edit>>,
}

impl GeneratedProgram {
    /// The symbol of an id.
    pub fn symbol(&self, id: GeneratedSymbolId) -> &GeneratedSymbol {
        &self.symbols[id.0 as usize]
    }

    /// Number of statements and items, which the reducer makes smaller.
    pub fn size(&self) -> usize {
        let items = self.units.iter().flat_map(|unit| &unit.items);
        let edits = self.rounds.iter().map(Vec::len).sum::<usize>();
        let parts = self.units.iter().flat_map(|unit| &unit.cuda).map(|cuda| cuda.parts.len());
        self.units.len()
            + parts.sum::<usize>()
            + items.map(GeneratedItem::size).sum::<usize>()
            + edits
    }
}

/// How an index file is made from the definitions of the compiled files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its version.
    pub version: u32,
    /// The order of places.
    pub order: TableOrder,
    /// The number of a place that is left out; functions count first, then variables.
    pub missing: Option<usize>,
}

/// One PTX file, or one of CUDA C++.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// File stem.
    pub name: String,
    /// `.version`.
    pub ptx_version: &'static str,
    /// Architecture of `.target`; not higher than `arch`.
    pub target: PtxArch,
    /// Value of ptxas `-arch`.
    pub arch: PtxArch,
    /// Further ptxas options.
    pub options: Vec<String>,
    /// Debug information.
    pub debug: DebugLevel,
    /// True for `.target …, texmode_independent`.
    pub independent_textures: bool,
    /// Declarations that differ from the symbol's own kind: the kind that this file gives a symbol
    /// of another file.
    pub beliefs: Vec<(GeneratedSymbolId, ModelSymbolKind)>,
    /// Definitions, in the order of the file.
    pub items: Vec<GeneratedItem>,
    /// It is compiled as a whole program (`-ewp`).
    pub whole_program: bool,
    /// The file is CUDA C++ and has no items; `options` are nvcc's.
    pub cuda: Option<Cuda>,
}

/// The text of a file in CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuda {
    /// Headers that they need, without brackets.
    pub headers: Vec<String>,
    /// Declarations that follow one another.
    pub parts: Vec<String>,
}

/// Debug information of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugLevel {
    /// None.
    Off,
    /// `.loc` lines and `ptxas -lineinfo`.
    Lines,
    /// Generated DWARF, `.target …, debug` and `ptxas -g`.
    Full,
}

/// A name and its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedSymbol {
    /// Its name in the file.
    pub name: String,
    /// Its kind.
    pub kind: ModelSymbolKind,
    /// The id of a unified function or variable.
    pub unified: Option<(u64, u64)>,
}

/// The kind of a symbol, with all that an `.extern` declaration needs.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSymbolKind {
    /// A device function.
    Function(Signature),
    /// A kernel, with the types of its parameters after the result pointer.
    Entry(Vec<GeneratedType>),
    /// A variable.
    Variable(GeneratedSpace, ArrayShape),
    /// `.extern .shared x[]`.
    DynamicShared(ArrayShape),
    /// A legacy texture, surface or sampler reference.
    Reference(OpaqueReference),
}

/// A parameter of a kernel that is a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceParameter {
    /// Its kind.
    pub kind: OpaqueReference,
    /// The number in its name.
    pub number: u32,
}

/// Kinds of opaque references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpaqueReference {
    /// `.texref`
    Texture,
    /// `.surfref`
    Surface,
    /// `.samplerref`
    Sampler,
}

/// Memory space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedSpace {
    /// `.global`
    Global,
    /// `.global .attribute(.managed)`
    Managed,
    /// `.const`
    Const,
    /// `.shared`
    Shared,
}

impl GeneratedSpace {
    /// Its name in instructions, without the dot.
    pub fn name(self) -> &'static str {
        match self {
            GeneratedSpace::Global | GeneratedSpace::Managed => "global",
            GeneratedSpace::Const => "const",
            GeneratedSpace::Shared => "shared",
        }
    }
}

/// Element type, number of elements (0: a declaration without a size) and alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Size of an element in bytes: 1, 2, 4 or 8.
    pub width: u32,
    /// Number of elements.
    pub count: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

impl ArrayShape {
    /// Size in bytes.
    pub fn bytes(self) -> u32 {
        self.width * self.count
    }
}

/// Type of a parameter or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedType {
    /// `.b32`
    B32,
    /// `.b64`
    B64,
    /// `.f32`
    F32,
    /// `.f64`
    F64,
    /// `.align A .b8 x[N]`
    Bytes {
        /// Size in bytes, a multiple of 4.
        size: u32,
        /// Alignment in bytes, at least 4.
        align: u32,
    },
}

/// Parameters and result of a device function.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Signature {
    /// Types of the parameters.
    pub params: Vec<GeneratedType>,
    /// Type of the result.
    pub result: Option<GeneratedType>,
    /// `.noreturn`; such a function has no result.
    pub noreturn: bool,
}

/// The visibility of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedLinkage {
    /// Only the file itself.
    Local,
    /// Everyone.
    Visible,
    /// Everyone, unless another definition wins.
    Weak,
    /// `.common`: merged with those of the same name.
    Common,
}

/// One definition.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratedItem {
    /// A variable of any space, or an opaque reference.
    Variable(GeneratedVariable),
    /// A device function or a kernel.
    Function(GeneratedFunction),
    /// `.alias name, target`.
    Alias {
        /// The second name.
        symbol: GeneratedSymbolId,
        /// True for a weak second name.
        weak: bool,
        /// A function that the same file defines.
        target: GeneratedSymbolId,
    },
}

impl GeneratedItem {
    /// The symbol it defines.
    pub fn symbol(&self) -> GeneratedSymbolId {
        match self {
            GeneratedItem::Variable(variable) => variable.symbol,
            GeneratedItem::Function(function) => function.symbol,
            GeneratedItem::Alias { symbol, .. } => *symbol,
        }
    }

    /// Every symbol that it refers to, once for each reference.
    pub fn references(&self) -> Vec<GeneratedSymbolId> {
        let mut found = Vec::new();
        match self {
            GeneratedItem::Variable(variable) => {
                found.extend(variable.init.iter().filter_map(|init| match init {
                    Init::Address { symbol, .. } => Some(*symbol),
                    Init::Value(_) => None,
                }))
            }
            GeneratedItem::Function(function) => {
                function.body.iter().for_each(|stmt| stmt.references(&mut found))
            }
            GeneratedItem::Alias { target, .. } => found.push(*target),
        }
        found
    }

    /// True if one of its statements calls this driver function.
    pub fn calls(&self, syscall: Syscall) -> bool {
        let GeneratedItem::Function(function) = self else { return false };
        function.body.iter().any(|stmt| stmt.any(&|stmt| *stmt == Stmt::Syscall(syscall)))
    }

    fn size(&self) -> usize {
        match self {
            GeneratedItem::Variable(variable) => 1 + variable.init.len(),
            GeneratedItem::Function(function) => {
                1 + function.body.iter().map(Stmt::size).sum::<usize>()
            }
            GeneratedItem::Alias { .. } => 1,
        }
    }
}

/// A variable definition.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedVariable {
    /// Its name.
    pub symbol: GeneratedSymbolId,
    /// Its visibility.
    pub linkage: GeneratedLinkage,
    /// Its kind in this file; the kinds of weak and common symbols differ between files.
    pub kind: ModelSymbolKind,
    /// Initial elements; the rest is 0.
    pub init: Vec<Init>,
}

/// One initial element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// A number.
    Value(u64),
    /// The address of a symbol.
    Address {
        /// The symbol of the address.
        symbol: GeneratedSymbolId,
        /// Added to it.
        addend: u32,
        /// `generic(…)`.
        generic: bool,
        /// `mask(…)`: which byte of the address.
        byte: Option<u8>,
    },
}

/// A function definition.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedFunction {
    /// Its name; the kind distinguishes functions from kernels.
    pub symbol: GeneratedSymbolId,
    /// Its visibility.
    pub linkage: GeneratedLinkage,
    /// Parameters of a kernel that are references.
    pub references: Vec<ReferenceParameter>,
    /// Performance directives of a kernel (`.maxntid 128`), printed as they are.
    pub directives: Vec<String>,
    /// The statements between reading the parameters and storing the result.
    pub body: Vec<Stmt>,
}

/// One statement. It reads and writes the accumulator and depends on nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// A few dependent operations with varied constants.
    Arith(u32),
    /// Keeps this many values alive at once, which raises the register count.
    Pressure(u32),
    /// A direct call.
    Call(GeneratedSymbolId),
    /// A call through the address of a function.
    CallAddress(GeneratedSymbolId),
    /// A call through an element of a table of function addresses.
    CallTable {
        /// The table variable, elements of 8 bytes.
        table: GeneratedSymbolId,
        /// Which element.
        index: u32,
        /// The signature at the call site.
        signature: Signature,
    },
    /// Mixes the address of any symbol into the accumulator.
    Address {
        /// The symbol of the address.
        symbol: GeneratedSymbolId,
        /// Added to it.
        addend: u32,
        /// Convert to a generic address.
        generic: bool,
    },
    /// Reads or writes a variable.
    Access {
        /// Which variable.
        symbol: GeneratedSymbolId,
        /// At which byte.
        offset: u32,
        /// Store instead of load (not in constant space).
        store: bool,
        /// Add a run-time index to the address.
        indexed: bool,
    },
    /// A shared variable of function scope.
    FunctionShared {
        /// Its shape.
        shape: ArrayShape,
        /// False: declared and left alone.
        used: bool,
    },
    /// A local array that is indexed at run time, so that it needs a frame.
    Frame(u32),
    /// A local array of run-time size.
    Alloca,
    /// Fp64 operations with this many different literals, which live in bank 2 on some
    /// architectures.
    Doubles(u32),
    /// A switch with this many cases by `brx.idx`.
    Switch(u32),
    /// `bar.sync n`.
    Barrier(u32),
    /// A division or root. Its slow path is a local function that ptxas adds, with the same name in
    /// every file.
    SlowPath(SlowPath),
    /// A call of a function the driver provides.
    Syscall(Syscall),
    /// Reads a texture, surface or texture with sampler.
    Fetch {
        /// The texture or surface.
        symbol: GeneratedSymbolId,
        /// The sampler, in independent mode.
        sampler: Option<GeneratedSymbolId>,
    },
    /// Queries a reference, writes a surface, or takes an address.
    Query {
        /// The reference.
        symbol: GeneratedSymbolId,
        /// Which of them.
        how: u32,
    },
    /// The same for a parameter.
    QueryParameter {
        /// The parameter.
        parameter: ReferenceParameter,
        /// Which of them.
        how: u32,
    },
    /// Reads a texture or surface object.
    Object {
        /// A surface.
        surface: bool,
    },
    /// An instruction that adds to the attributes of the function.
    Special(SpecialInstruction),
    /// A counted loop.
    Loop(Vec<Stmt>),
    /// Statements under a condition.
    If(Vec<Stmt>),
}

impl Stmt {
    /// True if `test` holds for it or for a statement in it.
    pub fn any(&self, test: &dyn Fn(&Stmt) -> bool) -> bool {
        let inside = match self {
            Stmt::Loop(body) | Stmt::If(body) => body.iter().any(|stmt| stmt.any(test)),
            _ => false,
        };
        inside || test(self)
    }

    /// Adds every symbol it refers to.
    pub fn references(&self, found: &mut Vec<GeneratedSymbolId>) {
        match self {
            Stmt::Call(symbol) | Stmt::CallAddress(symbol) => found.push(*symbol),
            Stmt::CallTable { table: symbol, .. }
            | Stmt::Address { symbol, .. }
            | Stmt::Query { symbol, .. }
            | Stmt::Access { symbol, .. } => found.push(*symbol),
            Stmt::Fetch { symbol, sampler } => found.extend(sampler.iter().chain([symbol])),
            Stmt::Loop(body) | Stmt::If(body) => {
                body.iter().for_each(|stmt| stmt.references(found))
            }
            _ => {}
        }
    }

    fn size(&self) -> usize {
        match self {
            Stmt::Loop(body) | Stmt::If(body) => 1 + body.iter().map(Stmt::size).sum::<usize>(),
            _ => 1,
        }
    }
}

/// Operations with a function of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowPath {
    /// Fp32 division.
    DivideF32,
    /// Fp32 root.
    RootF32,
    /// Fp64 division.
    DivideF64,
    /// Fp64 root.
    RootF64,
    /// Fp64 reciprocal.
    ReciprocalF64,
    /// Unsigned 64-bit division.
    DivideU64,
    /// Signed 64-bit remainder.
    RemainderS64,
}

impl SlowPath {
    /// All of them.
    pub const ALL: [SlowPath; 7] = [
        SlowPath::DivideF32,
        SlowPath::RootF32,
        SlowPath::DivideF64,
        SlowPath::RootF64,
        SlowPath::ReciprocalF64,
        SlowPath::DivideU64,
        SlowPath::RemainderS64,
    ];
}

/// Functions that may stay undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syscall {
    /// `vprintf`
    Vprintf,
    /// `malloc`
    Malloc,
    /// `free`
    Free,
    /// `__assertfail`
    AssertFail,
    /// A name of the form `__cuda_syscall…`
    Other,
}

impl Syscall {
    /// All of them.
    pub const ALL: [Syscall; 5] =
        [Syscall::Vprintf, Syscall::Malloc, Syscall::Free, Syscall::AssertFail, Syscall::Other];
}

/// Instructions that ptxas records in `.nv.info.<function>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialInstruction {
    /// `%ctaid.z`
    CtaidZ,
    /// `mbarrier.init` (sm_80 and later)
    Mbarrier,
    /// `vote`, `shfl`, `match`
    Warp,
    /// `exit` under a condition
    Exit,
    /// Sparse `mma.sp` (sm_80 and later)
    SparseMma,
    /// Cluster barrier (sm_90 and later)
    Cluster,
    /// `griddepcontrol` (sm_90 and later)
    GridDependency,
    /// `setmaxnreg` (sm_90a)
    SetMaxRegisters,
    /// Reads of the reserved shared memory registers (sm_80 and later)
    ReservedShared,
    /// `trap`
    Trap,
    /// Atomics on global and shared memory
    Atomic,
    /// `bar.sync` with the number in a register
    BarrierRegister,
    /// `cp.async.bulk` (sm_90 and later)
    BulkCopy,
    /// `wgmma` (sm_90a)
    Wgmma,
    /// `bar.sync` and `bar.arrive` of some of the threads
    BarrierPart,
    /// `istypep`, and `isspacep` of every space
    Kinds,
    /// Atomics on 16-bit numbers in global and shared memory, which some architectures emulate
    AtomicHalf,
    /// Fences and atomics of the whole system, `nanosleep`
    System,
    /// `stacksave` and `stackrestore`
    Stack,
    /// Special registers of the launch
    Launch,
    /// `redux` and `cp.async` (sm_80 and later)
    AsyncCopy,
    /// `elect.sync` and `mapa` (sm_90 and later)
    Elect,
    /// `mbarrier.try_wait` without `init` (sm_90 and later)
    TryWait,
    /// `cp.async.bulk.tensor` (sm_90 and later)
    TensorCopy,
    /// `barrier.cluster` in its relaxed and aligned forms (sm_90 and later)
    ClusterAligned,
    /// `clusterlaunchcontrol` (sm_100 and later)
    LaunchControl,
    /// `tcgen05` for one block (sm_100a, sm_100f)
    Tensor,
    /// `tcgen05` for a pair of blocks (sm_100a, sm_100f)
    TensorPair,
    /// `tcgen05.ld` alone (sm_100a, sm_100f)
    TensorLoad,
    /// `setmaxnreg.dec` (sm_90a, sm_100a)
    ReleaseRegisters,
}

impl SpecialInstruction {
    /// All of them, with the first SM that has each (90a: only the `a` architecture).
    pub const ALL: [(SpecialInstruction, u32); 14] = [
        (SpecialInstruction::CtaidZ, 0),
        (SpecialInstruction::Mbarrier, 80),
        (SpecialInstruction::Warp, 0),
        (SpecialInstruction::Exit, 0),
        (SpecialInstruction::SparseMma, 80),
        (SpecialInstruction::Cluster, 90),
        (SpecialInstruction::GridDependency, 90),
        (SpecialInstruction::SetMaxRegisters, 901),
        (SpecialInstruction::ReservedShared, 80),
        (SpecialInstruction::Trap, 0),
        (SpecialInstruction::Atomic, 0),
        (SpecialInstruction::BarrierRegister, 0),
        (SpecialInstruction::BulkCopy, 90),
        (SpecialInstruction::Wgmma, 901),
    ];

    /// More of them, only for families that have them.
    pub const RECENT: [(SpecialInstruction, &[u32]); 16] = [
        (SpecialInstruction::BarrierPart, &[]),
        (SpecialInstruction::Kinds, &[]),
        (SpecialInstruction::AtomicHalf, &[]),
        (SpecialInstruction::System, &[]),
        (SpecialInstruction::Stack, &[]),
        (SpecialInstruction::Launch, &[]),
        (SpecialInstruction::AsyncCopy, &[80]),
        (SpecialInstruction::Elect, &[90]),
        (SpecialInstruction::TryWait, &[90]),
        (SpecialInstruction::TensorCopy, &[90]),
        (SpecialInstruction::ClusterAligned, &[90]),
        (SpecialInstruction::LaunchControl, &[100]),
        (SpecialInstruction::Tensor, &[1001]),
        (SpecialInstruction::TensorPair, &[1001]),
        (SpecialInstruction::TensorLoad, &[1001]),
        (SpecialInstruction::ReleaseRegisters, &[901, 1001]),
    ];
}
