//! What only files of sm_100 and later have: a second half in Mercury, the form that code has
//! before it becomes machine code (SASS) for one device.
//!
//! The two halves describe the same program: each section of code, data or debug information has
//! a twin, and each half has its own symbols, relocations and attributes. nvlink links the Mercury
//! half and then makes the SASS half of it. Here both are linked at once: phase `objects` shows an object
//! to the other phases as one set of sections under Mercury's names ([`twins`]), so that they need
//! not know; relocations, attributes and debug sections are then made once for each [`Half`], and
//! layout and image put the Mercury half behind the other.
//!
//! What happens here and nowhere else: pairing and its checks ([`twins`]), SASS attributes
//! ([`attributes`]), SASS debug sections, which are rebuilt ([`rebuilt`]), places inside compressed
//! Mercury code ([`code`]), jump slots ([`slots`]), sections and names of the second half ([`sections`]).

pub(crate) mod attributes;
pub(crate) mod code;
pub(crate) mod debugger;
pub(crate) mod image;
pub(crate) mod images;
pub(crate) mod names;
pub(crate) mod parameters;
pub(crate) mod rebuilt;
pub(crate) mod reserved;
pub(crate) mod sections;
pub(crate) mod skew;
pub(crate) mod slots;
pub(crate) mod twins;

use culd_cubin::arch::Flavour;

/// In Mercury, slots of textures have a section of their own; in machine code they are behind the parameters.
pub(crate) const IMAGES: &[u8] = b".nv.constant.entry_image_header_indices.";

/// Bytes at the start of shared memory that machine code has for the system where it has a section of reserved
/// variables (sm_110); Mercury counts from behind them.
pub(crate) const SYSTEM_SHARED: u64 = 0x40;

/// One half of a file. Files of sm_90 and older have the first only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// Machine code.
    Sass,
    /// What machine code for other devices is made of.
    Mercury,
}

impl Half {
    /// The half whose relocations and attributes decide what is created.
    pub(crate) fn shown(flavour: Flavour) -> Self {
        match flavour {
            Flavour::Classic => Half::Sass,
            Flavour::Mercury => Half::Mercury,
        }
    }
}

/// One of a thing for each half of the output.
pub(crate) struct Halves<T> {
    /// Machine code's.
    pub(crate) own: T,
    pub(crate) mercury: Option<T>,
}

impl<T> Halves<T> {
    /// That of the half which decides what is created, see [`Half::shown`].
    pub(crate) fn shown(&self) -> &T {
        self.mercury.as_ref().unwrap_or(&self.own)
    }
}
