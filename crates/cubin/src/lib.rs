//! The NVIDIA cubin format: the meaning of the bytes, without the rules of linking.
//!
//! In: the bytes of one ELF file for a GPU. Out: typed, zero-copy views ([`Cubin`], [`Section`],
//! [`Symbol`]), iterators over the records of the NVIDIA section kinds ([`attr`], [`callgraph`],
//! [`compat`], [`note`], [`unified`], [`capmerc`]) and the few structures needed to write such a
//! file ([`encode`]), or a whole object of parts ([`build`]); names as text ([`text_of`]).
//! Guaranteed: no I/O, no policy, no `unsafe`; every read is checked, a malformed file gives a
//! [`Malformed`] that names section and offset, never a panic.
#![doc = ""]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used))]

pub mod arch;
pub mod attr;
pub mod build;
pub mod callgraph;
pub mod capmerc;
pub mod compat;
mod cubin;
pub mod elf;
pub mod encode;
mod error;
pub mod note;
pub mod parameter;
pub mod raw;
mod read;
mod relocation;
mod symtab;
mod tables;
mod text;
pub mod unified;

pub use crate::cubin::{
    Cubin, Header, MAX_ALIGN, MAX_SIZE, Section, SectionIndex, Symbol, SymbolIndex, SymbolSection,
};
pub use crate::error::Malformed;
pub use crate::relocation::{RelocEntry, Relocations};
pub use crate::text::text_of;
