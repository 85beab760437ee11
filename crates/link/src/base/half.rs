//! The two halves of a file of sm_100 and later. One half is machine code (SASS). The other is
//! Mercury, the form that code has before it becomes machine code for one device.
//!
//! Both halves describe the same program. Each section of code, data or debug information has a
//! counterpart in the other half, and each half has its own symbols, relocations and attributes.
//! nvlink links the Mercury half and then makes the SASS half from it. culd links both at once:
//! phase `objects` pairs the sections and presents one object, under Mercury's names, to the other
//! phases; relocations, attributes and debug sections are made once per [`Half`]; layout and
//! writing put the Mercury half behind the other (ARCHITECTURE.md, two halves).

use culd_cubin::arch::Flavour;

/// Prefix of the name of Mercury's section of texture slots. Machine code has the slots behind the
/// parameters.
pub(crate) const TEXTURE_SLOTS: &[u8] = b".nv.constant.entry_image_header_indices.";

/// Bytes that machine code leaves to the system at the start of shared memory if it has a section
/// of reserved variables (sm_110). Mercury's offsets count from behind them.
const SYSTEM_SHARED: u64 = 0x40;

/// Offset of the first reserved variable in machine code. Only files with a Mercury half have
/// anything in front of it (case syscalls/copies).
pub(crate) fn system_shared(flavour: Flavour) -> u64 {
    match flavour {
        Flavour::Classic => 0,
        Flavour::Mercury => SYSTEM_SHARED,
    }
}

/// One half of a file. Files of sm_90 and older have the first only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// Machine code.
    Sass,
    /// The form from which machine code for other devices is made.
    Mercury,
}

impl Half {
    /// The half whose relocations and attributes decide what is created.
    pub(crate) fn leading(flavour: Flavour) -> Self {
        match flavour {
            Flavour::Classic => Half::Sass,
            Flavour::Mercury => Half::Mercury,
        }
    }
}

/// One value for each half of the output.
pub(crate) struct Halves<T> {
    /// The value for machine code.
    pub(crate) sass: T,
    /// `None` for sm_90 and older, which have no Mercury half.
    pub(crate) mercury: Option<T>,
}

impl<T> Halves<T> {
    /// The value of the leading half, see [`Half::leading`].
    pub(crate) fn leading(&self) -> &T {
        self.mercury.as_ref().unwrap_or(&self.sass)
    }
}

/// One value for each half of a file that has both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BothHalves<T> {
    /// The value for machine code.
    pub(crate) sass: T,
    pub(crate) mercury: T,
}

/// The bytes of one section, or of a chunk of it, in both halves. Those of Mercury are empty where
/// it has none.
pub(crate) type HalfBytes<'d> = BothHalves<&'d [u8]>;

impl<'d> HalfBytes<'d> {
    /// The same bytes in both halves.
    pub(crate) fn same(bytes: &'d [u8]) -> Self {
        HalfBytes { sass: bytes, mercury: bytes }
    }
}

/// Bytes that the system has in front of every block's own shared memory, on GPUs that have
/// Mercury.
pub(crate) const RESERVED_SHARED: u64 = 0x400;
