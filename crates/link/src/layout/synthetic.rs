//! Synthetic sections at the end of a link: which are dropped, their contents and sizes.

use culd_cubin::arch::Flavour;
use hashbrown::HashSet;

use super::contents::SyntheticContents;
use super::maker::ContentMaker;
use crate::attributes::Attributes;
use crate::base::half::Half;
use crate::base::id::{IdVec, NodeId, SectionId};
use crate::base::session::Session;
use crate::callgraph::CallGraph;
use crate::data::synthetic::SyntheticSections;
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::merged::{InfoSource, MergeResult};
use crate::relocs::relocated::ResolvedRelocs;

/// Drops synthetic sections that are empty, if nvlink does not write them.
pub(crate) fn drop_empty(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    made: &SyntheticSections,
    attributes: &Attributes<'_>,
    relocated: &ResolvedRelocs,
) {
    let file_info = merged.fixed.file_info;
    let no_records = attributes.file.records(graph, merged).next().is_none();
    // Most programs have an entry, and their symbols are not looked through for another.
    let is_empty =
        no_records && graph.entries().is_empty() && merged.undefined_entries().is_empty();
    let draft = &mut merged.draft;
    draft.sections[file_info].dropped = is_empty;
    let listed = |node| !graph.is_address_taken(node) && graph.prototype(node).is_some();
    draft.sections[made.calls.prototype].dropped =
        graph.dead_aliases().is_empty() && !graph.nodes.ids().any(listed);
    if draft.flavour == Flavour::Classic {
        let slots = merged.unified.slots_info.filter(|_| !attributes.slots.is_empty());
        drop_empty_attributes(draft, &merged.function_infos, attributes, slots);
    }
    for (id, reloc) in draft.relocs.iter() {
        draft.sections[reloc.section].dropped = relocated.sections[id].count() == 0;
    }
    for resolved in &draft.resolved_relas {
        draft.sections[resolved.section].dropped = relocated.applied(&resolved.targets).is_empty();
    }
}

/// Drops the empty attribute sections of functions; ptxas does not write empty ones.
fn drop_empty_attributes(
    draft: &mut Draft<'_>,
    sources: &IdVec<NodeId, Option<InfoSource>>,
    attributes: &Attributes<'_>,
    slots: Option<SectionId>,
) {
    let some = sources.iter().filter(|(node, _)| !attributes.functions[*node].is_empty());
    let filled: HashSet<SectionId> =
        some.filter_map(|(_, source)| Some(source.as_ref()?.section)).chain(slots).collect();
    let infos =
        draft.sections.iter().filter(|(_, section)| section.kind == SectionKind::FunctionInfo);
    let empty: Vec<SectionId> =
        infos.map(|(id, _)| id).filter(|section| !filled.contains(section)).collect();
    for section in empty {
        draft.sections[section].dropped = true;
    }
}

/// Makes the contents of all synthetic sections except the notes.
pub(crate) fn contents(
    session: &Session,
    maker: &ContentMaker<'_, '_>,
    made: &SyntheticSections,
) -> SyntheticContents {
    let draft = &maker.merged.draft;
    let mut contents = SyntheticContents::new(draft);
    contents.set(maker.merged.fixed.file_info, maker.file_info());
    if maker.half == Half::Sass || draft.dialect.mercury_callgraph {
        contents.set(made.calls.call_graph, maker.call_graph());
        contents.set(made.calls.prototype, maker.prototypes());
    }
    if let Some(section) = made.rel_action {
        contents.set(section, draft.dialect.rel_action.to_vec());
    }
    maker.relocations(draft, &mut contents);
    // Near the end, because this runs in parallel tasks: the other half may have finished, and its
    // threads can help.
    maker.function_infos(session, &mut contents);
    maker.unified(&mut contents);
    contents
}

/// Sets the size of every synthetic section to that of its contents.
pub(crate) fn set_sizes(draft: &mut Draft<'_>, contents: &SyntheticContents) {
    for (id, size) in contents.sizes() {
        draft.sections[id].size = size;
    }
}
