//! How parameters and return values are passed in PTX: the guide, 2.3; the PTX ISA, 5.1.6 and 7.1.
//!
//! In: a type of the source. Out: the declaration that stands for it; where the parameters of a
//! kernel lie. Guaranteed: an alignment that the guide does not allow is an error.

use std::fmt;

use thiserror::Error;

use crate::layout::{LayoutError, Measure, Type};
use crate::types::{Class, Fundamental};

/// Alignments in bytes that aggregates and unions may be passed with (note D).
pub const ALIGNMENTS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The least size in bytes of a parameter in a register when the ABI is used (PTX ISA, 7.1).
pub const LEAST_REGISTER: u64 = 4;

/// The type of a value in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceType {
    /// A type of PTX: integer, floating point, pointer, vector, array or record.
    Type(Type),
    /// A reference to a texture, sampler or surface.
    Handle,
}

/// The declaration of a parameter in PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `.param .u32 name`
    Scalar(Fundamental),
    /// `.param .align 8 .b8 name[12]`
    Bytes(Measure),
}

/// A value that cannot be passed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// 16-bit floating point is for storage only (note C).
    #[error("16-bit floating point cannot be passed: it is for storage only")]
    Half,
    /// A source has no untyped bits.
    #[error("{0} is no type of a source")]
    Untyped(Fundamental),
    /// The alignment is not in [`ALIGNMENTS`].
    #[error("an aggregate aligned to {0} bytes cannot be passed: 128 is the most")]
    Alignment(u64),
    /// There is no such type.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The PTX parameter for a value of this type in a call of a device function, and for a returned
/// value.
///
/// # Errors
/// The type cannot be passed.
pub fn parameter(source: &SourceType) -> Result<Parameter, ParameterError> {
    let SourceType::Type(ty) = source else { return Ok(Parameter::Scalar(Fundamental::B64)) };
    match ty {
        Type::Fundamental(one) => scalar(*one),
        Type::Pointer(address) => Ok(Parameter::Scalar(match address.untyped() {
            Fundamental::B32 => Fundamental::U32,
            _ => Fundamental::U64,
        })),
        _ => {
            let measure = ty.measure()?;
            match ALIGNMENTS.contains(&measure.align) {
                true => Ok(Parameter::Bytes(measure)),
                false => Err(ParameterError::Alignment(measure.align)),
            }
        }
    }
}

/// Scalars shorter than 32 bits are extended by their sign (note A).
fn scalar(one: Fundamental) -> Result<Parameter, ParameterError> {
    use Fundamental::{F16, F32, F64, S32, S64, U32, U64};
    Ok(Parameter::Scalar(match (one.class(), one.size()) {
        (Class::Signed, 8) => S64,
        (Class::Signed, _) => S32,
        (Class::Unsigned, 8) => U64,
        (Class::Unsigned, _) => U32,
        (Class::Float, 8) => F64,
        (Class::Float, 4) => F32,
        (Class::Float, _) => {
            debug_assert_eq!(one, F16);
            return Err(ParameterError::Half);
        }
        (Class::Untyped, _) => return Err(ParameterError::Untyped(one)),
    }))
}

impl Parameter {
    /// Size and alignment.
    pub fn measure(self) -> Measure {
        match self {
            Parameter::Scalar(one) => Measure { size: one.size(), align: one.align() },
            Parameter::Bytes(measure) => measure,
        }
    }

    /// The declaration with this name.
    pub fn declare(self, name: &str) -> String {
        match self {
            Parameter::Scalar(one) => format!(".param {one} {name}"),
            Parameter::Bytes(Measure { size, align }) => {
                format!(".param .align {align} .b8 {name}[{size}]")
            }
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.declare("_"))
    }
}

/// The offsets of a kernel's parameters from the first one, and their total size in bytes, if they
/// begin at `base` of constant bank 0. Each has the lowest offset at which its address in the bank
/// is aligned; unlike those of functions, small ones are not extended. Observed with ptxas for
/// sm_75, sm_90 and sm_100 (`cargo xtask abi`): with a base of 0x210, as on sm_90, an alignment of
/// 32 bytes shows that addresses are aligned, not offsets.
///
/// # Errors
/// The parameters are too large.
pub fn kernel(parameters: &[Measure], base: u64) -> Result<(Vec<u64>, u64), LayoutError> {
    let mut offsets = Vec::with_capacity(parameters.len());
    let mut end = base;
    for Measure { size, align } in parameters {
        let address = end.checked_next_multiple_of(*align).ok_or(LayoutError::TooLarge)?;
        offsets.push(address - base);
        end = address.checked_add(*size).ok_or(LayoutError::TooLarge)?;
    }
    Ok((offsets, end - base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Aggregate, Field};
    use crate::types::AddressSize;
    use Fundamental as F;

    fn passed(ty: Type) -> String {
        parameter(&SourceType::Type(ty)).unwrap().declare("x")
    }

    #[test]
    fn the_rows_of_the_guide() {
        for (one, text) in [
            (F::U8, ".param .u32 x"),
            (F::S8, ".param .s32 x"),
            (F::U16, ".param .u32 x"),
            (F::S16, ".param .s32 x"),
            (F::U32, ".param .u32 x"),
            (F::S32, ".param .s32 x"),
            (F::U64, ".param .u64 x"),
            (F::S64, ".param .s64 x"),
            (F::F32, ".param .f32 x"),
            (F::F64, ".param .f64 x"),
        ] {
            assert_eq!(passed(Type::Fundamental(one)), text);
        }
        assert_eq!(passed(Type::Pointer(AddressSize::Bits32)), ".param .u32 x");
        assert_eq!(passed(Type::Pointer(AddressSize::Bits64)), ".param .u64 x");
        assert_eq!(parameter(&SourceType::Handle), Ok(Parameter::Scalar(F::B64)));
        assert_eq!(passed(Type::Vector(F::F32, 3)), ".param .align 4 .b8 x[12]");
    }

    #[test]
    fn notes_c_and_d() {
        let pass = |ty| parameter(&SourceType::Type(ty));
        assert_eq!(pass(Type::Fundamental(F::F16)), Err(ParameterError::Half));
        assert_eq!(pass(Type::Fundamental(F::B32)), Err(ParameterError::Untyped(F::B32)));
        let aligned = |align| {
            let field = Field::new("c", Type::Fundamental(F::S8));
            Type::Record(Aggregate { align: Some(align), ..Aggregate::structure([field]) })
        };
        for align in ALIGNMENTS {
            let Parameter::Bytes(measure) = pass(aligned(align)).unwrap() else {
                panic!("{align}")
            };
            assert_eq!((measure.size, measure.align), (align, align));
        }
        assert_eq!(pass(aligned(256)), Err(ParameterError::Alignment(256)));
    }

    #[test]
    fn parameters_of_kernels_are_packed() {
        let measure = |size, align| Measure { size, align };
        let (offsets, end) =
            kernel(&[measure(1, 1), measure(8, 8), measure(2, 2), measure(12, 4)], 0x210).unwrap();
        assert_eq!((offsets, end), (vec![0, 8, 16, 20], 32));
        // An address of sm_90 that is aligned to 32 bytes.
        assert_eq!(kernel(&[measure(32, 32), measure(1, 1)], 0x210), Ok((vec![16, 48], 49)));
        assert_eq!(kernel(&[measure(u64::MAX, 1), measure(1, 8)], 0), Err(LayoutError::TooLarge));
    }
}
