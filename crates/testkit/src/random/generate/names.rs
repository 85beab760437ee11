//! Names that nobody uses but every compiler accepts.
//!
//! In: the kind of a name, and a unique number. Out: a name of a PTX symbol or a file that no other
//! number has.

use super::model::{GeneratedItem, GeneratedProgram, GeneratedSymbolId, ModelSymbolKind, Stmt};
use super::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The name of symbol `id`.
pub(super) fn odd(stem: &str, id: u32, rng: &mut Rng) -> String {
    match rng.below(12) {
        // Long names with the same start, the same end, or neither.
        0 => format!("{}_{id}", "a_name_".repeat(rng.range(20, 140))),
        1 => format!("_{id}{}", "_behind".repeat(rng.range(20, 140))),
        2 => format!("{stem}{id}_{}", "xyz$".repeat(rng.range(1, 1000))),
        // Each name is the start and the end of the next.
        3 => "n".repeat(id as usize + 1),
        4 => format!("${}", "$".repeat(id as usize + 1)),
        // Names that look like names of sections, of the compiler, or of C++.
        5 => format!("nv_shared_{stem}_{id}"),
        6 => format!("_param{id}"),
        7 => format!("$ADDRESS$of${id}"),
        8 => format!("__internal_{stem}_INTERNAL_{id}_a_cu__Z{stem}"),
        9 => format!("_Z{}{stem}{id}", rng.below(40)),
        10 => format!("_ZN{}{stem}{id}IiLj{id}EEEvPT_", stem.len() + 1),
        _ => format!("{stem}${id}$const_opt$0"),
    }
}

/// A name for the file that is usually called `name`, without extension; `any` allows letters that
/// PTX does not.
pub(super) fn file(name: String, any: bool, rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => format!("{name} with spaces"),
        1 if any => format!("größer-{name}-文件"),
        2 => format!("{name}.{}", "of_many_words_".repeat(rng.range(1, 14))),
        3 => format!("{name}'s (1) & 2"),
        4 => format!("_-{name}"),
        _ => name,
    }
}

/// Gives some functions of one program in ten names of functions of the driver. ptxas refuses the
/// address of such a function; aliases of them are not linked alike (docs/DIFFERENCES.md).
pub(super) fn of_driver(program: &mut GeneratedProgram, rng: &mut Rng) {
    const NAMES: [&str; 4] = ["cudaGraphLaunch", "vfprintf", "__profile", "cnpGetDevice"];
    if !rng.chance(10) {
        return;
    }
    let kept: BTreeSet<GeneratedSymbolId> =
        program.units.iter().flat_map(|unit| &unit.items).flat_map(pinned).collect();
    let named = |id: GeneratedSymbolId| program.symbol(id).name.clone();
    let kept: BTreeSet<String> = kept.into_iter().map(named).collect();
    let mut given = BTreeMap::new();
    for symbol in &mut program.symbols {
        if !matches!(symbol.kind, ModelSymbolKind::Function(_)) || kept.contains(&symbol.name) {
            continue;
        }
        // Functions of several files may share a name.
        let count = given.len();
        let name = given.entry(symbol.name.clone()).or_insert_with(|| {
            let name = NAMES.get(count).map(|name| (*name).to_owned());
            let other = || format!("__cuda_syscall_of_program_{count}");
            rng.chance(30).then(|| name.unwrap_or_else(other))
        });
        if let Some(name) = name {
            symbol.name.clone_from(name);
        }
    }
}

/// The symbols whose address an item takes, and both names of an alias.
fn pinned(item: &GeneratedItem) -> Vec<GeneratedSymbolId> {
    match item {
        GeneratedItem::Variable(_) => item.references(),
        GeneratedItem::Alias { symbol, target, .. } => vec![*symbol, *target],
        GeneratedItem::Function(function) => {
            let mut found = Vec::new();
            let mut waiting: Vec<&Stmt> = function.body.iter().collect();
            while let Some(stmt) = waiting.pop() {
                match stmt {
                    Stmt::Call(_) => {}
                    Stmt::Loop(body) | Stmt::If(body) => waiting.extend(body),
                    other => other.references(&mut found),
                }
            }
            found
        }
    }
}
