//! Adds mistakes to a program, so that the link fails or has messages.
//!
//! In: a valid [`GeneratedProgram`]. Out: the same with one mistake of a kind that only a linker
//! can see.

use super::model::{
    ArrayShape, GeneratedFunction, GeneratedItem, GeneratedLinkage, GeneratedProgram,
    GeneratedSpace, GeneratedSymbol, GeneratedSymbolId, GeneratedType, GeneratedVariable, Init,
    ModelSymbolKind, PtxArch, Signature, Stmt, Unit,
};
use super::rng::Rng;

/// Adds one mistake, or none if there is no place for it.
pub(super) fn add(program: &mut GeneratedProgram, rng: &mut Rng) {
    match rng.below(9) {
        0 => drop_definition(program, rng),
        1 => second_definition(program, rng),
        2 => wrong_size(program, rng),
        3 => wrong_space(program, rng),
        4 => wrong_prototype(program, rng),
        5 => foreign_arch(program, rng),
        6 => too_much(program, rng, GeneratedSpace::Const, 40_000),
        7 => too_much(program, rng, GeneratedSpace::Shared, 30_000),
        _ => entry_parameters(program, rng),
    }
}

/// Public definitions as (unit, item).
fn public(
    program: &GeneratedProgram,
    test: impl Fn(&GeneratedItem) -> bool,
) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (unit, content) in program.units.iter().enumerate() {
        for (at, item) in content.items.iter().enumerate() {
            let linkage = match item {
                GeneratedItem::Variable(variable) => variable.linkage,
                GeneratedItem::Function(function) => function.linkage,
                GeneratedItem::Alias { .. } => continue,
            };
            if linkage == GeneratedLinkage::Visible && test(item) {
                found.push((unit, at));
            }
        }
    }
    found
}

fn drop_definition(program: &mut GeneratedProgram, rng: &mut Rng) {
    let victims = public(program, |item| !is_entry(program, item));
    if let Some(&(unit, at)) = rng.choose(&victims) {
        program.units[unit].items.remove(at);
    }
}

fn is_entry(program: &GeneratedProgram, item: &GeneratedItem) -> bool {
    matches!(program.symbol(item.symbol()).kind, ModelSymbolKind::Entry(_))
}

/// A file that does not use `symbol` yet.
fn stranger(program: &GeneratedProgram, rng: &mut Rng, symbol: GeneratedSymbolId) -> Option<usize> {
    let name = &program.symbol(symbol).name;
    let knows = |unit: &Unit| {
        unit.items.iter().any(|item| {
            let mut ids = item.references();
            ids.push(item.symbol());
            ids.iter().any(|&id| program.symbol(id).name == *name)
        })
    };
    let units: Vec<usize> =
        (0..program.units.len()).filter(|&unit| !knows(&program.units[unit])).collect();
    rng.choose(&units).copied()
}

fn second_definition(program: &mut GeneratedProgram, rng: &mut Rng) {
    let Some(&(unit, at)) = rng.choose(&public(program, |_| true)) else { return };
    let mut item = program.units[unit].items[at].clone();
    let Some(other) = stranger(program, rng, item.symbol()) else { return };
    match &mut item {
        GeneratedItem::Variable(variable) => variable.init.clear(),
        GeneratedItem::Function(function) => function.body = vec![Stmt::Arith(3)],
        GeneratedItem::Alias { .. } => {}
    }
    program.units[other].items.push(item);
}

/// Lets a file that does not use the symbol declare it as `kind`, and use it.
fn believe(
    program: &mut GeneratedProgram,
    unit: usize,
    symbol: GeneratedSymbolId,
    kind: ModelSymbolKind,
) {
    let stmt = match &kind {
        ModelSymbolKind::Function(_) => Stmt::Call(symbol),
        _ => Stmt::Access { symbol, offset: 0, store: false, indexed: false },
    };
    let id = GeneratedSymbolId(program.symbols.len() as u32);
    let name = format!("user{}", id.0);
    let signature = Signature {
        params: vec![GeneratedType::B32],
        result: Some(GeneratedType::B32),
        noreturn: false,
    };
    program.symbols.push(GeneratedSymbol {
        name,
        kind: ModelSymbolKind::Function(signature),
        unified: None,
    });
    let user = GeneratedFunction {
        symbol: id,
        linkage: GeneratedLinkage::Visible,
        references: Vec::new(),
        directives: Vec::new(),
        body: vec![stmt],
    };
    let unit = &mut program.units[unit];
    unit.beliefs.push((symbol, kind));
    unit.items.push(GeneratedItem::Function(user));
}

fn wrong_size(program: &mut GeneratedProgram, rng: &mut Rng) {
    let variables = public(program, |item| matches!(item, GeneratedItem::Variable(_)));
    let Some(&(unit, at)) = rng.choose(&variables) else { return };
    let GeneratedItem::Variable(variable) = &program.units[unit].items[at] else { return };
    let (symbol, kind) = (variable.symbol, variable.kind.clone());
    let ModelSymbolKind::Variable(space, shape) = kind else { return };
    let Some(other) = stranger(program, rng, symbol) else { return };
    let shape = ArrayShape { count: shape.count + 1, ..shape };
    believe(program, other, symbol, ModelSymbolKind::Variable(space, shape));
}

fn wrong_space(program: &mut GeneratedProgram, rng: &mut Rng) {
    let Some(&(unit, at)) = rng.choose(&public(program, |_| true)) else { return };
    let symbol = program.units[unit].items[at].symbol();
    let Some(other) = stranger(program, rng, symbol) else { return };
    let shape = match program.symbol(symbol).kind {
        ModelSymbolKind::Variable(_, shape) => shape,
        _ => ArrayShape { width: 4, count: 1, align: 4 },
    };
    let signature = Signature {
        params: vec![GeneratedType::B32],
        result: Some(GeneratedType::B32),
        noreturn: false,
    };
    let kind = match rng.below(4) {
        0 => ModelSymbolKind::Variable(GeneratedSpace::Global, shape),
        1 => ModelSymbolKind::Variable(GeneratedSpace::Const, shape),
        2 => ModelSymbolKind::Variable(GeneratedSpace::Shared, shape),
        _ => ModelSymbolKind::Function(signature),
    };
    believe(program, other, symbol, kind);
}

fn wrong_prototype(program: &mut GeneratedProgram, rng: &mut Rng) {
    let functions = public(program, |item| {
        matches!(program.symbol(item.symbol()).kind, ModelSymbolKind::Function(_))
    });
    let Some(&(unit, at)) = rng.choose(&functions) else { return };
    let symbol = program.units[unit].items[at].symbol();
    let ModelSymbolKind::Function(mut signature) = program.symbol(symbol).kind.clone() else {
        return;
    };
    let Some(other) = stranger(program, rng, symbol) else { return };
    signature.params.push(GeneratedType::B64);
    believe(program, other, symbol, ModelSymbolKind::Function(signature));
}

fn foreign_arch(program: &mut GeneratedProgram, rng: &mut Rng) {
    let arch = rng.pick(&PtxArch::ALL);
    let unit = rng.below(program.units.len());
    program.units[unit].arch = arch;
    program.units[unit].target = arch;
}

/// Large variables whose sum is over a limit.
fn too_much(program: &mut GeneratedProgram, rng: &mut Rng, space: GeneratedSpace, bytes: u32) {
    // In different files: ptxas refuses them in one.
    let first = rng.below(program.units.len());
    for n in 0..2 {
        let id = GeneratedSymbolId(program.symbols.len() as u32);
        let kind =
            ModelSymbolKind::Variable(space, ArrayShape { width: 4, count: bytes / 4, align: 4 });
        program.symbols.push(GeneratedSymbol {
            name: format!("large{}", id.0),
            kind: kind.clone(),
            unified: None,
        });
        let at = (first + n) % program.units.len();
        let init = if space == GeneratedSpace::Const { vec![Init::Value(1)] } else { Vec::new() };
        let variable =
            GeneratedVariable { symbol: id, linkage: GeneratedLinkage::Visible, kind, init };
        let unit = &mut program.units[at];
        unit.items.insert(0, GeneratedItem::Variable(variable));
        for item in &mut unit.items {
            if let GeneratedItem::Function(function) = item {
                function.body.push(Stmt::Access {
                    symbol: id,
                    offset: 0,
                    store: false,
                    indexed: false,
                });
            }
        }
    }
}

/// A weak kernel whose other copy has other parameters.
fn entry_parameters(program: &mut GeneratedProgram, rng: &mut Rng) {
    let name = format!("weak_kernel{}", program.symbols.len());
    let units = program.units.len();
    let first = rng.below(units);
    for (at, params) in [
        (first, vec![GeneratedType::B32]),
        ((first + 1) % units, vec![GeneratedType::B64, GeneratedType::B32]),
    ] {
        let id = GeneratedSymbolId(program.symbols.len() as u32);
        program.symbols.push(GeneratedSymbol {
            name: name.clone(),
            kind: ModelSymbolKind::Entry(params),
            unified: None,
        });
        let function = GeneratedFunction {
            symbol: id,
            linkage: GeneratedLinkage::Weak,
            references: Vec::new(),
            directives: Vec::new(),
            body: Vec::new(),
        };
        program.units[at].items.push(GeneratedItem::Function(function));
    }
}
