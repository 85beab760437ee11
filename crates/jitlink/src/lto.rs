//! LTO-IR among the inputs.
//!
//! In: inputs with LTO-IR. Out: PTX of them, or the image of a link that NVIDIA's library makes. Guaranteed: nothing is looked
//! at but the headers of fat binaries.

use std::borrow::Cow;

use culd_driver::Cubin;
use culd_fatbin::container::{Kind as EntryKind, containers};
use culd_fatbin::host::HostObject;
use culd_fatbin::{Format, archive, sniff};
use culd_lto::{Kind, LtoError, Made, Want};

use crate::home;
use crate::options::{LinkOptions, Refusal};
use crate::result::Code;

/// What messages call the code that was made of LTO-IR.
pub(crate) const NAME: &str = "lto.ptx";

/// Options that are ours to follow, or come on their own.
const OURS: &[&str] = &["-arch=", "-dlto", "-lto", "-ptx", "-r", "-time", "-uidx=", "-verbose"];

/// An input for the compiler of LTO-IR.
#[derive(Debug)]
pub(crate) struct Input {
    kind: Kind,
    name: String,
    bytes: Vec<u8>,
}

/// The inputs for the compiler in `bytes`; `None` where there are none.
pub(crate) fn inputs(format: Format, name: &str, bytes: &[u8], sm: u32) -> Option<Vec<Input>> {
    let one = |kind| Some(vec![Input { kind, name: name.to_owned(), bytes: bytes.to_vec() }]);
    match format {
        Format::LtoIr => one(Kind::LtoIr),
        Format::Fatbin if has_lto(bytes, sm) => one(Kind::Fatbin),
        Format::HostElf { .. } => {
            let object = HostObject::parse(bytes).ok()??;
            let any = object.fatbins.iter().any(|section| has_lto(section.data, sm));
            if any { one(Kind::Object) } else { None }
        }
        Format::Archive => members(name, bytes, sm),
        _ => None,
    }
}

/// The members of an archive, if all that have device code have LTO-IR.
fn members(name: &str, bytes: &[u8], sm: u32) -> Option<Vec<Input>> {
    let mut all = Vec::new();
    for member in archive::members(bytes).ok()? {
        let archive::Contents::Here { data, .. } = member.ok()?.contents else { return None };
        match sniff(data) {
            format @ Format::HostElf { .. } => {
                let object = HostObject::parse(data).ok()?;
                if object.is_some_and(|object| !object.fatbins.is_empty()) {
                    all.extend(inputs(format, name, data, sm)?);
                }
            }
            _ => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}

/// True when a fat binary has LTO-IR for the architecture with this number.
fn has_lto(bytes: &[u8], sm: u32) -> bool {
    let entries = containers(bytes)
        .map_while(Result::ok)
        .flat_map(|container| container.entries().map_while(Result::ok).collect::<Vec<_>>());
    entries.into_iter().any(|entry| entry.kind() == EntryKind::LtoIr && entry.sm() <= sm)
}

/// What becomes of LTO-IR.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) ptx: Vec<u8>,
    /// A relocatable cubin with all functions, beside other code, from 13.3 on.
    pub(crate) object: Option<Vec<u8>>,
    /// The same as one piece of LTO-IR, from libnvJitLink 13.3 on.
    pub(crate) lto_ir: Option<Vec<u8>>,
}

/// PTX of all inputs.
pub(crate) fn compile(
    options: &LinkOptions,
    inputs: &[Input],
    others: &[Cubin],
) -> Result<Compiled, Refusal> {
    if options.ptx && !others.is_empty() {
        let text = "ERROR: -ptx requires that all inputs have LTOIR\n";
        return Err((Code::IncorrectInputType, text.to_owned()));
    }
    if inputs.is_empty() {
        let text = "ERROR in nvvmCompileProgram: NVVM_ERROR_NO_MODULE_IN_PROGRAM\n";
        return Err((Code::NvvmCompile, text.to_owned()));
    }
    let (made, _) = run(options, inputs, &[], Want::Ptx)?;
    let object = match others.is_empty() && !options.options.flag(culd_driver::Id::Relocatable) {
        true => None,
        // Where it cannot be made, the PTX is as good as it was.
        false => run(options, inputs, &[], Want::Object).ok().map(|(made, _)| made.bytes),
    };
    let object = object.filter(|bytes| !bytes.is_empty());
    Ok(Compiled { ptx: made.bytes, object, lto_ir: made.lto_ir })
}

/// The image that NVIDIA's library makes of everything, and what is told of that.
pub(crate) fn link(
    options: &LinkOptions,
    inputs: &[Input],
    cubins: &[Cubin],
) -> Result<(Vec<u8>, String), Refusal> {
    let others: Vec<&Cubin> = cubins.iter().filter(|cubin| cubin.name != NAME).collect();
    let (made, path) = run(options, inputs, &others, Want::Cubin)?;
    let text = format!(
        "info    : linked by '{path}': code that is not LTO-IR needs functions of LTO-IR\n"
    );
    Ok((made.bytes, text))
}

fn run(
    options: &LinkOptions,
    inputs: &[Input],
    cubins: &[&Cubin],
    want: Want,
) -> Result<(Made, String), Refusal> {
    let path = culd_lto::find(home::library(), &culd_driver::toolkit_homes(&options.options))
        .ok_or_else(|| refusal(&LtoError::NotFound))?;
    let ours = |word: &&String| !OURS.iter().any(|option| word.starts_with(option));
    let kind = if options.is_virtual { "compute_" } else { "sm_" };
    let name = options.arch.name.trim_start_matches("sm_");
    let mut words = vec![format!("-arch={kind}{name}"), "-lto".to_owned()];
    words.extend(match want {
        Want::Ptx => Some("-ptx".to_owned()),
        Want::Object => Some("-r".to_owned()),
        Want::Cubin => None,
    });
    words.extend(options.words.iter().filter(ours).cloned());
    let lto = inputs.iter().map(|Input { kind, name, bytes }| culd_lto::Input {
        kind: *kind,
        name,
        bytes,
    });
    let cubins = cubins.iter().map(|cubin| culd_lto::Input {
        kind: Kind::Cubin,
        name: &cubin.name,
        bytes: &cubin.bytes,
    });
    let all: Vec<culd_lto::Input<'_>> = lto.chain(cubins).collect();
    let made = culd_lto::compile(&path, &words, &all, want);
    let path: Cow<'_, str> = path.to_string_lossy();
    made.map(|made| (made, path.into_owned())).map_err(|error| refusal(&error))
}

fn refusal(error: &LtoError) -> Refusal {
    let told = || format!("error   : LTO-IR cannot be compiled: {error}\n");
    match error {
        LtoError::Refused { code, log, .. } => {
            let codes = [
                Code::InvalidInput,
                Code::PtxCompile,
                Code::Internal,
                Code::IncorrectInputType,
                Code::LtoNotEnabled,
            ];
            let code = codes.into_iter().find(|known| *known as i32 == *code);
            let text = if log.is_empty() { told() } else { log.clone() };
            (code.unwrap_or(Code::NvvmCompile), text)
        }
        _ => (Code::NvvmCompile, told()),
    }
}
