//! LTO-IR compiled by the user's copy of NVIDIA's libnvJitLink.
//!
//! In: LTO-IR, alone or in fat binaries and objects, and options. Out: PTX, or a cubin of all inputs. Guaranteed: only the
//! public interface is used; what NVIDIA's library says is handed on. LTO-IR is NVIDIA's own and is not looked at here.
//!
//! `nvidia` makes the calls and is the only place with `unsafe`.
#![deny(unsafe_code)]

mod nvidia;

use std::env;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The file that is looked for.
const NAME: &str = "libnvJitLink.so.13";

/// What an input is. The numbers are NVIDIA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names say all")]
pub enum Kind {
    Cubin = 1,
    LtoIr = 3,
    Fatbin = 4,
    Object = 5,
}

/// An input of a compilation.
#[derive(Debug, Clone, Copy)]
pub struct Input<'i> {
    /// What it is.
    pub kind: Kind,
    /// Its name in messages.
    pub name: &'i str,
    /// All of it.
    pub bytes: &'i [u8],
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// PTX of inputs that are LTO-IR; ends with NUL. Functions that only other code needs are not in it.
    Ptx,
    /// A relocatable cubin of them, with all functions that other code can see; nothing from a library before 13.3, which has
    /// no such links.
    Object,
    /// A cubin of all inputs.
    Cubin,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// What was wanted.
    pub bytes: Vec<u8>,
    /// All LTO-IR as one piece, where the library gives it (13.3 and later).
    pub lto_ir: Option<Vec<u8>>,
}

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LtoError {
    /// There is no library.
    #[error(
        "no {NAME} of NVIDIA's: there is none in the toolkit of CUDA_HOME, CUDA_PATH, or a ptxas or nvcc in PATH; \
         CULD_NVJITLINK names one"
    )]
    NotFound,
    /// It cannot be used.
    #[error("cannot use '{}': {error}", path.display())]
    Unusable {
        /// The library.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// It has refused, and said why.
    #[error("'{}' refused (code {code})", path.display())]
    Refused {
        /// The library.
        path: PathBuf,
        /// What it returned.
        code: i32,
        /// Its error log.
        log: String,
    },
}

/// NVIDIA's library: the file that `CULD_NVJITLINK` names, or that of the first of `toolkits` that has one. `own` is a
/// file that is not meant, because it is the one that asks.
pub fn find(own: Option<&Path>, toolkits: &[PathBuf]) -> Option<PathBuf> {
    if let Some(named) = env::var_os("CULD_NVJITLINK") {
        return Some(named.into());
    }
    let folders = toolkits.iter().flat_map(|home| ["lib64", "lib"].map(|folder| home.join(folder)));
    let own = own.and_then(|own| own.canonicalize().ok());
    folders
        .filter_map(|folder| folder.join(NAME).canonicalize().ok())
        .find(|file| Some(file) != own.as_ref() && file.is_file())
}

/// Has the library at `path` compile `inputs`.
///
/// # Errors
/// The library cannot be used, or refuses.
pub fn compile(
    path: &Path,
    options: &[String],
    inputs: &[Input<'_>],
    want: Want,
) -> Result<Made, LtoError> {
    nvidia::compile(path, options, inputs, want)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_an_error_with_its_path() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let error = compile(path, &[], &[], Want::Ptx).unwrap_err();
        assert!(matches!(error, LtoError::Unusable { .. }));
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
