//! Relocation types of NVIDIA device code as data, and the one place that writes their bits.
//!
//! In: a relocation type, the bytes of a section and a value (S + A, and the constant bank's
//! number). Out: the same bytes with the type's fields filled, or an error and the bytes unchanged.
//! Guaranteed: no bit outside the fields changes; nothing is read or written past the last byte
//! that a field touches; every row of the tables passed the checks in [`desc`] when this crate was
//! compiled.
//!
//! This crate knows rows and bits only. Which symbol a relocation names, whether that symbol is
//! alive, and so whether a record is kept, applied, cleared or dropped, is the linker's business;
//! the columns [`RelocDesc::observed`] and [`RelocDesc::unified`] give it the facts about the type.
//!
//! ```
//! use culd_reloc::{RelocValue, lookup};
//!
//! // c[3][0x10]: byte offset in bits 38..54 of the instruction, bank in bits 54..59.
//! let field = lookup(66).unwrap();
//! let mut instruction = [0u8; 16];
//! field.apply(&mut instruction, 0, RelocValue { address: 0x10, bank: 3 })?;
//! assert_eq!(u128::from_le_bytes(instruction), 0x10 << 38 | 3 << 54);
//! # Ok::<(), culd_reloc::PatchError>(())
//! ```
#![doc = ""]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod cuda;
pub mod desc;
pub mod mercury;
pub mod patch;
pub mod reference;
mod table;

pub use cuda::CUDA;
pub use desc::{Action, Observed, Proof, RelocDesc, RelocType, Resolver, Source};
pub use mercury::MERCURY;
pub use patch::{PatchError, RelocValue};
pub use reference::ReferenceTreatment;
pub use table::markdown_table;

/// The `R_CUDA_*` type with this code.
pub fn cuda(code: u32) -> Option<&'static RelocDesc> {
    CUDA.get(code as usize)
}

/// The `R_MERCURY_*` type with this code; these codes start at 0x10000.
pub fn mercury(code: u32) -> Option<&'static RelocDesc> {
    MERCURY.get(code.checked_sub(desc::MERCURY_BASE)? as usize)
}

/// The type with this code, of either family.
pub fn lookup(code: u32) -> Option<&'static RelocDesc> {
    cuda(code).or_else(|| mercury(code))
}
