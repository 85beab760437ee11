//! Phase `data`: places for data that no single file owns.
//!
//! In: the merged draft, to which the last sections are added. Out: [`Data`]. Guaranteed: every
//! variable has its place, and no phase after this one adds a section. Order matters: nvlink
//! creates some shared sections before the constant banks that functions need.

mod banks;
mod commons;
pub(crate) mod constants;
mod parameters;
pub(crate) mod shared;
pub(crate) mod synthetic;
mod texture_banks;
pub(crate) mod textures;
pub(crate) mod unified;

use culd_cubin::arch::Flavour;

use self::shared::SharedLayout;
use self::synthetic::{CallSections, SyntheticSections};
use self::textures::TextureSlots;
use crate::callgraph::CallGraph;
use crate::diag::Message;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;

/// The places of shared variables and texture slots, and the synthetic sections.
pub(crate) struct Data {
    pub(crate) shared: SharedLayout,
    pub(crate) slots: TextureSlots,
    pub(crate) synthetic: SyntheticSections,
}

impl Data {
    /// Lays out all such data. With `-r`, shared variables get no places, and there are no texture
    /// slots.
    ///
    /// # Errors
    /// References to textures that nvlink refuses, see [`textures::lay_out`].
    pub(crate) fn lay_out<'d>(
        objects: &InputObjects<'d>,
        symbols: &Symbols,
        graph: &CallGraph,
        merged: &mut MergeResult<'d>,
        calls: CallSections,
        options: &LinkOptions,
    ) -> Result<Self, Message> {
        let data = if options.relocatable {
            shared::keep(merged);
            let sections = synthetic::add_last_sections(merged, graph, calls, options);
            let slots = textures::of_object(objects, symbols, graph, merged);
            Data { shared: SharedLayout::default(), slots, synthetic: sections }
        } else {
            // With a Mercury half, texture slots have sections of their own; nvlink creates them
            // before those of kernels that are kept for their address and of functions' literals
            // (cases textures/slots-and-late-shared, slots-and-literals).
            let slots =
                |merged: &mut MergeResult<'d>| textures::lay_out(objects, symbols, graph, merged);
            let mercury = options.target.flavour == Flavour::Mercury;
            let first = mercury.then(|| slots(merged)).transpose()?;
            textures::add_offsets(merged);
            let shared = shared::lay_out(objects, symbols, graph, merged, options);
            let sections = synthetic::add_last_sections(merged, graph, calls, options);
            Data { shared, slots: first.map_or_else(|| slots(merged), Ok)?, synthetic: sections }
        };
        if options.target.flavour == Flavour::Mercury {
            synthetic::add_high_indices(&mut merged.draft);
            parameters::add(objects, symbols, merged);
            parameters::name_code(&mut merged.draft);
        }
        Ok(data)
    }
}
