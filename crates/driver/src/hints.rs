//! Why a name is undefined although the command line seems to bring it.
//!
//! In: undefined names, and the parts of the inputs that are not linked: images for other
//! architectures, LTO-IR, code compiled without `-rdc=true`, libraries that were not found. Out:
//! texts of notes. Guaranteed: no I/O; contents are read only when there is an undefined name;
//! notes are in the order of the inputs.

use std::collections::HashSet;

use culd_cubin::elf::stb;
use culd_cubin::{Cubin, SymbolSection};
use culd_link::{Dialect, driver_function_since};
use thiserror::Error;

use crate::options::base_name;

/// Code in the inputs that is not linked.
pub struct UnlinkedCode<'a> {
    /// The input, as messages name it.
    pub file: String,
    /// Why it is not linked.
    pub why: UnlinkedReason,
    /// Its bytes, if it is a cubin: read only when a name is undefined.
    pub cubin: Option<Box<dyn Fn() -> Option<Vec<u8>> + 'a>>,
}

/// Why code is not linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnlinkedReason {
    /// It is for this architecture, which the target does not take.
    OtherArch(String),
    /// It is LTO-IR, which needs `-lto`.
    LtoIr,
    /// It was compiled without `-rdc=true`, or is linked already.
    WholeProgram,
    /// This object says that a device link has linked it.
    LinkedBefore(String),
}

/// A text below a line about an undefined name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
pub enum Hint {
    #[error("'{file}' defines it for {archs} only")]
    OtherArch { file: String, archs: String },
    #[error("'{file}' defines it, but was compiled without -rdc=true")]
    WholeProgram { file: String },
    #[error("'{file}' defines it, but a device link has linked that file before, into '{by}'")]
    LinkedBefore { file: String, by: String },
    #[error("lib{library}.a defines names like it: add -l{library}")]
    Library { library: &'static str },
    #[error("the driver has it since CUDA {since}: --dialect={since} follows a release that knows")]
    Driver { since: &'static Dialect },
    #[error("'{file}' holds only LTO-IR, which needs -lto")]
    LtoIr { file: String },
    #[error("'{file}' holds code that was compiled without -rdc=true and cannot be linked")]
    NotRelocatable { file: String },
    #[error("lib{library}.a of -l{library} is in no folder of -L")]
    NotFound { library: String },
    #[error("'{file}' holds code for {what}")]
    Holds { file: String, what: String },
}

/// Names that only a library of NVIDIA's defines, by how they begin.
const LIBRARIES: &[(&str, &str)] =
    &[("cuda", "cudadevrt"), ("__cudaCDP2", "cudadevrt"), ("nvshmem", "nvshmem_device")];

/// The targets of a file without code for the link's target, for the line that says so.
pub fn holds<'n>(file: &str, archs: impl IntoIterator<Item = &'n str>) -> Option<Hint> {
    let what: Vec<&str> = archs.into_iter().collect();
    let file = file.to_owned();
    (!what.is_empty()).then(|| Hint::Holds { file, what: what.join(", ") })
}

/// Hints for each undefined name. Hints that may explain any of them stand with the last one.
///
/// `archives` are the names of the archives that were searched, `missing_libraries` the names of
/// `-l` without an archive.
pub fn undefined(
    names: &[&str],
    elsewhere: &[UnlinkedCode<'_>],
    archives: &[String],
    missing_libraries: &[String],
) -> Vec<Vec<Hint>> {
    let mut hints = vec![Vec::new(); names.len()];
    let Some(last) = names.len().checked_sub(1) else { return hints };
    let mut general = Vec::new();
    for part in elsewhere {
        let file = part.file.clone();
        let defined = part
            .cubin
            .as_ref()
            .and_then(|read| read())
            .map_or(Vec::new(), |bytes| defined_among(&bytes, names));
        match &part.why {
            UnlinkedReason::LtoIr => add(&mut general, Hint::LtoIr { file }),
            UnlinkedReason::WholeProgram if defined.is_empty() => {
                add(&mut general, Hint::NotRelocatable { file });
            }
            UnlinkedReason::WholeProgram => {
                let hint = Hint::WholeProgram { file };
                defined.iter().for_each(|&at| add(&mut hints[at], hint.clone()));
            }
            UnlinkedReason::LinkedBefore(by) => {
                let hint = Hint::LinkedBefore { file, by: by.clone() };
                defined.iter().for_each(|&at| add(&mut hints[at], hint.clone()));
            }
            UnlinkedReason::OtherArch(arch) => {
                defined.iter().for_each(|&at| add_arch(&mut hints[at], &file, arch));
            }
        }
    }
    for (name, hints) in names.iter().zip(&mut hints) {
        // A function of all releases is undefined only if it is used as a variable.
        let since = driver_function_since(name.as_bytes());
        let later = since.filter(|since| since.toolkit > Dialect::usual().toolkit);
        hints.extend(later.map(|since| Hint::Driver { since }));
        if since.is_some() {
            continue;
        }
        let known = LIBRARIES.iter().find(|(prefix, _)| name.starts_with(prefix));
        let is_given = |library: &str| {
            let file = format!("lib{library}.a");
            archives.iter().any(|path| base_name(path) == file.as_bytes())
                || missing_libraries.iter().any(|missing| missing == library)
        };
        let known = known.filter(|(_, library)| !is_given(library));
        hints.extend(known.map(|&(_, library)| Hint::Library { library }));
    }
    let not_found = missing_libraries.iter().cloned();
    not_found.for_each(|library| add(&mut general, Hint::NotFound { library }));
    hints[last].append(&mut general);
    hints
}

fn add(hints: &mut Vec<Hint>, hint: Hint) {
    if !hints.contains(&hint) {
        hints.push(hint);
    }
}

/// One hint for each file, with all its architectures.
fn add_arch(hints: &mut Vec<Hint>, name: &str, arch: &str) {
    let same = hints.iter_mut().find_map(|hint| match hint {
        Hint::OtherArch { file, archs } if file == name => Some(archs),
        _ => None,
    });
    match same {
        Some(archs) => *archs = format!("{archs}, {arch}"),
        None => {
            hints.push(Hint::OtherArch { file: name.to_owned(), archs: arch.to_owned() });
        }
    }
}

/// Which of `names` the cubin defines for other files; none when it cannot be read.
fn defined_among(bytes: &[u8], names: &[&str]) -> Vec<usize> {
    let Ok(cubin) = Cubin::parse(bytes) else { return Vec::new() };
    let defined = cubin.symbols.iter().filter(|symbol| {
        symbol.binding() != stb::LOCAL && symbol.section != SymbolSection::Undefined
    });
    let defined: HashSet<&[u8]> = defined.map(|symbol| symbol.name).collect();
    (0..names.len()).filter(|&at| defined.contains(names[at].as_bytes())).collect()
}
