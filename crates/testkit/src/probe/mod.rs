//! The prober: relocation records of every type, against every kind of symbol, in every kind of
//! place.
//!
//! In: a linker. Out: the fate of each record. Guaranteed: objects are made of our own text,
//! without any tool; the result of a cell (one record) is its own, although hundreds of cells share
//! a link.
//!
//! [`series`] lists the cells; a [`batch::Batch`] has cells that differ only in their type.
//! [`object`] puts their records into an object, and [`fate`] finds the fate of each in the output.
//! [`record`] stores nvlink's fates (`testdata/probe/sm_*.txt`), [`judge`] compares, and [`known`]
//! has the list of deliberate differences. [`verify`] tries every bit of the tables in
//! `crates/reloc` alone.

pub mod batch;
pub mod fate;
pub mod judge;
pub mod kinds;
pub mod known;
pub mod names;
pub mod object;
pub mod places;
pub mod record;
pub mod series;
pub mod symbols;
pub mod verify;

#[cfg(test)]
mod tests;
