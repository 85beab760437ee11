//! Phase 11: sections in order, with their contents, at their offsets.
//!
//! In: the program and its resolved relocations. Out: the contents of all sections that are not copies, for both
//! halves, and the [`Layout`]. Guaranteed: no section changes size afterwards. Contents name symbols by index, so
//! the order comes first; offsets need sizes, so they come last.

use culd_cubin::arch::Flavour;

use crate::capsule::rebuilt::Rebuilt;
use crate::capsule::{self, Half, Halves};
use crate::content::{Content, Contents, Maker};
use crate::id::SectionId;
use crate::layout::{Layout, Order};
use crate::notes;
use crate::program::Program;
use crate::relocs::Relocated;
use crate::synth;

/// Puts the file together, but for its bytes.
pub(crate) fn assemble(
    program: &mut Program<'_, '_>,
    rebuilt: &Rebuilt,
    relocated: &Halves<Relocated>,
) -> (Halves<Contents>, Layout) {
    let Program { graph, merged, data, attributes, .. } = program;
    synth::drop_empty(merged, graph, &data.made, attributes, relocated.shown());
    let mut high_indices = None;
    if merged.draft.flavour == Flavour::Mercury {
        high_indices = capsule::sections::keep_high_indices(&mut merged.draft);
        capsule::names::rename(&mut merged.draft);
    }
    let order = Order::new(&merged.draft, graph);
    let contents = contents(program, rebuilt, relocated, &order, high_indices);
    synth::set_sizes(&mut program.merged.draft, &contents.own);
    let layout = order.place(&program.merged.draft, contents.mercury.as_ref());
    (contents, layout)
}

fn contents(
    program: &Program<'_, '_>,
    rebuilt: &Rebuilt,
    relocated: &Halves<Relocated>,
    order: &Order,
    high_indices: Option<SectionId>,
) -> Halves<Contents> {
    let Program { objects, symbols, graph, merged, data, attributes, options, .. } = program;
    let maker = |half, (functions, jump_slots), relocated| Maker {
        graph,
        merged,
        attributes,
        functions,
        jump_slots,
        relocated,
        half,
        slots: &data.slots,
        order,
    };
    let shown = (&attributes.functions, &attributes.slots[..]);
    let mut contents = match &relocated.mercury {
        None => Halves {
            own: synth::contents(&maker(Half::Sass, shown, &relocated.own), &data.made),
            mercury: None,
        },
        Some(mercury) => {
            let sass = capsule::attributes::sass(objects, merged, shown.0, &data.slots);
            let jump_slots = capsule::attributes::jump_slots(objects, graph, merged, shown.1);
            let sass = (&sass, &jump_slots[..]);
            Halves {
                own: synth::contents(&maker(Half::Sass, sass, &relocated.own), &data.made),
                mercury: Some(synth::mercury_contents(
                    &maker(Half::Mercury, shown, mercury),
                    &data.made,
                )),
            }
        }
    };
    let own = &mut contents.own;
    for (section, bytes) in rebuilt.contents() {
        own[section] = Some(Content::Bytes(bytes.to_vec()));
    }
    if let (Some(section), Some(mercury)) = (high_indices, &mut contents.mercury) {
        let (indices, twin) = capsule::sections::high_indices(&merged.draft, order.layout());
        own[section] = Some(Content::Bytes(indices));
        mercury[section] = Some(Content::Bytes(twin));
    }
    if let (Some(section), Some(mercury)) = (merged.unified.slots_table, &mut contents.mercury) {
        let (code, twin) = capsule::slots::table(objects, merged);
        own[section] = Some(Content::Bytes(code));
        mercury[section] = Some(Content::Bytes(twin));
    }
    own[merged.fixed.tkinfo] = Some(Content::Bytes(notes::tkinfo(objects, options)));
    own[merged.fixed.cuinfo] = Some(Content::Bytes(notes::cuinfo(objects, options)));
    if let Some(section) = merged.fixed.compat {
        let definitions = graph.nodes.values().filter_map(|&node| symbols.all[node].definition);
        let live = definitions.map(|site| site.object).collect();
        own[section] = Some(Content::Bytes(notes::compat(objects, options, &live)));
    }
    contents
}
