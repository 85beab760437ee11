//! Parameter banks, which belong to machine code and take no part in a Mercury link.
//!
//! In: the merged draft. Out: `.nv.constant0.<kernel>` for each kernel, in the order of their code. Their
//! names and symbols come behind all others.

use culd_cubin::Section;
use culd_cubin::elf::shf;
use thin_vec::thin_vec;

use crate::capsule::rebuilt::first_names;
use crate::draft::{Draft, Kind, OutSymbol, Part};
use crate::id::{SectionId, SymbolId};
use crate::merge::Merged;
use crate::objects::Objects;
use crate::symbols::Symbols;

/// The parameter bank that comes with the definition of a kernel.
pub(super) fn bank<'a, 'd>(
    objects: &'a Objects<'d>,
    symbols: &Symbols,
    kernel: SymbolId,
) -> Option<&'a Section<'d>> {
    let site = symbols.all[kernel].definition?;
    let object = &objects[site.object];
    let text = object.symbol(site.index).defined_in()?;
    Some(object.section(object.parameter_bank(text)?))
}

/// Creates the parameter banks.
pub(crate) fn add<'d>(objects: &Objects<'d>, symbols: &Symbols, merged: &mut Merged<'d>) {
    for code in merged.draft.category_of(Kind::Text).to_vec() {
        let draft = &mut merged.draft;
        let Some(function) = draft.sections[code].function else { continue };
        if merged.entry_banks.contains_key(&(code, 0)) {
            // It stands with the slots of textures.
            continue;
        }
        let symbol = &draft.symbols[function];
        let kernel = symbol.program.filter(|_| symbol.is_entry());
        let bank = kernel.and_then(|kernel| bank(objects, symbols, kernel));
        let Some(bank) = bank else { continue };
        // Kernels of one name do not share it, but for 13.5 (case local/kernels).
        let kernel = draft.names.get(symbol.name).to_vec();
        let name = match draft.dialect.new_writer {
            true => draft.names.join(&[b".nv.constant0.", &kernel]),
            false => draft.names.separate(&[b".nv.constant0.", &kernel]),
        };
        draft.section_strings.add(name);
        let section =
            draft.push_section(name, Kind::Parameters, shf::ALLOC | shf::INFO_LINK, bank.align());
        let output = &mut draft.sections[section];
        output.owner = Some(code);
        output.parts = thin_vec![Part { offset: 0, bytes: bank.data, twin: &[] }];
        output.size = bank.size;
        add_symbol(draft, section);
        merged.entry_banks.insert((code, 0), section);
    }
}

/// Gives the size of machine code to the first name it has, which is that of an alias if other files saw it first
/// (case alias/other-file).
pub(crate) fn name_code(draft: &mut Draft<'_>) {
    for (section, first) in first_names(draft).iter() {
        let function = draft.sections[section].function;
        if let (Some(function), Some(first)) = (function, *first) {
            draft.symbols[first].size = draft.symbols[function].size;
        }
    }
}

/// The section symbol, which only the table of the machine code has.
fn add_symbol(draft: &mut Draft<'_>, section: SectionId) {
    let name = draft.sections[section].name;
    let symbol = draft.symbols.push(OutSymbol::section(name, section));
    draft.sections[section].symbol = Some(symbol);
    draft.trailing.push(symbol);
}
