//! Synthetic sections: created after the last input, filled in phase `layout`.

use culd_cubin::arch::Flavour;

use super::commons::place_commons;
use super::{banks, constants};
use crate::base::id::SectionId;
use crate::callgraph::CallGraph;
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::symbols::Symbols;

/// `.nv.callgraph` and `.nv.prototype`.
pub(crate) struct CallSections {
    pub(crate) call_graph: SectionId,
    pub(crate) prototype: SectionId,
}

/// The synthetic sections created after the last input.
pub(crate) struct SyntheticSections {
    pub(crate) calls: CallSections,
    /// `.nv.rel.action`, which only executables have, and only those of sm_90 and older.
    pub(crate) rel_action: Option<SectionId>,
}

/// Places tentative definitions and creates the sections of the call graph.
pub(crate) fn add_sections<'d>(
    objects: &InputObjects<'d>,
    symbols: &Symbols,
    merged: &mut MergeResult<'d>,
    options: &LinkOptions,
) -> CallSections {
    place_commons(merged);
    let relocatable = merged.draft.relocatable;
    let anew = if relocatable {
        constants::define_size_symbol(&mut merged.draft);
        false
    } else {
        constants::tighten(objects, symbols, merged, options)
    };
    let draft = &mut merged.draft;
    let name = draft.names.intern(b".nv.callgraph");
    let call_graph = draft.add_section(name, SectionKind::CallGraph, 0, 4);
    let name = draft.names.intern(b".nv.prototype");
    let prototype = draft.add_section(name, SectionKind::Prototype, 0, 4);
    if anew {
        // The bank has a second section for a while (case dialects/second-layout-12-2).
        draft.add_lost_section_name(b"TEMP_USER_DATA");
    }
    CallSections { call_graph, prototype }
}

/// Appends functions' constant banks to those of entries, and creates `.nv.rel.action`.
pub(crate) fn add_last_sections(
    merged: &mut MergeResult<'_>,
    graph: &CallGraph,
    calls: CallSections,
    options: &LinkOptions,
) -> SyntheticSections {
    banks::merge_banks(merged, graph, options);
    if !options.relocatable && options.effective_selection().is_active() {
        constants::add_second_index(&mut merged.draft);
    }
    banks::drop_empty(merged);
    let classic = merged.draft.flavour == Flavour::Classic;
    let has_actions = !merged.draft.dialect.rel_action.is_empty();
    let rel_action = (classic && has_actions && !merged.draft.relocatable).then(|| {
        let name = merged.draft.names.intern(b".nv.rel.action");
        merged.draft.add_section(name, SectionKind::RelAction, 0, 8)
    });
    SyntheticSections { calls, rel_action }
}

/// Creates the section of the table of section indices that do not fit `st_shndx`.
/// [`crate::layout::mercury_sections::keep_high_indices`] decides whether the file has it.
pub(crate) fn add_high_indices(draft: &mut Draft<'_>) {
    // A second string: every file has this name once already.
    let name = draft.names.intern_separate(&[b".symtab_shndx"]);
    draft.section_strings.add(name);
    draft.push_section(name, SectionKind::HighIndices, 0, 4);
}
