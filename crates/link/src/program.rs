//! The whole program: the results of all phases up to the attributes.
//!
//! Guaranteed: complete. Later phases, the check ([`mod@crate::check`]) first, read it; only the
//! sizes of synthetic sections still change.

use crate::attributes::Attributes;
use crate::callgraph::CallGraph;
use crate::data::Data;
use crate::diag::Message;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;
use crate::symbols::discarded::DiscardedRecords;

/// A program whose every symbol, section and attribute is known.
pub(crate) struct LinkedProgram<'o, 'd> {
    pub(crate) objects: InputObjects<'d>,
    pub(crate) symbols: Symbols,
    pub(crate) graph: CallGraph,
    pub(crate) merged: MergeResult<'d>,
    pub(crate) data: Data,
    pub(crate) attributes: Attributes<'d>,
    /// The error of unified functions and variables, if there is one.
    pub(crate) unified: Option<Message>,
    pub(crate) options: &'o LinkOptions,
}

/// The program without its attributes: every variable has its place.
#[derive(Clone, Copy)]
pub(crate) struct LaidOutProgram<'a, 'd> {
    pub(crate) objects: &'a InputObjects<'d>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) graph: &'a CallGraph,
    pub(crate) discarded: &'a DiscardedRecords,
    pub(crate) merged: &'a MergeResult<'d>,
    pub(crate) data: &'a Data,
    pub(crate) options: &'a LinkOptions,
}
