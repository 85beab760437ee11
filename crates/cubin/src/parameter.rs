//! Parameters of kernels: the attributes `KPARAM_INFO` and `KPARAM_INFO_V2`.
//!
//! In: a record. Out: a [`KernelParameter`]. Layout of the words of the payload:
//!
//! ```text
//! word  bits   field
//!  0           symbol index of a texture, sampler or surface reference, else 0
//!  1    0-15   ordinal
//!  1    16-31  offset in the parameter space, bytes
//!  2    0-7    KPARAM_INFO: binary logarithm of the pointee's alignment (PTX `.ptr .align`)
//!  2    8-11   KPARAM_INFO: its state space, 0 for what is no pointer
//!  2    18-31  KPARAM_INFO: size, bytes
//!  2    0-15   KPARAM_INFO_V2, for kernels with a parameter of 16 KiB or more: size, bytes
//! ```

use crate::attr::{Record, code};

/// The place of a kernel's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelParameter {
    /// Its number, from 0.
    pub ordinal: u16,
    /// From the begin of the parameters, bytes.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// The pointee, if the compiler recorded it.
    pub pointee: Option<Pointee>,
}

/// The pointee of a pointer parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointee {
    /// Code of the state space; [`Pointee::space_name`].
    pub space: u8,
    /// Binary logarithm of the alignment in bytes; 0 if it is not recorded.
    pub log_align: u8,
}

impl KernelParameter {
    /// The parameter that `record` is about; `None` if it is about something else.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let (place, last) = (record.word(1)?, record.word(2)?);
        let (size, pointee) = match record.code {
            code::KPARAM_INFO => {
                let pointee =
                    Pointee { space: (last >> 8 & 0xf) as u8, log_align: (last & 0xff) as u8 };
                (last >> 18, Some(pointee).filter(|pointee| pointee.space != 0))
            }
            code::KPARAM_INFO_V2 => (last & 0xffff, None),
            _ => return None,
        };
        Some(KernelParameter {
            ordinal: (place & 0xffff) as u16,
            offset: place >> 16,
            size,
            pointee,
        })
    }
}

impl Pointee {
    /// The name of the space in PTX, `generic` for any. Observed with ptxas 13.0.88, which writes
    /// the code of `.global` for `.const`, too.
    pub fn space_name(self) -> Option<&'static str> {
        match self.space {
            1 => Some(".local"),
            2 => Some(".shared"),
            4 => Some(".global"),
            5 => Some("generic"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Records;

    fn parameter(code: u8, words: [u32; 3]) -> Option<KernelParameter> {
        let mut bytes = vec![4, code, 12, 0];
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        KernelParameter::of(&Records::new(b".nv.info.k", &bytes).next()?.ok()?)
    }

    #[test]
    fn fields_are_where_ptxas_puts_them() {
        // .param .u64 .ptr .global .align 16, number 1
        let one = parameter(code::KPARAM_INFO, [0, 0x0008_0001, 0x0021_f404]).unwrap();
        let pointee = Pointee { space: 4, log_align: 4 };
        assert_eq!(one, KernelParameter { ordinal: 1, offset: 8, size: 8, pointee: Some(pointee) });
        assert_eq!(pointee.space_name(), Some(".global"));
        let large = parameter(code::KPARAM_INFO_V2, [0, 0x4e28_0002, 1]).unwrap();
        assert_eq!((large.ordinal, large.offset, large.size, large.pointee), (2, 0x4e28, 1, None));
        assert_eq!(parameter(code::PARAM_CBANK, [0, 1, 2]), None);
        let short = [4, code::KPARAM_INFO, 4, 0, 0, 0, 0, 0];
        let record = Records::new(b".nv.info.k", &short).next().unwrap().unwrap();
        assert_eq!(KernelParameter::of(&record), None);
    }
}
