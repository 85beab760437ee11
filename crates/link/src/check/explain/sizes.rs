//! Notes about a memory that is too small: its largest variables, and where they are declared.

use culd_cubin::elf::stt;

use super::display_name;
use crate::base::id::{SectionId, SharedId};
use crate::diag::note::Note;
use crate::draft::Draft;
use crate::draft::section::OutSymbol;

/// The most variables with a note each.
const MAX_VARIABLES: usize = 5;

/// The largest variables of section `section`.
pub(crate) fn constants(
    draft: &Draft<'_>,
    section: SectionId,
    line: impl Fn(&OutSymbol) -> Option<String>,
) -> Vec<Note> {
    let inside = |symbol: &&OutSymbol| {
        symbol.section == Some(section) && symbol.info & 15 == stt::OBJECT && !symbol.dropped
    };
    let inside = draft.symbols.values().filter(inside);
    largest(draft, inside.map(|symbol| (symbol, symbol.size)), line)
}

/// The largest shared variables; `size` gives the size of a variable, or `None` to leave it out.
pub(crate) fn shared(
    draft: &Draft<'_>,
    size: impl Fn(SharedId) -> Option<u64>,
    line: impl Fn(&OutSymbol) -> Option<String>,
) -> Vec<Note> {
    let used = draft.symbols.values().filter_map(|symbol| Some((symbol, size(symbol.shared?)?)));
    largest(draft, used, line)
}

fn largest<'s>(
    draft: &Draft<'_>,
    variables: impl Iterator<Item = (&'s OutSymbol, u64)>,
    line: impl Fn(&OutSymbol) -> Option<String>,
) -> Vec<Note> {
    let mut variables: Vec<_> = variables.filter(|&(_, size)| size != 0).collect();
    variables.sort_by_key(|&(_, size)| std::cmp::Reverse(size));
    let rest = variables.split_off(variables.len().min(MAX_VARIABLES));
    let large = |(symbol, size): (&OutSymbol, u64)| Note::Large {
        name: display_name(draft.names.get(symbol.name)),
        size,
        source_line: line(symbol),
    };
    let mut notes: Vec<Note> = variables.into_iter().map(large).collect();
    if !rest.is_empty() {
        let size = rest.iter().map(|&(_, size)| size).sum();
        notes.push(Note::Smaller { count: rest.len(), size });
    }
    notes
}
