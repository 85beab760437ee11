//! A compiled object as lists that can be changed and written.
//!
//! In: the bytes of a cubin. Out: [`EditedObject`], and bytes again. Guaranteed: unchanged lists
//! give the same sections, symbols and records; only their places in the file may change. Names are
//! kept or added, never removed.

use anyhow::{Context, Result};
use culd_cubin::elf::{is_nobits, sht};
use culd_cubin::raw::{FileHeader, SectionHeader, SymbolEntry, Tables};
use std::ops::Range;

/// A section with its header, whose offset is that in the original file.
#[derive(Clone, Debug)]
pub struct EditedSection {
    /// Its name.
    pub name: String,
    /// Its header. Size and offset are computed again, except the size of sections without bytes.
    pub header: SectionHeader,
    /// The bytes; empty for tables of symbols and relocations, whose entries are in other lists.
    pub data: Vec<u8>,
    /// The relocations of a relocation section.
    pub records: Vec<EditedReloc>,
}

impl EditedSection {
    /// True for REL and RELA.
    pub fn is_relocations(&self) -> bool {
        is_relocations(self.header.sh_type)
    }

    /// Bytes in memory.
    pub fn size(&self) -> u64 {
        if is_nobits(self.header.sh_type) { self.header.size } else { self.data.len() as u64 }
    }
}

/// A relocation; in a REL section the addend is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditedReloc {
    /// Place in the section, bytes.
    pub offset: u64,
    /// Index of the symbol.
    pub symbol: u32,
    /// Type.
    pub kind: u32,
    /// Addend.
    pub addend: i64,
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedSymbol {
    /// Its name.
    pub name: String,
    /// Its entry.
    pub entry: SymbolEntry,
}

/// An object.
#[derive(Clone, Debug)]
pub struct EditedObject {
    header: FileHeader,
    /// All sections, the null section first.
    pub sections: Vec<EditedSection>,
    /// All symbols, the null symbol first.
    pub symbols: Vec<EditedSymbol>,
    /// Indices of the symbol table, its strings, and the names of sections.
    tables: [usize; 3],
}

fn is_relocations(sh_type: u32) -> bool {
    matches!(sh_type, sht::REL | sht::RELA)
}

fn name_at(strings: &[u8], at: u32) -> String {
    let tail = strings.get(at as usize..).unwrap_or_default();
    let end = tail.iter().position(|&byte| byte == 0).unwrap_or(tail.len());
    String::from_utf8_lossy(&tail[..end]).into_owned()
}

fn number(data: &[u8], range: Range<usize>) -> u64 {
    let bytes = data.get(range).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl EditedObject {
    /// Reads the lists of `bytes`.
    ///
    /// # Errors
    /// When the tables are not inside the file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let Tables { header, sections, .. } = Tables::parse(bytes)?;
        let contents = |header: &SectionHeader| {
            if is_nobits(header.sh_type) || header.sh_type == sht::NULL {
                return Some(&[][..]);
            }
            bytes.get(header.offset as usize..(header.offset + header.size) as usize)
        };
        let mut list = Vec::new();
        let names = sections.get(usize::from(header.shstrndx)).and_then(contents);
        let names = names.context("no names of sections")?;
        for header in sections {
            let data = contents(&header).context("a section runs past the end")?.to_vec();
            let records = read_records(header.sh_type, &data);
            list.push(EditedSection { name: name_at(names, header.name), header, data, records });
        }
        let table = list.iter().position(|section| section.header.sh_type == sht::SYMTAB);
        let table = table.context("no symbol table")?;
        let strings = list[table].header.link as usize;
        let texts = list.get(strings).context("no string table")?.data.clone();
        let entries = (0..list[table].data.len()).step_by(SymbolEntry::SIZE);
        let entries = entries.filter_map(|at| SymbolEntry::read(&list[table].data, at));
        let symbols =
            entries.map(|entry| EditedSymbol { name: name_at(&texts, entry.name), entry });
        let symbols = symbols.collect();
        let tables = [table, strings, usize::from(header.shstrndx)];
        Ok(Self { header, sections: list, symbols, tables })
    }

    /// Index of the symbol table.
    pub fn symbol_table(&self) -> u32 {
        self.tables[0] as u32
    }

    /// The offset of `name` among the names of symbols; a new name is added.
    pub fn symbol_name(&mut self, name: &str) -> u32 {
        enter(&mut self.sections[self.tables[1]].data, name)
    }

    /// The offset of `name` among the names of sections; a new name is added.
    pub fn section_name(&mut self, name: &str) -> u32 {
        enter(&mut self.sections[self.tables[2]].data, name)
    }

    /// Adds a section at the end; returns its index.
    pub fn add_section(&mut self, name: &str, header: SectionHeader) -> usize {
        let header = SectionHeader { name: self.section_name(name), offset: u64::MAX, ..header };
        let (name, data, records) = (name.to_owned(), Vec::new(), Vec::new());
        self.sections.push(EditedSection { name, header, data, records });
        self.sections.len() - 1
    }

    /// The bytes of the file: sections in their original order, then the headers.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![0; FileHeader::SIZE];
        let mut headers: Vec<SectionHeader> = self.sections.iter().map(|s| s.header).collect();
        let mut order: Vec<usize> = (1..headers.len()).collect();
        order.sort_by_key(|&index| headers[index].offset);
        for index in order {
            let section = &self.sections[index];
            let header = &mut headers[index];
            pad(&mut out, header.align);
            header.offset = out.len() as u64;
            if !is_nobits(header.sh_type) && header.sh_type != sht::NULL {
                self.contents(section, &mut out);
                header.size = out.len() as u64 - header.offset;
            }
        }
        pad(&mut out, 8);
        let shoff = out.len() as u64;
        headers.iter().for_each(|header| header.write(&mut out));
        let shnum = headers.len() as u16;
        let header = FileHeader { shoff, shnum, phoff: 0, phnum: 0, ..self.header };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        out[..bytes.len()].copy_from_slice(&bytes);
        out
    }

    fn contents(&self, section: &EditedSection, out: &mut Vec<u8>) {
        match section.header.sh_type {
            sht::SYMTAB => self.symbols.iter().for_each(|symbol| symbol.entry.write(out)),
            kind if is_relocations(kind) => {
                for record in &section.records {
                    let info = u64::from(record.symbol) << 32 | u64::from(record.kind);
                    out.extend(record.offset.to_le_bytes());
                    out.extend(info.to_le_bytes());
                    if kind == sht::RELA {
                        out.extend(record.addend.to_le_bytes());
                    }
                }
            }
            _ => out.extend(&section.data),
        }
    }
}

fn pad(out: &mut Vec<u8>, align: u64) {
    // An edit may set an alignment that the file cannot have.
    out.resize(out.len().next_multiple_of(align.clamp(1, 128) as usize), 0);
}

fn read_records(sh_type: u32, data: &[u8]) -> Vec<EditedReloc> {
    let size = match sh_type {
        sht::RELA => 24,
        sht::REL => 16,
        _ => return Vec::new(),
    };
    let read = |record: &[u8]| EditedReloc {
        offset: number(record, 0..8),
        symbol: number(record, 12..16) as u32,
        kind: number(record, 8..12) as u32,
        addend: number(record, 16..24) as i64,
    };
    data.chunks_exact(size).map(read).collect()
}

fn enter(strings: &mut Vec<u8>, name: &str) -> u32 {
    let whole: Vec<u8> = [&[0], name.as_bytes(), &[0]].concat();
    if let Some(at) = strings.windows(whole.len()).position(|window| *window == whole[..]) {
        return at as u32 + 1;
    }
    let at = strings.len() as u32;
    strings.extend(&whole[1..]);
    at
}
