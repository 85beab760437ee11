//! Where a name is defined, for messages about two files that disagree.

use culd_cubin::elf::stb;
use culd_cubin::{Section, Symbol, SymbolSection};
use hashbrown::HashMap;

use crate::diag::Note;
use crate::id::ObjectId;
use crate::objects::{Object, Objects};
use crate::symbols::Site;

/// What the symbol at `site` says: where it is defined, or that it is declared.
pub(crate) fn definition(objects: &Objects<'_>, site: Site) -> Note {
    let object = &objects[site.object];
    let symbol = object.symbol(site.index);
    let (file, size) = (object.name.to_owned(), symbol.size);
    let defined = |standing, section| Note::Defined { standing, file: file.clone(), section, size };
    match symbol.section {
        SymbolSection::In(section) => {
            let weak = symbol.binding() == stb::WEAK;
            let section = String::from_utf8_lossy(object.section(section).name).into_owned();
            defined(if weak { "defined weak" } else { "defined" }, section)
        }
        SymbolSection::Common => defined("defined tentatively", "COMMON".to_owned()),
        SymbolSection::Undefined | SymbolSection::Absolute => Note::Declared { file, size },
    }
}

/// Why there may be two definitions: the same object twice, or the same code or data in two.
pub(crate) fn same_bytes(
    objects: &Objects<'_>,
    site: Site,
    first: Site,
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

/// Which objects were found to be the same, so that two of them are compared once for all their names.
#[derive(Default)]
pub(crate) struct SameObjects {
    pairs: HashMap<(ObjectId, ObjectId), bool>,
}

/// True when all sections agree, symbol and string tables among them.
fn same_object(a: &Object<'_>, b: &Object<'_>) -> bool {
    let (a, b) = (&a.cubin.sections, &b.cubin.sections);
    let same = |(a, b): (&Section<'_>, &Section<'_>)| {
        a.name == b.name && a.size == b.size && a.data == b.data
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// The bytes of a definition that has some.
fn content<'d>(object: &Object<'d>, symbol: &Symbol<'d>) -> Option<&'d [u8]> {
    let data = object.section(symbol.defined_in()?).data;
    let start = usize::try_from(symbol.value).ok()?;
    let end = start.checked_add(usize::try_from(symbol.size).ok()?)?;
    data.get(start..end).filter(|bytes| !bytes.is_empty())
}
