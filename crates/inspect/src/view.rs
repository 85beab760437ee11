//! A cubin with a name for everything in it, and its records as words.
//!
//! In: the bytes of a cubin. Out: [`View`], the forms of records that the text form and the
//! difference share. Guaranteed: an index that names nothing is written `#N`.

use std::fmt::Write;

use culd_cubin::attr::{self, Record, Shape, format};
use culd_cubin::callgraph::Edge;
use culd_cubin::elf::{shf, sht};
use culd_cubin::raw::Tables;
use culd_cubin::{Cubin, Malformed, RelocEntry, Section, Symbol, SymbolSection, compat};

use crate::name;
use crate::words;

/// A parsed cubin and the distinct names of its sections and symbols.
#[derive(Debug)]
pub struct View<'d> {
    /// The whole file.
    pub data: &'d [u8],
    /// The checked tables.
    pub cubin: Cubin<'d>,
    /// The header tables as they stand.
    pub tables: Tables,
    /// A word per section.
    pub sections: Vec<String>,
    /// A word per symbol.
    pub symbols: Vec<String>,
    /// A word per symbol of the Mercury table.
    pub mercury_symbols: Vec<String>,
}

impl<'d> View<'d> {
    /// Reads `data`.
    pub fn parse(data: &'d [u8]) -> Result<View<'d>, Malformed> {
        let cubin = Cubin::parse(data)?;
        let tables = Tables::parse(data)?;
        Ok(View {
            data,
            sections: name::distinct(cubin.sections.iter().map(|section| section.name)),
            symbols: name::distinct(cubin.symbols.iter().map(|symbol| symbol.name)),
            mercury_symbols: name::distinct(cubin.mercury_symbols.iter().map(|s| s.name)),
            cubin,
            tables,
        })
    }

    /// The word for section `index`.
    pub fn section(&self, index: u32) -> String {
        word_at(&self.sections, index)
    }

    /// The word for symbol `index` of the table that `section` refers to.
    pub fn symbol(&self, section: &Section<'_>, index: u32) -> String {
        word_at(if is_mercury(section) { &self.mercury_symbols } else { &self.symbols }, index)
    }

    /// The string at `offset` of the string table as a word, `#N` when there is none.
    pub fn string(&self, offset: u32) -> String {
        match self.cubin.string(offset) {
            Some(string) => name::quote(string),
            None => format!("#{offset}"),
        }
    }

    /// Where a symbol is defined.
    pub fn place(&self, symbol: &Symbol<'_>) -> String {
        match symbol.section {
            SymbolSection::Undefined => "undef".to_owned(),
            SymbolSection::Absolute => "abs".to_owned(),
            SymbolSection::Common => "common".to_owned(),
            SymbolSection::In(index) => self.section(index.0),
        }
    }

    /// `sh_info` of `section` in words.
    pub fn info(&self, section: &Section<'_>) -> String {
        if let Some(target) = section.info_section() {
            return self.section(target.0);
        }
        match section.sh_type {
            sht::SYMTAB | sht::MERCURY_SYMTAB => {
                format!("globals from {}", self.symbol(section, section.info))
            }
            sht::MERCURY_CODE => self.symbol(section, section.info),
            _ if section.is_code() => {
                let registers = section.info >> 24;
                let symbol = self.symbol(section, section.info & 0xff_ffff);
                if registers == 0 { symbol } else { format!("{symbol} registers={registers}") }
            }
            _ => format!("{:#x}", section.info),
        }
    }

    /// An attribute record's value in words: `none`, `byte N`, `half N`, `words ...`, `bytes HEX`.
    pub fn attribute_value(&self, section: &Section<'_>, record: &Record<'_>) -> String {
        let value = record.value;
        match record.format {
            format::NONE if value == 0 => return "none".to_owned(),
            format::NONE => return format!("none {value:#x}"),
            format::BYTE => return format!("byte {value:#x}"),
            format::HALF => return format!("half {value:#x}"),
            _ => {}
        }
        if !record.payload.len().is_multiple_of(4) {
            return format!("bytes {}", hex(record.payload));
        }
        let shape = match section.sh_type {
            sht::CUDA_COMPAT => Shape::Plain,
            _ => attr::known(record.code).map_or(Shape::Plain, |row| row.1),
        };
        let mut out = "words".to_owned();
        for (i, word) in record.words().enumerate() {
            match shape {
                Shape::Symbols => write!(out, " {}", self.symbol(section, word)),
                // No parameter's index is that of the null symbol.
                Shape::Parameter if i == 0 && word != 0 => {
                    write!(out, " {}", self.symbol(section, word))
                }
                Shape::Symbol if i == 0 => write!(out, " {}", self.symbol(section, word)),
                _ => write!(out, " {word:#x}"),
            }
            .unwrap_or_default();
        }
        out
    }

    /// The list number and the two operands of a call-graph record.
    pub fn edge(&self, section: &Section<'_>, edge: &Edge) -> (i32, String, String) {
        let name = |symbol: culd_cubin::SymbolIndex| self.symbol(section, symbol.0);
        match *edge {
            Edge::Call { caller, callee } => (-1, name(caller), name(callee)),
            Edge::AddressTaken { function, prototype } => {
                (-2, name(function), self.string(prototype))
            }
            Edge::IndirectCall { function, prototype } => {
                (-3, name(function), self.string(prototype))
            }
            Edge::Reference { function, known } => (-4, name(function), name(known)),
        }
    }

    /// The symbol that a relocation names.
    pub fn reloc_symbol(&self, section: &Section<'_>, reloc: &RelocEntry) -> String {
        self.symbol(section, reloc.symbol.0)
    }
}

/// True for sections that refer to the Mercury symbol table.
pub fn is_mercury(section: &Section<'_>) -> bool {
    section.flags & shf::MERCURY != 0
}

/// True for sections of attribute records.
pub fn is_attributes(section: &Section<'_>) -> bool {
    matches!(section.sh_type, sht::CUDA_INFO | sht::CUDA_COMPAT | sht::MERCURY_INFO)
}

/// The name of attribute `code` in `section`.
pub fn attribute_name(section: &Section<'_>, code: u8) -> String {
    let name = match section.sh_type {
        sht::CUDA_COMPAT => compat::name(code),
        _ => attr::known(code).map(|row| row.0),
    };
    name.map_or_else(|| format!("{code:#04x}"), str::to_owned)
}

/// The name of a relocation type.
pub fn reloc_name(kind: u32) -> String {
    culd_reloc::lookup(kind).map_or_else(|| format!("{kind:#x}"), |desc| desc.name.to_owned())
}

/// A signed number with its sign, hexadecimal.
pub fn signed(value: i64) -> String {
    let sign = if value < 0 { '-' } else { '+' };
    format!("{sign}{:#x}", value.unsigned_abs())
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(out, "{byte:02x}").unwrap_or_default();
    }
    out
}

/// The name of a section type.
pub fn section_type(section: &Section<'_>) -> String {
    words::word(words::SECTION_TYPES, section.sh_type)
}

fn word_at(words: &[String], index: u32) -> String {
    words.get(index as usize).cloned().unwrap_or_else(|| format!("#{index}"))
}
