//! An object taken apart.
//!
//! In: the bytes of an object. Out: an [`ObjectBuilder`] whose parts name each other by references.
//! Guaranteed: only padding and unused strings are left out; values that references cannot express
//! give an error.

use super::{
    AttributePayload, AttributeWord, DefinitionPlace, Info, ObjectAttribute, ObjectBuilder,
    ObjectEdge, ObjectRelocation, ObjectSection, ObjectSymbol, SectionContent, SectionLink,
    SectionRef, SymbolEntries, SymbolRef, Unified,
};
use crate::arch::ARCHS;
use crate::attr::{Record, Records, Shape, format, shape};
use crate::callgraph;
use crate::cubin::{Cubin, SectionIndex, SymbolIndex, SymbolSection};
use crate::elf::{OSABI_CUDA, TYPE_EXTENSIBLE, TYPE_RELOCATABLE, is_nobits, shf, sht};
use crate::error::Malformed;
use crate::raw::FileHeader;
use crate::{read, unified};

impl ObjectBuilder {
    /// Takes the object `data` apart. Tables of section indices are made anew like all tables.
    ///
    /// # Errors
    /// It is damaged, no object of CUDA 13, or names sections and symbols in a way that is not
    /// known.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let cubin = Cubin::parse(data)?;
        let header = FileHeader::read(data, 0).unwrap_or_default();
        let e_type = cubin.header.e_type;
        // A whole program differs from an object in the type only (case whole-program/shared).
        let known = [TYPE_RELOCATABLE, TYPE_EXTENSIBLE].contains(&e_type);
        if cubin.header.os_abi != OSABI_CUDA || !known {
            return Err(Malformed::file(7, "it is no object of CUDA 13"));
        }
        let arch = ARCHS.iter().find(|arch| arch.sm == cubin.header.sm());
        let arch = arch.ok_or_else(|| Malformed::file(48, "it is for an unknown architecture"))?;
        let apart = ObjectReader::new(&cubin, u32::from(header.shstrndx));
        let mut object = ObjectBuilder::new(arch);
        object.e_type = e_type;
        object.kind = cubin.header.flags as u8;
        for (index, section) in cubin.section_indices() {
            if apart.section(index.0).is_some() {
                object.sections.push(apart.part(index, section)?);
            }
        }
        for (index, symbol) in cubin.symbol_indices().skip(1) {
            let counterpart = cubin.mercury_symbols.get(index.0 as usize);
            object.symbols.push(SymbolEntries {
                own: apart.entry(symbol)?,
                counterpart: counterpart.map(|entry| apart.entry(entry)).transpose()?,
            });
        }
        if cubin.mercury_symbols.len() > cubin.symbols.len() {
            return Err(Malformed::file(0, "Mercury's table has more symbols than machine code's"));
        }
        Ok(object)
    }
}

struct ObjectReader<'c, 'd> {
    cubin: &'c Cubin<'d>,
    /// The reference of each section; `None` for tables that are made anew.
    refs: Vec<Option<SectionRef>>,
}

impl<'c, 'd> ObjectReader<'c, 'd> {
    fn new(cubin: &'c Cubin<'d>, names: u32) -> Self {
        let strings: Vec<u32> = cubin
            .sections
            .iter()
            .filter(|section| matches!(section.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB))
            .map(|section| section.link)
            .collect();
        let mut next = 0;
        let refs = cubin.section_indices().map(|(index, section)| {
            let made = index.0 == 0
                || index.0 == names
                || strings.contains(&index.0)
                || matches!(section.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB | sht::SYMTAB_SHNDX);
            (!made).then(|| {
                next += 1;
                SectionRef(next - 1)
            })
        });
        let refs = refs.collect();
        ObjectReader { cubin, refs }
    }

    fn section(&self, index: u32) -> Option<SectionRef> {
        self.refs.get(index as usize).copied().flatten()
    }

    fn part(
        &self,
        index: SectionIndex,
        section: &crate::Section<'d>,
    ) -> Result<ObjectSection, Malformed> {
        let bad = |what: &'static str| Malformed::section(section.name, 0, what);
        let linked = self.cubin.section(SectionIndex(section.link));
        let is_symbols =
            linked.is_some_and(|to| matches!(to.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB));
        let link = match section.link {
            0 => SectionLink::None,
            _ if is_symbols => SectionLink::Symbols,
            other => {
                SectionLink::Section(self.section(other).ok_or_else(|| bad("a link to a table"))?)
            }
        };
        let info = match section.info_section() {
            Some(other) => {
                Info::Section(self.section(other.0).ok_or_else(|| bad("it is about a table"))?)
            }
            None if section.is_code() || section.sh_type == sht::MERCURY_CODE => {
                self.function(section)
            }
            None => Info::Number(section.info),
        };
        Ok(ObjectSection {
            name: section.name.to_vec(),
            sh_type: section.sh_type,
            flags: section.flags,
            align: section.align(),
            link,
            info,
            contents: self.contents(index, section)?,
        })
    }

    /// `sh_info` of code.
    fn function(&self, section: &crate::Section<'d>) -> Info {
        let index = section.info & 0xff_ffff;
        let table = match section.flags & shf::MERCURY != 0 {
            true => &self.cubin.mercury_symbols,
            false => &self.cubin.symbols,
        };
        match symbol_ref(index) {
            Some(symbol) if (index as usize) < table.len() => {
                Info::Function { symbol, registers: (section.info >> 24) as u8 }
            }
            _ => Info::Number(section.info),
        }
    }

    fn contents(
        &self,
        index: SectionIndex,
        section: &crate::Section<'d>,
    ) -> Result<SectionContent, Malformed> {
        if is_nobits(section.sh_type) {
            return Ok(SectionContent::Nothing(section.size));
        }
        if let Some(same) = self.same(index, section) {
            return Ok(SectionContent::Same(same));
        }
        let symbol = |at: usize, symbol: u32| {
            let unknown = || Malformed::section(section.name, at as u64, "a record of no symbol");
            symbol_ref(symbol).ok_or_else(unknown)
        };
        Ok(match section.sh_type {
            sht::REL
            | sht::RELA
            | sht::CUDA_RESOLVED_RELA
            | sht::MERCURY_RELA
            | sht::MERCURY_RESOLVED_RELA => {
                let records = section.relocations();
                SectionContent::Relocations(records.iter().map(relocation).collect())
            }
            sht::CUDA_INFO | sht::MERCURY_INFO => {
                let records = Records::new(section.name, section.data);
                let attribute = |record: Result<Record<'_>, _>| record.map(|one| attribute(&one));
                SectionContent::Attributes(records.map(attribute).collect::<Result<_, _>>()?)
            }
            sht::CUDA_CALLGRAPH | sht::MERCURY_CALLGRAPH => self.call_graph(section)?,
            sht::CUDA_PROTOTYPE | sht::MERCURY_PROTOTYPE => {
                let pairs = read::pairs(section.data).enumerate();
                let pair = |(place, (function, text)): (usize, (u32, u32))| {
                    let at = 8 * place;
                    Ok((symbol(at, function)?, self.text(section, at, text)?))
                };
                SectionContent::Prototypes(pairs.map(pair).collect::<Result<_, Malformed>>()?)
            }
            sht::CUDA_UFT_ENTRY | sht::CUDA_UDT_ENTRY => {
                let entry = |(at, entry): (u64, unified::Entry)| {
                    let unified::Entry { symbol: index, flags, offset, id } = entry;
                    Ok(Unified { symbol: symbol(at as usize, index.0)?, flags, offset, id })
                };
                let entries = unified::entries(section).map(entry);
                SectionContent::Unified(entries.collect::<Result<_, Malformed>>()?)
            }
            sht::MERCURY_CODE => {
                let code = read::u32_at(section.data, 0).and_then(|index| self.section(index));
                let code = code
                    .ok_or_else(|| Malformed::section(section.name, 0, "it is for no section"))?;
                SectionContent::Mercury {
                    code,
                    rest: section.data.get(4..).unwrap_or_default().to_vec(),
                }
            }
            _ => SectionContent::Bytes(section.data.to_vec()),
        })
    }

    /// The section of the machine code half whose bytes a Mercury section shares.
    fn same(&self, index: SectionIndex, section: &crate::Section<'d>) -> Option<SectionRef> {
        if section.flags & shf::MERCURY == 0 || section.data.is_empty() {
            return None;
        }
        let is_same = |(other, one): &(SectionIndex, &crate::Section<'d>)| {
            *other != index && one.flags & shf::MERCURY == 0 && std::ptr::eq(one.data, section.data)
        };
        self.section(self.cubin.section_indices().find(is_same)?.0.0)
    }

    fn text(
        &self,
        section: &crate::Section<'d>,
        at: usize,
        offset: u32,
    ) -> Result<Vec<u8>, Malformed> {
        let none = || Malformed::section(section.name, at as u64, "a prototype that is no string");
        Ok(self.cubin.string(offset).ok_or_else(none)?.to_vec())
    }

    fn call_graph(&self, section: &crate::Section<'d>) -> Result<SectionContent, Malformed> {
        let mut edges = Vec::new();
        for edge in callgraph::edges(section) {
            let (at, edge) = edge?;
            let symbol = |index: SymbolIndex| {
                let none = || Malformed::section(section.name, at, "a record of no symbol");
                symbol_ref(index.0).ok_or_else(none)
            };
            let text = |offset| self.text(section, at as usize, offset);
            edges.push(match edge {
                callgraph::Edge::Call { caller, callee } => {
                    ObjectEdge::Call(symbol(caller)?, symbol(callee)?)
                }
                callgraph::Edge::AddressTaken { function, prototype } => {
                    ObjectEdge::AddressTaken(symbol(function)?, text(prototype)?)
                }
                callgraph::Edge::IndirectCall { function, prototype } => {
                    ObjectEdge::IndirectCall(symbol(function)?, text(prototype)?)
                }
                callgraph::Edge::Reference { function, known } => {
                    ObjectEdge::Reference(symbol(function)?, symbol(known)?)
                }
            });
        }
        Ok(SectionContent::CallGraph(edges))
    }

    fn entry(&self, symbol: &crate::Symbol<'d>) -> Result<ObjectSymbol, Malformed> {
        let place = match symbol.section {
            SymbolSection::Undefined => DefinitionPlace::Undefined,
            SymbolSection::Absolute => DefinitionPlace::Absolute,
            SymbolSection::Common => DefinitionPlace::Common,
            SymbolSection::In(index) => {
                let none = || Malformed::file(0, "a symbol is in a table");
                DefinitionPlace::In(self.section(index.0).ok_or_else(none)?)
            }
        };
        Ok(ObjectSymbol {
            name: symbol.name.to_vec(),
            binding: symbol.binding(),
            kind: symbol.kind(),
            other: symbol.other,
            place,
            value: symbol.value,
            size: symbol.size,
        })
    }
}

/// The reference of a symbol; none for the null symbol.
fn symbol_ref(index: u32) -> Option<SymbolRef> {
    index.checked_sub(1).map(|place| SymbolRef(place as usize))
}

fn relocation(record: crate::RelocEntry) -> ObjectRelocation {
    let crate::RelocEntry { offset, symbol, kind, addend } = record;
    ObjectRelocation { offset, kind, symbol: symbol_ref(symbol.0), addend }
}

fn attribute(record: &Record<'_>) -> ObjectAttribute {
    let names = shape(record.code);
    let word = |(place, word): (usize, u32)| {
        let is_symbol = match names {
            Shape::Plain => false,
            Shape::Symbol | Shape::Parameter => place == 0,
            Shape::Symbols => true,
        };
        match symbol_ref(word).filter(|_| is_symbol) {
            Some(symbol) => AttributeWord::Symbol(symbol),
            None => AttributeWord::Number(word),
        }
    };
    let value = match record.format {
        format::NONE => AttributePayload::None(record.value),
        format::BYTE => AttributePayload::Byte(record.value),
        format::HALF => AttributePayload::Half(record.value),
        _ => {
            let words: Vec<AttributeWord> = record.words().enumerate().map(word).collect();
            let rest = record.payload.get(4 * words.len()..).unwrap_or_default();
            AttributePayload::Words(words, rest.to_vec())
        }
    };
    ObjectAttribute { code: record.code, value }
}
