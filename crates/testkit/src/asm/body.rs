//! Records and bytes of a section.

use std::collections::HashMap;

use culd_cubin::SymbolIndex;
use culd_cubin::attr::{self, Record, Shape, format};
use culd_cubin::capmerc::{self, Capsule};
use culd_cubin::elf::sht;
use culd_cubin::note::{self, CuInfo, ToolRecord};
use culd_cubin::unified::{Entry, Id};
use culd_cubin::{compat, encode};
use culd_inspect::rules::StringIndex;
use culd_inspect::{name, words};

use super::keys::{self, Keys};
use super::parse::{Line, SectionText};
use super::symbols::SymbolTable;
use super::{Error, MAX_SIZE, error};

/// What the records of one section refer to.
pub(super) struct References<'a, 't> {
    pub(super) symbols: &'a SymbolTable<'t>,
    /// The table of prototype strings.
    pub(super) strings: &'a StringIndex<'a>,
    /// Indices of sections by word.
    pub(super) sections: &'a HashMap<&'t str, u32>,
    /// Codes of relocation types by name.
    pub(super) relocations: &'a HashMap<&'static str, u32>,
}

/// The bytes of `section`, which is no string table and no symbol table.
pub(super) fn bytes(
    section: &SectionText<'_>,
    references: &References<'_, '_>,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    if section.raw {
        return raw(&section.body);
    }
    let line: fn(
        &mut Vec<u8>,
        &SectionText<'_>,
        &Line<'_>,
        &References<'_, '_>,
    ) -> Result<(), Error> = match section.sh_type {
        sht::RELA
        | sht::REL
        | sht::CUDA_RESOLVED_RELA
        | sht::MERCURY_RELA
        | sht::MERCURY_RESOLVED_RELA => relocation,
        sht::CUDA_INFO | sht::CUDA_COMPAT | sht::MERCURY_INFO => attribute,
        sht::CUDA_CALLGRAPH | sht::MERCURY_CALLGRAPH => {
            edges(&mut out, section, references)?;
            return Ok(out);
        }
        sht::CUDA_PROTOTYPE | sht::MERCURY_PROTOTYPE => prototype,
        sht::CUDA_UFT_ENTRY | sht::CUDA_UDT_ENTRY => unified,
        sht::NOTE => note,
        sht::MERCURY_CODE => return capsule(section, references),
        _ => return raw(&section.body),
    };
    for text in &section.body {
        line(&mut out, section, text, references)?;
    }
    Ok(out)
}

/// Lines `OFFSET HEX...` and `OFFSET zero SIZE`.
pub(super) fn raw(body: &[Line<'_>]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    for line in body {
        let Some((offset, rest)) = line.words.split_first() else { continue };
        if words::number(offset) != Some(out.len() as u64) {
            let what = format!("expected the offset {:#06x}, found '{offset}'", out.len());
            return error(line.number, what);
        }
        if let ["zero", size] = rest {
            match words::number(size).filter(|&size| size <= MAX_SIZE) {
                Some(size) => out.resize(out.len() + size as usize, 0),
                None => return error(line.number, format!("'{size}' is no usable size")),
            }
            continue;
        }
        match keys::bytes(&rest.concat()) {
            Some(bytes) => out.extend_from_slice(&bytes),
            None => return error(line.number, "expected hexadecimal digits, two a byte"),
        }
    }
    Ok(out)
}

fn symbol(line: &Line<'_>, word: &str, references: &References<'_, '_>) -> Result<u32, Error> {
    match references.symbols.index(word) {
        Some(index) => Ok(index),
        None => error(line.number, format!("no symbol '{word}'")),
    }
}

fn string(line: &Line<'_>, word: &str, references: &References<'_, '_>) -> Result<u32, Error> {
    let offset = match word.strip_prefix('#') {
        Some(number) => words::number(number).and_then(|number| u32::try_from(number).ok()),
        None => name::unquote(word).and_then(|string| references.strings.offset(&string)),
    };
    match offset {
        Some(offset) => Ok(offset),
        None => error(line.number, format!("'{word}' is not in the string table")),
    }
}

fn relocation(
    out: &mut Vec<u8>,
    section: &SectionText<'_>,
    line: &Line<'_>,
    references: &References<'_, '_>,
) -> Result<(), Error> {
    let (offset, kind, target, addend) = match *line.words {
        [offset, kind, target] => (offset, kind, target, "+0"),
        [offset, kind, target, addend] => (offset, kind, target, addend),
        _ => return error(line.number, "expected: OFFSET TYPE SYMBOL [+ADDEND or -ADDEND]"),
    };
    let Some(offset) = words::number(offset) else {
        return error(line.number, format!("'{offset}' is no offset"));
    };
    let code = references.relocations.get(kind).copied();
    let number = || words::number(kind).and_then(|number| u32::try_from(number).ok());
    let Some(code) = code.or_else(number) else {
        return error(line.number, format!("'{kind}' is no relocation type"));
    };
    let Some(addend) = signed(addend) else {
        return error(line.number, format!("expected +NUMBER or -NUMBER, found '{addend}'"));
    };
    let target = symbol(line, target, references)?;
    match section.sh_type {
        sht::REL if addend != 0 => error(line.number, "this section's records have no addend"),
        sht::REL => {
            encode::write_rel(out, offset, target, code);
            Ok(())
        }
        _ => {
            encode::write_rela(out, offset, target, code, addend);
            Ok(())
        }
    }
}

fn signed(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix('-') {
        return 0i64.checked_sub_unsigned(words::number(digits)?);
    }
    i64::try_from(words::number(text.strip_prefix('+')?)?).ok()
}

fn attribute(
    out: &mut Vec<u8>,
    section: &SectionText<'_>,
    line: &Line<'_>,
    references: &References<'_, '_>,
) -> Result<(), Error> {
    let [attribute, shape, rest @ ..] = &line.words[..] else {
        return error(line.number, "expected: ATTRIBUTE none|byte|half|words|bytes VALUE...");
    };
    let is_compat = section.sh_type == sht::CUDA_COMPAT;
    let code = match is_compat {
        true => compat::ATTRIBUTES.iter().find(|row| row.1 == *attribute).map(|row| row.0),
        false => attr::ATTRIBUTES.iter().find(|row| row.1 == *attribute).map(|row| row.0),
    };
    let number = || words::number(attribute).and_then(|number| u8::try_from(number).ok());
    let Some(code) = code.or_else(number) else {
        return error(line.number, format!("'{attribute}' is no attribute"));
    };
    let mut payload = Vec::new();
    let (format, value) = match (*shape, rest) {
        ("none", []) => (format::NONE, Some(0)),
        ("none", [value]) => (format::NONE, words::number(value)),
        ("byte", [value]) => (format::BYTE, words::number(value)),
        ("half", [value]) => (format::HALF, words::number(value)),
        ("bytes", digits) => {
            let Some(bytes) = keys::bytes(&digits.concat()) else {
                return error(line.number, "expected hexadecimal digits, two a byte");
            };
            payload = bytes;
            (format::SIZED, Some(payload.len() as u64))
        }
        ("words", words) => {
            let shape = attr::known(code).map_or(Shape::Plain, |row| row.1);
            let shape = if is_compat { Shape::Plain } else { shape };
            for (at, word) in words.iter().enumerate() {
                payload.extend(payload_word(line, shape, at, word, references)?.to_le_bytes());
            }
            (format::SIZED, Some(payload.len() as u64))
        }
        _ => return error(line.number, "expected none, byte N, half N, words N... or bytes HEX"),
    };
    let Some(value) = value.and_then(|value| u16::try_from(value).ok()) else {
        return error(line.number, "the value or the payload's size does not fit 16 bits");
    };
    Record { format, code, value, payload: &payload }.write(out);
    Ok(())
}

fn payload_word(
    line: &Line<'_>,
    shape: Shape,
    at: usize,
    word: &str,
    references: &References<'_, '_>,
) -> Result<u32, Error> {
    let parameter = shape == Shape::Parameter && word != "0x0";
    if shape == Shape::Symbols || at == 0 && (shape == Shape::Symbol || parameter) {
        return symbol(line, word, references);
    }
    match words::number(word).and_then(|number| u32::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => error(line.number, format!("expected a number of 32 bits, found '{word}'")),
    }
}

fn edges(
    out: &mut Vec<u8>,
    section: &SectionText<'_>,
    references: &References<'_, '_>,
) -> Result<(), Error> {
    let mut list = 0i32;
    for line in &section.body {
        let [first, second] = *line.words else {
            return error(line.number, "expected: list NAME, or two names");
        };
        let (first, second) = match (first, list) {
            ("list", _) => {
                let lists = ["calls", "taken", "indirect", "references"];
                let Some(at) = lists.iter().position(|name| *name == second) else {
                    let what = format!("expected {}, found '{second}'", lists.join(", "));
                    return error(line.number, what);
                };
                list = -1 - at as i32;
                (0, list as u32)
            }
            (_, 0) => return error(line.number, "expected a 'list' line first"),
            (_, -1 | -4) => (symbol(line, first, references)?, symbol(line, second, references)?),
            _ => (symbol(line, first, references)?, string(line, second, references)?),
        };
        out.extend(first.to_le_bytes());
        out.extend(second.to_le_bytes());
    }
    Ok(())
}

fn prototype(
    out: &mut Vec<u8>,
    _: &SectionText<'_>,
    line: &Line<'_>,
    references: &References<'_, '_>,
) -> Result<(), Error> {
    let [function, prototype] = *line.words else {
        return error(line.number, "expected: FUNCTION PROTOTYPE");
    };
    out.extend(symbol(line, function, references)?.to_le_bytes());
    out.extend(string(line, prototype, references)?.to_le_bytes());
    Ok(())
}

/// Mercury code; the offsets of the records must be those of their instructions.
fn capsule(section: &SectionText<'_>, references: &References<'_, '_>) -> Result<Vec<u8>, Error> {
    let Some((first, records)) = section.body.split_first() else {
        return error(section.line, "expected: code SECTION");
    };
    let code = match first.words[..] {
        ["code", code] => references.sections.get(code).copied(),
        _ => return error(first.number, "expected: code SECTION"),
    };
    let Some(code) = code else { return error(first.number, "no such section") };
    let mut bits = vec![0u8; records.len().div_ceil(32) * 4];
    let mut bytes = Vec::new();
    for (at, line) in records.iter().enumerate() {
        let Some(("elided", digits)) = line.words.get(1).copied().zip(line.words.get(2..)) else {
            let digits = line.words.get(2..).unwrap_or_default().concat();
            let Some(record) = keys::bytes(&digits) else {
                return error(line.number, "expected: OFFSET KIND [HEX]");
            };
            bytes.extend(record);
            continue;
        };
        if !digits.is_empty() {
            return error(line.number, "an elided record has no bytes");
        }
        if let Some(byte) = bits.get_mut(at / 8) {
            *byte |= 1 << (at % 8);
        }
    }
    let mut out = [code, capmerc::MAGIC, records.len() as u32].map(u32::to_le_bytes).concat();
    out.extend(bits);
    out.extend(bytes);
    let capsule = match Capsule::parse(section.name.as_ref(), &out) {
        Ok(capsule) => capsule,
        Err(malformed) => return error(section.line, malformed.to_string()),
    };
    for (record, line) in capsule.records().zip(records) {
        let (at, kind) = (record.instructions.start * capmerc::INSTRUCTION, record.kind.name());
        let told = line.words.first().and_then(|word| words::number(word));
        if told != Some(at) || line.words.get(1) != Some(&kind) {
            return error(line.number, format!("expected: {at:#06x} {kind}"));
        }
    }
    Ok(out)
}

fn unified(
    out: &mut Vec<u8>,
    _: &SectionText<'_>,
    line: &Line<'_>,
    references: &References<'_, '_>,
) -> Result<(), Error> {
    let Some((name, rest)) = line.words.split_first() else { return Ok(()) };
    let keys = Keys::parse(line.number, rest)?;
    keys.only(&["flags", "offset", "id"])?;
    let id = keys.read("id", "two numbers of 64 bits", |value| {
        let (first, second) = value.split_once(',')?;
        Some(Id(words::number(first)?, words::number(second)?))
    })?;
    let (Some(flags), Some(offset), Some(id)) = (keys.number("flags")?, keys.number("offset")?, id)
    else {
        return error(line.number, "expected: SYMBOL flags=N offset=N id=N,N");
    };
    let symbol = SymbolIndex(symbol(line, name, references)?);
    Entry { symbol, flags, offset, id }.write(out);
    Ok(())
}

fn note(
    out: &mut Vec<u8>,
    _: &SectionText<'_>,
    line: &Line<'_>,
    _: &References<'_, '_>,
) -> Result<(), Error> {
    let Some((kind, rest)) = line.words.split_first() else { return Ok(()) };
    let keys = Keys::parse(line.number, rest)?;
    match *kind {
        "tool" => {
            keys.only(&["name", "release", "build", "options", "object", "size"])?;
            let tool = ToolRecord {
                object: keys.text("object")?,
                tool: keys.text("name")?,
                release: keys.text("release")?,
                build: keys.text("build")?,
                options: keys.text("options")?,
            };
            let size = keys.number::<u16>("size")?.unwrap_or(0);
            note::write_record(out, note::TYPE_TKINFO, &tool.descriptor(), usize::from(size));
        }
        "cuinfo" => {
            keys.only(&["version", "sm", "toolkit"])?;
            let [version, virtual_sm, toolkit] =
                ["version", "sm", "toolkit"].map(|key| keys.number(key));
            let (version, virtual_sm, toolkit) = (version?, virtual_sm?, toolkit?);
            let (Some(version), Some(virtual_sm), Some(toolkit)) = (version, virtual_sm, toolkit)
            else {
                return error(line.number, "expected: cuinfo version=N sm=N toolkit=N");
            };
            CuInfo { version, virtual_sm, toolkit }.write(out);
        }
        _ => return error(line.number, format!("expected tool or cuinfo, found '{kind}'")),
    }
    Ok(())
}
