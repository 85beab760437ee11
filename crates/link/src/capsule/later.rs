//! Code of a later compiler than the finalizer of the release that is followed.
//!
//! In: the objects and what is left of them. Out: one line for the user. nvlink's finalizer writes such code anew, with less
//! in it; here it stays as it is (docs/DIFFERENCES.md, kept-code).

use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;

use crate::LinkOptions;
use crate::diag::{Diagnostics, Message};
use crate::merge::Merged;
use crate::objects::Objects;

/// The first release whose finalizer makes code with `ATTRIBUTE_6B`. ptxas V13.0.100 has it too, nvlink 13.0.88 does not.
const SINCE: u16 = 132;

/// Tells the first object that has such a function in the program, and how many there are.
pub(crate) fn tell(
    objects: &Objects<'_>,
    merged: &Merged<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) {
    let mercury = options.target.flavour == Flavour::Mercury;
    let follows = options.dialect.toolkit >= SINCE;
    if !mercury || follows || options.relocatable || options.disable_infos {
        return;
    }
    let mut later: Vec<_> = merged
        .function_infos
        .values()
        .flatten()
        .filter(|source| {
            let object = &objects[source.object];
            let list = object.twins.of(source.input).map(|twin| object.info_records(twin));
            list.is_some_and(|mut list| list.any(|record| record.code == code::ATTRIBUTE_6B))
        })
        .map(|source| source.object)
        .collect();
    later.sort_unstable();
    later.dedup();
    let Some((&first, others)) = later.split_first() else { return };
    let file = objects[first].name.to_owned();
    diags.info(Message::LaterCompiler { file, others: others.len() });
}
