//! From the files of a command line, or of a program, to cubins.
//!
//! In: [`CommandOptions`] and [`InputItem`]s. Out: [`Inputs`]: named cubin bytes in link order, the
//! modules for the register file, the names that host code refers to; and lines for the user.
//! Guaranteed: device code that is not linked is reported; only linked code is compiled or
//! unpacked; lines have the order of the inputs, also if the work ran in parallel. The rules are
//! nvlink's (docs/rules/inputs.md) except for entries of docs/DIFFERENCES.md.
//!
//! [`walk`] finds the kind of a file; [`archive`], [`host`] and [`fatbin`] look into it; [`select`]
//! chooses images; [`ready`] unpacks and compiles them.

mod archive;
mod compilation;
mod fatbin;
mod gathered;
mod host;
mod item;
mod library;
#[cfg(feature = "ptx")]
mod ptx;
#[cfg(not(feature = "ptx"))]
#[path = "no_ptx.rs"]
mod ptx;
#[cfg(feature = "ptx")]
mod ptx_ahead;
mod ready;
#[cfg(feature = "ptx")]
mod record;
mod select;
mod shared;
mod walk;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;

use culd_fatbin::host::{HostReference, SectionData};
use culd_link::{Dialect, Session, Severity};

#[cfg(feature = "lto")]
use crate::lto_program::LtoProgram;
use crate::messages::{Cause, Ignored, InputError, Line, warning_severity};
use crate::options::{CommandOptions, Target};
use crate::os::files::Identity;
use crate::registration::{ModuleNumber, SystemLibrary};
use gathered::{InputEvent, InputPiece, ignored_severity};

pub(crate) use crate::os::files::Store;
#[cfg(feature = "lto")]
pub(crate) use compilation::PtxCompilation;
pub(crate) use compilation::PtxJob;
pub use gathered::NamedCubin;
pub(crate) use gathered::{
    CompileTime, CubinOrigin, HostUses, InputStop, Inputs, LTO_CUBIN, LinkCubin, LtoCubin,
    LtoPiece, MAX_UNPACKED, PartReason,
};
pub use item::{Content, InputItem, InputKind};
pub(crate) use ptx::PtxCompiler;
#[cfg(not(feature = "ptx"))]
pub use ptx::PtxasAhead;
#[cfg(feature = "lto")]
pub(crate) use ptx::{CompileError, PtxLimits};
#[cfg(feature = "ptx")]
pub use ptx_ahead::PtxasAhead;
pub(crate) use ready::no_lto;
pub(crate) use select::{ImageForm, ImageOffer};
pub(crate) use shared::SharedInputs;

/// Where the inputs of a link are.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) items: &'a [InputItem<'a>],
    /// Holds the bytes that were read and made for this link.
    pub(crate) store: &'a Store,
    /// The files that are open for several links.
    pub(crate) shared: Option<&'a SharedInputs<'a>>,
    /// A ptxas that waits for the only PTX.
    pub(crate) ahead: Option<&'a Cell<Option<PtxasAhead>>>,
}

/// The references of an input's host code to kernels.
struct HostLists<'a> {
    /// The modules of the input.
    modules: Vec<ModuleNumber>,
    /// Part of a system library.
    system: bool,
    /// Lists of names; `None` if the input has none.
    lists: Option<Vec<(HostReference, SectionData<'a>)>>,
}

/// A walk over the inputs, and its results so far.
struct Gatherer<'a, 'o> {
    options: &'o CommandOptions,
    target: Target,
    /// The release whose images are chosen.
    rules: &'static Dialect,
    sources: Sources<'a>,
    session: &'o Session,
    events: Vec<InputEvent<'a>>,
    /// The references of each input's host code.
    host_lists: Vec<HostLists<'a>>,
    /// Some event is an error: nvlink stops at the next container it opens.
    failed: bool,
    found: Inputs<'a>,
    /// Archives seen, by device and inode.
    seen: Vec<Identity>,
    /// Files that thin archives name.
    thin_members: HashMap<Identity, &'a [u8]>,
    /// The number of ignored members of the archive that is being read.
    members_ignored: Option<usize>,
    /// The working folder, once it was needed.
    folder: Option<PathBuf>,
}

/// Reads all inputs; `failed` if there was an error before. Returns the lines; with [`InputStop`]
/// the last one is fatal.
pub(crate) fn gather<'a>(
    options: &CommandOptions,
    sources: Sources<'a>,
    target: Target,
    rules: &'static Dialect,
    session: &Session,
    failed: bool,
) -> (Inputs<'a>, Vec<Line>, Result<(), InputStop>) {
    let mut gather = Gatherer {
        options,
        target,
        rules,
        sources,
        session,
        events: Vec::new(),
        host_lists: Vec::new(),
        failed,
        found: Inputs::default(),
        seen: Vec::new(),
        thin_members: HashMap::new(),
        members_ignored: None,
        folder: None,
    };
    let walked = gather.walk();
    gather.leave_out_linked();
    let Gatherer { events, host_lists, mut found, .. } = gather;
    let mut lines = Vec::new();
    let ready = match target {
        Target::Real(arch) => {
            // It loads its libraries while PTX is compiled.
            #[cfg(feature = "lto")]
            {
                let start = || LtoProgram::start(options, session);
                found.lto_program = (!found.lto.is_empty()).then(start);
            }
            let ahead = sources.ahead.and_then(Cell::take);
            let compile = |jobs: &[PtxJob<'_>]| {
                PtxCompiler::new(options, arch.name, rules).compile(jobs, ahead, session)
            };
            ready::ready(options, compile, events, &mut found, &mut lines, sources.store, session)
        }
        // The link has no output, but cubins are held against its target.
        _ => {
            let other = |piece: &InputPiece<'_>| !piece.system;
            let library = found.registration.system_library(|| true);
            found.leaves_library = library == SystemLibrary::Linked;
            found.leaves_code = events.iter().filter_map(InputEvent::piece).any(other);
            found.whole = !found.lto.is_empty() && !found.leaves_code;
            for event in events {
                if matches!(event, InputEvent::Lto(_)) {
                    found.place_lto(lines.len());
                }
                let cubin = event.cubin();
                lines.extend(event.lines(options));
                let lines = lines.len();
                found.inputs.extend(cubin.map(|cubin| LinkCubin { lines, ..cubin }));
            }
            Ok(())
        }
    };
    found.references = host::references(&host_lists, &found.registration);
    (found, lines, ready.and(walked))
}

impl<'a> Gatherer<'a, '_> {
    /// A line of nvlink's.
    fn say(&mut self, severity: Severity, cause: impl Into<Cause>, notes: Vec<String>) {
        self.failed |= severity >= Severity::Error;
        self.line(severity, cause, notes);
    }

    fn line(&mut self, severity: Severity, cause: impl Into<Cause>, notes: Vec<String>) {
        self.events.push(InputEvent::Line(Line::about(severity, cause).with_notes(notes)));
    }

    fn fatal(&mut self, error: InputError, notes: Vec<String>) -> InputStop {
        self.say(Severity::Fatal, error, notes);
        InputStop
    }

    /// A warning of nvlink's, which `-Werror` makes an error.
    fn warning(&mut self, error: InputError, notes: Vec<String>) {
        if let Some(severity) = warning_severity(self.options) {
            self.say(severity, error, notes);
        }
    }

    /// Reports that an input is not linked. nvlink has no such lines (docs/DIFFERENCES.md,
    /// ignored-inputs).
    fn ignored(&mut self, ignored: Ignored) {
        if let Some(count) = &mut self.members_ignored {
            *count += 1;
            if *count > archive::MAX_REPORTED {
                return;
            }
        }
        if let Some(severity) = ignored_severity(self.options) {
            self.line(severity, ignored, Vec::new());
        }
    }
}
