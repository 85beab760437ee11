//! `--verify`: reads a linked cubin again, with a reader that shares no code with the linker, and
//! proves its promises.
//!
//! In: the bytes of an output. Out: the first violation of the rules that consumers of ELF rely on.
//! Guaranteed: only the readers of crate `object` and of this file are used, not `culd-cubin`; any
//! bytes are accepted.
//!
//! It proves: headers and tables lie in the file and agree with each other; names are in their
//! string tables; sections overlap neither each other nor the tables, and start at multiples of
//! their alignment; segments lie in the file and hold whole sections; `sh_link` and `sh_info` name
//! existing sections of the right kind; local symbols stand in front; symbols lie in their
//! sections; every relocation names an existing symbol and a place inside its section; attribute
//! records fill their sections; records of the call graph name existing symbols.

use std::fmt::Display;

use culd_cubin::{note, text_of};
use object::LittleEndian as Le;
use object::elf::{FileHeader64, SectionHeader64, Sym64};
use object::read::StringTable;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, Sym as _};

type ElfHeader = FileHeader64<Le>;
type ElfSection = SectionHeader64<Le>;
type ElfSymbol = Sym64<Le>;

const MACHINE_CUDA: u16 = 190;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const REL: u32 = 9;
/// The symbol table of Mercury code.
const MERCURY_SYMTAB: u32 = 0x7000_0085;
/// Relocations of Mercury code.
const MERCURY_RELA: u32 = 0x7000_0082;
/// Mercury code. Records about it count in units of its instructions, whose bytes are packed.
const MERCURY_CODE: u32 = 0x7000_0016;
/// The flag of Mercury code and of all sections that belong to it.
const MERCURY: u64 = 0x1000_0000;
/// Attribute records.
const INFO: [u32; 2] = [0x7000_0000, 0x7000_0083];
const CALLGRAPH: u32 = 0x7000_0001;
/// CUDA's own types without bytes in the file.
const WITHOUT_BYTES: [u32; 4] = [NOBITS, 0x7000_0007, 0x7000_000a, 0x7000_0015];
/// `sh_info` is the index of a section.
const INFO_LINK: u64 = 0x40;
/// Lists of the call graph: the numbers that mark them in place of a symbol.
const LISTS: [u32; 4] = [u32::MAX, u32::MAX - 1, u32::MAX - 2, u32::MAX - 3];

/// Proves that `image` is sound.
///
/// # Errors
/// The first violation.
pub fn verify(image: &[u8]) -> Result<(), String> {
    let header = ElfHeader::parse(image).map_err(text)?;
    let fields = [
        ("machine", header.e_machine.get(Le).0, MACHINE_CUDA),
        ("size of the file header", header.e_ehsize.get(Le), 64),
        ("size of section headers", header.e_shentsize.get(Le), 64),
    ];
    for (what, found, wanted) in fields {
        if found != wanted {
            return Err(format!("{what}: {found}, not {wanted}"));
        }
    }
    let sections = header.section_headers(Le, image).map_err(text)?;
    let names = header.section_strings(Le, image, sections).map_err(text)?;
    let file = ImageReader { image, header, sections, names };
    file.places()?;
    file.segments()?;
    for (index, section) in sections.iter().enumerate().skip(1) {
        let checked = file.section(section);
        checked.map_err(|what| format!("section {index} '{}': {what}", file.name(section)))?;
    }
    Ok(())
}

fn text(error: impl Display) -> String {
    error.to_string()
}

struct ImageReader<'d> {
    image: &'d [u8],
    header: &'d ElfHeader,
    sections: &'d [ElfSection],
    names: StringTable<'d>,
}

impl<'d> ImageReader<'d> {
    fn name(&self, section: &ElfSection) -> String {
        let name = section.name(Le, self.names).unwrap_or(b"?");
        text_of(name)
    }

    /// Checks that nothing overlaps, and that everything lies in the file and is aligned.
    fn places(&self) -> Result<(), String> {
        let size = self.image.len() as u64;
        let table = 64 * self.sections.len() as u64;
        let segments = 56 * u64::from(self.header.e_phnum.get(Le));
        let mut places = vec![
            (0, 64, false, "the file header".to_owned()),
            (self.header.e_shoff.get(Le), table, false, "the section headers".to_owned()),
            (self.header.e_phoff.get(Le), segments, false, "the program headers".to_owned()),
        ];
        for section in self.sections.iter().skip(1) {
            let (at, align) = (section.sh_offset(Le), section.sh_addralign(Le).max(1));
            let name = self.name(section);
            // nvlink's arrays without size may have any alignment.
            if !align.is_power_of_two() && has_bytes(section) {
                return Err(format!("section '{name}': alignment {align:#x} is no power of two"));
            }
            if has_bytes(section) && section.sh_size(Le) > 0 {
                if !at.is_multiple_of(align) {
                    return Err(format!(
                        "section '{name}' at {at:#x} is not aligned to {align:#x}"
                    ));
                }
                let mercury = section.sh_flags(Le).0 & MERCURY != 0;
                places.push((at, section.sh_size(Le), mercury, format!("section '{name}'")));
            }
        }
        places.retain(|place| place.1 > 0);
        places.sort();
        let mut last = None;
        for (at, length, mercury, what) in &places {
            let end = at.saturating_add(*length);
            if end > size {
                return Err(format!("{what} ends at {end:#x}, the file at {size:#x}"));
            }
            if let Some((start, last_end, half, other)) = last
                && *at < last_end
                // A Mercury section may share the bytes of its counterpart (case
                // mercury/two-files-110).
                && ((start, last_end) != (at, end) || half == mercury)
            {
                return Err(format!(
                    "{what} at {at:#x} overlaps {other}, which ends at {last_end:#x}"
                ));
            }
            last = Some((at, end, mercury, what));
        }
        Ok(())
    }

    /// Checks that segments lie in the file, and that every section that is in memory and has bytes
    /// lies in one of them.
    fn segments(&self) -> Result<(), String> {
        let segments = self.header.program_headers(Le, self.image).map_err(text)?;
        for (index, segment) in segments.iter().enumerate() {
            let (at, size) = (segment.p_offset(Le), segment.p_filesz(Le));
            let inside = at.checked_add(size).is_some_and(|end| end <= self.image.len() as u64);
            if !inside || segment.p_memsz(Le) < size {
                return Err(format!("segment {index}: {size:#x} bytes at {at:#x} make no sense"));
            }
            for section in self.sections.iter().skip(1).filter(|section| has_bytes(section)) {
                let (from, to) =
                    (section.sh_offset(Le), section.sh_offset(Le) + section.sh_size(Le));
                let cut = |edge: u64| from < edge && edge < to;
                if size > 0 && (cut(at) || cut(at + size)) {
                    let name = self.name(section);
                    return Err(format!("segment {index} holds a part of section '{name}'"));
                }
            }
        }
        Ok(())
    }

    fn section(&self, section: &ElfSection) -> Result<(), String> {
        section.name(Le, self.names).map_err(text)?;
        let kind = section.sh_type(Le).0;
        if self.linked(section).is_none() {
            return Err(format!("sh_link {} names no section", section.sh_link(Le)));
        }
        let about = section.sh_info(Le) as usize;
        if section.sh_flags(Le).0 & INFO_LINK != 0 && about >= self.sections.len() {
            return Err(format!("sh_info {about} names no section"));
        }
        match kind {
            SYMTAB | MERCURY_SYMTAB => self.symbols(section),
            RELA | MERCURY_RELA => self.relocations(section, 24),
            REL => self.relocations(section, 16),
            CALLGRAPH => self.call_graph(section),
            _ if INFO.contains(&kind) => self.attributes(section),
            _ => Ok(()),
        }
    }

    fn bytes(&self, section: &ElfSection) -> Result<&'d [u8], String> {
        let start = usize::try_from(section.sh_offset(Le)).map_err(text)?;
        let end = start.checked_add(usize::try_from(section.sh_size(Le)).map_err(text)?);
        end.and_then(|end| self.image.get(start..end))
            .ok_or_else(|| "is not in the file".to_owned())
    }

    fn entries<T: object::Pod>(&self, section: &ElfSection) -> Result<&'d [T], String> {
        let bytes = self.bytes(section)?;
        let (entries, rest) =
            object::pod::slice_from_bytes(bytes, bytes.len() / size_of::<T>()).map_err(|()| "?")?;
        if !rest.is_empty() {
            return Err(format!("{:#x} bytes are no whole entries", bytes.len()));
        }
        Ok(entries)
    }

    fn symbols(&self, section: &ElfSection) -> Result<(), String> {
        let strings = self.sections.get(section.sh_link(Le) as usize);
        let strings = strings.filter(|strings| strings.sh_type(Le).0 == STRTAB);
        let strings = strings.ok_or("sh_link names no string table")?;
        let strings = strings.strings(Le, self.image).map_err(text)?.unwrap_or_default();
        let symbols: &[ElfSymbol] = self.entries(section)?;
        let locals = section.sh_info(Le) as usize;
        if locals > symbols.len() {
            return Err(format!("{locals} local symbols of {}", symbols.len()));
        }
        let indices = self.section_indices(symbols.len());
        for (index, symbol) in symbols.iter().enumerate() {
            let name =
                symbol.name(Le, strings).map_err(|error| format!("symbol {index}: {error}"))?;
            let shown = || format!("symbol {index} '{}'", text_of(name));
            let home = match symbol.st_shndx.get(Le).0 {
                0xffff => indices.get(index).map_or(u32::MAX, |index| index.get(Le)),
                0xff00.. => continue,
                home => u32::from(home),
            };
            let Some(home) = self.sections.get(home as usize) else {
                return Err(format!("{} is in section {home}, which does not exist", shown()));
            };
            // nvlink 13.5 has shared variables of a debuggable program behind, too, and CUDA 12.8
            // and 12.9 have the symbols of parameter banks there (`tests/late_compat.rs`).
            let behind = symbol.st_bind() == object::elf::STB_LOCAL && index >= locals;
            let is_section = symbol.st_type() == object::elf::STT_SECTION;
            let of_bank = is_section && self.name(home).starts_with(".nv.constant0.");
            if behind && !of_bank && !self.counts_on(home) {
                return Err(format!("{} is local and behind the first {locals}", shown()));
            }
            self.inside(symbol, home).map_err(|what| format!("{} {what}", shown()))?;
        }
        Ok(())
    }

    /// Values in shared memory are addresses, not offsets: nvlink places the variables of a
    /// debuggable program twice, and counts on from the first time (case debug/placed-twice-90). In
    /// an object they are alignments.
    fn counts_on(&self, home: &ElfSection) -> bool {
        let name = self.name(home);
        let name = name.strip_prefix(".nv.merc").unwrap_or(&name);
        name.starts_with(".nv.shared.") || name.starts_with(".nv_debug.shared")
    }

    fn inside(&self, symbol: &ElfSymbol, home: &ElfSection) -> Result<(), String> {
        // Symbols of Mercury code have the sizes of the machine code that is made of it.
        if self.counts_on(home) || matches!(home.sh_type(Le).0, 0 | MERCURY_CODE) {
            return Ok(());
        }
        let end = symbol.st_value(Le).checked_add(symbol.st_size(Le));
        match end {
            Some(end) if end <= home.sh_size(Le) => Ok(()),
            _ => Err(format!(
                "at {:#x} with {:#x} bytes is not inside section '{}' of {:#x} bytes",
                symbol.st_value(Le),
                symbol.st_size(Le),
                self.name(home),
                home.sh_size(Le)
            )),
        }
    }

    /// The table of section indices that do not fit into a symbol.
    fn section_indices(&self, symbols: usize) -> &'d [object::U32<Le>] {
        let table = self.sections.iter().find(|s| s.sh_type(Le).0 == 18);
        let table = table.and_then(|table| self.entries(table).ok());
        table.filter(|table| table.len() == symbols).unwrap_or_default()
    }

    fn relocations(&self, section: &ElfSection, size: usize) -> Result<(), String> {
        let table = self.linked(section);
        let table = table.filter(|table| matches!(table.sh_type(Le).0, SYMTAB | MERCURY_SYMTAB));
        let table = table.ok_or("sh_link names no symbol table")?;
        let symbols = table.sh_size(Le) / 24;
        let target =
            self.sections.get(section.sh_info(Le) as usize).ok_or("sh_info names no section")?;
        let bytes = self.bytes(section)?;
        if !bytes.len().is_multiple_of(size) {
            return Err(format!("{:#x} bytes are no whole records", bytes.len()));
        }
        for (index, record) in bytes.chunks_exact(size).enumerate() {
            let word = |at: usize| {
                let bytes = record.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                u64::from_le_bytes(bytes.unwrap_or_default())
            };
            let (place, symbol) = (word(0), word(8) >> 32);
            if place >= target.sh_size(Le) && target.sh_type(Le).0 != MERCURY_CODE {
                return Err(format!(
                    "record {index} is about {place:#x}, section '{}' has {:#x} bytes",
                    self.name(target),
                    target.sh_size(Le)
                ));
            }
            if symbol >= symbols {
                return Err(format!("record {index} names symbol {symbol} of {symbols}"));
            }
        }
        Ok(())
    }

    /// Records of a format, a code and two bytes, which are a size if the format is 4.
    fn attributes(&self, section: &ElfSection) -> Result<(), String> {
        let mut rest = self.bytes(section)?;
        let all = rest.len();
        while !rest.is_empty() {
            let at = all - rest.len();
            let length = match rest {
                [1..=3, _, _, _, ..] => 4,
                [4, _, low, high, ..] => 4 + usize::from(u16::from_le_bytes([*low, *high])),
                [format, ..] => return Err(format!("attribute at {at:#x} has format {format}")),
                [] => 0,
            };
            let next = rest.get(length..);
            rest = next.ok_or_else(|| format!("attribute at {at:#x} runs past the end"))?;
        }
        Ok(())
    }

    /// The section that `sh_link` names. CUDA 12.0 to 12.2 write 5 for the symbol table, which is
    /// section 3.
    fn linked(&self, section: &ElfSection) -> Option<&'d ElfSection> {
        let index = match section.sh_link(Le) {
            5 if matches!(note::toolkit(self.image), Some(120..=122)) => 3,
            index => index,
        };
        self.sections.get(index as usize)
    }

    fn call_graph(&self, section: &ElfSection) -> Result<(), String> {
        let symbols = self.linked(section);
        let symbols = symbols.filter(|table| table.sh_type(Le).0 == SYMTAB);
        let symbols = symbols.ok_or("sh_link names no symbol table")?.sh_size(Le) / 24;
        let words: &[[object::U32<Le>; 2]] = self.entries(section)?;
        for (index, [first, second]) in words.iter().enumerate() {
            let (first, second) = (first.get(Le), second.get(Le));
            let sound = match first {
                0 => LISTS.contains(&second),
                _ => u64::from(first) < symbols,
            };
            if !sound {
                return Err(format!("record {index} ({first:#x}, {second:#x}) makes no sense"));
            }
        }
        Ok(())
    }
}

fn has_bytes(section: &ElfSection) -> bool {
    let kind = section.sh_type(Le).0;
    kind != 0 && !WITHOUT_BYTES.contains(&kind)
}
