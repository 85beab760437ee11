//! Phase `data`: places for tentative definitions (SHN_COMMON).

use culd_cubin::elf::shf;

use crate::base::id::SectionId;
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;

/// Appends the tentative definitions that no definition replaced to `.nv.global`, in the reverse
/// order of creation (cases common/*).
pub(super) fn place_commons(merged: &mut MergeResult<'_>) {
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
    match draft.first_of(SectionKind::Global) {
        Some(section) => section,
        None => {
            let name = draft.names.intern(b".nv.global");
            draft.add_section(name, SectionKind::Global, shf::WRITE | shf::ALLOC, 1)
        }
    }
}
