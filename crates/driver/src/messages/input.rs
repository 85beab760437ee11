//! Messages about inputs, as values.

use thiserror::Error;

/// An input that is not linked. Texts are culd's own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Ignored {
    #[error("Input file '{0}' is empty and was ignored")]
    Empty(String),
    #[error("Input file '{0}' was ignored: it is a linked cubin, which cannot be linked again")]
    Linked(String),
    #[error(
        "Input file '{0}' was ignored: it is no object, archive, cubin, fat binary or PTX text"
    )]
    Unknown(String),
    #[error("Input file '{0}' was ignored: LTO-IR is linked with -lto only")]
    LtoIr(String),
    #[error("Input file '{0}' was ignored: it is LLVM bitcode, which has to be compiled first")]
    Bitcode(String),
    #[error("Library '{name}' was ignored: there is no lib{name}.a in the library paths")]
    Library { name: String },
    #[error(
        "Library '{file}' has no code for '{arch}' in {count} of its members, which were ignored"
    )]
    Members { file: String, arch: String, count: usize },
    #[error("Library '{file}' has {count} more members that were ignored")]
    Others { file: String, count: usize },
}

/// Messages about inputs. Texts are nvlink's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[allow(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum InputError {
    #[error("Could not open input file '{0}'")]
    Open(String),
    #[error("Could not read file '{0}'")]
    Read(String),
    #[error("Input '{name}' is {found}, not {wanted}")]
    WrongKind { name: String, wanted: &'static str, found: &'static str },
    #[error("cubin not an elf?")]
    NotElf,
    #[error("cubin not a device elf?")]
    NotDeviceElf,
    /// nvlink makes the name with room for three digits.
    #[error("Unknown arch name ''")]
    NoArch,
    #[error("fatbin wrong format?")]
    NotFatbin,
    #[error("should only see nvvm files when -lto")]
    Nvvm,
    #[error("should never see bc files")]
    Bitcode,
    #[error("Binary format for key='0', ident='' is not recognized")]
    UnknownFormat,
    #[error("Could not find fatbin in '{0}'")]
    NoFatbin(String),
    #[error("unexpected archive format")]
    NotArchive,
    #[error(
        "Input '{0}' has no host code, which could cause later host link error if there is a \
         reference to it"
    )]
    NoHostCode(String),
    #[error("unexpected data in module_ids")]
    ModuleIds,
    #[error("Skipping incompatible '{path}' when searching for -l{name}")]
    Incompatible { path: String, name: String },
    #[error("SM Arch ('{arch}') not found in '{file}'")]
    ArchNotFound { arch: String, file: String },
    #[error("LTO objects found, use -dlto")]
    LtoFound,
    #[error("Uncompress failed")]
    Uncompress,
    #[error("Input file '{0}' size does not match target '-m64'")]
    NotCubin(String),
    #[error("elfLink internal error")]
    Internal,
    #[error("elfLink fatbinary error")]
    Fatbinary,
    #[error("requested LTO but '{0}' not built for LTO so doing partial LTO")]
    PartialLto(String),
    #[error("Ignoring -dlto option because no LTO objects found")]
    NoLto,
    #[error("merge_elf failed")]
    MergeFailed,
    #[error("LTO-IR in '{file}' cannot be compiled: {error}")]
    Lto { file: String, error: String },
    /// A message of NVIDIA's compiler.
    #[error("{0}")]
    NvvmLog(String),
    /// Words for it that cannot be split.
    #[error("{0}")]
    NvvmWords(String),
    #[error("elfLink JIT compile failed")]
    NvvmCompile,
    /// Where the limit is handed on: with PTX, LTO-IR, and images of fat binaries.
    #[error("Invalid argument for option '-maxrregcount'")]
    RegisterLimit,
    #[error("elfLink nvvm error")]
    NvvmInput,
    #[error("elfLink linker library load error")]
    NvvmLoad,
    #[error("Cicc option values for '{0}' do not match")]
    LtoOptions(&'static str),
    /// An option that LTO-IR was compiled with, and other LTO-IR without it.
    #[error(
        "Some objects do not have '{option}' specified but others do; will build everything with \
         '{everything}'"
    )]
    LtoMixed { option: &'static str, everything: String },
    #[error(
        "Incompatible options '-split-compile' and '-split-compile-extended', using \
         '-split-compile-extended'"
    )]
    LtoThreads,
    #[error("doing partial LTO because no LTO-IR defines '{0}'")]
    LtoNeeds(String),
    #[error("doing partial LTO because no LTO-IR has a kernel")]
    LtoWithoutKernels,
    #[error("PTX in '{file}' cannot be compiled: {error}")]
    Compiler { file: String, error: String },
}
