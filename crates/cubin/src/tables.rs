//! The header tables of a file, and the checks that [`crate::Cubin::parse`] makes.
//!
//! In: the file, or its sections. Out: raw tables; or the first thing that breaks the guarantees of
//! [`crate::cubin`], with its place.

use object::LittleEndian as Le;
use object::elf::{FileHeader64, SectionHeader64};
use object::pod;

use crate::cubin::{MAX_ALIGN, MAX_SIZE, Section};
use crate::elf::{self, sht};
use crate::error::Malformed;
use crate::read;
use crate::relocation::{RelocEntry, Relocations, rel, rela};
use crate::text_of;

/// Bytes of the ELF header.
const HEADER: u64 = 64;

/// A limit for the bytes of all names together. Without it, a table whose entries all name ends of
/// one long string would take quadratic time.
pub(crate) struct NameBudget {
    left: usize,
}

impl NameBudget {
    /// Names of a sound file are together a few times as long as their table at most.
    pub(crate) fn new(table: &[u8]) -> Self {
        NameBudget { left: table.len().saturating_mul(64).saturating_add(1 << 20) }
    }

    /// False when the names are longer than any sound file's.
    pub(crate) fn take(&mut self, name: &[u8]) -> bool {
        let enough = name.len() <= self.left;
        self.left = self.left.saturating_sub(name.len());
        enough
    }
}

pub(crate) type RawHeader = FileHeader64<Le>;
pub(crate) type RawSection = SectionHeader64<Le>;

pub(crate) fn headers(data: &[u8]) -> Result<(&RawHeader, &[RawSection]), Malformed> {
    let (header, _) = pod::from_bytes::<RawHeader>(data)
        .map_err(|()| Malformed::file(0, "the file is too short for an ELF header"))?;
    let ident = &header.e_ident;
    if ident.magic != *b"\x7fELF" {
        return Err(Malformed::file(0, "no ELF magic number"));
    }
    if ident.class != object::elf::ELFCLASS64 {
        let what = format!("ELF class {}, expected 64-bit (2)", ident.class.0);
        return Err(Malformed::file(4, what));
    }
    if ident.data != object::elf::ELFDATA2LSB {
        let what = format!("ELF data encoding {}, expected little endian (1)", ident.data.0);
        return Err(Malformed::file(5, what));
    }
    if header.e_machine.get(Le).0 != elf::EM_CUDA {
        let machine = header.e_machine.get(Le).0;
        let what = format!("ELF machine {machine}, expected {} (CUDA)", elf::EM_CUDA);
        return Err(Malformed::file(18, what));
    }
    let offset = header.e_shoff.get(Le);
    if offset == 0 {
        return Err(Malformed::file(40, "no section header table"));
    }
    if header.e_shentsize.get(Le) != 64 {
        return Err(Malformed::file(58, "section headers are not 64 bytes long"));
    }
    let tail = usize::try_from(offset).ok().and_then(|at| data.get(at..)).ok_or_else(|| {
        Malformed::file(40, format!("section header table at {offset:#x}, past the end"))
    })?;
    let (first, _) = pod::from_bytes::<RawSection>(tail)
        .map_err(|()| Malformed::file(offset, "section header table runs past the end"))?;
    let count = match header.e_shnum.get(Le) {
        0 => first.sh_size.get(Le),
        n => u64::from(n),
    };
    let table = usize::try_from(count)
        .ok()
        .and_then(|count| pod::slice_from_bytes::<RawSection>(tail, count).ok());
    match table {
        Some((table, _)) => Ok((header, table)),
        None => {
            let what = format!("section header table of {count} entries runs past the end");
            Err(Malformed::file(offset, what))
        }
    }
}

pub(crate) fn name_table<'d>(
    data: &'d [u8],
    header: &RawHeader,
    table: &[RawSection],
) -> Result<&'d [u8], Malformed> {
    let index = match header.e_shstrndx.get(Le).0 {
        0xffff => table.first().map_or(0, |first| first.sh_link.get(Le)),
        n => u32::from(n),
    };
    let raw = table.get(index as usize).ok_or_else(|| {
        Malformed::file(62, format!("section name table index {index} is out of range"))
    })?;
    file_range(data, raw).ok_or_else(|| {
        Malformed::file(
            header_offset(header, index as usize),
            "section name table is not in the file",
        )
    })
}

pub(crate) fn header_offset(header: &RawHeader, index: usize) -> u64 {
    header.e_shoff.get(Le).saturating_add(64 * index as u64)
}

fn file_range<'d>(data: &'d [u8], raw: &RawSection) -> Option<&'d [u8]> {
    let start = usize::try_from(raw.sh_offset.get(Le)).ok()?;
    let size = usize::try_from(raw.sh_size.get(Le)).ok()?;
    read::bytes(data, start, size)
}

pub(crate) fn nameless(header: &RawHeader, index: usize, raw: &RawSection) -> Malformed {
    let name = raw.sh_name.get(Le);
    let what = format!("name of section {index} at {name:#x} is not a terminated string");
    Malformed::file(header_offset(header, index), what)
}

/// The bytes of section `index`, once its header is known to be sound.
pub(crate) fn section_bytes<'d>(
    data: &'d [u8],
    index: usize,
    raw: &RawSection,
) -> Result<&'d [u8], HeaderDefect> {
    let sh_type = raw.sh_type.get(Le).0;
    let align = raw.sh_addralign.get(Le).max(1);
    let nobits = elf::is_nobits(sh_type);
    // nvlink writes the size of the other variables as alignment of sections with `extern` arrays.
    if !(align.is_power_of_two() || nobits) || align > MAX_ALIGN {
        return Err(HeaderDefect::Alignment);
    }
    if nobits && raw.sh_size.get(Le) > MAX_SIZE {
        return Err(HeaderDefect::Size);
    }
    let record = record_size(sh_type);
    // nvlink divides by it. With a wrong one it leaves out records or ends with a signal.
    if record != 1 && raw.sh_entsize.get(Le) != record && is_table(sh_type) {
        return Err(HeaderDefect::Entries);
    }
    // Index 0 carries overflow counts of the file header, not a section.
    if nobits || index == 0 || sh_type == sht::NULL {
        return Ok(&[]);
    }
    file_range(data, raw).ok_or(HeaderDefect::Bytes)
}

/// True for a type of section whose `sh_info` is the section of its function without a flag.
pub(crate) fn names_owner(sh_type: u32, old: bool) -> bool {
    let bank = (sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST).contains(&sh_type);
    sh_type == sht::CUDA_CONSTANT0
        || old && (bank || matches!(sh_type, sht::CUDA_INFO | sht::CUDA_SHARED))
}

/// What is wrong with a section header.
pub(crate) enum HeaderDefect {
    Alignment,
    Size,
    Entries,
    Bytes,
}

impl HeaderDefect {
    pub(crate) fn malformed(self, data: &[u8], name: &[u8], raw: &RawSection) -> Malformed {
        let size = raw.sh_size.get(Le);
        let what = match self {
            HeaderDefect::Alignment => {
                format!("alignment {:#x} is not usable", raw.sh_addralign.get(Le))
            }
            HeaderDefect::Size => format!("size {size:#x} is not usable"),
            HeaderDefect::Entries => {
                let (entry, record) = (raw.sh_entsize.get(Le), record_size(raw.sh_type.get(Le).0));
                format!("entries of {entry:#x} bytes, expected {record:#x}")
            }
            HeaderDefect::Bytes => {
                let (offset, file) = (raw.sh_offset.get(Le), data.len());
                format!(
                    "{size:#x} bytes at file offset {offset:#x} run past the end of the file ({file:#x})"
                )
            }
        };
        Malformed::section(name, 0, what)
    }
}

fn is_table(sh_type: u32) -> bool {
    matches!(
        sh_type,
        sht::SYMTAB
            | sht::MERCURY_SYMTAB
            | sht::REL
            | sht::RELA
            | sht::MERCURY_RELA
            | sht::CUDA_CALLGRAPH
            | sht::CUDA_PROTOTYPE
            | sht::MERCURY_CALLGRAPH
            | sht::MERCURY_PROTOTYPE
    )
}

/// Bytes of a record of a section of that type; 1 for sections without records, or with records of
/// several sizes.
fn record_size(sh_type: u32) -> u64 {
    match sh_type {
        // The header of SYMTAB_SHNDX may lack the size, and nobody reads actions.
        sht::SYMTAB_SHNDX => 4,
        sht::CUDA_REL_ACTION => 1,
        _ => elf::entsize(sh_type).max(1),
    }
}

pub(crate) fn check_links(sections: &[Section<'_>]) -> Result<(), Malformed> {
    for section in sections {
        let record = record_size(section.sh_type);
        if record != 1 && section.size % record != 0 {
            let what = format!("size {:#x} is no multiple of {record}", section.size);
            return Err(Malformed::section(section.name, section.size / record * record, what));
        }
        let names = matches!(section.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB);
        if section.link as usize >= sections.len() && !names {
            let what = format!("sh_link names section {}, which does not exist", section.link);
            return Err(Malformed::section(section.name, 0, what));
        }
        if section.sh_type == sht::SYMTAB_SHNDX && !is_symbol_table(sections, section.link) {
            let what = format!("sh_link names section {}, not a symbol table", section.link);
            return Err(Malformed::section(section.name, 0, what));
        }
        if let Some(target) = section.info_section()
            && (target.0 == 0 || target.0 as usize >= sections.len())
        {
            let what = format!("sh_info names section {}, which does not exist", target.0);
            return Err(Malformed::section(section.name, 0, what));
        }
    }
    Ok(())
}

fn is_symbol_table(sections: &[Section<'_>], index: u32) -> bool {
    let section = sections.get(index as usize);
    section.is_some_and(|section| matches!(section.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB))
}

/// Checks that neither two sections share bytes of the file nor a section and a header table.
pub(crate) fn check_overlap(
    header: &RawHeader,
    table: &[RawSection],
    sections: &[Section<'_>],
) -> Result<(), Malformed> {
    let table_start = header.e_shoff.get(Le);
    if follow_each_other(table, sections).is_some_and(|end| end <= table_start) {
        return Ok(());
    }
    let mut ranges = Vec::with_capacity(sections.len() + 1);
    for (index, (raw, section)) in table.iter().zip(sections).enumerate() {
        if !section.data.is_empty() {
            let (start, end) = extent(raw, section);
            ranges.push((start, end, index));
        }
    }
    ranges.push((table_start, table_start + 64 * table.len() as u64, usize::MAX));
    // Nearly all are in order already, and the stable sort is fast on runs.
    ranges.sort();
    let name = |index: usize| match sections.get(index) {
        Some(section) => format!("section '{}'", text_of(section.name)),
        None => "the section header table".to_owned(),
    };
    let is_mercury = |index: usize| sections.get(index).is_some_and(Section::is_mercury);
    for pair in ranges.windows(2) {
        let &[(begin, end, first), (start, finish, second)] = pair else { continue };
        let share_bytes =
            (begin, end) == (start, finish) && is_mercury(first) != is_mercury(second);
        if start < end && !share_bytes {
            let what = format!("{} overlaps {}", name(second), name(first));
            return Err(Malformed::file(start, what));
        }
    }
    if let Some(&(start, _, index)) = ranges.first()
        && start < HEADER
    {
        return Err(Malformed::file(start, format!("{} overlaps the ELF header", name(index))));
    }
    Ok(())
}

/// The end of the last section, if all sections follow each other in the order of their headers, as
/// compilers write them. Only data of Mercury may lie elsewhere: at the bytes of its counterpart,
/// one section for each counterpart, in their order.
fn follow_each_other(table: &[RawSection], sections: &[Section<'_>]) -> Option<u64> {
    let mut all = table.iter().zip(sections).filter(|(_, section)| !section.data.is_empty());
    let mut of_machine_code = all.clone().filter(|(_, section)| !section.is_mercury());
    all.try_fold(HEADER, |last, (raw, section)| {
        let (start, end) = extent(raw, section);
        if start >= last {
            return Some(end);
        }
        let mut others = || of_machine_code.any(|(raw, other)| extent(raw, other) == (start, end));
        let shares_bytes = section.is_mercury() && others();
        shares_bytes.then_some(last)
    })
}

/// Where the bytes of a section with contents start and end in the file.
fn extent(raw: &RawSection, section: &Section<'_>) -> (u64, u64) {
    let start = raw.sh_offset.get(Le);
    (start, start + section.data.len() as u64)
}

/// Checks that relocation records name symbols that exist, and places in their section. Places in
/// Mercury code are not looked at: they count bytes before compression.
pub(crate) fn check_symbol_links(
    sections: &[Section<'_>],
    count: usize,
    mercury_count: usize,
) -> Result<(), Malformed> {
    for section in sections {
        let relocations = section.relocations();
        if relocations.is_empty() {
            continue;
        }
        let record = if section.sh_type == sht::REL { 16 } else { 24 };
        let mercury = matches!(section.sh_type, sht::MERCURY_RELA | sht::MERCURY_RESOLVED_RELA);
        let count = if mercury { mercury_count } else { count };
        let target = section.info_section().filter(|_| section.is_reloc());
        let target = target.and_then(|target| sections.get(target.0 as usize));
        let target_size = target.map_or(u64::MAX, |target| target.size);
        // Millions of records go through this, so which one is wrong is looked for afterwards.
        let (symbol, offset) = match relocations {
            Relocations::Rel(records) => largest(records.iter().map(rel)),
            Relocations::Rela(records) => largest(records.iter().map(rela)),
        };
        if (symbol as usize) < count && offset < target_size {
            continue;
        }
        let outside = |reloc: &RelocEntry| reloc.symbol.0 as usize >= count;
        let wrong = |reloc| outside(&reloc) || reloc.offset >= target_size;
        if let Some(index) = relocations.position(wrong)
            && let Some(reloc) = relocations.get(index)
        {
            let what = match outside(&reloc) {
                true => format!("relocation names symbol {}, which does not exist", reloc.symbol.0),
                false => {
                    format!("relocation at {:#x} is past the end of its section", reloc.offset)
                }
            };
            return Err(Malformed::section(section.name, record * index as u64, what));
        }
    }
    Ok(())
}

fn largest(records: impl Iterator<Item = RelocEntry>) -> (u32, u64) {
    records.fold((0, 0), |(symbol, offset), reloc| {
        (symbol.max(reloc.symbol.0), offset.max(reloc.offset))
    })
}
