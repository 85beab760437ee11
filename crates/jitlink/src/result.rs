//! Result codes and kinds of inputs.

use culd_driver::InputKind;
use culd_fatbin::Format;

/// The result of a function. The numbers are NVIDIA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are NVIDIA's and say all that is known")]
pub enum ResultCode {
    Success = 0,
    UnrecognizedOption = 1,
    MissingArch = 2,
    InvalidInput = 3,
    PtxCompile = 4,
    NvvmCompile = 5,
    Internal = 6,
    Threadpool = 7,
    UnrecognizedInput = 8,
    Finalize = 9,
    NullInput = 10,
    IncompatibleOptions = 11,
    IncorrectInputType = 12,
    ArchMismatch = 13,
    OutdatedLibrary = 14,
    MissingFatbin = 15,
    UnrecognizedArch = 16,
    UnsupportedArch = 17,
    LtoNotEnabled = 18,
}

impl ResultCode {
    /// The code with this number, in whichever function NVIDIA's library returns it.
    pub(crate) fn of(number: i32) -> Option<ResultCode> {
        const ALL: [ResultCode; 19] = [
            ResultCode::Success,
            ResultCode::UnrecognizedOption,
            ResultCode::MissingArch,
            ResultCode::InvalidInput,
            ResultCode::PtxCompile,
            ResultCode::NvvmCompile,
            ResultCode::Internal,
            ResultCode::Threadpool,
            ResultCode::UnrecognizedInput,
            ResultCode::Finalize,
            ResultCode::NullInput,
            ResultCode::IncompatibleOptions,
            ResultCode::IncorrectInputType,
            ResultCode::ArchMismatch,
            ResultCode::OutdatedLibrary,
            ResultCode::MissingFatbin,
            ResultCode::UnrecognizedArch,
            ResultCode::UnsupportedArch,
            ResultCode::LtoNotEnabled,
        ];
        ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The kind of an input, as the caller says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are NVIDIA's and say all that is known")]
pub enum InputType {
    Cubin,
    Ptx,
    LtoIr,
    Fatbin,
    Object,
    Library,
    Index,
    Any,
}

impl InputType {
    /// The kind with this number.
    pub fn of(number: i32) -> Option<InputType> {
        let kinds = [
            InputType::Cubin,
            InputType::Ptx,
            InputType::LtoIr,
            InputType::Fatbin,
            InputType::Object,
            InputType::Library,
            InputType::Index,
        ];
        match number {
            10 => Some(InputType::Any),
            _ => kinds.get(usize::try_from(number).ok()?.checked_sub(1)?).copied(),
        }
    }

    /// The name behind `NVJITLINK_INPUT_`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            InputType::Cubin => "CUBIN",
            InputType::Ptx => "PTX",
            InputType::LtoIr => "LTOIR",
            InputType::Fatbin => "FATBIN",
            InputType::Object => "OBJECT",
            InputType::Library => "LIBRARY",
            InputType::Index => "INDEX",
            InputType::Any => "ANY",
        }
    }

    /// True when what looks like `found` can be this. Any ELF file is an object to NVIDIA's
    /// library.
    pub(crate) fn takes(self, found: Format) -> bool {
        match self {
            InputType::Cubin => InputKind::Cubin.takes(found),
            InputType::Ptx => InputKind::Ptx.takes(found),
            InputType::LtoIr => InputKind::LtoIr.takes(found),
            InputType::Fatbin => InputKind::Fatbin.takes(found),
            InputType::Object => InputKind::Object.takes(found) || InputKind::Cubin.takes(found),
            InputType::Library => InputKind::Library.takes(found),
            InputType::Index => false,
            InputType::Any => !matches!(found, Format::Unknown | Format::Bitcode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_by_their_numbers() {
        let found = (0..19).map(|number| ResultCode::of(number).map(|code| code as i32));
        assert!(found.eq((0..19).map(Some)));
        assert_eq!([ResultCode::of(-1), ResultCode::of(19)], [None; 2]);
    }
}
