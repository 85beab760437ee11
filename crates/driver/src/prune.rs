//! `culd prune`: objects and archives with fewer images, as `nvprune` makes them.
//!
//! In: words of `nvprune`. Out: the file. Guaranteed: the images that `nvprune` 12.4 keeps, and its
//! bytes; a name of an architecture that means none is an error.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use culd_cubin::arch::{Arch, Variant};
use culd_fatbin::container::{FatbinEntry, ImageKind};
use culd_fatbin::header::flag;
use culd_fatbin::prune::{Pruned, prune as pruned};
use culd_link::{Dialect, Severity};
use thiserror::Error;

use crate::input::{ImageForm, ImageOffer};
use crate::messages::{FileError, Line, RunOutcome};
use crate::nvcc::{NvccError, Specification};
use crate::options::{Target, UsageError, split_name};
use crate::os::{files, output};

/// The release whose choice of images `-ipc` follows. nvlink 13.0 links code of sm_90a for sm_90;
/// nvprune knows no such mixture, nor do later releases.
const RULES: u16 = 131;

const HELP: &str = "\
usage: culd prune OPTION... FILE -o OUTPUT

Writes an object or archive with the device code for some architectures only, as NVIDIA's nvprune does.

  -arch NAME, --arch NAME   the architecture that stays: sm_90, sm_90a, compute_90
  -gencode arch=A,code=C    the same; several stay, and of each its codes count
  -ipc, --include-possible-codes   what could run on the architecture stays too
  -no-relocatable-elf       cubins that are to be linked go
  -o FILE, --output-file FILE
";

/// A line that cannot be followed. Texts are nvprune's where it has one.
#[derive(Debug, Error)]
enum PruneError {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Nvcc(#[from] NvccError),
    #[error("Either -arch or -gencode must be specified")]
    NoArch,
    #[error("Must specify output file with -o option")]
    NoOutput,
    #[error("prune: name one object or archive")]
    OneFile,
    #[error("Could not open input file '{0}'")]
    Open(String),
    #[error("'{file}': {error}")]
    File { file: String, error: culd_fatbin::Error },
}

/// The line if nothing is left of an object, or of all objects of an archive.
const NOTHING_LEFT: &str =
    "No device code that matched architecture, so stripped out all device code";

/// Device code that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Code {
    kind: ImageKind,
    sm: u32,
    variant: Variant,
}

/// The options of a line.
#[derive(Debug, Default)]
struct Request {
    codes: Vec<Code>,
    possible: bool,
    no_relocatable: bool,
    output: Option<PathBuf>,
    inputs: Vec<OsString>,
    help: bool,
}

/// Prunes the file as `words`, the words behind the command, ask.
pub(crate) fn prune(words: &[OsString]) -> (String, RunOutcome) {
    match Request::read(words) {
        Ok(request) if request.help => (HELP.to_owned(), RunOutcome::success()),
        Ok(request) => (String::new(), request.make().unwrap_or_else(RunOutcome::fatal)),
        Err(error) => (String::new(), RunOutcome::fatal(error)),
    }
}

impl Request {
    fn read(words: &[OsString]) -> Result<Self, PruneError> {
        let mut request = Request::default();
        let (mut arch, mut generate) = (None, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (typed, joined) = split_name(word);
            let mut value = || -> Result<OsString, UsageError> {
                let missing = || UsageError::ArgumentExpected(culd_text::name(typed));
                joined.map(OsStr::to_owned).or_else(|| words.next().cloned()).ok_or_else(missing)
            };
            match typed.to_str() {
                Some("-arch" | "--arch") => arch = Some(culd_text::name(value()?)),
                Some("-gencode" | "--generate-code") => generate.push(culd_text::name(value()?)),
                Some("-o" | "--output-file") => request.output = Some(value()?.into()),
                Some("-ipc" | "--include-possible-codes") => request.possible = true,
                Some("-no-relocatable-elf" | "--no-relocatable-elf") => {
                    request.no_relocatable = true;
                }
                Some("-h" | "-help" | "--help") => request.help = true,
                Some(name) if name.starts_with('-') => {
                    return Err(UsageError::Unknown(culd_text::name(word)).into());
                }
                _ => request.inputs.push(word.clone()),
            }
        }
        match (arch, &generate[..]) {
            _ if request.help => {}
            (Some(arch), []) => request.add(&arch)?,
            (None, [_, ..]) => {
                for text in &generate {
                    for code in Specification::read(text)?.codes {
                        request.add(code)?;
                    }
                }
            }
            _ => return Err(PruneError::NoArch),
        }
        Ok(request)
    }

    fn add(&mut self, name: &str) -> Result<(), PruneError> {
        let code = Code::by_name(name).ok_or_else(|| NvccError::UnknownArch(name.to_owned()))?;
        if self.possible && target(&code).is_none() {
            return Err(NvccError::UnknownArch(name.to_owned()).into());
        }
        self.codes.push(code);
        Ok(())
    }

    fn make(&self) -> Result<RunOutcome, PruneError> {
        let output = self.output.as_ref().ok_or(PruneError::NoOutput)?;
        let [input] = &self.inputs[..] else { return Err(PruneError::OneFile) };
        let file = culd_text::name(input);
        let bytes = files::read(Path::new(input)).map_err(|_| PruneError::Open(file.clone()))?.0;
        let keep = |entry: &FatbinEntry<'_>, relocatable: bool| self.keeps(entry, relocatable);
        let made = pruned(&bytes, &keep).map_err(|error| PruneError::File { file, error })?;
        let Pruned { bytes, kept, .. } = made;
        if let Err(error) = output::write(output, &bytes) {
            return Ok(RunOutcome::fatal_line(FileError::output(output, &error)));
        }
        let mut outcome = RunOutcome::success();
        if kept == 0 {
            outcome.lines.push(Line::new(Severity::Warning, NOTHING_LEFT));
        }
        Ok(outcome)
    }

    fn keeps(&self, entry: &FatbinEntry<'_>, relocatable: bool) -> bool {
        let code = Code { kind: entry.kind(), sm: entry.sm(), variant: entry.variant() };
        if self.no_relocatable && relocatable && code.kind == ImageKind::Elf {
            return false;
        }
        let suits = |wanted: &Code| {
            let form = match code.kind {
                ImageKind::Elf => ImageForm::Elf,
                ImageKind::Ptx => ImageForm::Ptx,
                _ => return false,
            };
            let has_compat = entry.has(flag::COMPAT);
            let offer = ImageOffer { form, sm: code.sm, variant: code.variant, has_compat };
            let target = target(wanted).filter(|_| self.possible && wanted.kind == ImageKind::Elf);
            target.is_some_and(|target| offer.suits(target, Dialect::for_toolkit(RULES), false))
        };
        self.codes.iter().any(|wanted| *wanted == code || suits(wanted))
    }
}

/// The target that code is for, if culd knows it.
fn target(code: &Code) -> Option<Target> {
    Arch::by_name(&format!("sm_{}{}", code.sm, code.variant)).map(Target::Real)
}

impl Code {
    /// `sm_90a`, `compute_90`, `lto_90`; also of architectures for which culd does not link.
    fn by_name(name: &str) -> Option<Self> {
        let (kind, number) = name.split_once('_')?;
        let kind = match kind {
            "sm" => ImageKind::Elf,
            "compute" => ImageKind::Ptx,
            "lto" => ImageKind::LtoIr,
            _ => return None,
        };
        let (number, variant) = match number.strip_suffix(['a', 'f']) {
            Some(plain) if number.ends_with('a') => (plain, Variant::Accelerated),
            Some(plain) => (plain, Variant::Family),
            None => (number, Variant::Plain),
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let sm = number.parse().ok().filter(|_| digits)?;
        Some(Code { kind, sm, variant })
    }
}
