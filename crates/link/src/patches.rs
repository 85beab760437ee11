//! Code that tools put into other programs (`-astoolspatch`).
//!
//! In: the functions of a program. Out: nothing, or the message that ends the link. ptxas marks what it compiles as a
//! patch with an attribute; nvlink keeps all of it, as dead as it is, and refuses what has no such mark
//! (docs/DIALECTS.md, patches of tools).

use culd_cubin::SectionIndex;
use culd_cubin::attr::code;
use hashbrown::{HashMap, HashSet};

use crate::LinkOptions;
use crate::diag::Message;
use crate::id::ObjectId;
use crate::names::Names;
use crate::objects::{Object, Objects};
use crate::symbols::Symbols;

/// Refuses the first function of the program that is no patch, in a link of patches.
pub(crate) fn check(
    objects: &Objects<'_>,
    symbols: &Symbols,
    names: &Names<'_>,
    options: &LinkOptions,
) -> Result<(), Message> {
    if !options.tools_patch {
        return Ok(());
    }
    let mut marked: HashMap<ObjectId, HashSet<SectionIndex>> = HashMap::new();
    for info in symbols.all.values() {
        let Some(site) = info.definition else { continue };
        let object = &objects[site.object];
        let symbol = object.symbol(site.index);
        let Some(text) = symbol.defined_in().filter(|_| symbol.is_function()) else { continue };
        let marked = marked.entry(site.object).or_insert_with(|| patches(object));
        if marked.contains(&text) {
            continue;
        }
        let first = info.first_definition.unwrap_or(site.object);
        let (symbol, file) = (names.text(info.name), objects.file(first));
        let option = options.dialect.tools_patch;
        return Err(Message::NoToolsPatch { symbol, file, option });
    }
    Ok(())
}

/// The code of an object that is marked.
fn patches(object: &Object<'_>) -> HashSet<SectionIndex> {
    if !object.records.codes.has(code::TOOLS_PATCH_FUNC) {
        return HashSet::new();
    }
    let lists = object.function_infos();
    let is_marked = |&list: &SectionIndex| {
        object.info_records(list).any(|record| record.code == code::TOOLS_PATCH_FUNC)
    };
    lists.filter(is_marked).filter_map(|list| object.section(list).info_section()).collect()
}
