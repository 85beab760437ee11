//! One run from options to files.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use culd_link::{Counts, Image, Input, LinkOptions, Output as _, Session, Severity};
use thiserror::Error;

use crate::files::Replacement;
use crate::input::{Gathered, Item, Module, Store};
use crate::job::{self, Job, Staged};
use crate::lines::{Kind, Line, Lines, Outcome, warning_severity};
use crate::options::{Id, Options, Parsed, Request, Target, UsageError};
use crate::progress::{self, Progress};
use crate::timing::Timing;
use crate::watch::Watch;
use crate::{dialect, files, heap, host_script, index, register};

/// What goes wrong around a link. Texts are nvlink's where it has them.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("Could not open output file '{0}'")]
    Output(String),
    #[error("Internal error: writing file")]
    Writing,
    #[error("--verify: {0}; this is a defect of culd, and nothing was written")]
    Unsound(String),
    #[error("Could not read file '{0}'")]
    Changed(String),
    #[error("Cannot open file '{0}'")]
    Time(String),
    #[error(
        "Option '--preserve-relocs' is not fully implemented for gpu archtecture '{0}' and may not \
         work as expected"
    )]
    PreserveRelocs(String),
    #[error("incompatible redefinition for option '{0}', the last value of this option was used")]
    Redefined(&'static str),
    #[error("ignore -use-host-info because -kernels-used or -variables-used is specified")]
    HostInfoIgnored,
}

impl FileError {
    /// The line about an output that could not be written.
    pub(crate) fn output(path: &str, error: &io::Error) -> Line {
        // nvlink tells a full disk otherwise, and no path.
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match full {
            true => Line::new(Severity::Fatal, FileError::Writing)
                .with_notes(vec![format!("'{path}': {error}")]),
            false => Line::new(Severity::Fatal, FileError::Output(path.to_owned()))
                .with_notes(vec![error.to_string()]),
        }
    }
}

/// What a whole command line comes to: text for standard output, and how it ended.
pub fn command(parsed: Parsed) -> (String, Outcome) {
    let redefined = parsed.redefined.into_iter();
    let mut first: Vec<Line> =
        redefined.map(|name| Line::new(Severity::Warning, FileError::Redefined(name))).collect();
    if parsed.ignores_host_info {
        let mut told = Lines::of(parsed.told_target.as_deref());
        told.push(Line::new(Severity::Info, FileError::HostInfoIgnored));
        first.append(&mut told.end().lines);
    }
    let (text, mut outcome) = match parsed.request {
        Ok(Request::Print(text)) => (text, Outcome::success()),
        Ok(Request::HostScript(options)) => host_script::make(&options),
        Ok(Request::Link(options)) => run(&options),
        Err(error) => {
            let mut lines = Lines::of(parsed.told_target.as_deref());
            let notes = if parsed.notes { error.notes() } else { Vec::new() };
            lines.push(Line::new(Severity::Fatal, error).with_notes(notes));
            (String::new(), lines.end())
        }
    };
    outcome.lines.splice(0..0, first);
    (text, outcome)
}

/// Links as `options` say and writes the outputs; returns what is for standard output.
pub fn run(options: &Options) -> (String, Outcome) {
    let Some(target) = options.target else { return (String::new(), UsageError::NoArch.into()) };
    let mut lines = Lines::new(options, &target.name());
    lines.extend(preserve_relocs(options, target));
    let mut timing = None;
    if let Some(path) = options.text(Id::Time) {
        match Timing::open(path, &target.name()) {
            Ok(opened) => timing = Some(opened),
            Err(error) => {
                let line = Line::new(Severity::Fatal, FileError::Time(path.to_owned()));
                lines.push(line.with_notes(vec![error.to_string()]));
                return (String::new(), lines.end());
            }
        }
    }
    let watch = Watch::start();
    let progress = Progress::start();
    let phase = progress.phase();
    // All inputs stay until the process ends, which gives them back at once.
    let store: &Store = Box::leak(Box::new(Store::mapping()));
    let run = Run { options, store, target, timing: timing.as_mut(), watch, phase };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.run(&mut lines))) {
        // What was checked once need not hold for a file that changes.
        lines.push(
            unchanged(store, &Session::serial()).err().unwrap_or_else(|| resume_unwind(panic)),
        );
    }
    drop(progress);
    let table = timing.map_or(Ok(String::new()), Timing::finish);
    // Like nvlink, culd does not let a table of times spoil a link.
    (table.unwrap_or_default(), lines.end())
}

/// What nvlink says of its own `--preserve-relocs`, spelling and all.
fn preserve_relocs(options: &Options, target: Target) -> Option<Line> {
    let said = options.flag(Id::PreserveRelocs) && !options.flag(Id::DisableInfos);
    let text = || FileError::PreserveRelocs(target.name());
    (said && target.arch().sm >= 90).then(|| Line::new(warning_severity(options), text()))
}

/// A link that is being made.
struct Run<'o> {
    options: &'o Options,
    store: &'static Store,
    target: Target,
    timing: Option<&'o mut Timing>,
    watch: Watch,
    /// Tells the line on the terminal.
    phase: progress::Phase,
}

impl Run<'_> {
    fn run(mut self, lines: &mut Lines) {
        let options = self.options;
        let index = match index::read(options) {
            Ok(index) => index,
            Err(line) => return lines.push(line),
        };
        let threads = options.number(Id::Threads).and_then(|n| usize::try_from(n).ok());
        let phase = self.phase.clone();
        let session = Session::with_threads(threads.unwrap_or(0))
            .watched(move |name| phase.begin(name))
            .growing_heaps(heap::grow);
        let start = Instant::now();
        self.phase.begin("inputs");
        let items: &[Item<'_>] = Vec::leak(options.inputs.iter().map(Item::named).collect());
        let dialect = dialect::chosen(options);
        let job = Job { options, target: self.target, index, dialect, session: &session };
        let staged = job.stage(items, self.store, lines);
        self.time("inputs", start);
        if let Some(timing) = &mut self.timing {
            timing.compilations(&staged.gathered.times);
        }
        if !staged.ready {
            return;
        }
        let Staged { gathered, link_options, .. } = staged;
        let system = if let Target::Virtual(_) = self.target {
            false
        } else if let Some(finished) = &gathered.finished {
            self.write_finished(finished, lines);
            false
        } else {
            match self.link(&session, &gathered, &link_options, lines) {
                Some(system) => system,
                None => return,
            }
        };
        self.write_register_file(&gathered, system, lines);
    }

    /// Links and writes the output; returns whether a system library is part of it, `None` if that is of no use because
    /// the link failed.
    fn link(
        &mut self,
        session: &Session,
        gathered: &Gathered<'static>,
        link_options: &LinkOptions,
        lines: &mut Lines,
    ) -> Option<bool> {
        let inputs = gathered.link_inputs();
        let mut start = Instant::now();
        let outcome = culd_link::prepare(session, &inputs, link_options);
        for phase in &outcome.phases {
            self.phase(phase.name, start, phase.time);
            start += phase.time;
        }
        let used = |(place, input): (usize, &Input<'_>)| {
            input.system && outcome.unused.binary_search(&place).is_err()
        };
        let system = inputs.iter().enumerate().any(used);
        lines.extend(job::explained(outcome.diagnostics, gathered));
        if let Some(report) = outcome.report.filter(|_| self.options.flag(Id::Verbose)) {
            lines.extend(report.lines().iter().map(|text| Line::new(Severity::Info, text)));
        }
        if lines.fatal() {
            return None;
        }
        let image = outcome.image.filter(|_| !lines.failed());
        if let (Some(image), Some(path)) = (image, self.options.output()) {
            let input_bytes = inputs.iter().map(|input| input.bytes.len() as u64).sum();
            let written = self.output(session, image, path, input_bytes, lines);
            written.map_err(|line| lines.push(line)).ok()?;
        }
        Some(system)
    }

    fn output(
        &mut self,
        session: &Session,
        image: Image<'_, '_>,
        path: &str,
        input_bytes: u64,
        lines: &mut Lines,
    ) -> Result<(), Line> {
        let start = Instant::now();
        self.phase.begin("write");
        let counts = self.options.flag(Id::Stats).then(|| image.counts());
        let written = self.write(session, &image, path);
        // What the image was made of stays until the process ends, as the inputs do.
        std::mem::forget(image);
        written?;
        self.time("write", start);
        self.tell(input_bytes, counts, lines)
    }

    /// Writes an output that was not linked here.
    fn write_finished(&self, bytes: &[u8], lines: &mut Lines) {
        if let Some(path) = self.options.output()
            && let Err(error) = files::write(path, bytes)
        {
            lines.push(FileError::output(path, &error));
        }
    }

    /// A phase that began at `start` has ended.
    fn time(&mut self, name: &str, start: Instant) {
        self.phase(name, start, start.elapsed());
    }

    fn phase(&mut self, name: &str, start: Instant, time: Duration) {
        self.watch.add(name, start, time);
        let output = self.options.output().unwrap_or_default();
        if let Some(timing) = &mut self.timing {
            timing.phase(name, output, time);
        }
    }

    /// What `--stats` and `--trace` ask for.
    fn tell(
        &self,
        input_bytes: u64,
        counts: Option<Counts>,
        lines: &mut Lines,
    ) -> Result<(), Line> {
        if let Some(counts) = counts {
            let stats = self.watch.stats(input_bytes, &counts);
            lines.extend(stats.into_iter().map(|text| Line::plain(Kind::Dump, text)));
        }
        if let Some(path) = self.options.text(Id::Trace) {
            let written = files::write(path, self.watch.trace().as_bytes());
            written.map_err(|error| FileError::output(path, &error))?;
        }
        Ok(())
    }

    /// Writes the linked cubin to the file at `path`; one that is to be verified is read again before it takes its place.
    fn write(&self, session: &Session, image: &Image<'_, '_>, path: &str) -> Result<(), Line> {
        let failed = |error: io::Error| FileError::output(path, &error);
        let verified = self.options.flag(Id::Verify);
        let replacement = Replacement::begin(path).map_err(failed)?;
        if replacement.is_stream() {
            let bytes = image.to_vec(session);
            if verified {
                verify(&bytes)?;
            }
            unchanged(self.store, session)?;
            replacement.write_at(0, &bytes).map_err(failed)?;
        } else {
            replacement.reserve(image.size());
            image.write(session, &replacement).map_err(failed)?;
            if verified {
                verify(&replacement.written().map_err(failed)?)?;
            }
            unchanged(self.store, session)?;
        }
        replacement.commit().map_err(failed)
    }

    /// `system`: the system library is linked.
    fn write_register_file(&self, gathered: &Gathered<'_>, system: bool, lines: &mut Lines) {
        let Some(path) = self.options.text(Id::RegisterFile) else { return };
        let counts = |module: &&Module<'_>| system || !module.system;
        let modules: Vec<_> = gathered.modules.iter().filter(counts).collect();
        if let Err(error) = files::write(path, &register::text(&modules)) {
            lines.push(FileError::output(path, &error));
        }
    }
}

/// An error if a file changed since it was opened.
fn unchanged(store: &Store, session: &Session) -> Result<(), Line> {
    let Some(path) = store.changed(session) else { return Ok(()) };
    let note = "it changed while it was linked".to_owned();
    Err(Line::new(Severity::Fatal, FileError::Changed(path)).with_notes(vec![note]))
}

/// The line about an image that is not sound.
pub(crate) fn verify(image: &[u8]) -> Result<(), Line> {
    let unsound = |what| Line::new(Severity::Fatal, FileError::Unsound(what));
    crate::verify::verify(image).map_err(unsound)
}
