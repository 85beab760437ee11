//! The bytes of the Mercury half.
//!
//! In: layout, contents, patches. Out: its sections and its symbol table. Guaranteed: as in
//! [`crate::write`].

use culd_cubin::elf::{sto, stt};
use culd_cubin::encode::{RESERVED_INDEX, SymbolEntry};

use crate::base::id::SectionId;
use crate::base::system_names::{is_descriptor_size, is_reserved_shared, is_unified_table};
use crate::draft::Draft;
use crate::draft::kind::SectionKind;
use crate::draft::section::OutSymbol;
use crate::layout::contents::SyntheticContents;
use crate::layout::mercury_sections::MercurySections;
use crate::layout::place::FileLayout;
use crate::objects::InputObjects;
use crate::options::form::FileForm;
use crate::relocs::relocated::ResolvedRelocs;
use crate::symbols::Symbols;

/// The sources of the Mercury half.
pub(crate) struct MercuryWriter<'a, 'd> {
    pub(crate) objects: &'a InputObjects<'d>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) relocated: &'a ResolvedRelocs,
    pub(crate) contents: &'a SyntheticContents,
}

impl MercuryWriter<'_, '_> {
    /// Writes the counterpart of section `id` to `bytes`, every byte of it.
    pub(crate) fn section(
        &self,
        draft: &Draft<'_>,
        layout: &FileLayout,
        mercury_sections: &MercurySections,
        id: SectionId,
        bytes: &mut [u8],
    ) {
        let section = &draft.sections[id];
        let symbol = |symbol| layout.numbers.symbol_index(symbol);
        if self.contents.write(id, self.objects, self.relocated, symbol, bytes) {
            // A synthetic section.
        } else if section.kind == SectionKind::Constant(0) {
            bytes.fill(0);
        } else if section.kind == SectionKind::ReservedShared {
            let size = bytes.len() as u64;
            bytes.copy_from_slice(&self.reserved_bytes(draft, layout, mercury_sections, size));
        } else {
            section.copy_mercury(bytes);
        }
        if matches!(section.kind, SectionKind::Text | SectionKind::JumpSlots) {
            // Mercury code begins with the index of its machine code section.
            bytes[..4].copy_from_slice(&layout.numbers.index(id).to_le_bytes());
        }
        self.relocated.patch(id, bytes);
    }

    /// A row of the symbol table.
    pub(crate) fn symbol_row(
        &self,
        draft: &Draft<'_>,
        layout: &FileLayout,
        mercury_sections: &MercurySections,
        row: usize,
    ) -> SymbolEntry {
        let Some(id) = layout.numbers.symbol(row) else {
            return SymbolEntry { value: draft.null_value(), ..SymbolEntry::default() };
        };
        let symbol = &draft.symbols[id];
        let index = symbol.section.map_or(0, |section| match mercury_sections.index(section) {
            0 => layout.numbers.index(section),
            index => index,
        });
        let section = if index as usize > RESERVED_INDEX { 0xffff } else { index as u16 };
        let name = layout.numbers.string(symbol.name);
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

    /// The symbol in the Mercury half: variables as in the objects, functions with the size of
    /// Mercury code.
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
        let object = &self.objects[site.object];
        let Some(input) = object.mercury_symbol(site.index) else {
            return entry;
        };
        let (info, other, size) = (input.info, input.other, input.size);
        match info & 15 {
            // The bit MANAGED, which a unified function has if its own file calls it, is that of
            // its first appearance (case unified/called).
            stt::FUNC => {
                // CUDA 12 writes the binding of machine code's half: one that is only kept by -g is
                // local (case generated/dead-kept-by-g by 12.9).
                let info = match draft.form {
                    FileForm::Version => symbol.info & 0xf0 | info & 15,
                    FileForm::Header | FileForm::Notes => info,
                };
                let other = other & !sto::MANAGED | symbol.other & sto::MANAGED;
                let inner = object.outer_function(site.index).is_some();
                let value = if inner { input.value } else { entry.value };
                SymbolEntry { info, other, value, size, ..entry }
            }
            _ if draft.relocatable => SymbolEntry { other, ..entry },
            kind => {
                // In executables all variables have CUDA's own type. The mark of
                // `--preserve-relocs` is set here too.
                let kind = if kind == stt::OBJECT { stt::CUDA_OBJECT } else { kind };
                let other = other | symbol.other & sto::INTERNAL;
                // Since CUDA 13.4 shared variables of one entry are local (case
                // debug/shared-with-g).
                let binding = if symbol.shared.is_some() { symbol.info } else { info } & 0xf0;
                SymbolEntry { info: binding | kind, other, ..entry }
            }
        }
    }
}
