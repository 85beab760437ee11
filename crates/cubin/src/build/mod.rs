//! Builds a relocatable cubin of parts, for assemblers and packers.
//!
//! In: functions with their code, relocations and attributes, variables, names. Out: the bytes of
//! an object that a linker accepts. Guaranteed: the same parts give the same bytes; parts that
//! contradict each other give a [`BuildError`], never a panic; machine code is not read. Objects of
//! sm_100 and later have every function in a second form, [`Mercury`], which is given with its
//! machine code.
//!
//! [`Builder`] has functions and variables and makes the sections and tables around them. Below it
//! is [`object::ObjectBuilder`], with sections and symbols of any kind that name each other.
//! [`Builder::object`] returns it, for parts that a builder does not have;
//! [`object::ObjectBuilder::parse`] takes compiled objects apart.
//!
//! ```
//! use culd_cubin::arch::Arch;
//! use culd_cubin::build::{Builder, Code, Kernel, Linkage, Space, Variable};
//!
//! // EXIT, and a branch to itself behind it (sm_75).
//! let exit = [0x0000_0000_0000_794du64, 0x000f_ea00_0380_0000];
//! let branch = [0xffff_fff0_0000_7947, 0x000f_c000_0383_ffff];
//! let code = [exit, branch].concat();
//! let mut builder = Builder::new(Arch::by_name("sm_75").unwrap());
//! let kernel = builder.function("kernel", Linkage::Global);
//! builder.variable(Variable::zero("counter", Space::Global, 4));
//! let code: Vec<u8> = code.into_iter().flat_map(u64::to_le_bytes).collect();
//! let code = Code::new(code).registers(4);
//! builder.define(kernel, code.kernel(Kernel::new([(8, 8), (4, 4)])));
//! let bytes = builder.finish()?;
//!
//! let cubin = culd_cubin::Cubin::parse(&bytes)?;
//! assert_eq!(cubin.header.sm(), 75);
//! assert!(cubin.symbols.iter().any(|symbol| symbol.name == b"counter"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod finish;
mod mercury;
pub mod object;
mod records;

use thiserror::Error;

use crate::arch::Arch;
use crate::note::ToolRecord;

pub use self::mercury::Mercury;

/// A symbol of a [`Builder`]; another builder does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(usize);

/// Which objects can see a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// This object only.
    Local,
    /// All objects.
    Global,
    /// All objects; of several definitions one is taken.
    Weak,
}

/// The memory of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Global memory.
    Global,
    /// Constant memory: bank 3.
    Constant,
    /// Shared memory, which has no initial values.
    Shared,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    name: String,
    linkage: Linkage,
    space: Space,
    align: u64,
    managed: bool,
    /// The function whose literal it is.
    owner: Option<SymbolId>,
    contents: VariableContents,
    /// The initial value in Mercury, if it differs.
    mercury: Option<Vec<u8>>,
    relocations: Vec<Relocation>,
    /// Mercury's records for the same places.
    mercury_relocations: Vec<Relocation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum VariableContents {
    Bytes(Vec<u8>),
    Zero(u64),
    /// A tentative definition. Of all with one name the linker makes one variable, as large as the
    /// largest of them.
    Common(u64),
    /// Defined elsewhere.
    None(u64),
}

/// The kind of a legacy reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyReference {
    /// `.texref`.
    Texture,
    /// `.samplerref`.
    Sampler,
    /// `.surfref`.
    Surface,
}

impl Variable {
    /// A variable with initial values.
    pub fn initialised(name: impl Into<String>, space: Space, bytes: impl Into<Vec<u8>>) -> Self {
        Variable::new(name.into(), space, VariableContents::Bytes(bytes.into()))
    }

    /// A variable of `size` bytes. They are zero at the start, in shared memory undefined.
    pub fn zero(name: impl Into<String>, space: Space, size: u64) -> Self {
        Variable::new(name.into(), space, VariableContents::Zero(size))
    }

    /// A variable of `size` bytes in global memory that other objects may define, too. The linker
    /// makes one variable of all, as large as the largest of them.
    pub fn common(name: impl Into<String>, size: u64) -> Self {
        Variable::new(name.into(), Space::Global, VariableContents::Common(size))
    }

    /// A variable that another object defines; size 0 if the size is not known.
    pub fn external(name: impl Into<String>, space: Space, size: u64) -> Self {
        Variable::new(name.into(), space, VariableContents::None(size))
    }

    fn new(name: String, space: Space, contents: VariableContents) -> Self {
        Variable {
            name,
            linkage: Linkage::Global,
            space,
            align: 4,
            managed: false,
            owner: None,
            contents,
            mercury: None,
            relocations: Vec::new(),
            mercury_relocations: Vec::new(),
        }
    }

    /// The bytes of a literal in Mercury: zeros where machine code has addresses.
    #[must_use]
    pub fn mercury(self, bytes: impl Into<Vec<u8>>) -> Self {
        Variable { mercury: Some(bytes.into()), ..self }
    }

    /// A literal or jump table of a function, in constant bank 2, which only its code uses;
    /// compilers call it `function.const_opt.number.size`.
    pub fn literal(name: impl Into<String>, of: SymbolId, bytes: impl Into<Vec<u8>>) -> Self {
        let contents = VariableContents::Bytes(bytes.into());
        let variable = Variable::new(name.into(), Space::Constant, contents);
        Variable { owner: Some(of), linkage: Linkage::Local, ..variable }
    }

    /// The variable is in managed memory: host and device see it at the same address.
    #[must_use]
    pub fn managed(self) -> Self {
        Variable { managed: true, ..self }
    }

    /// Which objects can see it. Default: all.
    #[must_use]
    pub fn linkage(self, linkage: Linkage) -> Self {
        Variable { linkage, ..self }
    }

    /// Its alignment in bytes, a power of two. Default: 4.
    #[must_use]
    pub fn align(self, align: u64) -> Self {
        Variable { align, ..self }
    }

    /// Adds an address to its initial value; the offset counts from the start of the variable.
    #[must_use]
    pub fn relocation(mut self, relocation: Relocation) -> Self {
        self.relocations.push(relocation);
        self
    }
}

/// A place that the linker or the driver fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Offset in the code or variable, bytes.
    pub offset: u64,
    /// The type, such as `R_CUDA_ABS32_LO_32`; crate `culd_reloc` has them.
    pub kind: u32,
    /// The symbol whose address is filled in; some types need none.
    pub symbol: Option<SymbolId>,
    /// The addend.
    pub addend: i64,
}

/// An attribute of a function, behind those that a [`Builder`] writes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// See [`crate::attr::code`].
    pub code: u8,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// None.
    None,
    /// One byte.
    Byte(u8),
    /// Two bytes.
    Half(u16),
    /// 32-bit words.
    Words(Vec<u32>),
}

/// The code of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    bytes: Vec<u8>,
    registers: u8,
    frame: u32,
    barriers: u8,
    kernel: Option<Kernel>,
    relocations: Vec<Relocation>,
    attributes: Vec<Attribute>,
    calls: Vec<SymbolId>,
    indirect_calls: Vec<String>,
    mercury: Option<Mercury>,
}

impl Code {
    /// Machine code: instructions of 16 bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Code {
            bytes: bytes.into(),
            registers: 0,
            frame: 0,
            barriers: 0,
            kernel: None,
            relocations: Vec::new(),
            attributes: Vec::new(),
            calls: Vec::new(),
            indirect_calls: Vec::new(),
            mercury: None,
        }
    }

    /// Adds the same code for other devices of the family. Functions for sm_100 and later need it.
    #[must_use]
    pub fn mercury(self, mercury: Mercury) -> Self {
        Code { mercury: Some(mercury), ..self }
    }

    /// The number of registers per thread.
    #[must_use]
    pub fn registers(self, registers: u8) -> Self {
        Code { registers, ..self }
    }

    /// The stack frame of the function itself, bytes.
    #[must_use]
    pub fn frame(self, frame: u32) -> Self {
        Code { frame, ..self }
    }

    /// The number of barriers.
    #[must_use]
    pub fn barriers(self, barriers: u8) -> Self {
        Code { barriers, ..self }
    }

    /// Makes the function a kernel.
    #[must_use]
    pub fn kernel(self, kernel: Kernel) -> Self {
        Code { kernel: Some(kernel), ..self }
    }

    /// A place in the code that the linker fills in.
    #[must_use]
    pub fn relocation(mut self, relocation: Relocation) -> Self {
        self.relocations.push(relocation);
        self
    }

    /// The function calls `callee`, for the call graph. The call's relocation is added separately.
    #[must_use]
    pub fn call(mut self, callee: SymbolId) -> Self {
        self.calls.push(callee);
        self
    }

    /// It calls functions of this prototype (`#ii`) through a pointer.
    #[must_use]
    pub fn indirect_call(mut self, prototype: impl Into<String>) -> Self {
        self.indirect_calls.push(prototype.into());
        self
    }

    /// An attribute such as `EXIT_INSTR_OFFSETS`.
    #[must_use]
    pub fn attribute(mut self, code: u8, value: AttributeValue) -> Self {
        self.attributes.push(Attribute { code, value });
        self
    }
}

/// The properties of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Size and alignment of each parameter, bytes.
    parameters: Vec<(u32, u32)>,
}

impl Kernel {
    /// A kernel with parameters of these sizes and alignments in bytes. They are placed as ptxas
    /// does it: each at the lowest offset at which its address in constant bank 0 is aligned.
    pub fn new(parameters: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Kernel { parameters: parameters.into_iter().collect() }
    }
}

/// The oldest release, as notes store it, whose form objects have: CUDA 13.0.
const FORM: u16 = 130;

/// Why no object can be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// CUDA 13 does not know the target.
    #[error("CUDA 13 has no objects for {0}")]
    Target(String),
    /// An object for sm_100 or later lacks Mercury code, an object for an earlier target has some,
    /// or the code has another number of instructions.
    #[error("the Mercury code of '{0}' is missing, not wanted, or not for its machine code")]
    Mercury(String),
    /// A symbol is in Mercury's table although an earlier one is not, or belongs there and is
    /// missing.
    #[error("'{0}' is in Mercury's table, but not a symbol before it")]
    Counterpart(String),
    /// A section reference names no section.
    #[error("'{0}' names a section that is none")]
    Section(String),
    /// A section without bytes has contents, or one with bytes has none, or too many.
    #[error("section '{0}' cannot have such contents")]
    Contents(String),
    /// A name is empty or has a NUL.
    #[error("'{0}' is no name of a symbol")]
    Name(String),
    /// A name stands for two things.
    #[error("'{0}' is defined twice")]
    Twice(String),
    /// A local function has no code.
    #[error("'{0}' is local and not defined")]
    Undefined(String),
    /// A symbol belongs to another builder, or is not a function where one is needed.
    #[error("'{0}' names a symbol that is none, or not of this kind")]
    Symbol(String),
    /// An alignment is not a power of two, or too large.
    #[error("'{name}' is aligned to {align} bytes")]
    #[allow(missing_docs, reason = "the text says what the fields are")]
    Align { name: String, align: u64 },
    /// Code is not made of instructions.
    #[error("the code of '{name}' has {size} bytes, which is no multiple of 16, or nothing")]
    #[allow(missing_docs, reason = "the text says what the fields are")]
    Code { name: String, size: usize },
    /// A relocation is outside of its code or variable.
    #[error("a relocation of '{name}' at {offset:#x} is outside")]
    #[allow(missing_docs, reason = "the text says what the fields are")]
    Relocation { name: String, offset: u64 },
    /// Shared memory has no initial values.
    #[error("'{0}' is in shared memory and has initial values")]
    Shared(String),
    /// The parameters of a kernel are too large for its attributes.
    #[error("the parameters of '{0}' are too large")]
    Parameters(String),
    /// An attribute is longer than a record can be.
    #[error("attribute {code:#04x} of '{name}' has too many words")]
    #[allow(missing_docs, reason = "the text says what the fields are")]
    Attribute { name: String, code: u8 },
    /// There are more sections or symbols than an object without a table of section indices can
    /// have.
    #[error("there are too many functions or too much data for one object")]
    TooLarge,
}

/// A symbol and its definition.
#[derive(Debug, Clone)]
struct BuilderSymbol {
    name: String,
    linkage: Linkage,
    what: SymbolContent,
}

#[derive(Debug, Clone)]
enum SymbolContent {
    Function {
        code: Option<Box<Code>>,
        /// Its prototype, and whether its address is taken.
        prototype: Option<(String, bool)>,
    },
    Variable(Box<Variable>),
    Reference(LegacyReference),
    Debug(Box<DebugSection>),
}

/// A section with debug information.
#[derive(Debug, Clone)]
struct DebugSection {
    bytes: Vec<u8>,
    mercury: Option<Vec<u8>>,
    relocations: Vec<Relocation>,
    mercury_relocations: Vec<Relocation>,
}

/// Takes the parts of an object.
#[derive(Debug, Clone)]
pub struct Builder {
    arch: &'static Arch,
    symbols: Vec<BuilderSymbol>,
    tool: ToolRecord,
    compat: Option<Vec<u8>>,
    /// The first error.
    error: Option<BuildError>,
}

impl Builder {
    /// An empty object for `arch`. Objects have the form of CUDA 13, so [`Builder::finish`] fails
    /// for a target that only earlier releases know.
    pub fn new(arch: &'static Arch) -> Self {
        let tool = ToolRecord { tool: "culd_cubin".to_owned(), ..ToolRecord::default() };
        let error = (arch.releases.1 < FORM).then(|| BuildError::Target(arch.name.to_owned()));
        Builder { arch, symbols: Vec::new(), tool, compat: None, error }
    }

    /// The tool that made the object, for its note.
    pub fn tool(&mut self, tool: ToolRecord) -> &mut Self {
        self.tool = tool;
        self
    }

    /// The contents of `.nv.compat`: records of the devices that the code needs (sm_90 and later).
    /// Default: those that ptxas 13.0 writes for code without special needs.
    pub fn compat(&mut self, records: Vec<u8>) -> &mut Self {
        self.compat = Some(records);
        self
    }

    /// A function. It counts as another object's until [`Builder::define`] gives its code.
    pub fn function(&mut self, name: impl Into<String>, linkage: Linkage) -> SymbolId {
        self.symbol(name.into(), linkage, SymbolContent::Function { code: None, prototype: None })
    }

    /// The prototype of a function (`#ii`), by which linkers find disagreements between objects.
    /// With `address_taken` the function may be called through a pointer, because its address is
    /// used for more than direct calls.
    pub fn prototype(
        &mut self,
        function: SymbolId,
        text: impl Into<String>,
        address_taken: bool,
    ) -> &mut Self {
        match self.symbols.get_mut(function.0).map(|symbol| &mut symbol.what) {
            Some(SymbolContent::Function { prototype, .. }) => {
                *prototype = Some((text.into(), address_taken))
            }
            _ => self.fail(BuildError::Symbol("prototype".to_owned())),
        }
        self
    }

    /// The code of a function.
    pub fn define(&mut self, function: SymbolId, code: Code) -> &mut Self {
        let error = match self.symbols.get_mut(function.0) {
            Some(BuilderSymbol {
                name, what: SymbolContent::Function { code: place, .. }, ..
            }) => place.replace(Box::new(code)).map(|_| BuildError::Twice(name.clone())),
            Some(symbol) => Some(BuildError::Symbol(symbol.name.clone())),
            None => Some(BuildError::Symbol("define".to_owned())),
        };
        error.into_iter().for_each(|error| self.fail(error));
        self
    }

    /// A variable.
    pub fn variable(&mut self, variable: Variable) -> SymbolId {
        let (name, linkage) = (variable.name.clone(), variable.linkage);
        self.symbol(name, linkage, SymbolContent::Variable(Box::new(variable)))
    }

    /// A legacy texture, sampler or surface reference. All objects that use its name share it.
    pub fn reference(&mut self, name: impl Into<String>, to: LegacyReference) -> SymbolId {
        self.symbol(name.into(), Linkage::Global, SymbolContent::Reference(to))
    }

    /// Adds a section with debug information, such as `.debug_frame`. Mercury has its own bytes
    /// (sm_100 and later). The returned symbol stands for the section; its relocations are added
    /// like those of variables.
    pub fn debug(
        &mut self,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        mercury: Option<Vec<u8>>,
    ) -> SymbolId {
        let debug = DebugSection {
            bytes: bytes.into(),
            mercury,
            relocations: Vec::new(),
            mercury_relocations: Vec::new(),
        };
        self.symbol(name.into(), Linkage::Local, SymbolContent::Debug(Box::new(debug)))
    }

    /// Adds an address to the initial value of a variable, or to debug information. The offset
    /// counts from the start. It is for addresses of symbols that are declared after the variable,
    /// including its own.
    pub fn relocation(&mut self, variable: SymbolId, relocation: Relocation) -> &mut Self {
        match self.records_of(variable) {
            Some((relocations, _)) => relocations.push(relocation),
            None => self.fail(BuildError::Symbol("relocation".to_owned())),
        }
        self
    }

    /// The relocations of a variable or debug section, and those in Mercury.
    fn records_of(
        &mut self,
        variable: SymbolId,
    ) -> Option<(&mut Vec<Relocation>, &mut Vec<Relocation>)> {
        match &mut self.symbols.get_mut(variable.0)?.what {
            SymbolContent::Variable(variable) => {
                Some((&mut variable.relocations, &mut variable.mercury_relocations))
            }
            SymbolContent::Debug(debug) => {
                Some((&mut debug.relocations, &mut debug.mercury_relocations))
            }
            SymbolContent::Function { .. } | SymbolContent::Reference(_) => None,
        }
    }

    fn symbol(&mut self, name: String, linkage: Linkage, what: SymbolContent) -> SymbolId {
        self.symbols.push(BuilderSymbol { name, linkage, what });
        SymbolId(self.symbols.len() - 1)
    }

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }

    /// Adds Mercury's record for a place that [`Builder::relocation`] has a record for (sm_100 and
    /// later).
    pub fn mercury_relocation(&mut self, variable: SymbolId, relocation: Relocation) -> &mut Self {
        match self.records_of(variable) {
            Some((_, mercury)) => mercury.push(relocation),
            None => self.fail(BuildError::Symbol("relocation of Mercury".to_owned())),
        }
        self
    }

    /// The object.
    ///
    /// # Errors
    /// The parts do not go together.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        self.object()?.finish()
    }

    /// The object's sections and symbols, for additions that a builder does not support.
    ///
    /// # Errors
    /// The parts do not fit together.
    pub fn object(self) -> Result<object::ObjectBuilder, BuildError> {
        finish::object(&self)
    }
}
