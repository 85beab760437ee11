//! A cubin as tables of sections and symbols that borrow the file's bytes.
//!
//! In: the file. Out: [`Cubin`]. Guaranteed after [`Cubin::parse`]:
//!
//! * The bytes of every section lie in the file and overlap nothing else; a Mercury section may
//!   share the bytes of its counterpart.
//! * Every name is terminated; every symbol names a section that exists; every `sh_link` and
//!   `sh_info` that is an index is valid.
//! * Alignments are at most [`MAX_ALIGN`] bytes, those of sections with bytes are powers of two.
//! * Tables hold whole records.

use object::LittleEndian as Le;
use object::elf::{FileHeader64, Rel64, Rela64, SectionHeader64};
use object::pod;

use crate::elf::{self, shf, sht, sto, stt};
use crate::error::Malformed;
use crate::read;
use crate::symtab::{self, SymbolTable};
use crate::text_of;

/// The largest accepted alignment of a section or variable, in bytes: ptxas takes no larger one.
pub const MAX_ALIGN: u64 = 1 << 31;

/// The largest accepted size of a section without bytes, and of a tentative definition, in bytes.
pub const MAX_SIZE: u64 = 1 << 40;

/// Bytes of the ELF header.
const HEADER: u64 = 64;

/// Index of a section in one file's section header table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionIndex(pub u32);

/// Index of a symbol in one file's symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolIndex(pub u32);

/// The fields of the ELF header that a linker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// ET_REL (1), ET_EXEC (2) or [`TYPE_EXTENSIBLE`](crate::elf::TYPE_EXTENSIBLE).
    pub e_type: u16,
    /// `e_ident[EI_OSABI]`.
    pub os_abi: u8,
    /// `e_ident[EI_ABIVERSION]`.
    pub abi_version: u8,
    /// `e_version`: 1. In files of CUDA 12 and older for sm_90 and older it is the release (129).
    pub version: u32,
    /// Bits 0-7: kind; 8-23: SM number; 24-31: section index of the cuinfo note. In files with a
    /// release as version: 0-7: SM number; 11: `a` target; 16-23: virtual architecture.
    pub flags: u32,
}

impl Header {
    /// The SM number the code was made for: 90 for sm_90 and sm_90a.
    pub fn sm(&self) -> u32 {
        if self.is_of_cuda_12() { self.flags & 0xff } else { (self.flags >> 8) & 0xffff }
    }

    /// True for the form that files for sm_90 and older had up to CUDA 12.9: without notes.
    pub fn is_of_cuda_12(&self) -> bool {
        self.os_abi == crate::elf::OSABI_CUDA_12
    }

    /// The driver's note, from the header of a file of that form.
    pub fn info_of_cuda_12(&self) -> Option<crate::note::CuInfo> {
        let virtual_sm = (self.flags >> 16 & 0xff) as u16;
        let toolkit = u16::try_from(self.version).unwrap_or(u16::MAX);
        let info = crate::note::CuInfo { version: 2, virtual_sm, toolkit };
        self.is_of_cuda_12().then_some(info)
    }

    /// True if the flags of a file of CUDA 12 say that its code is for an `a` target.
    pub fn is_accelerated_of_cuda_12(&self) -> bool {
        match self.is_of_cuda_12() {
            true => self.flags & 0x800 != 0,
            false => self.flags & 8 != 0,
        }
    }
}

/// One section of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section<'d> {
    /// Name, without NUL.
    pub name: &'d [u8],
    /// `sh_type`, see [`sht`].
    pub sh_type: u32,
    /// `sh_flags`, see [`shf`].
    pub flags: u64,
    /// `sh_size` in bytes (also of sections without bytes in the file).
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`, at most [`MAX_ALIGN`].
    align: u32,
    /// `sh_info` names a section without the flag (case dialects/objects-of-12-0-in-steps).
    unmarked_info: bool,
    /// The bytes; empty for sections that have none in the file.
    pub data: &'d [u8],
}

impl<'d> Section<'d> {
    /// `sh_addralign` in bytes, at least 1.
    pub fn align(&self) -> u64 {
        u64::from(self.align)
    }

    /// True for REL and RELA.
    pub fn is_reloc(&self) -> bool {
        matches!(self.sh_type, sht::REL | sht::RELA)
    }

    /// Barriers of code: files of CUDA 12, and objects of them, have the number in these flags.
    pub fn barriers_of_cuda_12(&self) -> u32 {
        shf::barriers_of(self.flags)
    }

    /// Registers of code, where `sh_info` has the number; 0 elsewhere.
    pub fn registers_of_code(&self) -> u8 {
        (self.info >> 24) as u8
    }

    /// True for a section of the Mercury half.
    pub fn is_mercury(&self) -> bool {
        self.flags & shf::MERCURY != 0
    }

    /// True for machine code.
    pub fn is_code(&self) -> bool {
        self.flags & shf::EXECINSTR != 0
    }

    /// The section that `sh_info` names: the target of relocations, or the function a bank, an
    /// attribute list or shared memory belongs to.
    pub fn info_section(&self) -> Option<SectionIndex> {
        let marked = self.flags & shf::INFO_LINK != 0;
        let linked = self.is_reloc() || marked || self.unmarked_info;
        linked.then_some(SectionIndex(self.info))
    }

    /// The constant bank number, for `.nv.constant<N>` and `.nv.constant<N>.<function>`.
    pub fn constant_bank(&self) -> Option<u8> {
        let digits = self.name.strip_prefix(b".nv.constant")?;
        let digits = digits.split(|&b| b == b'.').next()?;
        // Not as text, which would have to be copied.
        let number = |number: u8, digit: &u8| {
            let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
            number.checked_mul(10)?.checked_add(digit)
        };
        if digits.is_empty() { None } else { digits.iter().try_fold(0, number) }
    }

    /// The records of a relocation section, those of Mercury code and of resolved relocations
    /// included; none for other sections.
    pub fn relocations(&self) -> Relocations<'d> {
        match self.sh_type {
            sht::RELA
            | sht::CUDA_RESOLVED_RELA
            | sht::MERCURY_RELA
            | sht::MERCURY_RESOLVED_RELA => Relocations::Rela(all_of(self.data)),
            sht::REL => Relocations::Rel(all_of(self.data)),
            _ => Relocations::Rel(&[]),
        }
    }
}

pub(crate) fn all_of<T: pod::Pod>(data: &[u8]) -> &[T] {
    pod::slice_from_all_bytes(data).unwrap_or(&[])
}

/// The records of one relocation section.
#[derive(Debug, Clone, Copy)]
pub enum Relocations<'d> {
    /// SHT_REL: the addend is in the place.
    Rel(&'d [Rel64<Le>]),
    /// SHT_RELA.
    Rela(&'d [Rela64<Le>]),
}

/// One relocation record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelocEntry {
    /// Offset of the place in its section, bytes.
    pub offset: u64,
    /// Index of the symbol in the same file.
    pub symbol: SymbolIndex,
    /// Relocation type.
    pub kind: u32,
    /// Addend; 0 in a REL record.
    pub addend: i64,
}

impl<'d> Relocations<'d> {
    /// Number of records.
    pub fn len(&self) -> usize {
        match self {
            Relocations::Rel(records) => records.len(),
            Relocations::Rela(records) => records.len(),
        }
    }

    /// True when there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Record number `i`.
    pub fn get(&self, i: usize) -> Option<RelocEntry> {
        match self {
            Relocations::Rel(records) => records.get(i).map(rel),
            Relocations::Rela(records) => records.get(i).map(rela),
        }
    }

    /// All records in file order.
    pub fn iter(&self) -> RelocEntries<'d> {
        let (rels, relas): (&[Rel64<Le>], &[Rela64<Le>]) = match *self {
            Relocations::Rel(records) => (records, &[]),
            Relocations::Rela(records) => (&[], records),
        };
        RelocEntries { rels: rels.iter(), relas: relas.iter() }
    }

    /// The number of the first record that `test` is true of.
    #[inline]
    pub fn position(&self, test: impl FnMut(RelocEntry) -> bool) -> Option<usize> {
        match self {
            Relocations::Rel(records) => records.iter().map(rel).position(test),
            Relocations::Rela(records) => records.iter().map(rela).position(test),
        }
    }
}

/// The records of one relocation section, see [`Relocations::iter`].
#[derive(Debug, Clone)]
pub struct RelocEntries<'d> {
    // At most one of the two has records.
    rels: std::slice::Iter<'d, Rel64<Le>>,
    relas: std::slice::Iter<'d, Rela64<Le>>,
}

impl Iterator for RelocEntries<'_> {
    type Item = RelocEntry;

    #[inline]
    fn next(&mut self) -> Option<RelocEntry> {
        match self.relas.next() {
            Some(record) => Some(rela(record)),
            None => self.rels.next().map(rel),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.rels.len() + self.relas.len();
        (count, Some(count))
    }

    #[inline]
    fn fold<T, F: FnMut(T, RelocEntry) -> T>(self, start: T, mut f: F) -> T {
        let relas = self.relas.map(rela).fold(start, &mut f);
        self.rels.map(rel).fold(relas, f)
    }
}

impl DoubleEndedIterator for RelocEntries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<RelocEntry> {
        match self.relas.next_back() {
            Some(record) => Some(rela(record)),
            None => self.rels.next_back().map(rel),
        }
    }
}

impl ExactSizeIterator for RelocEntries<'_> {}

fn rel(record: &Rel64<Le>) -> RelocEntry {
    let info = record.r_info.get(Le);
    let symbol = SymbolIndex((info >> 32) as u32);
    RelocEntry { offset: record.r_offset.get(Le), symbol, kind: info as u32, addend: 0 }
}

fn rela(record: &Rela64<Le>) -> RelocEntry {
    let info = record.r_info.get(Le);
    let symbol = SymbolIndex((info >> 32) as u32);
    let addend = record.r_addend.get(Le);
    RelocEntry { offset: record.r_offset.get(Le), symbol, kind: info as u32, addend }
}

/// Where a symbol is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolSection {
    /// Nowhere in this file.
    Undefined,
    /// In this section.
    In(SectionIndex),
    /// SHN_ABS.
    Absolute,
    /// SHN_COMMON: `value` is the alignment.
    Common,
}

/// One symbol of the file.
#[derive(Debug, Clone, Copy)]
pub struct Symbol<'d> {
    /// Name, without NUL.
    pub name: &'d [u8],
    /// `st_info`: binding and type.
    pub info: u8,
    /// `st_other`, see [`sto`].
    pub other: u8,
    /// Where it is defined.
    pub section: SymbolSection,
    /// Offset in its section; the alignment for common and shared symbols.
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Symbol<'_> {
    /// Binding, see [`elf::stb`].
    pub fn binding(&self) -> u8 {
        self.info >> 4
    }

    /// Type, see [`stt`].
    pub fn kind(&self) -> u8 {
        self.info & 15
    }

    /// True for functions, entries included.
    pub fn is_function(&self) -> bool {
        self.kind() == stt::FUNC
    }

    /// True for kernels.
    pub fn is_entry(&self) -> bool {
        self.is_function() && self.other & sto::ENTRY != 0
    }

    /// True for a legacy texture, sampler or surface reference.
    pub fn is_reference(&self) -> bool {
        matches!(self.kind(), stt::CUDA_TEXTURE | stt::CUDA_SAMPLER | stt::CUDA_SURFACE)
    }

    /// True for a variable in shared memory.
    pub fn is_shared(&self) -> bool {
        !self.is_function() && self.other & sto::SPACE == sto::SPACE_SHARED
    }

    /// The section it is defined in, if that is a real one.
    pub fn defined_in(&self) -> Option<SectionIndex> {
        match self.section {
            SymbolSection::In(index) => Some(index),
            _ => None,
        }
    }
}

/// A parsed cubin.
#[derive(Debug, Clone)]
pub struct Cubin<'d> {
    /// Header fields.
    pub header: Header,
    /// All sections; index 0 is the null section.
    pub sections: Vec<Section<'d>>,
    /// All symbols; index 0 is the null symbol. Empty when the file has no symbol table.
    pub symbols: Vec<Symbol<'d>>,
    /// The symbols of the Mercury sections (sm_100 and later), like [`Cubin::symbols`].
    pub mercury_symbols: Vec<Symbol<'d>>,
    /// The string table that symbols, call-graph and prototype records name strings in.
    pub strings: &'d [u8],
}

impl<'d> Cubin<'d> {
    /// Reads and checks the tables of `data`.
    ///
    /// Errors: anything that breaks the guarantees of this module. Costs O(n log n) in sections
    /// and O(n) in symbols.
    pub fn parse(data: &'d [u8]) -> Result<Self, Malformed> {
        let (header, table) = headers(data)?;
        let names = name_table(data, header, table)?;
        let mut sections = Vec::with_capacity(table.len());
        let mut budget = NameBudget::new(names);
        for (index, raw) in table.iter().enumerate() {
            let Some(name) = read::c_str(names, raw.sh_name.get(Le) as usize) else {
                return Err(nameless(header, index, raw));
            };
            let bytes = section_bytes(data, index, raw);
            let bytes = bytes.map_err(|defect| defect.malformed(data, name, raw))?;
            if !budget.take(name) {
                let what = "section names overlap too much";
                return Err(Malformed::file(header_offset(header, index), what));
            }
            let is_null = index == 0;
            let sh_type = if is_null { sht::NULL } else { raw.sh_type.get(Le).0 };
            let old = header.e_ident.os_abi.0 == elf::OSABI_CUDA_12;
            sections.push(Section {
                name,
                sh_type,
                flags: raw.sh_flags.get(Le).0,
                size: if is_null { 0 } else { raw.sh_size.get(Le) },
                link: raw.sh_link.get(Le),
                info: raw.sh_info.get(Le),
                align: raw.sh_addralign.get(Le).max(1) as u32,
                unmarked_info: raw.sh_info.get(Le) != 0 && names_owner(sh_type, old),
                data: bytes,
            });
        }
        check_links(&sections)?;
        check_overlap(header, table, &sections)?;
        let own = symtab::read(&sections, sht::SYMTAB, &SymbolTable::default())?;
        let mercury = symtab::read(&sections, sht::MERCURY_SYMTAB, &own)?;
        let (SymbolTable { symbols, strings, .. }, mercury_symbols) = (own, mercury.symbols);
        check_symbol_links(&sections, symbols.len(), mercury_symbols.len())?;
        let header = Header {
            e_type: header.e_type.get(Le).0,
            os_abi: header.e_ident.os_abi.0,
            abi_version: header.e_ident.abi_version,
            version: header.e_version.get(Le),
            flags: header.e_flags.get(Le).0,
        };
        Ok(Cubin { header, sections, symbols, mercury_symbols, strings })
    }

    /// The section at `index`.
    pub fn section(&self, index: SectionIndex) -> Option<&Section<'d>> {
        self.sections.get(index.0 as usize)
    }

    /// The symbol at `index`.
    pub fn symbol(&self, index: SymbolIndex) -> Option<&Symbol<'d>> {
        self.symbols.get(index.0 as usize)
    }

    /// The first section called `name`.
    pub fn section_by_name(&self, name: &[u8]) -> Option<&Section<'d>> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The terminated string at byte `offset` of [`Cubin::strings`].
    pub fn string(&self, offset: u32) -> Option<&'d [u8]> {
        read::c_str(self.strings, offset as usize)
    }

    /// All sections with their indices.
    pub fn section_indices(&self) -> impl Iterator<Item = (SectionIndex, &Section<'d>)> {
        (0u32..).map(SectionIndex).zip(&self.sections)
    }

    /// All symbols with their indices.
    pub fn symbol_indices(&self) -> impl Iterator<Item = (SymbolIndex, &Symbol<'d>)> {
        (0u32..).map(SymbolIndex).zip(&self.symbols)
    }
}

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

type RawHeader = FileHeader64<Le>;
type RawSection = SectionHeader64<Le>;

fn headers(data: &[u8]) -> Result<(&RawHeader, &[RawSection]), Malformed> {
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

fn name_table<'d>(
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

fn header_offset(header: &RawHeader, index: usize) -> u64 {
    header.e_shoff.get(Le).saturating_add(64 * index as u64)
}

fn file_range<'d>(data: &'d [u8], raw: &RawSection) -> Option<&'d [u8]> {
    let start = usize::try_from(raw.sh_offset.get(Le)).ok()?;
    let size = usize::try_from(raw.sh_size.get(Le)).ok()?;
    read::bytes(data, start, size)
}

fn nameless(header: &RawHeader, index: usize, raw: &RawSection) -> Malformed {
    let name = raw.sh_name.get(Le);
    let what = format!("name of section {index} at {name:#x} is not a terminated string");
    Malformed::file(header_offset(header, index), what)
}

/// The bytes of section `index`, once its header is known to be sound.
fn section_bytes<'d>(
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
fn names_owner(sh_type: u32, old: bool) -> bool {
    let bank = (sht::CUDA_CONSTANT0..=sht::CUDA_CONSTANT_LAST).contains(&sh_type);
    sh_type == sht::CUDA_CONSTANT0
        || old && (bank || matches!(sh_type, sht::CUDA_INFO | sht::CUDA_SHARED))
}

enum HeaderDefect {
    Alignment,
    Size,
    Entries,
    Bytes,
}

impl HeaderDefect {
    fn malformed(self, data: &[u8], name: &[u8], raw: &RawSection) -> Malformed {
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

fn check_links(sections: &[Section<'_>]) -> Result<(), Malformed> {
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
fn check_overlap(
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
        let twins = (begin, end) == (start, finish) && is_mercury(first) != is_mercury(second);
        if start < end && !twins {
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
    let mut twins = all.clone().filter(|(_, section)| !section.is_mercury());
    all.try_fold(HEADER, |last, (raw, section)| {
        let (start, end) = extent(raw, section);
        if start >= last {
            return Some(end);
        }
        let is_twin =
            section.is_mercury() && twins.any(|(raw, twin)| extent(raw, twin) == (start, end));
        is_twin.then_some(last)
    })
}

fn extent(raw: &RawSection, section: &Section<'_>) -> (u64, u64) {
    let start = raw.sh_offset.get(Le);
    (start, start + section.data.len() as u64)
}

/// Checks that relocation records name symbols that exist, and places in their section. Places in
/// Mercury code are not looked at: they count bytes before compression.
fn check_symbol_links(
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
