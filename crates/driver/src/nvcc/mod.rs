//! The command line of nvcc, as far as it concerns a device link.
//!
//! In: words. Out: the work that nvcc would give to nvlink, fatbinary and the host compiler.
//! Guaranteed: the answer is nvcc's, or an error; a line that asks for more than a device link is
//! recognized.

mod codes;
mod host_words;
mod parse;
mod profile;
mod table;

use thiserror::Error;

pub(crate) use crate::nvcc::codes::{Specification, TargetCode, TargetCodes, codes};
pub(crate) use crate::nvcc::host_words::{HostWord, host_word};
pub(crate) use crate::nvcc::parse::{CommandLine, words_of};
pub(crate) use crate::nvcc::profile::Profile;
pub(crate) use crate::nvcc::table::NvccOptionId;
use crate::options::UsageError;

/// A line that cannot be followed. Texts are nvcc's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NvccError {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("Don't know what to do with '{0}'")]
    Unknowable(String),
    #[error("-arch option not specified")]
    NoArch,
    #[error("Unsupported gpu architecture '{0}'")]
    UnknownArch(String),
    #[error("Value of -arch option ('{0}') must be a virtual code architecture")]
    RealArch(String),
    #[error("Incompatible code generation requested: arch='{arch}', code='{code}'")]
    Incompatible { arch: String, code: String },
    #[error("'{0}' is not in 'keyword=value' format")]
    NotKeyed(String),
    #[error("Keyword '{0}' is not defined for option 'generate-code'")]
    UnknownKeyword(String),
    #[error("redefinition of keyword '{0}' ")]
    Redefined(String),
    #[error("Option '--generate-code {specification}', missing {what}")]
    Missing { specification: String, what: &'static str },
    #[error("-arch=native: culd does not ask for the GPUs of this machine; name the architecture")]
    Native,
    #[error("'{0}' asks for more than a device link, which nvcc has to do")]
    Beyond(String),
    #[error("Option --link-time-opt cannot be combined with --device-debug.")]
    LtoForDebugger,
    #[error("'{0}' is no input of a device link: nvcc has to compile it")]
    Source(String),
    #[error(
        "'{0}': an object that registers it would refer to one that nvcc makes and removes; put it \
         into a host object, or make a fat binary or cubin"
    )]
    Unregistrable(String),
    #[error("'{0}' would make another kind of host object than culd writes")]
    HostObject(String),
}
