//! The cubin linker: bytes in, bytes out.
//!
//! In: the bytes of relocatable cubins and [`LinkOptions`]. Out: [`Outcome`]: the linked cubin,
//! equal to nvlink's byte for byte (its tool record aside), or what is wrong with the inputs.
//! Guaranteed: no I/O, no globals, no printing; the result depends on the inputs' order, names
//! and bytes and on the options only, not on threads, paths or the machine.
//!
//! [`link`] below is the table of contents: one phase after the other, each in a module of its
//! own that says what comes in and what goes out.
#![forbid(unsafe_code)]

mod attributes;
mod banks;
mod callgraph;
mod capsule;
mod clash;
mod constants;
mod content;
mod diag;
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
mod phases;
mod relocs;
mod report;
mod selection;
mod session;
mod shared;
mod sort;
mod symbols;
mod synth;
mod system;
mod textures;
mod unified;
mod void;

pub use crate::diag::{Diagnostic, Likeness, Message, Note, Severity, Step, demangle};
pub use crate::dump::CallGraphNames;
pub use crate::options::{CUDA_13_0, Dialect, LinkOptions};
pub use crate::phases::Phase;
pub use crate::report::{EntryReport, Report};
pub use crate::selection::{HostReferences, Selection};
pub use crate::session::Session;
pub use crate::unified::IndexFile;

use culd_cubin::arch::Flavour;

use crate::attributes::Attributes;
use crate::callgraph::CallGraph;
use crate::capsule::image::Mercury;
use crate::capsule::rebuilt::Rebuilt;
use crate::capsule::{Half, parameters};
use crate::content::Maker;
use crate::diag::{Diagnostics, Failed};
use crate::draft::Kind;
use crate::finish::Program;
use crate::image::Writer;
use crate::layout::Order;
use crate::names::Names;
use crate::objects::Objects;
use crate::phases::Phases;
use crate::relocs::Resolver;
use crate::shared::SharedLayout;
use crate::symbols::Symbols;
use crate::textures::TextureSlots;
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
pub struct Outcome {
    /// The linked cubin; `None` when there was an error.
    pub image: Option<Vec<u8>>,
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
    let mut diags = Diagnostics::new(options);
    let mut report = None;
    let mut phases = Phases::default();
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

/// What a link tells besides its lines, filled as it goes.
struct Made<'a> {
    report: &'a mut Option<Report>,
    unused: &'a mut Vec<usize>,
    phases: &'a mut Phases,
}

fn run(
    session: &Session,
    inputs: &[Input<'_>],
    options: &LinkOptions,
    diags: &mut Diagnostics,
    Made { report, unused, phases }: Made<'_>,
) -> Result<Vec<u8>, Failed> {
    let _span = tracing::info_span!("link", inputs = inputs.len()).entered();

    // Every file is checked before the first is merged: nvlink tells the first bad one only.
    phases.begin("objects");
    let mut objects = Objects::parse(session, inputs, options, diags)?;
    *unused = system::remove_unused(&mut objects, inputs, options);

    // Which definition counts. Below this line no name clashes.
    phases.begin("symbols");
    let mut names = Names::new();
    let symbols = Symbols::resolve(&objects, options, &mut names, diags)?;

    // Who is alive. Below this line no function joins or leaves the program.
    phases.begin("callgraph");
    let graph = CallGraph::build(&objects, &symbols, options, &mut names);

    // All files in one draft. Below this line no input adds a section or a symbol.
    phases.begin("merge");
    let void = VoidRecords::find(&objects, &symbols);
    let mut merged = merge::merge(&objects, &symbols, &graph, &void, names, options);
    let calls = synth::add_sections(&mut merged);
    let unified = unified::place(&objects, &mut merged, options).err();

    // Data that belongs to no one file. Below this line every variable has its place.
    phases.begin("data");
    let (shared, made, slots) = if options.relocatable {
        shared::keep(&mut merged);
        let made = synth::add_last_sections(&mut merged, &graph, calls);
        (SharedLayout::default(), made, TextureSlots::default())
    } else {
        // Some shared sections come before those that banks need.
        let shared = shared::lay_out(&objects, &symbols, &graph, &mut merged, options);
        let made = synth::add_last_sections(&mut merged, &graph, calls);
        let slots = textures::lay_out(&objects, &symbols, &graph, &mut merged);
        (shared, made, slots.map_err(|problem| diags.fatal(problem))?)
    };
    let has_capsules = options.target.flavour == Flavour::Mercury;
    if has_capsules {
        capsule::sections::add_high_indices(&mut merged.draft);
        parameters::add(&objects, &symbols, &mut merged);
        parameters::name_code(&mut merged.draft);
    }

    phases.begin("attributes");
    let attributes = Attributes::build(&objects, &symbols, &graph, &merged, diags)?;
    if let Some(what) = attributes.problem() {
        return Err(diags.fatal(Message::TooLarge { what }));
    }

    // Everything that is wrong with the program as a whole, told at once.
    let program = Program {
        objects: &objects,
        symbols: &symbols,
        graph: &graph,
        merged: &merged,
        shared: &shared,
        attributes: &attributes,
        unified,
        options,
    };
    program.check(diags)?;
    *report = Some(Report::build(&program, &slots));
    diags.check()?;

    phases.begin("relocations");
    let constants = merged.draft.constant_variables();
    let rebuilt = if has_capsules {
        Rebuilt::build(&objects, &symbols, &graph, &merged)
            .map_err(|message| diags.fatal(message))?
    } else {
        Rebuilt::default()
    };
    for (section, bytes) in rebuilt.contents() {
        merged.draft.sections[section].size = bytes.len() as u64;
    }
    let resolver = |half| Resolver {
        objects: &objects,
        symbols: &symbols,
        graph: &graph,
        merged: &merged,
        shared: &shared,
        slots: &slots,
        void: &void,
        unified: options.keeps_unified(),
        constants_size: constants.map(|bank| merged.draft.sections[bank].size),
        preserve: options.preserve_relocs,
        half,
        rebuilt: &rebuilt,
    };
    let relocated = relocs::resolve(session, &resolver(Half::Sass), diags)?;
    let mercury = if has_capsules {
        let relocated = relocs::resolve(session, &resolver(Half::Mercury), diags)?;
        let sass = capsule::attributes::sass(&objects, &merged, &attributes.functions, &slots);
        Some((relocated, sass))
    } else {
        None
    };

    // Order, then contents that name symbols by index, then offsets.
    phases.begin("layout");
    let shown = mercury.as_ref().map_or(&relocated, |mercury| &mercury.0);
    synth::drop_empty(&mut merged, &graph, &made, &attributes, shown);
    let mut high_indices = None;
    if has_capsules {
        high_indices = capsule::sections::keep_high_indices(&mut merged.draft);
        capsule::names::rename(&mut merged.draft);
    }
    let order = Order::new(&merged.draft);
    let maker = |half, functions, relocated| Maker {
        graph: &graph,
        merged: &merged,
        attributes: &attributes,
        functions,
        relocated,
        half,
        slots: &slots,
        order: &order,
    };
    let own = mercury.as_ref().map_or(&attributes.functions, |mercury| &mercury.1);
    let mut contents = synth::contents(&maker(Half::Sass, own, &relocated), &made);
    let mut mercury = mercury.as_ref().map(|(relocated, _)| {
        let contents =
            synth::mercury_contents(&maker(Half::Mercury, &attributes.functions, relocated));
        (relocated, contents)
    });
    for (section, bytes) in rebuilt.contents() {
        contents[section] = Some(bytes.to_vec());
    }
    if let (Some(section), Some((_, mercury))) = (high_indices, &mut mercury) {
        let (own, twin) = capsule::sections::high_indices(&merged.draft, order.layout());
        contents[section] = Some(own);
        mercury[section] = Some(twin);
    }
    contents[merged.fixed.tkinfo] = Some(notes::tkinfo(&objects, options));
    contents[merged.fixed.cuinfo] = Some(notes::cuinfo(&objects, options));
    if let Some(section) = merged.fixed.compat {
        let has_code = merged.draft.sections.values().any(|section| section.kind == Kind::Text);
        contents[section] = Some(notes::compat(&objects, options, has_code));
    }
    synth::set_sizes(&mut merged.draft, &contents);
    // Below this line no section changes size.
    let layout = order.place(&merged.draft, mercury.as_ref().map(|mercury| &mercury.1));
    let inputs_size = inputs.iter().map(|input| input.bytes.len() as u64).sum();
    if let Some(what) = layout.problem(inputs_size) {
        return Err(diags.fatal(Message::TooLarge { what }));
    }

    phases.begin("image");
    let writer = Writer {
        merged: &merged,
        layout: &layout,
        contents: &contents,
        relocated: &relocated,
        options,
        mercury: mercury.as_ref().map(|(relocated, contents)| Mercury {
            objects: &objects,
            symbols: &symbols,
            relocated,
            contents,
        }),
    };
    Ok(writer.write(session))
}
