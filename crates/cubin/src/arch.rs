//! The GPU architectures, one row each.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The kind of code in the files of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// sm_90a and older: machine code only.
    Classic,
    /// sm_100 and later: machine code and Mercury.
    Mercury,
}

impl Flavour {
    /// The flavour of objects made for SM number `sm`.
    pub fn of_sm(sm: u32) -> Self {
        if sm >= 100 { Flavour::Mercury } else { Flavour::Classic }
    }
}

/// The devices, besides its own, that code for an SM number runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// `sm_90`: later devices of the same major number; PTX suits all later devices.
    Plain,
    /// `sm_100f`: devices of the same family.
    Family,
    /// `sm_90a`: devices of this number only.
    Accelerated,
}

impl Variant {
    /// The letter behind the number.
    pub fn suffix(self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::Family => "f",
            Variant::Accelerated => "a",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suffix())
    }
}

/// One architecture that `-arch` can name. [`ARCHS`] has all of them.
///
/// ```
/// use culd_cubin::arch::Arch;
///
/// let arch: &Arch = "sm_90a".parse()?;
/// assert_eq!((arch.sm, arch.has_compat), (90, true));
/// assert!("sm_20".parse::<&Arch>().is_err());
/// # Ok::<(), culd_cubin::arch::UnknownArch>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arch {
    /// The name, as `-arch` takes it.
    pub name: &'static str,
    /// The SM number in `e_flags`.
    pub sm: u32,
    /// The letter behind the number.
    pub variant: Variant,
    /// Other SM numbers whose objects may be linked for this target.
    pub accepts: &'static [u32],
    /// The contents of its files.
    pub flavour: Flavour,
    /// Bytes of shared memory per block that belong to the system, in front of the program's own.
    pub reserved_shared: u64,
    /// The most bytes of shared memory that a block may declare statically.
    pub shared_limit: u64,
    /// The most bytes of shared memory that a block can have on the device, with the system's; 0 on
    /// targets for which no linker has that limit.
    pub device_shared: u64,
    /// The first and the last release of CUDA that knows it. 130 is 13.0, as in notes.
    pub releases: (u16, u16),
    /// True if files have a section `.nv.compat`.
    pub has_compat: bool,
    /// True if `sh_info` of code holds the register count in bits 24-31.
    pub registers_in_text_info: bool,
}

/// A name that is not the name of an architecture in [`ARCHS`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no architecture that can be linked for; those are {first} to {last}",
    first = ARCHS.first().map_or("", |arch| arch.name),
    last = ARCHS.last().map_or("", |arch| arch.name))]
pub struct UnknownArch(pub String);

use Flavour::{Classic, Mercury};
use Variant::{Accelerated, Family, Plain};

const fn row(
    name: &'static str,
    sm: u32,
    variant: Variant,
    accepts: &'static [u32],
    flavour: Flavour,
) -> Arch {
    let since_90 = sm >= 90;
    Arch {
        name,
        sm,
        variant,
        accepts,
        flavour,
        reserved_shared: if since_90 { 0x400 } else { 0 },
        shared_limit: if matches!(variant, Accelerated) { 0x38c00 } else { 0xc000 },
        device_shared: 0,
        releases: (0, u16::MAX),
        has_compat: since_90,
        registers_in_text_info: !since_90,
    }
}

impl Arch {
    /// The same row for a target that releases before `release` do not know.
    const fn since(self, release: u16) -> Self {
        Arch { releases: (release, self.releases.1), ..self }
    }

    /// The same for a target that releases after `release` do not know.
    const fn until(self, release: u16) -> Self {
        Arch { releases: (self.releases.0, release), ..self }
    }

    /// The same for a target on whose device a block can have `size` bytes of shared memory.
    const fn shared(self, size: u64) -> Self {
        Arch { device_shared: size, ..self }
    }
}

/// All architectures, ascending. `accepts` has the objects that nvlink 13.0.88 links for each of
/// them (docs/rules/diagnostics.md); for sm_107 those of 13.4.
#[rustfmt::skip]
pub const ARCHS: &[Arch] = &[
    //   name       SM   variant      objects of    flavour
    row("sm_50",    50, Plain,       &[],          Classic).until(129).shared(0x10000),
    row("sm_52",    52, Plain,       &[50],        Classic).until(129).shared(0x18000),
    row("sm_53",    53, Plain,       &[],          Classic).until(129).shared(0x10000),
    row("sm_60",    60, Plain,       &[],          Classic).until(129).shared(0x10000),
    row("sm_61",    61, Plain,       &[60],        Classic).until(129).shared(0x18000),
    row("sm_62",    62, Plain,       &[],          Classic).until(129).shared(0x10000),
    row("sm_70",    70, Plain,       &[],          Classic).until(129).shared(0x18000),
    row("sm_72",    72, Plain,       &[],          Classic).until(129).shared(0x10000),
    row("sm_75",    75, Plain,       &[],          Classic).shared(0x10000),
    row("sm_80",    80, Plain,       &[],          Classic).shared(0x29000),
    row("sm_86",    86, Plain,       &[80],        Classic).shared(0x19000),
    row("sm_87",    87, Plain,       &[],          Classic).shared(0x29000),
    row("sm_88",    88, Plain,       &[],          Classic).since(130),
    row("sm_89",    89, Plain,       &[80, 86],    Classic).shared(0x29000),
    row("sm_90",    90, Plain,       &[],          Classic).shared(0x29000),
    row("sm_90a",   90, Accelerated, &[],          Classic).since(120).shared(0x29000),
    row("sm_100",  100, Plain,       &[],          Mercury).since(128),
    row("sm_100a", 100, Accelerated, &[],          Mercury).since(128),
    row("sm_100f", 100, Family,      &[],          Mercury).since(129),
    row("sm_101",  101, Plain,       &[],          Mercury).since(128).until(129),
    row("sm_101a", 101, Accelerated, &[],          Mercury).since(128).until(129),
    row("sm_101f", 101, Family,      &[],          Mercury).since(129).until(129),
    row("sm_103",  103, Plain,       &[100],       Mercury).since(129),
    row("sm_103a", 103, Accelerated, &[100],       Mercury).since(129),
    row("sm_103f", 103, Family,      &[100],       Mercury).since(129),
    row("sm_107",  107, Plain,       &[100, 103],  Mercury).since(134),
    row("sm_107a", 107, Accelerated, &[100, 103],  Mercury).since(134),
    row("sm_107f", 107, Family,      &[100, 103],  Mercury).since(134),
    row("sm_110",  110, Plain,       &[],          Mercury).since(130),
    row("sm_110a", 110, Accelerated, &[],          Mercury).since(130),
    row("sm_110f", 110, Family,      &[],          Mercury).since(130),
    row("sm_120",  120, Plain,       &[],          Mercury).since(128),
    row("sm_120a", 120, Accelerated, &[],          Mercury).since(128),
    row("sm_120f", 120, Family,      &[],          Mercury).since(129),
    row("sm_121",  121, Plain,       &[120],       Mercury).since(129),
    row("sm_121a", 121, Accelerated, &[120],       Mercury).since(129),
    row("sm_121f", 121, Family,      &[120],       Mercury).since(129),
];

impl Arch {
    /// The architecture called `name`, such as `sm_90a`.
    pub fn by_name(name: &str) -> Option<&'static Arch> {
        ARCHS.iter().find(|arch| arch.name == name)
    }

    /// True when CUDA's release `toolkit` knows it.
    pub fn is_known_to(&self, toolkit: u16) -> bool {
        (self.releases.0..=self.releases.1).contains(&toolkit)
    }

    /// True when an object made for SM number `sm` may be linked for this target.
    pub fn takes(&self, sm: u32) -> bool {
        sm == self.sm || self.accepts.contains(&sm)
    }
}

impl FromStr for &'static Arch {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        Arch::by_name(name).ok_or_else(|| UnknownArch(name.to_owned()))
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_match_their_number() {
        for (i, arch) in ARCHS.iter().enumerate() {
            assert!(ARCHS[i + 1..].iter().all(|other| other.name != arch.name));
            let digits: String = arch.name.chars().filter(char::is_ascii_digit).collect();
            assert_eq!(digits.parse(), Ok(arch.sm));
            assert_eq!(arch.variant == Accelerated, arch.name.ends_with('a'));
            assert_eq!(arch.variant == Family, arch.name.ends_with('f'));
        }
    }

    #[test]
    fn objects_go_up_inside_a_family_only() {
        let takes = |target: &str, sm| Arch::by_name(target).unwrap().takes(sm);
        assert!(takes("sm_86", 80) && takes("sm_89", 80) && takes("sm_89", 86));
        assert!(!takes("sm_80", 86) && !takes("sm_87", 80) && !takes("sm_90", 89));
        assert!(takes("sm_90", 90) && takes("sm_90a", 90));
    }
}
