//! Phase `objects`: tables in which later phases look up functions or sections of an object.
//!
//! In: a cubin and its roles. Out: [`Lookups`], and the methods of [`InputObject`] that search it.

use culd_cubin::{Cubin, SectionIndex, SymbolIndex};

use super::object::InputObject;
use super::roles::{SectionRole, is_internal, names_code};

/// Tables about one object.
pub(crate) struct Lookups {
    /// (code, bank) of all parameter banks (`.nv.constant0.<entry>`), sorted by code section.
    parameter_banks: Vec<(SectionIndex, SectionIndex)>,
    /// By section: true for sections that relocations patch.
    patched: Vec<bool>,
    /// By section: the function that a code section is named after; symbol 0 for other sections.
    /// As a sorted list of code sections: +0.7 % instructions on many100, +2.8 % on dead.
    code_functions: Vec<SymbolIndex>,
    /// Sections of unified functions and variables, in section order: ids and jump slots.
    pub(super) unified: Vec<SectionIndex>,
    /// (bank, start, end) of the bytes that internal symbols name, sorted: literals.
    literals: Vec<(SectionIndex, u64, u64)>,
}

impl Lookups {
    pub(super) fn build(cubin: &Cubin<'_>, roles: &[SectionRole]) -> Self {
        let mut patched = vec![false; cubin.sections.len()];
        let mut parameter_banks = Vec::new();
        let mut unified = Vec::new();
        for ((index, section), role) in cubin.section_indices().zip(roles) {
            match role {
                SectionRole::Reloc => {
                    if let Some(target) = section.info_section() {
                        patched[target.0 as usize] |= !section.data.is_empty();
                    }
                }
                SectionRole::Constant(0) | SectionRole::Parameters => {
                    parameter_banks.extend(section.info_section().map(|code| (code, index)));
                }
                SectionRole::JumpSlot | SectionRole::FunctionIds | SectionRole::VariableIds => {
                    unified.push(index)
                }
                _ => {}
            }
        }
        let mut code_functions = vec![SymbolIndex(0); cubin.sections.len()];
        let mut literals = Vec::new();
        for (index, symbol) in cubin.symbol_indices() {
            let Some(place) = symbol.defined_in() else { continue };
            let at = place.0 as usize;
            if symbol.is_function() && names_code(roles[at], &cubin.sections[at], symbol) {
                code_functions[at] = index;
            }
            if is_internal(symbol) {
                literals.push((place, symbol.value, symbol.value.saturating_add(symbol.size)));
            }
        }
        Lookups {
            parameter_banks: sorted(parameter_banks),
            patched,
            code_functions,
            unified,
            literals: sorted(literals),
        }
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}

impl<'d> InputObject<'d> {
    /// The function that code section `text` is named after.
    pub(crate) fn code_function(&self, text: SectionIndex) -> Option<SymbolIndex> {
        let function = self.lookups.code_functions.get(text.0 as usize).copied();
        function.filter(|function| function.0 != 0)
    }

    /// How many code sections are named after a function.
    pub(super) fn code_count(&self) -> usize {
        self.lookups.code_functions.iter().filter(|function| function.0 != 0).count()
    }

    /// The bytes of bank `index` that symbols name, as ranges (start, end); overlapping ranges are
    /// joined.
    pub(crate) fn literals(&self, index: SectionIndex) -> Vec<(u64, u64)> {
        let first = self.lookups.literals.partition_point(|literal| literal.0 < index);
        let own = self.lookups.literals[first..].iter().take_while(|literal| literal.0 == index);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &(_, start, end) in own {
            match ranges.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => ranges.push((start, end)),
            }
        }
        ranges
    }

    /// Offsets of the literals of bank `index`, ascending, bytes.
    pub(crate) fn literal_starts(&self, index: SectionIndex) -> impl Iterator<Item = u64> + '_ {
        let first = self.lookups.literals.partition_point(|literal| literal.0 < index);
        self.lookups.literals[first..]
            .iter()
            .take_while(move |literal| literal.0 == index)
            .map(|l| l.1)
    }

    /// True if some relocation patches section `index`.
    pub(crate) fn is_patched(&self, index: SectionIndex) -> bool {
        self.lookups.patched[index.0 as usize]
    }

    /// The parameter bank of the entry whose code is `text`.
    pub(crate) fn parameter_bank(&self, text: SectionIndex) -> Option<SectionIndex> {
        let at = self.lookups.parameter_banks.binary_search_by_key(&text, |entry| entry.0).ok()?;
        Some(self.lookups.parameter_banks[at].1)
    }
}
