//! The prober: relocation records of every type, against every kind of symbol, in every kind of
//! place.
//!
//! In: a linker. Out: what it does with each record. Guaranteed: objects are made of our own text,
//! without any tool; the result of a cell (one record) is its own, although hundreds of cells share
//! a link.
//!
//! [`series`] says which cells there are: a [`batch::Batch`] has those that differ in their type
//! only. [`object`] puts their records into an object, [`fate`] finds in the output what became of
//! each, [`record`] keeps what nvlink did (`testdata/probe/sm_*.txt`), [`judge`] compares, and
//! [`known`] is the list of differences that are meant. [`verify`] tries every bit of the tables in
//! `crates/reloc` on its own.

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
