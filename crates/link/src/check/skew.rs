//! Code from another release than the one that the link follows.
//!
//! In: the objects, and the functions in the program. Out: an information about code of an older
//! release, one about code of a later compiler, and one about code without error barriers in a
//! program with such barriers. nvlink's finalizer rewrites all of these; culd copies the code
//! (docs/DIFFERENCES.md, kept-code; docs/DIALECTS.md, Mercury of an older release).

use culd_cubin::SectionIndex;
use culd_cubin::arch::Flavour;
use culd_cubin::attr::{Record, code};

use crate::diag::{Diagnostics, Message};
use crate::draft::merged::MergeResult;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::options::LinkOptions;

/// The first release whose finalizer writes `ATTRIBUTE_6B`. ptxas V13.0.100 writes it too, nvlink
/// 13.0.88 does not.
const SINCE: u16 = 132;

/// Reports objects that have a function in the program that can end a thread, and that were
/// compiled without error barriers in front of that, if another object was compiled with them. The
/// message names the first of them and the number of others. nvlink's finalizer adds them to all
/// functions then, with `-r` too.
pub(crate) fn report_barriers(
    objects: &InputObjects<'_>,
    merged: &MergeResult<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) {
    let with = |object: &InputObject<'_>| object.records.codes.has(code::GEN_ERRBAR_AT_EXIT);
    let reports = options.target.flavour == Flavour::Mercury && !options.disable_infos;
    if !reports || !objects.iter().any(|(_, object)| with(object)) {
        return;
    }
    let without = |object: &InputObject<'_>, section| {
        let ends = |record: &Record<'_>| record.code == code::EXIT_INSTR_OFFSETS;
        !with(object) && object.info_records(section).any(|record| ends(&record))
    };
    if let Some((file, others)) = with_function(objects, merged, without) {
        diags.info(Message::NoBarriersAtExit { file, others });
    }
}

/// Reports objects of an older or later compiler that have a function in the program: the first
/// one, and the number of others.
pub(crate) fn report(
    objects: &InputObjects<'_>,
    merged: &MergeResult<'_>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
) {
    if options.target.flavour != Flavour::Mercury || options.relocatable || options.disable_infos {
        return;
    }
    let dialect = options.dialect;
    let older = |object: &InputObject<'_>, _| object.cuinfo.toolkit < dialect.finalizer;
    if let Some((file, others)) = with_function(objects, merged, older) {
        diags.info(Message::OlderCompiler { file, others, dialect });
    }
    let later = |object: &InputObject<'_>, section| {
        if !object.records.codes.has(code::ATTRIBUTE_6B) {
            return false;
        }
        let list =
            object.counterparts.of(section).map(|counterpart| object.info_records(counterpart));
        list.is_some_and(|mut list| list.any(|record| record.code == code::ATTRIBUTE_6B))
    };
    if dialect.toolkit < SINCE
        && let Some((file, others)) = with_function(objects, merged, later)
    {
        diags.info(Message::LaterCompiler { file, others });
    }
}

/// The first object with a function in the program whose attribute list satisfies `odd`, and the
/// number of other such objects.
fn with_function(
    objects: &InputObjects<'_>,
    merged: &MergeResult<'_>,
    odd: impl Fn(&InputObject<'_>, SectionIndex) -> bool,
) -> Option<(String, usize)> {
    let sources = merged.function_infos.values().flatten();
    let found = sources.filter(|source| odd(&objects[source.object], source.input));
    let mut found: Vec<_> = found.map(|source| source.object).collect();
    found.sort_unstable();
    found.dedup();
    let (&first, others) = found.split_first()?;
    Some((objects[first].name.to_owned(), others.len()))
}
