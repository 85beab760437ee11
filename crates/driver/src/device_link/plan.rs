//! The plan of a line of nvcc: the links that nvcc would start, and the output made from their
//! images.
//!
//! In: a [`CommandLine`], a toolkit. Out: a [`DeviceLinkPlan`]. Each link is a line of nvlink with
//! nvcc's words in nvcc's order, so that only `options` decides on their meaning.

use culd_text::os::{OsStrExt, OsStringExt};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use culd_fatbin::packing::{Mode, Packing};
use culd_fatbin::registration::{Machine, Visibility};
use culd_link::Dialect;

use crate::nvcc::{
    CommandLine, HostWord, NvccError, NvccOptionId, Profile, TargetCode, TargetCodes, codes,
    host_word,
};
use crate::options::{Target, UsageError, base_name};

/// The name of nvcc's output without `-o`.
const USUAL_OUTPUT: &str = "a_dlink";

/// The kind of output of a device link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceLinkForm {
    /// An object for the host linker.
    Object,
    /// `-fatbin`: the linked images in a fat binary.
    Fatbin,
    /// `-cubin`: the first linked image.
    Cubin,
}

/// A device link that is to be made.
#[derive(Debug)]
pub(crate) struct DeviceLinkPlan {
    pub(crate) codes: Vec<TargetCode>,
    pub(crate) form: DeviceLinkForm,
    /// `-r`: the output takes part in a later device link.
    pub(crate) relocatable: bool,
    pub(crate) output: PathBuf,
    pub(crate) packing: Packing,
    /// The images are for a debugger.
    pub(crate) debug: bool,
    /// The name of the images in the fat binary.
    pub(crate) ident: Vec<u8>,
    pub(crate) visibility: Visibility,
    /// The machine of the host, if the line names it.
    pub(crate) machine: Option<Machine>,
    /// The ptxas of the toolkit that the line names.
    pub(crate) ptxas: Option<PathBuf>,
    inputs: Vec<OsString>,
    /// Words of nvlink in front of `-cpu-arch`, and behind it.
    before: Vec<OsString>,
    behind: Vec<OsString>,
    has_runtime: bool,
}

/// The extensions by which nvcc knows inputs of the linker.
const LINKED: &[&[u8]] = &[b"a", b"fatbin", b"lib", b"o", b"obj", b"res", b"so"];
const COMPILED: &[&[u8]] = &[
    b"c", b"cc", b"cpp", b"cu", b"cubin", b"cup", b"cxx", b"gpu", b"i", b"ii", b"ptx", b"s", b"S",
];

impl DeviceLinkPlan {
    /// The plan for `line` and the words that the toolkit of `profile` adds.
    pub(crate) fn new(
        line: &CommandLine,
        profile: &Profile,
        release: &'static Dialect,
    ) -> Result<Self, NvccError> {
        let lto = line.has(NvccOptionId::Lto);
        if let Some(word) = line.beyond.first() {
            return Err(NvccError::Beyond(word.clone()));
        }
        if lto && line.is_for_debugger() {
            return Err(NvccError::LtoForDebugger);
        }
        if let Some(option) = line.at_odds() {
            return Err(NvccError::Beyond(option.to_owned()));
        }
        let visibility = host_words(line)?;
        if line.inputs.is_empty() {
            return Err(UsageError::NoInput.into());
        }
        let wanted = codes(
            line.value(NvccOptionId::Arch),
            line.list(NvccOptionId::Code),
            line.list(NvccOptionId::Generate),
            release,
        )?;
        let form = match () {
            () if line.has(NvccOptionId::Cubin) => DeviceLinkForm::Cubin,
            () if line.has(NvccOptionId::Fatbin) => DeviceLinkForm::Fatbin,
            () => DeviceLinkForm::Object,
        };
        let relocatable = line.has(NvccOptionId::Relocatable);
        for input in &line.inputs {
            check_input(input, line, form == DeviceLinkForm::Object && !relocatable)?;
        }
        let debug = line.is_for_debugger();
        let lines =
            [NvccOptionId::Debug, NvccOptionId::Lineinfo].into_iter().any(|id| line.has(id));
        let mut packing = packing(line)?;
        packing.all |= debug || relocatable;
        let extension = match form {
            DeviceLinkForm::Object => "o",
            DeviceLinkForm::Fatbin => "fatbin",
            DeviceLinkForm::Cubin => "cubin",
        };
        let usual = || PathBuf::from(USUAL_OUTPUT).with_extension(extension);
        Ok(DeviceLinkPlan {
            form,
            relocatable,
            output: line.value(NvccOptionId::Output).map_or_else(usual, PathBuf::from),
            packing,
            debug,
            ident: match () {
                () if lines => named(&line.inputs),
                () if lto => b"lto".to_vec(),
                () => Vec::new(),
            },
            visibility,
            machine: None,
            ptxas: None,
            inputs: line.inputs.clone(),
            before: before(line, profile),
            behind: behind(line, profile, &wanted),
            has_runtime: line.text(NvccOptionId::DeviceRuntime) != Some("none"),
            codes: wanted.targets,
        })
    }

    /// True if the output is an object for the host linker.
    pub(crate) fn is_plain(&self) -> bool {
        self.form == DeviceLinkForm::Object && !self.relocatable
    }

    /// The number of links: nvcc makes only one for `-cubin`.
    pub(crate) fn links(&self) -> usize {
        if self.form == DeviceLinkForm::Cubin { 1 } else { self.codes.len() }
    }

    /// The words of nvlink for the link for code number `number`.
    pub(crate) fn words(&self, number: usize, machine: Machine) -> Vec<OsString> {
        let code = &self.codes[number];
        let word = |text: &str| OsString::from(text);
        let mut words = self.before.clone();
        words.push(format!("-arch={}", code.target.name()).into());
        if self.relocatable {
            words.push(word("-r"));
        } else if self.form == DeviceLinkForm::Object {
            words.push(joined("--register-link-binaries=", self.side_output(".reg.c")));
        }
        words.push(word(match machine {
            Machine::X86_64 => "-cpu-arch=X86_64",
            Machine::AArch64 => "-cpu-arch=AARCH64",
        }));
        words.extend(self.behind.iter().cloned());
        words.extend(self.inputs.iter().cloned());
        if self.has_runtime {
            words.push(word("-lcudadevrt"));
        }
        if let Target::Real(_) = code.target {
            let output = match self.form {
                DeviceLinkForm::Cubin => self.output.clone().into_os_string(),
                _ => self.side_output(&format!("{}.cubin", code.suffix)),
            };
            words.extend([word("-o"), output]);
        }
        words
    }

    /// Has the links follow `release`, unless words for nvlink name one.
    pub(crate) fn follow(&mut self, release: &Dialect) {
        let names = |word: &OsString| {
            let word = word.as_bytes();
            let word = word.strip_prefix(b"-").unwrap_or(word);
            word.strip_prefix(b"-").unwrap_or(word).starts_with(b"dialect")
        };
        if !self.before.iter().any(names) {
            self.before.insert(0, format!("--dialect={release}").into());
        }
    }

    /// A file that nvcc would make next to the output, as with `-keep`. It is never written; a tool
    /// note has some of these names.
    fn side_output(&self, ending: &str) -> OsString {
        let name = base_name(&self.output);
        let stem = name.iter().rposition(|&byte| byte == b'.').map_or(name, |dot| &name[..dot]);
        OsString::from_vec([stem, ending.as_bytes()].concat())
    }
}

fn joined(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(name);
    word.push(value);
    word
}

/// The words of nvlink in front of the architecture of the host.
fn before(line: &CommandLine, profile: &Profile) -> Vec<OsString> {
    let mut words = line.list(NvccOptionId::NvlinkWords).to_vec();
    words.push("-m64".into());
    for (given, word) in [
        (line.has(NvccOptionId::Shared), "--shared"),
        (
            line.list(NvccOptionId::Werror).iter().any(|kind| kind == "all-warnings"),
            "--warning-as-error",
        ),
        (line.has(NvccOptionId::NoWarnings), "-w"),
        (line.is_for_debugger(), "-g"),
    ] {
        words.extend(given.then(|| OsString::from(word)));
    }
    words.extend(line.list(NvccOptionId::LibraryPath).iter().map(|folder| joined("-L", folder)));
    words.extend(line.list(NvccOptionId::Library).iter().map(|name| joined("-l", name)));
    words.extend(profile.libraries.iter().cloned());
    words
}

/// The words of nvlink behind the architecture of the host.
fn behind(line: &CommandLine, profile: &Profile, codes: &TargetCodes) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if line.has(NvccOptionId::ResourceUsage) {
        words.push("-v".into());
    }
    if codes.reports {
        words.push("-report-arch".into());
    }
    if line.has(NvccOptionId::Lto) {
        words.extend(["-dlto".into(), joined("-nvvmpath=", &profile.nvvm)]);
        let registers = line.text(NvccOptionId::MaxRegisters).filter(|&count| count != "0");
        words.extend(registers.map(|count| joined("-maxrregcount=", count)));
        let ptxas = line.list(NvccOptionId::PtxasWords);
        if !ptxas.is_empty() {
            // All of them become one word, with a blank behind each.
            let text = ptxas.iter().flat_map(|word| [word.as_bytes(), b" "]).collect::<Vec<_>>();
            words.extend(["-Xptxas".into(), OsString::from_vec(text.concat())]);
        }
        for (id, name) in [
            (NvccOptionId::SplitCompile, "-split-compile="),
            (NvccOptionId::SplitCompileExtended, "-split-compile-extended="),
        ] {
            words.extend(line.value(id).map(|value| joined(name, value)));
        }
    }
    words
}

/// The visibility of the host object's symbols, by the words for the host compiler.
fn host_words(line: &CommandLine) -> Result<Visibility, NvccError> {
    let forwards = line.has(NvccOptionId::ForwardCompiler) || line.has(NvccOptionId::ForwardBoth);
    if let Some(word) = line.unknown.first()
        && !forwards
        && !line.has(NvccOptionId::ForwardLinker)
    {
        return Err(UsageError::Unknown(culd_text::name(word)).into());
    }
    let unknown: &[OsString] = if forwards { &line.unknown } else { &[] };
    let mut visibility = Visibility::default();
    for word in line.list(NvccOptionId::HostWords).iter().chain(unknown) {
        // An element of a list can have several.
        for word in word.as_bytes().split(|byte| b" \t".contains(byte)) {
            match host_word(OsStr::from_bytes(word)) {
                HostWord::Visibility(wanted) => visibility = wanted,
                HostWord::Neutral => {}
                HostWord::Other | HostWord::Unknown => {
                    return Err(NvccError::HostObject(culd_text::bytes(word)));
                }
            }
        }
    }
    Ok(visibility)
}

/// The compression of the images, by options of nvcc and words for fatbinary.
fn packing(line: &CommandLine) -> Result<Packing, NvccError> {
    let mode = line.text(NvccOptionId::CompressMode).and_then(Mode::by_name).unwrap_or_default();
    let mut packing = Packing { mode, off: line.has(NvccOptionId::NoCompress), all: false };
    for word in line.list(NvccOptionId::FatbinaryWords) {
        match word.as_bytes() {
            b"-compress-all" | b"--compress-all" => packing.all = true,
            b"-compress=false" | b"--compress=false" => packing.off = true,
            b"-compress=true" | b"--compress=true" => packing.off = false,
            _ => return Err(NvccError::Beyond(format!("-Xfatbin {}", culd_text::name(word)))),
        }
    }
    Ok(packing)
}

/// The inputs as an identifier names them.
fn named(inputs: &[OsString]) -> Vec<u8> {
    inputs.iter().flat_map(|input| [input.as_bytes(), b" "]).collect::<Vec<_>>().concat()
}

/// Refuses inputs that nvcc does not pass to nvlink unchanged. Of cubins and PTX it makes objects
/// with ids that name its process, and removes them: an object that registers them cannot be
/// linked.
fn check_input(input: &OsStr, line: &CommandLine, registers: bool) -> Result<(), NvccError> {
    let lto = line.has(NvccOptionId::Lto);
    let compiles = [
        NvccOptionId::Debug,
        NvccOptionId::Lineinfo,
        NvccOptionId::PtxasWords,
        NvccOptionId::MaxRegisters,
    ];
    let extension = Path::new(input).extension().map(OsStr::as_bytes).unwrap_or_default();
    match extension {
        b"ltoir" if lto => Ok(()),
        b"cubin" | b"ptx" if !lto && registers => {
            Err(NvccError::Unregistrable(culd_text::name(input)))
        }
        b"cubin" if !lto => Ok(()),
        // ptxas would get these options.
        b"ptx" if !lto && !compiles.into_iter().any(|id| line.has(id)) => Ok(()),
        extension if LINKED.contains(&extension) => Ok(()),
        extension if COMPILED.contains(&extension) => {
            Err(NvccError::Source(culd_text::name(input)))
        }
        _ => Err(NvccError::Unknowable(culd_text::name(input))),
    }
}
