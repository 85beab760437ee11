//! One run from options to files.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use culd_link::{Account, Image, IndexFile, LinkOptions, Output as _, Session, Severity};
use culd_report::LinkedCode;

use crate::input::{InputItem, Inputs, Sources, Store};
use crate::job::{self, PreparedLink, PreparedOptions, StagedLink};
use crate::messages::{FileError, Line, LineKind, LineList, RunOutcome, warning_severity};
use crate::options::{CommandOptions, OptionId, ParsedCommandLine, Request, Target, UsageError};
use crate::os::files::{FileChange, Kinds};
use crate::os::output::Replacement;
use crate::os::{files, guard, heap, output};
use crate::progress::{self, Progress};
use crate::registration::{self, SystemLibrary};
use crate::timing::Timing;
use crate::watch::{self, Watch};
use crate::{host_script, index, origins, reports, shadow, threads};

/// Runs a command line. Returns the text for standard output, and lines and status.
pub fn command(parsed: ParsedCommandLine) -> (String, RunOutcome) {
    let redefined = parsed.redefined.into_iter();
    let mut first: Vec<Line> =
        redefined.map(|name| Line::new(Severity::Warning, FileError::Redefined(name))).collect();
    let mut lines = LineList::of(parsed.reported_target.as_deref());
    for ignored in parsed.ignored {
        lines.push(Line::new(Severity::Info, FileError::Ignored(ignored)));
    }
    first.append(&mut lines.end().lines);
    let (text, mut outcome) = match parsed.request {
        Ok(Request::Print(text)) => (text, RunOutcome::success()),
        Ok(Request::HostScript(options)) => host_script::make(&options),
        Ok(Request::Link(options)) => run(&options),
        Err(error) => {
            let mut lines = LineList::of(parsed.reported_target.as_deref());
            let notes = if parsed.notes { error.notes() } else { Vec::new() };
            lines.push(Line::new(Severity::Fatal, error).with_notes(notes));
            (String::new(), lines.end())
        }
    };
    outcome.lines.splice(0..0, first);
    (text, outcome)
}

/// Links as `options` say and writes the outputs. Returns the text for standard output.
pub fn run(options: &CommandOptions) -> (String, RunOutcome) {
    let Some(target) = options.target else { return (String::new(), UsageError::NoArch.into()) };
    let mut lines = LineList::new(options, &target.name());
    let shadow = options.shadow.as_ref();
    match shadow.map_or(Ok(None), |shadow| shadow::before_link(shadow, options)) {
        Ok(line) => lines.extend(line),
        Err(line) => {
            lines.push(line);
            return (String::new(), lines.end());
        }
    }
    lines.extend(preserve_relocs(options, target));
    let mut timing = None;
    if let Some(path) = options.path(OptionId::Time) {
        match Timing::open(path, &target.name()) {
            Ok(opened) => timing = Some(opened),
            Err(error) => {
                let line = Line::new(Severity::Fatal, FileError::Time(culd_text::name(path)));
                lines.push(line.with_notes(vec![error.to_string()]));
                return (String::new(), lines.end());
            }
        }
    }
    let mut said = String::new();
    match index::read(options) {
        Ok(index) => {
            let progress = Progress::start();
            let (timing, phase) = (timing.as_mut(), progress.phase());
            let written = OutputState::Not;
            let said = &mut said;
            CommandLink { options, target, index, timing, phase, written, said }.run(&mut lines);
        }
        Err(line) => lines.push(line),
    }
    let table = timing.map_or(Ok(String::new()), Timing::finish);
    // Like nvlink, culd does not let a table of times spoil a link.
    said.push_str(&table.unwrap_or_default());
    (said, lines.end_within(options.number(OptionId::ErrorLimit)))
}

/// nvlink's warning about its `--preserve-relocs`, with its spelling.
fn preserve_relocs(options: &CommandOptions, target: Target) -> Option<Line> {
    let said = options.flag(OptionId::PreserveRelocs) && !options.flag(OptionId::DisableInfos);
    let text = || FileError::PreserveRelocs(target.name());
    let severity = warning_severity(options).filter(|_| said && target.arch().sm >= 90)?;
    Some(Line::new(severity, text()))
}

/// A link that is to be made.
struct CommandLink<'o> {
    options: &'o CommandOptions,
    target: Target,
    index: Option<IndexFile>,
    timing: Option<&'o mut Timing>,
    /// Sets the phase of the line on the terminal.
    phase: progress::ProgressPhase,
    written: OutputState,
    /// Text for standard output.
    said: &'o mut String,
}

/// The state of the output.
enum OutputState {
    Not,
    /// It is open. An output that is written in place stays open between two attempts: a reader of
    /// a pipe takes it for complete when it is closed.
    Begun(Replacement),
    Whole,
}

/// An input may have changed while it was linked.
struct InputChange;

/// The end of an attempt at a link.
#[derive(PartialEq)]
enum AttemptEnd {
    Done,
    /// The linked bytes may mix two states of a file.
    Again,
}

impl CommandLink<'_> {
    /// Links files that are mapped. If a change of one may have spoiled the link, it links again
    /// with copies and discards the first attempt.
    fn run(mut self, lines: &mut LineList) {
        // All inputs stay until the process ends, which gives them back at once.
        let store: &Store =
            Box::leak(Box::new(Store::mapping().rooted(self.options.path(OptionId::Chroot))));
        let before = lines.clone();
        guard::hold_panics(true);
        let end = self.attempt(store, lines);
        guard::hold_panics(false);
        if end == AttemptEnd::Again {
            *lines = before;
            self.said.clear();
            if matches!(&self.written, OutputState::Begun(output) if !output.is_in_place()) {
                self.written = OutputState::Not;
            }
            if let Some(timing) = &mut self.timing {
                timing.forget();
            }
            self.attempt(Box::leak(Box::new(store.again())), lines);
        }
    }

    fn attempt(&mut self, store: &'static Store, lines: &mut LineList) -> AttemptEnd {
        let CommandLink { options, target, ref index, ref phase, .. } = *self;
        let (index, phase, watch) = (index.clone(), phase.clone(), Watch::start());
        let (timing, written) = (self.timing.as_deref_mut(), &mut self.written);
        let said = &mut *self.said;
        let run = Attempt { options, store, target, index, timing, watch, phase, written, said };
        let ended = catch_unwind(AssertUnwindSafe(|| run.run(lines)));
        let is_whole = matches!(self.written, OutputState::Whole);
        if matches!(ended, Ok(Ok(()))) && (is_whole || !lines.failed()) {
            return AttemptEnd::Done;
        }
        // Checked bytes of a file may have changed since.
        match (store.change(&Session::serial()), ended) {
            (FileChange::Certain(path), _) => {
                let note = "it changed while it was linked".to_owned();
                let line = Line::new(Severity::Fatal, FileError::Changed(culd_text::name(path)));
                lines.push(line.with_notes(vec![note]));
                AttemptEnd::Done
            }
            (FileChange::Perhaps, _) | (FileChange::None, Ok(Err(InputChange))) => {
                AttemptEnd::Again
            }
            (FileChange::None, Err(_)) if store.has_maps() => AttemptEnd::Again,
            (FileChange::None, Err(panic)) => resume_unwind(panic),
            (FileChange::None, Ok(Ok(()))) => AttemptEnd::Done,
        }
    }
}

/// A link that is being made.
struct Attempt<'o> {
    options: &'o CommandOptions,
    store: &'static Store,
    target: Target,
    index: Option<IndexFile>,
    timing: Option<&'o mut Timing>,
    watch: Watch,
    /// Text for standard output.
    said: &'o mut String,
    /// Sets the phase of the line on the terminal.
    phase: progress::ProgressPhase,
    written: &'o mut OutputState,
}

/// The reason for a missing output.
enum AttemptStop {
    Reported(Line),
    Changed(InputChange),
}

impl From<Line> for AttemptStop {
    fn from(line: Line) -> Self {
        AttemptStop::Reported(line)
    }
}

impl Attempt<'_> {
    fn run(mut self, lines: &mut LineList) -> Result<(), InputChange> {
        let options = self.options;
        let index = self.index.take();
        let (threads, fewer) = threads::threads(options);
        lines.extend(fewer);
        let phase = self.phase.clone();
        let session = Session::with_threads(threads)
            .watched(move |name| phase.begin(name))
            .growing_heaps(heap::grow);
        let start = Instant::now();
        self.phase.begin("inputs");
        let items: &[InputItem<'_>] =
            Vec::leak(options.inputs.iter().map(InputItem::named).collect());
        let (target, dialect) = (self.target, options.release);
        let job = PreparedOptions { options, target, index, dialect, session: &session };
        let sources = Sources { items, store: self.store, shared: None, ahead: None };
        let staged = job.stage(sources, lines);
        self.time("inputs", start);
        if let Some(timing) = &mut self.timing {
            timing.compilations(&staged.gathered.times);
        }
        let StagedLink { gathered, link_options, ready } = staged;
        if let Err(line) = self.before_link(&gathered, &link_options) {
            lines.push(line);
            return Ok(());
        }
        if !ready {
            return Ok(());
        }
        lines.extend(reports::notes(options, target, &gathered));
        let system = if let Some(finished) = &gathered.finished {
            if self.store.change(&session) != FileChange::None {
                return Err(InputChange);
            }
            if let Err(line) =
                self.write_finished(&session, finished, &gathered, &link_options, lines)
            {
                lines.push(line);
            }
            job::unlinked_system(options, &gathered)
        } else if let Target::Virtual(_) = self.target {
            // This link has no output, so the final link may still need it.
            gathered.registration.system_library(|| true)
        } else {
            match self.link(&session, &gathered, &link_options, lines)? {
                Some(system) => system,
                None => return Ok(()),
            }
        };
        self.write_register_file(&gathered, system, lines);
        Ok(())
    }

    /// Links and writes the output; returns the state of the system library, or `None` if the link
    /// failed.
    fn link(
        &mut self,
        session: &Session,
        gathered: &Inputs<'static>,
        link_options: &LinkOptions,
        lines: &mut LineList,
    ) -> Result<Option<SystemLibrary>, InputChange> {
        let inputs = gathered.link_inputs();
        let mut start = Instant::now();
        let PreparedLink { image, system, phases, unused } =
            job::prepare(self.options, session, gathered, &inputs, link_options, lines);
        for phase in &phases {
            self.phase(phase.name, start, phase.time);
            start += phase.time;
        }
        if lines.fatal() {
            return Ok(None);
        }
        if let (Some(image), Some(path)) = (image, self.options.output()) {
            let input_bytes = inputs.iter().map(|input| input.bytes.len() as u64).sum();
            let written =
                self.output(session, image, path, input_bytes, lines).and_then(|account| {
                    let code = account.as_ref().map(LinkedCode::Account);
                    let made = self.report(session, gathered, link_options, code, &unused, lines);
                    // The process ends soon, which gives the memory back at once.
                    std::mem::forget(account);
                    Ok(made?)
                });
            match written {
                Ok(()) => {}
                Err(AttemptStop::Reported(line)) => {
                    lines.push(line);
                    return Ok(None);
                }
                Err(AttemptStop::Changed(changed)) => return Err(changed),
            }
        }
        Ok(Some(system))
    }

    fn output(
        &mut self,
        session: &Session,
        mut image: Image<'_, '_>,
        path: &Path,
        input_bytes: u64,
        lines: &mut LineList,
    ) -> Result<Option<Account>, AttemptStop> {
        let start = Instant::now();
        self.phase.begin("write");
        let counted = match self.options.flag(OptionId::Stats) {
            true => watch::link_stats(input_bytes, &image.counts()),
            false => Vec::new(),
        };
        let needs_account = reports::need_account(self.options);
        if needs_account {
            image.count_types();
        }
        let written = self.write(session, &image, path);
        let account = (written.is_ok() && needs_account).then(|| image.account(session));
        // The data behind the image stays until the process ends, as the inputs do. Freed here:
        // +2.8 % instructions, 4 % more processor time on many1000.
        std::mem::forget(image);
        written?;
        self.time("write", start);
        self.report_link(counted, lines)?;
        Ok(account)
    }

    /// The reports about the inputs, which do not depend on the result of the link.
    fn before_link(
        &mut self,
        gathered: &Inputs<'_>,
        link_options: &LinkOptions,
    ) -> Result<(), Line> {
        reports::check_places(self.options, self.store)?;
        if let Some(path) = self.options.path(OptionId::Reproduce) {
            reports::reproduce(path, self.options, gathered, link_options.dialect)?;
        }
        self.said.push_str(&reports::before_link(self.options, gathered)?);
        Ok(())
    }

    /// Writes the side outputs that the options ask for.
    fn report(
        &mut self,
        session: &Session,
        gathered: &Inputs<'_>,
        link_options: &LinkOptions,
        code: Option<LinkedCode<'_>>,
        unused: &[usize],
        lines: &LineList,
    ) -> Result<(), Line> {
        if !reports::any_after_link(self.options) {
            return Ok(());
        }
        let finished = reports::FinishedLink {
            session,
            options: self.options,
            gathered,
            target: link_options.target,
            dialect: link_options.dialect,
            inputs: origins::inputs(gathered, unused),
            code,
            phases: self.watch.phases(),
            messages: lines.so_far(),
        };
        self.said.push_str(&reports::after_link(finished)?);
        Ok(())
    }

    /// Writes an output that was not linked here, and its side outputs.
    fn write_finished(
        &mut self,
        session: &Session,
        bytes: &[u8],
        gathered: &Inputs<'_>,
        link_options: &LinkOptions,
        lines: &mut LineList,
    ) -> Result<(), Line> {
        let Some(path) = self.options.output() else { return Ok(()) };
        let start = Instant::now();
        output::write(path, bytes).map_err(|error| FileError::output(path, &error))?;
        self.time("write", start);
        self.report_link(vec![watch::output_stats(bytes.len() as u64)], lines)?;
        let is_cubin = !self.options.flag(OptionId::EmitPtx);
        let code = is_cubin.then_some(LinkedCode::Cubin(bytes));
        self.report(session, gathered, link_options, code, &[], lines)
    }

    /// A phase that began at `start` has ended.
    fn time(&mut self, name: &str, start: Instant) {
        self.phase(name, start, start.elapsed());
    }

    fn phase(&mut self, name: &str, start: Instant, time: Duration) {
        self.watch.add(name, start, time);
        if let Some(timing) = &mut self.timing {
            let output = self.options.output().map(culd_text::name).unwrap_or_default();
            timing.phase(name, &output, time);
        }
    }

    /// The outputs of `--stats`, those of `counted` first, and `--trace`.
    fn report_link(&self, counted: Vec<String>, lines: &mut LineList) -> Result<(), Line> {
        if self.options.flag(OptionId::Stats) {
            let stats = counted.into_iter().chain(self.watch.stats());
            lines.extend(stats.map(|text| Line::plain(LineKind::Dump, text)));
        }
        if let Some(path) = self.options.path(OptionId::Trace) {
            let written = output::write(path, self.watch.trace().as_bytes());
            written.map_err(|error| FileError::output(path, &error))?;
        }
        Ok(())
    }

    /// Writes the linked cubin to the file at `path`; one that is to be verified is read again
    /// before it takes its place.
    fn write(
        &mut self,
        session: &Session,
        image: &Image<'_, '_>,
        path: &Path,
    ) -> Result<(), AttemptStop> {
        let failed = |error: io::Error| FileError::output(path, &error);
        if let OutputState::Not = self.written {
            *self.written = OutputState::Begun(Replacement::begin(path).map_err(failed)?);
        }
        let OutputState::Begun(output) = &*self.written else { return Ok(()) };
        let verified = |bytes: &[u8]| match job::verified(bytes) {
            Err(_) if self.store.has_maps() => Err(AttemptStop::Changed(InputChange)),
            verified => Ok(verified?),
        };
        let verifies = self.options.flag(OptionId::Verify);
        if output.is_in_place() {
            let bytes = image.to_vec(session);
            if verifies {
                verified(&bytes)?;
            }
            self.unchanged(session)?;
            output.write_at(0, &bytes).map_err(failed)?;
        } else {
            output.reserve(image.size());
            image.write(session, output).map_err(failed)?;
            if verifies {
                let bytes = output.written().map_err(failed)?;
                verified(&bytes)?;
            }
            self.unchanged(session)?;
        }
        if let OutputState::Begun(output) = std::mem::replace(self.written, OutputState::Whole) {
            output.commit().map_err(failed)?;
        }
        Ok(())
    }

    fn unchanged(&self, session: &Session) -> Result<(), AttemptStop> {
        match self.store.change(session) {
            FileChange::None => Ok(()),
            FileChange::Perhaps | FileChange::Certain(_) => Err(AttemptStop::Changed(InputChange)),
        }
    }

    fn write_register_file(
        &self,
        gathered: &Inputs<'_>,
        system: SystemLibrary,
        lines: &mut LineList,
    ) {
        let Some(path) = self.options.path(OptionId::RegisterFile) else { return };
        let existing = files::read_limited(path, Kinds::Files, registration::MAX_FILE).ok();
        if existing.is_some_and(|existing| registration::keeps(&existing, system)) {
            return;
        }
        let emits_ptx = self.options.flag(OptionId::EmitPtx) && !gathered.lto.is_empty();
        // docs/rules/lto.md, 5.
        if emits_ptx {
            return;
        }
        let text = gathered.registration.register_file(system, gathered.whole);
        if let Err(error) = output::write(path, &text) {
            lines.push(FileError::output(path, &error));
        }
    }
}
