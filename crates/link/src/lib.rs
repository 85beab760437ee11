//! The cubin linker: bytes in, bytes out.
//!
//! In: the bytes of relocatable cubins and [`LinkOptions`]. Out: [`LinkOutcome`]: the linked cubin,
//! equal to nvlink's byte for byte except for its tool record, or the errors of the inputs.
//! Guaranteed: no I/O, no globals, no printing. The result depends on the options, and on the
//! order, names and bytes of the inputs; it does not depend on threads, paths or the machine.
//!
//! `run` below is the table of contents: it runs one phase after the other. Each phase is a module
//! whose head says what comes in and what goes out.
#![forbid(unsafe_code)]

mod attributes;
mod base;
mod callgraph;
mod check;
mod data;
mod diag;
mod draft;
mod layout;
mod merge;
mod objects;
mod options;
mod phases;
mod program;
mod relocs;
mod symbols;
mod write;

pub use crate::base::cancel::Cancel;
pub use crate::base::session::Session;
pub use crate::check::explain::source::CubinLines;
pub use crate::check::report::{EntryReport, ResourceReport};
pub use crate::diag::demangle::demangle;
pub use crate::diag::note::{CallStep, NameLikeness, Note};
pub use crate::diag::{CheckedInputs, LinkDiagnostic, Message, Severity};
pub use crate::objects::system_libraries::needs_system_libraries;
pub use crate::options::dialect::{DIALECTS, Dialect, UnknownRelease};
pub use crate::options::driver_functions::driver_function_since;
pub use crate::options::index_file::IndexFile;
pub use crate::options::input::Input;
pub use crate::options::selection::{HostReferences, NamePatterns, Selection};
pub use crate::options::{CallGraphNames, LinkOptions};
pub use crate::phases::Phase;
pub use crate::write::account::{
    Account, AccountDefinitions, AccountFunction, AccountFunctions, AccountKernel, AccountNeed,
    AccountPrototype, AccountRemoval, AccountSpace, AccountStack, AccountVariable, Contribution,
    DroppedCopy, KeptRelocations, LaunchBounds, ListColumn, OutputSection, OutputSectionKind,
    RemovalReason, SectionSource, TextColumn,
};
pub use crate::write::{Counts, Image, Output};

use std::time::Instant;

use culd_cubin::unified::BadUidx;

use crate::attributes::Attributes;
use crate::base::half::Halves;
use crate::base::names::Names;
use crate::callgraph::CallGraph;
use crate::check::{clash, tools_patch};
use crate::data::{Data, synthetic, unified};
use crate::diag::{Diagnostics, Failed};
use crate::draft::merged::MergeResult;
use crate::layout::file_map;
use crate::merge::{ProgramNames, ResolvedProgram};
use crate::objects::{InputObjects, system_libraries};
use crate::phases::Phases;
use crate::program::{LaidOutProgram, LinkedProgram};
use crate::relocs::debug::RebuiltDebug;
use crate::relocs::debug::frames::DebugFrames;
use crate::relocs::relocated::ResolvedRelocs;
use crate::symbols::Symbols;
use crate::symbols::discarded::DiscardedRecords;

/// The result of a link.
#[derive(Debug)]
pub struct LinkOutcome<I = Vec<u8>> {
    /// The linked cubin; `None` when there was an error.
    pub image: Option<I>,
    /// All lines in order.
    pub diagnostics: Vec<LinkDiagnostic>,
    /// Sizes for `-v`; `None` without [`LinkOptions::report_resources`], and when the inputs could
    /// not be merged.
    pub report: Option<ResourceReport>,
    /// Indices of the inputs that were left out because they are unused files of system libraries.
    pub unused: Vec<usize>,
    /// The time of each phase, in order; a link that failed has fewer.
    pub phases: Vec<Phase>,
    /// As in [`CheckedInputs::ended_at`].
    pub ended_at: Option<usize>,
}

/// Links `inputs` in the order given.
pub fn link(session: &Session, inputs: &[Input<'_>], options: &LinkOptions) -> LinkOutcome {
    let LinkOutcome { image, diagnostics, report, unused, phases, ended_at } =
        prepare(session, inputs, options);
    let image = image.map(|image| image.to_vec(session));
    LinkOutcome { image, diagnostics, report, unused, phases, ended_at }
}

/// Does the same up to the last phase. The [`Image`] writes the bytes directly to where they are
/// wanted, so that they need not be in memory.
pub fn prepare<'o, 'd>(
    session: &Session,
    inputs: &[Input<'d>],
    options: &'o LinkOptions,
) -> LinkOutcome<Image<'o, 'd>>
where
    'o: 'd,
{
    let mut diags = Diagnostics::new(options);
    let mut report = None;
    let mut phases = Phases::new(session);
    let mut unused = Vec::new();
    let progress = LinkProgress { report: &mut report, unused: &mut unused, phases: &mut phases };
    let image = run(session, inputs, options, &mut diags, progress).ok();
    let CheckedInputs { diagnostics, ended_at } = diags.into_checked();
    LinkOutcome { image, diagnostics, report, unused, phases: phases.finish(), ended_at }
}

/// Checks `inputs` as [`link`] does before it merges the first, up to the first that cannot be
/// linked.
pub fn check(session: &Session, inputs: &[Input<'_>], options: &LinkOptions) -> CheckedInputs {
    let mut diags = Diagnostics::new(options);
    // The lines say why it failed.
    let _ = InputObjects::parse(session, inputs, options, &mut diags);
    diags.into_checked()
}

/// Looks only whether inputs suit the virtual target `compute` (`compute_80`), to whose number the
/// target of `options` belongs.
pub fn check_compute(inputs: &[Input<'_>], options: &LinkOptions, compute: &str) -> CheckedInputs {
    let mut diags = Diagnostics::new(options);
    // The lines say why it failed.
    let _ = InputObjects::check_compute(inputs, options, compute, &mut diags);
    diags.into_checked()
}

/// About how many bytes the draft takes for each section of an input.
const DRAFT_BYTES: usize = 256;

/// The same for the tables that are made from the draft.
const TABLE_BYTES: usize = 128;

/// Results of a link besides its lines, filled as it runs.
struct LinkProgress<'a, 's> {
    report: &'a mut Option<ResourceReport>,
    unused: &'a mut Vec<usize>,
    phases: &'a mut Phases<'s>,
}

fn run<'o, 'd>(
    session: &Session,
    inputs: &[Input<'d>],
    options: &'o LinkOptions,
    diags: &mut Diagnostics,
    LinkProgress { report, unused, phases }: LinkProgress<'_, '_>,
) -> Result<Image<'o, 'd>, Failed>
where
    'o: 'd,
{
    let _span = tracing::info_span!("link", inputs = inputs.len()).entered();

    // Every file is checked before the first is merged: nvlink reports the first bad file only.
    phases.begin("objects", diags)?;
    check_index_file(options).map_err(|problem| diags.fatal(problem))?;
    let mut objects = InputObjects::parse(session, inputs, options, diags)?;
    *unused = system_libraries::remove_unused(&mut objects, inputs, options);

    // Up to the merged draft, one thread does most of the work; another one touches the memory.
    let sections: usize = objects.iter().map(|(_, object)| object.cubin.sections.len()).sum();
    let prefault_rest = session.prefault(DRAFT_BYTES * sections);

    // Below this line no function joins or leaves the program.
    let (resolved, names) = resolve_symbols(session, &objects, options, diags, phases)?;
    let work = objects.reloc_bytes();

    // Merges all files into one draft, which is discarded if definitions clash. Below this line no
    // input adds a section or a symbol.
    phases.begin("merge", diags)?;
    let prefault = || session.prefault_rest(prefault_rest, TABLE_BYTES * sections);
    let (mut merged, frames) =
        merge_files(session, &objects, &resolved, names, options, diags, prefault);
    let frames = frames?;
    let ResolvedProgram { symbols, graph, discarded } = resolved;
    let calls = synthetic::add_sections(&objects, &symbols, &mut merged, options);
    let unified = unified::place(&objects, &mut merged, options).err();

    // Data that belongs to no single file. Below this line every variable has its place.
    phases.begin("data", diags)?;
    let data = Data::lay_out(&objects, &symbols, &graph, &mut merged, calls, options)
        .map_err(|problem| diags.fatal(problem))?;

    let laid_out = LaidOutProgram {
        objects: &objects,
        symbols: &symbols,
        graph: &graph,
        discarded: &discarded,
        merged: &merged,
        data: &data,
        options,
    };
    let (attributes, relocations) =
        attributes_and_relocations(session, laid_out, frames, work, diags, phases)?;

    // Reports all errors of the program as a whole, then the error of a single relocation. Below
    // this line only sizes can be wrong.
    phases.begin("check", diags)?;
    let mut program =
        LinkedProgram { objects, symbols, graph, merged, data, attributes, unified, options };
    let reported = || options.report_resources.then(|| ResourceReport::build(&program));
    let (checked, built) = session.join(work, || program.check(diags), reported);
    checked?;
    *report = built;
    diags.check()?;
    let (rebuilt, relocated) = relocations.map_err(|message| diags.fatal(*message))?;
    rebuilt.set_sizes(&mut program.merged.draft);

    // Order, then contents that name symbols by index, then offsets. Below this line no section
    // changes size.
    phases.begin("layout", diags)?;
    let inputs_size = inputs.iter().map(|input| input.bytes.len() as u64).sum();
    if let Some(what) = layout::large_call_graph(&program, inputs_size) {
        return Err(diags.fatal(Message::TooLarge { what }));
    }
    let (contents, mut layout) = layout::assemble(session, &mut program, rebuilt, &relocated);
    layout.check(inputs_size).map_err(|problem| diags.fatal(problem))?;
    file_map::split_gaps(&mut layout.ranges);

    Ok(Image { program, layout, contents, relocated, types: None })
}

/// The error of an index file that this release of nvlink cannot read.
fn check_index_file(options: &LinkOptions) -> Result<(), Message> {
    let Some(index) = &options.index else { return Ok(()) };
    if !options.dialect.knows_unified {
        return Err(Message::UnifiedNotKnown { release: options.dialect });
    }
    // nvlink 12.4 and 12.5 do not know the bytes behind the places and find such a file malformed.
    match !options.dialect.knows_index_tail && index.uidx.tail() > 0 {
        true => Err(BadUidx::Size.into()),
        false => Ok(()),
    }
}

/// Merges all files. In parallel, because merging uses one thread only, checks that they agree, and
/// reads their `.debug_frame`. `prefault` starts when merging does. The draft stands alone in the
/// result because it is large: each further move costs a tiny link some hundred instructions.
fn merge_files<'d>(
    session: &Session,
    objects: &InputObjects<'d>,
    resolved: &ResolvedProgram,
    names: ProgramNames<'d>,
    options: &'d LinkOptions,
    diags: &mut Diagnostics,
    prefault: impl FnOnce(),
) -> (MergeResult<'d>, Result<DebugFrames<'d>, Failed>) {
    let patches = tools_patch::check(objects, &resolved.symbols, &names.names, options);
    let merge = || {
        prefault();
        merge::merge(objects, resolved, names, options)
    };
    let others = || {
        let checked = clash::check(objects, &resolved.symbols, options, diags);
        checked.map(|()| DebugFrames::parse(objects, options))
    };
    let (merged, checked) = session.join_here(objects.reloc_bytes(), merge, others);
    let frames = checked.and_then(|frames| match patches {
        Ok(()) => Ok(frames),
        Err(problem) => Err(diags.fatal(problem)),
    });
    (merged, frames)
}

/// Finds the definition of each name that counts, the live functions, and the discarded records.
fn resolve_symbols<'d>(
    session: &Session,
    objects: &InputObjects<'d>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
    phases: &mut Phases<'_>,
) -> Result<(ResolvedProgram, ProgramNames<'d>), Failed> {
    phases.begin("symbols", diags)?;
    let mut names = Names::new();
    let symbols = Symbols::resolve(objects, options, &mut names);

    phases.begin("callgraph", diags)?;
    let (graph, prototypes) = CallGraph::build(session, objects, &symbols, options, &mut names);
    let discarded = DiscardedRecords::find(objects, &symbols, options);
    Ok((ResolvedProgram { symbols, graph, discarded }, ProgramNames { names, prototypes }))
}

/// The resolved relocations: code and records, or the error of one of them. The error counts only
/// if nothing is wrong with the program as a whole.
type RelocationResult = Result<(RebuiltDebug, Halves<ResolvedRelocs>), Box<Message>>;

/// Builds attributes, and in parallel resolves relocations: values into bits, or records for the
/// driver.
fn attributes_and_relocations<'d>(
    session: &Session,
    laid_out: LaidOutProgram<'_, 'd>,
    frames: DebugFrames<'d>,
    work: usize,
    diags: &mut Diagnostics,
    phases: &mut Phases<'_>,
) -> Result<(Attributes<'d>, RelocationResult), Failed> {
    phases.begin("attributes", diags)?;
    let LaidOutProgram { objects, symbols, graph, merged, .. } = laid_out;
    let start = Instant::now();
    let attributes = || {
        let built = Attributes::build(session, objects, symbols, graph, merged, diags);
        (built, start.elapsed())
    };
    let relocate = || {
        let rebuilt = RebuiltDebug::build(session, laid_out, frames)?;
        let relocated = relocs::resolve(session, laid_out, &rebuilt, work)?;
        Ok((rebuilt, relocated))
    };
    let ((attributes, time), relocations) = session.join(work, attributes, relocate);
    phases.ran_in_parallel(time, "relocations");
    Ok((attributes?, relocations))
}
