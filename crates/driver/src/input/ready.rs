//! The images to be linked, unpacked and compiled.
//!
//! In: pieces and lines in the order of the inputs. Out: cubins and lines in that order.
//! Guaranteed: the first input with a defect ends the list, whichever was ready first.

use culd_cubin::arch::Arch;
use culd_fatbin::container::Entry;
use culd_fatbin::{Format, sniff};
use culd_link::Severity;

use super::ptx::{CompileError, Compiled, Compiler, Job};
use super::{
    Event, Gathered, Ignored, InputError, MAX_UNPACKED, Stopped, Store, Time, ignored_severity,
};
use crate::files::Bytes;
use crate::lines::{Line, warning_severity};
use crate::options::{Id, Options};

/// Device code on its way into the link.
pub(super) struct Piece<'a> {
    pub(super) name: String,
    pub(super) system: bool,
    /// The code is a file of its own.
    pub(super) whole_file: bool,
    pub(super) code: Code<'a>,
}

/// Device code as it was found.
pub(super) enum Code<'a> {
    Cubin(&'a [u8]),
    /// A cubin in a fat binary.
    Packed(Entry<'a>),
    Ptx {
        text: &'a [u8],
        options: Vec<u8>,
    },
    /// PTX in a fat binary.
    PackedPtx(Entry<'a>),
}

/// A cubin to be linked.
pub(crate) struct Ready<'a> {
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) bytes: &'a [u8],
    /// Part of a library that is linked only if something needs it.
    #[expect(dead_code, reason = "the linker is to drop system libraries that nothing needs")]
    pub(crate) system: bool,
}

/// Code as bytes, or why not.
enum Made<'a> {
    Cubin(&'a [u8]),
    /// The place of the job.
    Ptx(usize),
    Broken(culd_fatbin::Error),
}

/// Turns `events` into inputs of the link and lines.
pub(super) fn ready<'a>(
    options: &Options,
    target: &Arch,
    events: Vec<Event<'a>>,
    found: &mut Gathered<'a>,
    lines: &mut Vec<Line>,
    store: &'a Store,
    threads: usize,
) -> Result<(), Stopped> {
    let mut unpacker = Unpacker { store, left: MAX_UNPACKED, jobs: Vec::new() };
    let made: Vec<Option<Made<'a>>> = events
        .iter()
        .map(|event| match event {
            Event::Piece(piece) => Some(unpacker.make(&piece.code)),
            Event::Line(_) => None,
        })
        .collect();
    let jobs = unpacker.jobs;
    let mut compiled: Vec<Option<Compiled>> = if jobs.is_empty() {
        Vec::new()
    } else {
        Compiler::new(options, target.name).compile(&jobs, threads).into_iter().map(Some).collect()
    };
    let mut finish = Finish { options, store, found, lines };
    for (event, made) in events.into_iter().zip(made) {
        match (event, made) {
            (Event::Line(line), _) => finish.lines.push(line),
            (Event::Piece(piece), Some(Made::Cubin(bytes))) => finish.cubin(piece, bytes)?,
            (Event::Piece(piece), Some(Made::Ptx(place))) => {
                if let Some(compiled) = compiled.get_mut(place).and_then(Option::take) {
                    finish.compiled(piece, compiled)?;
                }
            }
            (Event::Piece(piece), Some(Made::Broken(error))) => {
                return Err(finish.broken(&piece, &error));
            }
            (Event::Piece(_), None) => {}
        }
    }
    Ok(())
}

struct Unpacker<'a> {
    store: &'a Store,
    /// Bytes that may still be unpacked.
    left: u64,
    jobs: Vec<Job<'a>>,
}

impl<'a> Unpacker<'a> {
    fn make(&mut self, code: &Code<'a>) -> Made<'a> {
        match code {
            Code::Cubin(bytes) => Made::Cubin(bytes),
            Code::Packed(entry) => match self.unpack(entry) {
                Ok(bytes) => Made::Cubin(bytes),
                Err(error) => Made::Broken(error),
            },
            Code::Ptx { text, options } => self.job(text, options),
            Code::PackedPtx(entry) => match self.unpack(entry) {
                Ok(text) => self.job(text, entry.options().unwrap_or_default()),
                Err(error) => Made::Broken(error),
            },
        }
    }

    fn job(&mut self, text: &'a [u8], options: &[u8]) -> Made<'a> {
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let text = text.get(..end).unwrap_or_default();
        let options = options.split(|&byte| byte == 0).next().unwrap_or_default();
        let options = String::from_utf8_lossy(options).into_owned();
        self.jobs.push(Job { text, options });
        Made::Ptx(self.jobs.len() - 1)
    }

    fn unpack(&mut self, entry: &Entry<'a>) -> Result<&'a [u8], culd_fatbin::Error> {
        match entry.data(self.left)? {
            std::borrow::Cow::Borrowed(bytes) => Ok(bytes),
            std::borrow::Cow::Owned(bytes) => {
                self.left -= bytes.len() as u64;
                Ok(&**self.store.alloc(Bytes::Read(bytes)))
            }
        }
    }
}

struct Finish<'a, 'f, 'o> {
    options: &'o Options,
    store: &'a Store,
    found: &'f mut Gathered<'a>,
    lines: &'f mut Vec<Line>,
}

impl<'a> Finish<'a, '_, '_> {
    fn say(&mut self, severity: Severity, text: impl ToString, notes: Vec<String>) {
        self.lines.push(Line::new(severity, text).with_notes(notes));
    }

    fn fatal(&mut self, error: InputError, notes: Vec<String>) -> Stopped {
        self.say(Severity::Fatal, error, notes);
        Stopped
    }

    fn cubin(&mut self, piece: Piece<'_>, bytes: &'a [u8]) -> Result<(), Stopped> {
        let Piece { name, system, .. } = piece;
        match sniff(bytes) {
            Format::ExecutableCubin => {
                if let Some(severity) = ignored_severity(self.options) {
                    self.say(severity, Ignored::Linked(name), Vec::new());
                }
                Ok(())
            }
            Format::RelocatableCubin => {
                if self.options.lto() {
                    self.say(Severity::Info, InputError::PartialLto(name.clone()), Vec::new());
                }
                self.found.inputs.push(Ready { name, bytes, system });
                Ok(())
            }
            _ => Err(self.fatal(InputError::NotCubin(name), Vec::new())),
        }
    }

    fn compiled(&mut self, piece: Piece<'_>, compiled: Compiled) -> Result<(), Stopped> {
        let Compiled { cubin, lines, time } = compiled;
        self.lines.extend(lines.into_iter().map(Line::of_tool));
        let (file, whole_file) = (piece.name.clone(), piece.whole_file);
        self.found.times.push(Time { whole_file, file, milliseconds: time });
        match cubin {
            Ok(bytes) => {
                let bytes = &**self.store.alloc(Bytes::Read(bytes));
                self.cubin(piece, bytes)
            }
            Err(CompileError::Refused) => {
                let note = format!("in '{}'", piece.name);
                Err(self.fatal(InputError::Fatbinary, vec![note]))
            }
            Err(error) => {
                let (file, error) = (piece.name, error.to_string());
                Err(self.fatal(InputError::Compiler { file, error }, Vec::new()))
            }
        }
    }

    fn broken(&mut self, piece: &Piece<'_>, error: &culd_fatbin::Error) -> Stopped {
        let note = format!("in '{}', {error}", piece.name);
        self.say(Severity::Error, InputError::Uncompress, vec![note]);
        self.fatal(InputError::Fatbinary, Vec::new())
    }
}

/// What `-lto` says when nothing was made for it.
pub(crate) fn no_lto(options: &Options) -> Vec<Line> {
    let quiet = options.flag(Id::DisableInfos);
    if !options.lto() || quiet {
        return Vec::new();
    }
    let severity = warning_severity(options);
    let mut lines = vec![Line::new(severity, InputError::NoLto)];
    if severity == Severity::Error {
        lines.push(Line::new(Severity::Fatal, InputError::MergeFailed));
    }
    lines
}
