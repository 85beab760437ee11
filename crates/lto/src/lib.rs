//! LTO-IR compiled by the user's copy of NVIDIA's libnvJitLink.
//!
//! In: LTO-IR, alone or in fat binaries and objects, and options. Out: PTX, or a cubin of all
//! inputs. Guaranteed: only public interfaces are used; what NVIDIA's libraries say is handed on.
//! LTO-IR is NVIDIA's own and is not looked at here.
//!
//! libnvJitLink drops what no LTO-IR uses. What other code uses is named in a module of LTO-IR of
//! our own (`CompileTask::roots`), which libnvvm makes of NVVM IR.
//!
//! `unsafe` is in `nvidia`, which makes the calls, and in `copy`, which copies a process that has
//! loaded the library.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod copy;
#[cfg(not(target_os = "linux"))]
#[path = "no_copy.rs"]
mod copy;
mod nvidia;
mod other_code;
#[cfg(target_os = "linux")]
mod processor;
#[cfg(not(target_os = "linux"))]
#[path = "no_processor.rs"]
mod processor;

use std::env;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use copy::ProcessCopy;
pub use nvidia::{NvJitLink, lto_ir};
pub use other_code::{OPEN_ROOTS, OPEN_ROOTS_TEXT};
pub use processor::BusyProcessor;

/// The files that are looked for in a folder, the first one first. NVIDIA's library has the longer
/// name where culd's has taken its place.
const NAMES: [&str; 4] = [
    "libnvJitLink.so.13.nvidia",
    "libnvJitLink.so.13",
    "libnvJitLink.so.12.nvidia",
    "libnvJitLink.so.12",
];

/// Places of libnvvm in a toolkit, and in a folder with NVIDIA's wheels.
const NVVM: [&str; 4] =
    ["nvvm/lib64/libnvvm.so", "nvvm/lib64/libnvvm.so.4", "lib64/libnvvm.so.4", "lib/libnvvm.so.4"];

/// The kind of an input. The numbers are NVIDIA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names say all")]
pub enum CompileInputKind {
    Cubin = 1,
    Ptx = 2,
    LtoIr = 3,
    Fatbin = 4,
    Object = 5,
}

/// A compilation.
#[derive(Debug, Clone, Copy)]
pub struct CompileTask<'i> {
    /// Options of libnvJitLink; the first names the target.
    pub options: &'i [String],
    /// LTO-IR, and for [`LtoTarget::Cubin`] other code.
    pub inputs: &'i [CompileInput<'i>],
    /// The output of a compilation.
    pub want: LtoTarget,
    /// LTO-IR that names what has to stay: of [`lto_ir`], or [`OPEN_ROOTS`].
    pub roots: Option<&'i [u8]>,
}

/// An input of a compilation.
#[derive(Debug, Clone, Copy)]
pub struct CompileInput<'i> {
    /// The kind.
    pub kind: CompileInputKind,
    /// Its name in messages.
    pub name: &'i str,
    /// All of it.
    pub bytes: &'i [u8],
}

/// The output of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LtoTarget {
    /// PTX of inputs that are LTO-IR; ends with NUL. Functions that only other code needs are not
    /// in it.
    Ptx,
    /// A relocatable cubin of them, with everything that other code can see. It has been linked
    /// once, with an input that is empty.
    Object,
    /// A cubin of all inputs.
    Cubin,
}

/// The result of a compilation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOutput {
    /// The wanted output.
    pub bytes: Vec<u8>,
    /// All LTO-IR as one piece, where the library gives it (13.3 and later).
    pub lto_ir: Option<Vec<u8>>,
    /// The library's error log of a compilation that did not fail.
    pub log: String,
    /// Its info log.
    pub infos: String,
}

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LtoError {
    /// There is no library.
    #[error(
        "no libnvJitLink.so.13 of NVIDIA's: there is none (or libnvJitLink.so.13.nvidia, where culd's has its name; or .so.12) \
         in the toolkit of CUDA_HOME, CUDA_PATH, or a ptxas or nvcc in PATH, or in nvidia/cu13 of the program's Python \
         packages; CULD_NVJITLINK names one"
    )]
    NotFound,
    /// There is no libnvvm, which a link of LTO-IR with other code needs.
    #[error("no libnvvm.so.4 of NVIDIA's beside libnvJitLink or in the toolkits")]
    NoNvvm,
    /// It cannot be used.
    #[error("cannot use '{}': {error}", path.display())]
    Unusable {
        /// The library.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// It is culd's own library, which would ask itself.
    #[error(
        "cannot use '{}': it is culd's own, which needs NVIDIA's; keep that beside it as libnvJitLink.so.13.nvidia",
        path.display()
    )]
    OfCuld {
        /// The library.
        path: PathBuf,
    },
    /// It makes no objects. A [`LtoTarget::Cubin`] of all inputs has the same PTX in it.
    #[error(
        "'{}' is of CUDA 12, which makes no object of LTO-IR; in a link with other code, LTO-IR needs PTX beside it \
         (code=[compute_80,lto_80], as nvcc -dlto -arch=sm_80 does), or libnvJitLink of CUDA 13",
        path.display()
    )]
    NoObject {
        /// The library.
        path: PathBuf,
    },
    /// It has refused, and said why.
    #[error("'{}' refused (code {code})", path.display())]
    Refused {
        /// The library.
        path: PathBuf,
        /// The library's result code.
        code: i32,
        /// Its error log.
        log: String,
        /// Its info log.
        infos: String,
        /// The LTO-IR that it made of all inputs before it failed: 13.4 and later.
        lto_ir: Option<Vec<u8>>,
        /// The input that it has not taken: a place in [`CompileTask::inputs`]. `None` if it has
        /// taken all of them, or the refused one is not among them.
        input: Option<usize>,
    },
}

impl LtoError {
    /// The error about the input at `place`, if it is one about an input.
    pub(crate) fn at_input(mut self, place: Option<usize>) -> Self {
        if let LtoError::Refused { input, .. } = &mut self {
            *input = place;
        }
        self
    }

    /// The error about a compilation with the function of [`OPEN_ROOTS`], as it would be without
    /// it.
    pub(crate) fn without_open_roots(mut self) -> Self {
        if let LtoError::Refused { log, .. } = &mut self {
            *log = other_code::without_declaration(log);
        }
        self
    }
}

/// What `load` makes of NVIDIA's library: the file that `CULD_NVJITLINK` names, or that of the
/// first of `toolkits` that has one, under its own name or the one that it got when culd's took its
/// place. `own` is a file that is not meant, because it is the one that asks. Other copies of
/// culd's library are passed over: culd's packages have that of CUDA 12 beside that of CUDA 13.
///
/// # Errors
/// There is no such library, or `load` fails.
pub fn with_library<T>(
    own: Option<&Path>,
    toolkits: &[PathBuf],
    mut load: impl FnMut(PathBuf) -> Result<T, LtoError>,
) -> Result<T, LtoError> {
    let mut last = LtoError::NotFound;
    for path in candidates(own, toolkits) {
        match load(path) {
            Err(error @ LtoError::OfCuld { .. }) => last = error,
            done => return done,
        }
    }
    Err(last)
}

/// The files that may be NVIDIA's library, the first one first: see [`with_library`].
pub fn candidates(own: Option<&Path>, toolkits: &[PathBuf]) -> Vec<PathBuf> {
    if let Some(named) = env::var_os("CULD_NVJITLINK") {
        return vec![named.into()];
    }
    let folders = toolkits.iter().flat_map(|home| ["lib64", "lib"].map(|folder| home.join(folder)));
    let own = own.and_then(|own| own.canonicalize().ok());
    folders
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .filter_map(|file| file.canonicalize().ok())
        .filter(|file| Some(file) != own.as_ref() && file.is_file())
        .collect()
}

/// The libnvvm of the toolkit that `library`, a libnvJitLink, is of; else that of the first of
/// `toolkits` that has one. Both have to be of one release: LTO-IR of a newer one is refused.
pub fn find_nvvm(library: &Path, toolkits: &[PathBuf]) -> Option<PathBuf> {
    let own = library.canonicalize().ok();
    let own = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    let homes = own.into_iter().chain(toolkits.iter().map(PathBuf::as_path));
    homes.flat_map(|home| NVVM.map(|file| home.join(file))).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_had_to_move_comes_before_what_took_its_place() {
        let folder = env::temp_dir().join(format!("culd-lto-{}", std::process::id()));
        let place = |name: &str| folder.join("lib").join(name);
        std::fs::create_dir_all(place("")).unwrap();
        let all = |own: Option<&Path>| candidates(own, std::slice::from_ref(&folder));
        let found = |own: Option<&Path>| all(own).first().cloned();
        assert_eq!(found(None), None);
        let [moved, plain, _, older] = NAMES.map(place);
        std::fs::write(&older, "of CUDA 12").unwrap();
        assert_eq!(found(None), Some(older.canonicalize().unwrap()));
        std::fs::write(&plain, "culd's").unwrap();
        let plain = plain.canonicalize().unwrap();
        assert_eq!(found(None).as_ref(), Some(&plain));
        std::fs::remove_file(&older).unwrap();
        assert_eq!(found(Some(&plain)), None);
        std::fs::write(&moved, "NVIDIA's").unwrap();
        assert_eq!(found(Some(&plain)), Some(moved.canonicalize().unwrap()));
        assert_eq!(found(None), Some(moved.canonicalize().unwrap()));
        // Copies of culd's are passed over, and the reason is that of the last one.
        let mut tried = Vec::new();
        let made = with_library(Some(&plain), std::slice::from_ref(&folder), |path| {
            tried.push(path.clone());
            Err::<(), _>(LtoError::OfCuld { path })
        });
        assert!(matches!(made, Err(LtoError::OfCuld { .. })));
        assert_eq!(tried, all(Some(&plain)));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error_with_its_path() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let error = NvJitLink::load(path.to_owned()).unwrap_err();
        assert!(matches!(error, LtoError::Unusable { .. }));
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
