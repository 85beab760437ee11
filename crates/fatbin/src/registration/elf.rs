//! A relocatable ELF file, written in one go.
//!
//! In: sections, symbols, relocations. Out: the bytes up to the contents of the last section, which
//! the caller has.

use super::Visibility;

const HEADER: u64 = 64;
const SECTION_HEADER: u64 = 64;

const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const RELA: u32 = 4;
const NOTE: u32 = 7;
const NOBITS: u32 = 8;
const INIT_ARRAY: u32 = 14;

const WRITE: u64 = 1;
const ALLOC: u64 = 2;
const EXEC: u64 = 4;
/// `sh_info` is the number of a section.
const INFO_LINK: u64 = 0x40;

/// A record of a `.rela` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostRelocation {
    pub(super) at: u64,
    pub(super) kind: u32,
    pub(super) symbol: u32,
    pub(super) addend: i64,
}

/// A section.
pub(super) struct HostSection {
    name: &'static [u8],
    kind: u32,
    flags: u64,
    align: u64,
    data: Vec<u8>,
    /// Without [`HostSection::data`] in the file, or behind everything.
    size: u64,
    relocations: Vec<HostRelocation>,
}

impl HostSection {
    fn new(name: &'static [u8], kind: u32, flags: u64, align: u64, data: Vec<u8>) -> Self {
        let size = data.len() as u64;
        HostSection { name, kind, flags, align, data, size, relocations: Vec::new() }
    }

    pub(super) fn code(name: &'static [u8], align: u64, data: Vec<u8>) -> Self {
        HostSection::new(name, PROGBITS, ALLOC | EXEC, align, data)
    }

    pub(super) fn data(name: &'static [u8], align: u64, data: Vec<u8>) -> Self {
        HostSection::new(name, PROGBITS, ALLOC, align, data)
    }

    pub(super) fn note(name: &'static [u8], align: u64, data: Vec<u8>) -> Self {
        HostSection::new(name, NOTE, ALLOC, align, data)
    }

    /// Addresses of functions that are called before the program.
    pub(super) fn constructors(name: &'static [u8], align: u64, data: Vec<u8>) -> Self {
        HostSection::new(name, INIT_ARRAY, ALLOC | WRITE, align, data)
    }

    pub(super) fn zeros(name: &'static [u8], align: u64, size: u64) -> Self {
        HostSection { size, ..HostSection::new(name, NOBITS, ALLOC | WRITE, align, Vec::new()) }
    }

    /// A section that says something by being there.
    pub(super) fn mark(name: &'static [u8]) -> Self {
        HostSection::new(name, PROGBITS, 0, 1, Vec::new())
    }

    /// The section whose contents end the file.
    pub(super) fn last(name: &'static [u8], align: u64, size: u64) -> Self {
        HostSection { size, ..HostSection::new(name, PROGBITS, ALLOC, align, Vec::new()) }
    }

    pub(super) fn writable(mut self) -> Self {
        self.flags |= WRITE;
        self
    }

    pub(super) fn relocated(self, relocations: Vec<HostRelocation>) -> Self {
        HostSection { relocations, ..self }
    }
}

/// A symbol.
pub(super) struct HostSymbol {
    name: Vec<u8>,
    info: u8,
    /// `st_other`.
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl HostSymbol {
    /// Local, of type `STT_SECTION`.
    pub(super) fn section(section: u16) -> Self {
        HostSymbol { name: Vec::new(), info: 3, other: 0, section, value: 0, size: 0 }
    }

    /// Global, of type `STT_FUNC`.
    pub(super) fn function(name: Vec<u8>, section: u16, value: u64, size: u64) -> Self {
        HostSymbol { name, info: 0x12, other: 0, section, value, size }
    }

    /// Global, of type `STT_OBJECT`.
    pub(super) fn object(name: Vec<u8>, section: u16, value: u64, size: u64) -> Self {
        HostSymbol { name, info: 0x11, other: 0, section, value, size }
    }

    /// Global, without a type.
    pub(super) fn undefined(name: Vec<u8>) -> Self {
        HostSymbol { name, info: 0x10, other: 0, section: 0, value: 0, size: 0 }
    }

    /// With this visibility.
    pub(super) fn seen(self, visibility: Visibility) -> Self {
        let other = match visibility {
            Visibility::Default => 0,
            Visibility::Internal => 1,
            Visibility::Hidden => 2,
            Visibility::Protected => 3,
        };
        HostSymbol { other, ..self }
    }

    pub(super) fn local(mut self) -> Self {
        self.info &= 0xf;
        self
    }
}

/// A relocatable file.
pub(super) struct HostObjectBuilder {
    pub(super) machine: u16,
    /// From number 1 on; the last one is the last in the file.
    pub(super) sections: Vec<HostSection>,
    /// From number 1 on, local ones first.
    pub(super) symbols: Vec<HostSymbol>,
    /// The number of local symbols, with the empty one.
    pub(super) first_global: u32,
}

/// A string table: strings, each with a NUL behind it.
struct HostStrings(Vec<u8>);

impl HostStrings {
    fn add(&mut self, name: &[u8]) -> Option<u32> {
        if name.is_empty() {
            return Some(0);
        }
        let at = u32::try_from(self.0.len()).ok()?;
        self.0.extend_from_slice(name);
        self.0.push(0);
        Some(at)
    }
}

/// Section headers, and contents at their offsets.
struct ObjectFile {
    headers: Vec<u8>,
    bytes: Vec<u8>,
    /// The offset of [`ObjectFile::bytes`] in the file.
    base: u64,
    names: HostStrings,
}

/// The fields of a header besides name, offset and size.
struct HostSectionHeader {
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

impl ObjectFile {
    fn section(
        &mut self,
        name: &[u8],
        size: u64,
        data: &[u8],
        kind: &HostSectionHeader,
    ) -> Option<()> {
        let align = usize::try_from(kind.align).ok()?;
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        let name = self.names.add(name)?;
        let offset = self.base + self.bytes.len() as u64;
        put(&mut self.headers, &[name, kind.kind]);
        put64(&mut self.headers, &[kind.flags, 0, offset, size]);
        put(&mut self.headers, &[kind.link, kind.info]);
        put64(&mut self.headers, &[kind.align, kind.entry]);
        self.bytes.extend_from_slice(data);
        Some(())
    }
}

impl HostObjectBuilder {
    /// The file without the contents of its last section; `None` when a number does not fit its
    /// field.
    pub(super) fn write(&self) -> Option<Vec<u8>> {
        let relocated = self.sections.iter().filter(|section| !section.relocations.is_empty());
        let tables = u32::try_from(self.sections.len() + relocated.count()).ok()? + 1;
        let (symtab, strtab, names) = (tables, tables + 1, tables + 2);
        let number = u16::try_from(names + 1).ok()?;
        let mut file = ObjectFile {
            headers: vec![0; 64],
            bytes: Vec::new(),
            base: HEADER + SECTION_HEADER * u64::from(number),
            names: HostStrings(vec![0]),
        };
        // The tables' numbers follow those of the sections; their contents stand before the last
        // section.
        let (last, first) = self.sections.split_last()?;
        for section in first {
            let HostSection { name, kind, flags, align, data, size, .. } = section;
            let kind = HostSectionHeader {
                kind: *kind,
                flags: *flags,
                link: 0,
                info: 0,
                align: *align,
                entry: 0,
            };
            file.section(name, *size, data, &kind)?;
        }
        let first_headers = std::mem::take(&mut file.headers);
        let mut tables = file;
        for (info, section) in (1..).zip(&self.sections) {
            if !section.relocations.is_empty() {
                let kind = HostSectionHeader {
                    kind: RELA,
                    flags: INFO_LINK,
                    link: symtab,
                    info,
                    align: 8,
                    entry: 24,
                };
                let data = relocations(&section.relocations);
                let name = [b".rela", section.name].concat();
                tables.section(&name, data.len() as u64, &data, &kind)?;
            }
        }
        let (symbols, strings) = self.symbols()?;
        let kind = HostSectionHeader {
            kind: SYMTAB,
            flags: 0,
            link: strtab,
            info: self.first_global.min(u32::try_from(self.symbols.len()).ok()? + 1),
            align: 8,
            entry: 24,
        };
        tables.section(b".symtab", symbols.len() as u64, &symbols, &kind)?;
        let text =
            HostSectionHeader { kind: STRTAB, flags: 0, link: 0, info: 0, align: 1, entry: 0 };
        tables.section(b".strtab", strings.len() as u64, &strings, &text)?;
        // The names of the last two are added before the table is written.
        let last_name = tables.names.add(last.name)?;
        let mut all = tables.names.0.clone();
        all.extend_from_slice(b".shstrtab\0");
        tables.section(b".shstrtab", all.len() as u64, &all, &text)?;
        let align = usize::try_from(last.align).ok()?;
        tables.bytes.resize(tables.bytes.len().next_multiple_of(align), 0);
        let offset = tables.base + tables.bytes.len() as u64;
        let mut last_header = Vec::new();
        put(&mut last_header, &[last_name, last.kind]);
        put64(&mut last_header, &[last.flags, 0, offset, last.size]);
        put(&mut last_header, &[0, 0]);
        put64(&mut last_header, &[last.align, 0]);
        let mut out = self.header(number);
        out.extend_from_slice(&first_headers);
        out.extend_from_slice(&last_header);
        out.extend_from_slice(&tables.headers);
        out.extend_from_slice(&tables.bytes);
        Some(out)
    }

    fn header(&self, sections: u16) -> Vec<u8> {
        let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        // ET_REL.
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&self.machine.to_le_bytes());
        put(&mut out, &[1]);
        put64(&mut out, &[0, 0, HEADER]);
        put(&mut out, &[0]);
        for half in [HEADER as u16, 0, 0, SECTION_HEADER as u16, sections, sections - 1] {
            out.extend_from_slice(&half.to_le_bytes());
        }
        out
    }

    fn symbols(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut out, mut strings) = (vec![0; 24], HostStrings(vec![0]));
        for HostSymbol { name, info, other, section, value, size } in &self.symbols {
            put(&mut out, &[strings.add(name)?]);
            out.extend_from_slice(&[*info, *other]);
            out.extend_from_slice(&section.to_le_bytes());
            put64(&mut out, &[*value, *size]);
        }
        Some((out, strings.0))
    }
}

fn relocations(relocations: &[HostRelocation]) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 * relocations.len());
    for &HostRelocation { at, kind, symbol, addend } in relocations {
        put64(&mut out, &[at, u64::from(symbol) << 32 | u64::from(kind), addend.cast_unsigned()]);
    }
    out
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn put64(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}
