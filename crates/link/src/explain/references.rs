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
        let mut variables = Variables::new(object);
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
                    let note =
                        reference(symbols, graph, (id, object), &mut variables, (target, &record));
                    found[at].notes.push(note);
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
    variables: &mut Variables<'_, '_>,
    (target, record): (SectionIndex, &RelocEntry),
) -> Note {
    let section = shown(object.section(target).name);
    let (place, offset, dead) = if object.role(target) == Role::Text {
        let function = object.code_function(target);
        let place = function.map_or(section, |function| shown(object.symbol(function).name));
        let symbol = function.and_then(|function| symbols.of(id, function));
        let dead = symbol.is_some_and(|symbol| graph.node(symbol).is_none());
        (place, record.offset, dead)
    } else {
        let (place, start) = variables.at(target, record.offset).unwrap_or((section, 0));
        (place, record.offset - start, false)
    };
    Note::ReferencedBy { file: object.name.to_owned(), place, offset, dead }
}

/// The symbols of an object by their places, once one is asked for.
struct Variables<'o, 'd> {
    object: &'o Object<'d>,
    /// Section, start, end and index, sorted; those that hold no byte are left out.
    sorted: Option<Vec<(SectionIndex, u64, u64, usize)>>,
}

impl<'o, 'd> Variables<'o, 'd> {
    fn new(object: &'o Object<'d>) -> Self {
        Variables { object, sorted: None }
    }

    /// The variable that the byte at `offset` of a section belongs to, and where it starts.
    fn at(&mut self, section: SectionIndex, offset: u64) -> Option<(String, u64)> {
        let symbols = &self.object.cubin.symbols;
        let sorted = self.sorted.get_or_insert_with(|| {
            let place = |(index, symbol): (usize, &culd_cubin::Symbol<'_>)| {
                let SymbolSection::In(section) = symbol.section else { return None };
                let end = symbol.value.saturating_add(symbol.size);
                (symbol.size != 0).then_some((section, symbol.value, end, index))
            };
            let mut sorted: Vec<_> = symbols.iter().enumerate().filter_map(place).collect();
            sorted.sort_unstable();
            sorted
        });
        // The last one that starts no later; of equal ones the first in the table.
        let behind = sorted.partition_point(|&(of, start, ..)| (of, start) <= (section, offset));
        let &(of, start, ..) = sorted.get(behind.checked_sub(1)?)?;
        let first = sorted.partition_point(|&(s, from, ..)| (s, from) < (of, start));
        let holds = |place: &&(SectionIndex, u64, u64, usize)| of == section && offset < place.2;
        let equal = sorted[first..behind].iter().filter(holds);
        let &(.., index) = equal.min_by_key(|place| place.3)?;
        Some((shown(symbols[index].name), start))
    }
}
