//! Gives functions and variables of a program unified ids.
//!
//! In: a complete [`GeneratedProgram`]. Out: the same with ids, and mostly with an index file for
//! the link. Guaranteed: a program for an architecture without unified functions stays as it is; no
//! two symbols share an id.

use super::mix::Mix;
use super::model::{
    GeneratedItem, GeneratedLinkage, GeneratedProgram, GeneratedSpace, GeneratedSymbolId,
    GeneratedVariable, Index, Init, ModelSymbolKind,
};
use super::rng::Rng;
use crate::fixtures::uidx::TableOrder;
use std::collections::BTreeSet;

/// Adds ids to some global functions and variables.
pub(super) fn add(program: &mut GeneratedProgram, mix: &Mix, rng: &mut Rng) {
    if mix.unified_pc == 0 || program.link_arch.number() < 90 {
        return;
    }
    let candidates = candidates(program);
    for (number, id) in candidates.into_iter().enumerate() {
        if rng.chance(mix.unified_pc) {
            let first = rng.pick(&[0, 1, 2, 0x1234_5678_9abc_def0]);
            program.symbols[id.0 as usize].unified = Some((first, number as u64));
        }
    }
    for unit in &mut program.units {
        (unit.target, unit.ptx_version) = (unit.arch, unit.arch.ptx_version());
    }
    program.index = rng.chance(80).then(|| Index {
        version: rng.below(4) as u32,
        order: rng.pick(&[TableOrder::Forward, TableOrder::Reversed]),
        missing: rng.chance(8).then(|| rng.below(4)),
    });
}

/// Functions and variables in global memory with one definition and no alias. Variables have no
/// addresses in them, because nvlink does not move those (docs/DIFFERENCES.md,
/// unified-relocations). Their sizes leave no gaps, because nvlink writes arbitrary bytes there
/// (unified-gaps).
fn candidates(program: &GeneratedProgram) -> BTreeSet<GeneratedSymbolId> {
    let items = || program.units.iter().flat_map(|unit| &unit.items);
    let defined = items().filter_map(|item| match item {
        GeneratedItem::Function(function) if function.linkage == GeneratedLinkage::Visible => {
            Some(function.symbol)
        }
        GeneratedItem::Variable(variable) => fits_table(variable).then_some(variable.symbol),
        _ => None,
    });
    let once = defined.filter(|id| items().filter(|item| item.symbol() == *id).count() == 1);
    let fits = once.filter(|&id| {
        matches!(
            program.symbol(id).kind,
            ModelSymbolKind::Function(_) | ModelSymbolKind::Variable(GeneratedSpace::Global, _)
        )
    });
    let aliased = |id: &GeneratedSymbolId| {
        items().any(|item| matches!(item, GeneratedItem::Alias { target, .. } if target == id))
    };
    fits.filter(|id| !aliased(id)).collect()
}

fn fits_table(variable: &GeneratedVariable) -> bool {
    let ModelSymbolKind::Variable(GeneratedSpace::Global, shape) = variable.kind else {
        return false;
    };
    variable.linkage == GeneratedLinkage::Visible
        && variable.init.iter().all(|init| matches!(init, Init::Value(_)))
        && shape.align <= 8
        && shape.bytes().is_multiple_of(8)
}
