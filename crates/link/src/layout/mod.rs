//! Phase `layout`: the order, contents and offsets of sections.
//!
//! In: the program and its resolved relocations. Out: the contents of all sections that are not
//! copied, for both halves, and the [`FileLayout`]. Guaranteed: afterwards no section changes its
//! size. Contents name symbols by index, so the order is fixed first. Offsets need sizes, so they
//! are set last.

pub(crate) mod contents;
pub(crate) mod file_map;
mod jump_slots;
mod maker;
pub(crate) mod mercury_names;
pub(crate) mod mercury_sections;
pub(crate) mod notes;
pub(crate) mod numbers;
pub(crate) mod place;
mod sass_attributes;
mod strings;
mod synthetic;

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shf;

use self::contents::SyntheticContents;
use self::maker::ContentMaker;
use self::numbers::Numbers;
use self::place::{FileLayout, SectionNames};
use self::sass_attributes::SassAttributes;
use crate::attributes::Attributes;
use crate::base::half::{Half, Halves};
use crate::base::id::{IdVec, SectionId};
use crate::base::session::{LIST_WORK, Session};
use crate::callgraph::CallGraph;
use crate::draft::merged::MergeResult;
use crate::program::LinkedProgram;
use crate::relocs::debug::RebuiltDebug;
use crate::relocs::relocated::ResolvedRelocs;

/// The reason to refuse a call graph that lists what indirect calls may reach: its size can be the
/// square of the number of functions.
pub(crate) fn large_call_graph(
    program: &LinkedProgram<'_, '_>,
    inputs_size: u64,
) -> Option<String> {
    let listed = program.options.dialect.lists_indirect_calls;
    let count = if listed { program.graph.count_indirect_targets() } else { 0 };
    place::out_of_proportion(count.saturating_mul(8), inputs_size)
}

/// Lays out the file: everything but its bytes.
pub(crate) fn assemble(
    session: &Session,
    program: &mut LinkedProgram<'_, '_>,
    rebuilt: RebuiltDebug,
    relocated: &Halves<ResolvedRelocs>,
) -> (Halves<SyntheticContents>, FileLayout) {
    let LinkedProgram { graph, merged, data, attributes, .. } = program;
    synthetic::drop_empty(merged, graph, &data.synthetic, attributes, relocated.leading());
    set_code_headers(merged, graph, attributes);
    let mut high_indices = None;
    if merged.draft.flavour == Flavour::Mercury {
        high_indices = mercury_sections::keep_high_indices(&mut merged.draft);
        mercury_names::rename(&mut merged.draft);
    }
    let numbers = Numbers::new(&merged.draft, graph);
    let work = LIST_WORK * graph.nodes.len();
    let (mut contents, sections) = session.join(
        work,
        || contents(session, program, rebuilt, relocated, &numbers),
        || SectionNames::new(&program.merged.draft, &numbers),
    );
    if let Some(section) = high_indices {
        let headers = sections.mercury.as_ref();
        let indices = mercury_sections::high_indices(&program.merged.draft, &numbers, headers);
        contents.set_both(section, indices);
    }
    synthetic::set_sizes(&mut program.merged.draft, &contents.sass);
    let layout =
        FileLayout::new(&program.merged.draft, numbers, sections, contents.mercury.as_ref());
    (contents, layout)
}

/// Sets the numbers of barriers and registers in the headers of code to those that entries have
/// with all that they reach.
fn set_code_headers(merged: &mut MergeResult<'_>, graph: &CallGraph, attributes: &Attributes<'_>) {
    for &(node, barriers) in &attributes.flag_barriers.changed {
        if let Some(code) = merged.code(graph, node) {
            let flags = &mut merged.draft.sections[code].flags;
            *flags = *flags & !shf::BARRIERS | shf::barriers(barriers);
        }
    }
    if !merged.draft.dialect.raises_registers_of_code {
        return;
    }
    for (&entry, facts) in graph.entries().iter().zip(&attributes.entries) {
        // On sm_90 the compiler writes 0, which stays unless the number is raised.
        let raised = facts.registers > attributes.registers[entry];
        if let Some(code) = merged.code(graph, entry).filter(|_| raised) {
            merged.draft.sections[code].registers = facts.registers as u8;
        }
    }
}

/// The contents of all sections that are not copied, except the tables of section indices.
fn contents(
    session: &Session,
    program: &LinkedProgram<'_, '_>,
    rebuilt: RebuiltDebug,
    relocated: &Halves<ResolvedRelocs>,
    numbers: &Numbers,
) -> Halves<SyntheticContents> {
    let work = LIST_WORK * program.graph.nodes.len();
    let halves = || synthetic_contents(session, program, relocated, numbers);
    let (mut contents, notes) = session.join(work, halves, || notes_of(program));
    for (section, bytes) in rebuilt.into_contents().chain(notes) {
        contents.sass.set(section, bytes);
    }
    if contents.mercury.is_some() {
        set_jump_slots(program, &mut contents);
    }
    contents
}

/// The contents of synthetic sections.
fn synthetic_contents(
    session: &Session,
    program: &LinkedProgram<'_, '_>,
    relocated: &Halves<ResolvedRelocs>,
    numbers: &Numbers,
) -> Halves<SyntheticContents> {
    let LinkedProgram { objects, graph, merged, data, attributes, options, .. } = program;
    let slots = &data.slots;
    let leading = ContentMaker {
        graph,
        merged,
        attributes,
        sass: None,
        jump_slots: &attributes.slots,
        relocated: relocated.leading(),
        half: Half::leading(merged.draft.flavour),
        slots,
        numbers,
    };
    let filled =
        |maker: ContentMaker<'_, '_>| synthetic::contents(session, &maker, &data.synthetic);
    if relocated.mercury.is_none() {
        return Halves { sass: filled(leading), mercury: None };
    }
    let sass = || {
        let functions = &attributes.functions;
        let sass = SassAttributes::new(objects, merged, functions, slots, graph, numbers, options);
        let jump_slots = sass.jump_slots(graph, &attributes.slots);
        filled(ContentMaker {
            sass: Some(&sass),
            jump_slots: &jump_slots,
            relocated: &relocated.sass,
            half: Half::Sass,
            ..leading
        })
    };
    let (sass, mercury) = session.join(LIST_WORK * graph.nodes.len(), sass, || filled(leading));
    Halves { sass, mercury: Some(mercury) }
}

/// Sets the bytes of jump slots: of the table, or with `-r` of each slot's own section.
fn set_jump_slots(program: &LinkedProgram<'_, '_>, contents: &mut Halves<SyntheticContents>) {
    let LinkedProgram { objects, symbols, merged, options, .. } = program;
    if let Some(section) = merged.unified.slots_table {
        contents.set_both(section, jump_slots::table(objects, merged, options.for_debugger()));
    }
    if options.relocatable {
        for (section, bytes) in jump_slots::slots_of_object(objects, symbols, merged) {
            contents.set_both(section, bytes);
        }
    }
}

/// The notes and `.nv.compat`: records about inputs and tools.
fn notes_of(program: &LinkedProgram<'_, '_>) -> Vec<(SectionId, Vec<u8>)> {
    let LinkedProgram { objects, symbols, graph, merged, options, .. } = program;
    let mut notes = match &merged.fixed.notes {
        Some(sections) => vec![
            (sections.tkinfo, notes::tkinfo(objects, options)),
            (sections.cuinfo, notes::cuinfo(objects, options)),
        ],
        None => Vec::new(),
    };
    if let Some(section) = merged.fixed.compat {
        let mut live = IdVec::filled(false, objects.all.len());
        let definitions = graph.nodes.values().filter_map(|&node| symbols.all[node].definition);
        definitions.for_each(|site| live[site.object] = true);
        notes.push((section, notes::compat(objects, options, &live)));
    }
    notes
}
