//! Phase `data`: data that belongs to no one file.
//!
//! In: the merged draft, to which the last sections are added. Out: [`Data`]. Guaranteed: every variable has its
//! place, and no section is added any more. Order matters: some shared sections come before those that banks need.

use culd_cubin::arch::Flavour;

use crate::LinkOptions;
use crate::callgraph::CallGraph;
use crate::capsule::{parameters, sections};
use crate::constants;
use crate::diag::Message;
use crate::merge::Merged;
use crate::objects::Objects;
use crate::shared::{self, SharedLayout};
use crate::symbols::Symbols;
use crate::synth::{self, CallSections, Made};
use crate::textures::{self, TextureSlots};

/// Where shared variables and references to textures are, and the sections that the linker makes.
pub(crate) struct Data {
    pub(crate) shared: SharedLayout,
    pub(crate) slots: TextureSlots,
    pub(crate) made: Made,
}

impl Data {
    /// Lays everything out; an object that is linked again keeps its variables as they are. Errors: references that
    /// are too many.
    pub(crate) fn lay_out<'d>(
        objects: &Objects<'d>,
        symbols: &Symbols,
        graph: &CallGraph,
        merged: &mut Merged<'d>,
        calls: CallSections,
        options: &LinkOptions,
    ) -> Result<Self, Message> {
        let data = if options.relocatable {
            shared::keep(merged);
            let made = synth::add_last_sections(merged, graph, calls, options);
            let slots = textures::of_object(objects, symbols, graph, merged);
            Data { shared: SharedLayout::default(), slots, made }
        } else {
            let shared = shared::lay_out(objects, symbols, graph, merged, options);
            if options.effective_selection().is_active() {
                constants::count_second(&mut merged.draft);
            }
            // Beside Mercury slots have sections, made before those of functions' literals (case textures/slots-and-literals).
            let slots =
                |merged: &mut Merged<'d>| textures::lay_out(objects, symbols, graph, merged);
            let mercury = options.target.flavour == Flavour::Mercury;
            let first = mercury.then(|| slots(merged)).transpose()?;
            let made = synth::add_last_sections(merged, graph, calls, options);
            Data { shared, slots: first.map_or_else(|| slots(merged), Ok)?, made }
        };
        if options.target.flavour == Flavour::Mercury {
            sections::add_high_indices(&mut merged.draft);
            parameters::add(objects, symbols, merged);
            parameters::name_code(&mut merged.draft);
        }
        Ok(data)
    }
}
