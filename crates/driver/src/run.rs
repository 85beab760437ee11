//! One link from options to output file.

use culd_cubin::arch::Arch;
use culd_cubin::note::ToolRecord;
use culd_link::{Diagnostic, Input, LinkOptions, Session, Severity, link};
use thiserror::Error;

use crate::files::{self, Bytes};
use crate::options::{Id, Options, Parsed, Request, UsageError, not_yet};

/// One line for the user, ready to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How bad it is.
    pub severity: Severity,
    /// What it says.
    pub text: String,
    /// Lines below it that explain it.
    pub notes: Vec<String>,
}

/// What a note begins with: as in lld and mold, and nothing that tools search for.
pub const NOTE: &str = "  >>> ";

impl Line {
    /// The line as the program `program` prints it, with nvlink's padding; without notes.
    pub fn show(&self, program: &str) -> String {
        let severity = match self.severity {
            Severity::Info => "info   ",
            Severity::Warning => "warning",
            Severity::Error => "error  ",
            Severity::Fatal => "fatal  ",
        };
        format!("{program} {severity} : {}", self.text)
    }

    /// The notes as they are printed.
    pub fn show_notes(&self) -> impl Iterator<Item = String> {
        self.notes.iter().map(|note| format!("{NOTE}{note}"))
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// 0, 1 after a fatal line, 255 after errors.
    pub status: u8,
    /// What to print to standard error.
    pub lines: Vec<Line>,
}

/// What goes wrong around a link. Texts are nvlink's where it has them.
#[derive(Debug, Error)]
enum FileError {
    #[error("Could not open input file '{0}'")]
    Open(String),
    #[error("Could not open output file '{path}': {error}")]
    Output { path: String, error: std::io::Error },
    #[error("incompatible redefinition for option '{0}', the last value of this option was used")]
    Redefined(&'static str),
    #[error("Input file '{0}' is empty and was ignored")]
    Empty(String),
}

/// The lines of a run.
struct Lines {
    lines: Vec<Line>,
    suffix: String,
    /// What a warning is.
    warning: Severity,
}

impl Lines {
    fn push(&mut self, severity: Severity, text: impl ToString) {
        self.push_explained(severity, text, Vec::new());
    }

    fn push_explained(&mut self, severity: Severity, text: impl ToString, notes: Vec<String>) {
        let text = format!("{}{}", text.to_string(), self.suffix);
        self.lines.push(Line { severity, text, notes });
    }

    fn worst(&self) -> Option<Severity> {
        self.lines.iter().map(|line| line.severity).max()
    }

    fn end(self) -> Outcome {
        let status = match self.worst() {
            Some(Severity::Fatal) => 1,
            Some(Severity::Error) => 255,
            _ => 0,
        };
        Outcome { status, lines: self.lines }
    }
}

impl Outcome {
    /// One fatal line.
    pub(crate) fn fatal(text: impl ToString) -> Self {
        let line = Line { severity: Severity::Fatal, text: text.to_string(), notes: Vec::new() };
        Outcome { status: 1, lines: vec![line] }
    }
}

impl From<UsageError> for Outcome {
    fn from(error: UsageError) -> Self {
        Outcome::fatal(error)
    }
}

/// What a whole command line comes to: text for standard output, or a link.
pub fn command(parsed: Parsed) -> (String, Outcome) {
    let redefined = parsed.redefined.into_iter().map(|name| Line {
        severity: Severity::Warning,
        text: FileError::Redefined(name).to_string(),
        notes: Vec::new(),
    });
    let lines: Vec<Line> = redefined.collect();
    let (text, mut outcome) = match parsed.request {
        Ok(Request::Print(text)) => (text, Outcome { status: 0, lines: Vec::new() }),
        Ok(Request::HostScript(_)) => {
            (String::new(), UsageError::NotSupported("gen-host-linker-script").into())
        }
        Ok(Request::Link(options)) => (String::new(), run(&options)),
        Err(error) => (String::new(), error.into()),
    };
    outcome.lines.splice(0..0, lines);
    (text, outcome)
}

/// Links as `options` say and writes the output.
pub fn run(options: &Options) -> Outcome {
    let Some(target) = options.target else { return UsageError::NoArch.into() };
    let Some(output) = options.output() else { return UsageError::NoOutput.into() };
    if let Err(error) = not_yet(options) {
        return error.into();
    }
    let arch = target.arch();
    let suffix = match options.flag(Id::ReportArch) {
        true => format!(" (target: {})", target.name()),
        false => String::new(),
    };
    let warning = match options.flag(Id::WarningsAreErrors) {
        true => Severity::Error,
        false => Severity::Warning,
    };
    let mut lines = Lines { lines: Vec::new(), suffix, warning };
    let threads = options.number(Id::Threads).and_then(|n| usize::try_from(n).ok());
    let session = Session::with_threads(threads.unwrap_or(0));
    let Some(files) = read_inputs(options, &mut lines) else { return lines.end() };
    let inputs: Vec<Input<'_>> = files.iter().map(|(name, bytes)| Input { name, bytes }).collect();
    let link_options = link_options(options, arch);
    let outcome = link(&session, &inputs, &link_options);
    for Diagnostic { severity, message, notes } in outcome.diagnostics {
        let notes = if options.flag(Id::NoNotes) { Vec::new() } else { notes };
        lines.push_explained(severity, message, notes.iter().map(ToString::to_string).collect());
    }
    if let Some(report) = outcome.report.filter(|_| options.flag(Id::Verbose)) {
        report.lines().into_iter().for_each(|line| lines.push(Severity::Info, line));
    }
    let clean = lines.worst() < Some(Severity::Error);
    if let Some(image) = outcome.image.filter(|_| clean)
        && let Err(error) = files::write(output, &image)
    {
        let path = output.to_owned();
        lines.push(Severity::Fatal, FileError::Output { path, error });
    }
    lines.end()
}

/// The library's options for a link to `arch` as `options` say.
pub fn link_options(options: &Options, arch: &'static Arch) -> LinkOptions {
    let tool = ToolRecord {
        object: options.object_name().to_owned(),
        tool: "culd".to_owned(),
        release: format!("culd {}", crate::VERSION),
        build: "follows nvlink 13.0.88".to_owned(),
        options: options.normalised(),
    };
    let mut link_options = LinkOptions::new(arch, tool);
    link_options.suppress_stack_size_warning = options.flag(Id::SuppressStackSizeWarning);
    link_options.debug = options.flag(Id::Debug);
    link_options.warnings_are_errors = options.flag(Id::WarningsAreErrors);
    link_options.disable_infos = options.flag(Id::DisableInfos);
    link_options
}

/// All inputs, or `None` after a fatal line.
fn read_inputs<'o>(options: &'o Options, lines: &mut Lines) -> Option<Vec<(&'o str, Bytes)>> {
    let mut files = Vec::with_capacity(options.inputs.len());
    for path in &options.inputs {
        match files::read(path) {
            Ok(bytes) if bytes.is_empty() => {
                lines.push(lines.warning, FileError::Empty(path.clone()));
            }
            Ok(bytes) => files.push((path.as_str(), bytes)),
            Err(_) => {
                lines.push(Severity::Fatal, FileError::Open(path.clone()));
                return None;
            }
        }
    }
    Some(files)
}
