//! What Mercury's `.nv.shared.reserved.0` of sm_110 holds, which has no bytes and for which the file has room all the same.
//!
//! In: the finished layout. Out: the bytes. nvlink copies what is at the section's offset in the file of which it makes
//! the program: one of the Mercury half alone, its code not compressed, without parameters. Behind the sections without
//! bytes come the section headers there, so their first two or three are seen, and in front of them what aligning takes
//! (docs/MERCURY.md, shared memory beside Mercury; cases mercury/two-files, mercury/reserved-shared).

use culd_cubin::elf::sht;
use culd_cubin::encode::SectionHeader;

use super::image::Mercury;
use super::sections::{Capsules, align};
use crate::draft::{Draft, Kind, OutSection};
use crate::layout::Layout;
use crate::notes::FINALIZER_SIZE;

/// Bytes of the file header.
const FILE_HEADER: u64 = 64;

impl Mercury<'_, '_> {
    /// The `size` bytes of the section.
    pub(crate) fn reserved_twin(
        &self,
        draft: &Draft<'_>,
        layout: &Layout,
        capsules: &Capsules,
        size: u64,
    ) -> Vec<u8> {
        let strings = &layout.section_strings;
        let parameters = layout.order.iter().map(|&id| &draft.sections[id]);
        let parameters = parameters.filter(|section| section.kind == Kind::Parameters);
        let first = parameters.map(|section| strings.offset(section.name)).min();
        let names = SectionHeader {
            name: 1,
            sh_type: sht::STRTAB,
            offset: FILE_HEADER,
            size: u64::from(first.unwrap_or(capsules.first_name())),
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
        let skipped = self.before_headers(draft, layout, capsules, names.size);
        let mut bytes = vec![0; skipped.min(size) as usize];
        SectionHeader::default().write(&mut bytes);
        names.write(&mut bytes);
        symbol_names.write(&mut bytes);
        bytes.resize(size as usize, 0);
        bytes
    }

    /// Bytes between the section and the headers, with `names` bytes of section names.
    fn before_headers(
        &self,
        draft: &Draft<'_>,
        layout: &Layout,
        capsules: &Capsules,
        names: u64,
    ) -> u64 {
        let symbols = (FILE_HEADER + names + strings_of(draft, layout)).next_multiple_of(8);
        let mut at = symbols + 24 * (layout.symbols.len() as u64 + 1);
        let mut reserved = at;
        for &id in &layout.order {
            let section = &draft.sections[id];
            let (size, align) = match section.kind {
                Kind::Parameters | Kind::HighIndices => continue,
                kind if kind.is_nobits() => (0, section.align),
                Kind::Text => (self.code_size(draft, section), align(section)),
                // What the finalizer tells comes later, or is there.
                Kind::Compat if !draft.dialect.compat_keeps_finalizer => {
                    (section.size.saturating_sub(FINALIZER_SIZE), section.align)
                }
                _ if capsules.index(id) != 0 => (capsules.range(id).1, align(section)),
                _ => (section.size, section.align),
            };
            at = at.next_multiple_of(align.max(1));
            if section.kind == Kind::ReservedShared {
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

/// Bytes of `.strtab` in that file.
fn strings_of(draft: &Draft<'_>, layout: &Layout) -> u64 {
    let late = draft.late_strings.iter().map(|name| layout.strings.offset(name)).min();
    late.map_or(layout.strings.len() as u64, u64::from)
}
