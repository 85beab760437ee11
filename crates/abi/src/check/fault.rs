//! The faults of interfaces, and their texts.

use thiserror::Error;

use crate::space::{CONSTANT_BYTES, StateSpace};

/// A fault of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Fault {
    // Faults between two modules.
    #[error("'{name}' is {kind} here")]
    Kind { name: String, kind: &'static str },
    #[error("'{name}' is in {space} here")]
    Space { name: String, space: StateSpace },
    #[error("'{name}' has another number of parameters: {count}")]
    ParameterCount { name: String, count: usize },
    #[error("'{name}' has another number of return values: {count}")]
    ResultCount { name: String, count: usize },
    #[error("{position} of '{name}' has another size: {declared}")]
    Size { name: String, position: Position, declared: String },
    #[error("{position} of '{name}' has another type: {declared}")]
    Type { name: String, position: Position, declared: String },
    #[error("{position} of '{name}' has another alignment: {declared}")]
    Alignment { name: String, position: Position, declared: String },
    #[error("'{name}' has {size} bytes here")]
    VariableSize { name: String, size: u64 },
    #[error("'{name}' is expected to be aligned to {align} bytes")]
    VariableAlignment { name: String, align: u64 },
    #[error("'{name}' is defined twice")]
    Duplicate { name: String },
    #[error("addresses have {found} bits here")]
    AddressSize { found: u32 },

    // Faults of one module.
    #[error(
        "{position} of '{name}' is aligned to {align} bytes, which is none of 1, 2, 4, 8, 16, 32, 64 and 128"
    )]
    ParameterAlignment { name: String, position: Position, align: u64 },
    #[error("{position} of '{name}' is a register of {bits} bits: the ABI wants 32 at least")]
    SmallRegister { name: String, position: Position, bits: u64 },
    #[error("'{name}' is in {space}, which with the ABI is for functions only")]
    ModuleScope { name: String, space: StateSpace },
    #[error("with '{name}' constants take {total} bytes of the {CONSTANT_BYTES} that there are")]
    Constants { name: String, total: u64 },
    #[error("system call '{name}' is declared otherwise than the driver defines it: {prototype}")]
    SystemCall { name: String, prototype: String },
    #[error("PTX {major}.{minor} has no ABI: functions of other modules can be called from 2.0 on")]
    Version { major: u32, minor: u32 },
}

/// Which value of an interface; counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the variants are")]
pub enum Position {
    #[error("return value {0}")]
    Result(usize),
    #[error("parameter {0}")]
    Parameter(usize),
}

impl Fault {
    /// True if the linker reports the fault itself, from the machine code.
    pub fn is_reported_by_linker(&self) -> bool {
        matches!(self, Fault::Duplicate { .. } | Fault::Constants { .. })
    }
}
