//! The declarations of a PTX module.
//!
//! In: PTX text. Out: a [`Module`]: functions and variables with their types, sizes, alignments and
//! lines. Guaranteed: any text gives a module; text that could not be read is in
//! [`Module::unread`], and reading goes on behind it. Bodies of functions are skipped. Time and
//! memory are in proportion to the text.

mod lex;
mod read;

use std::fmt;

pub use self::lex::comment_len;

use crate::space::StateSpace;
use crate::types::{self, AddressSize, Class, Fundamental};

/// The declarations and definitions of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// `.version 8.5`
    pub version: Option<(u32, u32)>,
    /// The words of `.target`, `sm_90` first.
    pub target: Vec<String>,
    /// `.address_size`; if it is missing, 32 bits if the version is older than 2.3.
    pub address: Option<AddressSize>,
    /// In the order of the text.
    pub items: Vec<Declaration>,
    /// Text that was not understood.
    pub unread: Vec<Unread>,
}

/// A place in the text that is not a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Counted from 1.
    pub line: u32,
    /// The text.
    pub found: String,
}

/// A name that a module declares or defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// The name.
    pub name: String,
    /// Its line, counted from 1.
    pub line: u32,
    /// Its linkage.
    pub linkage: PtxLinkage,
    /// False for a declaration.
    pub defined: bool,
    /// The function, variable or alias.
    pub what: DeclarationKind,
}

/// The modules that can see a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PtxLinkage {
    /// This module only: no directive.
    Local,
    /// `.extern`: it is defined elsewhere.
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`: of several definitions one is taken.
    Weak,
    /// `.common`: several definitions are one.
    Common,
}

/// A function, variable or alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclarationKind {
    /// `.func`, `.entry`
    Function(PtxFunction),
    /// A variable.
    Variable(PtxVariable),
    /// `.alias name, target`
    Alias(String),
}

/// The interface of a function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PtxFunction {
    /// A kernel.
    pub entry: bool,
    /// Return values.
    pub results: Vec<PtxVariable>,
    /// Parameters.
    pub parameters: Vec<PtxVariable>,
}

/// A variable, parameter or return value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtxVariable {
    /// Its state space.
    pub space: StateSpace,
    /// The type of an element.
    pub ty: Scalar,
    /// Elements of a vector; 1 for none.
    pub vector: u8,
    /// `.align`, bytes.
    pub align: Option<u64>,
    /// Its number of elements.
    pub extent: ArrayExtent,
}

/// A type by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// A type of the guide.
    Fundamental(Fundamental),
    /// A type of [`types::NEWER`], an opaque one, or a predicate.
    Other(&'static str),
}

/// The number of elements of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayExtent {
    /// Not an array.
    One,
    /// This many.
    Array(u64),
    /// `name[]`, or a number that is not understood.
    Unknown,
}

impl Module {
    /// Reads `text`.
    pub fn parse(text: &str) -> Module {
        read::module(text)
    }

    /// The size of addresses that is declared, or follows from the version.
    pub fn address_size(&self) -> AddressSize {
        self.address.unwrap_or(match self.version {
            Some(version) if version < (2, 3) => AddressSize::Bits32,
            _ => AddressSize::Bits64,
        })
    }
}

impl Scalar {
    /// The type with this name in PTX.
    pub fn by_name(name: &str) -> Option<Self> {
        if let Some(one) = Fundamental::by_name(name) {
            return Some(Scalar::Fundamental(one));
        }
        let newer = types::NEWER.iter().map(|row| row.0);
        let others = newer.chain(types::OPAQUE.iter().copied()).chain([types::PREDICATE]);
        others.into_iter().find(|other| *other == name).map(Scalar::Other)
    }

    /// The name in PTX.
    pub fn name(&self) -> &'static str {
        match self {
            Scalar::Fundamental(one) => one.name(),
            Scalar::Other(name) => name,
        }
    }

    /// Bytes; a reference is its handle, a predicate has none.
    pub fn size(&self) -> u64 {
        match self {
            Scalar::Fundamental(one) => one.size(),
            Scalar::Other(name) => {
                let newer = types::NEWER.iter().find(|row| row.0 == *name).map(|row| row.1);
                newer.unwrap_or(if types::OPAQUE.contains(name) { 8 } else { 0 })
            }
        }
    }

    /// The meaning of the bits; `None` if the guide has none.
    pub fn class(&self) -> Option<Class> {
        match self {
            Scalar::Fundamental(one) => Some(one.class()),
            Scalar::Other(_) => None,
        }
    }
}

impl PtxVariable {
    /// Bytes; `None` where the number of elements is not known.
    pub fn size(&self) -> Option<u64> {
        let count = match self.extent {
            ArrayExtent::One => 1,
            ArrayExtent::Array(count) => count,
            ArrayExtent::Unknown => return None,
        };
        self.element().checked_mul(count)
    }

    /// Bytes of an element.
    pub fn element(&self) -> u64 {
        self.ty.size() * u64::from(self.vector)
    }

    /// The alignment: the declared one, or that of an element.
    pub fn alignment(&self) -> u64 {
        self.align.unwrap_or(self.element()).max(1)
    }
}

impl fmt::Display for PtxVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.space)?;
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if self.vector > 1 {
            write!(f, " .v{}", self.vector)?;
        }
        write!(f, " {}", self.ty.name())?;
        match self.extent {
            ArrayExtent::One => Ok(()),
            ArrayExtent::Array(count) => write!(f, "[{count}]"),
            ArrayExtent::Unknown => f.write_str("[]"),
        }
    }
}
