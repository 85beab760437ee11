//! Phase `write`: the file's bytes.
//!
//! In: layout, contents, patches. Out: the bytes, chunk by chunk, so that no more than a chunk for each thread is
//! ever in memory beside the inputs. Guaranteed: only the receiver can fail; the bytes do not depend on the number
//! of threads, because every section is written by itself.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use culd_cubin::arch::Flavour;
use culd_cubin::elf::shn;
use culd_cubin::encode::{FileHeader, RESERVED_INDEX, SectionHeader, SymbolEntry, null_section};

use crate::LinkOptions;
use crate::Session;
use crate::capsule::image::Mercury;
use crate::capsule::names;
use crate::capsule::sections::Capsules;
use crate::capsule::slots;
use crate::capsule::{Half, Halves, SYSTEM_SHARED};
use crate::content::Contents;
use crate::draft::{Kind, OutSymbol};
use crate::id::SectionId;
use crate::layout::{Layout, SYMTAB_INDEX, creation_index};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::pieces::{Chunk, Table, What, chunks};
use crate::program::Program;
use crate::relocs::Relocated;

/// ET_REL.
const RELOCATABLE: u16 = 1;
/// ET_EXEC.
const EXECUTABLE: u16 = 2;
/// `e_flags` bits 0-7 of sm_75 to sm_90a.
const CLASSIC_FLAGS: u32 = 4;
/// The same of later targets.
const MERCURY_FLAGS: u32 = 2;

/// Takes the bytes of a linked cubin: chunks in any order, from any thread, each byte once.
pub trait Output: Sync {
    /// Takes `bytes`, which start at byte `offset` of the file.
    ///
    /// # Errors
    /// When they cannot be stored; what is behind them is not made then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// A linked cubin that is yet to be written: everything is decided, nothing is copied.
pub struct Image<'o, 'd> {
    pub(crate) program: Program<'o, 'd>,
    pub(crate) layout: Layout,
    pub(crate) contents: Halves<Contents>,
    pub(crate) relocated: Halves<Relocated>,
}

/// How many of what a link had.
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
    /// Relocations that stay, in both halves.
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

    /// What there is of everything.
    pub fn counts(&self) -> Counts {
        let halves = || std::iter::once(&self.relocated.own).chain(&self.relocated.mercury);
        let counts = halves().map(Relocated::counts);
        let (applied, kept) = counts.fold((0, 0), |all, half| (all.0 + half.0, all.1 + half.1));
        Counts {
            objects: self.program.objects.all.len(),
            bytes: self.size(),
            sections: self.layout.section_count(),
            symbols: self.layout.symbol_count(),
            functions: self.program.graph.nodes.len(),
            applied,
            kept,
        }
    }

    /// Writes the file to `output`.
    ///
    /// # Errors
    /// What `output` says of the first chunk in file order that it does not take.
    pub fn write(&self, session: &Session, output: &dyn Output) -> io::Result<()> {
        let writer = Writer::new(self);
        let chunks: Vec<Chunk<'_>> = chunks(&self.layout.pieces, self.size()).collect();
        let size = self.size() as usize;
        let largest = chunks.iter().map(Chunk::size).max().unwrap_or(0);
        // Fresh memory: what no chunk fills is not taken.
        let make = || vec![0; largest];
        // The first chunk in file order that was not taken. What is in front of it is still made: it could be that which is told.
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

    /// The file in memory.
    pub fn to_vec(&self, session: &Session) -> Vec<u8> {
        let writer = Writer::new(self);
        let mut image = vec![0; self.size() as usize];
        let mut rest = &mut image[..];
        let mut slices = Vec::new();
        for chunk in chunks(&self.layout.pieces, self.size()) {
            let (bytes, tail) = rest.split_at_mut((chunk.end - chunk.start) as usize);
            slices.push((chunk, bytes));
            rest = tail;
        }
        let size = self.size() as usize;
        session.each(slices, size, |(chunk, bytes)| writer.chunk(&chunk, bytes));
        image
    }
}

/// Everything the file is written from.
struct Writer<'a, 'd> {
    objects: &'a Objects<'d>,
    merged: &'a Merged<'d>,
    layout: &'a Layout,
    contents: &'a Contents,
    relocated: &'a Relocated,
    options: &'a LinkOptions,
    /// The Mercury half.
    mercury: Option<Mercury<'a, 'd>>,
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

impl<'a, 'd> Writer<'a, 'd> {
    fn new(image: &'a Image<'_, 'd>) -> Self {
        let Image { program, layout, contents, relocated } = image;
        let Program { objects, symbols, merged, options, .. } = program;
        let mercury = contents.mercury.as_ref().zip(relocated.mercury.as_ref());
        Writer {
            objects,
            merged,
            layout,
            contents: &contents.own,
            relocated: &relocated.own,
            options,
            mercury: mercury.map(|(contents, relocated)| Mercury {
                objects,
                symbols,
                relocated,
                contents,
            }),
        }
    }

    /// Writes a chunk into its bytes, all of them: they hold an earlier chunk.
    fn chunk(&self, chunk: &Chunk<'_>, bytes: &mut [u8]) {
        let mut written = 0;
        for piece in chunk.pieces {
            let start = (piece.start - chunk.start) as usize;
            let end = (piece.end - chunk.start) as usize;
            bytes[written..start].fill(0);
            self.piece(piece.what, &mut bytes[start..end]);
            written = end;
        }
        bytes[written..].fill(0);
    }

    /// Writes one piece into its bytes, all of them.
    fn piece(&self, what: What, bytes: &mut [u8]) {
        match what {
            What::FileHeader => bytes.copy_from_slice(&self.file_header()),
            What::Gap => bytes.fill(0),
            What::Rows(table, first) => self.rows(table, first as usize, bytes),
            What::Section(Half::Sass, id) => self.section(id, bytes),
            What::Section(Half::Mercury, id) => self.mercury_section(id, bytes),
            What::ProgramHeaders => {
                let mut headers = Vec::with_capacity(bytes.len());
                self.layout.program_headers.iter().for_each(|header| header.write(&mut headers));
                bytes.copy_from_slice(&headers);
            }
        }
    }

    /// Writes rows of a table into their bytes.
    fn rows(&self, table: Table, first: usize, bytes: &mut [u8]) {
        let layout = self.layout;
        let names = &self.merged.draft.names;
        match table {
            Table::SectionStrings => layout.section_strings.write(names, first, bytes),
            Table::Strings => layout.strings.write(names, first, bytes),
            Table::Symbols => put_rows(bytes, first, |row| self.symbol_row(row).bytes()),
            Table::HighIndices => {
                put_rows(bytes, first, |row| self.high_index(row).to_le_bytes());
            }
            Table::MercurySymbols => {
                let Some((mercury, capsules)) = self.second_half() else { return };
                let draft = &self.merged.draft;
                let row = |row| mercury.symbol_row(draft, layout, capsules, row).bytes();
                put_rows(bytes, first, row);
            }
            Table::SectionHeaders => {
                let tables = self.table_headers();
                put_rows(bytes, first, |row| self.section_header(&tables, row).bytes());
            }
        }
    }

    /// The Mercury half and its layout.
    fn second_half(&self) -> Option<(&Mercury<'a, 'd>, &Capsules)> {
        self.mercury.as_ref().zip(self.layout.capsules.as_ref())
    }

    fn mercury_section(&self, id: SectionId, bytes: &mut [u8]) {
        let Some((mercury, capsules)) = self.second_half() else { return };
        mercury.section(&self.merged.draft, self.layout, capsules, id, bytes);
    }

    /// Copies or writes one section, then patches it.
    fn section(&self, id: SectionId, bytes: &mut [u8]) {
        let symbol = |symbol| self.layout.symbol_index(symbol);
        if !self.contents.write(id, (self.objects, self.relocated), symbol, bytes) {
            self.merged.draft.sections[id].copy_parts(bytes);
        }
        self.relocated.patch(id, bytes);
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

    /// A symbol by its place in the table, with the index of its section; none for symbol 0.
    fn symbol(&self, row: usize) -> Option<(&OutSymbol, u32)> {
        let symbol = &self.merged.draft.symbols[self.layout.symbol(row)?];
        Some((symbol, symbol.section.map_or(0, |section| self.layout.index(section))))
    }

    /// A row of the symbol table.
    fn symbol_row(&self, row: usize) -> SymbolEntry {
        let draft = &self.merged.draft;
        let Some((symbol, index)) = self.symbol(row) else {
            return SymbolEntry { value: draft.null_value(), ..SymbolEntry::default() };
        };
        let name = self.layout.strings.offset(names::symbol_name(draft, symbol));
        let (info, other) = (symbol.info, symbol.other);
        let (section, (value, size)) = (st_shndx(symbol, index), self.value_and_size(symbol));
        SymbolEntry { name, info, other, section, value, size }
    }

    /// A row of the table of section indices that do not fit the symbol table.
    fn high_index(&self, row: usize) -> u32 {
        let Some((symbol, index)) = self.symbol(row) else { return 0 };
        if st_shndx(symbol, index) == shn::XINDEX {
            return index;
        }
        // Where the index is in the symbol, nvlink leaves that of the section's creation.
        symbol.section.map_or(0, |section| creation_index(&self.merged.draft, section))
    }

    /// `st_value` and `st_size`.
    fn value_and_size(&self, symbol: &OutSymbol) -> (u64, u64) {
        let table = symbol.section.map(|section| &self.merged.draft.sections[section]);
        let table = table.filter(|table| table.kind == Kind::JumpSlots && symbol.program.is_some());
        match (table, self.options.target.flavour) {
            (Some(table), Flavour::Mercury) if !self.options.relocatable => {
                slots::machine_symbol(symbol.value, table.size, self.merged.draft.dialect)
            }
            _ => (self.value(symbol), symbol.size),
        }
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

    /// A row of the section header table; `tables` are the headers of [`Writer::table_headers`].
    fn section_header(&self, tables: &[SectionHeader], row: usize) -> SectionHeader {
        let (layout, draft) = (self.layout, &self.merged.draft);
        let Some(row) = row.checked_sub(1) else { return null_section(layout.section_count()) };
        let Some(row) = row.checked_sub(tables.len()) else { return tables[row] };
        let Some(&id) = layout.order.get(row) else {
            let capsules = layout.capsules.as_ref();
            let header =
                capsules.map(|capsules| capsules.header(draft, layout, row - layout.order.len()));
            return header.unwrap_or_default();
        };
        let section = &draft.sections[id];
        SectionHeader {
            name: layout.section_strings.offset(section.name),
            sh_type: section.sh_type,
            flags: section.flags,
            offset: layout.offsets[id],
            size: section.size,
            link: layout.link(
                section,
                self.merged.fixed.tkinfo,
                draft.stale_links.get(&id).copied(),
            ),
            info: layout.info(section),
            align: section.align,
            entsize: section.entsize(),
        }
    }

    /// Headers of the string tables and the symbol table.
    fn table_headers(&self) -> Vec<SectionHeader> {
        use culd_cubin::elf::sht;
        let (layout, names) = (self.layout, &self.merged.draft.names);
        let symbols = layout.symbol_count() as u64;
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
                size: layout.strings.len() as u64,
                ..table
            },
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
            },
        ];
        if let Some(offset) = layout.tables.high_indices {
            headers.push(SectionHeader {
                name: name(b".symtab_shndx"),
                sh_type: sht::SYMTAB_SHNDX,
                offset,
                size: 4 * symbols,
                link: SYMTAB_INDEX,
                align: 4,
                entsize: 4,
                ..SectionHeader::default()
            });
        }
        headers
    }
}

/// Writes rows from `first` on into their bytes.
fn put_rows<const N: usize>(bytes: &mut [u8], first: usize, row: impl Fn(usize) -> [u8; N]) {
    for (number, bytes) in (first..).zip(bytes.chunks_exact_mut(N)) {
        bytes.copy_from_slice(&row(number));
    }
}
