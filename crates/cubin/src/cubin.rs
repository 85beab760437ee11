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
use object::pod;

use crate::elf::{self, shf, sht, sto, stt};
use crate::error::Malformed;
use crate::read;
use crate::relocation::Relocations;
use crate::symtab::{self, SymbolTable};
use crate::tables::{
    NameBudget, check_links, check_overlap, check_symbol_links, header_offset, headers, name_table,
    nameless, names_owner, section_bytes,
};

/// The largest accepted alignment of a section or variable, in bytes: ptxas takes no larger one.
pub const MAX_ALIGN: u64 = 1 << 31;

/// The largest accepted size of a section without bytes, and of a tentative definition, in bytes.
pub const MAX_SIZE: u64 = 1 << 40;

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
