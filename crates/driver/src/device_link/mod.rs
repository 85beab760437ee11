//! A whole device link in one process: the work that `nvcc -dlink` gives to nvlink, fatbinary
//! and the host compiler.
//!
//! In: words of nvcc. Out: an object for the host linker, a fat binary or a cubin, and lines.
//! Guaranteed: each image is nvlink's, the fat binary is fatbinary's, the object makes the calls
//! that nvcc's object makes; lines come in the order in which nvcc would link, up to the first
//! target that fails; the output is replaced by a complete one or not at all.

mod links;
mod plan;

use std::env::consts::ARCH;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use culd_cubin::{Cubin, note};
use culd_fatbin::header::flag;
use culd_fatbin::packing::{Mode, Packing};
use culd_fatbin::registration::{Machine, host_object, module_object};
use culd_fatbin::writer::{ImageTarget, InputImage, Pieces};
use culd_link::{Dialect, Output as _, Session, Severity};

use self::links::{TargetLink, TargetResult};
use self::plan::DeviceLinkForm;
pub(crate) use self::plan::DeviceLinkPlan;
use crate::input::{InputItem, SharedInputs, Store};
use crate::messages::{FileError, Line, LineList, RunOutcome};
use crate::nvcc::{CommandLine, NvccError, Profile};
use crate::options::{
    CommandOptions, OptionId, OptionRow, Origin, Request, TABLE, Target, UsageError, dialect, parse,
};
use crate::os::files::FileChange;
use crate::os::guard;
use crate::os::heap;
use crate::os::output::Replacement;
use crate::registration::ModuleListing;
use crate::toolkit::{marker, release};
use crate::{threads, tools};

pub(crate) const HELP: &str = "\
usage: culd device-link [--cuda TOOLKIT] OPTION... FILE... -o OUTPUT

Makes what 'nvcc -dlink' makes of the same options and files, for all architectures at once and in this process: the
object for the host linker; with -fatbin a fat binary, with -cubin a cubin, with -r an object for another device link.
The options are those of nvcc. Options of nvlink follow -Xnvlink, culd's own too: -Xnvlink --verify. What asks for more
than a device link is an error.

  --cuda TOOLKIT        the toolkit whose libraries are linked, whose ptxas compiles PTX and whose release is followed;
                        without it the libraries and ptxas are those of the toolkit that this program lies in, of that of
                        CUDA_HOME, of CUDA_PATH, or of nvcc in PATH
  --nvcc PROGRAM        the same, the toolkit of this nvcc
  --host-machine NAME   the machine of the host, x86_64 or aarch64; without it that of the first host object
";

/// Makes the device link that `words`, the words behind the command, ask for.
pub(crate) fn device_link(words: &[OsString]) -> (String, RunOutcome) {
    match Command::read(words) {
        Ok(None) => (HELP.to_owned(), RunOutcome::success()),
        Ok(Some((plan, warnings))) => {
            let mut outcome = run(&plan);
            outcome.lines.splice(0..0, warnings);
            (String::new(), outcome)
        }
        Err(error) => (String::new(), RunOutcome::fatal(error)),
    }
}

/// A device link in memory, for a program.
#[derive(Debug)]
pub struct DeviceLinkRequest<'d> {
    /// The options of each link, which name real targets.
    pub options: Vec<CommandOptions>,
    /// The inputs in order.
    pub items: &'d [InputItem<'d>],
}

/// The result of a device link in memory.
#[derive(Debug)]
pub struct DeviceLinkResult {
    /// The entries of the fat binary; `None` after an error.
    pub images: Option<Vec<InputImage>>,
    /// The ids of the modules that the program registers.
    pub modules: Vec<Vec<u8>>,
    /// Lines for the user, up to those of the first link that fails.
    pub lines: Vec<Line>,
}

/// Links for all targets in memory. Files are copied.
pub fn device_link_in_memory(request: DeviceLinkRequest<'_>) -> DeviceLinkResult {
    let DeviceLinkRequest { options, items } = request;
    let mut lines = LineList::of(None);
    let link = |mut options: CommandOptions| {
        // Modules that are linked already are left out.
        options.set(OptionId::RegisterFile, [""]);
        options.inputs = items.iter().map(|item| item.path().to_owned()).collect();
        let dialect = dialect::named(&options);
        Some(TargetLink { target: options.target?, options, dialect })
    };
    let links: Vec<TargetLink> = options.into_iter().filter_map(link).collect();
    let store = Store::copying();
    let nobody = CommandOptions::for_nobody();
    let first = links.first().map_or(&nobody, |link| &link.options);
    let session = Session::with_threads(threads::threads(first).0);
    let shared = SharedInputs::open(first, items, &store, &session);
    let done = links::all(&links, items, &shared, &session, |number, image| {
        packed(Packing::default(), entry_of(links[number].target, image)?)
    });
    let linked = gathered(done, &mut lines).ok();
    let (images, listing) = linked.unzip();
    let listing: Option<ModuleListing> = listing.flatten();
    let ids = listing.as_ref().map(ModuleListing::ids).unwrap_or_default();
    let modules = ids.into_iter().map(<[u8]>::to_vec).collect();
    DeviceLinkResult { images, modules, lines: lines.end().lines }
}

/// The options that `culd device-link` adds to nvcc's.
struct Command;

impl Command {
    fn read(words: &[OsString]) -> Result<Option<(DeviceLinkPlan, Vec<Line>)>, NvccError> {
        let (mut bin, mut machine, mut rest) = (None, None, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let missing = || UsageError::ArgumentExpected(culd_text::name(word));
                words.next().ok_or_else(missing)
            };
            match word.to_str() {
                Some("--help" | "-h") => return Ok(None),
                Some("--cuda") => bin = Some(Path::new(value()?).join("bin")),
                Some("--nvcc") => bin = Some(folder_of(Path::new(value()?))),
                Some("--host-machine") => {
                    let name = value()?;
                    let found = name.to_str().and_then(Machine::by_name);
                    machine = Some(found.ok_or_else(|| UsageError::BadValue {
                        value: culd_text::name(name),
                        option: "host-machine",
                    })?);
                }
                _ => rest.push(word.clone()),
            }
        }
        let line = CommandLine::parse(&rest)?;
        let ptxas = bin.as_ref().map(|bin| bin.join("ptxas")).filter(|path| path.is_file());
        let named = bin.as_ref().and_then(|bin| release::of_toolkit(bin.parent()?));
        let named: Option<&'static Dialect> = named.and_then(|release| release.parse().ok());
        let profile = profile(bin);
        let own = marker::release();
        let mut plan = plan(&line, &profile, own.or(named))?;
        if let (None, Some(named)) = (own, named) {
            plan.follow(named);
        }
        plan.machine = machine;
        plan.ptxas = ptxas;
        let redefined = line.redefined.iter();
        let warning =
            |&name: &&'static str| Line::new(Severity::Warning, FileError::Redefined(name));
        Ok(Some((plan, redefined.map(warning).collect())))
    }
}

/// The plan for `line`, by the rules of `release`.
pub(crate) fn plan(
    line: &CommandLine,
    profile: &Profile,
    release: Option<&'static Dialect>,
) -> Result<DeviceLinkPlan, NvccError> {
    DeviceLinkPlan::new(line, profile, release.unwrap_or(Dialect::usual()))
}

/// The profile of the toolkit whose programs are in `bin`, or of the first toolkit found.
fn profile(bin: Option<PathBuf>) -> Profile {
    let homes = || tools::toolkit_homes(&CommandOptions::for_nobody()).into_iter();
    let bins = match bin {
        Some(bin) => vec![bin],
        None => homes().map(|home| home.join("bin")).collect(),
    };
    bins.iter().find_map(|bin| Profile::of(bin)).unwrap_or_default()
}

/// The folder of a program.
fn folder_of(program: &Path) -> PathBuf {
    program.parent().unwrap_or(program).to_owned()
}

/// The line for a link that succeeded, but whose images could not be packed.
pub(crate) fn packing_failed(error: &str) -> Line {
    Line::new(Severity::Fatal, format!("The fat binary cannot be made: {error}"))
}

/// The end of an attempt.
enum RunEnd {
    Done,
    /// Another process writes into the inputs.
    Again,
}

/// Makes the device link and writes the output.
pub(crate) fn run(plan: &DeviceLinkPlan) -> RunOutcome {
    let mut lines = LineList::of(None);
    // All inputs stay until the process ends, which gives them back at once.
    let store: &'static Store = Box::leak(Box::new(Store::mapping()));
    guard::hold_panics(true);
    let end = attempt(plan, store, &mut lines);
    guard::hold_panics(false);
    if let RunEnd::Again = end {
        lines = LineList::of(None);
        attempt(plan, Box::leak(Box::new(store.again())), &mut lines);
    }
    lines.end()
}

fn attempt(plan: &DeviceLinkPlan, store: &'static Store, lines: &mut LineList) -> RunEnd {
    let ended = catch_unwind(AssertUnwindSafe(|| whole(plan, store, lines)));
    let changed = || store.change(&Session::serial());
    match ended {
        Ok(Ok(())) => RunEnd::Done,
        Ok(Err(NoOutput)) => match changed() {
            FileChange::None => RunEnd::Done,
            FileChange::Perhaps => RunEnd::Again,
            FileChange::Certain(path) => {
                let line = Line::new(Severity::Fatal, FileError::Changed(culd_text::name(path)));
                lines.push(line.with_notes(vec!["it changed while it was linked".to_owned()]));
                RunEnd::Done
            }
        },
        Err(_) if store.has_maps() => RunEnd::Again,
        Err(panic) => resume_unwind(panic),
    }
}

/// There is no output; the reason is in the lines, or in the inputs, which changed.
struct NoOutput;

fn whole(
    plan: &DeviceLinkPlan,
    store: &'static Store,
    lines: &mut LineList,
) -> Result<(), NoOutput> {
    let machine = plan.machine.or(Machine::by_name(ARCH)).unwrap_or(Machine::X86_64);
    let stop = |lines: &mut LineList, line: Line| {
        lines.push(line);
        Err(NoOutput)
    };
    // The inputs and libraries of all links are the same.
    let first = match options_of(plan, 0, machine) {
        Ok(options) => options,
        Err(error) => return stop(lines, Line::new(Severity::Fatal, error)),
    };
    let items: &'static [InputItem<'static>] =
        Vec::leak(first.inputs.iter().map(InputItem::named).collect());
    let session = Session::with_threads(threads::threads(&first).0).growing_heaps(heap::grow);
    let shared = SharedInputs::open(&first, items, store, &session);
    let machine = match (plan.machine, shared.machine().map(Machine::by_number)) {
        (Some(machine), _) | (None, Some(Some(machine))) => machine,
        (None, None) => machine,
        (None, Some(None)) if plan.form != DeviceLinkForm::Object => machine,
        (None, Some(None)) => {
            let what = "The host objects are for a machine for which culd writes none";
            return stop(lines, Line::new(Severity::Fatal, what));
        }
    };
    let mut links = Vec::new();
    for number in 0..plan.links() {
        match options_of(plan, number, machine) {
            Ok(options) => {
                let (target, dialect) = (plan.codes[number].target, options.release);
                links.push(TargetLink { options, target, dialect });
            }
            Err(error) => return stop(lines, Line::new(Severity::Fatal, error)),
        }
    }
    if let Some(line) = mismatch(&links, &shared, &first) {
        return stop(lines, line);
    }
    let made = |number, image| made(plan, number, image);
    let done = links::all(&links, items, &shared, &session, made);
    let (images, listing) = gathered(done, lines)?;
    if store.change(&session) != FileChange::None {
        return Err(NoOutput);
    }
    write(plan, machine, &images, listing.as_ref()).or_else(|line| stop(lines, line))
}

/// The error about a cubin that does not suit all targets. nvcc reports it when it packs the cubin
/// with fatbinary, before anything is linked.
fn mismatch(
    links: &[TargetLink],
    shared: &SharedInputs<'_>,
    options: &CommandOptions,
) -> Option<Line> {
    let cubins = options
        .inputs
        .iter()
        .filter(|input| Path::new(input).extension().is_some_and(|extension| extension == "cubin"));
    for input in cubins {
        let Some(cubin) = shared.bytes(Path::new(input)).and_then(|bytes| Cubin::parse(bytes).ok())
        else {
            continue;
        };
        let sm = cubin.header.sm();
        let other = |link: &&TargetLink| link.target.arch().sm != sm;
        if let Some(link) = links.iter().find(other) {
            let (file, target) = (culd_text::name(input), link.target.name());
            let what = format!("'{file}' is a cubin for sm_{sm} and cannot be linked for {target}");
            return Some(Line::new(Severity::Fatal, what));
        }
    }
    None
}

/// The options of culd that mean the same for every link of a device link. The others concern one
/// link.
const ALLOWED: &[OptionId] = &[
    OptionId::Dialect,
    OptionId::NoFork,
    OptionId::NoNotes,
    OptionId::PtxasPath,
    OptionId::Strict,
    OptionId::Threads,
    OptionId::Undefined,
    OptionId::Verify,
];

/// The options of nvlink for link number `number`.
fn options_of(
    plan: &DeviceLinkPlan,
    number: usize,
    machine: Machine,
) -> Result<CommandOptions, UsageError> {
    match parse(&plan.words(number, machine)).request? {
        Request::Link(mut options) => {
            let beside = |row: &&OptionRow| {
                let own = row.origin == Origin::Culd && !ALLOWED.contains(&row.id);
                (own || row.id == OptionId::Time) && options.values(row.id).is_some()
            };
            match TABLE.iter().find(beside) {
                Some(row) => Err(UsageError::NotInDeviceLink(row.long)),
                None => {
                    if let (Some(path), None) = (&plan.ptxas, options.values(OptionId::PtxasPath)) {
                        options.set(OptionId::PtxasPath, [path.as_os_str()]);
                    }
                    Ok(*options)
                }
            }
        }
        Request::HostScript(_) => Err(UsageError::NotInDeviceLink("gen-host-linker-script")),
        Request::Print(_) => Err(UsageError::NotInDeviceLink("help")),
    }
}

/// The release of CUDA 13.0, as cubins record it.
const CUDA_13: u16 = 130;

/// A linked image as an entry of a fat binary.
fn entry_of(target: Target, image: Vec<u8>) -> Result<InputImage, String> {
    let arch = target.arch();
    let target = ImageTarget { sm: arch.sm, variant: arch.variant };
    InputImage::cubin(image, target).map_err(|error| error.to_string())
}

/// The part of a linked image that is kept: its entry in the fat binary, or the whole image.
fn made(plan: &DeviceLinkPlan, number: usize, image: Vec<u8>) -> Result<InputImage, String> {
    let entry = entry_of(plan.codes[number].target, image)?;
    if plan.form == DeviceLinkForm::Cubin {
        return Ok(entry);
    }
    let flags = if plan.debug { flag::DEBUG } else { 0 };
    let entry = entry.ident(plan.ident.as_slice()).flags(flags);
    packed(plan.packing, entry)
}

/// The entry as `packing` wants it. Drivers of releases before CUDA 13 may know LZ4 only, as their
/// fatbinary does.
fn packed(mut packing: Packing, entry: InputImage) -> Result<InputImage, String> {
    let older = note::toolkit(entry.payload()).is_some_and(|release| release < CUDA_13);
    if older && packing.mode == Mode::Default {
        packing.mode = Mode::Speed;
    }
    packing.pack(entry).map_err(|error| error.to_string())
}

/// The images of all links and the modules of the program, or the error of the first link that
/// failed.
fn gathered(
    done: Vec<TargetResult<InputImage>>,
    lines: &mut LineList,
) -> Result<(Vec<InputImage>, Option<ModuleListing>), NoOutput> {
    let (mut images, mut listing): (Vec<InputImage>, Option<ModuleListing>) = (Vec::new(), None);
    for TargetResult { outcome, made, listing: own } in done {
        lines.extend(outcome.lines);
        if outcome.status != 0 {
            return Err(NoOutput);
        }
        images.extend(made);
        match (&mut listing, own) {
            (Some(listing), Some(own)) => listing.add(&own),
            (listing, own) => *listing = own,
        }
    }
    Ok((images, listing))
}

/// Writes the output.
fn write(
    plan: &DeviceLinkPlan,
    machine: Machine,
    images: &[InputImage],
    listing: Option<&ModuleListing>,
) -> Result<(), Line> {
    let failed = |error: std::io::Error| FileError::output(&plan.output, &error);
    let damaged = |error: culd_fatbin::Error| packing_failed(&error.to_string());
    let pieces = Pieces::new(images).map_err(damaged)?;
    let head = match plan.form {
        DeviceLinkForm::Cubin => {
            // A virtual architecture has no image.
            let Some(image) = images.first() else { return Ok(()) };
            return put(&plan.output, std::iter::once(image.payload())).map_err(failed);
        }
        DeviceLinkForm::Fatbin => Vec::new(),
        DeviceLinkForm::Object if plan.relocatable => {
            let id = module_of_path(&plan.output).map_err(failed)?;
            module_object(machine, plan.visibility, pieces.size(), &id).map_err(damaged)?
        }
        DeviceLinkForm::Object => {
            let ids = listing.map(ModuleListing::ids).unwrap_or_default();
            host_object(machine, plan.visibility, pieces.size(), &ids).map_err(damaged)?
        }
    };
    put(&plan.output, std::iter::once(head.as_slice()).chain(pieces.iter())).map_err(failed)
}

/// Writes pieces to the file at `path`. After an error the file has its old content.
fn put<'p>(path: &Path, pieces: impl Iterator<Item = &'p [u8]>) -> std::io::Result<()> {
    let output = Replacement::begin(path)?;
    if output.is_in_place() {
        let whole: Vec<&[u8]> = pieces.collect();
        output.write_at(0, &whole.concat())?;
    } else {
        let mut at = 0;
        for piece in pieces {
            output.write_at(at, piece)?;
            at += piece.len() as u64;
        }
    }
    output.commit()
}

/// The id of an object that is one module: its path, as nvcc makes it.
fn module_of_path(path: &Path) -> std::io::Result<Vec<u8>> {
    use culd_text::os::OsStrExt;
    let absolute = std::path::absolute(path)?;
    let plain = |&byte: &u8| if byte.is_ascii_alphanumeric() { byte } else { b'_' };
    Ok(absolute.as_os_str().as_bytes().iter().map(plain).collect())
}
