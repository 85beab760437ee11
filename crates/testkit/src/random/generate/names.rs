//! Names that nobody uses but every compiler accepts.
//!
//! In: the kind of a name, and a unique number. Out: a name of a PTX symbol or a file that no other
//! number has.

use super::rng::Rng;

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
