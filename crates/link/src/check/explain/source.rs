//! Lines of the source, from the line tables of an object (`-lineinfo`, `-G`).
//!
//! In: an object, or any cubin. Out: file and line for places in its code. Guaranteed: the table of
//! an object is read once, and only on request; in a damaged table, no line is known. Addresses in
//! the table are relocations, in linked cubins too: they are filled in with the number of the
//! section in the upper half.

use culd_cubin::elf::sht;
use culd_cubin::{Cubin, Relocations, SectionIndex, Symbol, SymbolIndex, text_of};
use gimli::{AttributeValue, DebugLine, DebugLineOffset, EndianSlice, LittleEndian};
use hashbrown::HashMap;

use super::variables;
use crate::base::id::ObjectId;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::symbols::SymbolSite;

/// The most rows that are read of an object.
const MAX_ROWS: usize = 1 << 22;

/// The lines of objects, by section and offset. The table of an object is read once.
#[derive(Default)]
pub(crate) struct SourceLines {
    tables: HashMap<ObjectId, LineTable>,
    variables: HashMap<ObjectId, HashMap<Vec<u8>, String>>,
}

#[derive(Default)]
struct LineTable {
    files: Vec<String>,
    /// Sorted.
    rows: Vec<LineRow>,
}

/// The line of the code from an address on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LineRow {
    address: u64,
    /// The place of the name in the list of files.
    file: u32,
    /// 0 at the end of a sequence of instructions.
    line: u32,
}

impl SourceLines {
    /// File and line of a definition: of a function the line in which its code begins, of a
    /// variable that of its declaration.
    pub(crate) fn of_symbol(
        &mut self,
        objects: &InputObjects<'_>,
        site: SymbolSite,
    ) -> Option<String> {
        let object = &objects[site.object];
        let symbol = object.symbol(site.index);
        if symbol.is_function() {
            return self.at(objects, site.object, symbol.defined_in()?, symbol.value);
        }
        let read = || variables::lines(object);
        self.variables.entry(site.object).or_insert_with(read).get(symbol.name).cloned()
    }

    /// File and line of the code at `offset` of a section of an object: `saxpy.cu:12`.
    pub(crate) fn at(
        &mut self,
        objects: &InputObjects<'_>,
        object: ObjectId,
        section: SectionIndex,
        offset: u64,
    ) -> Option<String> {
        let read = || LineTable::of(&objects[object]);
        let table = self.tables.entry(object).or_insert_with(read);
        table.at(section, offset)
    }
}

/// The lines of a cubin, linked or not: of its machine code.
pub struct CubinLines(LineTable);

impl CubinLines {
    /// Reads the line table, if there is one.
    pub fn of(cubin: &Cubin<'_>) -> Self {
        let mut found = cubin.section_indices();
        let Some((table, section)) = found.find(|(_, section)| section.name == NAME) else {
            return CubinLines(LineTable::default());
        };
        let mut bytes = section.data.to_vec();
        for records in &cubin.sections {
            let is_plain = matches!(records.sh_type, sht::REL | sht::RELA);
            if is_plain && records.info == table.0 {
                fill_in(&mut bytes, records.relocations(), |symbol| cubin.symbol(symbol));
            }
        }
        CubinLines(LineTable::from(&bytes))
    }

    /// File and line in which the code of a function begins: `saxpy.cu:12`.
    pub fn of_function(&self, function: &Symbol<'_>) -> Option<String> {
        self.0.at(function.defined_in()?, function.value)
    }
}

/// The section of the line table.
const NAME: &[u8] = b".debug_line";

/// Bits of an address below the number of the section.
const SECTION: u32 = 32;

fn address(section: SectionIndex, offset: u64) -> Option<u64> {
    (offset >> SECTION == 0).then_some(u64::from(section.0) << SECTION | offset)
}

impl LineTable {
    fn of(object: &InputObject<'_>) -> Self {
        with_addresses(object).map(|bytes| LineTable::from(&bytes)).unwrap_or_default()
    }

    fn from(bytes: &[u8]) -> Self {
        let mut table = LineTable::default();
        // Lines in front of damage stay.
        let _ = table.read(bytes);
        table.rows.sort_unstable();
        table
    }

    /// File and line of the code at `offset` of a section.
    fn at(&self, section: SectionIndex, offset: u64) -> Option<String> {
        let address = address(section, offset)?;
        let behind = self.rows.partition_point(|row| row.address <= address);
        let &LineRow { address: start, file, line } = self.rows.get(behind.checked_sub(1)?)?;
        let known = line != 0 && start >> SECTION == address >> SECTION;
        let file = self.files.get(file as usize).filter(|_| known)?;
        Some(format!("{file}:{line}"))
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), gimli::Error> {
        let lines = DebugLine::new(bytes, LittleEndian);
        let mut at = 0;
        while at < bytes.len() {
            let program = lines.program(DebugLineOffset(at), 8, None, None)?;
            let header = program.header().clone();
            let first = self.files.len() as u32;
            let name = |value: AttributeValue<EndianSlice<'_, LittleEndian>>| match value {
                AttributeValue::String(text) => text_of(text.slice()),
                _ => String::new(),
            };
            let names = header.file_names().iter();
            self.files.extend(names.map(|file| name(file.path_name())));
            // Files count from 1 before DWARF 5.
            let base = u64::from(header.version() < 5);
            let mut rows = program.rows();
            while let Some((_, row)) = rows.next_row()? {
                if self.rows.len() == MAX_ROWS {
                    return Ok(());
                }
                let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
                let line = line.filter(|_| !row.end_sequence()).unwrap_or(0);
                let file = u32::try_from(row.file_index().saturating_sub(base)).unwrap_or(u32::MAX);
                let file = first.saturating_add(file);
                self.rows.push(LineRow { address: row.address(), file, line });
            }
            let length = bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            let length = length.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
            at = at.saturating_add(length).saturating_add(4);
        }
        Ok(())
    }
}

/// The line table with an address for each relocation of it: of Mercury code, where there is any.
fn with_addresses(object: &InputObject<'_>) -> Option<Vec<u8>> {
    let (table, section) =
        object.cubin.section_indices().find(|(_, section)| section.name == NAME)?;
    // The relocations that are left in an object with Mercury code are those of that half.
    let mut bytes = match object.counterpart_data(table) {
        [] => section.data.to_vec(),
        mercury => mercury.to_vec(),
    };
    for (_, records, _) in object.reloc_sections().filter(|(.., target)| *target == table) {
        fill_in(&mut bytes, records.relocations(), |symbol| Some(object.symbol(symbol)));
    }
    Some(bytes)
}

/// Fills in the addresses that the records of a line table are for.
fn fill_in<'s, 'd: 's>(
    bytes: &mut [u8],
    records: Relocations<'_>,
    symbol: impl Fn(SymbolIndex) -> Option<&'s Symbol<'d>>,
) {
    for record in records.iter() {
        // The others are offsets in tables of debug information, and shorter.
        let is_address = culd_reloc::lookup(record.kind).is_some_and(|of| of.span_bytes() == 8);
        if !is_address {
            continue;
        }
        let Some(symbol) = symbol(record.symbol) else { continue };
        let place = usize::try_from(record.offset).ok();
        let field = place.and_then(|at| bytes.get_mut(at..)?.first_chunk_mut::<8>());
        let (Some(code), Some(field)) = (symbol.defined_in(), field) else { continue };
        let offset = symbol.value.wrapping_add_signed(record.addend);
        let offset = offset.wrapping_add(u64::from_le_bytes(*field));
        *field = address(code, offset).unwrap_or(u64::MAX).to_le_bytes();
    }
}
