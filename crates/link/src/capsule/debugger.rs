//! Code that was compiled for a debugger in a program that is for none, and the reverse.
//!
//! In: the objects and whether the link has `-g`. Out: one line for the user. nvlink's finalizer writes such code anew; here
//! it stays as it is (docs/DIFFERENCES.md, kept-code), which runs, but whoever debugs it should know.

use culd_cubin::arch::Flavour;
use culd_cubin::note::{self, ToolRecord};

use crate::LinkOptions;
use crate::diag::{Diagnostics, Message};
use crate::objects::{Object, Objects};

/// Tells the first object, and how many there are.
pub(crate) fn tell(objects: &Objects<'_>, options: &LinkOptions, diags: &mut Diagnostics) {
    if options.target.flavour != Flavour::Mercury || options.relocatable || options.disable_infos {
        return;
    }
    let with_code = || objects.iter().filter(|(_, object)| object.has_code());
    let compiled = |wanted: bool| {
        let may_be = move |object: &Object<'_>| !wanted || names_debugger(object);
        let is = move |object| compiled_for_debugger(object) == Some(wanted);
        with_code().filter(move |(_, object)| may_be(object) && is(object))
    };
    // One such object is enough for nvlink to make the program one for a debugger.
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

/// False where no tool can have had `-g`: most notes do not have these two letters.
fn names_debugger(object: &Object<'_>) -> bool {
    object.tkinfo.windows(2).any(|word| word == b"-g")
}

/// Whether the compiler had `-g`; `None` where no compiler left a note.
fn compiled_for_debugger(object: &Object<'_>) -> Option<bool> {
    let records = note::records(b".note.nv.tkinfo", object.tkinfo).filter_map(Result::ok);
    let mut tools = records.filter_map(|record| ToolRecord::parse(record.descriptor));
    let compiler = tools.find(|tool| tool.tool == "ptxas")?;
    Some(compiler.options.split_whitespace().any(|word| word == "-g"))
}
