//! Shrinks a program while a property holds.
//!
//! In: a program and a test, usually "the linkers still disagree in the same way". Out: a smaller
//! program for which the test holds. Guaranteed: the result passes the test, and after any further
//! step of the list below it would not.

use crate::random::generate::model::{
    DebugLevel, GeneratedFunction, GeneratedItem, GeneratedLinkage, GeneratedProgram,
    GeneratedSymbolId, GeneratedType, Index, Init, ModelSymbolKind, Signature, Stmt, Unit,
};
use std::collections::BTreeSet;

/// A step: the n-th simplification of its kind, or `None` if there are fewer.
type Simplification = fn(&GeneratedProgram, usize) -> Option<GeneratedProgram>;

/// Coarse steps first: they make the later ones cheap.
const STEPS: &[Simplification] = &[
    drop_round,
    drop_edit,
    drop_unit,
    drop_link_option,
    simplify_index,
    drop_symbol,
    drop_part,
    drop_item,
    drop_statement,
    unwrap_statement,
    simplify_unit,
    simplify_statement,
    simplify_item,
    simplify_symbol,
];

/// Shrinks `program` as long as `test` accepts the result. `test` is not called for `program`
/// itself.
///
/// # Errors
/// The first error of `test`.
pub fn reduce<E>(
    program: &GeneratedProgram,
    mut test: impl FnMut(&GeneratedProgram) -> Result<bool, E>,
) -> Result<GeneratedProgram, E> {
    let mut best = program.clone();
    loop {
        let before = best.clone();
        for step in STEPS {
            let mut n = 0;
            while let Some(candidate) = step(&best, n) {
                // A step that changes nothing would be accepted forever.
                if candidate != best && test(&candidate)? {
                    best = candidate;
                } else {
                    n += 1;
                }
            }
        }
        if best == before {
            return Ok(best);
        }
    }
}

fn drop_round(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    (n < program.rounds.len() && program.rounds.len() > 1).then(|| program.rounds.remove(n))?;
    Some(program)
}

fn drop_edit(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    let mut left = n;
    for round in &mut program.rounds {
        if left < round.len() {
            round.remove(left);
            return Some(program);
        }
        left -= round.len();
    }
    None
}

fn drop_unit(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    if n >= program.units.len() || program.units.len() == 1 {
        return None;
    }
    let mut program = program.clone();
    let dropped = program.units.remove(n);
    for round in &mut program.rounds {
        round.retain(|edit| edit.unit != dropped.name);
    }
    // References to definitions of that unit alone go too: an undefined reference would be another
    // difference.
    let left: BTreeSet<GeneratedSymbolId> =
        program.units.iter().flat_map(|unit| &unit.items).map(GeneratedItem::symbol).collect();
    for id in dropped.items.iter().map(GeneratedItem::symbol).filter(|id| !left.contains(id)) {
        forget(&mut program, id);
    }
    Some(program)
}

fn drop_link_option(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    (n < program.link_options.len()).then(|| program.link_options.remove(n))?;
    Some(program)
}

/// No index file, no unified symbols at all, or a plainer file.
fn simplify_index(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    let symbols = program.symbols.len();
    match n {
        0 => program.index = None,
        1 => program.symbols.iter_mut().for_each(|symbol| symbol.unified = None),
        2 => program.index = program.index.map(|index| Index { missing: None, ..index }),
        3 => program.index = program.index.map(|index| Index { version: 1, ..index }),
        n if n < 4 + symbols => program.symbols[n - 4].unified = None,
        _ => return None,
    }
    Some(program)
}

/// Removes a symbol with all its definitions and uses.
fn drop_symbol(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let used: BTreeSet<GeneratedSymbolId> = program
        .units
        .iter()
        .flat_map(|unit| &unit.items)
        .flat_map(|item| item.references().into_iter().chain([item.symbol()]))
        .collect();
    let id = *used.iter().nth(n)?;
    let mut program = program.clone();
    for unit in &mut program.units {
        unit.items.retain(|item| item.symbol() != id);
    }
    forget(&mut program, id);
    Some(program)
}

/// Removes all uses of a symbol.
fn forget(program: &mut GeneratedProgram, id: GeneratedSymbolId) {
    for unit in &mut program.units {
        unit.beliefs.retain(|(symbol, _)| *symbol != id);
        unit.items
            .retain(|item| !matches!(item, GeneratedItem::Alias { target, .. } if *target == id));
        for item in &mut unit.items {
            match item {
                GeneratedItem::Variable(variable) => variable.init.iter_mut().for_each(|init| {
                    if matches!(init, Init::Address { symbol, .. } if *symbol == id) {
                        *init = Init::Value(0);
                    }
                }),
                GeneratedItem::Function(function) => forget_in(&mut function.body, id),
                GeneratedItem::Alias { .. } => {}
            }
        }
    }
}

fn forget_in(body: &mut Vec<Stmt>, id: GeneratedSymbolId) {
    body.retain_mut(|stmt| {
        if let Stmt::Loop(inner) | Stmt::If(inner) = stmt {
            forget_in(inner, id);
            return true;
        }
        let mut named = Vec::new();
        stmt.references(&mut named);
        !named.contains(&id)
    });
}

/// Removes one definition and keeps the uses, which may have other definitions.
fn drop_item(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    let place = nth_item(&program, n)?;
    program.units[place.unit].items.remove(place.item);
    Some(program)
}

/// The place of an item: the numbers of its unit, and of the item there.
struct ItemPlace {
    unit: usize,
    item: usize,
}

/// The place of the n-th item of all units.
fn nth_item(program: &GeneratedProgram, n: usize) -> Option<ItemPlace> {
    let items = |(unit, content): (usize, &Unit)| {
        (0..content.items.len()).map(move |item| ItemPlace { unit, item })
    };
    program.units.iter().enumerate().flat_map(items).nth(n)
}

/// Removes one part of a file of CUDA C++.
fn drop_part(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    let mut left = n;
    for cuda in program.units.iter_mut().filter_map(|unit| unit.cuda.as_mut()) {
        if left < cuda.parts.len() {
            cuda.parts.remove(left);
            return Some(program);
        }
        left -= cuda.parts.len();
    }
    None
}

/// Replaces the n-th statement by the result of `edit`; statements count through all bodies, outer
/// before inner.
fn edit_statement(
    program: &GeneratedProgram,
    n: usize,
    edit: impl Fn(&Stmt) -> Vec<Stmt>,
) -> Option<GeneratedProgram> {
    let mut program = program.clone();
    let mut left = n;
    for unit in &mut program.units {
        for item in &mut unit.items {
            if let GeneratedItem::Function(function) = item
                && edit_in(&mut function.body, &mut left, &edit)
            {
                return Some(program);
            }
        }
    }
    None
}

fn edit_in(body: &mut Vec<Stmt>, left: &mut usize, edit: &impl Fn(&Stmt) -> Vec<Stmt>) -> bool {
    for i in 0..body.len() {
        if *left == 0 {
            let replacement = edit(&body[i]);
            body.splice(i..=i, replacement);
            return true;
        }
        *left -= 1;
        if let Stmt::Loop(inner) | Stmt::If(inner) = &mut body[i]
            && edit_in(inner, left, edit)
        {
            return true;
        }
    }
    false
}

fn drop_statement(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    edit_statement(program, n, |_| Vec::new())
}

fn unwrap_statement(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    edit_statement(program, n, |stmt| match stmt {
        Stmt::Loop(body) | Stmt::If(body) => body.clone(),
        other => vec![other.clone()],
    })
}

fn simplify_statement(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    edit_statement(program, n, |stmt| {
        vec![match stmt.clone() {
            Stmt::Arith(_) => Stmt::Arith(1),
            Stmt::Pressure(n) => Stmt::Pressure((n / 2).max(1)),
            Stmt::Address { symbol, .. } => Stmt::Address { symbol, addend: 0, generic: false },
            Stmt::Access { symbol, .. } => {
                Stmt::Access { symbol, offset: 0, store: false, indexed: false }
            }
            Stmt::FunctionShared { mut shape, used } => {
                shape.count = (shape.count / 2).max(1);
                Stmt::FunctionShared { shape, used }
            }
            Stmt::Frame(_) => Stmt::Frame(16),
            Stmt::Doubles(n) => Stmt::Doubles((n / 2).max(1)),
            Stmt::Switch(n) => Stmt::Switch((n / 2).max(5)),
            Stmt::Barrier(n) => Stmt::Barrier(n / 2),
            Stmt::CallTable { table, signature, .. } => {
                Stmt::CallTable { table, index: 0, signature }
            }
            other => other,
        }]
    })
}

fn simplify_unit(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    const KINDS: usize = 6;
    let mut changed = program.clone();
    let link_arch = program.link_arch;
    let unit: &mut Unit = changed.units.get_mut(n / KINDS)?;
    match n % KINDS {
        0 => unit.options.clear(),
        1 => unit.debug = DebugLevel::Off,
        2 => unit.target = unit.arch,
        3 => (unit.arch, unit.target) = (link_arch, link_arch),
        4 => unit.ptx_version = unit.target.ptx_version(),
        _ => {
            unit.beliefs.pop();
        }
    }
    Some(changed)
}

fn simplify_item(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    const KINDS: usize = 4;
    let mut changed = program.clone();
    let place = nth_item(program, n / KINDS)?;
    match (&mut changed.units[place.unit].items[place.item], n % KINDS) {
        (GeneratedItem::Variable(variable), 0) => variable.init.clear(),
        (GeneratedItem::Variable(variable), 1) => {
            variable.init.pop();
        }
        (GeneratedItem::Variable(variable), 2) if variable.linkage == GeneratedLinkage::Weak => {
            variable.linkage = GeneratedLinkage::Visible;
        }
        (GeneratedItem::Variable(variable), 3) => {
            for init in &mut variable.init {
                if let Init::Address { addend, generic, .. } = init {
                    (*addend, *generic) = (0, false);
                }
            }
        }
        (GeneratedItem::Function(GeneratedFunction { directives, .. }), 0) => directives.clear(),
        (GeneratedItem::Function(function), 2) if function.linkage == GeneratedLinkage::Weak => {
            function.linkage = GeneratedLinkage::Visible;
        }
        (GeneratedItem::Alias { weak, .. }, 0) => *weak = false,
        _ => {}
    }
    Some(changed)
}

/// Makes all signatures plain and all variables small at once.
fn simplify_symbol(program: &GeneratedProgram, n: usize) -> Option<GeneratedProgram> {
    const KINDS: usize = 2;
    let mut changed = program.clone();
    let id = GeneratedSymbolId((n / KINDS) as u32);
    let symbol = changed.symbols.get_mut(id.0 as usize)?;
    let plain = Signature {
        params: vec![GeneratedType::B32],
        result: Some(GeneratedType::B32),
        noreturn: false,
    };
    match (&mut symbol.kind, n % KINDS) {
        (ModelSymbolKind::Function(signature), 0) => *signature = plain,
        (ModelSymbolKind::Entry(params), 0) => params.clear(),
        (ModelSymbolKind::Variable(_, shape), 0) => shape.count = (shape.count / 2).max(1),
        (ModelSymbolKind::Variable(_, shape), _) => shape.align = shape.width,
        _ => {}
    }
    let kind = symbol.kind.clone();
    for item in changed.units.iter_mut().flat_map(|unit| &mut unit.items) {
        if let GeneratedItem::Variable(variable) = item
            && variable.symbol == id
            && variable.kind == program.symbol(id).kind
        {
            variable.kind = kind.clone();
        }
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::generate::{GeneratorChoices, family, generate};
    use std::convert::Infallible;

    /// Programs of the mixed family, each reduced to one kind of statement.
    #[test]
    fn keeps_only_what_the_test_needs() {
        for seed in 0..40 {
            let program = generate(
                seed,
                GeneratorChoices { family: family("mixed"), ..GeneratorChoices::default() },
            );
            let test = |program: &GeneratedProgram| {
                let mut bodies = program.units.iter().flat_map(|unit| &unit.items).filter_map(
                    |item| match item {
                        GeneratedItem::Function(function) => Some(&function.body),
                        _ => None,
                    },
                );
                bodies.any(|body| {
                    body.iter().any(|stmt| stmt.any(&|stmt| matches!(stmt, Stmt::Barrier(_))))
                })
            };
            if !test(&program) {
                continue;
            }
            let Ok(small) = reduce(&program, |program| Ok::<_, Infallible>(test(program)));
            assert!(test(&small));
            // One unit, one function, one statement.
            assert_eq!(small.size(), 3, "seed {seed}: {small:?}");
        }
    }

    #[test]
    fn leaves_a_program_alone_when_nothing_smaller_passes() {
        let program = generate(5, GeneratorChoices::default());
        let Ok(same) = reduce(&program, |_| Ok::<_, Infallible>(false));
        assert_eq!(same, program);
    }
}
