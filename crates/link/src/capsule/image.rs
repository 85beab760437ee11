//! The bytes of the Mercury half.
//!
//! In: layout, contents, patches. Out: its sections and its symbol table. Guaranteed: as in
//! [`crate::image`].

use culd_cubin::elf::{sto, stt};
use culd_cubin::encode::{RESERVED_INDEX, SymbolEntry};

use super::sections::Capsules;
use crate::content::Contents;
use crate::draft::{Draft, Kind, OutSymbol};
use crate::id::SectionId;
use crate::layout::Layout;
use crate::objects::Objects;
use crate::relocs::Relocated;
use crate::symbols::Symbols;
use crate::system_names::{is_descriptor_size, is_reserved_shared, is_unified_table};

/// What the second half is written from.
pub(crate) struct Mercury<'a, 'd> {
    pub(crate) objects: &'a Objects<'d>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) relocated: &'a Relocated,
    pub(crate) contents: &'a Contents,
}

impl Mercury<'_, '_> {
    /// Writes the twin of section `id` into its bytes, all of them.
    pub(crate) fn section(
        &self,
        draft: &Draft<'_>,
        layout: &Layout,
        capsules: &Capsules,
        id: SectionId,
        bytes: &mut [u8],
    ) {
        let section = &draft.sections[id];
        let symbol = |symbol| layout.symbol_index(symbol);
        if self.contents.write(id, (self.objects, self.relocated), symbol, bytes) {
            // The linker has made it.
        } else if section.kind == Kind::Constant(0) {
            bytes.fill(0);
        } else if section.kind == Kind::ReservedShared {
            let size = bytes.len() as u64;
            bytes.copy_from_slice(&self.reserved_twin(draft, layout, capsules, size));
        } else {
            section.copy_twins(bytes);
        }
        if matches!(section.kind, Kind::Text | Kind::JumpSlots) {
            // Mercury code names its machine code.
            bytes[..4].copy_from_slice(&layout.index(id).to_le_bytes());
        }
        self.relocated.patch(id, bytes);
    }

    /// A row of the symbol table.
    pub(crate) fn symbol_row(
        &self,
        draft: &Draft<'_>,
        layout: &Layout,
        capsules: &Capsules,
        row: usize,
    ) -> SymbolEntry {
        let Some(id) = layout.symbol(row) else {
            return SymbolEntry { value: draft.null_value(), ..SymbolEntry::default() };
        };
        let symbol = &draft.symbols[id];
        let index = symbol.section.map_or(0, |section| match capsules.index(section) {
            0 => layout.index(section),
            index => index,
        });
        let section = if index as usize > RESERVED_INDEX { 0xffff } else { index as u16 };
        let name = layout.strings.offset(symbol.name);
        let entry = SymbolEntry {
            name,
            info: symbol.info,
            other: symbol.other,
            section,
            value: symbol.value,
            size: symbol.size,
        };
        self.form(draft, symbol, entry)
    }

    /// The symbol as Mercury has it: variables as in the objects, functions with the size of Mercury code.
    fn form(&self, draft: &Draft<'_>, symbol: &OutSymbol, entry: SymbolEntry) -> SymbolEntry {
        let Some(program) = symbol.program else { return entry };
        let name = draft.names.get(symbol.name);
        if is_reserved_shared(name) {
            return SymbolEntry { value: 0, ..entry };
        }
        let system = is_unified_table(name) || is_descriptor_size(name);
        if symbol.section.is_none() && system {
            return entry;
        }
        let info = &self.symbols.all[program];
        let site = info.definition.unwrap_or(info.first);
        let Some(input) = self.objects[site.object].mercury_symbol(site.index) else {
            return entry;
        };
        let (info, other, size) = (input.info, input.other, input.size);
        match info & 15 {
            // The bit of a unified function that its own file calls is that of the first sight (case unified/called).
            stt::FUNC => {
                let other = other & !sto::MANAGED | symbol.other & sto::MANAGED;
                SymbolEntry { info, other, size, ..entry }
            }
            _ if draft.relocatable => SymbolEntry { other, ..entry },
            kind => {
                // An executable has CUDA's own type of variable only, and what --preserve-relocs marks is marked here, too.
                let kind = if kind == stt::OBJECT { stt::CUDA_OBJECT } else { kind };
                let other = other | symbol.other & sto::INTERNAL;
                // Since CUDA 13.4 shared variables of one entry are local (case debug/shared-with-g).
                let binding = if symbol.shared.is_some() { symbol.info } else { info } & 0xf0;
                SymbolEntry { info: binding | kind, other, ..entry }
            }
        }
    }
}
