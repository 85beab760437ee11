//! Notes about undefined symbols: which code or data refers to them.

use culd_cubin::{RelocEntry, SectionIndex, SymbolIndex, SymbolSection};
use hashbrown::HashMap;

use super::source::SourceLines;
use super::{display_name, similar};
use crate::base::id::SymbolId;
use crate::base::names::Names;
use crate::callgraph::CallGraph;
use crate::diag::note::Note;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::SectionRole;
use crate::symbols::discarded::PatchedSection;
use crate::symbols::{SymbolSite, Symbols};

/// The most references with a note each, per symbol.
const MAX_REFERENCES: usize = 8;

/// The references to one symbol.
#[derive(Default)]
struct ReferenceNotes {
    /// Notes about the first references.
    notes: Vec<Note>,
    total: usize,
}

/// Notes for each symbol in `missing`: its references, and names that may be meant.
pub(crate) fn undefined(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    graph: &CallGraph,
    names: &Names<'_>,
    missing: &[SymbolId],
) -> Vec<Vec<Note>> {
    let wanted: HashMap<SymbolId, usize> = missing.iter().copied().zip(0..).collect();
    let mut found: Vec<ReferenceNotes> =
        missing.iter().map(|_| ReferenceNotes::default()).collect();
    let mut explainer = Explainer { objects, symbols, graph, lines: SourceLines::default() };
    for (id, object) in objects.iter() {
        let mut variables = SymbolsByPlace::new(object);
        for (_, section, target) in object.reloc_sections() {
            // Debug information only repeats the references of code.
            if object.role(target) == SectionRole::Debug {
                continue;
            }
            // ptxas writes records from the last to the first.
            for record in section.relocations().iter().rev() {
                let Some(&at) = symbols.of(id, record.symbol).and_then(|s| wanted.get(&s)) else {
                    continue;
                };
                found[at].total += 1;
                if found[at].notes.len() < MAX_REFERENCES {
                    let patched = PatchedSection { id, object, target };
                    let note = explainer.reference(patched, &record, &mut variables);
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
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    symbol: SymbolId,
    found: ReferenceNotes,
    likely: Vec<Note>,
) -> Vec<Note> {
    let ReferenceNotes { mut notes, total } = found;
    if total == 0 {
        let file = objects.file(symbols.all[symbol].first.object);
        notes.push(Note::Unreferenced { file });
    }
    if total > notes.len() && total > MAX_REFERENCES {
        notes.push(Note::MoreReferences { count: total - notes.len() });
    }
    notes.extend(likely);
    notes
}

/// Finds the places of references.
struct Explainer<'a, 'd> {
    objects: &'a InputObjects<'d>,
    symbols: &'a Symbols,
    graph: &'a CallGraph,
    lines: SourceLines,
}

impl Explainer<'_, '_> {
    /// The place that `record` patches: a function's code, a variable of `variables`, or a section.
    fn reference(
        &mut self,
        PatchedSection { id, object, target }: PatchedSection<'_, '_>,
        record: &RelocEntry,
        variables: &mut SymbolsByPlace<'_, '_>,
    ) -> Note {
        let section = display_name(object.section(target).name);
        let mut source_line = None;
        let (place, offset, dead) = if object.role(target) == SectionRole::Text {
            let function = object.code_function(target);
            let place =
                function.map_or(section, |function| display_name(object.symbol(function).name));
            let symbol = function.and_then(|function| self.symbols.of(id, function));
            source_line = self.lines.at(self.objects, id, target, record.offset);
            let dead = symbol.is_some_and(|symbol| self.graph.node(symbol).is_none());
            (place, record.offset, dead)
        } else {
            match variables.at(target, record.offset) {
                Some((index, start)) => {
                    let site = SymbolSite { object: id, index };
                    source_line = self.lines.of_symbol(self.objects, site);
                    (display_name(object.symbol(index).name), record.offset - start, false)
                }
                None => (section, record.offset, false),
            }
        };
        Note::ReferencedBy { file: object.name.to_owned(), place, offset, source_line, dead }
    }
}

/// The symbols of an object by offset; sorted on first use.
struct SymbolsByPlace<'o, 'd> {
    object: &'o InputObject<'d>,
    /// Sorted; without symbols of size 0.
    sorted: Option<Vec<SymbolRange>>,
}

/// The bytes of a symbol.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SymbolRange {
    section: SectionIndex,
    start: u64,
    end: u64,
    /// The place of the symbol in the table.
    index: usize,
}

impl<'o, 'd> SymbolsByPlace<'o, 'd> {
    fn new(object: &'o InputObject<'d>) -> Self {
        SymbolsByPlace { object, sorted: None }
    }

    /// The variable with the byte at `offset` of a section, and its start.
    fn at(&mut self, section: SectionIndex, offset: u64) -> Option<(SymbolIndex, u64)> {
        let symbols = &self.object.cubin.symbols;
        let sorted = self.sorted.get_or_insert_with(|| {
            let place = |(index, symbol): (usize, &culd_cubin::Symbol<'_>)| {
                let SymbolSection::In(section) = symbol.section else { return None };
                let end = symbol.value.saturating_add(symbol.size);
                let range = SymbolRange { section, start: symbol.value, end, index };
                (symbol.size != 0).then_some(range)
            };
            let mut sorted: Vec<_> = symbols.iter().enumerate().filter_map(place).collect();
            sorted.sort_unstable();
            sorted
        });
        // The last symbol that starts no later; of those with the same start, the first in the
        // table.
        let start_of = |range: &SymbolRange| (range.section, range.start);
        let behind = sorted.partition_point(|range| start_of(range) <= (section, offset));
        let last = sorted.get(behind.checked_sub(1)?)?;
        let first = sorted.partition_point(|range| start_of(range) < start_of(last));
        let holds = |range: &&SymbolRange| range.section == section && offset < range.end;
        let equal = sorted[first..behind].iter().filter(holds);
        let range = equal.min_by_key(|range| range.index)?;
        Some((SymbolIndex(u32::try_from(range.index).ok()?), range.start))
    }
}
