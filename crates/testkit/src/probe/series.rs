//! Lists the probed records.
//!
//! In: an architecture. Out: batches. Guaranteed: the same batches in the same order everywhere.

use super::batch::{Batch, ProbeSpot};
use super::object::{AddendForm, is_mercury, machine_code};
use super::places::{MERCURY_PLACES, PLACES, ProbePlace};
use super::symbols::{SYMBOLS, SymbolKind};
use culd_reloc::{CUDA, Observed, RelocDesc};

/// Architectures with recorded answers: the first, the last without Mercury sections, and one with
/// them.
pub const RECORDED: [u32; 3] = [75, 90, 100];

/// All of them.
pub const ARCHS: [u32; 4] = [75, 80, 90, 100];

/// Symbols that programs with Mercury sections have, and their twins.
const MERCURY_SYMBOLS: &[&str] = &[
    "function",
    "entry",
    "other-entry",
    "local-function",
    "weak-function",
    "dead-function",
    "undefined-function",
    "undefined-weak-function",
    "global",
    "init",
    "const",
    "pool-shared",
    "dynamic-shared",
    "texture",
    "surface",
    "undefined-global",
    "undefined-const",
    "undefined-weak-global",
    "undefined-weak-const",
    "undefined-weak-object",
    "section-text",
    "section-callee",
    "section-dead",
    "section-global",
    "section-init",
    "section-pool",
    "section-frame",
    "section-info",
    "section-callgraph",
    "section-prototype",
    "uft",
    "uft-offset",
    "udt",
    "null",
    "index-behind",
    "index-last",
];

/// The addend of the matrix: every type has room for it in some field.
const ADDEND: i64 = 0x10;

/// One symbol of each kind, for batches that vary something else.
const FEW: &[&str] = &[
    "function",
    "dead-function",
    "global",
    "const",
    "shared",
    "dynamic-shared",
    "texture",
    "literal",
    "section-frame",
    "undefined-label",
    "uft",
    "null",
];

/// Places of records in real programs.
const USUAL: &[&str] = &["text", "data", "const", "bank", "frame", "sass"];

/// Zero, a negative one, and more and more bits, up to some in every byte and the highest alone.
const ADDENDS: [i64; 7] = [0, -4, 0x3fff, 0x1_2345, 0x1234_5678, 0x1234_5678_9abc_def0, i64::MIN];

/// Every type of the table, the next two numbers, and some far away.
fn all_kinds() -> Vec<u32> {
    (0..=118).chain([0xffff, 0x10002, 0x7fff_ffff]).collect()
}

/// One of each sort of types that end nearly every link: a descriptor of a function, a distance,
/// none, an unknown one.
fn most_kinds() -> Vec<u32> {
    let mut kinds = steady_kinds();
    kinds.extend([31, 40, 116, 117]);
    kinds.sort_unstable();
    kinds
}

/// Types of the table that link with some symbol; the others end every link.
fn steady_kinds() -> Vec<u32> {
    use Observed::{FunctionOnly, Rejected, SameSection};
    let ends = |row: &&RelocDesc| matches!(row.observed, FunctionOnly | Rejected | SameSection);
    CUDA.iter().filter(|row| !ends(row)).map(|row| row.code.0).collect()
}

/// All batches of an architecture: everything for sm_90, less for the others.
pub fn batches(sm: u32) -> Vec<Batch> {
    if is_mercury(sm) {
        return mercury_batches(sm);
    }
    let whole = sm == 90;
    let mut batches = Vec::new();
    let mut add = |place, symbol, form, addend, spot, kinds: &[u32]| {
        batches.push(Batch { sm, place, symbol, form, addend, spot, kinds: kinds.to_vec() });
    };
    let (all, most, kinds) = (all_kinds(), most_kinds(), steady_kinds());
    for symbol in SYMBOLS {
        let usual = |place: &&ProbePlace| whole || USUAL.contains(&place.key);
        for place in PLACES.iter().filter(usual) {
            let kinds = if whole && place.key == "text" { &all } else { &most };
            add(place, symbol, AddendForm::Rela, ADDEND, ProbeSpot::Slot(0), kinds);
        }
    }
    for symbol in few() {
        for place in places(USUAL).filter(|place| whole || place.key == "frame") {
            add(place, symbol, AddendForm::Rel, 0, ProbeSpot::Slot(0), &kinds);
        }
    }
    if !whole {
        return batches;
    }
    for symbol in few() {
        for place in places(&["text", "frame"]) {
            for addend in ADDENDS {
                add(place, symbol, AddendForm::Rela, addend, ProbeSpot::Slot(0), &kinds);
            }
            for at in [1, 4, 7] {
                add(place, symbol, AddendForm::Rela, ADDEND, ProbeSpot::Slot(at), &kinds);
            }
            add(place, symbol, AddendForm::Rela, ADDEND, ProbeSpot::Twice, &kinds);
        }
    }
    // A type without fields, one of 8, 16, 32 and 64 bits, one that is kept, one that clears.
    let kinds = [0, 1, 2, 38, 55, 67, 73, 76];
    for symbol in few() {
        for place in places(&["text", "data", "frame"]) {
            for at in [-16, -8, -7, -4, -1, 0, 1, 0x1000, i64::MIN] {
                add(place, symbol, AddendForm::Rela, ADDEND, ProbeSpot::End(at), &kinds);
            }
        }
    }
    batches
}

/// Records of Mercury sections: every Mercury type and some others; in both halves, the types that
/// both have.
fn mercury_batches(sm: u32) -> Vec<Batch> {
    let kinds: Vec<u32> =
        [0, 2].into_iter().chain(0x10000..=0x10042).chain([0x1ffff, 0x20000]).collect();
    let both: Vec<u32> =
        kinds.iter().copied().filter(|&kind| machine_code(kind).is_some()).collect();
    let mut batches = Vec::new();
    for symbol in SYMBOLS.iter().filter(|symbol| MERCURY_SYMBOLS.contains(&symbol.key)) {
        for place in MERCURY_PLACES {
            let mut kinds = if place.key == "twin" { both.clone() } else { kinds.clone() };
            if place.key == "twin" && ["texture", "surface"].contains(&symbol.key) {
                // Against a reference, this type gives a slot, and its twin an address.
                kinds.retain(|&kind| kind != 0x10003);
            }
            let (form, addend, spot) = (AddendForm::Rela, ADDEND, ProbeSpot::Slot(0));
            batches.push(Batch { sm, place, symbol, form, addend, spot, kinds });
        }
    }
    batches
}

fn places(keys: &'static [&'static str]) -> impl Iterator<Item = &'static ProbePlace> {
    PLACES.iter().filter(|place| keys.contains(&place.key))
}

fn few() -> impl Iterator<Item = &'static SymbolKind> {
    FEW.iter().filter_map(|key| SymbolKind::named(key))
}
