//! The images to be linked, unpacked and compiled.
//!
//! In: pieces and lines in the order of the inputs. Out: cubins and lines in that order.
//! Guaranteed: the first input with a defect ends the list, whichever was ready first.

use std::borrow::Cow;

use culd_cubin::text_of;
use culd_fatbin::container::{FatbinEntry, Unpacker};
use culd_fatbin::{Format, sniff};
use culd_link::{Input, Session, Severity};

use super::compilation::{PtxCompilation, PtxJob};
use super::gathered::{
    CompileTime, CubinOrigin, DeviceCode, InputEvent, InputPiece, InputStop, Inputs, LinkCubin,
    MAX_UNPACKED, ignored_severity,
};
use super::ptx::CompileError;
use crate::hints::{UnlinkedCode, UnlinkedReason};
use crate::interfaces;
use crate::messages::{Cause, Ignored, InputError, Line, LineKind, warning_severity};
use crate::options::{CommandOptions, OptionId};
use crate::os::files::{InputBytes, Store};

/// The note below an unknown option. A later ptxas may have more options, and it is not known which
/// of them name files.
const UNKNOWN_OPTION: &str = "the input asks for an option that ptxas does not document up to CUDA 13.5, and only such are passed on; code for the \
     target in the input needs none";

/// Code as bytes, or the reason why there are none.
enum Unpacking<'a> {
    Cubin(&'a [u8]),
    /// The place of the job.
    Ptx(usize),
    Broken(culd_fatbin::Error),
    /// It belongs to a system library that is not needed.
    LeftOut,
}

/// Turns `events` into inputs of the link and lines. `compile` is called if there is PTX.
pub(super) fn ready<'a>(
    options: &CommandOptions,
    compile: impl FnOnce(&[PtxJob<'_>]) -> Vec<PtxCompilation>,
    events: Vec<InputEvent<'a>>,
    found: &mut Inputs<'a>,
    lines: &mut Vec<Line>,
    store: &'a Store,
    session: &Session,
) -> Result<(), InputStop> {
    let pieces: Vec<&InputPiece<'a>> = events.iter().filter_map(InputEvent::piece).collect();
    let (mut jobs, mut texts) = (Vec::new(), Vec::new());
    let made: Vec<Unpacking<'a>> = unpack_needed(options, &pieces, store, session)
        .into_iter()
        .zip(&pieces)
        .map(|(bytes, piece)| match (bytes, piece.code.ptx_options()) {
            (None, _) => Unpacking::LeftOut,
            (Some(Err(error)), _) => Unpacking::Broken(error),
            (Some(Ok(bytes)), None) => Unpacking::Cubin(bytes),
            (Some(Ok(text)), Some(beside)) => {
                let beside = if options.reads_like_jit { &[] } else { beside };
                let job = job(text, beside);
                texts.push((piece.name.as_str(), job.text));
                jobs.push(job);
                Unpacking::Ptx(jobs.len() - 1)
            }
        })
        .collect();
    // nvlink has no message (docs/DIFFERENCES.md, interfaces).
    if let Some(severity) = ignored_severity(options) {
        lines.extend(interfaces::before_compiling(&texts, severity));
    }
    let mut compiled: Vec<Option<PtxCompilation>> =
        if jobs.is_empty() { Vec::new() } else { compile(&jobs).into_iter().map(Some).collect() };
    let mut made = made.into_iter();
    let mut finish = Finish { options, store, found, lines };
    for event in events {
        let piece = match event {
            InputEvent::Line(line) => {
                finish.lines.push(line);
                continue;
            }
            InputEvent::Lto(_) => {
                finish.found.place_lto(finish.lines.len());
                continue;
            }
            InputEvent::WithoutCode(_) => {
                finish.found.place_without_code();
                continue;
            }
            InputEvent::Piece(piece) => piece,
        };
        match made.next() {
            Some(Unpacking::Cubin(bytes)) => finish.cubin(piece, bytes, CubinOrigin::Cubin)?,
            Some(Unpacking::Ptx(place)) => {
                if let Some(compiled) = compiled.get_mut(place).and_then(Option::take) {
                    finish.compiled(piece, compiled)?;
                }
            }
            Some(Unpacking::Broken(error)) => return Err(finish.broken(&piece, &error)),
            Some(Unpacking::LeftOut) | None => {}
        }
    }
    Ok(())
}

impl<'a> DeviceCode<'a> {
    /// The entry of a fat binary that holds it.
    fn entry(&self) -> Option<&FatbinEntry<'a>> {
        match self {
            DeviceCode::Packed(entry) | DeviceCode::PackedPtx(entry) => Some(entry),
            DeviceCode::Cubin(_) | DeviceCode::Ptx(_) => None,
        }
    }

    /// Code of `file` that is not linked.
    pub(super) fn elsewhere(&self, file: &str, why: UnlinkedReason) -> UnlinkedCode<'a> {
        let cubin: Option<Box<dyn Fn() -> Option<Vec<u8>> + 'a>> = match *self {
            DeviceCode::Cubin(bytes) => Some(Box::new(move || Some(bytes.to_vec()))),
            DeviceCode::Packed(entry) => {
                Some(Box::new(move || Some(entry.data(MAX_UNPACKED).ok()?.into_owned())))
            }
            DeviceCode::Ptx(_) | DeviceCode::PackedPtx(_) => None,
        };
        UnlinkedCode { file: file.to_owned(), why, cubin }
    }

    /// The options to compile it with; `None` for a cubin.
    fn ptx_options(&self) -> Option<&'a [u8]> {
        match self {
            DeviceCode::Ptx(_) => Some(&[]),
            DeviceCode::PackedPtx(entry) => Some(entry.options().unwrap_or_default()),
            DeviceCode::Cubin(_) | DeviceCode::Packed(_) => None,
        }
    }
}

/// The result of unpacking.
type UnpackedCode<'a> = Result<&'a [u8], culd_fatbin::Error>;

/// The bytes of all `pieces`; `None` for those of system libraries that are not needed. nvcc names
/// libcudadevrt in every link, and unpacking it takes longer than a small link: tiny-cudadevrt
/// would take nine times the instructions and a fifth more time.
fn unpack_needed<'a>(
    options: &CommandOptions,
    pieces: &[&InputPiece<'a>],
    store: &'a Store,
    session: &Session,
) -> Vec<Option<UnpackedCode<'a>>> {
    let limits = limits(pieces);
    let size = |place: usize| match &pieces[place].code {
        DeviceCode::Cubin(bytes) | DeviceCode::Ptx(bytes) => bytes.len() as u64,
        DeviceCode::Packed(_) | DeviceCode::PackedPtx(_) => limits[place],
    };
    let (system, own): (Vec<usize>, Vec<usize>) =
        (0..pieces.len()).partition(|&place| pieces[place].system);
    let total = |places: &[usize]| places.iter().map(|&place| size(place)).sum::<u64>();
    let mut unpacked = vec![None; pieces.len()];
    let unpack = |places: &[usize], unpacked: &mut [Option<UnpackedCode<'a>>]| {
        for (&place, bytes) in places.iter().zip(unpack(pieces, places, &limits, store, session)) {
            unpacked[place] = Some(bytes);
        }
    };
    unpack(&own, &mut unpacked);
    // With -lto every input has a line. A search for undefined names must cost less than it saves.
    let always = options.lto() || options.flag(OptionId::KeepSystemLibraries);
    if always || total(&own) > total(&system) || needs_system(pieces, &unpacked) {
        unpack(&system, &mut unpacked);
    }
    unpacked
}

/// True if something in the link needs a system library, as far as this is known before
/// compilation.
fn needs_system<'a>(pieces: &[&InputPiece<'a>], unpacked: &[Option<UnpackedCode<'a>>]) -> bool {
    let input = |(piece, unpacked): (&&InputPiece<'a>, &Option<UnpackedCode<'a>>)| -> Input<'a> {
        let bytes: &'a [u8] = match unpacked {
            Some(Ok(bytes)) if piece.code.ptx_options().is_none() => bytes,
            _ => &[],
        };
        Input { name: "", bytes, system: piece.system }
    };
    // Linked cubins are passed over.
    let is_object = |input: &Input<'_>| sniff(input.bytes) != Format::ExecutableCubin;
    let inputs: Vec<Input<'_>> = pieces.iter().zip(unpacked).map(input).filter(is_object).collect();
    culd_link::needs_system_libraries(&inputs)
}

/// The limit of each piece, bytes; [`MAX_UNPACKED`] is the limit of all. Limits are set before any
/// piece is unpacked, so they do not depend on threads.
fn limits(pieces: &[&InputPiece<'_>]) -> Vec<u64> {
    let mut left = MAX_UNPACKED;
    let limit = |piece: &&InputPiece<'_>| {
        let size = piece.code.entry().map_or(0, FatbinEntry::size);
        let limit = if size <= left { size } else { left };
        left -= limit;
        limit
    };
    pieces.iter().map(limit).collect()
}

/// The bytes of the pieces at `places`.
fn unpack<'a>(
    pieces: &[&InputPiece<'a>],
    places: &[usize],
    limits: &[u64],
    store: &'a Store,
    session: &Session,
) -> Vec<UnpackedCode<'a>> {
    let total = places.iter().map(|&place| limits[place]).sum::<u64>();
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let unpacked = session.map_with(places.len(), total, Unpacker::default, |unpacker, at| {
        let place = places[at];
        pieces[place].code.entry().map(|entry| unpacker.image(entry, limits[place]))
    });
    let keep = |(&place, unpacked): (&usize, _)| match (&pieces[place].code, unpacked) {
        (DeviceCode::Cubin(bytes) | DeviceCode::Ptx(bytes), _) => Ok(*bytes),
        (_, Some(Ok(Cow::Borrowed(bytes)))) => Ok(bytes),
        (_, Some(Ok(Cow::Owned(bytes)))) => Ok(&**store.alloc(InputBytes::Read(bytes))),
        (_, Some(Err(error))) => Err(error),
        (_, None) => Ok(&[][..]),
    };
    places.iter().zip(unpacked).map(keep).collect()
}

/// PTX up to its first NUL, with an option record.
fn job<'a>(text: &'a [u8], options: &[u8]) -> PtxJob<'a> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let options = options.split(|&byte| byte == 0).next().unwrap_or_default();
    PtxJob { text, options: text_of(options) }
}

struct Finish<'a, 'f, 'o> {
    options: &'o CommandOptions,
    store: &'a Store,
    found: &'f mut Inputs<'a>,
    lines: &'f mut Vec<Line>,
}

impl<'a> Finish<'a, '_, '_> {
    fn say(&mut self, severity: Severity, cause: impl Into<Cause>, notes: Vec<String>) {
        self.lines.push(Line::about(severity, cause).with_notes(notes));
    }

    fn fatal(&mut self, error: InputError, notes: Vec<String>) -> InputStop {
        self.say(Severity::Fatal, error, notes);
        InputStop
    }

    fn cubin(
        &mut self,
        piece: InputPiece<'_>,
        bytes: &'a [u8],
        kind: CubinOrigin,
    ) -> Result<(), InputStop> {
        let InputPiece { name, system, module, .. } = piece;
        match sniff(bytes) {
            Format::ExecutableCubin => {
                self.found.registration.withdraw(module);
                if let Some(severity) = ignored_severity(self.options) {
                    self.say(severity, Ignored::Linked(name), Vec::new());
                }
                Ok(())
            }
            Format::RelocatableCubin => {
                // nvlink is silent about libraries it links on its own.
                if self.options.lto() && !system {
                    self.say(Severity::Info, InputError::PartialLto(name.clone()), Vec::new());
                }
                let lines = self.lines.len();
                self.found.inputs.push(LinkCubin { name, bytes, system, kind, lines });
                Ok(())
            }
            _ => Err(self.fatal(InputError::NotCubin(name), Vec::new())),
        }
    }

    fn compiled(
        &mut self,
        mut piece: InputPiece<'_>,
        compiled: PtxCompilation,
    ) -> Result<(), InputStop> {
        let PtxCompilation { cubin, lines, time } = compiled;
        self.lines.extend(lines.into_iter().map(|line| Line::plain(LineKind::Tool, line)));
        self.found.times.push(CompileTime::of_ptx(&piece.name, piece.whole_file, time));
        match cubin {
            Ok(bytes) => {
                let bytes = &**self.store.alloc(InputBytes::Read(bytes));
                self.lines.extend(piece.info_behind_compiler.take());
                self.cubin(piece, bytes, CubinOrigin::OfPtx)
            }
            Err(error @ (CompileError::Refused(_) | CompileError::Unknown)) => {
                let mut notes = vec![format!("in '{}'", piece.name)];
                match error {
                    CompileError::Refused(reason) => notes.extend(reason),
                    _ => notes.push(UNKNOWN_OPTION.to_owned()),
                }
                Err(self.fatal(InputError::Fatbinary, notes))
            }
            Err(error) => {
                let (file, error) = (piece.name, error.to_string());
                Err(self.fatal(InputError::Compiler { file, error }, Vec::new()))
            }
        }
    }

    fn broken(&mut self, piece: &InputPiece<'_>, error: &culd_fatbin::Error) -> InputStop {
        let note = format!("in '{}', {error}", piece.name);
        self.say(Severity::Error, InputError::Uncompress, vec![note]);
        self.fatal(InputError::Fatbinary, Vec::new())
    }
}

/// The lines of `-lto` in a link without LTO-IR.
pub(crate) fn no_lto(options: &CommandOptions) -> Vec<Line> {
    let quiet = options.flag(OptionId::DisableInfos);
    if !options.lto() || quiet {
        return Vec::new();
    }
    let Some(severity) = warning_severity(options) else { return Vec::new() };
    let mut lines = vec![Line::about(severity, InputError::NoLto)];
    if severity == Severity::Error {
        lines.push(Line::about(Severity::Fatal, InputError::MergeFailed));
    }
    lines
}
