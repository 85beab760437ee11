//! `.nv.compat` (sm_90 and later): what the code of a file needs from the GPU.
//!
//! The section holds records of the form of [`crate::attr`], with codes of their own.

/// Codes of compat attributes.
pub mod code {
    /// Instruction set class.
    pub const ISA_CLASS: u8 = 0x02;
    /// A bit set, merged by OR.
    pub const FEATURES: u8 = 0x03;
    /// Two fields of two bits.
    pub const PAIR: u8 = 0x05;
    /// 1 unless all files agree on another value.
    pub const COMMON: u8 = 0x06;
    /// A version, major in the high byte.
    pub const VERSION: u8 = 0x07;
    /// A maximum.
    pub const MAXIMUM: u8 = 0x08;
    /// 1 for an `a` target.
    pub const ACCELERATED: u8 = 0x09;
    /// Finalizer words, Mercury only.
    pub const FINALIZER: u8 = 0x0b;
}
