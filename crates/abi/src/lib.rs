//! The documented ABI of CUDA: the interface on which code of different compilers has to agree
//! before it can be linked.
//!
//! In: types, names and PTX text. Out: sizes, offsets, prototypes, words for codes, and
//! disagreements of modules. Guaranteed: no I/O, no state, no panic whatever the text; a table says
//! what the document says, and observed behaviour of compilers is marked as observed.
//!
//! The documents are NVIDIA's *PTX Writer's Guide to Interoperability* (release 12.9, "the guide")
//! and the *PTX ISA*, sections 5.1 and 7.1. `cargo xtask abi` compares the rules with nvcc, ptxas
//! and gcc.
//!
//! ```
//! use culd_abi::layout::{Aggregate, Field, Type};
//! use culd_abi::types::Fundamental;
//!
//! // struct { double d; char c[4]; }
//! let d = Field::new("d", Type::Fundamental(Fundamental::F64));
//! let c = Field::new("c", Type::array(Type::Fundamental(Fundamental::S8), 4));
//! let layout = Aggregate::structure([d, c]).layout()?;
//! assert_eq!((layout.size, layout.align), (16, 8));
//! assert_eq!(layout.fields[1].offset, 8);
//! # Ok::<(), culd_abi::layout::LayoutError>(())
//! ```
#![doc = ""]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod atomics;
pub mod check;
pub mod dwarf;
pub mod layout;
pub mod limits;
pub mod params;
pub mod prototype;
pub mod ptx;
pub mod space;
pub mod syscall;
pub mod types;
