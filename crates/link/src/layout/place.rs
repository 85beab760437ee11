//! Offsets of everything in the file. No other code chooses one.
//!
//! In: the finished draft, its [`Numbers`] and the contents of the Mercury half. Out:
//! [`FileLayout`]. Guaranteed: afterwards no section changes its size.

use culd_cubin::arch::Flavour;
use culd_cubin::encode::{ProgramHeader, RESERVED_INDEX};

use super::contents::SyntheticContents;
use super::file_map::{FileMap, FileRange, FileTable, RangeContent};
use super::mercury_names;
use super::mercury_sections::MercurySections;
use super::numbers::Numbers;
use super::strings::StringTable;
use crate::base::half::Half;
use crate::base::id::{IdVec, SectionId};
use crate::diag::Message;
use crate::draft::Draft;
use crate::draft::kind::SectionKind;

/// Bytes of the file header and of a program header.
const FILE_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;

/// File offsets of the tables in front of the contents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableOffsets {
    pub(crate) section_strings: u64,
    pub(crate) strings: u64,
    pub(crate) symbols: u64,
    pub(crate) high_indices: Option<u64>,
}

/// The layout of the output file.
pub(crate) struct FileLayout {
    /// Order and indices of sections and symbols.
    pub(crate) numbers: Numbers,
    /// File offset by section, bytes.
    pub(crate) offsets: IdVec<SectionId, u64>,
    /// The table of section names.
    pub(crate) section_strings: StringTable,
    pub(crate) tables: TableOffsets,
    pub(crate) program_headers: Vec<ProgramHeader>,
    pub(crate) section_headers_at: u64,
    pub(crate) program_headers_at: u64,
    /// The Mercury half.
    pub(crate) mercury: Option<MercurySections>,
    /// Some section's name is missing from the table, which would make the file unreadable.
    is_nameless: bool,
    /// The ranges of the file, in order.
    pub(crate) ranges: Vec<FileRange>,
    /// Size of the file, bytes.
    pub(crate) size: u64,
}

/// Section names and Mercury headers. They do not depend on symbol indices, so they are made in
/// parallel with the contents, which do.
pub(crate) struct SectionNames {
    names: StringTable,
    /// The Mercury half.
    pub(crate) mercury: Option<MercurySections>,
}

impl SectionNames {
    /// Makes the table of section names and the sections of the Mercury half, which follow
    /// everything else, as their names do.
    pub(crate) fn new(draft: &Draft<'_>, numbers: &Numbers) -> Self {
        if draft.flavour == Flavour::Classic {
            let names = StringTable::new(draft, &[&draft.section_strings]);
            return SectionNames { names, mercury: None };
        }
        let new_writer = draft.dialect.new_writer;
        let mut names = match new_writer {
            true => collected_names(draft, numbers),
            false => StringTable::new(draft, &[&draft.section_strings]),
        };
        if !new_writer {
            let mut renamed: Vec<SectionId> = draft.mercury.renamed.keys().copied().collect();
            renamed.sort_unstable_by_key(|&id| numbers.index(id));
            names.replace(mercury_names::overwritten(draft, &renamed, |name| names.offset(name)));
        }
        let next = numbers.section_count() as u32;
        let mercury = MercurySections::new(draft, &numbers.order, next, &mut names);
        if new_writer && !numbers.is_wide(draft) {
            // The gap of earlier releases is a part of the table.
            names.bytes.resize(names.bytes.len() + mercury_names::GAP as usize, 0);
        }
        SectionNames { names, mercury: Some(mercury) }
    }
}

/// The names of the machine code's sections as CUDA 13.5 writes them.
fn collected_names(draft: &Draft<'_>, numbers: &Numbers) -> StringTable {
    let high = numbers.has_high_indices.then_some(&b".symtab_shndx"[..]);
    let tables = [&b".shstrtab"[..], b".strtab", b".symtab"].into_iter().chain(high);
    let tables = tables.filter_map(|name| draft.names.lookup(name));
    let sections = numbers.order.iter().map(|&id| {
        let name = draft.sections[id].name;
        (name, draft.mercury.renamed.get(&id).copied().unwrap_or(name))
    });
    let tables = tables.map(|name| (name, name));
    StringTable::collected(draft, tables.chain(sections))
}

/// Size that an output may have with any input, bytes.
const FREE_SIZE: u64 = 32 << 20;

/// The reason to refuse an output of `size` bytes or more that is out of proportion to its inputs:
/// damaged sizes and alignments must not use up all memory.
pub(crate) fn out_of_proportion(size: u64, inputs_size: u64) -> Option<String> {
    let most = FREE_SIZE.saturating_add(inputs_size.saturating_mul(16));
    (size > most).then(|| format!("{size:#x} bytes from {inputs_size:#x} bytes of input"))
}

impl FileLayout {
    /// Places everything in the file.
    pub(crate) fn new(
        draft: &Draft<'_>,
        numbers: Numbers,
        sections: SectionNames,
        mercury: Option<&SyntheticContents>,
    ) -> Self {
        let mut layout = FileLayout {
            numbers,
            offsets: IdVec::filled(0, draft.sections.len()),
            section_strings: sections.names,
            tables: TableOffsets::default(),
            program_headers: Vec::new(),
            section_headers_at: 0,
            program_headers_at: 0,
            mercury: sections.mercury,
            is_nameless: false,
            ranges: Vec::new(),
            size: 0,
        };
        let mut map = FileMap::new(FILE_HEADER, layout.section_count() + 8);
        layout.place_tables(draft, &mut map);
        layout.place_sections(draft, &mut map);
        if let (Some(mercury), Some(contents)) = (&mut layout.mercury, mercury) {
            let symbols = MercurySections::symbol_count(&layout.numbers) as u64;
            let offsets = &layout.offsets;
            mercury.place(draft, contents, symbols, |id| offsets[id], &mut map);
        }
        let new_writer = draft.dialect.new_writer && layout.mercury.is_some();
        let align = if new_writer { 1 } else { 8 };
        let sections = layout.section_count() as u64;
        layout.section_headers_at = map.add_table(FileTable::SectionHeaders, sections, align);
        if !draft.relocatable {
            layout.program_headers_at = map.end();
            layout.program_headers = program_headers(draft, &layout);
            let size = PROGRAM_HEADER * layout.program_headers.len() as u64;
            map.add(RangeContent::ProgramHeaders, size, 1);
        }
        layout.size = map.end();
        layout.ranges = map.finish();
        layout
    }

    /// Places the tables in front of the contents.
    fn place_tables(&mut self, draft: &Draft<'_>, map: &mut FileMap) {
        let with_mercury = self.mercury.is_some();
        let names = self.section_strings.len() as u64;
        self.tables.section_strings = map.add_table(FileTable::SectionStrings, names, 1);
        if with_mercury && !draft.dialect.new_writer && !self.numbers.is_wide(draft) {
            map.skip(mercury_names::GAP, 1);
        }
        let strings = self.numbers.strings.len() as u64;
        self.tables.strings = map.add_table(FileTable::Strings, strings, 1);
        if with_mercury {
            map.skip(mercury_names::gap(draft), 1);
        }
        let symbols = self.numbers.symbol_count() as u64;
        self.tables.symbols = map.add_table(FileTable::Symbols, symbols, 8);
        if self.numbers.has_high_indices {
            self.tables.high_indices = Some(map.add_table(FileTable::HighIndices, symbols, 4));
        }
    }

    /// Places the sections of machine code, data and debug information.
    fn place_sections(&mut self, draft: &Draft<'_>, map: &mut FileMap) {
        for &id in &self.numbers.order {
            let section = &draft.sections[id];
            self.is_nameless |= self.section_strings.offset(section.name) == 0;
            let content = RangeContent::Section(Half::Sass, id);
            self.offsets[id] = map.add(content, section.file_size(), section.align.max(1));
        }
    }

    /// The file offset behind a section, bytes.
    fn file_end(&self, draft: &Draft<'_>, id: SectionId) -> u64 {
        self.offsets[id] + draft.sections[id].file_size()
    }

    /// Checks that the file has a form for everything.
    ///
    /// # Errors
    /// A section without name; a part that does not fit the file format, or is out of proportion to
    /// the inputs, which are `inputs_size` bytes.
    pub(crate) fn check(&self, inputs_size: u64) -> Result<(), Message> {
        match self.too_large(inputs_size) {
            Some(what) => Err(Message::TooLarge { what }),
            None if self.is_nameless => Err(Message::Internal { what: "section without name" }),
            None => Ok(()),
        }
    }

    /// A part that does not fit the file format, or is out of proportion to the inputs.
    fn too_large(&self, inputs_size: u64) -> Option<String> {
        if let Some(what) = out_of_proportion(self.size, inputs_size) {
            return Some(what);
        }
        let strings = self.numbers.strings.len().max(self.section_strings.len());
        if u32::try_from(strings).is_err() {
            return Some(format!("{strings:#x} bytes of names"));
        }
        if self.mercury.is_some() && self.numbers.has_high_indices {
            let most = RESERVED_INDEX - 1;
            return Some(format!("more than {most} sections of machine code beside Mercury"));
        }
        // `sh_info` of code has 24 bits for the function's symbol.
        let symbols = self.numbers.symbols.len();
        (symbols >= 1 << 24).then(|| format!("{symbols} symbols"))
    }

    /// Section headers of the file.
    pub(crate) fn section_count(&self) -> usize {
        self.numbers.section_count() + self.mercury.as_ref().map_or(0, MercurySections::count)
    }
}

const PT_LOAD: u32 = 1;
const PT_PHDR: u32 = 6;
const READ: u32 = 4;
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;

/// Program headers: the headers' own segment; constants and code; data; the headers again. In files
/// with a Mercury half, the headers' two segments come first, constants have their own segment, and
/// parameters are last.
fn program_headers(draft: &Draft<'_>, layout: &FileLayout) -> Vec<ProgramHeader> {
    let mut loads = Vec::new();
    let span = |first: SectionKind, last: SectionKind, flags| {
        let sections = layout.numbers.in_categories(draft, first.category()..=last.category());
        let (&first, &last) = sections.first().zip(sections.last())?;
        let offset = layout.offsets[first];
        let size = layout.file_end(draft, last) - offset;
        Some(ProgramHeader { p_type: PT_LOAD, flags, offset, file_size: size, memory_size: size })
    };
    const CONSTANT: SectionKind = SectionKind::Constant(0);
    match draft.flavour {
        Flavour::Classic => loads.extend(span(CONSTANT, SectionKind::Text, READ_EXECUTE)),
        Flavour::Mercury => {
            loads.extend(span(CONSTANT, CONSTANT, READ));
            loads.extend(span(SectionKind::Text, SectionKind::Text, READ_EXECUTE));
        }
    }
    loads.extend(data_segment(draft, layout));
    loads.extend(span(SectionKind::Parameters, SectionKind::Parameters, READ));
    let size = PROGRAM_HEADER * (loads.len() as u64 + 2);
    let classic = draft.flavour == Flavour::Classic;
    let own = |p_type| ProgramHeader {
        p_type,
        flags: if classic { READ_EXECUTE } else { READ },
        offset: layout.program_headers_at,
        file_size: size,
        memory_size: size,
    };
    let mut headers = vec![own(PT_PHDR)];
    if classic {
        headers.extend(loads);
        headers.push(own(PT_LOAD));
    } else {
        headers.push(own(PT_LOAD));
        headers.extend(loads);
    }
    headers
}

/// The segment of variables in global memory, if there are any.
fn data_segment(draft: &Draft<'_>, layout: &FileLayout) -> Option<ProgramHeader> {
    let categories = SectionKind::GlobalInit.category()..=SectionKind::Global.category();
    let data = layout.numbers.in_categories(draft, categories);
    let (&first, &last) = data.first().zip(data.last())?;
    let offset = layout.offsets[first];
    let file_size = layout.file_end(draft, last) - offset;
    // Gaps in the file count where they are: alignments that nvlink's `-r` left need not be powers
    // of two (cases shared/dynamic-in-steps and debug/extern-groups-g by 13.5).
    let (mut memory, mut end) = (offset, offset);
    for &id in data {
        let section = &draft.sections[id];
        let start = layout.offsets[id];
        memory += start - end;
        end = layout.file_end(draft, id);
        memory = match section.kind.is_nobits() {
            true => memory.next_multiple_of(section.align) + section.size,
            false => memory + end - start,
        };
    }
    let (p_type, flags, memory_size) = (PT_LOAD, READ_WRITE, memory - offset);
    Some(ProgramHeader { p_type, flags, offset, file_size, memory_size })
}
