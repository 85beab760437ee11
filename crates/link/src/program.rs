//! The whole program: what the phases up to the attributes made of the inputs.
//!
//! Guaranteed: complete. What comes later, the check ([`crate::finish`]) first, reads it; only the sizes of
//! sections that the linker makes itself change yet.

use crate::LinkOptions;
use crate::attributes::Attributes;
use crate::callgraph::CallGraph;
use crate::data::Data;
use crate::diag::Message;
use crate::merge::Merged;
use crate::objects::Objects;
use crate::symbols::Symbols;
use crate::void::VoidRecords;

/// A program whose every symbol, section and attribute is known.
pub(crate) struct Program<'o, 'd> {
    pub(crate) objects: Objects<'d>,
    pub(crate) symbols: Symbols,
    pub(crate) graph: CallGraph,
    pub(crate) merged: Merged<'d>,
    pub(crate) data: Data,
    pub(crate) attributes: Attributes<'d>,
    /// What is wrong with unified functions and variables.
    pub(crate) unified: Option<Message>,
    pub(crate) options: &'o LinkOptions,
}

/// The same before there are attributes: every variable has its place.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a, 'd> {
    pub(crate) objects: &'a Objects<'d>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) graph: &'a CallGraph,
    pub(crate) void: &'a VoidRecords,
    pub(crate) merged: &'a Merged<'d>,
    pub(crate) data: &'a Data,
    pub(crate) options: &'a LinkOptions,
}
