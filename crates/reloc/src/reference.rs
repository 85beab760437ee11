//! Relocation types against legacy texture, sampler and surface references.
//!
//! In: a row of the `R_CUDA_*` table. Out: [`ReferenceTreatment`]. A reference has no address: it
//! has a 32-bit slot in bank 0 of the entries that use it, which the driver fills. Every type was
//! tried against references of all three kinds in code, data and constants, on sm_80 and sm_90;
//! place and kind made no difference.

use crate::desc::{Observed, RelocDesc};

/// nvlink 13.0's treatment of a record against a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceTreatment {
    /// Applied; S is the offset of the slot in bank 0. Such a record in code is what makes slots
    /// necessary.
    Slot,
    /// Applied with S = 0.
    Zero,
    /// Kept for the driver.
    Kept,
    /// nvlink crashes, writes the number of a bank that does not exist, or leaves an empty record:
    /// refuse.
    Unsafe,
}

impl RelocDesc {
    /// The treatment of the type against a texture, sampler or surface reference. A unified type,
    /// which is rewritten, stays.
    pub const fn against_reference(&self) -> ReferenceTreatment {
        match self.code.0 {
            5 | 12 | 17 | 18 | 22..=25 | 29 | 30 | 38 | 39 | 42 | 46 | 50 | 51 | 54 | 55 | 59 => {
                ReferenceTreatment::Slot
            }
            64..=66 | 115 | 0x10003 | 0x10004 => ReferenceTreatment::Slot,
            15 | 16 | 19..=21 | 26..=28 | 45 | 60 | 68 | 69 | 74 | 100 => ReferenceTreatment::Zero,
            36 | 37 => ReferenceTreatment::Unsafe,
            _ => match self.observed {
                Observed::FunctionOnly | Observed::Clears => ReferenceTreatment::Unsafe,
                _ => ReferenceTreatment::Kept,
            },
        }
    }
}
