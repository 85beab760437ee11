//! Phase `write`: the bytes of the file.
//!
//! In: layout, contents, patches. Out: the bytes in chunks; apart from the inputs, only one chunk
//! for each thread is in memory. Guaranteed: only the receiver can fail. The bytes do not depend on
//! the number of threads, because no section depends on the bytes of another.

pub(crate) mod account;
mod mercury;
mod reserved_shared;
mod types;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io};

use culd_cubin::arch::{Flavour, Variant};
use culd_cubin::elf::{shf, shn};
use culd_cubin::encode::{
    Abi, FileHeader, RESERVED_INDEX, SectionHeader, SymbolEntry, null_section,
};

use self::mercury::MercuryWriter;
use self::types::{MetTypes, TypeCounts};
use crate::base::half::{Half, Halves, system_shared};
use crate::base::id::SectionId;
use crate::base::session::Session;
use crate::draft::jump_slots;
use crate::draft::kind::SectionKind;
use crate::draft::merged::MergeResult;
use crate::draft::section::OutSymbol;
use crate::layout::contents::SyntheticContents;
use crate::layout::file_map::{FileTable, OutputChunk, RangeContent, chunks};
use crate::layout::mercury_names;
use crate::layout::mercury_sections::MercurySections;
use crate::layout::notes;
use crate::layout::numbers::creation_index;
use crate::layout::place::FileLayout;
use crate::objects::InputObjects;
use crate::options::LinkOptions;
use crate::options::form::FileForm;
use crate::program::LinkedProgram;
use crate::relocs::relocated::ResolvedRelocs;

/// ET_REL.
const RELOCATABLE: u16 = 1;
/// ET_EXEC.
const EXECUTABLE: u16 = 2;
/// `e_flags` of [`FileForm::Header`]: addresses of 64 bits, bits that all files have, and code for
/// an `a` target. The target is in bits 0-7, the virtual architecture in bits 16-23.
const HEADER_FLAGS: u32 = 0x500;
const HEADER_ACCELERATED: u32 = 0x800;
/// `e_flags` bits 0-7 of sm_75 to sm_90a.
const CLASSIC_FLAGS: u32 = 4;
/// `e_flags` bits 0-7 of later targets.
const MERCURY_FLAGS: u32 = 2;
/// The bit of code for an `a` target, [`FileForm::Version`].
const VERSION_ACCELERATED: u32 = 8;

/// Takes the bytes of a linked cubin: chunks in any order, from any thread, each byte once.
pub trait Output: Sync {
    /// Takes `bytes`, which start at byte `offset` of the file.
    ///
    /// # Errors
    /// When the bytes cannot be stored. Later chunks are then not made.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// A linked cubin before it is written: everything is decided, nothing is copied.
pub struct Image<'o, 'd> {
    pub(crate) program: LinkedProgram<'o, 'd>,
    pub(crate) layout: FileLayout,
    pub(crate) contents: Halves<SyntheticContents>,
    pub(crate) relocated: Halves<ResolvedRelocs>,
    /// The types of the records that are written, if they are counted.
    pub(crate) types: Option<TypeCounts>,
}

/// Counts of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs that were linked.
    pub objects: usize,
    /// Bytes of the output.
    pub bytes: u64,
    /// Sections of the output.
    pub sections: usize,
    /// Symbols of the output.
    pub symbols: usize,
    /// Functions that are alive.
    pub functions: usize,
    /// Relocations that were applied, in both halves.
    pub applied: usize,
    /// Relocations that were kept, in both halves.
    pub kept: usize,
}

impl fmt::Debug for Image<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Image<'_, '_> {
    /// Size of the file, bytes.
    pub fn size(&self) -> u64 {
        self.layout.size
    }

    /// Counts of the link.
    pub fn counts(&self) -> Counts {
        let halves = || std::iter::once(&self.relocated.sass).chain(&self.relocated.mercury);
        let counts = halves().map(ResolvedRelocs::counts);
        let (applied, kept) = counts.fold((0, 0), |all, half| (all.0 + half.0, all.1 + half.1));
        Counts {
            objects: self.program.objects.all.len(),
            bytes: self.size(),
            sections: self.layout.section_count(),
            symbols: self.layout.numbers.symbol_count(),
            functions: self.program.graph.nodes.len(),
            applied,
            kept,
        }
    }

    /// Has [`Image::write`] count the types of relocation records, for [`Image::account`]: the
    /// records are at hand there. Fetched again from the inputs: 2 % more time on many1000.
    pub fn count_types(&mut self) {
        self.types = Some(TypeCounts::default());
    }

    /// Writes the file to `output`.
    ///
    /// # Errors
    /// The error of `output` for the first chunk, in file order, that it does not take.
    pub fn write(&self, session: &Session, output: &dyn Output) -> io::Result<()> {
        let writer = ImageWriter::new(self);
        let chunks: Vec<OutputChunk<'_>> = chunks(&self.layout.ranges, self.size()).collect();
        let size = self.size() as usize;
        let largest = chunks.iter().map(OutputChunk::size).max().unwrap_or(0);
        // Zeroed memory: pages that no chunk fills are never allocated. With a buffer for each
        // chunk instead of each thread: +13 % instructions on many1000.
        let make = || vec![0; largest];
        // The first chunk, in file order, that failed. Chunks before it are still made: one of them
        // may fail too, and its error is then the one to return.
        let failed = AtomicUsize::new(usize::MAX);
        let written = session.map_with(chunks.len(), size, make, |buffer: &mut Vec<u8>, place| {
            if place > failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let chunk = &chunks[place];
            let size = chunk.size();
            writer.chunk(chunk, &mut buffer[..size]);
            output
                .write_at(chunk.start, &buffer[..size])
                .inspect_err(|_| _ = failed.fetch_min(place, Ordering::Relaxed))
        });
        written.into_iter().collect()
    }

    /// Writes the file to memory.
    pub fn to_vec(&self, session: &Session) -> Vec<u8> {
        let writer = ImageWriter::new(self);
        let mut image = vec![0; self.size() as usize];
        let mut rest = &mut image[..];
        let mut slices = Vec::new();
        for chunk in chunks(&self.layout.ranges, self.size()) {
            let (bytes, tail) = rest.split_at_mut((chunk.end - chunk.start) as usize);
            slices.push((chunk, bytes));
            rest = tail;
        }
        let size = self.size() as usize;
        session.each(slices, size, |(chunk, bytes)| writer.chunk(&chunk, bytes));
        image
    }
}

/// The sources of the file.
struct ImageWriter<'a, 'd> {
    objects: &'a InputObjects<'d>,
    merged: &'a MergeResult<'d>,
    layout: &'a FileLayout,
    contents: &'a SyntheticContents,
    relocated: &'a ResolvedRelocs,
    options: &'a LinkOptions,
    types: Option<&'a TypeCounts>,
    /// The Mercury half.
    mercury: Option<MercuryWriter<'a, 'd>>,
}

/// `st_shndx` for a section index, or `SHN_XINDEX` if it does not fit. Index 0xfff2 (COMMON) is
/// kept as in nvlink, except for a symbol that could be common (docs/DIFFERENCES.md,
/// section-0xfff2).
fn st_shndx(symbol: &OutSymbol, index: u32) -> u16 {
    match u16::try_from(index) {
        Ok(shn::COMMON) if !symbol.may_be_common() => shn::COMMON,
        Ok(small) if (small as usize) < RESERVED_INDEX => small,
        _ => shn::XINDEX,
    }
}

impl<'a, 'd> ImageWriter<'a, 'd> {
    fn new(image: &'a Image<'_, 'd>) -> Self {
        let Image { program, layout, contents, relocated, types } = image;
        let LinkedProgram { objects, symbols, merged, options, .. } = program;
        let mercury = contents.mercury.as_ref().zip(relocated.mercury.as_ref());
        ImageWriter {
            objects,
            merged,
            layout,
            contents: &contents.sass,
            relocated: &relocated.sass,
            options,
            types: types.as_ref(),
            mercury: mercury.map(|(contents, relocated)| MercuryWriter {
                objects,
                symbols,
                relocated,
                contents,
            }),
        }
    }

    /// Writes a chunk to `bytes`. Every byte is written, because the buffer holds an earlier chunk.
    fn chunk(&self, chunk: &OutputChunk<'_>, bytes: &mut [u8]) {
        let mut written = 0;
        let mut met = MetTypes::default();
        for piece in chunk.ranges {
            let start = (piece.start - chunk.start) as usize;
            let end = (piece.end - chunk.start) as usize;
            bytes[written..start].fill(0);
            self.piece(piece.content, &mut bytes[start..end], &mut met);
            written = end;
        }
        bytes[written..].fill(0);
        if let Some(types) = self.types {
            types.add_met(met);
        }
    }

    /// Writes one range to `bytes`, every byte of it; `met` counts its relocation records.
    fn piece(&self, what: RangeContent, bytes: &mut [u8], met: &mut MetTypes) {
        match what {
            RangeContent::FileHeader => bytes.copy_from_slice(&self.file_header()),
            RangeContent::Gap => bytes.fill(0),
            RangeContent::Rows(table, first) => self.rows(table, first as usize, bytes),
            RangeContent::Section(Half::Sass, id) => self.section(id, bytes, met),
            RangeContent::Section(Half::Mercury, id) => self.mercury_section(id, bytes, met),
            RangeContent::ProgramHeaders => {
                let mut headers = Vec::with_capacity(bytes.len());
                self.layout.program_headers.iter().for_each(|header| header.write(&mut headers));
                bytes.copy_from_slice(&headers);
            }
        }
    }

    /// Writes the rows of a table from `first` on to `bytes`.
    fn rows(&self, table: FileTable, first: usize, bytes: &mut [u8]) {
        let layout = self.layout;
        let names = &self.merged.draft.names;
        match table {
            FileTable::SectionStrings => layout.section_strings.write(names, first, bytes),
            FileTable::Strings => layout.numbers.strings.write(names, first, bytes),
            FileTable::Symbols => put_rows(bytes, first, |row| self.symbol_row(row).bytes()),
            FileTable::HighIndices => {
                put_rows(bytes, first, |row| self.high_index(row).to_le_bytes());
            }
            FileTable::MercurySymbols => {
                let Some((mercury, mercury_sections)) = self.second_half() else { return };
                let draft = &self.merged.draft;
                let row = |row| mercury.symbol_row(draft, layout, mercury_sections, row).bytes();
                put_rows(bytes, first, row);
            }
            FileTable::SectionHeaders => {
                let tables = self.table_headers();
                put_rows(bytes, first, |row| self.section_header(&tables, row).bytes());
            }
        }
    }

    /// The writer and the layout of the Mercury half.
    fn second_half(&self) -> Option<(&MercuryWriter<'a, 'd>, &MercurySections)> {
        self.mercury.as_ref().zip(self.layout.mercury.as_ref())
    }

    fn mercury_section(&self, id: SectionId, bytes: &mut [u8], met: &mut MetTypes) {
        let Some((mercury, mercury_sections)) = self.second_half() else { return };
        mercury.section(&self.merged.draft, self.layout, mercury_sections, id, bytes);
        if let Some(types) = self.types {
            types.add_section(met, mercury.contents, id, bytes);
        }
    }

    /// Copies or encodes one section, then patches it.
    fn section(&self, id: SectionId, bytes: &mut [u8], met: &mut MetTypes) {
        let symbol = |symbol| self.layout.numbers.symbol_index(symbol);
        if !self.contents.write(id, self.objects, self.relocated, symbol, bytes) {
            self.merged.draft.sections[id].copy_chunks(bytes);
        } else if let Some(types) = self.types {
            types.add_section(met, self.contents, id, bytes);
        }
        self.relocated.patch(id, bytes);
    }

    /// `e_flags`.
    fn flags(&self) -> u32 {
        let target = self.options.target;
        let accelerated = target.variant == Variant::Accelerated;
        let kind = match target.flavour {
            _ if self.options.form() == FileForm::Header => {
                let virtual_sm = u32::from(notes::virtual_sm(self.objects, self.options));
                let accelerated = if accelerated { HEADER_ACCELERATED } else { 0 };
                return HEADER_FLAGS | accelerated | target.sm | virtual_sm << 16;
            }
            Flavour::Classic => CLASSIC_FLAGS,
            Flavour::Mercury if self.options.form() == FileForm::Version => {
                MERCURY_FLAGS | if accelerated { VERSION_ACCELERATED } else { 0 }
            }
            Flavour::Mercury => MERCURY_FLAGS,
        };
        let notes = self.merged.fixed.notes.as_ref();
        let cuinfo = notes.map_or(0, |notes| self.layout.numbers.index(notes.cuinfo));
        // The index of the note, at most 0xff.
        kind | target.sm << 8 | cuinfo.min(0xff) << 24
    }

    fn file_header(&self) -> Vec<u8> {
        let layout = self.layout;
        let header = FileHeader {
            abi: match self.options.form() {
                FileForm::Header => Abi::Old { release: self.options.dialect.toolkit },
                FileForm::Version | FileForm::Notes => Abi::Current,
            },
            e_type: if self.options.relocatable { RELOCATABLE } else { EXECUTABLE },
            flags: self.flags(),
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

    /// The symbol in a row of the table, with the index of its section; `None` for symbol 0.
    fn symbol(&self, row: usize) -> Option<(&OutSymbol, u32)> {
        let symbol = &self.merged.draft.symbols[self.layout.numbers.symbol(row)?];
        Some((symbol, symbol.section.map_or(0, |section| self.layout.numbers.index(section))))
    }

    /// A row of the symbol table.
    fn symbol_row(&self, row: usize) -> SymbolEntry {
        let draft = &self.merged.draft;
        let Some((symbol, index)) = self.symbol(row) else {
            return SymbolEntry { value: draft.null_value(), ..SymbolEntry::default() };
        };
        let name = self.layout.numbers.strings.offset(mercury_names::symbol_name(draft, symbol));
        let (info, other) = (symbol.info, symbol.other);
        let (section, (value, size)) = (st_shndx(symbol, index), self.value_and_size(symbol));
        SymbolEntry { name, info, other, section, value, size }
    }

    /// A row of the table of section indices that do not fit `st_shndx`.
    fn high_index(&self, row: usize) -> u32 {
        let Some((symbol, index)) = self.symbol(row) else { return 0 };
        if st_shndx(symbol, index) == shn::XINDEX {
            return index;
        }
        // If the index fits the symbol, nvlink writes here the index of the section at its
        // creation.
        symbol.section.map_or(0, |section| creation_index(&self.merged.draft, section))
    }

    /// `st_value` and `st_size`.
    fn value_and_size(&self, symbol: &OutSymbol) -> (u64, u64) {
        let of_slot = jump_slots::symbol_of_slot(&self.merged.draft, symbol);
        of_slot.unwrap_or_else(|| (self.value(symbol), symbol.size))
    }

    /// `st_value`. In machine code, shared variables follow the system's part, which the Mercury
    /// half does not count.
    fn value(&self, symbol: &OutSymbol) -> u64 {
        let shared = symbol.shared.is_some() && symbol.section.is_some();
        let kind = symbol.section.map(|section| self.merged.draft.sections[section].kind);
        let reserved = kind == Some(SectionKind::ReservedShared) && symbol.program.is_some();
        if reserved && !self.options.relocatable {
            return symbol.value + system_shared(self.options.target.flavour);
        }
        match self.options.target.flavour {
            Flavour::Mercury if shared && !self.options.relocatable => {
                symbol.value.wrapping_add(self.options.target.reserved_shared)
            }
            _ => symbol.value,
        }
    }

    /// A row of the section header table; `tables` are the headers of
    /// [`ImageWriter::table_headers`].
    fn section_header(&self, tables: &[SectionHeader], row: usize) -> SectionHeader {
        let (layout, draft) = (self.layout, &self.merged.draft);
        let Some(row) = row.checked_sub(1) else { return null_section(layout.section_count()) };
        let Some(row) = row.checked_sub(tables.len()) else { return tables[row] };
        let Some(&id) = layout.numbers.order.get(row) else {
            let mercury_sections = layout.mercury.as_ref();
            let header = mercury_sections.map(|mercury_sections| {
                mercury_sections.header(draft, &layout.numbers, row - layout.numbers.order.len())
            });
            return header.unwrap_or_default();
        };
        self.own_header(id)
    }

    /// The header of a section of the draft. As a call: +0.2 % instructions on many100.
    #[inline(always)]
    fn own_header(&self, id: SectionId) -> SectionHeader {
        let (layout, draft) = (self.layout, &self.merged.draft);
        let section = &draft.sections[id];
        SectionHeader {
            name: layout.section_strings.offset(section.name),
            link: layout.numbers.link(
                section,
                self.merged.fixed.notes.as_ref().map(|notes| notes.tkinfo),
                draft.mercury.stale_links.get(&id).copied(),
            ),
            info: layout.numbers.info(section),
            ..self.header_alone(id)
        }
    }

    /// That header without its name and the sections that it names.
    fn header_alone(&self, id: SectionId) -> SectionHeader {
        let draft = &self.merged.draft;
        let section = &draft.sections[id];
        SectionHeader {
            sh_type: section.sh_type,
            flags: match draft.dialect.marks_owners {
                true => section.flags,
                false => section.flags & !shf::INFO_LINK,
            },
            offset: self.layout.offsets[id],
            size: section.size,
            align: section.align,
            entsize: section.entsize(),
            ..SectionHeader::default()
        }
    }

    /// Headers of the string tables and the symbol table.
    fn table_headers(&self) -> Vec<SectionHeader> {
        use culd_cubin::elf::sht;
        let (layout, names) = (self.layout, &self.merged.draft.names);
        let symbols = layout.numbers.symbol_count() as u64;
        let name =
            |name: &[u8]| names.lookup(name).map_or(0, |id| layout.section_strings.offset(id));
        let table = SectionHeader { align: 1, sh_type: sht::STRTAB, ..SectionHeader::default() };
        let mut headers = vec![
            SectionHeader {
                name: name(b".shstrtab"),
                offset: layout.tables.section_strings,
                size: layout.section_strings.len() as u64,
                ..table
            },
            SectionHeader {
                name: name(b".strtab"),
                offset: layout.tables.strings,
                size: layout.numbers.strings.len() as u64,
                ..table
            },
            SectionHeader {
                name: name(b".symtab"),
                sh_type: sht::SYMTAB,
                offset: layout.tables.symbols,
                size: 24 * symbols,
                link: 2,
                info: layout.numbers.symbols_info(),
                align: 8,
                entsize: 24,
                ..SectionHeader::default()
            },
        ];
        if let Some(offset) = layout.tables.high_indices {
            headers.push(SectionHeader {
                name: name(b".symtab_shndx"),
                sh_type: sht::SYMTAB_SHNDX,
                offset,
                size: 4 * symbols,
                link: layout.numbers.symbols_link,
                align: 4,
                entsize: 4,
                ..SectionHeader::default()
            });
        }
        headers
    }
}

/// Writes the rows from `first` on to `bytes`.
fn put_rows<const N: usize>(bytes: &mut [u8], first: usize, row: impl Fn(usize) -> [u8; N]) {
    for (number, bytes) in (first..).zip(bytes.chunks_exact_mut(N)) {
        bytes.copy_from_slice(&row(number));
    }
}
