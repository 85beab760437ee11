//! Side outputs of a link: reports, maps, tables, the archive that links it again.
//!
//! In: options, the gathered inputs, the result of the link. Out: files, and text for standard
//! output. Guaranteed: the output does not change; a file is replaced only by a complete new one;
//! only requested reports are computed.

mod dependencies;
mod names;
mod places;
mod reproduce;

use std::path::Path;

use culd_cubin::arch::Arch;
use culd_link::{Dialect, Session, Severity};
use culd_report::{
    LinkedCode, Report, ReportInput, ReportMessage, ReportPhase, ReportReason, ReportedLink,
};

use crate::input::{Inputs, LinkCubin};
use crate::messages::{FileError, Line, LineKind, NOTE};
use crate::options::{CommandOptions, OptionArity, OptionId, OptionRow, Origin, TABLE, Target};
use crate::os::output;

pub(crate) use places::check as check_places;
pub(crate) use reproduce::reproduce;

/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Options that name a file for a side output.
const OWN_FILES: &[OptionId] = &[
    OptionId::Report,
    OptionId::Map,
    OptionId::CallGraph,
    OptionId::WhyExtract,
    OptionId::Reproduce,
    OptionId::DependencyFile,
    OptionId::Trace,
];

/// Options that say what is in the linked cubin.
const ABOUT_CUBIN: &[OptionId] = &[
    OptionId::Report,
    OptionId::Map,
    OptionId::CallGraph,
    OptionId::PrintGcSections,
    OptionId::PrintMemoryUsage,
    OptionId::WhyLive,
];

/// True if one of the options was given.
fn any(options: &CommandOptions, ids: &[OptionId]) -> bool {
    ids.iter().any(|&id| options.values(id).is_some())
}

/// True if an option needs the account of the link.
pub(crate) fn need_account(options: &CommandOptions) -> bool {
    any(options, ABOUT_CUBIN)
}

/// True if an option asks for a side output after a successful link.
pub(crate) fn any_after_link(options: &CommandOptions) -> bool {
    need_account(options) || any(options, &[OptionId::Cref, OptionId::WhyExtract])
}

/// The text for standard output about the inputs. It is printed before the link, so also if the
/// link fails.
pub(crate) fn before_link(options: &CommandOptions, gathered: &Inputs<'_>) -> Result<String, Line> {
    let mut text = String::new();
    let traced: Vec<String> =
        options.list(OptionId::TraceSymbol).iter().map(culd_text::name).collect();
    if !traced.is_empty() {
        text.push_str(&names::traced(&gathered.inputs, &traced));
    }
    if let Some(path) = options.path(OptionId::DependencyFile) {
        let rule = dependencies::rule(options, gathered);
        match is_standard_output(path) {
            true => text.push_str(&culd_text::bytes(&rule)),
            false => write(path, &rule)?,
        }
    }
    Ok(text)
}

/// Notes about options that have no effect: a pattern of `-kernels-used` that matches no kernel,
/// a name of `-u` that no input defines, a report of a link that makes no cubin. nvlink has no such
/// notes.
pub(crate) fn notes(options: &CommandOptions, target: Target, gathered: &Inputs<'_>) -> Vec<Line> {
    let patterns = options.list(OptionId::KernelsUsed);
    let roots = options.list(OptionId::Undefined);
    let unreported = unreported(options, target, gathered);
    if options.flag(OptionId::NoNotes)
        || patterns.is_empty() && roots.is_empty() && unreported.is_empty()
    {
        return Vec::new();
    }
    let mut notes = match &gathered.finished {
        None => [
            names::unmatched(&gathered.inputs, patterns),
            names::undefined(&gathered.inputs, roots),
        ]
        .concat(),
        Some(_) if options.flag(OptionId::EmitPtx) => Vec::new(),
        Some(bytes) => names::unmatched(&[LinkCubin::of_lto_ir(bytes)], patterns),
    };
    if gathered.finished.is_some() && !roots.is_empty() {
        notes.push("'--undefined' has no effect: LTO-IR is all of the program".to_owned());
    }
    notes.extend(unreported);
    notes.into_iter().map(|note| Line::plain(LineKind::Dump, format!("{NOTE}{note}"))).collect()
}

/// Notes about options that say what is in a cubin, where none is made.
fn unreported(options: &CommandOptions, target: Target, gathered: &Inputs<'_>) -> Vec<String> {
    let (ids, why) = match target {
        Target::Virtual(_) if gathered.finished.is_none() => (
            &[ABOUT_CUBIN, &[OptionId::Cref, OptionId::WhyExtract, OptionId::Trace]].concat()[..],
            format!("-arch={} links nothing", target.name()),
        ),
        _ if gathered.finished.is_some() && options.flag(OptionId::EmitPtx) => {
            (ABOUT_CUBIN, "-emit-ptx makes PTX and no cubin".to_owned())
        }
        _ => return Vec::new(),
    };
    let given = ids.iter().filter(|&&id| options.values(id).is_some());
    given.map(|&id| format!("'--{}' has no effect: {why}", OptionRow::of(id).long)).collect()
}

/// The result of a link, for its side outputs.
pub(crate) struct FinishedLink<'a> {
    /// Its threads make the reports.
    pub(crate) session: &'a Session,
    pub(crate) options: &'a CommandOptions,
    pub(crate) gathered: &'a Inputs<'a>,
    pub(crate) target: &'static Arch,
    pub(crate) dialect: &'static Dialect,
    /// See [`crate::origins::inputs`].
    pub(crate) inputs: (Vec<ReportInput>, Vec<usize>),
    /// `None` if no option needs it, or if there is no cubin.
    pub(crate) code: Option<LinkedCode<'a>>,
    pub(crate) phases: Vec<ReportPhase>,
    pub(crate) messages: &'a [Line],
}

/// Writes the files that the options ask for; returns text for standard output.
pub(crate) fn after_link(finished: FinishedLink<'_>) -> Result<String, Line> {
    let (options, target, gathered) = (finished.options, finished.target, finished.gathered);
    let session = finished.session;
    let mut text = String::new();
    let mut say = |lines: Vec<String>| {
        for line in lines {
            text.push_str(&escaped_but_tabs(&line));
            text.push('\n');
        }
    };
    if let Some(path) = options.path(OptionId::WhyExtract) {
        let table = extracted(&finished.inputs.0);
        match is_standard_output(path) {
            true => say(table),
            false => write(path, lines(&table).as_bytes())?,
        }
    }
    if options.flag(OptionId::Cref) {
        say(names::cross_references(&gathered.inputs));
    }
    let Some(code) = finished.code else { return Ok(text) };
    let link = reported(finished, code);
    let paths = || options.list(OptionId::Report).iter().map(Path::new);
    for path in paths().filter(|path| !is_standard_output(path)) {
        match ending(path) {
            Some("json") => {
                let written = output::write_by(path, |sink| link.write_json(session, sink));
                written.map_err(|error| FileError::output(path, &error))?;
            }
            Some("html" | "htm") => write(path, &link.to_page_in(session))?,
            _ => {}
        }
    }
    if !needs_report(options) {
        return Ok(text);
    }
    let report = Report::of_link(link);
    if options.flag(OptionId::PrintGcSections) {
        say(report.removed_lines());
    }
    if options.flag(OptionId::PrintMemoryUsage) {
        say(report.memory_lines(target.shared_limit));
    }
    for name in options.list(OptionId::WhyLive) {
        say(report.why_live(&culd_text::name(name)));
    }
    if let Some(path) = options.path(OptionId::Map) {
        match is_standard_output(path) {
            true => text.push_str(&report.to_map()),
            false => write(path, report.to_map().as_bytes())?,
        }
    }
    if let Some(path) = options.path(OptionId::CallGraph) {
        write(path, call_graph(path, &report)?.as_bytes())?;
    }
    for path in paths().filter(|path| is_text(path)) {
        match is_standard_output(path) {
            true => text.push_str(&report.to_text()),
            false => write(path, report.to_text().as_bytes())?,
        }
    }
    Ok(text)
}

/// True if an option asks for something other than JSON and pages, which are made without a report.
fn needs_report(options: &CommandOptions) -> bool {
    let is_other = |id: OptionId| id != OptionId::Report && options.values(id).is_some();
    let text = options.list(OptionId::Report).iter().any(|path| is_text(Path::new(path)));
    text || ABOUT_CUBIN.iter().copied().any(is_other)
}

/// True if the report at `path` is one of text.
fn is_text(path: &Path) -> bool {
    is_standard_output(path) || !matches!(ending(path), Some("json" | "html" | "htm"))
}

fn reported<'a>(finished: FinishedLink<'a>, code: LinkedCode<'a>) -> ReportedLink<'a> {
    ReportedLink {
        output: finished.options.output().map(culd_text::name).unwrap_or_default(),
        target: finished.target,
        dialect: finished.dialect,
        options: words(finished.options),
        phases: finished.phases,
        inputs: finished.inputs.0,
        objects: finished.inputs.1,
        code,
        messages: finished.messages.iter().map(message).collect(),
    }
}

fn call_graph(path: &Path, report: &Report) -> Result<String, Line> {
    let image = report.images.first();
    let drawn = match ending(path) {
        Some("svg") => image.map(|image| image.to_svg()).transpose(),
        _ => Ok(image.map(|image| image.to_dot())),
    };
    let failed = |error| {
        let path = culd_text::name(path);
        Line::new(Severity::Fatal, FileError::Output(path)).with_notes(vec![format!("{error}")])
    };
    Ok(drawn.map_err(failed)?.unwrap_or_default())
}

/// The options as words, without inputs and the output.
fn words(options: &CommandOptions) -> Vec<String> {
    let mut words = Vec::new();
    for row in TABLE {
        let Some(values) = options.values(row.id) else { continue };
        match row.takes {
            _ if row.id == OptionId::Output => {}
            OptionArity::Nothing => words.push(format!("--{}", row.long)),
            _ => words.extend(
                values.iter().map(|value| format!("--{}={}", row.long, culd_text::name(value))),
            ),
        }
    }
    words
}

/// True for an option that nvlink does not have.
fn is_own(id: OptionId) -> bool {
    TABLE[id as usize].origin == Origin::Culd
}

/// A line of the command as a message of a report.
fn message(line: &Line) -> ReportMessage {
    let severity = match line.severity() {
        Some(Severity::Warning) => "warning",
        Some(Severity::Error) => "error",
        Some(Severity::Fatal) => "fatal",
        Some(Severity::Info) | None => "info",
    };
    ReportMessage::new(severity, line.text.clone(), line.notes.clone())
}

/// Why each member of an archive was linked: the table of lld.
fn extracted(inputs: &[ReportInput]) -> Vec<String> {
    let name = |place: usize| inputs.get(place).map_or("", |input| input.name.as_str());
    let members =
        inputs.iter().filter(|input| !input.member.is_empty() && input.ignored.is_empty());
    let row = |input: &ReportInput| {
        let (reference, symbol) = match input.why {
            ReportReason::Undefined => {
                (name(input.caused_by.unwrap_or(usize::MAX)).to_owned(), input.cause.as_str())
            }
            ReportReason::Library => (format!("-l{}", input.cause), ""),
            _ => ("<command line>".to_owned(), ""),
        };
        format!("{reference}\t{}\t{symbol}", input.name)
    };
    std::iter::once("reference\textracted\tsymbol".to_owned()).chain(members.map(row)).collect()
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{}\n", escaped_but_tabs(line))).collect()
}

/// The line with its control characters escaped, except tabs: these separate columns.
fn escaped_but_tabs(line: &str) -> String {
    line.split('\t').map(culd_text::escaped).collect::<Vec<_>>().join("\t")
}

/// The extension of a path: the text behind the last dot.
pub(crate) fn ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Line> {
    output::write(path, bytes).map_err(|error| FileError::output(path, &error))
}
