//! Result codes and kinds of inputs.

use culd_driver::InputKind;
use culd_fatbin::Format;

/// What a function returns. The numbers are NVIDIA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are NVIDIA's and say all that is known")]
pub enum Code {
    Success = 0,
    UnrecognizedOption = 1,
    MissingArch = 2,
    InvalidInput = 3,
    PtxCompile = 4,
    NvvmCompile = 5,
    Internal = 6,
    UnrecognizedInput = 8,
    NullInput = 10,
    IncompatibleOptions = 11,
    IncorrectInputType = 12,
    ArchMismatch = 13,
    UnrecognizedArch = 16,
    UnsupportedArch = 17,
    LtoNotEnabled = 18,
}

/// What an input is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are NVIDIA's and say all that is known")]
pub enum Kind {
    Cubin,
    Ptx,
    LtoIr,
    Fatbin,
    Object,
    Library,
    Index,
    Any,
}

impl Kind {
    /// The kind with this number.
    pub fn of(number: i32) -> Option<Kind> {
        let kinds = [
            Kind::Cubin,
            Kind::Ptx,
            Kind::LtoIr,
            Kind::Fatbin,
            Kind::Object,
            Kind::Library,
            Kind::Index,
        ];
        match number {
            10 => Some(Kind::Any),
            _ => kinds.get(usize::try_from(number).ok()?.checked_sub(1)?).copied(),
        }
    }

    /// What `NVJITLINK_INPUT_` is followed by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Cubin => "CUBIN",
            Kind::Ptx => "PTX",
            Kind::LtoIr => "LTOIR",
            Kind::Fatbin => "FATBIN",
            Kind::Object => "OBJECT",
            Kind::Library => "LIBRARY",
            Kind::Index => "INDEX",
            Kind::Any => "ANY",
        }
    }

    /// True when what looks like `found` can be this. Any ELF file is an object to NVIDIA's
    /// library.
    pub(crate) fn takes(self, found: Format) -> bool {
        match self {
            Kind::Cubin => InputKind::Cubin.takes(found),
            Kind::Ptx => InputKind::Ptx.takes(found),
            Kind::LtoIr => InputKind::LtoIr.takes(found),
            Kind::Fatbin => InputKind::Fatbin.takes(found),
            Kind::Object => InputKind::Object.takes(found) || InputKind::Cubin.takes(found),
            Kind::Library => InputKind::Library.takes(found),
            Kind::Index => false,
            Kind::Any => !matches!(found, Format::Unknown | Format::Bitcode),
        }
    }
}
