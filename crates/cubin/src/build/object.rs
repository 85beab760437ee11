//! Any object: sections and symbols that name each other, without indices.
//!
//! In: sections and symbols one by one, in the order of the file. Out: the bytes of an object for
//! any architecture. Guaranteed: the same parts give the same bytes. String tables, symbol tables,
//! indices and offsets are made here; everything else is taken unchanged. A reference to a missing
//! part gives a [`BuildError`], never a panic.
//!
//! This is the layer below a [`Builder`](super::Builder): for parts that a builder does not have,
//! and for tools that take objects apart ([`ObjectBuilder::parse`]) and build them again.
//!
//! ```
//! use culd_cubin::arch::Arch;
//! use culd_cubin::build::object::{DefinitionPlace, ObjectBuilder, ObjectSection};
//! use culd_cubin::build::object::{ObjectSymbol, SectionContent};
//! use culd_cubin::elf::{shf, sht, stb, sto, stt};
//!
//! let mut object = ObjectBuilder::new(Arch::by_name("sm_80").unwrap());
//! let one = SectionContent::Bytes(vec![1, 0, 0, 0]);
//! let data = ObjectSection::new(".nv.global.init", sht::CUDA_GLOBAL_INIT, one);
//! let data = object.section(data.flags(shf::ALLOC | shf::WRITE).align(4));
//! let one = ObjectSymbol::new("one", stb::GLOBAL, stt::CUDA_OBJECT, DefinitionPlace::In(data));
//! object.symbol(ObjectSymbol { other: sto::SPACE_GLOBAL, size: 4, ..one });
//! let bytes = object.finish()?;
//!
//! // Taken apart and put together again, it is the same.
//! assert_eq!(ObjectBuilder::parse(&bytes)?.finish()?, bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;

use super::BuildError;
use crate::arch::{Arch, Flavour};
use crate::attr::{Record, format};
use crate::cubin::{MAX_ALIGN, MAX_SIZE};
use crate::elf::{TYPE_RELOCATABLE, entsize, is_nobits, shf, shn, sht, stb};
use crate::encode::{
    Abi, FileHeader, RESERVED_INDEX, SectionHeader, SymbolEntry, null_section, write_rel,
    write_rela,
};
use crate::text_of;
use crate::unified::UnifiedId;

mod apart;

/// A section of an [`ObjectBuilder`]; another object does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SectionRef(pub(super) usize);

/// A symbol of an [`ObjectBuilder`]; another object does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolRef(pub(super) usize);

/// A section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSection {
    /// Its name.
    pub name: Vec<u8>,
    /// `sh_type`, see [`sht`].
    pub sh_type: u32,
    /// `sh_flags`, see [`shf`]; those with [`shf::MERCURY`] name the symbols of Mercury's table.
    pub flags: u64,
    /// Its alignment in bytes, a power of two.
    pub align: u64,
    /// `sh_link`.
    pub link: SectionLink,
    /// `sh_info`.
    pub info: Info,
    /// The contents.
    pub contents: SectionContent,
}

/// The value of `sh_link`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionLink {
    /// Nothing.
    None,
    /// The symbol table of its half.
    Symbols,
    /// A section.
    Section(SectionRef),
}

/// The value of `sh_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Info {
    /// A number.
    Number(u32),
    /// The section that this one is about.
    Section(SectionRef),
    /// For code: the function and, before sm_90, its number of registers.
    Function {
        /// The first function in it.
        symbol: SymbolRef,
        /// Registers; 0 from sm_90 on.
        registers: u8,
    },
}

/// The contents of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionContent {
    /// Bytes without references.
    Bytes(Vec<u8>),
    /// This many bytes that are not in the file.
    Nothing(u64),
    /// The bytes of another section, at its place in the file: Mercury's data are those of machine
    /// code.
    Same(SectionRef),
    /// Relocations, with or without addends as the type of the section says.
    Relocations(Vec<ObjectRelocation>),
    /// Attributes.
    Attributes(Vec<ObjectAttribute>),
    /// Records of the call graph.
    CallGraph(Vec<ObjectEdge>),
    /// Functions and their prototypes.
    Prototypes(Vec<(SymbolRef, Vec<u8>)>),
    /// Ids of unified functions or variables.
    Unified(Vec<Unified>),
    /// Mercury code.
    Mercury {
        /// The section with its machine code.
        code: SectionRef,
        /// The bytes behind the first word, which is the index of that section.
        rest: Vec<u8>,
    },
}

/// A place that the linker fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRelocation {
    /// Bytes from the begin of the section.
    pub offset: u64,
    /// The type.
    pub kind: u32,
    /// The symbol whose address is filled in; some types need none.
    pub symbol: Option<SymbolRef>,
    /// The addend; 0 in a section without addends.
    pub addend: i64,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAttribute {
    /// See [`crate::attr::code`].
    pub code: u8,
    /// Its value.
    pub value: AttributePayload,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributePayload {
    /// Format 1: no value. The number is what the field holds nevertheless.
    None(u16),
    /// Format 2.
    Byte(u16),
    /// Format 3.
    Half(u16),
    /// Format 4: words, and the bytes behind the last whole word.
    Words(Vec<AttributeWord>, Vec<u8>),
}

/// A word of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeWord {
    /// A number.
    Number(u32),
    /// A symbol.
    Symbol(SymbolRef),
}

/// A record of a call graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectEdge {
    /// One function calls another.
    Call(SymbolRef, SymbolRef),
    /// The address of a function with this prototype is taken.
    AddressTaken(SymbolRef, Vec<u8>),
    /// A function calls something of this prototype through a pointer.
    IndirectCall(SymbolRef, Vec<u8>),
    /// A function names the address of another.
    Reference(SymbolRef, SymbolRef),
}

/// The id of a unified function or variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unified {
    /// The function or variable.
    pub symbol: SymbolRef,
    /// See [`crate::unified::flag`].
    pub flags: u32,
    /// Offset in its table.
    pub offset: u64,
    /// Its id.
    pub id: UnifiedId,
}

/// An entry of a symbol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSymbol {
    /// Its name.
    pub name: Vec<u8>,
    /// See [`stb`].
    pub binding: u8,
    /// See [`crate::elf::stt`].
    pub kind: u8,
    /// `st_other`, see [`crate::elf::sto`].
    pub other: u8,
    /// The place of the definition.
    pub place: DefinitionPlace,
    /// Offset in its section; the alignment of a common or shared symbol.
    pub value: u64,
    /// Bytes.
    pub size: u64,
}

/// The place of a symbol's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionPlace {
    /// In another object.
    Undefined,
    /// In this section.
    In(SectionRef),
    /// Nowhere: it is a number.
    Absolute,
    /// A tentative definition: the linker chooses the place.
    Common,
}

impl ObjectSection {
    /// A section without flags, link and info.
    pub fn new(name: impl Into<Vec<u8>>, sh_type: u32, contents: SectionContent) -> Self {
        let (flags, align, link, info) = (0, 1, SectionLink::None, Info::Number(0));
        ObjectSection { name: name.into(), sh_type, flags, align, link, info, contents }
    }

    /// Sets the flags.
    #[must_use]
    pub fn flags(self, flags: u64) -> Self {
        ObjectSection { flags, ..self }
    }

    /// Sets the alignment in bytes.
    #[must_use]
    pub fn align(self, align: u64) -> Self {
        ObjectSection { align, ..self }
    }

    /// Sets `sh_link`.
    #[must_use]
    pub fn link(self, link: SectionLink) -> Self {
        ObjectSection { link, ..self }
    }

    /// Sets `sh_info`.
    #[must_use]
    pub fn info(self, info: Info) -> Self {
        ObjectSection { info, ..self }
    }

    pub(super) fn is_mercury(&self) -> bool {
        self.flags & shf::MERCURY != 0
    }

    fn symbol_table(&self) -> SymbolTable {
        if self.is_mercury() { SymbolTable::Mercury } else { SymbolTable::Main }
    }

    fn text(&self) -> String {
        text_of(&self.name)
    }
}

impl ObjectSymbol {
    /// An entry with value and size 0.
    pub fn new(name: impl Into<Vec<u8>>, binding: u8, kind: u8, place: DefinitionPlace) -> Self {
        ObjectSymbol { name: name.into(), binding, kind, other: 0, place, value: 0, size: 0 }
    }
}

/// The symbol table that a section's symbols are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SymbolTable {
    /// `.symtab`.
    Main,
    /// `.nv.merc.symtab`.
    Mercury,
}

/// A symbol: its entries in both tables.
#[derive(Debug, Clone)]
struct SymbolEntries {
    own: ObjectSymbol,
    /// The entry in Mercury's table; none for symbols of machine code only.
    counterpart: Option<ObjectSymbol>,
}

/// Takes sections and symbols.
#[derive(Debug, Clone)]
pub struct ObjectBuilder {
    arch: &'static Arch,
    /// `e_type`: a relocatable object, or a whole program.
    e_type: u16,
    /// Bits 0 to 7 of `e_flags`.
    pub(super) kind: u8,
    pub(super) sections: Vec<ObjectSection>,
    symbols: Vec<SymbolEntries>,
}

/// `e_flags` of objects without Mercury, and with it.
const KIND: [u8; 2] = [4, 2];

impl ObjectBuilder {
    /// An empty object for `arch`.
    pub fn new(arch: &'static Arch) -> Self {
        let [classic, mercury] = KIND;
        let kind = if arch.flavour == Flavour::Mercury { mercury } else { classic };
        let e_type = TYPE_RELOCATABLE;
        ObjectBuilder { arch, e_type, kind, sections: Vec::new(), symbols: Vec::new() }
    }

    /// The target.
    pub fn arch(&self) -> &'static Arch {
        self.arch
    }

    /// Adds a section behind the others.
    pub fn section(&mut self, section: ObjectSection) -> SectionRef {
        self.sections.push(section);
        SectionRef(self.sections.len() - 1)
    }

    /// A section, to change it.
    pub fn section_mut(&mut self, section: SectionRef) -> Option<&mut ObjectSection> {
        self.sections.get_mut(section.0)
    }

    /// All sections.
    pub fn sections(&self) -> impl Iterator<Item = (SectionRef, &ObjectSection)> {
        self.sections.iter().enumerate().map(|(at, section)| (SectionRef(at), section))
    }

    /// Adds a symbol behind the others. In an object with Mercury it needs a counterpart, unless no
    /// later symbol has one.
    pub fn symbol(&mut self, entry: ObjectSymbol) -> SymbolRef {
        self.symbols.push(SymbolEntries { own: entry, counterpart: None });
        SymbolRef(self.symbols.len() - 1)
    }

    /// Sets a symbol's entry in Mercury's table.
    pub fn counterpart(&mut self, symbol: SymbolRef, entry: ObjectSymbol) -> &mut Self {
        if let Some(symbol) = self.symbols.get_mut(symbol.0) {
            symbol.counterpart = Some(entry);
        }
        self
    }

    /// All symbols.
    pub fn symbols(&self) -> impl Iterator<Item = (SymbolRef, &ObjectSymbol)> {
        self.symbols.iter().enumerate().map(|(at, symbol)| (SymbolRef(at), &symbol.own))
    }

    /// A symbol, to change it.
    pub fn symbol_mut(&mut self, symbol: SymbolRef) -> Option<&mut ObjectSymbol> {
        self.symbols.get_mut(symbol.0).map(|symbol| &mut symbol.own)
    }

    /// The file.
    ///
    /// # Errors
    /// The parts do not go together.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        Writer::new(&self).write()
    }
}

/// A string table; the empty string is at 0.
#[derive(Debug)]
struct Strings<'o> {
    bytes: Vec<u8>,
    offsets: HashMap<&'o [u8], u32>,
}

impl<'o> Strings<'o> {
    fn new() -> Self {
        Strings { bytes: vec![0], offsets: HashMap::from([(&b""[..], 0)]) }
    }

    fn add(&mut self, text: &'o [u8]) -> Result<u32, BuildError> {
        if let Some(&offset) = self.offsets.get(text) {
            return Ok(offset);
        }
        if text.contains(&0) {
            return Err(BuildError::Name(text_of(text)));
        }
        let offset = u32::try_from(self.bytes.len()).map_err(|_| BuildError::TooLarge)?;
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        self.offsets.insert(text, offset);
        Ok(offset)
    }
}

/// Indices of the tables that are made here, and of the first section that was given.
const NAMES: usize = 1;
const STRINGS: usize = 2;
const SYMBOLS: usize = 3;
const FIRST: usize = 4;

struct Writer<'o> {
    object: &'o ObjectBuilder,
    strings: Strings<'o>,
    names: Strings<'o>,
}

/// A section as it goes into the file.
struct ReadySection {
    header: SectionHeader,
    bytes: Vec<u8>,
    /// Its bytes are those of this section.
    same: Option<usize>,
}

impl<'o> Writer<'o> {
    fn new(object: &'o ObjectBuilder) -> Self {
        Writer { object, strings: Strings::new(), names: Strings::new() }
    }

    fn has_mercury(&self) -> bool {
        self.object.arch.flavour == Flavour::Mercury
    }

    /// The index of Mercury's symbol table, which stands behind all other sections.
    fn mercury_symbols(&self) -> usize {
        FIRST + self.object.sections.len()
    }

    fn index(&self, section: SectionRef, of: &str) -> Result<u32, BuildError> {
        match self.object.sections.get(section.0) {
            Some(_) => Ok((FIRST + section.0) as u32),
            None => Err(BuildError::Section(of.to_owned())),
        }
    }

    /// The index of a symbol in a symbol table.
    fn symbol(&self, symbol: SymbolRef, table: SymbolTable, of: &str) -> Result<u32, BuildError> {
        let known = self.object.symbols.get(symbol.0);
        match known.filter(|symbol| table == SymbolTable::Main || symbol.counterpart.is_some()) {
            // The null symbol is first.
            Some(_) => Ok(symbol.0 as u32 + 1),
            None => Err(BuildError::Symbol(of.to_owned())),
        }
    }

    fn write(mut self) -> Result<Vec<u8>, BuildError> {
        let count = self.mercury_symbols() + usize::from(self.has_mercury());
        if count >= RESERVED_INDEX {
            return Err(BuildError::TooLarge);
        }
        let mut all: Vec<ReadySection> = Vec::with_capacity(count);
        for section in &self.object.sections {
            let ready = self.section(section)?;
            all.push(ready);
        }
        let symbols = self.table(SymbolTable::Main)?;
        let mercury = match self.has_mercury() {
            true => Some(self.table(SymbolTable::Mercury)?),
            false => None,
        };
        let mut tables = [
            empty_table(self.names.add(b".shstrtab")?, sht::STRTAB, 1),
            empty_table(self.names.add(b".strtab")?, sht::STRTAB, 1),
            ReadySection {
                header: SectionHeader { name: self.names.add(b".symtab")?, ..symbols.header },
                ..symbols
            },
        ];
        if let Some(mercury) = mercury {
            let name = self.names.add(b".nv.merc.symtab")?;
            all.push(ReadySection { header: SectionHeader { name, ..mercury.header }, ..mercury });
        }
        for (table, strings) in tables.iter_mut().zip([self.names.bytes, self.strings.bytes]) {
            table.bytes = strings;
        }
        all.splice(0..0, tables);
        file(self.object, all)
    }

    /// Makes a symbol table, still without a name.
    fn table(&mut self, table: SymbolTable) -> Result<ReadySection, BuildError> {
        let (mut entries, mut locals) = (vec![SymbolEntry::default()], 1);
        let mut ended = false;
        for symbol in &self.object.symbols {
            let entry = match (&symbol.counterpart, table) {
                (Some(_), SymbolTable::Mercury) if ended => {
                    let name = text_of(&symbol.own.name);
                    return Err(BuildError::Counterpart(name));
                }
                (Some(counterpart), SymbolTable::Mercury) => counterpart,
                (None, SymbolTable::Mercury) => {
                    ended = true;
                    continue;
                }
                (_, SymbolTable::Main) => &symbol.own,
            };
            let name = text_of(&entry.name);
            let section = match entry.place {
                DefinitionPlace::Undefined => shn::UNDEF,
                DefinitionPlace::In(section) => self.index(section, &name)? as u16,
                DefinitionPlace::Absolute => shn::ABS,
                DefinitionPlace::Common => shn::COMMON,
            };
            let ObjectSymbol { binding, kind, other, value, size, .. } = *entry;
            let info = binding << 4 | kind & 15;
            let name = self.strings.add(&entry.name)?;
            entries.push(SymbolEntry { name, info, other, section, value, size });
            if binding == stb::LOCAL {
                locals = entries.len() as u32;
            }
        }
        let (sh_type, flags) = match table {
            SymbolTable::Main => (sht::SYMTAB, 0),
            SymbolTable::Mercury => (sht::MERCURY_SYMTAB, shf::MERCURY),
        };
        let mut ready = empty_table(0, sh_type, 8);
        let header = &mut ready.header;
        (header.flags, header.entsize, header.link) = (flags, 24, STRINGS as u32);
        header.info = locals;
        ready.bytes = entries.iter().flat_map(SymbolEntry::bytes).collect();
        Ok(ready)
    }

    fn section(&mut self, section: &'o ObjectSection) -> Result<ReadySection, BuildError> {
        let (name, table) = (section.text(), section.symbol_table());
        if !section.align.is_power_of_two() || section.align > MAX_ALIGN {
            return Err(BuildError::Align { name, align: section.align });
        }
        let link = match section.link {
            SectionLink::None => 0,
            SectionLink::Symbols => match table {
                SymbolTable::Main => SYMBOLS as u32,
                SymbolTable::Mercury => self.mercury_symbols() as u32,
            },
            SectionLink::Section(other) => self.index(other, &name)?,
        };
        let info = match section.info {
            Info::Number(number) => number,
            Info::Section(other) => self.index(other, &name)?,
            Info::Function { symbol, registers } => {
                self.symbol(symbol, table, &name)? | u32::from(registers) << 24
            }
        };
        let mut ready = ReadySection {
            header: SectionHeader {
                name: self.names.add(&section.name)?,
                sh_type: section.sh_type,
                flags: section.flags,
                align: section.align,
                link,
                info,
                entsize: entsize(section.sh_type),
                ..SectionHeader::default()
            },
            bytes: Vec::new(),
            same: None,
        };
        match &section.contents {
            SectionContent::Nothing(size) if is_nobits(section.sh_type) && *size <= MAX_SIZE => {
                ready.header.size = *size;
            }
            SectionContent::Same(other) => ready.same = Some(self.index(*other, &name)? as usize),
            contents if !is_nobits(section.sh_type) => {
                ready.bytes = self.bytes(section, contents, &name)?;
            }
            _ => return Err(BuildError::Contents(name)),
        }
        Ok(ready)
    }

    fn bytes(
        &mut self,
        section: &ObjectSection,
        contents: &'o SectionContent,
        name: &str,
    ) -> Result<Vec<u8>, BuildError> {
        let table = section.symbol_table();
        let mut out = Vec::new();
        match contents {
            SectionContent::Bytes(bytes) => out.clone_from(bytes),
            SectionContent::Relocations(records) => self.relocations(section, records, &mut out)?,
            SectionContent::Attributes(attributes) => {
                for attribute in attributes {
                    self.attribute(attribute, table, name, &mut out)?;
                }
            }
            SectionContent::CallGraph(edges) => self.call_graph(edges, table, name, &mut out)?,
            SectionContent::Prototypes(all) => {
                for (symbol, text) in all {
                    let pair = [self.symbol(*symbol, table, name)?, self.strings.add(text)?];
                    out.extend(pair.iter().flat_map(|word| word.to_le_bytes()));
                }
            }
            SectionContent::Unified(entries) => {
                for &Unified { symbol, flags, offset, id } in entries {
                    let symbol = self.symbol(symbol, table, name)?;
                    let symbol = crate::cubin::SymbolIndex(symbol);
                    crate::unified::Entry { symbol, flags, offset, id }.write(&mut out);
                }
            }
            SectionContent::Mercury { code, rest } => {
                out.extend(self.index(*code, name)?.to_le_bytes());
                out.extend_from_slice(rest);
            }
            SectionContent::Nothing(_) | SectionContent::Same(_) => {
                return Err(BuildError::Contents(name.to_owned()));
            }
        }
        Ok(out)
    }

    fn relocations(
        &self,
        section: &ObjectSection,
        records: &[ObjectRelocation],
        out: &mut Vec<u8>,
    ) -> Result<(), BuildError> {
        let name = section.text();
        for &ObjectRelocation { offset, kind, symbol, addend } in records {
            let symbol = match symbol {
                Some(symbol) => self.symbol(symbol, section.symbol_table(), &name)?,
                None => 0,
            };
            match section.sh_type {
                sht::REL if addend == 0 => write_rel(out, offset, symbol, kind),
                sht::REL => return Err(BuildError::Relocation { name, offset }),
                _ => write_rela(out, offset, symbol, kind, addend),
            }
        }
        Ok(())
    }

    fn attribute(
        &self,
        ObjectAttribute { code, value }: &ObjectAttribute,
        table: SymbolTable,
        name: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), BuildError> {
        let mut payload = Vec::new();
        let (format, value) = match value {
            AttributePayload::None(value) => (format::NONE, *value),
            AttributePayload::Byte(value) => (format::BYTE, *value),
            AttributePayload::Half(value) => (format::HALF, *value),
            AttributePayload::Words(words, rest) => {
                for word in words {
                    let word = match *word {
                        AttributeWord::Number(number) => number,
                        AttributeWord::Symbol(symbol) => self.symbol(symbol, table, name)?,
                    };
                    payload.extend(word.to_le_bytes());
                }
                payload.extend_from_slice(rest);
                let too_long = |_| BuildError::Attribute { name: name.to_owned(), code: *code };
                (format::SIZED, u16::try_from(payload.len()).map_err(too_long)?)
            }
        };
        Record { format, code: *code, value, payload: &payload }.write(out);
        Ok(())
    }

    fn call_graph(
        &mut self,
        edges: &'o [ObjectEdge],
        table: SymbolTable,
        name: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), BuildError> {
        for list in crate::callgraph::LISTS {
            out.extend(0u32.to_le_bytes());
            out.extend(list.to_le_bytes());
            for edge in edges {
                let (own, first, second) = match edge {
                    ObjectEdge::Call(caller, callee) => (-1, caller, Ok(callee)),
                    ObjectEdge::AddressTaken(function, text) => (-2, function, Err(text)),
                    ObjectEdge::IndirectCall(function, text) => (-3, function, Err(text)),
                    ObjectEdge::Reference(function, known) => (-4, function, Ok(known)),
                };
                if own != list {
                    continue;
                }
                let first = self.symbol(*first, table, name)?;
                let second = match second {
                    Ok(symbol) => self.symbol(*symbol, table, name)?,
                    Err(text) => self.strings.add(text)?,
                };
                out.extend(first.to_le_bytes());
                out.extend(second.to_le_bytes());
            }
        }
        Ok(())
    }
}

fn empty_table(name: u32, sh_type: u32, align: u64) -> ReadySection {
    let header = SectionHeader { name, sh_type, align, ..SectionHeader::default() };
    ReadySection { header, bytes: Vec::new(), same: None }
}

/// Puts all sections behind one another.
fn file(object: &ObjectBuilder, mut sections: Vec<ReadySection>) -> Result<Vec<u8>, BuildError> {
    let mut out = vec![0; 64];
    for section in &mut sections {
        let header = &mut section.header;
        if section.same.is_some() {
            continue;
        }
        let place = out.len().next_multiple_of(header.align.max(1) as usize);
        header.offset = place as u64;
        if !section.bytes.is_empty() {
            out.resize(place, 0);
            out.append(&mut section.bytes);
            header.size = (out.len() - place) as u64;
        }
    }
    for at in 0..sections.len() {
        let same = sections.get(at).and_then(|section| section.same);
        let Some(other) = same.and_then(|index| sections.get(index - NAMES)) else { continue };
        let (offset, size, ends) = (other.header.offset, other.header.size, other.same.is_none());
        if let Some(section) = sections.get_mut(at).filter(|_| ends) {
            (section.header.offset, section.header.size) = (offset, size);
        }
    }
    out.resize(out.len().next_multiple_of(8), 0);
    let is_info = |section: &ReadySection| section.header.flags & shf::NOTE_CUINFO != 0;
    let cuinfo = sections.iter().position(is_info).map_or(0, |at| (at + NAMES) as u32);
    let header = FileHeader {
        abi: Abi::Current,
        e_type: object.e_type,
        flags: u32::from(object.kind) | object.arch.sm << 8 | (cuinfo & 0xff) << 24,
        program_headers: 0,
        program_header_count: 0,
        program_header_size: if object.arch.has_compat { 0 } else { 56 },
        section_headers: out.len() as u64,
        section_count: sections.len() + 1,
        section_names: NAMES as u16,
    };
    null_section(sections.len() + 1).write(&mut out);
    sections.iter().for_each(|section| section.header.write(&mut out));
    for (place, byte) in out.iter_mut().zip(header.bytes()) {
        *place = byte;
    }
    Ok(out)
}
