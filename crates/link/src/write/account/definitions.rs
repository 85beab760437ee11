//! The definitions of the inputs: variables of the output, and definitions that are not in it.
//!
//! In: the finished program. Out: lists in the order of the inputs.

use culd_cubin::Symbol;
use culd_cubin::elf::{sto, stt};

use super::columns::NameBytes;
use super::sections::place;
use super::{
    AccountRemoval, AccountSpace, AccountVariable, DroppedCopy, RemovalReason, TextColumn,
};
use crate::base::id::{DenseId, IdVec, ObjectId, SymbolId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SymbolTarget;
use crate::layout::numbers::Numbers;
use crate::objects::roles::is_internal;
use crate::program::LinkedProgram;
use crate::symbols::{Fate, SymbolSite};

/// Calls `visit` for every definition of the inputs that takes part, except functions of the
/// output: most symbols are such functions, or refer to one, and are not read again.
fn each_definition<'d>(
    program: &LinkedProgram<'_, 'd>,
    mut visit: impl FnMut(ObjectId, &Symbol<'d>, SymbolId, Fate),
) {
    for (id, object) in program.objects.iter() {
        for (index, symbol) in object.cubin.symbol_indices() {
            let fate = program.symbols.fate(id, index);
            if fate == Fate::Reference {
                continue;
            }
            let Some(program_symbol) = program.symbols.of(id, index) else { continue };
            if fate != Fate::Chosen || program.graph.node(program_symbol).is_none() {
                visit(id, symbol, program_symbol, fate);
            }
        }
    }
}

/// The variables of the output, and the definitions that are not in it. Lists have the order of the
/// inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountDefinitions {
    /// The variables of the output.
    pub variables: Vec<AccountVariable>,
    /// Their mangled names.
    pub variable_names: TextColumn,
    /// Definitions that nothing needs.
    pub removed: Vec<AccountRemoval>,
    /// Their mangled names.
    pub removed_names: TextColumn,
    /// Definitions that lost to another of that name.
    pub copies: Vec<DroppedCopy>,
    /// Their mangled names.
    pub copy_names: TextColumn,
}

impl AccountDefinitions {
    pub(super) fn of(program: &LinkedProgram<'_, '_>, numbers: &Numbers) -> Self {
        let mut all = AccountDefinitions::default();
        let [mut variables, mut removals, mut copies] = <[NameBytes; 3]>::default();
        let mut seen = IdVec::filled(false, program.symbols.all.len());
        each_definition(program, |object, symbol, id, fate| match fate {
            Fate::Replaced | Fate::Lost => {
                if let Some(copy) = copy(program, object, symbol, id) {
                    all.copies.push(copy);
                    copies.push(symbol.name);
                }
            }
            Fate::Chosen if symbol.is_function() => {
                all.removed.push(removed(object, symbol));
                removals.push(symbol.name);
            }
            Fate::Chosen | Fate::Common | Fate::Copied => {
                let is_variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
                if !is_variable || is_internal(symbol) || seen[id] {
                    return;
                }
                seen[id] = true;
                let object = program.symbols.all[id].definition.map(|_| object.index() as u32);
                if let Some(variable) = variable(program, numbers, symbol, id, object) {
                    all.variables.push(variable);
                    variables.push(symbol.name);
                }
            }
            _ => {}
        });
        AccountDefinitions {
            variable_names: variables.into_texts(),
            removed_names: removals.into_texts(),
            copy_names: copies.into_texts(),
            ..all
        }
    }
}

/// An unused function.
fn removed(object: ObjectId, symbol: &Symbol<'_>) -> AccountRemoval {
    let why = if symbol.is_entry() { RemovalReason::Unused } else { RemovalReason::Unreached };
    AccountRemoval { object: object.index() as u32, function: true, size: symbol.size, why }
}

/// A definition that lost to another of its name.
fn copy(
    program: &LinkedProgram<'_, '_>,
    object: ObjectId,
    symbol: &Symbol<'_>,
    id: SymbolId,
) -> Option<DroppedCopy> {
    symbol.defined_in()?;
    let SymbolSite { object: winner, index } = program.symbols.all[id].definition?;
    Some(DroppedCopy {
        object: object.index() as u32,
        function: symbol.is_function(),
        size: symbol.size,
        winner: winner.index() as u32,
        kept: program.objects[winner].symbol(index).size,
    })
}

/// The variable that `symbol`, the definition that counts, stands for; `None` if the output does
/// not have it.
fn variable(
    program: &LinkedProgram<'_, '_>,
    numbers: &Numbers,
    symbol: &Symbol<'_>,
    id: SymbolId,
    object: Option<u32>,
) -> Option<AccountVariable> {
    let draft = &program.merged.draft;
    let SymbolTarget::Symbol(out) = program.merged.targets[id] else { return None };
    let out = &draft.symbols[out];
    if symbol.is_shared() {
        let (size, space) = (symbol.size, AccountSpace::Shared);
        return Some(AccountVariable { space, object, section: None, offset: 0, size });
    }
    let section = out.section.filter(|_| !out.dropped)?;
    let space = match draft.sections[section].kind {
        SectionKind::Constant(_) => AccountSpace::Constant,
        SectionKind::Global | SectionKind::GlobalInit | SectionKind::UnifiedData
            if symbol.other & sto::MANAGED != 0 =>
        {
            AccountSpace::Managed
        }
        SectionKind::Global | SectionKind::GlobalInit | SectionKind::UnifiedData => {
            AccountSpace::Global
        }
        _ => return None,
    };
    let section = place(numbers, section);
    Some(AccountVariable { space, object, section, offset: out.value, size: out.size })
}
