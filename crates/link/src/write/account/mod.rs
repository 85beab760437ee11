//! An account of a link, for reports: the contents of the output, the dropped definitions, the
//! reasons, the calls, and the functions that set the needs of kernels.
//!
//! In: the finished program. Out: an [`Account`]. Functions, sections and objects are named by
//! their places in its lists. Guaranteed: it is made only on request, in time linear in the inputs
//! and the output, and is the same for any number of threads.

mod columns;
mod definitions;
mod functions;
mod sections;

use super::Image;
use crate::base::session::Session;

pub use columns::{ListColumn, TextColumn};
pub use definitions::AccountDefinitions;
pub use functions::AccountFunctions;

/// The account of an image takes as long as writing this part of its bytes, more or less.
const IMAGE_BYTES: usize = 4;

/// An account of a link. An *object* is the place of an input among those that were linked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The functions of the output, in the order in which the inputs name them.
    pub functions: AccountFunctions,
    /// Prototypes of indirect calls.
    pub prototypes: Vec<AccountPrototype>,
    /// The variables of the output, and the definitions that are not in it.
    pub definitions: AccountDefinitions,
    /// The kinds of the sections.
    pub section_kinds: Vec<OutputSectionKind>,
    /// The sections of the output in file order, without the null section.
    pub sections: Vec<OutputSection>,
    /// What sections are put together of that come from no object as a whole.
    pub pieces: Vec<Contribution>,
    /// Relocation records of the output, by type, ascending.
    pub relocations: Vec<KeptRelocations>,
    /// Bytes of the output.
    pub size: u64,
}

/// A function of the output. Its name and its lists are in columns of [`AccountFunctions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountFunction {
    /// The object whose definition counts; `None` for a function that no input defines.
    pub object: Option<u32>,
    /// The section of its machine code.
    pub section: Option<u32>,
    /// Where the code begins in the section, bytes.
    pub offset: u64,
    /// Bytes of its machine code.
    pub code: u64,
    /// Registers of a thread.
    pub registers: AccountNeed,
    /// Barriers of a block.
    pub barriers: AccountNeed,
    /// Bytes of stack of a thread.
    pub stack: AccountStack,
    /// Its address is taken.
    pub address_taken: bool,
    /// It can call itself, directly or through others.
    pub is_recursive: bool,
    /// The place among [`AccountFunctions::kernels`] of the data that only kernels have.
    pub kernel: Option<u32>,
}

/// What a function needs, alone and with all that it calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccountNeed {
    /// The function's own number.
    pub own: u32,
    /// Of a kernel the number in the output; of another function the largest of all that it can
    /// call. With `-r` the function's own.
    pub total: u32,
    /// The function that needs as many: the function itself if it does. `None` if no function that
    /// it can call does: then the linker gave the kernel the number of the whole program.
    pub set_by: Option<u32>,
}

/// What a function needs of the stack, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccountStack {
    /// The function's own frame.
    pub own: u32,
    /// With the deepest chain of calls; `None` if there is no largest number, and with `-r`.
    pub total: Option<u32>,
    /// The next function of the deepest chain; `None` at its end.
    pub next: Option<u32>,
}

/// Data that only kernels have. Sizes are bytes. Its lists are in columns of [`AccountFunctions`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountKernel {
    /// Static shared memory of a block, with the part that the system keeps (sm_90 and later).
    pub shared: u64,
    /// The part of [`AccountKernel::shared`] that the system keeps.
    pub system_shared: u64,
    /// It uses shared memory whose size the launch decides.
    pub dynamic_shared: bool,
    /// Legacy textures that it can use.
    pub textures: usize,
    /// Legacy surfaces that it can use.
    pub surfaces: usize,
    /// Legacy samplers that it can use.
    pub samplers: usize,
    /// Where the parameters begin in constant bank 0.
    pub parameter_offset: u32,
    /// All parameters together.
    pub parameter_size: u32,
    /// How it may be launched.
    pub bounds: LaunchBounds,
}

/// How a kernel may be launched, as its source says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The most threads of a block in each dimension (`.maxntid`).
    pub most_threads: Option<[u32; 3]>,
    /// The threads of a block (`.reqntid`).
    pub threads: Option<[u32; 3]>,
    /// The most registers of a thread.
    pub registers: Option<u32>,
    /// The blocks of a cluster.
    pub cluster: Option<[u32; 3]>,
    /// The most blocks of a cluster.
    pub most_cluster: Option<u32>,
}

/// The prototype of an indirect call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountPrototype {
    /// As in the files.
    pub text: String,
    /// Functions with this prototype whose address is taken.
    pub functions: Vec<usize>,
}

/// A variable of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountVariable {
    /// Where it is.
    pub space: AccountSpace,
    /// The object whose definition counts; `None` for a tentative definition.
    pub object: Option<u32>,
    /// The section; `None` for shared variables, which have a place in each kernel.
    pub section: Option<u32>,
    /// Where it is in the section, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A memory space of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountSpace {
    /// Global memory.
    Global,
    /// Global memory that host and device share.
    Managed,
    /// Constant memory.
    Constant,
    /// Shared memory.
    Shared,
}

/// What sections have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSectionKind {
    /// The name, or its part in front of the name of the function that the section belongs to.
    pub name: String,
    /// The name of the function follows [`OutputSectionKind::name`].
    pub of_function: bool,
    /// `sh_type`.
    pub sh_type: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// A section of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSection {
    /// The place of its kind.
    pub kind: u32,
    /// The function that it belongs to.
    pub function: Option<u32>,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes, in the file or not.
    pub size: u64,
    /// What it is made of.
    pub source: SectionSource,
}

/// What a section of the output is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionSource {
    /// The linker makes it.
    Linker,
    /// The object that it comes from as a whole.
    Object(u32),
    /// Some of [`Account::pieces`], by offset: the first one, and how many.
    Pieces(u32, u32),
}

/// What an object brings to a section of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// The object.
    pub object: u32,
    /// Offset in the section, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A definition that is not in the output because nothing needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRemoval {
    /// The object that defines it.
    pub object: u32,
    /// True for a function, false for a variable.
    pub function: bool,
    /// Bytes.
    pub size: u64,
    /// The reason.
    pub why: RemovalReason,
}

/// Why a definition is not needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemovalReason {
    /// A function that no kernel reaches.
    Unreached,
    /// A kernel that neither the options nor the host's code use.
    Unused,
}

/// A definition that lost to another of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedCopy {
    /// The object that defines it.
    pub object: u32,
    /// True for a function, false for a variable.
    pub function: bool,
    /// Bytes.
    pub size: u64,
    /// The object whose definition counts.
    pub winner: u32,
    /// Bytes of that definition.
    pub kept: u64,
}

/// The relocation records of one type in the output, which the driver applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRelocations {
    /// The number of the type.
    pub kind: u32,
    /// The name of the type.
    pub name: String,
    /// Their number, in both halves.
    pub count: u64,
}

impl Account {
    /// The pieces of a section that comes from no object as a whole.
    pub fn pieces_of(&self, section: &OutputSection) -> &[Contribution] {
        match section.source {
            SectionSource::Pieces(first, count) => &self.pieces[first as usize..][..count as usize],
            SectionSource::Linker | SectionSource::Object(_) => &[],
        }
    }
}

impl Image<'_, '_> {
    /// The account of the link, made by the threads of a session.
    pub fn account(&self, session: &Session) -> Account {
        let program = &self.program;
        let work = usize::try_from(self.size()).unwrap_or(usize::MAX) / IMAGE_BYTES;
        let numbers = &self.layout.numbers;
        let sections = || sections::Sections::of(self);
        let functions = || AccountFunctions::of(program, numbers);
        let definitions = || AccountDefinitions::of(program, numbers);
        let others = || (definitions(), sections::kept(self));
        let (sections, (functions, (definitions, relocations))) =
            session.join(work, sections, || session.join(work, functions, others));
        let sections::Sections { kinds, rows, pieces } = sections;
        Account {
            functions,
            prototypes: functions::prototypes(program),
            definitions,
            section_kinds: kinds,
            sections: rows,
            pieces,
            relocations,
            size: self.size(),
        }
    }
}
