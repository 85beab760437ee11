//! Notes about two files that disagree: where each defines the name.

use culd_cubin::elf::stb;
use culd_cubin::{Section, Symbol, SymbolSection, text_of};
use hashbrown::HashMap;

use super::source::SourceLines;
use crate::base::id::ObjectId;
use crate::diag::note::Note;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::symbols::SymbolSite;

/// A note about the symbol at `site`: where it is defined, or that it is declared.
pub(crate) fn definition(
    objects: &InputObjects<'_>,
    site: SymbolSite,
    lines: &mut SourceLines,
) -> Note {
    let object = &objects[site.object];
    let symbol = object.symbol(site.index);
    let (file, size) = (object.name.to_owned(), symbol.size);
    let source_line = lines.of_symbol(objects, site);
    let defined = |standing, section| {
        let (file, source_line) = (file.clone(), source_line.clone());
        Note::Defined { standing, file, section, size, source_line }
    };
    match symbol.section {
        SymbolSection::In(section) => {
            let weak = symbol.binding() == stb::WEAK;
            let section = text_of(object.section(section).name);
            defined(if weak { "defined weak" } else { "defined" }, section)
        }
        SymbolSection::Common => defined("defined tentatively", "COMMON".to_owned()),
        SymbolSection::Undefined | SymbolSection::Absolute => Note::Declared { file, size },
    }
}

/// A note on why there are two definitions: the same object twice, or the same bytes in two
/// objects.
pub(crate) fn same_bytes(
    objects: &InputObjects<'_>,
    site: SymbolSite,
    first: SymbolSite,
    known: &mut SameObjects,
) -> Option<Note> {
    let (a, b) = (&objects[site.object], &objects[first.object]);
    let pair = (site.object, first.object);
    if *known.pairs.entry(pair).or_insert_with(|| same_object(a, b)) {
        return Some(Note::SameObject { file: a.name.to_owned(), first: b.name.to_owned() });
    }
    let same = content(a, a.symbol(site.index))? == content(b, b.symbol(first.index))?;
    same.then_some(Note::SameBytes)
}

/// Results of comparing two objects, so that each pair is compared once for all names.
#[derive(Default)]
pub(crate) struct SameObjects {
    pairs: HashMap<(ObjectId, ObjectId), bool>,
}

/// True if all sections are equal, symbol and string tables included.
fn same_object(a: &InputObject<'_>, b: &InputObject<'_>) -> bool {
    let (a, b) = (&a.cubin.sections, &b.cubin.sections);
    let same = |(a, b): (&Section<'_>, &Section<'_>)| {
        a.name == b.name && a.size == b.size && a.data == b.data
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// The bytes of a definition, if it has any.
fn content<'d>(object: &InputObject<'d>, symbol: &Symbol<'d>) -> Option<&'d [u8]> {
    let data = object.section(symbol.defined_in()?).data;
    let start = usize::try_from(symbol.value).ok()?;
    let end = start.checked_add(usize::try_from(symbol.size).ok()?)?;
    data.get(start..end).filter(|bytes| !bytes.is_empty())
}
