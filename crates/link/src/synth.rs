//! Sections that the linker makes itself: created after the last input, filled at the end.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shf;

use hashbrown::HashSet;

use crate::attributes::Attributes;
use crate::banks;
use crate::callgraph::CallGraph;
use crate::capsule::Half;
use crate::constants;
use crate::content::{Contents, Maker, REL_ACTION};
use crate::draft::{Draft, Kind};
use crate::id::{IdVec, NodeId, SectionId};
use crate::merge::{InfoSource, Merged};
use crate::objects::Objects;
use crate::relocs::Relocated;
use crate::symbols::Symbols;
use crate::{LinkOptions, Session};

/// The sections of the call graph.
pub(crate) struct CallSections {
    call_graph: SectionId,
    prototype: SectionId,
}

/// The sections made after the last input.
pub(crate) struct Made {
    calls: CallSections,
    /// In an executable.
    rel_action: Option<SectionId>,
}

/// Places tentative definitions, creates the call graph's sections.
pub(crate) fn add_sections<'d>(
    objects: &Objects<'d>,
    symbols: &Symbols,
    merged: &mut Merged<'d>,
    options: &LinkOptions,
) -> CallSections {
    place_commons(merged);
    let relocatable = merged.draft.relocatable;
    if relocatable {
        constants::tell_size(&mut merged.draft);
    } else {
        constants::tighten(objects, symbols, merged, options);
    }
    let draft = &mut merged.draft;
    let name = draft.names.intern(b".nv.callgraph");
    let call_graph = draft.add_section(name, Kind::CallGraph, 0, 4);
    let name = draft.names.intern(b".nv.prototype");
    let prototype = draft.add_section(name, Kind::Prototype, 0, 4);
    CallSections { call_graph, prototype }
}

/// Merges constant banks and creates the last section.
pub(crate) fn add_last_sections(
    merged: &mut Merged<'_>,
    graph: &CallGraph,
    calls: CallSections,
    options: &LinkOptions,
) -> Made {
    banks::merge_banks(merged, graph, options);
    banks::drop_empty(merged);
    let classic = merged.draft.flavour == Flavour::Classic;
    let rel_action = (classic && !merged.draft.relocatable).then(|| {
        let name = merged.draft.names.intern(b".nv.rel.action");
        merged.draft.add_section(name, Kind::RelAction, 0, 8)
    });
    Made { calls, rel_action }
}

/// Tentative definitions that no definition replaced go to the end of `.nv.global`, the last
/// created first (cases common/*).
fn place_commons(merged: &mut Merged<'_>) {
    let commons = std::mem::take(&mut merged.commons);
    let mut global = None;
    for common in commons.iter().rev() {
        if merged.draft.symbols[common.out].section.is_some() {
            continue;
        }
        let section = *global.get_or_insert_with(|| global_section(&mut merged.draft));
        let size = merged.draft.symbols[common.out].size;
        let output = &mut merged.draft.sections[section];
        let value = output.append(&[], size, common.align);
        output.align = output.align.max(common.align);
        let symbol = &mut merged.draft.symbols[common.out];
        symbol.section = Some(section);
        symbol.value = value;
    }
}

fn global_section(draft: &mut Draft<'_>) -> SectionId {
    match draft.first_of(Kind::Global) {
        Some(section) => section,
        None => {
            let name = draft.names.intern(b".nv.global");
            draft.add_section(name, Kind::Global, shf::WRITE | shf::ALLOC, 1)
        }
    }
}

/// Drops the sections that have turned out empty and are then left out.
pub(crate) fn drop_empty(
    merged: &mut Merged<'_>,
    graph: &CallGraph,
    made: &Made,
    attributes: &Attributes<'_>,
    relocated: &Relocated,
) {
    let file_info = merged.fixed.file_info;
    let no_records = attributes.file.records(graph, merged).next().is_none();
    let draft = &mut merged.draft;
    draft.sections[file_info].dropped = no_records && graph.entries().is_empty();
    draft.sections[made.calls.prototype].dropped = !graph
        .nodes
        .ids()
        .any(|node| !graph.is_address_taken(node) && graph.prototype(node).is_some());
    if draft.flavour == Flavour::Classic {
        drop_empty_attributes(draft, &merged.function_infos, attributes, merged.unified.slots_info);
    }
    for (id, reloc) in draft.relocs.iter() {
        draft.sections[reloc.section].dropped = relocated.sections[id].count() == 0;
    }
    for resolved in &draft.resolved {
        draft.sections[resolved.section].dropped = relocated.applied(&resolved.targets).is_empty();
    }
}

/// Drops sections of functions without an attribute, which ptxas does not make.
fn drop_empty_attributes(
    draft: &mut Draft<'_>,
    sources: &IdVec<NodeId, Option<InfoSource>>,
    attributes: &Attributes<'_>,
    slots: Option<SectionId>,
) {
    let some = sources.iter().filter(|(node, _)| !attributes.functions[*node].is_empty());
    let filled: HashSet<SectionId> =
        some.filter_map(|(_, source)| Some(source.as_ref()?.section)).chain(slots).collect();
    let infos = draft.sections.iter().filter(|(_, section)| section.kind == Kind::FunctionInfo);
    let empty: Vec<SectionId> =
        infos.map(|(id, _)| id).filter(|section| !filled.contains(section)).collect();
    for section in empty {
        draft.sections[section].dropped = true;
    }
}

/// Makes the contents of all sections that are not copied from inputs, notes aside.
pub(crate) fn contents(session: &Session, maker: &Maker<'_, '_>, made: &Made) -> Contents {
    let draft = &maker.merged.draft;
    let mut contents = Contents::new(draft);
    contents.set(maker.merged.fixed.file_info, maker.file_info());
    if maker.half == Half::Sass || draft.dialect.mercury_callgraph {
        contents.set(made.calls.call_graph, maker.call_graph());
        contents.set(made.calls.prototype, maker.prototypes());
    }
    if let Some(section) = made.rel_action {
        contents.set(section, REL_ACTION.to_vec());
    }
    maker.relocations(draft, &mut contents);
    // Last, because this is shared out: the other half may be done.
    maker.function_infos(session, &mut contents);
    maker.unified(&mut contents);
    contents
}

/// Gives made sections the size of their contents.
pub(crate) fn set_sizes(draft: &mut Draft<'_>, contents: &Contents) {
    for (id, size) in contents.sizes() {
        draft.sections[id].size = size;
    }
}
