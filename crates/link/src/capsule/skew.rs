//! Code of another compiler than the finalizer of the release that is followed was made for.
//!
//! In: the objects and what is left of them. Out: a line for the user for code of an older release, one for code of a
//! later compiler, and one for code without error barriers beside code with them. nvlink's finalizer writes all anew; here code stays as it is (docs/DIFFERENCES.md, kept-code; docs/DIALECTS.md,
//! Mercury of an older release).

use culd_cubin::SectionIndex;
use culd_cubin::arch::Flavour;
use culd_cubin::attr::{Record, code};

use crate::LinkOptions;
use crate::diag::{Diagnostics, Message};
use crate::merge::Merged;
use crate::objects::{Object, Objects};

/// The first release whose finalizer makes code with `ATTRIBUTE_6B`. ptxas V13.0.100 has it too, nvlink 13.0.88 does not.
const SINCE: u16 = 132;

/// Tells the first object with a function in the program that can end a thread and was compiled without error barriers in front
/// of that, if another object was compiled with them: nvlink's finalizer puts them into all functions then, with `-r` too.
pub(crate) fn tell_barriers(
    objects: &Objects<'_>,
    merged: &Merged<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) {
    let with = |object: &Object<'_>| object.records.codes.has(code::GEN_ERRBAR_AT_EXIT);
    let tells = options.target.flavour == Flavour::Mercury && !options.disable_infos;
    if !tells || !objects.iter().any(|(_, object)| with(object)) {
        return;
    }
    let without = |object: &Object<'_>, section| {
        let ends = |record: &Record<'_>| record.code == code::EXIT_INSTR_OFFSETS;
        !with(object) && object.info_records(section).any(|record| ends(&record))
    };
    if let Some((file, others)) = with_function(objects, merged, without) {
        diags.info(Message::NoBarriersAtExit { file, others });
    }
}

/// Tells the first object that has such a function in the program, and how many there are.
pub(crate) fn tell(
    objects: &Objects<'_>,
    merged: &Merged<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) {
    if options.target.flavour != Flavour::Mercury || options.relocatable || options.disable_infos {
        return;
    }
    let dialect = options.dialect;
    let older = |object: &Object<'_>, _| object.cuinfo.toolkit < dialect.finalizer;
    if let Some((file, others)) = with_function(objects, merged, older) {
        diags.info(Message::OlderCompiler { file, others, dialect });
    }
    let later = |object: &Object<'_>, section| {
        if !object.records.codes.has(code::ATTRIBUTE_6B) {
            return false;
        }
        let list = object.twins.of(section).map(|twin| object.info_records(twin));
        list.is_some_and(|mut list| list.any(|record| record.code == code::ATTRIBUTE_6B))
    };
    if dialect.toolkit < SINCE
        && let Some((file, others)) = with_function(objects, merged, later)
    {
        diags.info(Message::LaterCompiler { file, others });
    }
}

/// The first object of which a function that `odd` picks by its attributes is in the program, and how many others there are.
fn with_function(
    objects: &Objects<'_>,
    merged: &Merged<'_>,
    odd: impl Fn(&Object<'_>, SectionIndex) -> bool,
) -> Option<(String, usize)> {
    let sources = merged.function_infos.values().flatten();
    let found = sources.filter(|source| odd(&objects[source.object], source.input));
    let mut found: Vec<_> = found.map(|source| source.object).collect();
    found.sort_unstable();
    found.dedup();
    let (&first, others) = found.split_first()?;
    Some((objects[first].name.to_owned(), others.len()))
}
