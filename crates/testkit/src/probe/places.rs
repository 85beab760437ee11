//! The places of the probed records.
//!
//! In: nothing. Out: [`PLACES`]. Guaranteed: each is a section of `base.txt` or `base-mercury.txt`
//! with a mark for its slots.

use super::object::STRIDE;

/// A section with slots.
#[derive(Debug, PartialEq, Eq)]
pub struct ProbePlace {
    /// Name in lists and on the command line.
    pub key: &'static str,
    /// Section of the object.
    pub section: &'static str,
    /// Start of the symbol that holds the slots.
    pub start: u64,
    /// Where the first slot is.
    pub head: u64,
    /// How to find it in the output.
    pub found: OutputBytes,
}

/// How the bytes of the object's section are found in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputBytes {
    /// At the value of this symbol, which starts at [`ProbePlace::start`].
    Symbol(&'static str),
    /// At the start of the section of the same name.
    Start,
    /// At its end.
    End,
    /// Not at all: the section is not in the output.
    Gone,
}

/// All of them.
#[rustfmt::skip]
pub const PLACES: &[ProbePlace] = &[
    // Code of a kernel, of a function that it calls, of one that nobody calls.
    place("text",   ".text.k",             0,    0x80, OutputBytes::Symbol("k")),
    place("callee", ".text.live",          0,    0x80, OutputBytes::Symbol("live")),
    place("dead",   ".text.dead",          0,    0x80, OutputBytes::Gone),
    // Initialised variables, constants, the kernel's own bank of literals.
    place("data",   ".nv.global.init",     0x40, 0x40, OutputBytes::Symbol("data")),
    place("const",  ".nv.constant3",       0x40, 0x40, OutputBytes::Symbol("table")),
    place("bank",   ".nv.constant2.k",     0,    0x20, OutputBytes::Start),
    // Debug information: the parts of the files one after the other; `sass` is a table of code
    // addresses.
    place("frame",  ".debug_frame",        0,    0x40, OutputBytes::End),
    place("info",   ".debug_info",         0,    0x40, OutputBytes::End),
    place("line",   ".debug_line",         0,    0x40, OutputBytes::End),
    place("sass",   ".nv_debug_line_sass", 0,    0x40, OutputBytes::End),
];

/// Places on architectures with Mercury sections: in a frame that only Mercury has, from which
/// nvlink makes that of machine code; and in debug information of both halves, with equal records.
#[rustfmt::skip]
pub const MERCURY_PLACES: &[ProbePlace] = &[
    place("merc", ".nv.merc.debug_frame", 0, 0x2a0 + 44, OutputBytes::End),
    place("twin", ".nv.merc.debug_info",  0, 0x40,       OutputBytes::End),
];

const fn place(
    key: &'static str,
    section: &'static str,
    start: u64,
    head: u64,
    found: OutputBytes,
) -> ProbePlace {
    ProbePlace { key, section, start, head, found }
}

impl ProbePlace {
    /// The place with this key.
    pub fn named(key: &str) -> Option<&'static ProbePlace> {
        PLACES.iter().chain(MERCURY_PLACES).find(|place| place.key == key)
    }

    /// Offset of a slot in the object's section.
    pub fn slot(&self, slot: u64) -> u64 {
        self.head + slot * STRIDE
    }
}
