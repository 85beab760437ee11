//! The definitions of the inputs: variables of the output, and definitions that are not in it.
//!
//! In: the finished program. Out: lists in the order of the inputs.

use culd_cubin::elf::{sto, stt};
use culd_cubin::{Symbol, text_of};

use super::sections::Places;
use super::{AccountRemoval, AccountSpace, AccountVariable, DroppedCopy, RemovalReason};
use crate::base::id::{DenseId, IdVec, ObjectId, SymbolId};
use crate::draft::kind::SectionKind;
use crate::draft::merged::SymbolTarget;
use crate::objects::roles::is_internal;
use crate::program::LinkedProgram;
use crate::symbols::{Fate, SymbolSite};

/// Calls `visit` for every definition of the inputs that takes part.
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
            if let Some(program_symbol) = program.symbols.of(id, index) {
                visit(id, symbol, program_symbol, fate);
            }
        }
    }
}

/// The definitions of the inputs, in lists.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) variables: Vec<AccountVariable>,
    pub(super) removed: Vec<AccountRemoval>,
    pub(super) copies: Vec<DroppedCopy>,
}

impl Definitions {
    pub(super) fn of(program: &LinkedProgram<'_, '_>, sections: &Places) -> Self {
        let mut all = Definitions::default();
        let mut seen = IdVec::filled(false, program.symbols.all.len());
        each_definition(program, |object, symbol, id, fate| match fate {
            Fate::Replaced | Fate::Lost => all.copies.extend(copy(program, object, symbol, id)),
            Fate::Chosen if symbol.is_function() => {
                let alive = program.graph.node(id).is_some();
                all.removed.extend((!alive).then(|| removed(object, symbol)));
            }
            Fate::Chosen | Fate::Common | Fate::Copied => {
                let is_variable = matches!(symbol.kind(), stt::OBJECT | stt::CUDA_OBJECT);
                if !is_variable || is_internal(symbol) || seen[id] {
                    return;
                }
                seen[id] = true;
                let object = program.symbols.all[id].definition.map(|_| object.index());
                all.variables.extend(variable(program, sections, symbol, id, object));
            }
            _ => {}
        });
        all
    }
}

/// An unused function.
fn removed(object: ObjectId, symbol: &Symbol<'_>) -> AccountRemoval {
    let why = if symbol.is_entry() { RemovalReason::Unused } else { RemovalReason::Unreached };
    AccountRemoval {
        name: text_of(symbol.name),
        object: object.index(),
        function: true,
        size: symbol.size,
        why,
    }
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
        name: text_of(symbol.name),
        object: object.index(),
        function: symbol.is_function(),
        size: symbol.size,
        winner: winner.index(),
        kept: program.objects[winner].symbol(index).size,
    })
}

/// The variable that `symbol`, the definition that counts, stands for; `None` if the output does
/// not have it.
fn variable(
    program: &LinkedProgram<'_, '_>,
    sections: &Places,
    symbol: &Symbol<'_>,
    id: SymbolId,
    object: Option<usize>,
) -> Option<AccountVariable> {
    let draft = &program.merged.draft;
    let SymbolTarget::Symbol(out) = program.merged.targets[id] else { return None };
    let out = &draft.symbols[out];
    let name = || text_of(symbol.name);
    if symbol.is_shared() {
        let (size, space) = (symbol.size, AccountSpace::Shared);
        return Some(AccountVariable {
            name: name(),
            space,
            object,
            section: None,
            offset: 0,
            size,
        });
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
    let section = sections[section];
    Some(AccountVariable {
        name: name(),
        space,
        object,
        section,
        offset: out.value,
        size: out.size,
    })
}
