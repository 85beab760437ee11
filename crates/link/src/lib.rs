//! The cubin linker: bytes in, bytes out.
//!
//! In: the bytes of relocatable cubins and [`LinkOptions`]. Out: [`Outcome`]: the linked cubin,
//! equal to nvlink's byte for byte (its tool record aside), or what is wrong with the inputs.
//! Guaranteed: no I/O, no globals, no printing; the result depends on the inputs' order, names
//! and bytes and on the options only, not on threads, paths or the machine.
//!
//! `run` below is the table of contents: one phase after the other, each in a module of its
//! own that says what comes in and what goes out.
#![forbid(unsafe_code)]

mod account;
mod assembly;
mod attributes;
mod banks;
mod callgraph;
mod cancel;
mod capsule;
mod clash;
mod constants;
mod content;
mod data;
mod diag;
mod dialect;
mod draft;
mod dump;
mod explain;
mod finish;
mod graph;
mod id;
mod image;
mod layout;
mod merge;
mod moved;
mod names;
mod notes;
mod objects;
mod options;
mod patches;
mod phases;
mod pieces;
mod program;
mod relocs;
mod report;
mod selection;
mod session;
mod shared;
mod sort;
mod strings;
mod symbols;
mod synth;
mod system;
mod system_names;
mod textures;
mod unified;
mod void;

pub use crate::account::{Account, Function, Removed, Why};
pub use crate::cancel::Cancel;
pub use crate::diag::{Diagnostic, Likeness, Message, Note, Severity, Step, demangle};
pub use crate::dialect::{DIALECTS, Dialect, UnknownRelease};
pub use crate::dump::CallGraphNames;
pub use crate::image::{Counts, Image, Output};
pub use crate::options::LinkOptions;
pub use crate::phases::Phase;
pub use crate::report::{EntryReport, Report};
pub use crate::selection::{HostReferences, Selection};
pub use crate::session::Session;
pub use crate::system::needs_system_libraries;
pub use crate::unified::IndexFile;

use std::time::Instant;

use crate::attributes::Attributes;
use crate::callgraph::CallGraph;
use crate::capsule::Halves;
use crate::capsule::rebuilt::{Frames, Rebuilt};
use crate::data::Data;
use crate::diag::{Diagnostics, Failed};
use crate::names::{NameList, Names};
use crate::objects::Objects;
use crate::phases::Phases;
use crate::program::{Placed, Program};
use crate::relocs::Relocated;
use crate::symbols::Symbols;
use crate::void::VoidRecords;

/// One input: a relocatable cubin and the name that messages give it.
#[derive(Debug, Clone, Copy)]
pub struct Input<'d> {
    /// As given on the command line.
    pub name: &'d str,
    /// The whole file.
    pub bytes: &'d [u8],
    /// It belongs to a system library (libcudadevrt), which is left out if nothing needs it.
    pub system: bool,
}

/// What came of a link.
#[derive(Debug)]
pub struct Outcome<I = Vec<u8>> {
    /// The linked cubin; `None` when there was an error.
    pub image: Option<I>,
    /// All lines in order.
    pub diagnostics: Vec<Diagnostic>,
    /// Sizes for `-v`; `None` when the inputs could not be merged.
    pub report: Option<Report>,
    /// Places of inputs of system libraries that were left out.
    pub unused: Vec<usize>,
    /// What took how long, in order; a link that failed has fewer.
    pub phases: Vec<Phase>,
}

/// Links `inputs` in the order given.
pub fn link(session: &Session, inputs: &[Input<'_>], options: &LinkOptions) -> Outcome {
    let Outcome { image, diagnostics, report, unused, phases } = prepare(session, inputs, options);
    let image = image.map(|image| image.to_vec(session));
    Outcome { image, diagnostics, report, unused, phases }
}

/// Does the same up to the last phase: the [`Image`] writes the bytes to where they are wanted, so that they need not
/// be in memory.
pub fn prepare<'o, 'd>(
    session: &Session,
    inputs: &[Input<'d>],
    options: &'o LinkOptions,
) -> Outcome<Image<'o, 'd>>
where
    'o: 'd,
{
    let mut diags = Diagnostics::new(options);
    let mut report = None;
    let mut phases = Phases::new(session);
    let mut unused = Vec::new();
    let made = Made { report: &mut report, unused: &mut unused, phases: &mut phases };
    let image = run(session, inputs, options, &mut diags, made).ok();
    Outcome { image, diagnostics: diags.into_lines(), report, unused, phases: phases.finish() }
}

/// Checks `inputs` as [`link`] does before it merges the first: what is wrong with one of them.
pub fn check(session: &Session, inputs: &[Input<'_>], options: &LinkOptions) -> Vec<Diagnostic> {
    let mut diags = Diagnostics::new(options);
    // Why it failed is in the lines.
    let _ = Objects::parse(session, inputs, options, &mut diags);
    diags.into_lines()
}

/// About as many bytes does the draft take for each section of an input.
const DRAFT_BYTES: usize = 256;

/// The same for what is made of the draft.
const TABLE_BYTES: usize = 128;

/// What a link tells besides its lines, filled as it goes.
struct Made<'a, 's> {
    report: &'a mut Option<Report>,
    unused: &'a mut Vec<usize>,
    phases: &'a mut Phases<'s>,
}

fn run<'o, 'd>(
    session: &Session,
    inputs: &[Input<'d>],
    options: &'o LinkOptions,
    diags: &mut Diagnostics,
    Made { report, unused, phases }: Made<'_, '_>,
) -> Result<Image<'o, 'd>, Failed>
where
    'o: 'd,
{
    let _span = tracing::info_span!("link", inputs = inputs.len()).entered();

    // Every file is checked before the first is merged: nvlink tells the first bad one only.
    phases.begin("objects", diags)?;
    let mut objects = Objects::parse(session, inputs, options, diags)?;
    *unused = system::remove_unused(&mut objects, inputs, options);

    // Up to the merged draft most of the work is for one thread.
    let sections: usize = objects.iter().map(|(_, object)| object.cubin.sections.len()).sum();
    let rest = session.bring_in(DRAFT_BYTES * sections);

    // Below this line no function joins or leaves the program.
    let (names, symbols, graph) = choose(session, &objects, options, diags, phases)?;
    let work = objects.reloc_bytes();

    // All files in one draft, which comes to nothing if names clash. Below this line no input adds a section or a symbol.
    phases.begin("merge", diags)?;
    let patches = patches::check(&objects, &symbols, &names.0, options);
    let void = VoidRecords::find(&objects, &symbols);
    let merge = || {
        session.bring_in_rest(rest, TABLE_BYTES * sections);
        merge::merge(&objects, &symbols, &graph, &void, names, options)
    };
    // Beside that one thread more can be at work.
    let others = || {
        let checked = clash::check(&objects, &symbols, options, diags);
        checked.map(|()| Frames::parse(&objects, options))
    };
    let (mut merged, checked) = session.beside(work, merge, others);
    let frames = checked?;
    patches.map_err(|problem| diags.fatal(problem))?;
    let calls = synth::add_sections(&objects, &symbols, &mut merged, options);
    let unified = unified::place(&objects, &mut merged, options).err();

    // Data that belongs to no one file. Below this line every variable has its place.
    phases.begin("data", diags)?;
    let data = Data::lay_out(&objects, &symbols, &graph, &mut merged, calls, options)
        .map_err(|problem| diags.fatal(problem))?;

    let placed = Placed {
        objects: &objects,
        symbols: &symbols,
        graph: &graph,
        void: &void,
        merged: &merged,
        data: &data,
        options,
    };
    let (attributes, resolved) = resolve(session, placed, frames, work, diags, phases)?;

    // Everything that is wrong with the program as a whole, told at once; then what is with a single record. Below this
    // line nothing can be wrong but sizes.
    phases.begin("check", diags)?;
    let mut program =
        Program { objects, symbols, graph, merged, data, attributes, unified, options };
    let (checked, built) = session.join(work, || program.check(diags), || Report::build(&program));
    checked?;
    *report = Some(built);
    diags.check()?;
    let (rebuilt, relocated) = resolved.map_err(|message| diags.fatal(*message))?;
    rebuilt.set_sizes(&mut program.merged.draft);

    // Order, then contents that name symbols by index, then offsets. Below this line no section
    // changes size.
    phases.begin("layout", diags)?;
    let (contents, mut layout) = assembly::assemble(session, &mut program, rebuilt, &relocated);
    let inputs_size = inputs.iter().map(|input| input.bytes.len() as u64).sum();
    if let Some(what) = layout.problem(inputs_size) {
        return Err(diags.fatal(Message::TooLarge { what }));
    }
    if layout.is_nameless {
        return Err(diags.fatal(Message::Internal { what: "section without name" }));
    }
    pieces::split_gaps(&mut layout.pieces);

    Ok(Image { program, layout, contents, relocated })
}

/// Which definition of each name counts, and who is alive.
fn choose<'d>(
    session: &Session,
    objects: &Objects<'d>,
    options: &LinkOptions,
    diags: &mut Diagnostics,
    phases: &mut Phases<'_>,
) -> Result<((Names<'d>, NameList), Symbols, CallGraph), Failed> {
    phases.begin("symbols", diags)?;
    let mut names = Names::new(objects.hasher.clone());
    let symbols = Symbols::resolve(objects, options, &mut names);

    phases.begin("callgraph", diags)?;
    let (graph, prototypes) = CallGraph::build(session, objects, &symbols, options, &mut names);
    Ok(((names, prototypes), symbols, graph))
}

/// What came of the relocations: code and records, or what is wrong with one of them, which counts only where
/// nothing is wrong with the program as a whole.
type Resolved = Result<(Rebuilt, Halves<Relocated>), Box<Message>>;

/// Attributes; and beside them values into bits, or records for the driver.
fn resolve<'d>(
    session: &Session,
    placed: Placed<'_, 'd>,
    frames: Frames<'d>,
    work: usize,
    diags: &mut Diagnostics,
    phases: &mut Phases<'_>,
) -> Result<(Attributes<'d>, Resolved), Failed> {
    phases.begin("attributes", diags)?;
    let Placed { objects, symbols, graph, merged, .. } = placed;
    let start = Instant::now();
    let attributes = || {
        let built = Attributes::build(session, objects, symbols, graph, merged, diags);
        (built, start.elapsed())
    };
    let relocate = || {
        let rebuilt = Rebuilt::build(session, placed, frames)?;
        let relocated = relocs::resolve(session, placed, &rebuilt, work)?;
        Ok((rebuilt, relocated))
    };
    let ((attributes, time), resolved) = session.join(work, attributes, relocate);
    phases.ran_beside(time, "relocations");
    Ok((attributes?, resolved))
}
