//! `culd fatbinary`, and culd under the name of fatbinary in a shadow toolkit.
//!
//! In: words of `fatbinary` 13. Out: a fat binary, or one as C text. Guaranteed: the bytes are
//! those of `fatbinary` 13.0, except for compressed LTO-IR, which is stored. The spelling of images
//! in older releases is accepted, too.

use culd_text::os::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use culd_cubin::Cubin;
use culd_cubin::arch::{Arch, Variant};
use culd_fatbin::container::ImageKind;
use culd_fatbin::embed::{EmbedUse, c_text};
use culd_fatbin::header::flag;
use culd_fatbin::packing::{Mode, Packing};
use culd_fatbin::writer::{ImageTarget, InputImage, write};
use thiserror::Error;

use crate::messages::{FileError, RunOutcome};
use crate::options::{UsageError, response, split_name};
use crate::os::{files, host, output};
use crate::toolkit::marker::{self, OwnShadow};

const HELP: &str = "\
usage: culd fatbinary OPTION...

Makes a fat binary as NVIDIA's fatbinary of CUDA 13 does. Options have one dash or two.

  -create FILE              the fat binary
  -embedded-fatbin FILE     the same as C text for nvcc's stubs
  -image3 kind=K,sm=N,file=F   an image: elf, ptx or nvvm, for 90, 90a, 100f
  -image profile=P,file=F   the same as older releases spell it: sm_90, compute_90
  -compress true|false, -compress-all, -compress-mode default|balance|speed|size|none
  -ident NAME, -cmdline TEXT, -cicc-cmdline TEXT
  -c (-device-c), -link, -g (-debug), -no-asm, -64
";

/// A line that cannot be followed. Texts are fatbinary's where it has one.
#[derive(Debug, Error)]
enum FatbinaryError {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("Missing or unknown kind in image3")]
    Kind,
    #[error("invalid architecture")]
    Arch,
    #[error("Could not open input file '{0}'")]
    Open(String),
    #[error("fatbinary elf mismatch: elf arch does not match user-specified arch")]
    Mismatch,
    #[error("'{file}': {error}")]
    Image { file: String, error: culd_fatbin::Error },
    #[error("{0}")]
    Whole(culd_fatbin::Error),
    #[error("'{0}': culd's fatbinary does not do this")]
    Unsupported(String),
}

/// The options of a line.
#[derive(Debug, Default)]
struct FatbinaryRequest {
    create: Option<PathBuf>,
    embedded: Option<PathBuf>,
    images: Vec<Spec>,
    packing: Packing,
    debug: bool,
    module: bool,
    link: bool,
    no_asm: bool,
    help: bool,
    ident: Vec<u8>,
    ptxas: Vec<u8>,
    cicc: Vec<u8>,
}

/// An image that is named.
#[derive(Debug)]
struct Spec {
    kind: ImageKind,
    target: ImageTarget,
    file: OsString,
}

/// Makes the fat binary that `words`, the words behind the command, ask for.
pub(crate) fn fatbinary(words: &[OsString]) -> (String, RunOutcome) {
    match FatbinaryRequest::read(words) {
        Ok(request) if request.help => (HELP.to_owned(), RunOutcome::success()),
        Ok(request) => (String::new(), request.make()),
        Err(error) => (String::new(), RunOutcome::fatal(error)),
    }
}

/// Does the work of fatbinary for `words`: here if it understands them in full, else with the
/// toolkit's program.
pub fn fatbinary_front(words: &[OsString]) -> (String, RunOutcome) {
    let Some(OwnShadow { marker, .. }) = marker::own() else { return fatbinary(words) };
    match FatbinaryRequest::read(words) {
        Ok(request) if !request.help && request.is_exact() && !marker.packs_otherwise() => {
            (String::new(), request.make())
        }
        _ => {
            let real = marker.toolkit.join("bin/fatbinary");
            let mut command = Command::new(&real);
            if let Some(own) = std::env::args_os().next() {
                host::start_as(&mut command, own);
            }
            let error = host::become_program(command.args(words));
            let real = culd_text::name(&real);
            (String::new(), RunOutcome::fatal(format!("Could not start '{real}': {error}")))
        }
    }
}

impl FatbinaryRequest {
    fn read(words: &[OsString]) -> Result<Self, FatbinaryError> {
        let mut request =
            FatbinaryRequest { help: words.is_empty(), ..FatbinaryRequest::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (typed, joined) = split_name(word);
            let name = typed.as_bytes();
            let name = name.strip_prefix(b"--").or_else(|| name.strip_prefix(b"-"));
            let Some(name) = name else {
                return Err(FatbinaryError::Unsupported(culd_text::name(word)));
            };
            let mut value = || -> Result<OsString, UsageError> {
                let missing = || UsageError::ArgumentExpected(culd_text::name(typed));
                joined.map(OsStr::to_owned).or_else(|| words.next().cloned()).ok_or_else(missing)
            };
            match name {
                b"64" => {}
                b"create" => request.create = Some(value()?.into()),
                b"embedded-fatbin" | b"fatbin" => request.embedded = Some(value()?.into()),
                b"image3" => request.images.push(Spec::read(&value()?, false)?),
                b"image" => request.images.push(Spec::read(&value()?, true)?),
                b"compress-all" => request.packing.all = true,
                b"compress" => request.packing.off = !truth(&value()?)?,
                b"compress-mode" => {
                    let text = value()?;
                    let mode = text.to_str().and_then(Mode::by_name);
                    request.packing.mode = mode.ok_or_else(|| UsageError::BadValue {
                        value: culd_text::name(&text),
                        option: "compress-mode",
                    })?;
                }
                b"ident" => request.ident = value()?.as_bytes().to_vec(),
                b"cmdline" => request.ptxas = value()?.as_bytes().to_vec(),
                b"cicc-cmdline" => request.cicc = value()?.as_bytes().to_vec(),
                b"debug" | b"g" => request.debug = true,
                b"device-c" | b"c" => request.module = true,
                b"link" => request.link = true,
                b"no-asm" => request.no_asm = true,
                b"help" | b"h" => request.help = true,
                _ => return Err(FatbinaryError::Unsupported(culd_text::name(typed))),
            }
        }
        request.packing.all |= request.debug || request.module;
        Ok(request)
    }

    /// True if the fat binary has the bytes of NVIDIA's.
    fn is_exact(&self) -> bool {
        let stored = self.packing.off || self.packing.mode == Mode::None;
        stored || self.images.iter().all(|image| image.kind != ImageKind::LtoIr)
    }

    fn make(&self) -> RunOutcome {
        let images = self.images.iter().map(|spec| self.image(spec));
        let images = images.collect::<Result<Vec<InputImage>, _>>();
        let whole = images.and_then(|images| write(&images).map_err(FatbinaryError::Whole));
        let whole = match whole {
            Ok(whole) => whole,
            Err(error) => return RunOutcome::fatal(error),
        };
        let failed = |path: &Path, error| RunOutcome::fatal_line(FileError::output(path, &error));
        if let Some(path) = &self.create
            && let Err(error) = output::write(path, &whole)
        {
            return failed(path, error);
        }
        if let Some(path) = &self.embedded {
            let purpose = match () {
                () if self.module && self.link => EmbedUse::LinkedModule,
                () if self.module => EmbedUse::Module,
                () if self.link => EmbedUse::DeviceLink,
                () => EmbedUse::Program,
            };
            if let Err(error) = output::write(path, &c_text(&whole, purpose, !self.no_asm)) {
                return failed(path, error);
            }
        }
        RunOutcome::success()
    }

    fn image(&self, spec: &Spec) -> Result<InputImage, FatbinaryError> {
        let file = || culd_text::name(&spec.file);
        let (data, _) =
            files::read(Path::new(&spec.file)).map_err(|_| FatbinaryError::Open(file()))?;
        let data = data.to_vec();
        let wrong = |error| FatbinaryError::Image { file: file(), error };
        let image = match spec.kind {
            ImageKind::Elf => {
                let sm = Cubin::parse(&data).ok().map(|cubin| cubin.header.sm());
                if sm.is_some_and(|sm| sm != spec.target.sm) {
                    return Err(FatbinaryError::Mismatch);
                }
                InputImage::cubin(data, spec.target).map_err(wrong)?
            }
            ImageKind::Ptx => {
                let image = InputImage::ptx(&data, spec.target).map_err(wrong)?;
                image.options(self.ptxas.as_slice())
            }
            _ => {
                let image = InputImage::lto_ir(data, spec.target).map_err(wrong)?;
                image.options(self.cicc.as_slice())
            }
        };
        let flags = if self.debug { flag::DEBUG } else { 0 };
        self.packing.pack(image.ident(self.ident.as_slice()).flags(flags)).map_err(wrong)
    }
}

impl Spec {
    /// `kind=elf,sm=90,file=F`, or `profile=sm_90,file=F`.
    fn read(text: &OsStr, old: bool) -> Result<Self, FatbinaryError> {
        let (mut kind, mut sm, mut file) = (None, None, None);
        for part in response::elements(text, 16)? {
            let (key, value) = split_name(&part);
            let value = value.unwrap_or_default();
            match (key.as_bytes(), old) {
                (b"kind", false) => {
                    kind = match value.as_bytes() {
                        b"elf" => Some(ImageKind::Elf),
                        b"ptx" => Some(ImageKind::Ptx),
                        b"nvvm" => Some(ImageKind::LtoIr),
                        _ => return Err(FatbinaryError::Kind),
                    };
                }
                (b"sm", false) => sm = Some(value.to_owned()),
                (b"profile", true) => {
                    let (name, number) = value
                        .to_str()
                        .and_then(|text| text.split_once('_'))
                        .ok_or(FatbinaryError::Arch)?;
                    kind = match name {
                        "sm" => Some(ImageKind::Elf),
                        "compute" => Some(ImageKind::Ptx),
                        "lto" => Some(ImageKind::LtoIr),
                        _ => return Err(FatbinaryError::Arch),
                    };
                    sm = Some(number.into());
                }
                (b"file", _) => file = Some(value.to_owned()),
                _ => return Err(FatbinaryError::Unsupported(culd_text::name(&part))),
            }
        }
        let kind = kind.ok_or(FatbinaryError::Kind)?;
        let name = sm.as_deref().and_then(OsStr::to_str).ok_or(FatbinaryError::Arch)?;
        let arch = Arch::by_name(&format!("sm_{name}")).ok_or(FatbinaryError::Arch)?;
        let target = match arch.variant {
            Variant::Plain => ImageTarget::sm(arch.sm),
            Variant::Accelerated => ImageTarget::accelerated(arch.sm),
            Variant::Family => ImageTarget::family(arch.sm),
        };
        Ok(Spec { kind, target, file: file.unwrap_or_default() })
    }
}

fn truth(value: &OsStr) -> Result<bool, UsageError> {
    match value.to_str() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(UsageError::BoolExpected(culd_text::name(value))),
    }
}
