//! Objects compiled with `-g` in a program without it, and the reverse.
//!
//! In: the objects and whether the link has `-g`. Out: one information for the user. nvlink's
//! finalizer rewrites such code; culd copies it (docs/DIFFERENCES.md, kept-code). The code runs,
//! but whoever debugs it should know.

use culd_cubin::arch::Flavour;
use culd_cubin::note::{self, ToolRecord};

use crate::diag::{Diagnostics, Message};
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::options::LinkOptions;

/// Reports the first such object and their number.
pub(crate) fn report(objects: &InputObjects<'_>, options: &LinkOptions, diags: &mut Diagnostics) {
    if options.target.flavour != Flavour::Mercury || options.relocatable || options.disable_infos {
        return;
    }
    // System libraries are not recompiled.
    let counts = |object: &InputObject<'_>| object.has_code() && !object.system;
    let with_code = || objects.iter().filter(|(_, object)| counts(object));
    let compiled = |wanted: bool| {
        with_code().filter(move |(_, object)| compiled_for_debugger(object) == Some(wanted))
    };
    // With one such object, nvlink makes the whole program one for a debugger.
    let program = options.for_debugger() || compiled(true).next().is_some();
    let (debug, mut odd) = match (options.for_debugger(), program) {
        (false, false) => return,
        (false, true) => (true, compiled(true).collect::<Vec<_>>()),
        (true, _) => (false, compiled(false).collect()),
    };
    if odd.is_empty() {
        return;
    }
    let file = odd.swap_remove(0).1.name.to_owned();
    diags.info(Message::DebugMixture { file, debug, others: odd.len() });
}

/// True if the compiler had `-g`; `None` without a note of the compiler.
fn compiled_for_debugger(object: &InputObject<'_>) -> Option<bool> {
    let records = note::records(b".note.nv.tkinfo", object.tkinfo).filter_map(Result::ok);
    let mut tools = records.filter_map(|record| ToolRecord::parse(record.descriptor));
    let compiler = tools.find(|tool| tool.tool == "ptxas")?;
    Some(compiler.options.split_whitespace().any(|word| word == "-g"))
}
