//! A stable text form of a cubin and a readable difference of two.
//!
//! In: the bytes of cubins. Out: lines of text in which sections, symbols, relocation types and
//! attributes have names. Guaranteed: the same bytes give the same text; a malformed file gives a
//! one-line error, never a panic.
#![forbid(unsafe_code)]

pub mod diff;
pub mod name;
pub mod view;
pub mod words;
