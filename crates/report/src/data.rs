//! The content of a report, as plain data.
//!
//! In: nothing. Out: the types of a [`Report`]. Guaranteed: a place is an index into a list of the
//! report and exists; sizes are bytes; names are text ([`culd_text::name`]). The JSON form is that
//! of docs/REPORT.md: absent, empty and false fields are left out.

use std::borrow::Cow;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// The name of the JSON form, and its version. Within a version things are only added.
pub const SCHEMA: &str = "culd-report/2";

#[cfg(feature = "serde")]
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The report of a link, or of a program.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that made it, with its version.
    pub producer: String,
    /// The link; `None` for a program that was there already.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub link: Option<ReportLink>,
    /// The file that was looked at; `None` for a link.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub file: Option<File>,
    /// The inputs of the link, in link order, and inputs that are not linked.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub inputs: Vec<ReportInput>,
    /// The cubins of the file: the one output of a link, or all device code of a program.
    pub images: Vec<ReportImage>,
    /// Definitions of the inputs that are in no image because nothing needs them.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub removed: Vec<ReportRemoval>,
    /// Names that several inputs define, of which one definition is kept.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub copies: Vec<ReportCopies>,
    /// The messages of the linker.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub messages: Vec<ReportMessage>,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportLink {
    /// The output file as the command line names it; empty if there was no output.
    pub output: String,
    /// The target: `sm_90a`.
    pub target: String,
    /// The release of nvlink whose rules are followed: `13.0`.
    pub dialect: String,
    /// The rules in which that release differs from the newest one that culd knows: names of the
    /// fields of [`culd_link::Dialect`].
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub rules: Vec<String>,
    /// The options of the command line, without inputs.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub options: Vec<String>,
    /// Bytes of all cubins that were linked.
    pub input_bytes: u64,
    /// Bytes of the output.
    pub output_bytes: u64,
    /// The phases of the link and their times, in order.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub phases: Vec<ReportPhase>,
}

/// A phase of a link.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportPhase {
    /// Its name.
    pub name: String,
    /// Wall-clock time in milliseconds.
    pub ms: f64,
}

/// A file that was looked at.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct File {
    /// Its path.
    pub name: String,
    /// The kind of file: `executable`, `shared library`, `object`, `archive`, `fat binary`,
    /// `cubin`.
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
    /// Bytes of the sections that hold device code.
    pub device_bytes: u64,
}

/// An input of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportInput {
    /// Its name in messages.
    pub name: String,
    /// The file of the command line or of a library path that it comes from.
    pub file: String,
    /// The member of an archive, or the entry of a fat binary, that it is.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub member: String,
    /// The kind of input, before it was compiled or unpacked.
    pub kind: ReportInputKind,
    /// Why the link has looked at it.
    pub why: ReportReason,
    /// Details of `why`: the name of `-l`, or the symbol that needs the input.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub cause: String,
    /// The input that refers to the symbol in `cause`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub caused_by: Option<usize>,
    /// Bytes of its cubin.
    pub bytes: u64,
    /// Why it is not linked; empty for one that is.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub ignored: String,
}

/// The kind of an input, before it was compiled or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ReportInputKind {
    /// A relocatable cubin.
    #[default]
    Cubin,
    /// PTX, which ptxas has compiled.
    Ptx,
    /// LTO-IR, which a library of NVIDIA's has compiled.
    LtoIr,
    /// Something else.
    Other,
}

/// Why a link has looked at an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ReportReason {
    /// The command line names its file.
    #[default]
    Named,
    /// `-l` names its library.
    Library,
    /// A symbol is undefined without it, which a system library defines.
    Undefined,
}

/// Device code for one architecture.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportImage {
    /// The place in the file: the archive member, the section, the number of the entry.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub place: String,
    /// The kind of code: `cubin`, `ptx`, `lto-ir`.
    pub kind: String,
    /// The architecture: `sm_90a`; of PTX `compute_90`.
    pub target: String,
    /// The compression in the file: `lz4`, `zstd`; empty if it is not compressed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub compression: String,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes when it is unpacked.
    pub bytes: u64,
    /// The damage that ended reading; empty if there is none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub defect: String,
    /// The resources of a multiprocessor of the target; `None` if no numbers were published.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub limits: Option<ReportLimits>,
    /// Prototypes of indirect calls.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub prototypes: Vec<ReportPrototype>,
    /// Relocations that the driver applies, by type.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub relocations: Vec<ReportRelocations>,
    /// Theoretical occupancies of kernels, each for some sizes of a block, without dynamic shared
    /// memory. Kernels that need the same have one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub occupancies: Vec<Vec<ReportOccupancy>>,
    /// The kinds of the sections.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub section_kinds: Vec<ReportSectionKind>,
    /// Sections in file order, without the null section.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub sections: Vec<ReportSection>,
    /// Functions, kernels among them.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub functions: Vec<ReportFunction>,
    /// Variables.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub variables: Vec<ReportVariable>,
}

/// The resources of a multiprocessor ([`culd_abi::limits::Limits`]).
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportLimits {
    /// The document that has the numbers.
    pub source: String,
    /// Blocks that are resident at once.
    pub blocks: u32,
    /// Warps that are resident at once.
    pub warps: u32,
    /// Registers.
    pub registers: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Bytes of shared memory of one block.
    pub block_shared: u32,
}

/// What sections have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportSectionKind {
    /// The name of the section, or its part in front of the name of the section's function.
    pub name: String,
    /// The name of the section's function follows `name`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub of_function: bool,
    /// The category of the section.
    pub category: Category,
    /// `sh_type`.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub sh_type: u32,
    /// `sh_flags`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub flags: u64,
    /// Alignment.
    pub align: u64,
}

/// A section. In the JSON form it is a list of these fields.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ReportSection {
    /// The place of its kind.
    pub kind: usize,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes, in the file or not.
    pub bytes: u64,
    /// The function that it belongs to.
    pub function: Option<usize>,
    /// The only input that it comes from.
    pub input: Option<usize>,
    /// The inputs, if there are several: input, offset in the section, bytes.
    pub pieces: Vec<(usize, u64, u64)>,
}

/// The category of a section, by the kind of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Category {
    /// Machine code.
    Code,
    /// Mercury code, of which the driver can make machine code for another device.
    Mercury,
    /// Constant banks: variables, literals, parameters.
    Constants,
    /// Initialised variables in global memory.
    Data,
    /// Zeroed variables in global memory, without bytes in the file.
    Zeroed,
    /// Shared memory, without bytes in the file.
    Shared,
    /// Attributes of functions and of the file.
    Attributes,
    /// Relocations.
    Relocations,
    /// Debug information.
    Debug,
    /// Tables of symbols and strings.
    Symbols,
    /// The call graph and the prototypes.
    Calls,
    /// Notes about tools and the driver.
    Notes,
    /// Something else.
    #[default]
    Other,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportFunction {
    /// The mangled name.
    pub name: String,
    /// The name in the source; empty if it is the same.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub demangled: String,
    /// The input that defines it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub input: Option<usize>,
    /// The section of its machine code; `None` for a function that is not defined here.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub section: Option<usize>,
    /// The offset of the code in the section.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub offset: u64,
    /// Bytes of its machine code.
    pub code: u64,
    /// Registers of a thread.
    #[cfg_attr(feature = "serde", serde(default = "ReportNeed::zero"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "ReportNeed::is_zero"))]
    pub registers: ReportNeed,
    /// Barriers of a block.
    #[cfg_attr(feature = "serde", serde(default = "ReportNeed::zero"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "ReportNeed::is_zero"))]
    pub barriers: ReportNeed,
    /// Bytes of stack of a thread.
    #[cfg_attr(feature = "serde", serde(default = "ReportStack::zero"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "ReportStack::is_zero"))]
    pub stack: ReportStack,
    /// Its address is taken.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub address_taken: bool,
    /// It can call itself, directly or through others.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub recursive: bool,
    /// Functions that it calls directly.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub calls: Vec<usize>,
    /// Prototypes of its indirect calls.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub indirect: Vec<usize>,
    /// The properties that only a kernel has.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub kernel: Option<Box<ReportKernel>>,
    /// The place in the source: `saxpy.cu:12`; empty if the debug information does not have it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub source: String,
}

/// A number that a function needs of a resource, alone and with all functions that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Deserialize), serde(from = "crate::form::NeedForm"))]
#[non_exhaustive]
pub struct ReportNeed {
    /// The function's own number; `None` where only the number of the whole tree of calls is known.
    pub own: Option<u32>,
    /// The number with all callees: for a kernel, the number that the driver reads.
    pub total: Option<u32>,
    /// The function that needs this number, if it is another one.
    pub set_by: Option<usize>,
}

/// The bytes of the stack that a function needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Deserialize), serde(from = "crate::form::StackForm"))]
#[non_exhaustive]
pub struct ReportStack {
    /// The function's own frame.
    pub own: Option<u32>,
    /// Bytes with the deepest chain of calls; `None` if the depth has no limit, or is not known.
    pub total: Option<u32>,
    /// The next function of the deepest chain; `None` at its end.
    pub next: Option<usize>,
}

/// The properties that only a kernel has.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportKernel {
    /// Bytes of static shared memory of a block, with the part that the system keeps.
    pub shared: u64,
    /// The part of `shared` that the system keeps.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub system_shared: u64,
    /// It uses shared memory whose size the launch decides.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub dynamic_shared: bool,
    /// Bytes of local memory of a thread, without the stack.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub local: u64,
    /// Constant banks: number, bytes.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub constants: Vec<(u8, u64)>,
    /// Legacy textures that it can use.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub textures: usize,
    /// Legacy surfaces that it can use.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub surfaces: usize,
    /// Legacy samplers that it can use.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub samplers: usize,
    /// The offset of the parameters in constant bank 0.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub parameter_offset: u32,
    /// Bytes of all parameters.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub parameter_bytes: u32,
    /// The parameters in order: offset, bytes.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub parameters: Vec<(u32, u32)>,
    /// The launch bounds.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub bounds: Bounds,
    /// The place of its occupancy; `None` if the limits of the target are not known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub occupancy: Option<usize>,
}

/// The launch bounds of a kernel, from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct Bounds {
    /// The most threads of a block in each dimension.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub most_threads: Option<[u32; 3]>,
    /// The threads of a block.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub threads: Option<[u32; 3]>,
    /// The most registers of a thread.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub registers: Option<u32>,
    /// The blocks of a cluster.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub cluster: Option<[u32; 3]>,
    /// The most blocks of a cluster.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub most_cluster: Option<u32>,
}

/// The share of a multiprocessor that a kernel can use with blocks of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportOccupancy {
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that are resident at once; 0 if not even one fits.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// The limit that keeps the number of blocks down.
    pub limit: ReportLimit,
    /// The number of blocks that each limit alone would allow: warps, blocks, registers, shared
    /// memory, barriers.
    pub by: [u32; 5],
}

/// The limit that keeps more blocks from being resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ReportLimit {
    /// The number of warps.
    #[default]
    Warps,
    /// The number of blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// Barriers.
    Barriers,
}

/// The prototype of an indirect call.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportPrototype {
    /// The text of the prototype in the cubin.
    pub text: String,
    /// Functions with this prototype whose address is taken.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub functions: Vec<usize>,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportVariable {
    /// The mangled name.
    pub name: String,
    /// The name in the source; empty if it is the same.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub demangled: String,
    /// The address space.
    pub space: ReportSpace,
    /// The input that defines it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub input: Option<usize>,
    /// The section; `None` for shared variables, which have a place in each kernel.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub section: Option<usize>,
    /// The offset in the section.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A memory space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ReportSpace {
    /// Global memory.
    #[default]
    Global,
    /// Global memory that host and device share.
    Managed,
    /// Constant memory.
    Constant,
    /// Shared memory.
    Shared,
}

/// Relocations of one type.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportRelocations {
    /// The name of the type.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: String,
    /// The number of them.
    pub count: u64,
}

/// A definition that is in no image because nothing needs it.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportRemoval {
    /// The mangled name.
    pub name: String,
    /// The name in the source; empty if it is the same.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub demangled: String,
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// The input that defines it.
    pub input: usize,
    /// Bytes.
    pub bytes: u64,
    /// The reason.
    pub why: RemovedWhy,
}

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum DefinitionKind {
    /// A function. It may be a kernel if the input does not say.
    #[default]
    Function,
    /// A kernel.
    Kernel,
    /// A variable.
    Variable,
}

/// Why a definition is not needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RemovedWhy {
    /// No kernel reaches the function, and nothing takes its address.
    #[default]
    Unreached,
    /// Neither the options nor the host's code use the kernel.
    Unused,
}

/// A name that several inputs define.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportCopies {
    /// The mangled name.
    pub name: String,
    /// The name in the source; empty if it is the same.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub demangled: String,
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// The input whose definition is kept.
    pub kept: usize,
    /// Bytes of that definition.
    pub bytes: u64,
    /// The definitions that were dropped: input, bytes.
    pub dropped: Vec<(usize, u64)>,
}

/// Something that the linker has to say.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default))]
#[non_exhaustive]
pub struct ReportMessage {
    /// The severity: `info`, `warning`, `error`, `fatal`.
    pub severity: String,
    /// The text of the message.
    pub text: String,
    /// The notes of the message, in reading order.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub notes: Vec<String>,
}

/// The kind of a section whose kind is not in the list.
static UNKNOWN: ReportSectionKind = ReportSectionKind {
    name: String::new(),
    of_function: false,
    category: Category::Other,
    sh_type: 0,
    flags: 0,
    align: 0,
};

impl ReportPhase {
    /// A phase that took `ms` milliseconds.
    pub fn new(name: impl Into<String>, ms: f64) -> Self {
        ReportPhase { name: name.into(), ms }
    }
}

impl ReportInput {
    /// A cubin of this size that the command line names.
    pub fn new(name: String, bytes: u64) -> Self {
        ReportInput { file: name.clone(), name, bytes, ..ReportInput::default() }
    }
}

impl ReportMessage {
    /// A message with the notes below it.
    pub fn new(severity: impl Into<String>, text: String, notes: Vec<String>) -> Self {
        ReportMessage { severity: severity.into(), text, notes }
    }
}

impl ReportFunction {
    /// The name in the source.
    pub fn shown(&self) -> &str {
        if self.demangled.is_empty() { &self.name } else { &self.demangled }
    }
}

impl ReportCopies {
    /// Bytes that were dropped.
    pub fn wasted(&self) -> u64 {
        self.dropped.iter().map(|copy| copy.1).sum()
    }
}

impl ReportImage {
    /// The kind of a section.
    pub fn section_kind(&self, section: &ReportSection) -> &ReportSectionKind {
        self.section_kinds.get(section.kind).unwrap_or(&UNKNOWN)
    }

    /// The name of a section.
    pub fn section_name(&self, section: &ReportSection) -> Cow<'_, str> {
        let kind = self.section_kind(section);
        let function = section.function.and_then(|place| self.functions.get(place));
        match function.filter(|_| kind.of_function) {
            Some(function) => Cow::Owned(format!("{}{}", kind.name, function.name)),
            None => Cow::Borrowed(&kind.name),
        }
    }

    /// Categories and bytes of all sections.
    pub fn section_bytes(&self) -> impl Iterator<Item = (Category, u64)> {
        let sections = self.sections.iter();
        sections.map(|section| (self.section_kind(section).category, section.bytes))
    }

    /// The theoretical occupancy of a kernel for some sizes of a block; empty if it is not known.
    pub fn occupancy(&self, kernel: &ReportKernel) -> &[ReportOccupancy] {
        let rows = kernel.occupancy.and_then(|place| self.occupancies.get(place));
        rows.map_or(&[], Vec::as_slice)
    }

    /// Places of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = (usize, &ReportFunction, &ReportKernel)> {
        let functions = self.functions.iter().enumerate();
        functions
            .filter_map(|(place, function)| Some((place, function, function.kernel.as_deref()?)))
    }
}

impl ReportImage {
    /// The functions on the deepest chain of calls that begins with `function`, itself first.
    pub fn chain<'a>(&'a self, function: &'a ReportFunction) -> Vec<&'a ReportFunction> {
        let mut chain = vec![function];
        let mut next = function.stack.next;
        // A report that was read may have a circle.
        while let Some(callee) = next.and_then(|place| self.functions.get(place))
            && chain.len() <= self.functions.len()
        {
            chain.push(callee);
            next = callee.stack.next;
        }
        chain
    }
}

impl Category {
    /// Its name in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Category::Code => "code",
            Category::Mercury => "mercury",
            Category::Constants => "constants",
            Category::Data => "data",
            Category::Zeroed => "zeroed",
            Category::Shared => "shared",
            Category::Attributes => "attributes",
            Category::Relocations => "relocations",
            Category::Debug => "debug",
            Category::Symbols => "symbols",
            Category::Calls => "calls",
            Category::Notes => "notes",
            Category::Other => "other",
        }
    }

    /// True for sections that have no bytes in a file.
    pub fn is_nobits(self) -> bool {
        matches!(self, Category::Zeroed | Category::Shared)
    }
}

impl RemovedWhy {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            RemovedWhy::Unreached => "no kernel reaches it",
            RemovedWhy::Unused => "neither the options nor host code use it",
        }
    }
}
