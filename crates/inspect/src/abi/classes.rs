//! Address classes in debug information.
//!
//! In: `.debug_info`, `.debug_abbrev` and `.debug_str` of a cubin. Out: a line for each entry with
//! a `DW_AT_address_class`. Guaranteed: damage ends the list with a line that says so. In an object
//! that is not linked yet, names in `.debug_str` are those that stand there before relocation.

use culd_abi::dwarf::AddressClass;
use gimli::{
    AttributeValue, DebugAbbrev, DebugInfo, DebugStr, DebuggingInformationEntry, EndianSlice,
    LittleEndian, Reader as _, UnitHeader,
};

use crate::view::View;

type SectionBytes<'d> = EndianSlice<'d, LittleEndian>;

/// The sections that are needed.
struct NeededSections<'d> {
    info: DebugInfo<SectionBytes<'d>>,
    abbreviations: DebugAbbrev<SectionBytes<'d>>,
    strings: DebugStr<SectionBytes<'d>>,
}

pub(super) fn lines(view: &View<'_>) -> Vec<String> {
    let section = |name: &[u8]| {
        let found = view.cubin.sections.iter().find(|section| section.name == name);
        found.map_or(&[][..], |section| section.data)
    };
    let sections = NeededSections {
        info: DebugInfo::new(section(b".debug_info"), LittleEndian),
        abbreviations: DebugAbbrev::new(section(b".debug_abbrev"), LittleEndian),
        strings: DebugStr::new(section(b".debug_str"), LittleEndian),
    };
    let mut lines = Vec::new();
    if let Err(error) = sections.units(&mut lines) {
        lines.push(format!("(the debug information is damaged: {error})"));
    }
    lines
}

impl<'d> NeededSections<'d> {
    fn units(&self, lines: &mut Vec<String>) -> Result<(), gimli::Error> {
        let mut units = self.info.units();
        while let Some(unit) = units.next()? {
            let abbreviations = unit.abbreviations(&self.abbreviations)?;
            let mut entries = unit.entries(&abbreviations);
            while let Some((_, entry)) = entries.next_dfs()? {
                lines.extend(self.entry(&unit, entry)?);
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        unit: &UnitHeader<SectionBytes<'d>>,
        entry: &DebuggingInformationEntry<'_, '_, SectionBytes<'d>>,
    ) -> Result<Option<String>, gimli::Error> {
        let Some(class) = entry.attr(gimli::DW_AT_address_class)? else { return Ok(None) };
        let Some(value) = class.udata_value() else { return Ok(None) };
        let name = self.name(entry)?.unwrap_or_default();
        let offset = entry.offset().to_debug_info_offset(unit).map_or(0, |offset| offset.0);
        let what = match AddressClass::of_value(value) {
            Some(class) => format!("{class}, {}", class.description()),
            None => "no class of CUDA".to_owned(),
        };
        let blank = if name.is_empty() { "" } else { " " };
        Ok(Some(format!("{offset:#010x} {}{blank}{name}: {value} {what}", entry.tag())))
    }

    fn name(
        &self,
        entry: &DebuggingInformationEntry<'_, '_, SectionBytes<'d>>,
    ) -> Result<Option<String>, gimli::Error> {
        let text = match entry.attr_value(gimli::DW_AT_name)? {
            Some(AttributeValue::String(text)) => text,
            Some(AttributeValue::DebugStrRef(offset)) => self.strings.get_str(offset)?,
            _ => return Ok(None),
        };
        Ok(Some(crate::name::quote(&text.to_slice()?)))
    }
}
