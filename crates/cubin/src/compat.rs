//! `.nv.compat` (sm_90 and later): the devices that the code of a file needs.
//!
//! The section holds records of the form of [`crate::attr`], with other codes.

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        /// Codes of compat attributes.
        pub mod code {
            $($(#[$doc])* pub const $name: u8 = $code;)*
        }
        /// Every known compat attribute: code and name.
        pub const ATTRIBUTES: &[(u8, &str)] = &[$(($code, stringify!($name)),)*];
    };
}

attributes! {
    /// Instruction set class.
    ISA_CLASS = 0x02;
    /// A bit set, merged by OR.
    FEATURES = 0x03;
    /// Two fields of two bits.
    PAIR = 0x05;
    /// 1 unless all files agree on another value.
    COMMON = 0x06;
    /// A version, major in the high byte.
    VERSION = 0x07;
    /// A maximum.
    MAXIMUM = 0x08;
    /// 1 for an `a` target.
    ACCELERATED = 0x09;
    /// Finalizer words; before CUDA 13.2 on targets with Mercury only.
    FINALIZER = 0x0b;
    /// Since CUDA 13.4; a maximum.
    ISA_LEVEL = 0x0c;
    /// Since CUDA 13.3, in place of VERSION; a maximum.
    ISA_VERSION = 0x0d;
    /// Since CUDA 13.4; the finalizer's release on targets with Mercury.
    FINALIZER_VERSION = 0x0e;
}

/// Bit of [`code::FINALIZER`]: code for sm_100 runs on sm_103 as it is.
pub const SUITS_103: u64 = 8;

/// Bit of [`code::FINALIZER`]: code for sm_120 runs on sm_121 as it is.
pub const SUITS_121: u64 = 0x40;

/// The name of compat attribute `code`.
pub fn name(code: u8) -> Option<&'static str> {
    ATTRIBUTES.iter().find(|row| row.0 == code).map(|row| row.1)
}
