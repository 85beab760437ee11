//! Names as nobody gives them and every compiler takes them.
//!
//! In: what a name is for, and a number of its own. Out: a name that no other number gets, of a
//! symbol of PTX or of a file.

use super::rng::Rng;

/// The name of symbol `id`.
pub(super) fn odd(stem: &str, id: u32, rng: &mut Rng) -> String {
    match rng.below(12) {
        // Long ones, alike in front, behind or nowhere.
        0 => format!("{}_{id}", "a_name_".repeat(rng.range(20, 140))),
        1 => format!("_{id}{}", "_behind".repeat(rng.range(20, 140))),
        2 => format!("{stem}{id}_{}", "xyz$".repeat(rng.range(1, 1000))),
        // Each the beginning of the next, which is the end of it too.
        3 => "n".repeat(id as usize + 1),
        4 => format!("${}", "$".repeat(id as usize + 1)),
        // What looks like something else: names of sections, of the compiler, of C++ that are none.
        5 => format!("nv_shared_{stem}_{id}"),
        6 => format!("_param{id}"),
        7 => format!("$ADDRESS$of${id}"),
        8 => format!("__internal_{stem}_INTERNAL_{id}_a_cu__Z{stem}"),
        9 => format!("_Z{}{stem}{id}", rng.below(40)),
        10 => format!("_ZN{}{stem}{id}IiLj{id}EEEvPT_", stem.len() + 1),
        _ => format!("{stem}${id}$const_opt$0"),
    }
}

/// The name of a file, without its extension, that is called `name` otherwise; with `any` of any
/// letters, of which PTX knows few.
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
