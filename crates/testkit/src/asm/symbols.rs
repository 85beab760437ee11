//! Symbol tables.

use std::collections::HashMap;

use culd_cubin::elf::stt;
use culd_cubin::raw::SymbolEntry;
use culd_inspect::rules::StringIndex;
use culd_inspect::{name, words};

use super::keys::Keys;
use super::parse::SectionText;
use super::{Error, error};

/// A symbol line.
#[derive(Debug)]
pub(super) struct SymbolText<'t> {
    word: &'t str,
    pub(super) name: Vec<u8>,
    info: u8,
    keys: Keys<'t>,
}

/// The lines of one symbol table.
#[derive(Debug, Default)]
pub(super) struct SymbolTable<'t> {
    /// Without the null symbol.
    pub(super) symbols: Vec<SymbolText<'t>>,
    /// The null symbol, where it is not all zero.
    null: Option<SymbolText<'t>>,
    /// Index of the symbol behind the `globals` line.
    pub(super) first_global: Option<u32>,
    indices: HashMap<&'t str, u32>,
}

impl<'t> SymbolTable<'t> {
    pub(super) fn parse(section: &SectionText<'t>) -> Result<Self, Error> {
        let mut table = SymbolTable::default();
        for line in &section.body {
            let next = table.symbols.len() as u32 + 1;
            match *line.words {
                ["globals"] if table.first_global.is_none() => table.first_global = Some(next),
                ["null", binding, kind, word, ref rest @ ..] if table.is_new() => {
                    table.null = Some(symbol(line.number, [binding, kind, word], rest)?);
                    table.indices.insert(word, 0);
                }
                [binding, kind, word, ref rest @ ..] => {
                    // An unnamed null symbol takes part in counting unnamed symbols.
                    if table.null.is_none() {
                        table.indices.insert("\"\"", 0);
                    }
                    let symbol = symbol(line.number, [binding, kind, word], rest)?;
                    if table.indices.insert(word, next).is_some() {
                        let what = format!("a second '{word}' (the n-th is written NAME@n)");
                        return error(line.number, what);
                    }
                    table.symbols.push(symbol);
                }
                _ => {
                    let what = "expected: BINDING TYPE NAME [key=value]..., or globals once";
                    return error(line.number, what);
                }
            }
        }
        if table.null.is_none() {
            table.indices.insert("\"\"", 0);
        }
        Ok(table)
    }

    fn is_new(&self) -> bool {
        self.null.is_none() && self.symbols.is_empty()
    }

    /// The index that `word` names.
    pub(super) fn index(&self, word: &str) -> Option<u32> {
        match word.strip_prefix('#') {
            Some(number) => u32::try_from(words::number(number)?).ok(),
            None => self.indices.get(word).copied(),
        }
    }

    /// The bytes of the table.
    pub(super) fn bytes(
        &self,
        strings: &StringIndex<'_>,
        sections: &HashMap<&str, u32>,
    ) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(SymbolEntry::SIZE * (self.symbols.len() + 1));
        match &self.null {
            Some(null) => null.entry(strings, sections)?.write(&mut out),
            None => SymbolEntry::default().write(&mut out),
        }
        for symbol in &self.symbols {
            symbol.entry(strings, sections)?.write(&mut out);
        }
        Ok(out)
    }
}

fn symbol<'t>(
    line: usize,
    [binding, kind, word]: [&'t str; 3],
    rest: &[&'t str],
) -> Result<SymbolText<'t>, Error> {
    let half = |words, text: &str, what: &str| match words::number_of(words, text) {
        Some(number @ 0..16) => Ok(number as u8),
        _ => error(line, format!("expected {what}, found '{text}'")),
    };
    let binding = half(words::SYMBOL_BINDINGS, binding, "a symbol binding (local, global, weak)")?;
    let kind = half(words::SYMBOL_TYPES, kind, "a symbol type (func, object, section, ...)")?;
    let Some(name) = name::base(word) else {
        return error(line, format!("'{word}' is no name"));
    };
    let keys = Keys::parse(line, rest)?;
    keys.only(&["in", "value", "size", "other", "name_offset"])?;
    Ok(SymbolText { word, name, info: binding << 4 | kind, keys })
}

impl SymbolText<'_> {
    fn entry(
        &self,
        strings: &StringIndex<'_>,
        sections: &HashMap<&str, u32>,
    ) -> Result<SymbolEntry, Error> {
        let own = (self.info & 15 == stt::SECTION).then(|| sections.get(self.word)).flatten();
        let expected = "a section, *UND*, *ABS*, *COMMON* or #NUMBER";
        let place = self.keys.read("in", expected, |place| match place {
            "*UND*" => Some(0),
            "*ABS*" => Some(0xfff1),
            "*COMMON*" => Some(0xfff2),
            _ if place.starts_with('#') => {
                u16::try_from(words::number(place.get(1..)?)?).ok().map(u32::from)
            }
            // The index itself is in the section of extended indices.
            _ => sections.get(place).map(|&index| if index < 0xff00 { index } else { 0xffff }),
        })?;
        let Some(name) = self.keys.number("name_offset")?.or(strings.offset(&self.name)) else {
            let what = format!("'{}' is not in the string table", self.word);
            return error(self.keys.line, what);
        };
        let other = self.keys.read("other", "names of bits or a number", |text| {
            u8::try_from(words::bits_of(words::SYMBOL_OTHER, text)?).ok()
        })?;
        Ok(SymbolEntry {
            name,
            info: self.info,
            other: other.unwrap_or(0),
            section: place.or(own.copied()).unwrap_or(0) as u16,
            value: self.keys.number("value")?.unwrap_or(0),
            size: self.keys.number("size")?.unwrap_or(0),
        })
    }
}
