//! The code of every function, with the targets of its resolved relocations.

use super::memory::ProgramMemory;
use super::objects::{FunctionCode, Objects};
use super::{Items, patches};
use anyhow::{Context, Result};
use culd_cubin::elf::{sht, stb};
use culd_cubin::{RelocEntry, SectionIndex, Symbol};
use culd_inspect::view::{self, View};
use culd_reloc::{RelocDesc, RelocType, RelocValue};
use std::collections::{BTreeSet, HashSet};

/// Adds every function with code of its own. Returns the kernels whose shared memory ends in front
/// of their arrays without size.
pub(super) fn functions(
    view: &View<'_>,
    objects: &Objects<'_>,
    items: &mut Items,
) -> Result<BTreeSet<String>> {
    let mut memory = ProgramMemory::new(view, objects);
    let mut used = HashSet::new();
    for ((index, symbol), name) in view.cubin.symbol_indices().zip(&view.symbols) {
        let Some(text) = symbol.defined_in().filter(|_| symbol.is_function()) else { continue };
        let section = view.cubin.section(text).context("the section of a symbol")?;
        if section.name.strip_prefix(b".text.") != Some(symbol.name) {
            continue;
        }
        let function = ProgramCode { view, objects, symbol, text, code: section.data };
        let origin = function.origin(&mut used);
        let origin = origin.with_context(|| format!("the code of '{name}' is of no object"))?;
        let mut lines = vec![view::hex(&masked(section.data, &objects.records(origin)))];
        lines.extend(function.kept());
        let mut resolved = function.resolved(origin, index.0, &mut memory)?;
        resolved.sort();
        lines.extend(resolved);
        items.insert(format!("code {name}"), lines);
    }
    memory.check()
}

struct ProgramCode<'a, 'd> {
    view: &'a View<'d>,
    objects: &'a Objects<'a>,
    symbol: &'a Symbol<'d>,
    text: SectionIndex,
    code: &'d [u8],
}

impl ProgramCode<'_, '_> {
    /// The function of an object with this code; each local function is used once.
    fn origin(&self, used: &mut HashSet<(usize, SectionIndex)>) -> Option<FunctionCode> {
        let local = self.symbol.binding() == stb::LOCAL;
        let mut candidates = self.objects.functions(self.symbol.name, local).into_iter();
        let same = |function: &FunctionCode| {
            let section = self.objects.object(function.object).section(function.text);
            let records = self.objects.records(*function);
            section.is_some_and(|s| masked(s.data, &records) == masked(self.code, &records))
        };
        candidates.find(|function| {
            let place = (function.object, function.text);
            !(local && used.contains(&place)) && same(function) && (used.insert(place) || !local)
        })
    }

    /// The records that are kept for the driver.
    fn kept(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for section in patches(&self.view.cubin, self.text) {
            for record in section.relocations().iter() {
                let (kind, addend) = (view::reloc_name(record.kind), view::signed(record.addend));
                let symbol = self.view.reloc_symbol(section, &record);
                lines.push(format!("{:#06x} {kind} {symbol} {addend}", record.offset));
            }
        }
        lines.sort();
        lines
    }

    fn resolved(
        &self,
        origin: FunctionCode,
        node: u32,
        memory: &mut ProgramMemory<'_>,
    ) -> Result<Vec<String>> {
        let kept: HashSet<(u64, u32)> = patches(&self.view.cubin, self.text)
            .flat_map(|section| {
                section.relocations().iter().map(|r| (r.offset, r.kind)).collect::<Vec<_>>()
            })
            .collect();
        let object = self.objects.object(origin.object);
        let mut lines = Vec::new();
        for section in patches(object, origin.text) {
            let addend_in_place = section.sh_type == sht::REL;
            for record in section.relocations().iter() {
                let row = RelocType(record.kind).desc().context("a relocation of no type")?;
                let plain = row.unified.map_or(record.kind, |plain| plain.0);
                let symbol = object.symbol(record.symbol).context("a relocation of no symbol")?;
                if kept.contains(&(record.offset, plain)) || symbol.is_function() {
                    continue;
                }
                let before = object.section(origin.text).map_or(&[][..], |section| section.data);
                let before = if addend_in_place { before } else { &[] };
                let Some(value) = self.address(row, &record, before) else { continue };
                let name = String::from_utf8_lossy(symbol.name).into_owned();
                let found = memory.resolve(node, (origin.object, record.symbol), value);
                let found = found.with_context(|| {
                    format!(
                        "'{}' at {:#x}",
                        String::from_utf8_lossy(self.symbol.name),
                        record.offset
                    )
                })?;
                lines.push(format!("{:#06x} {} {name}: {found}", record.offset, row.name));
            }
        }
        Ok(lines)
    }

    /// The address of the symbol that was written to a place; `None` for places with its upper bits
    /// only.
    fn address(&self, row: &RelocDesc, record: &RelocEntry, before: &[u8]) -> Option<RelocValue> {
        let offset = record.offset as usize;
        let all = vec![0xff; offset + row.span_bytes()];
        let field = row.extract(&all, offset).ok()?;
        if field.address & 4 == 0 {
            return None;
        }
        let value = row.extract(self.code, offset).ok()?;
        let addend = row.extract(before, offset).map_or(record.addend as u64, |old| old.address);
        let address = value.address.wrapping_sub(addend) & field.address;
        // All ones stand for -1.
        let address = if address == field.address { u64::MAX } else { address };
        Some(RelocValue { address, ..value })
    }
}

/// Code without the bits of relocations.
fn masked(code: &[u8], records: &[RelocEntry]) -> Vec<u8> {
    let mut code = code.to_vec();
    for record in records {
        if let Some(row) = culd_reloc::cuda(record.kind).filter(|row| row.is_applicable()) {
            // A field that does not fit is no place of this code.
            let _ = row.apply(&mut code, record.offset as usize, RelocValue::default());
        }
    }
    code
}
