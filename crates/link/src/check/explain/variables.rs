//! Lines of variables, from the debug information of an object (`-G`).
//!
//! In: an object. Out: file and line of each variable's declaration, by its mangled name.
//! Guaranteed: damage ends the list; nothing is a guess: of an object with several units, none is
//! known, because the offsets between its sections are relocations.

use culd_cubin::text_of;
use gimli::{
    AttributeValue, DebugAbbrev, DebugInfo, DebugLine, DebugLineOffset, DebuggingInformationEntry,
    EndianSlice, LineProgramHeader, LittleEndian,
};
use hashbrown::HashMap;

use crate::objects::object::InputObject;

/// The most entries that are read of an object.
const MAX_ENTRIES: usize = 1 << 22;

type Bytes<'d> = EndianSlice<'d, LittleEndian>;

/// The lines of the variables of an object, by name.
pub(super) fn lines(object: &InputObject<'_>) -> HashMap<Vec<u8>, String> {
    let mut lines = HashMap::new();
    // Lines in front of damage stay.
    let _ = read(object, &mut lines);
    lines
}

fn read(
    object: &InputObject<'_>,
    lines: &mut HashMap<Vec<u8>, String>,
) -> Result<(), gimli::Error> {
    let section = |name: &[u8]| {
        let found = object.cubin.sections.iter().find(|section| section.name == name);
        found.map_or(&[][..], |section| section.data)
    };
    let info = DebugInfo::new(section(b".debug_info"), LittleEndian);
    let abbreviations = DebugAbbrev::new(section(b".debug_abbrev"), LittleEndian);
    let table = DebugLine::new(section(b".debug_line"), LittleEndian);
    let mut units = info.units();
    let Some(unit) = units.next()? else { return Ok(()) };
    if units.next()?.is_some() {
        return Ok(());
    }
    let program = table.program(DebugLineOffset(0), unit.address_size(), None, None)?;
    let abbreviations = unit.abbreviations(&abbreviations)?;
    let mut entries = unit.entries(&abbreviations);
    for _ in 0..MAX_ENTRIES {
        let Some((_, entry)) = entries.next_dfs()? else { break };
        if entry.tag() == gimli::DW_TAG_variable
            && let Some((name, line)) = variable(entry, program.header())?
        {
            lines.entry(name).or_insert(line);
        }
    }
    Ok(())
}

/// The mangled name of a variable, and its line.
fn variable(
    entry: &DebuggingInformationEntry<'_, '_, Bytes<'_>>,
    table: &LineProgramHeader<Bytes<'_>>,
) -> Result<Option<(Vec<u8>, String)>, gimli::Error> {
    let name = |attribute| match entry.attr_value(attribute) {
        Ok(Some(AttributeValue::String(text))) => Some(text.slice().to_vec()),
        _ => None,
    };
    let mangled = name(gimli::DW_AT_MIPS_linkage_name);
    let mangled = mangled.or_else(|| name(gimli::DW_AT_linkage_name));
    let Some(name) = mangled.or_else(|| name(gimli::DW_AT_name)) else { return Ok(None) };
    let file = match entry.attr_value(gimli::DW_AT_decl_file)? {
        Some(AttributeValue::FileIndex(file)) => table.file(file),
        _ => None,
    };
    let file = match file.map(|file| file.path_name()) {
        Some(AttributeValue::String(text)) => text_of(text.slice()),
        _ => return Ok(None),
    };
    let line = entry.attr(gimli::DW_AT_decl_line)?.and_then(|line| line.udata_value());
    Ok(line.map(|line| (name, format!("{file}:{line}"))))
}
