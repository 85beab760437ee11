//! Parameter banks: sections of machine code that take no part in the link of the Mercury half.
//!
//! In: the merged draft. Out: `.nv.constant0.<kernel>` for each kernel, in the order of their code.
//! Their names and symbols follow all others.

use culd_cubin::Section;
use culd_cubin::elf::shf;

use crate::base::id::{SectionId, SymbolId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::{BankKey, MergeResult};
use crate::draft::section::{InputChunk, OutSymbol};
use crate::draft::{Draft, first_names};
use crate::objects::InputObjects;
use crate::symbols::Symbols;

/// The parameter bank in the file that defines the kernel.
pub(super) fn bank<'a, 'd>(
    objects: &'a InputObjects<'d>,
    symbols: &Symbols,
    kernel: SymbolId,
) -> Option<&'a Section<'d>> {
    let site = symbols.all[kernel].definition?;
    let object = &objects[site.object];
    let text = object.symbol(site.index).defined_in()?;
    Some(object.section(object.parameter_bank(text)?))
}

/// Creates the parameter banks.
pub(crate) fn add<'d>(objects: &InputObjects<'d>, symbols: &Symbols, merged: &mut MergeResult<'d>) {
    for code in merged.draft.category_of(SectionKind::Text).to_vec() {
        let draft = &mut merged.draft;
        let Some(function) = draft.sections[code].function else { continue };
        if merged.entry_banks.contains_key(&BankKey { code, number: 0 }) {
            // The section of the kernel's texture slots contains the parameters.
            continue;
        }
        let symbol = &draft.symbols[function];
        let kernel = symbol.program.filter(|_| symbol.is_entry());
        let bank = kernel.and_then(|kernel| bank(objects, symbols, kernel));
        let Some(bank) = bank else { continue };
        // Local kernels of one name do not share the name's string, except in CUDA 13.5 (case
        // local/kernels).
        let kernel = draft.names.get(symbol.name).to_vec();
        let name = match draft.dialect.new_writer {
            true => draft.names.join(&[b".nv.constant0.", &kernel]),
            false => draft.names.intern_separate(&[b".nv.constant0.", &kernel]),
        };
        draft.section_strings.add(name);
        let section = draft.push_section(
            name,
            SectionKind::Parameters,
            shf::ALLOC | shf::INFO_LINK,
            bank.align(),
        );
        let output = &mut draft.sections[section];
        output.owner = Some(code);
        output.chunks = vec![InputChunk { offset: 0, bytes: bank.data, mercury: &[] }];
        output.size = bank.size;
        add_symbol(draft, section);
        merged.entry_banks.insert(BankKey { code, number: 0 }, section);
    }
}

/// Gives the size of each code section to the symbol of it that was created first. That is an alias
/// if an earlier file named it (case alias/other-file).
pub(crate) fn name_code(draft: &mut Draft<'_>) {
    for (section, first) in first_names(draft).iter() {
        let function = draft.sections[section].function;
        if let (Some(function), Some(first)) = (function, *first) {
            draft.symbols[first].size = draft.symbols[function].size;
        }
    }
}

/// Adds the section symbol, which only the symbol table of the machine code has.
fn add_symbol(draft: &mut Draft<'_>, section: SectionId) {
    let name = draft.sections[section].name;
    let symbol = draft.symbols.push(OutSymbol::section(name, section));
    draft.sections[section].symbol = Some(symbol);
    draft.mercury.trailing.push(symbol);
}
