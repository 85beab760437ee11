//! Who refers to what nobody defines.

use culd_cubin::{RelocEntry, SectionIndex, SymbolSection};
use hashbrown::HashMap;

use super::{shown, similar};
use crate::callgraph::CallGraph;
use crate::diag::Note;
use crate::id::{ObjectId, SymbolId};
use crate::names::Names;
use crate::objects::{Object, Objects, Role};
use crate::symbols::Symbols;

/// References that are told one by one.
const SHOWN: usize = 8;

/// The references to one symbol.
#[derive(Default)]
struct References {
    /// The first few.
    notes: Vec<Note>,
    total: usize,
}

/// Notes for each of the symbols in `missing`: who refers to it, and what it may be meant to be.
pub(crate) fn undefined(
    objects: &Objects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    names: &Names<'_>,
    missing: &[SymbolId],
) -> Vec<Vec<Note>> {
    let places: HashMap<SymbolId, usize> = missing.iter().copied().zip(0..).collect();
    let mut found: Vec<References> = missing.iter().map(|_| References::default()).collect();
    for (id, object) in objects.iter() {
        for (_, section, target) in object.reloc_sections() {
            // Debug information speaks of what code uses anyway.
            if object.role(target) == Role::Debug {
                continue;
            }
            // ptxas writes records from the last to the first.
            for record in section.relocations().iter().rev() {
                let Some(&at) = symbols.of(id, record.symbol).and_then(|s| places.get(&s)) else {
                    continue;
                };
                found[at].total += 1;
                if found[at].notes.len() < SHOWN {
                    found[at].notes.push(reference(symbols, graph, (id, object), target, &record));
                }
            }
        }
    }
    let likely = similar::notes(objects, symbols, names, missing);
    let notes = missing.iter().zip(found).zip(likely);
    notes
        .map(|((&symbol, found), likely)| collect(objects, symbols, symbol, found, likely))
        .collect()
}

fn collect(
    objects: &Objects<'_>,
    symbols: &Symbols,
    symbol: SymbolId,
    found: References,
    likely: Vec<Note>,
) -> Vec<Note> {
    let References { mut notes, total } = found;
    if total == 0 {
        let file = objects.file(symbols.all[symbol].first.object);
        notes.push(Note::Unreferenced { file });
    }
    if total > notes.len() && total > SHOWN {
        notes.push(Note::MoreReferences { count: total - notes.len() });
    }
    notes.extend(likely);
    notes
}

/// The place that `record` patches: a function's code, a variable, or a section.
fn reference(
    symbols: &Symbols,
    graph: &CallGraph,
    (id, object): (ObjectId, &Object<'_>),
    target: SectionIndex,
    record: &RelocEntry,
) -> Note {
    let section = shown(object.section(target).name);
    let (place, offset, dead) = if object.role(target) == Role::Text {
        let function = object.code_function(target);
        let place = function.map_or(section, |function| shown(object.symbol(function).name));
        let symbol = function.and_then(|function| symbols.of(id, function));
        let dead = symbol.is_some_and(|symbol| graph.node(symbol).is_none());
        (place, record.offset, dead)
    } else {
        let (place, start) = variable_at(object, target, record.offset).unwrap_or((section, 0));
        (place, record.offset - start, false)
    };
    Note::ReferencedBy { file: object.name.to_owned(), place, offset, dead }
}

/// The variable that the byte at `offset` of a section belongs to, and where it starts.
fn variable_at(object: &Object<'_>, section: SectionIndex, offset: u64) -> Option<(String, u64)> {
    let holds = |symbol: &&culd_cubin::Symbol<'_>| {
        symbol.section == SymbolSection::In(section)
            && offset.checked_sub(symbol.value).is_some_and(|from| from < symbol.size)
    };
    let symbol = object.cubin.symbols.iter().find(holds)?;
    Some((shown(symbol.name), symbol.value))
}
