//! Phase `layout`: sections in order, with their contents, at their offsets.
//!
//! In: the program and its resolved relocations. Out: the contents of all sections that are not copies, for both
//! halves, and the [`Layout`]. Guaranteed: no section changes size afterwards. Contents name symbols by index, so
//! the order comes first; offsets need sizes, so they come last.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shf;

use crate::Session;
use crate::capsule::attributes::Sass;
use crate::capsule::rebuilt::Rebuilt;
use crate::capsule::{self, Half, Halves};
use crate::content::{Contents, LIST_WORK, Maker};
use crate::id::{IdVec, SectionId};
use crate::layout::{Layout, Order};
use crate::notes;
use crate::program::Program;
use crate::relocs::Relocated;
use crate::synth;

/// Puts the file together, but for its bytes.
pub(crate) fn assemble(
    session: &Session,
    program: &mut Program<'_, '_>,
    rebuilt: Rebuilt,
    relocated: &Halves<Relocated>,
) -> (Halves<Contents>, Layout) {
    let Program { graph, merged, data, attributes, .. } = program;
    synth::drop_empty(merged, graph, &data.made, attributes, relocated.shown());
    for &node in &attributes.told_barriers {
        if let Some(code) = merged.code(graph, node) {
            merged.draft.sections[code].flags &= !shf::BARRIERS;
        }
    }
    let mut high_indices = None;
    if merged.draft.flavour == Flavour::Mercury {
        high_indices = capsule::sections::keep_high_indices(&mut merged.draft);
        capsule::names::rename(&mut merged.draft);
    }
    let order = Order::new(&merged.draft, graph);
    let work = LIST_WORK * graph.nodes.len();
    let (mut contents, sections) = session.join(
        work,
        || contents(session, program, rebuilt, relocated, &order),
        || order.sections(&program.merged.draft),
    );
    if let (Some(section), Some(mercury)) = (high_indices, &mut contents.mercury) {
        let capsules = sections.capsules.as_ref();
        let (indices, twin) =
            capsule::sections::high_indices(&program.merged.draft, order.layout(), capsules);
        contents.own.set(section, indices);
        mercury.set(section, twin);
    }
    synth::set_sizes(&mut program.merged.draft, &contents.own);
    let layout = order.place(&program.merged.draft, sections, contents.mercury.as_ref());
    (contents, layout)
}

fn contents(
    session: &Session,
    program: &Program<'_, '_>,
    rebuilt: Rebuilt,
    relocated: &Halves<Relocated>,
    order: &Order,
) -> Halves<Contents> {
    let Program { objects, symbols, graph, merged, data, attributes, options, .. } = program;
    let slots = &data.slots;
    let shown = Maker {
        graph,
        merged,
        attributes,
        sass: None,
        jump_slots: &attributes.slots,
        relocated: relocated.shown(),
        half: Half::shown(merged.draft.flavour),
        slots,
        order,
    };
    let made = |maker: Maker<'_, '_>| synth::contents(session, &maker, &data.made);
    let halves = || match relocated.mercury {
        None => Halves { own: made(shown), mercury: None },
        Some(_) => {
            let own = || {
                let functions = &attributes.functions;
                let sass = Sass::new(objects, merged, functions, slots, (graph, order), options);
                let jump_slots = sass.jump_slots(graph, &attributes.slots);
                made(Maker {
                    sass: Some(&sass),
                    jump_slots: &jump_slots,
                    relocated: &relocated.own,
                    half: Half::Sass,
                    ..shown
                })
            };
            let (own, mercury) = session.join(LIST_WORK * graph.nodes.len(), own, || made(shown));
            Halves { own, mercury: Some(mercury) }
        }
    };
    let work = LIST_WORK * graph.nodes.len();
    let (mut contents, notes) = session.join(work, halves, || notes_of(program));
    let own = &mut contents.own;
    for (section, bytes) in rebuilt.into_contents() {
        own.set(section, bytes);
    }
    if let (Some(section), Some(mercury)) = (merged.unified.slots_table, &mut contents.mercury) {
        let (code, twin) = capsule::slots::table(objects, merged, options.for_debugger());
        own.set(section, code);
        mercury.set(section, twin);
    }
    if let (true, Some(mercury)) = (options.relocatable, &mut contents.mercury) {
        for (section, code, twin) in capsule::slots::in_object(objects, symbols, merged) {
            own.set(section, code);
            mercury.set(section, twin);
        }
    }
    for (section, bytes) in notes {
        own.set(section, bytes);
    }
    contents
}

/// What tells of inputs and tools.
fn notes_of(program: &Program<'_, '_>) -> Vec<(SectionId, Vec<u8>)> {
    let Program { objects, symbols, graph, merged, options, .. } = program;
    let mut notes = vec![
        (merged.fixed.tkinfo, notes::tkinfo(objects, options)),
        (merged.fixed.cuinfo, notes::cuinfo(objects, options)),
    ];
    if let Some(section) = merged.fixed.compat {
        let mut live = IdVec::filled(false, objects.all.len());
        let definitions = graph.nodes.values().filter_map(|&node| symbols.all[node].definition);
        definitions.for_each(|site| live[site.object] = true);
        notes.push((section, notes::compat(objects, options, &live)));
    }
    notes
}
