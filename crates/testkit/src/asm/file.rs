//! The file as a whole: indices, places, headers.

use std::collections::HashMap;

use culd_cubin::elf::{self, sht};
use culd_cubin::encode::section_counts;
use culd_cubin::raw::{FileHeader, SectionHeader, Segment};
use culd_inspect::rules::{self, StringIndex};
use culd_inspect::words;

use super::body::{self, References};
use super::keys;
use super::parse::{Document, SectionText, SegmentText};
use super::symbols::SymbolTable;
use super::{Error, MAX_SIZE, error, strings};

/// Everything that other parts of the file refer to.
struct File<'d, 't> {
    document: &'d Document<'t>,
    /// Indices by word.
    sections: HashMap<&'t str, u32>,
    /// Index of the section name table.
    names: usize,
    /// By section index; empty for what is no symbol table.
    symbols: Vec<SymbolTable<'t>>,
    /// `sh_link` by section index.
    links: Vec<u32>,
    /// The bytes by section index, for sections that have some of their own.
    contents: Vec<Vec<u8>>,
}

pub(super) fn write(document: &Document<'_>) -> Result<Vec<u8>, Error> {
    let keys = &document.file;
    keys.only(&[
        "type",
        "sm",
        "kind",
        "flags",
        "ident",
        "version",
        "entry",
        "phentsize",
        "names",
        "section_table",
        "segment_table",
        "size",
    ])?;
    let mut file = File::new(document)?;
    file.fill()?;
    let (headers, end) = file.headers()?;
    file.write(&headers, end)
}

/// `#N` or the word of a section.
fn section_index(sections: &HashMap<&str, u32>, word: &str) -> Option<u32> {
    match word.strip_prefix('#') {
        Some(number) => u32::try_from(words::number(number)?).ok(),
        None => sections.get(word).copied(),
    }
}

impl<'d, 't> File<'d, 't> {
    fn new(document: &'d Document<'t>) -> Result<Self, Error> {
        let mut sections = HashMap::new();
        for (index, section) in (1..).zip(&document.sections) {
            if sections.insert(section.word, index).is_some() {
                let what = format!("a second '{}' (the n-th is written NAME@n)", section.word);
                return error(section.line, what);
            }
        }
        let names = document.file.read("names", "a section", |w| section_index(&sections, w))?;
        let mut file = File {
            document,
            sections,
            names: names.unwrap_or(1) as usize,
            symbols: vec![SymbolTable::default()],
            links: vec![0],
            contents: vec![Vec::new(); document.sections.len() + 1],
        };
        for section in &document.sections {
            let is_table = matches!(section.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB);
            file.symbols.push(match is_table && !section.raw {
                true => SymbolTable::parse(section)?,
                false => SymbolTable::default(),
            });
            let link =
                section.keys.read("link", "a section", |w| section_index(&file.sections, w))?;
            file.links.push(match link {
                Some(link) => link,
                None => rules::link(section.sh_type, flags(section)?)
                    .and_then(|name| file.named(name))
                    .unwrap_or(0),
            });
        }
        Ok(file)
    }

    /// All sections with their indices.
    fn sections(
        &self,
    ) -> impl DoubleEndedIterator<Item = (usize, &'d SectionText<'t>)> + use<'d, 't> {
        self.document.sections.iter().enumerate().map(|(at, section)| (at + 1, section))
    }

    /// The first section called `name`.
    fn named(&self, name: &[u8]) -> Option<u32> {
        self.sections().find(|(_, section)| section.name == name).map(|(index, _)| index as u32)
    }

    /// The first section of type `sh_type`.
    fn of_type(&self, sh_type: u32) -> Option<usize> {
        self.sections().find(|(_, section)| section.sh_type == sh_type).map(|(index, _)| index)
    }

    /// Makes the contents: strings first, then what refers to them.
    fn fill(&mut self) -> Result<(), Error> {
        self.fill_strings()?;
        let relocations: HashMap<&str, u32> = culd_reloc::CUDA
            .iter()
            .chain(&culd_reloc::MERCURY)
            .map(|row| (row.name, row.code.0))
            .collect();
        let [sass, mercury] = [sht::SYMTAB, sht::MERCURY_SYMTAB].map(|kind| self.of_type(kind));
        let strings_at = sass.and_then(|table| self.links.get(table)).map_or(0, |&at| at as usize);
        let strings = self.contents.get(strings_at).cloned().unwrap_or_default();
        let strings = StringIndex::new(&strings);
        let none = SymbolTable::default();
        for (index, section) in self.sections() {
            if !has_contents(section) || section.sh_type == sht::STRTAB {
                no_body(section)?;
                continue;
            }
            let is_table = matches!(section.sh_type, sht::SYMTAB | sht::MERCURY_SYMTAB);
            let bytes = if is_table && !section.raw {
                let link = self.links.get(index).map_or(0, |&link| link as usize);
                let names = self.contents.get(link).map_or(&[][..], Vec::as_slice);
                match self.symbols.get(index) {
                    Some(table) => table.bytes(&StringIndex::new(names), &self.sections)?,
                    None => Vec::new(),
                }
            } else {
                let mercury_section = flags(section)? & elf::shf::MERCURY != 0;
                let table = if mercury_section { mercury } else { sass };
                let symbols = table.and_then(|table| self.symbols.get(table)).unwrap_or(&none);
                let references = References {
                    symbols,
                    strings: &strings,
                    sections: &self.sections,
                    relocations: &relocations,
                };
                body::bytes(section, &references)?
            };
            if let Some(contents) = self.contents.get_mut(index) {
                *contents = bytes;
            }
        }
        Ok(())
    }

    fn fill_strings(&mut self) -> Result<(), Error> {
        let is_table = |section: &SectionText<'_>| section.sh_type == sht::STRTAB;
        let mut tables: Vec<usize> =
            self.sections().filter(|(_, s)| is_table(s) && has_contents(s)).map(|s| s.0).collect();
        // The names first: the others copy runs of them.
        tables.sort_by_key(|&index| index != self.names);
        for index in tables {
            let Some(section) = self.document.sections.get(index - 1) else { continue };
            let bytes = if section.raw {
                body::raw(&section.body)?
            } else {
                let names = self.contents.get(self.names).filter(|_| index != self.names);
                let names = names.and_then(|names| rules::strings(names)).unwrap_or_default();
                strings::table(section, &self.known_names(index), &names)?
            };
            if let Some(contents) = self.contents.get_mut(index) {
                *contents = bytes;
            }
        }
        Ok(())
    }

    /// The names that `rest` in string table `index` takes from.
    fn known_names(&self, index: usize) -> Vec<&[u8]> {
        if index == self.names {
            return self.document.sections.iter().map(|s| s.name.as_slice()).collect();
        }
        let mut names = Vec::new();
        for kind in [sht::SYMTAB, sht::MERCURY_SYMTAB] {
            let Some(table) = self.of_type(kind) else { continue };
            if self.links.get(table).is_some_and(|&link| link as usize == index) {
                let symbols = self.symbols.get(table).map_or(&[][..], |t| t.symbols.as_slice());
                names.extend(symbols.iter().map(|symbol| symbol.name.as_slice()));
            }
        }
        names
    }

    /// The section headers, index 0 included, with their places in the file, and the end of the
    /// last section.
    fn headers(&self) -> Result<(Vec<SectionHeader>, u64), Error> {
        let names = self.contents.get(self.names).map_or(&[][..], Vec::as_slice);
        let names = StringIndex::new(names);
        let mut headers = vec![rules::null_section(self.document.sections.len() + 1)];
        let mut end = 64u64;
        for (index, section) in self.sections() {
            let mut header = self.header(index, section, &names)?;
            let keys = &section.keys;
            let twin = keys.read("twin", "a section before this one", |word| {
                headers.get(*self.sections.get(word)? as usize)
            })?;
            if let Some(twin) = twin {
                (header.offset, header.size) = (twin.offset, twin.size);
            } else {
                let gap = keys.number("gap")?.unwrap_or(0);
                let place = rules::section_offset(end.saturating_add(gap), header.align);
                header.offset = keys.number("offset")?.unwrap_or(place);
                let bytes = self.contents.get(index).map_or(0, Vec::len) as u64;
                header.size = keys.number("size")?.unwrap_or(bytes);
                // What has no bytes moves what follows only where it stands by the rules.
                if bytes != 0 || keys.get("offset").is_none() {
                    end = header.offset.saturating_add(bytes);
                }
            }
            if end > MAX_SIZE {
                return error(section.line, format!("the section ends at {end:#x}: too far"));
            }
            headers.push(header);
        }
        Ok((headers, end))
    }

    fn header(
        &self,
        index: usize,
        section: &SectionText<'_>,
        names: &StringIndex<'_>,
    ) -> Result<SectionHeader, Error> {
        let keys = &section.keys;
        let Some(name) = keys.number("name_offset")?.or(names.offset(&section.name)) else {
            let what = format!("'{}' is not in the section name table", section.word);
            return error(section.line, what);
        };
        let has_bytes = section.sh_type != sht::NULL && !elf::is_nobits(section.sh_type);
        if has_bytes && keys.get("size").is_some() {
            return error(section.line, "size is for sections without bytes in the file");
        }
        let entsize = keys.number("entsize")?;
        Ok(SectionHeader {
            name,
            sh_type: section.sh_type,
            flags: flags(section)?,
            addr: keys.number("addr")?.unwrap_or(0),
            link: self.links.get(index).copied().unwrap_or(0),
            info: self.info(index, section)?,
            align: keys.number("align")?.unwrap_or(1),
            entsize: entsize.unwrap_or_else(|| elf::entsize(section.sh_type)),
            ..SectionHeader::default()
        })
    }

    fn info(&self, index: usize, section: &SectionText<'_>) -> Result<u32, Error> {
        let keys = &section.keys;
        let globals = self.symbols.get(index).and_then(|table| table.first_global);
        let info =
            keys.read("info", "a section or #NUMBER", |w| section_index(&self.sections, w))?;
        let mercury = flags(section)? & elf::shf::MERCURY != 0;
        let table = self.of_type(if mercury { sht::MERCURY_SYMTAB } else { sht::SYMTAB });
        let symbols = table.and_then(|table| self.symbols.get(table));
        let symbol = keys.read("symbol", "a symbol", |word| symbols?.index(word))?;
        let registers = keys.number::<u8>("registers")?.unwrap_or(0);
        match (globals, info, symbol) {
            (Some(info), None, None) | (None, Some(info), None) => Ok(info),
            (None, None, Some(symbol)) => Ok(symbol | u32::from(registers) << 24),
            (None, None, None) => Ok(0),
            _ => error(section.line, "info, symbol and a globals line exclude one another"),
        }
    }

    fn write(&self, headers: &[SectionHeader], end: u64) -> Result<Vec<u8>, Error> {
        let keys = &self.document.file;
        let shoff = match keys.get("section_table") {
            Some("end") => end,
            _ => keys.number("section_table")?.unwrap_or_else(|| rules::section_table(end)),
        };
        let segment_count = self.document.segments.len();
        let natural = rules::segment_table(shoff, headers.len(), segment_count);
        let phoff = keys.number("segment_table")?.unwrap_or(natural);
        let mut out = Vec::new();
        let mut header = Vec::new();
        self.file_header(shoff, phoff)?.write(&mut header);
        put(&mut out, 0, &header, keys.line)?;
        for ((header, contents), section) in
            headers.iter().zip(&self.contents).skip(1).zip(&self.document.sections)
        {
            if !contents.is_empty() {
                put(&mut out, header.offset, contents, section.line)?;
            }
        }
        let mut table = Vec::new();
        headers.iter().for_each(|header| header.write(&mut table));
        put(&mut out, shoff, &table, keys.line)?;
        table.clear();
        for segment in &self.document.segments {
            self.segment(segment, headers, phoff)?.write(&mut table);
        }
        if segment_count > 0 {
            put(&mut out, phoff, &table, keys.line)?;
        }
        if let Some(size) = keys.number::<u64>("size")? {
            put(&mut out, size, &[], keys.line)?;
        }
        for patch in &self.document.patches {
            put(&mut out, patch.offset, &patch.bytes, patch.line)?;
        }
        Ok(out)
    }

    fn file_header(&self, shoff: u64, phoff: u64) -> Result<FileHeader, Error> {
        let keys = &self.document.file;
        let count = self.document.sections.len() + 1;
        let e_type = keys.read("type", "rel, exec, ewp or a number", |text| {
            u16::try_from(words::number_of(words::FILE_TYPES, text)?).ok()
        })?;
        let Some(e_type) = e_type else {
            return error(keys.line, "expected type=rel, type=exec or type=ewp");
        };
        let sm = keys.number::<u16>("sm")?;
        let flags = match (keys.number::<u32>("flags")?, sm.map(u32::from)) {
            (Some(flags), None) => flags,
            (None, Some(sm)) => {
                let kind =
                    keys.number::<u8>("kind")?.map_or_else(|| rules::flags_kind(sm), u32::from);
                let cuinfo = self.named(rules::CUINFO).unwrap_or(0);
                kind | sm << 8 | cuinfo << 24
            }
            _ => return error(keys.line, "expected either sm=NUMBER or flags=NUMBER"),
        };
        let ident = keys.read("ident", "16 bytes in hexadecimal", |digits| {
            <[u8; 16]>::try_from(keys::bytes(digits)?).ok()
        })?;
        Ok(FileHeader {
            ident: ident.unwrap_or(rules::IDENT),
            e_type,
            machine: elf::EM_CUDA,
            version: keys.number("version")?.unwrap_or(1),
            entry: keys.number("entry")?.unwrap_or(0),
            phoff,
            shoff,
            flags,
            ehsize: 64,
            phentsize: keys.number("phentsize")?.unwrap_or(56),
            phnum: self.document.segments.len() as u16,
            shentsize: 64,
            shnum: section_counts(count).0,
            shstrndx: self.names as u16,
        })
    }

    fn segment(
        &self,
        segment: &SegmentText<'_>,
        headers: &[SectionHeader],
        phoff: u64,
    ) -> Result<Segment, Error> {
        let keys = &segment.keys;
        let table = (Segment::SIZE * self.document.segments.len()) as u64;
        let start = keys.read("start", "a section, *PHDR* or #OFFSET", |word| {
            if let Some(number) = word.strip_prefix('#') {
                return words::number(number);
            }
            if word == "*PHDR*" {
                return Some(phoff);
            }
            headers.get(*self.sections.get(word)? as usize).map(|header| header.offset)
        })?;
        let Some(offset) = start else { return error(keys.line, "expected start=") };
        let end = keys.read("end", "a section with bytes", |word| {
            rules::ends_at(headers.get(*self.sections.get(word)? as usize)?)
        })?;
        let usual = if keys.get("start") == Some("*PHDR*") { table } else { 0 };
        let size = match end {
            Some(end) => end.wrapping_sub(offset),
            None => keys.number("size")?.unwrap_or(usual),
        };
        let flags = keys.read("flags", "r, w, x joined by +", |text| {
            u32::try_from(words::bits_of(words::SEGMENT_FLAGS, text)?).ok()
        })?;
        Ok(Segment {
            p_type: segment.p_type,
            flags: flags.unwrap_or(0),
            offset,
            vaddr: keys.number("vaddr")?.unwrap_or(0),
            paddr: keys.number("paddr")?.unwrap_or(0),
            file_size: size,
            memory_size: keys.number("memory")?.unwrap_or(size),
            align: keys.number("align")?.unwrap_or(8),
        })
    }
}

fn flags(section: &SectionText<'_>) -> Result<u64, Error> {
    let flags = section.keys.read("flags", "names of flags or a number", |text| {
        words::bits_of(words::SECTION_FLAGS, text)
    })?;
    Ok(flags.unwrap_or(0))
}

/// True when the lines under the section tell its bytes.
fn has_contents(section: &SectionText<'_>) -> bool {
    let without = section.sh_type == sht::NULL || elf::is_nobits(section.sh_type);
    !without && section.keys.get("twin").is_none()
}

fn no_body(section: &SectionText<'_>) -> Result<(), Error> {
    match section.body.first().filter(|_| !has_contents(section)) {
        Some(line) => error(line.number, "this section has no bytes of its own"),
        None => Ok(()),
    }
}

/// Writes `bytes` at `offset` of the file, which grows as needed.
fn put(out: &mut Vec<u8>, offset: u64, bytes: &[u8], line: usize) -> Result<(), Error> {
    let end = offset.saturating_add(bytes.len() as u64);
    if end > MAX_SIZE {
        return error(line, format!("offset {end:#x} is too far: at most {MAX_SIZE:#x}"));
    }
    let (offset, end) = (offset as usize, end as usize);
    if out.len() < end {
        out.resize(end, 0);
    }
    if let Some(place) = out.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
    Ok(())
}
