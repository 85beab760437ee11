//! The releases of nvlink whose rules can be followed, and where they differ.
//!
//! nvlink's behaviour depends on its own release, not on those of the inputs, so one value says all: a [`Dialect`]
//! has a field for each difference, and the places that differ ask it. The table below is the whole list
//! (docs/DIALECTS.md tells what each row means and how it was found).

use std::fmt;
use std::str::FromStr;

use culd_cubin::arch::Arch;
use culd_cubin::note;

/// How many releases there are.
const COUNT: usize = 6;

macro_rules! dialects {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $values:expr;)*) => {
        /// A release of NVIDIA's linker whose rules are followed.
        #[derive(Debug, PartialEq, Eq)]
        pub struct Dialect {
            $($(#[$doc])* pub $field: $kind,)*
        }

        const fn dialect(place: usize) -> Dialect {
            Dialect { $($field: { const VALUES: [$kind; COUNT] = $values; VALUES[place] },)* }
        }
    };
}

const NO: bool = false;
const YES: bool = true;
const VERBOSE2: &str = "verbose2";
const PATCH: &str = "-astoolspatch";
const SINCE_133: &[&str] = &[VERBOSE2, "link-as-tools-patch", "RISCV64"];
const SINCE_135: &[&str] = &[VERBOSE2, "link-as-tools-patch", "RISCV64", "nvvm-latest"];

#[rustfmt::skip]
dialects! {
    /// The release as notes count it: 130 is 13.0.
    toolkit: u16 =                       [130,   131,   132,   133,   134,   135];
    /// The build that was compared with.
    build: &'static str = ["13.0.88", "13.1.115", "13.2.86", "13.3.73", "13.4.92", "13.5.37"];
    /// Bytes of the strings in nvlink's own tool record, the option line left out. The record of
    /// this linker is padded to the same length, so that all that follows stays in place.
    tool_strings: usize =                [97,    98,    97,    97,    97,    97];

    // What is accepted.
    /// Objects of an `a` target may go into a target without that letter.
    mixes_accelerated: bool =            [YES,   NO,    NO,    NO,    NO,    NO];
    /// sm_87 and sm_88 take objects of the sm_80 family and give theirs to later members of it.
    whole_ampere_family: bool =          [NO,    NO,    YES,   YES,   YES,   YES];
    /// sm_107 and its variants exist.
    knows_sm_107: bool =                 [NO,    NO,    NO,    NO,    YES,   YES];
    /// Options, and values of options, that came after the oldest release.
    words: &'static [&'static str] = [&[], &[],  &[VERBOSE2], SINCE_133, SINCE_133, SINCE_135];
    /// What the message about a function that is no patch of tools calls the option; older releases have none.
    tools_patch: &'static str = [PATCH, PATCH, PATCH, "--astoolspatch", PATCH, PATCH];
    /// A weak symbol that nothing defines is an error.
    weak_must_be_defined: bool =         [NO,    NO,    NO,    NO,    YES,   YES];

    // `.nv.compat`.
    /// COMMON is written, and PAIR even if it is 0.
    compat_keeps_common: bool =          [YES,   NO,    NO,    NO,    NO,    NO];
    /// FINALIZER is written on targets without Mercury too; on those with, it has its place and is not added last.
    compat_keeps_finalizer: bool =       [NO,    NO,    YES,   YES,   YES,   YES];
    /// ISA_VERSION is known, and VERSION left out while it says nothing; FINALIZER is the target's own.
    compat_isa_version: bool =           [NO,    NO,    NO,    YES,   YES,   YES];
    /// FINALIZER of an accelerated target has its own bit alone, unless PAIR says that code suits the family.
    compat_asks_pair: bool =             [NO,    YES,   YES,   YES,   YES,   YES];
    /// ISA_LEVEL and FINALIZER_VERSION are known; what the latter is on targets with Mercury.
    compat_finalizer_version: Option<u16> = [None, None, None, None, Some(0x400), Some(0x440)];

    /// A variable that is only zeroed is a definition like one with an initialiser, not a tentative one.
    zeroed_is_definition: bool =         [NO,    NO,    NO,    YES,   YES,   YES];

    // Memory and attributes.
    /// The alignment of arrays without size counts, and entries that reach one end at a multiple of their section's.
    aligns_dynamic_shared: bool =        [NO,    YES,   YES,   YES,   YES,   YES];
    /// A single entry keeps its own EXTERNS in front.
    externs_in_order: bool =             [NO,    NO,    YES,   YES,   YES,   YES];
    /// A single entry must not reach tensor memory of both kinds, although it uses none itself.
    asks_single_entry: bool =            [NO,    NO,    YES,   YES,   YES,   YES];
    /// Where kernels are selected, constants are looked up by their contents.
    looks_constants_up: bool =           [YES,   YES,   YES,   YES,   YES,   NO];

    /// Functions' and files' ATTRIBUTE_64 become one record of the file.
    gathers_64: bool =                   [NO,    NO,    NO,    YES,   YES,   YES];

    // Symbols and names.
    /// Weak symbols are in the global part of the symbol table whatever was seen first.
    weak_is_global: bool =               [NO,    NO,    NO,    NO,    YES,   YES];
    /// Shared variables of one entry that keep their symbols are local.
    own_shared_is_local: bool =          [NO,    NO,    NO,    NO,    YES,   YES];
    /// A RELA section leaves the name of a REL section beside its own.
    rel_twin_names: bool =               [YES,   YES,   YES,   YES,   YES,   NO];

    // Objects (`-r`).
    /// Records against shared variables stay in an object.
    keeps_shared_records: bool =         [NO,    NO,    YES,   YES,   YES,   YES];

    // Mercury.
    /// The oldest release with the same finalizer, which leaves code of its own compiler as it is.
    finalizer: u16 =                     [130,   131,   132,   133,   134,   134];
    /// The finalizer knows code by its function, not by the first symbol of it.
    knows_code_by_function: bool =       [NO,    NO,    NO,    NO,    NO,    YES];
    /// In the table of jump slots each keeps the padding behind it, and nothing follows the last.
    slots_keep_padding: bool =           [NO,    YES,   YES,   YES,   YES,   YES];
    /// A unit of a line table of which no sequence is left has one without rows.
    empty_units_end: bool =              [NO,    NO,    NO,    NO,    NO,    YES];
    /// Symbols of literals get the name of their section and their number.
    renames_literals: bool =             [YES,   YES,   YES,   YES,   YES,   NO];
    /// A bank that a replaced copy leaves empty loses its relocations, too.
    emptied_banks_lose_records: bool =   [NO,    NO,    NO,    NO,    NO,    YES];
    /// Entries take over the flag ATTRIBUTE_6D from functions that they reach.
    entries_take_flag: bool =            [NO,    NO,    NO,    NO,    YES,   YES];
    /// They do so too where an alias of such a function is called or named.
    flag_through_aliases: bool =         [NO,    NO,    NO,    NO,    NO,    YES];
    /// Mercury has a call graph and prototypes of its own.
    mercury_callgraph: bool =            [NO,    NO,    NO,    NO,    YES,   YES];
    /// The file is written anew: Mercury's names are collected when they are written, its symbol
    /// table comes first of its half and code last.
    new_writer: bool =            [NO,    NO,    NO,    NO,    NO,    YES];
}

/// All releases, oldest first.
pub static DIALECTS: [Dialect; COUNT] =
    [dialect(0), dialect(1), dialect(2), dialect(3), dialect(4), dialect(5)];

impl Dialect {
    /// The rules of the oldest release.
    pub fn oldest() -> &'static Dialect {
        &DIALECTS[0]
    }

    /// The rules of the newest release.
    pub fn newest() -> &'static Dialect {
        &DIALECTS[COUNT - 1]
    }

    /// The rules for objects of release `toolkit`, counted as in notes: those of the release itself, of the oldest
    /// that takes such objects, or of the newest there is.
    pub fn for_toolkit(toolkit: u16) -> &'static Dialect {
        DIALECTS.iter().find(|dialect| dialect.toolkit >= toolkit).unwrap_or(Dialect::newest())
    }

    /// True when an object made for SM number `sm` may be linked for `target`.
    pub fn takes(&self, target: &Arch, sm: u32) -> bool {
        let ampere = self.whole_ampere_family && (87..=89).contains(&target.sm);
        target.takes(sm) || ampere && (80..=target.sm).contains(&sm)
    }

    /// True for a target that the release knows.
    pub fn knows(&self, target: &Arch) -> bool {
        target.sm != 107 || self.knows_sm_107
    }

    /// True for an option, or a value of one, that the release knows, if the oldest does not.
    pub fn has_word(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The rules for a link of `files`, cubins, to `target`: those of the newest of them, as [`Dialect::for_toolkit`]
    /// has it, of the releases that know the target.
    pub fn for_cubins<'d>(
        target: &Arch,
        files: impl IntoIterator<Item = &'d [u8]>,
    ) -> &'static Dialect {
        let newest = files.into_iter().filter_map(note::toolkit).max();
        let chosen = newest.map_or(Dialect::oldest(), Dialect::for_toolkit);
        let knows = |dialect: &&Dialect| dialect.toolkit >= chosen.toolkit && dialect.knows(target);
        DIALECTS.iter().find(knows).unwrap_or(Dialect::newest())
    }

    /// True for the rules of the newest release.
    pub(crate) fn is_newest(&self) -> bool {
        self.toolkit == Dialect::newest().toolkit
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.toolkit / 10, self.toolkit % 10)
    }
}

/// A text that names no release whose rules are known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no release of CUDA whose rules are known: '{0}'")]
pub struct UnknownRelease(pub String);

impl FromStr for &'static Dialect {
    type Err = UnknownRelease;

    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let found = DIALECTS.iter().find(|dialect| dialect.to_string() == text);
        found.ok_or_else(|| UnknownRelease(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_ascend_and_have_names() {
        assert!(DIALECTS.windows(2).all(|pair| pair[0].toolkit < pair[1].toolkit));
        for dialect in &DIALECTS {
            assert_eq!(dialect.to_string().parse(), Ok(dialect));
            assert!(dialect.build.starts_with(&format!("{dialect}.")));
        }
        assert!("12.9".parse::<&Dialect>().is_err());
    }

    #[test]
    fn objects_choose_the_oldest_release_that_takes_them() {
        let chosen = |toolkit| Dialect::for_toolkit(toolkit).toolkit;
        assert_eq!([129, 130, 132, 135, 140].map(chosen), [130, 130, 132, 135, 135]);
    }
}
