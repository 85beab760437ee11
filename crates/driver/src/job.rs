//! A link from its inputs to the image.
//!
//! In: [`CommandOptions`] and [`InputItem`]s. Out: the linker's inputs and options; for programs,
//! the whole link: [`LinkedImage`]. Guaranteed: no output is written or printed; all memory of
//! inputs is freed.

use culd_text::os::OsStrExt;
use std::cell::Cell;
use std::ffi::OsString;

use culd_cubin::arch::Arch;
use culd_cubin::note::ToolRecord;
use culd_link::{
    Account, CallGraphNames, CheckedInputs, Dialect, HostReferences, Image, IndexFile, Input,
    LinkDiagnostic, LinkOptions, Message, Phase, Selection, Session, Severity,
};

use crate::input::{
    self, HostUses, InputItem, InputStop, Inputs, NamedCubin, PartReason, PtxasAhead, Sources,
    Store,
};
use crate::lto::LinkTime;
use crate::messages::{Cause, FileError, Line, LineKind, LineList, RunOutcome};
use crate::options::{CommandOptions, OptionId, Target, VERSION, dialect};
use crate::registration::SystemLibrary;
use crate::{hints, index, origins, verify};

/// The result of a link in memory.
#[derive(Debug)]
pub struct LinkedImage {
    /// The linked cubin; `None` when there was an error.
    pub image: Option<Vec<u8>>,
    /// The lines and the exit status.
    pub outcome: RunOutcome,
    /// The account of the inputs, if it was asked for and there is an image.
    pub account: Option<Account>,
    /// The names of the inputs' cubins in link order, and whether each is in the image.
    pub parts: Vec<LinkedInput>,
    /// The inputs as a report lists them, and the place among them of each object of the account.
    pub inputs: Vec<culd_report::ReportInput>,
    /// See [`LinkedImage::inputs`].
    pub objects: Vec<usize>,
    /// The release whose rules were followed; `None` if the link ended before it was known.
    pub dialect: Option<&'static Dialect>,
}

/// A cubin that was an input of the linker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LinkedInput {
    /// Its name in messages.
    pub name: String,
    /// False for one of a system library that nothing needed.
    pub linked: bool,
}

/// A link in memory that is to be made.
#[derive(Debug)]
pub struct LinkRequest<'j> {
    /// The options of a command line.
    pub options: &'j CommandOptions,
    /// The target.
    pub target: Target,
    /// The inputs in order.
    pub items: &'j [InputItem<'j>],
    /// The index file of unified functions and variables; else the one that the options name.
    pub index: Option<IndexFile>,
    /// The threads.
    pub session: &'j Session,
    /// [`LinkedImage::account`] is wanted.
    pub account: bool,
}

/// Links in memory.
pub fn link(request: LinkRequest<'_>) -> LinkedImage {
    let LinkRequest { options, target, items, index, session, account } = request;
    let store = Store::copying();
    let mut lines = LineList::new(options, &target.name());
    let mut linked = LinkedImage {
        image: None,
        outcome: RunOutcome::success(),
        account: None,
        parts: Vec::new(),
        inputs: Vec::new(),
        objects: Vec::new(),
        dialect: None,
    };
    let index = match index.map_or_else(|| index::read(options), |index| Ok(Some(index))) {
        Ok(index) => index,
        Err(line) => {
            lines.push(line);
            return LinkedImage { outcome: lines.end(), ..linked };
        }
    };
    let job = PreparedOptions { options, target, index, dialect: dialect::named(options), session };
    let StagedLink { gathered, link_options, ready } =
        job.stage(Sources { items, store: &store, shared: None, ahead: None }, &mut lines);
    let linkable = ready && matches!(target, Target::Real(_));
    let inputs = gathered.link_inputs();
    linked.dialect = Some(link_options.dialect);
    if ready && let Some(finished) = &gathered.finished {
        linked.image = Some(finished.clone());
        (linked.inputs, linked.objects) = origins::inputs(&gathered, &[]);
    } else if linkable {
        let outcome = culd_link::prepare(session, &inputs, &link_options);
        let is_linked = |place: usize| outcome.unused.binary_search(&place).is_err();
        (linked.inputs, linked.objects) = origins::inputs(&gathered, &outcome.unused);
        let part = |(place, input): (usize, &Input<'_>)| LinkedInput {
            name: input.name.to_owned(),
            linked: is_linked(place),
        };
        linked.parts = inputs.iter().enumerate().map(part).collect();
        drop_later(outcome.ended_at, &gathered, &mut lines);
        lines.extend(explained(outcome.diagnostics, &gathered));
        let image = outcome.image.filter(|_| !lines.failed());
        linked.account = image.as_ref().filter(|_| account).map(|image| image.account(session));
        linked.image = image.map(|image| image.to_vec(session));
        if linked.image.is_some() && session.is_cancelled() {
            lines.push(cancelled());
            linked.image = None;
        }
        if let (Some(image), true) = (&linked.image, options.flag(OptionId::Verify))
            && let Err(line) = verified(image)
        {
            lines.push(line);
            linked.image = None;
        }
    }
    linked.outcome = lines.end();
    linked
}

/// Unpacks and compiles inputs, without a link; a single PTX by `ahead`.
pub fn unpack(
    request: LinkRequest<'_>,
    ahead: Option<PtxasAhead>,
) -> (Vec<NamedCubin>, RunOutcome) {
    let LinkRequest { options, target, items, session, .. } = request;
    let store = Store::copying();
    let mut lines = LineList::new(options, &target.name());
    let dialect = dialect::named(options);
    let job = PreparedOptions { options, target, index: None, dialect, session };
    let ahead = Cell::new(ahead);
    let sources = Sources { items, store: &store, shared: None, ahead: Some(&ahead) };
    let (gathered, said, gathering, _) = job.gather(sources, false);
    lines.extend(said);
    let cubin = |ready: &input::LinkCubin<'_>| NamedCubin {
        name: ready.name.clone(),
        bytes: ready.bytes.to_vec(),
    };
    let cubins = match gathering {
        Ok(()) => gathered.inputs.iter().map(cubin).collect(),
        Err(_) => Vec::new(),
    };
    (cubins, lines.end())
}

/// The options of a link, without its inputs.
pub(crate) struct PreparedOptions<'j> {
    pub(crate) options: &'j CommandOptions,
    pub(crate) target: Target,
    pub(crate) index: Option<IndexFile>,
    /// The release that is followed; that of the newest input, if it is not known before these are
    /// read.
    pub(crate) dialect: Option<&'static Dialect>,
    pub(crate) session: &'j Session,
}

/// The inputs and options of the linker.
pub(crate) struct StagedLink<'a> {
    pub(crate) gathered: Inputs<'a>,
    pub(crate) link_options: LinkOptions,
    /// There was no error so far.
    pub(crate) ready: bool,
}

impl PreparedOptions<'_> {
    /// The gathered inputs, by the rules of the release that is followed, and that release. If the
    /// inputs decide the release, they are gathered again if it takes other images.
    fn gather<'a>(
        &self,
        sources: Sources<'a>,
        failed: bool,
    ) -> (Inputs<'a>, Vec<Line>, Result<(), InputStop>, &'static Dialect) {
        let PreparedOptions { options, target, dialect: fixed, session, .. } = *self;
        let gather = |rules| input::gather(options, sources, target, rules, session, failed);
        let first = fixed.unwrap_or_else(|| Dialect::for_cubins(target.arch(), []));
        let (gathered, said, gathering) = gather(first);
        let dialect = fixed.unwrap_or_else(|| {
            let files = gathered.inputs.iter().map(|input| input.bytes);
            Dialect::for_cubins(target.arch(), files)
        });
        if fixed.is_none() && gathered.depends_on_release && dialect != first {
            let (gathered, said, gathering) = gather(dialect);
            return (gathered, said, gathering, dialect);
        }
        (gathered, said, gathering, dialect)
    }

    /// Gathers the inputs; messages go to `lines`.
    pub(crate) fn stage<'a>(&self, sources: Sources<'a>, lines: &mut LineList) -> StagedLink<'a> {
        let options = self.options;
        let (mut gathered, mut said, mut gathering, mut dialect) =
            self.gather(sources, lines.failed());
        // Why LTO-IR is a part of the program, if it is one.
        let mut part_of = None;
        if gathering.is_ok() && !gathered.lto.is_empty() {
            gathering = self.link_time(&mut gathered, dialect, sources.store, &mut said);
            // With a virtual target, nothing but LTO-IR is linked.
            let placed = gathered.lto_cubin.take();
            if let Some(placed) = placed.filter(|_| matches!(self.target, Target::Real(_))) {
                let cubins = gathered.inputs.iter().chain([&placed.ready]).map(|input| input.bytes);
                let newest = || Dialect::for_cubins(self.target.arch(), cubins);
                dialect = self.dialect.unwrap_or_else(newest);
                part_of = Some(placed.reason);
                placed.insert(&mut gathered.inputs, dialect);
            }
        }
        let mut link_options = link_options(options, self.target.arch(), dialect);
        link_options.index.clone_from(&self.index);
        let ignored = options.flag(OptionId::IgnoreHostInfo)
            || part_of == Some(PartReason::OtherCode) && dialect.lto_ignores_host;
        if link_options.selection == Selection::All && !ignored {
            // nvlink has them ready for the compiler where it takes LTO-IR for all of the program.
            let known_first = part_of == Some(PartReason::Library);
            link_options.selection = host_references(gathered.references.as_ref(), known_first);
        }
        gathered.lines_before = lines.so_far().len();
        lines.extend(said);
        if gathering.is_err() && !self.session.is_cancelled() {
            self.end_early(&gathered, &link_options, lines);
            return StagedLink { gathered, link_options, ready: false };
        }
        if self.session.is_cancelled() {
            lines.push(cancelled());
            return StagedLink { gathered, link_options, ready: false };
        }
        if !gathered.has_lto {
            lines.extend(input::no_lto(options));
        }
        // A warning about an input that -Werror made an error: the inputs are looked at to the end,
        // and not linked.
        let mut ready = !lines.failed();
        let compute = matches!(self.target, Target::Virtual(_));
        if compute || !ready && matches!(self.target, Target::Real(_)) {
            let found = self.check(&gathered.link_inputs(), &link_options);
            drop_later(found.ended_at, &gathered, lines);
            lines.extend(found.diagnostics.into_iter().map(line));
            ready &= !lines.fatal();
        }
        StagedLink { gathered, link_options, ready }
    }

    /// What checks of the inputs say that need no link.
    fn check(&self, inputs: &[Input<'_>], link_options: &LinkOptions) -> CheckedInputs {
        match self.target {
            Target::Virtual(_) => {
                culd_link::check_compute(inputs, link_options, &self.target.name())
            }
            _ => culd_link::check(self.session, inputs, link_options),
        }
    }

    /// Compiles LTO-IR, unless the link has failed or has no output. A program that it is all of
    /// is verified here, for the command, device links and programs alike.
    fn link_time<'a>(
        &self,
        found: &mut Inputs<'a>,
        rules: &'static Dialect,
        store: &'a Store,
        lines: &mut Vec<Line>,
    ) -> Result<(), InputStop> {
        let PreparedOptions { options, session, .. } = *self;
        let target = self.target.arch();
        if lines.iter().any(|line| line.severity() >= Some(Severity::Error)) {
            return Ok(());
        }
        let link = LinkTime::new(options, target, rules, store, found, lines, session);
        // A virtual target has an output if LTO-IR is compiled for it. Without a name for one,
        // nvlink compiles it, too, and fails.
        if options.output().is_none() && matches!(self.target, Target::Virtual(_)) {
            return link.check();
        }
        link.compile()?;
        let image = found.finished.as_ref().filter(|_| !options.flag(OptionId::EmitPtx));
        if options.flag(OptionId::Verify)
            && let Some(Err(what)) = image.map(|image| verify::verify(image))
        {
            lines.push(Line::new(Severity::Fatal, FileError::UnsoundCode(what)));
            return Err(InputStop);
        }
        Ok(())
    }

    /// The inputs ended with a fatal line. A defect of an earlier cubin comes first.
    fn end_early(&self, gathered: &Inputs<'_>, link_options: &LinkOptions, lines: &mut LineList) {
        let earlier = self.check(&gathered.link_inputs(), link_options);
        if earlier.ended_at.is_some() {
            drop_later(earlier.ended_at, gathered, lines);
            lines.extend(earlier.diagnostics.into_iter().map(line));
        }
    }
}

/// A link up to its last phase.
pub(crate) struct PreparedLink<'o, 'd> {
    /// `None` after an error.
    pub(crate) image: Option<Image<'o, 'd>>,
    /// What became of the system library, where modules are registered.
    pub(crate) system: SystemLibrary,
    /// The time of each phase.
    pub(crate) phases: Vec<Phase>,
    /// The places of unused inputs.
    pub(crate) unused: Vec<usize>,
}

/// Links `inputs`, those of `gathered`, for a command line; messages go to `lines`.
pub(crate) fn prepare<'o, 'd>(
    options: &CommandOptions,
    session: &Session,
    gathered: &Inputs<'_>,
    inputs: &[Input<'d>],
    link_options: &'o LinkOptions,
    lines: &mut LineList,
) -> PreparedLink<'o, 'd>
where
    'o: 'd,
{
    let outcome = culd_link::prepare(session, inputs, link_options);
    let linked = |(place, input): (usize, &Input<'_>)| {
        input.system && outcome.unused.binary_search(&place).is_err()
    };
    let needed = || {
        if inputs.iter().any(|input| input.system) {
            return inputs.iter().enumerate().any(linked);
        }
        // The library has no code for the target. It is registered nevertheless if something is
        // undefined.
        let library = Input { name: "", bytes: &[], system: true };
        let all: Vec<Input<'_>> = inputs.iter().copied().chain([library]).collect();
        culd_link::needs_system_libraries(&all)
    };
    let system = match options.path(OptionId::RegisterFile) {
        Some(_) => gathered.registration.system_library(needed),
        None => SystemLibrary::NotGiven,
    };
    drop_later(outcome.ended_at, gathered, lines);
    let mut diagnostics = outcome.diagnostics;
    if !options.flag(OptionId::Verbose) {
        diagnostics.retain(|diagnostic| !is_about_unasked_debugging(&diagnostic.message));
    }
    lines.extend(explained(diagnostics, gathered));
    if let Some(report) = outcome.report {
        lines.extend(report.lines().iter().map(|text| Line::new(Severity::Info, text)));
    }
    let image = outcome.image.filter(|_| !lines.failed());
    PreparedLink { image, system, phases: outcome.phases, unused: outcome.unused }
}

/// What becomes of the system library in a program of `gathered` that is LTO-IR alone and is not
/// linked: one that is to be kept is registered, though it is not in the program.
pub(crate) fn unlinked_system(options: &CommandOptions, gathered: &Inputs<'_>) -> SystemLibrary {
    gathered.registration.system_library(|| options.flag(OptionId::KeepSystemLibraries))
}

/// If the link ended at an input, drops lines about later ones, which nvlink would not have read.
fn drop_later(ended_at: Option<usize>, gathered: &Inputs<'_>, lines: &mut LineList) {
    if let Some(place) = ended_at {
        lines.truncate(gathered.lines_before.saturating_add(gathered.lines_up_to(place)));
    }
}

/// True for a message about code for a debugger in a link that is not for one. A user who did not
/// ask for debugging may have such code from a library, so the line is shown with `-v` only.
fn is_about_unasked_debugging(message: &Message) -> bool {
    matches!(message, Message::DebugMixture { debug: true, .. })
}

/// The line about a cancelled link.
fn cancelled() -> Line {
    Line::about(Severity::Fatal, Cause::Link(Box::new(Message::Cancelled)))
}

/// Diagnostics of the linker as lines, with hints from the inputs about undefined names.
pub(crate) fn explained(diagnostics: Vec<LinkDiagnostic>, gathered: &Inputs<'_>) -> Vec<Line> {
    let name = |diagnostic: &LinkDiagnostic| match &diagnostic.message {
        Message::Undefined { symbol, .. } => Some(symbol.clone()),
        _ => None,
    };
    let names: Vec<Option<String>> = diagnostics.iter().map(name).collect();
    let undefined: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let Inputs { elsewhere, archives, missing_libraries, .. } = gathered;
    let hints = hints::undefined(&undefined, elsewhere, archives, missing_libraries);
    let mut hints = hints.into_iter();
    let explain = |(diagnostic, name): (LinkDiagnostic, Option<String>)| {
        let mut line = line(diagnostic);
        if name.is_some() {
            line.notes.extend(hints.next().unwrap_or_default().iter().map(ToString::to_string));
        }
        line
    };
    diagnostics.into_iter().zip(names).map(explain).collect()
}

/// A diagnostic of the linker as a line.
pub fn line(diagnostic: LinkDiagnostic) -> Line {
    let LinkDiagnostic { severity, message, notes } = diagnostic;
    if let Message::Dump { line } = message {
        return Line::plain(LineKind::Dump, line);
    }
    let cause = Cause::Link(Box::new(message));
    Line::about(severity, cause).with_notes(notes.iter().map(ToString::to_string).collect())
}

/// The library's options for a link to `arch` as `options` say.
pub fn link_options(
    options: &CommandOptions,
    arch: &'static Arch,
    dialect: &'static Dialect,
) -> LinkOptions {
    let tool = ToolRecord {
        object: options.object_name().to_owned(),
        tool: "culd".to_owned(),
        release: format!("culd {}", VERSION),
        build: format!("follows nvlink {}", dialect.build),
        options: options.normalised(),
    };
    let mut link_options = LinkOptions::new(arch, tool);
    link_options.dialect = dialect;
    // A later version than the release's own is taken for that.
    let version = options.api_version();
    link_options.api_version = version.map(|version| version.min(dialect.toolkit.into()));
    link_options.extra_warnings = options.flag(OptionId::ExtraWarnings);
    link_options.suppress_stack_size_warning = options.flag(OptionId::SuppressStackSizeWarning);
    link_options.report_resources = options.flag(OptionId::Verbose);
    let roots = options.list(OptionId::Undefined).iter();
    link_options.roots = roots.map(|name| name.as_bytes().to_vec()).collect();
    link_options.debug = options.flag(OptionId::Debug);
    link_options.suppress_debug_info = options.flag(OptionId::SuppressDebugInfo);
    link_options.tools_patch = options.flag(OptionId::ToolsPatch);
    link_options.relocatable = options.makes_object(dialect);
    link_options.preserve_relocs = options.flag(OptionId::PreserveRelocs);
    link_options.warnings_are_errors = options.flag(OptionId::WarningsAreErrors);
    link_options.disable_warnings =
        options.flag(OptionId::DisableWarnings) && dialect.silences_warnings;
    link_options.disable_infos = options.flag(OptionId::DisableInfos);
    link_options.selection = selection(options);
    link_options.allow_undefined_globals = options.flag(OptionId::AllowUndefinedGlobals);
    link_options.keep_system_libraries = options.flag(OptionId::KeepSystemLibraries);
    link_options.dump_callgraph = match () {
        () if options.flag(OptionId::DumpCallgraph) => Some(CallGraphNames::Source),
        () if options.flag(OptionId::DumpCallgraphMangled) => Some(CallGraphNames::Mangled),
        () => None,
    };
    link_options
}

/// Which kernels the options keep.
fn selection(options: &CommandOptions) -> Selection {
    // A list without elements does not count.
    let given = |id| options.values(id).filter(|values| !values.is_empty());
    let (kernels, variables) = (given(OptionId::KernelsUsed), given(OptionId::VariablesUsed));
    if kernels.is_none() && variables.is_none() {
        return Selection::All;
    }
    let texts = |values: Option<&[OsString]>| {
        values.unwrap_or_default().iter().map(|value| value.as_bytes().to_vec()).collect()
    };
    Selection::Named { kernels: texts(kernels), variables: texts(variables) }
}

/// The kernels that host code keeps: all, if it has no lists.
fn host_references(references: Option<&HostUses<'_>>, known_first: bool) -> Selection {
    let selects = |references: &&HostUses<'_>| references.selects;
    let Some(references) = references.filter(selects) else { return Selection::All };
    // A section may end without NUL.
    let owned = |sections: &[&[u8]]| sections.join(&0);
    Selection::Host(HostReferences {
        external: owned(&references.external),
        internal: owned(&references.internal),
        constants: owned(&references.constants),
        internal_constants: owned(&references.internal_constants),
        known_first,
    })
}

/// The line about an image that is not sound.
pub(crate) fn verified(image: &[u8]) -> Result<(), Line> {
    let unsound = |what| Line::new(Severity::Fatal, FileError::Unsound(what));
    verify::verify(image).map_err(unsound)
}
