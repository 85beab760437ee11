//! Tool patches (`-astoolspatch`): code that tools put into other programs.
//!
//! In: the functions of a program. Out: nothing, or the message that ends the link. ptxas marks a
//! function that it compiles as a patch with an attribute. nvlink keeps all marked functions, even
//! dead ones, and refuses every other function (docs/DIALECTS.md, patches of tools).

use culd_cubin::SectionIndex;
use culd_cubin::attr::code;
use hashbrown::{HashMap, HashSet};

use crate::base::id::ObjectId;
use crate::base::names::Names;
use crate::diag::Message;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::options::LinkOptions;
use crate::symbols::Symbols;

/// In a link of tool patches: refuses the first function that is not marked.
pub(crate) fn check(
    objects: &InputObjects<'_>,
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

/// The marked code sections of an object.
fn patches(object: &InputObject<'_>) -> HashSet<SectionIndex> {
    if !object.records.codes.has(code::TOOLS_PATCH_FUNC) {
        return HashSet::new();
    }
    let lists = object.function_infos();
    let is_marked = |&list: &SectionIndex| {
        object.info_records(list).any(|record| record.code == code::TOOLS_PATCH_FUNC)
    };
    lists.filter(is_marked).filter_map(|list| object.section(list).info_section()).collect()
}
