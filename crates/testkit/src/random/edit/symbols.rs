//! Edits of symbols.
//!
//! In: an object and a number. Out: the changed object and a description. The null symbol, section
//! symbols and ptxas's own symbols (parameters, literals) stay: other parts of the object have
//! their places too, so a changed one has no meaning.

use super::object::{EditedObject, EditedSymbol};
use super::pick::pick;
use crate::random::generate::rng::Rng;
use culd_cubin::elf::{stb, sto, stt};

const UNDEFINED: u16 = 0;
const COMMON: u16 = 0xfff2;

/// Changes one of the symbols for which `wanted` holds.
fn change(
    object: &mut EditedObject,
    seed: u64,
    wanted: impl Fn(&EditedSymbol) -> bool,
    edit: impl FnOnce(&mut EditedObject, &mut EditedSymbol, &mut Rng),
) -> Option<String> {
    let symbols = object.symbols.iter().enumerate().skip(1);
    let internal = |symbol: &EditedSymbol| symbol.entry.other & sto::INTERNAL != 0;
    let named = symbols.filter(|(_, symbol)| {
        symbol.entry.info & 15 != stt::SECTION && !internal(symbol) && wanted(symbol)
    });
    let at: usize = pick(seed, named.map(|(at, symbol)| (symbol.name.clone(), at)))?;
    let mut symbol = object.symbols[at].clone();
    edit(object, &mut symbol, &mut Rng::new(seed));
    let before = std::mem::replace(&mut object.symbols[at], symbol);
    let after = &object.symbols[at];
    (*after != before).then(|| format!("symbol {} -> {}", describe(&before), describe(after)))
}

fn describe(symbol: &EditedSymbol) -> String {
    let entry = &symbol.entry;
    format!(
        "{} info {:#x} other {:#x} section {:#x} value {:#x} size {:#x}",
        symbol.name, entry.info, entry.other, entry.section, entry.value, entry.size
    )
}

fn is_variable(symbol: &EditedSymbol) -> bool {
    matches!(symbol.entry.info & 15, stt::OBJECT | stt::CUDA_OBJECT)
}

fn is_defined(symbol: &EditedSymbol) -> bool {
    symbol.entry.section != UNDEFINED
}

/// Makes a global symbol weak, and any other symbol global or weak.
pub(super) fn binding(object: &mut EditedObject, seed: u64) -> Option<String> {
    let wanted = |symbol: &EditedSymbol| {
        symbol.entry.info & 15 == stt::FUNC
            || (is_variable(symbol) && !symbol.name.starts_with("__U"))
    };
    change(object, seed, wanted, |_, symbol, rng| {
        let binding = match symbol.entry.info >> 4 {
            stb::GLOBAL => stb::WEAK,
            _ => rng.pick(&[stb::GLOBAL, stb::WEAK]),
        };
        symbol.entry.info = symbol.entry.info & 15 | binding << 4;
    })
}

/// The two types of data.
pub(super) fn kind(object: &mut EditedObject, seed: u64) -> Option<String> {
    change(object, seed, is_variable, |_, symbol, _| {
        let other = stt::OBJECT ^ stt::CUDA_OBJECT;
        symbol.entry.info ^= other;
    })
}

/// Gives a variable that this file does not define another memory space, or managed memory.
pub(super) fn other(object: &mut EditedObject, seed: u64) -> Option<String> {
    const SPACES: [u8; 4] = [0, sto::SPACE_GLOBAL, sto::SPACE_SHARED, sto::SPACE_CONSTANT];
    change(object, seed, is_variable, |_, symbol, rng| {
        let other = &mut symbol.entry.other;
        if symbol.entry.section == UNDEFINED && rng.chance(50) {
            *other = rng.pick(&SPACES);
        } else if *other & sto::SPACE == sto::SPACE_GLOBAL {
            *other ^= sto::MANAGED;
        }
    })
}

/// Another place in the same section.
pub(super) fn value(object: &mut EditedObject, seed: u64) -> Option<String> {
    let wanted = |symbol: &EditedSymbol| is_variable(symbol) && is_defined(symbol);
    change(object, seed, wanted, |object, symbol, rng| {
        let entry = &mut symbol.entry;
        let section = object.sections.get(usize::from(entry.section));
        let room = section.map_or(0, |section| section.size().saturating_sub(entry.size));
        entry.value = if entry.section == COMMON || entry.other & sto::SPACE == sto::SPACE_SHARED {
            1 << rng.below(8)
        } else {
            (rng.below(room as usize + 1) as u64) & !3
        };
    })
}

/// Changes a size, mostly to a smaller one: a larger one does not fit the section. A size of 0
/// would mean no size.
pub(super) fn size(object: &mut EditedObject, seed: u64) -> Option<String> {
    let wanted = |symbol: &EditedSymbol| is_variable(symbol) && is_defined(symbol);
    change(object, seed, wanted, |_, symbol, rng| {
        let size = &mut symbol.entry.size;
        *size = match rng.below(7) {
            0 => *size + rng.pick(&[1, 4, 16, 0x1_0000]),
            1 => size.saturating_sub(1),
            2 => size.saturating_sub(4),
            _ => *size / 2,
        };
        *size = (*size).max(1);
    })
}

pub(super) fn undefined(object: &mut EditedObject, seed: u64) -> Option<String> {
    // Others could not mean it.
    let public = |symbol: &EditedSymbol| symbol.entry.info >> 4 != stb::LOCAL;
    let wanted =
        |symbol: &EditedSymbol| is_variable(symbol) && is_defined(symbol) && public(symbol);
    change(object, seed, wanted, |_, symbol, rng| {
        symbol.entry.section = UNDEFINED;
        // An array without size that a later file defines: docs/DIFFERENCES.md,
        // shared-unsized-first.
        let shared = symbol.entry.other & sto::SPACE == sto::SPACE_SHARED;
        if rng.chance(70) && !shared {
            (symbol.entry.value, symbol.entry.size) = (0, 0);
        }
    })
}

pub(super) fn common(object: &mut EditedObject, seed: u64) -> Option<String> {
    // A variable cannot be weak and common.
    let global = |symbol: &EditedSymbol| {
        let weak = symbol.entry.info >> 4 == stb::WEAK;
        is_variable(symbol) && !weak && symbol.entry.other & sto::SPACE == sto::SPACE_GLOBAL
    };
    change(object, seed, global, |_, symbol, rng| {
        let entry = &mut symbol.entry;
        (entry.section, entry.value) = (COMMON, 1 << rng.below(7));
        entry.size = if rng.chance(60) { entry.size } else { rng.pick(&[1, 4, 8, 100]) };
        entry.info = entry.info & 15 | stb::GLOBAL << 4;
    })
}

/// An unknown name, or, for a function of another file, the name of a driver function.
pub(super) fn name(object: &mut EditedObject, seed: u64) -> Option<String> {
    const SYSTEM: [&str; 5] =
        ["vprintf", "malloc", "__cuda_syscall_x", "cnpGetDevice", "__assertfail"];
    // Code and its sections have the name of the function.
    let wanted = |symbol: &EditedSymbol| {
        is_variable(symbol) || (symbol.entry.info & 15 == stt::FUNC && !is_defined(symbol))
    };
    change(object, seed, wanted, |object, symbol, rng| {
        let name = match symbol.entry.info & 15 {
            stt::FUNC => rng.pick(&SYSTEM).to_owned(),
            _ => format!("renamed_{}", symbol.name),
        };
        symbol.entry.name = object.symbol_name(&name);
        symbol.name = name;
    })
}

pub(super) fn unified_names(object: &mut EditedObject, _seed: u64) -> Option<String> {
    let unified = |symbol: &EditedSymbol| symbol.name.starts_with("__U");
    let found: Vec<usize> =
        (0..object.symbols.len()).filter(|&at| unified(&object.symbols[at])).collect();
    for &at in &found {
        let name = format!("plain{}", object.symbols[at].name);
        object.symbols[at].entry.name = object.symbol_name(&name);
        object.symbols[at].name = name;
    }
    (!found.is_empty()).then(|| "no names of unified tables".to_owned())
}
