//! Symbol tables, and their tables of section indices.
//!
//! In: the sections of a file. Out: the symbols of one table, and its strings. Guaranteed: every
//! name is terminated, every symbol names a section that exists.

use object::LittleEndian as Le;
use object::elf::Sym64;

use crate::cubin::{Section, SectionIndex, Symbol, SymbolSection, all_of};
use crate::elf::{shn, sht, stb, stt};
use crate::error::Malformed;
use crate::read;
use crate::tables::NameBudget;

const COMMON: u32 = shn::COMMON as u32;

/// Bytes of an entry.
const ENTRY: u64 = 24;

/// Section indices from here on are special, or occur in files with many sections only.
const SPECIAL: usize = 0xff00;

/// One symbol table.
#[derive(Default)]
pub(crate) struct SymbolTable<'d> {
    pub(crate) symbols: Vec<Symbol<'d>>,
    /// The string table with their names.
    pub(crate) strings: &'d [u8],
    raws: &'d [Sym64<Le>],
}

impl<'d> SymbolTable<'d> {
    /// The name of symbol `index` of this table, if `raw`, a symbol of another table, takes the
    /// same name from the same `strings`.
    fn name(&self, strings: &'d [u8], index: usize, raw: &Sym64<Le>) -> Option<&'d [u8]> {
        let same = self.raws.get(index)?.st_name == raw.st_name;
        let same = same && std::ptr::eq(self.strings, strings);
        same.then_some(self.symbols.get(index)?.name)
    }
}

/// The one symbol table of type `sh_type`. A symbol with the same name in `other` takes the name
/// from there, which saves the search for its end.
pub(crate) fn read<'d>(
    sections: &[Section<'d>],
    sh_type: u32,
    other: &SymbolTable<'d>,
) -> Result<SymbolTable<'d>, Malformed> {
    let mut tables = (0u32..).zip(sections).filter(|(_, section)| section.sh_type == sh_type);
    let Some((table_index, table)) = tables.next() else { return Ok(SymbolTable::default()) };
    if tables.next().is_some() {
        return Err(Malformed::section(table.name, 0, "the file has more than one symbol table"));
    }
    let strings = sections
        .get(table.link as usize)
        .filter(|strings| strings.sh_type == sht::STRTAB)
        .ok_or_else(|| {
            let what = format!("sh_link names section {}, not a string table", table.link);
            Malformed::section(table.name, 0, what)
        })?
        .data;
    let raws = all_of::<Sym64<Le>>(table.data);
    let is_mercury = sh_type == sht::MERCURY_SYMTAB;
    let high = high_indices(sections, table_index, raws.len(), is_mercury)?;
    let places = SymbolPlaces { sections, table, high };
    let ordinary = sections.len().min(SPECIAL);
    let mut symbols = Vec::with_capacity(raws.len());
    let mut budget = NameBudget::new(strings);
    for (index, raw) in raws.iter().enumerate() {
        let known = other.name(strings, index, raw);
        let name = known.or_else(|| read::c_str(strings, raw.st_name.get(Le) as usize));
        let Some(name) = name else { return Err(nameless(table, index, raw)) };
        if !budget.take(name) {
            let at = ENTRY * index as u64;
            return Err(Malformed::section(table.name, at, "symbol names overlap too much"));
        }
        let section = match raw.st_shndx.get(Le).0 {
            shn::UNDEF => SymbolSection::Undefined,
            number if usize::from(number) < ordinary => {
                SymbolSection::In(SectionIndex(u32::from(number)))
            }
            _ => places.of(index, raw)?,
        };
        symbols.push(Symbol {
            name,
            info: raw.st_info.0,
            other: raw.st_other.0,
            section,
            value: raw.st_value.get(Le),
            size: raw.st_size.get(Le),
        });
    }
    Ok(SymbolTable { symbols, strings, raws })
}

fn nameless(table: &Section<'_>, index: usize, raw: &Sym64<Le>) -> Malformed {
    let name = raw.st_name.get(Le);
    let what = format!("name of symbol {index} at {name:#x} is not a terminated string");
    Malformed::section(table.name, ENTRY * index as u64, what)
}

/// The table of section indices of the symbol table in section `symbols`: no more than one, with
/// an entry for each of its `count` symbols; that of Mercury may have more.
fn high_indices<'s, 'd>(
    sections: &'s [Section<'d>],
    symbols: u32,
    count: usize,
    is_mercury: bool,
) -> Result<Option<&'s Section<'d>>, Malformed> {
    let mut tables = sections.iter().filter(|section| section.sh_type == sht::SYMTAB_SHNDX);
    let mut own = tables.by_ref().filter(|table| table.link == symbols);
    let Some(table) = own.next() else { return Ok(None) };
    if own.next().is_some() {
        let what = "the symbol table has more than one table of section indices";
        return Err(Malformed::section(table.name, 0, what));
    }
    let entries = table.data.len() / 4;
    // nvlink gives Mercury's table the length of the other, although it has fewer symbols.
    let fits = if is_mercury { entries >= count } else { entries == count };
    if !fits {
        let what = format!("{entries} section indices for {count} symbols");
        return Err(Malformed::section(table.name, table.data.len() as u64, what));
    }
    Ok(Some(table))
}

/// Finds the places of the symbols of one table.
struct SymbolPlaces<'s, 'd> {
    sections: &'s [Section<'d>],
    table: &'s Section<'d>,
    /// Section indices that do not fit the symbols.
    high: Option<&'s Section<'d>>,
}

impl SymbolPlaces<'_, '_> {
    /// A special section index.
    fn of(&self, index: usize, raw: &Sym64<Le>) -> Result<SymbolSection, Malformed> {
        let at = ENTRY * index as u64;
        match raw.st_shndx.get(Le).0 {
            shn::UNDEF => Ok(SymbolSection::Undefined),
            shn::ABS => Ok(SymbolSection::Absolute),
            shn::COMMON if !self.is_number(index, raw) => Ok(SymbolSection::Common),
            shn::XINDEX => match self.high {
                Some(high) => {
                    let target = read::u32_at(high.data, 4 * index).unwrap_or(0);
                    self.section(index, target, high.name, 4 * index as u64)
                }
                None => {
                    let what =
                        format!("the section of symbol {index} is in a table that does not exist");
                    Err(Malformed::section(self.table.name, at, what))
                }
            },
            number => self.section(index, u32::from(number), self.table.name, at),
        }
    }

    /// True if the index of COMMON is the index of a section. ptxas and nvlink leave it in the
    /// symbol, and put the index of the section's creation into the table; for common symbols both
    /// say COMMON. Code, sections and local variables cannot be common (docs/LINKING.md, large
    /// programs).
    fn is_number(&self, index: usize, raw: &Sym64<Le>) -> bool {
        if self.sections.len() <= usize::from(shn::COMMON) {
            return false;
        }
        let variable = !matches!(raw.st_info.0 & 15, stt::FUNC | stt::SECTION);
        if !variable || raw.st_info.0 >> 4 == stb::LOCAL {
            return true;
        }
        let entry = self.high.and_then(|high| read::u32_at(high.data, 4 * index));
        !matches!(entry, None | Some(0) | Some(COMMON))
    }

    /// The section of a symbol; its number stands at `at` of section `table`.
    fn section(
        &self,
        symbol: usize,
        target: u32,
        table: &[u8],
        at: u64,
    ) -> Result<SymbolSection, Malformed> {
        if target == 0 || target as usize >= self.sections.len() {
            let what = format!("symbol {symbol} is in section {target}, which does not exist");
            return Err(Malformed::section(table, at, what));
        }
        Ok(SymbolSection::In(SectionIndex(target)))
    }
}
