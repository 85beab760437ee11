//! Phase 12: the file's bytes.
//!
//! In: layout, contents, patches. Out: the image. Guaranteed: cannot fail; the bytes do not
//! depend on the number of threads, because every section is written by itself.

use culd_cubin::arch::Flavour;
use culd_cubin::elf::{shn, sht};
use culd_cubin::encode::{FileHeader, RESERVED_INDEX, SectionHeader, SymbolEntry, null_section};

use crate::LinkOptions;
use crate::Session;
use crate::capsule::image::Mercury;
use crate::capsule::sections::Capsules;
use crate::capsule::{Half, SYSTEM_SHARED};
use crate::content::Contents;
use crate::draft::{Kind, OutSymbol};
use crate::id::SectionId;
use crate::layout::{Layout, creation_index};
use crate::merge::Merged;
use crate::relocs::Relocated;

/// ET_REL.
const RELOCATABLE: u16 = 1;
/// ET_EXEC.
const EXECUTABLE: u16 = 2;
/// `e_flags` bits 0-7 of sm_75 to sm_90a.
const CLASSIC_FLAGS: u32 = 4;
/// The same of later targets.
const MERCURY_FLAGS: u32 = 2;

/// Everything the file is written from.
pub(crate) struct Writer<'a, 'd> {
    pub(crate) merged: &'a Merged<'d>,
    pub(crate) layout: &'a Layout,
    pub(crate) contents: &'a Contents,
    pub(crate) relocated: &'a Relocated,
    pub(crate) options: &'a LinkOptions,
    /// The Mercury half.
    pub(crate) mercury: Option<Mercury<'a, 'd>>,
}

/// A section's index as far as it fits. Like nvlink, that of COMMON stays as it is, though not for
/// a symbol that could be common (docs/DIFFERENCES.md, section-0xfff2).
fn st_shndx(symbol: &OutSymbol, index: u32) -> u16 {
    match u16::try_from(index) {
        Ok(shn::COMMON) if !symbol.may_be_common() => shn::COMMON,
        Ok(small) if (small as usize) < RESERVED_INDEX => small,
        _ => shn::XINDEX,
    }
}

impl Writer<'_, '_> {
    /// Writes the file.
    pub(crate) fn write(&self, session: &Session) -> Vec<u8> {
        let layout = self.layout;
        let mut image = vec![0u8; layout.size as usize];
        let put = |image: &mut [u8], at: u64, bytes: &[u8]| {
            image[at as usize..][..bytes.len()].copy_from_slice(bytes);
        };
        put(&mut image, 0, &self.file_header());
        put(&mut image, layout.tables.section_strings, &layout.section_strings.bytes);
        put(&mut image, layout.tables.strings, &layout.strings.bytes);
        let (symbols, high) = self.symbols();
        put(&mut image, layout.tables.symbols, &symbols);
        if let Some(at) = layout.tables.high_indices {
            put(&mut image, at, &high);
        }
        put(&mut image, layout.section_headers_at, &self.section_headers());
        let mut headers = Vec::new();
        layout.program_headers.iter().for_each(|header| header.write(&mut headers));
        put(&mut image, layout.program_headers_at, &headers);
        let mercury = self.mercury.as_ref().zip(layout.capsules.as_ref());
        if let Some((mercury, capsules)) = mercury {
            let table = mercury.symbol_table(&self.merged.draft, layout, capsules);
            put(&mut image, capsules.symbols_at, &table);
            for &id in &capsules.order {
                if self.merged.draft.sections[id].kind == Kind::ReservedShared {
                    let (at, size) = capsules.range(id);
                    put(&mut image, at, &self.reserved_twin(capsules, size));
                }
            }
        }
        let sections = self.slices(&mut image);
        session.each(sections, layout.size as usize, |(half, id, bytes)| {
            match (half, &self.mercury) {
                (Half::Mercury, Some(mercury)) => {
                    mercury.section(&self.merged.draft, layout, id, bytes);
                }
                _ => self.section(id, bytes),
            }
        });
        image
    }

    /// What Mercury's `.nv.shared.reserved.0` holds, which has no bytes and for which nvlink takes room all the same:
    /// the first section headers, before parameters and Mercury had names (case mercury/two-files, sm_110).
    fn reserved_twin(&self, capsules: &Capsules, size: u64) -> Vec<u8> {
        let (draft, strings) = (&self.merged.draft, &self.layout.section_strings);
        let parameters = self.layout.order.iter().map(|&id| &draft.sections[id]);
        let parameters = parameters.filter(|section| section.kind == Kind::Parameters);
        let first = parameters.map(|section| strings.offset(section.name)).min();
        let names = SectionHeader {
            name: 1,
            sh_type: sht::STRTAB,
            offset: self.layout.tables.section_strings,
            size: u64::from(first.unwrap_or(capsules.first_name())),
            align: 1,
            ..SectionHeader::default()
        };
        let mut bytes = Vec::new();
        SectionHeader::default().write(&mut bytes);
        names.write(&mut bytes);
        bytes.resize(size as usize, 0);
        bytes
    }

    /// The bytes of every section that has some, in file order.
    fn slices<'i>(&self, image: &'i mut [u8]) -> Vec<(Half, SectionId, &'i mut [u8])> {
        let sections = &self.merged.draft.sections;
        let own = self.layout.order.iter().map(|&id| {
            let size = if sections[id].kind.is_nobits() { 0 } else { sections[id].size };
            (Half::Sass, id, (self.layout.offsets[id], size))
        });
        let capsules = self.layout.capsules.iter().flat_map(|capsules| {
            let twins = capsules.order.iter().filter(|&&id| !sections[id].shares_bytes());
            twins.map(|&id| (Half::Mercury, id, capsules.range(id)))
        });
        let mut slices = Vec::with_capacity(self.layout.section_count());
        let (mut rest, mut at) = (image, 0u64);
        for (half, id, (start, size)) in own.chain(capsules).filter(|&(.., (_, size))| size != 0) {
            let (_, tail) = rest.split_at_mut((start - at) as usize);
            let (bytes, tail) = tail.split_at_mut(size as usize);
            (rest, at) = (tail, start + size);
            slices.push((half, id, bytes));
        }
        slices
    }

    /// Copies or writes one section, then patches it.
    fn section(&self, id: SectionId, bytes: &mut [u8]) {
        match &self.contents[id] {
            Some(content) => bytes.copy_from_slice(content),
            None => {
                for part in &self.merged.draft.sections[id].parts {
                    bytes[part.offset as usize..][..part.bytes.len()].copy_from_slice(part.bytes);
                }
            }
        }
        self.relocated.patches(id).for_each(|patch| patch.apply(bytes));
    }

    fn file_header(&self) -> Vec<u8> {
        let layout = self.layout;
        let cuinfo = layout.index(self.merged.fixed.cuinfo);
        let kind = match self.options.target.flavour {
            Flavour::Classic => CLASSIC_FLAGS,
            Flavour::Mercury => MERCURY_FLAGS,
        };
        let header = FileHeader {
            e_type: if self.options.relocatable { RELOCATABLE } else { EXECUTABLE },
            // The index of the note as far as it fits.
            flags: kind | self.options.target.sm << 8 | cuinfo.min(0xff) << 24,
            program_headers: layout.program_headers_at,
            program_header_count: layout.program_headers.len() as u16,
            program_header_size: match self.options.target.flavour {
                Flavour::Mercury if self.options.relocatable => 0,
                _ => 56,
            },
            section_headers: layout.section_headers_at,
            section_count: layout.section_count(),
            section_names: 1,
        };
        header.bytes()
    }

    /// The symbol table, and the table of section indices that do not fit it.
    fn symbols(&self) -> (Vec<u8>, Vec<u8>) {
        let draft = &self.merged.draft;
        let count = self.layout.symbol_count();
        let (mut out, mut high) = (Vec::with_capacity(24 * count), Vec::new());
        let wide = self.layout.tables.high_indices.is_some();
        let null = SymbolEntry { value: draft.null_value(), ..SymbolEntry::default() };
        null.write(&mut out);
        if wide {
            high.extend_from_slice(&[0; 4]);
        }
        for &id in self.layout.symbols.iter().chain(&self.layout.trailing) {
            let symbol = &draft.symbols[id];
            let index = symbol.section.map_or(0, |section| self.layout.index(section));
            let section = st_shndx(symbol, index);
            if wide {
                // Where the index is in the symbol, nvlink leaves that of the section's creation.
                let stale = symbol.section.map_or(0, |section| creation_index(draft, section));
                let entry = if section == shn::XINDEX { index } else { stale };
                high.extend_from_slice(&entry.to_le_bytes());
            }
            let own = match symbol.program {
                None => draft.renamed.get(&symbol.name).copied().unwrap_or(symbol.name),
                Some(_) => symbol.name,
            };
            let name = self.layout.strings.offset(own);
            let (info, other) = (symbol.info, symbol.other);
            let (value, size) = (self.value(symbol), symbol.size);
            SymbolEntry { name, info, other, section, value, size }.write(&mut out);
        }
        (out, high)
    }

    /// `st_value`. Shared variables of machine code are behind the system's part, which Mercury does not count.
    fn value(&self, symbol: &OutSymbol) -> u64 {
        let shared = symbol.shared.is_some() && symbol.section.is_some();
        let kind = symbol.section.map(|section| self.merged.draft.sections[section].kind);
        let reserved = kind == Some(Kind::ReservedShared) && symbol.program.is_some();
        if reserved && !self.options.relocatable {
            return symbol.value + SYSTEM_SHARED;
        }
        match self.options.target.flavour {
            Flavour::Mercury if shared && !self.options.relocatable => {
                symbol.value.wrapping_add(self.options.target.reserved_shared)
            }
            _ => symbol.value,
        }
    }

    fn section_headers(&self) -> Vec<u8> {
        let (layout, draft) = (self.layout, &self.merged.draft);
        let mut out = Vec::with_capacity(64 * layout.section_count());
        null_section(layout.section_count()).write(&mut out);
        self.table_headers(&mut out);
        for &id in &layout.order {
            let section = &draft.sections[id];
            let header = SectionHeader {
                name: layout.section_strings.offset(section.name),
                sh_type: section.sh_type,
                flags: section.flags,
                offset: layout.offsets[id],
                size: section.size,
                link: layout.link(section, self.merged.fixed.tkinfo),
                info: layout.info(section),
                align: section.align,
                entsize: section.entsize,
            };
            header.write(&mut out);
        }
        if let Some(capsules) = &layout.capsules {
            capsules.headers(draft, layout, &mut out);
        }
        out
    }

    /// Headers of the string tables and the symbol table.
    fn table_headers(&self, out: &mut Vec<u8>) {
        use culd_cubin::elf::sht;
        let (layout, names) = (self.layout, &self.merged.draft.names);
        let symbols = layout.symbol_count() as u64;
        let name =
            |name: &[u8]| names.lookup(name).map_or(0, |id| layout.section_strings.offset(id));
        let table = SectionHeader { align: 1, sh_type: sht::STRTAB, ..SectionHeader::default() };
        SectionHeader {
            name: name(b".shstrtab"),
            offset: layout.tables.section_strings,
            size: layout.section_strings.bytes.len() as u64,
            ..table
        }
        .write(out);
        SectionHeader {
            name: name(b".strtab"),
            offset: layout.tables.strings,
            size: layout.strings.bytes.len() as u64,
            ..table
        }
        .write(out);
        SectionHeader {
            name: name(b".symtab"),
            sh_type: sht::SYMTAB,
            offset: layout.tables.symbols,
            size: 24 * symbols,
            link: 2,
            info: layout.symbols_info(),
            align: 8,
            entsize: 24,
            ..SectionHeader::default()
        }
        .write(out);
        if let Some(offset) = layout.tables.high_indices {
            SectionHeader {
                name: name(b".symtab_shndx"),
                sh_type: sht::SYMTAB_SHNDX,
                offset,
                size: 4 * symbols,
                link: 3,
                align: 4,
                entsize: 4,
                ..SectionHeader::default()
            }
            .write(out);
        }
    }
}
