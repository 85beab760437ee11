//! The bytes of the Mercury half's `.nv.shared.reserved.0` on sm_110. The section has no contents,
//! but room in the file.
//!
//! In: the finished layout. Out: the bytes. nvlink copies the bytes at the section's offset in the
//! file from which its finalizer makes the program. That file has the Mercury half only, with
//! uncompressed code and without parameter banks. In it, alignment padding and then the section
//! headers follow the sections without bytes, so the copy has padding and the first two or three
//! headers (docs/MERCURY.md, shared memory; cases mercury/two-files, mercury/reserved-shared).

use culd_cubin::elf::sht;
use culd_cubin::encode::SectionHeader;

use super::mercury::MercuryWriter;
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::section::OutSection;
use crate::layout::mercury_sections::{MercurySections, align};
use crate::layout::notes::FINALIZER_SIZE;
use crate::layout::place::FileLayout;

/// Bytes of the file header.
const FILE_HEADER: u64 = 64;

impl MercuryWriter<'_, '_> {
    /// The first `size` bytes at the section's offset in that file.
    pub(crate) fn reserved_bytes(
        &self,
        draft: &Draft<'_>,
        layout: &FileLayout,
        mercury_sections: &MercurySections,
        size: u64,
    ) -> Vec<u8> {
        let strings = &layout.section_strings;
        let parameters = layout.numbers.order.iter().map(|&id| &draft.sections[id]);
        let parameters = parameters.filter(|section| section.kind == SectionKind::Parameters);
        let first = parameters.map(|section| strings.offset(section.name)).min();
        let names = SectionHeader {
            name: 1,
            sh_type: sht::STRTAB,
            offset: FILE_HEADER,
            size: u64::from(first.unwrap_or(mercury_sections.first_name())),
            align: 1,
            ..SectionHeader::default()
        };
        let all_strings = strings_of(draft, layout);
        let symbol_names = SectionHeader {
            name: 1 + b".shstrtab\0".len() as u32,
            offset: FILE_HEADER + names.size,
            size: all_strings,
            ..names
        };
        let skipped = self.before_headers(draft, layout, mercury_sections, names.size);
        let mut bytes = vec![0; skipped.min(size) as usize];
        SectionHeader::default().write(&mut bytes);
        names.write(&mut bytes);
        symbol_names.write(&mut bytes);
        bytes.resize(size as usize, 0);
        bytes
    }

    /// Bytes between the section and the section headers in that file; `names` is the size of its
    /// `.shstrtab`.
    fn before_headers(
        &self,
        draft: &Draft<'_>,
        layout: &FileLayout,
        mercury_sections: &MercurySections,
        names: u64,
    ) -> u64 {
        let symbols = (FILE_HEADER + names + strings_of(draft, layout)).next_multiple_of(8);
        let mut at = symbols + 24 * (layout.numbers.symbols.len() as u64 + 1);
        let mut reserved = at;
        for &id in &layout.numbers.order {
            let section = &draft.sections[id];
            let (size, align) = match section.kind {
                SectionKind::Parameters | SectionKind::HighIndices => continue,
                kind if kind.is_nobits() => (0, section.align),
                SectionKind::Text => (self.code_size(draft, section), align(section)),
                // The finalizer adds its attribute later, unless the inputs have it.
                SectionKind::Compat if !draft.dialect.compat_keeps_finalizer => {
                    (section.size.saturating_sub(FINALIZER_SIZE), section.align)
                }
                _ if mercury_sections.index(id) != 0 => {
                    (mercury_sections.range(id).1, align(section))
                }
                _ => (section.size, section.align),
            };
            at = at.next_multiple_of(align.max(1));
            if section.kind == SectionKind::ReservedShared {
                reserved = at;
            }
            at += size;
        }
        at.next_multiple_of(8) - reserved
    }

    /// Bytes of Mercury code before compression.
    fn code_size(&self, draft: &Draft<'_>, section: &OutSection<'_>) -> u64 {
        let program = section.function.and_then(|function| draft.symbols[function].program);
        let site = program.and_then(|program| self.symbols.all[program].definition);
        let symbol = site.and_then(|site| self.objects[site.object].mercury_symbol(site.index));
        symbol.map_or(0, |symbol| symbol.size)
    }
}

/// Bytes of that file's `.strtab`.
fn strings_of(draft: &Draft<'_>, layout: &FileLayout) -> u64 {
    let late =
        draft.mercury.late_strings.iter().map(|name| layout.numbers.strings.offset(name)).min();
    late.map_or(layout.numbers.strings.len() as u64, u64::from)
}
