//! The releases of nvlink whose rules culd can follow, and their differences.
//!
//! nvlink's behaviour depends on its own release, not on those of the inputs. So a [`Dialect`] has
//! a field for each difference, and code that depends on the release reads the field. The table
//! below is the whole list (docs/DIALECTS.md says what each row means and how it was found).

use std::fmt;
use std::str::FromStr;

use culd_cubin::arch::Arch;
use culd_cubin::note;

/// How many releases there are.
const COUNT: usize = 16;

/// The releases as notes and headers store them: 130 is 13.0.
const RELEASES: [u16; COUNT] =
    [118, 120, 121, 122, 123, 124, 125, 126, 128, 129, 130, 131, 132, 133, 134, 135];

/// The builds that culd was compared with.
const BUILDS: [&str; COUNT] = [
    "11.8.89", "12.0.140", "12.1.105", "12.2.140", "12.3.101", "12.4.131", "12.5.82", "12.6.85",
    "12.8.93", "12.9.86", "13.0.88", "13.1.115", "13.2.86", "13.3.73", "13.4.92", "13.5.37",
];

/// The release that is followed if nothing says which.
const USUAL: u16 = 130;

/// The place of a release in the table.
const fn place_of(release: u16) -> usize {
    let mut place = 0;
    while RELEASES[place] != release {
        place += 1;
    }
    place
}

/// A row of the table: `first`, and from each release in `later` on the value that stands there.
/// `later` is in ascending order.
const fn steps<T: Copy>(first: T, later: &[(u16, T)]) -> [T; COUNT] {
    steps_of([first; COUNT], later)
}

/// The same if the releases before the first of `later` have different values, which `row` has.
const fn steps_of<T: Copy>(mut row: [T; COUNT], later: &[(u16, T)]) -> [T; COUNT] {
    let mut step = 0;
    while step < later.len() {
        let mut place = place_of(later[step].0);
        while place < COUNT {
            row[place] = later[step].1;
            place += 1;
        }
        step += 1;
    }
    row
}

/// A row that is true of `release` and later ones.
const fn since(release: u16) -> [bool; COUNT] {
    steps(false, &[(release, true)])
}

/// A row that is true of the releases before `release`.
const fn before(release: u16) -> [bool; COUNT] {
    steps(true, &[(release, false)])
}

macro_rules! dialects {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $values:expr;)*) => {
        /// A release of NVIDIA's linker whose rules are followed.
        #[derive(Debug, PartialEq, Eq)]
        pub struct Dialect {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl Dialect {
            /// The names of the rules in which this release differs from another one: those of the
            /// fields.
            pub fn rules_unlike(&self, other: &Dialect) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$field != other.$field {
                    names.push(stringify!($field));
                })*
                names
            }
        }

        const fn dialect(place: usize) -> Dialect {
            Dialect { $($field: { const VALUES: [$kind; COUNT] = $values; VALUES[place] },)* }
        }
    };
}

const PATCH: &str = "-astoolspatch";
/// Options, and values of them, by the release that brought them. nvlink 11.8 and 12.5 lack them;
/// which release between brought the first ones is not known, nor for 12.6 to 12.9.
const SINCE_120: &[&str] = &["Xnvvm", "split-compile", "split-compile-extended", "uidx-file"];
const SINCE_126: &[&str] = &["Ofast-compile", "device-stack-protector", "disable-infos"];
/// The long name of `-r` while it was for the host's script only: nvcc says it.
const UNTIL_129: &[&str] = &["host-relocatable-link"];
const SINCE_130: &[&str] = &["relocatable-link"];
const SINCE_132: &[&str] = &["verbose2"];
const SINCE_133: &[&str] = &["link-as-tools-patch", "RISCV64"];
const SINCE_135: &[&str] = &["nvvm-latest"];

/// A row that is true of `releases`.
const fn of(releases: &[u16]) -> [bool; COUNT] {
    let mut row = [false; COUNT];
    let mut next = 0;
    while next < releases.len() {
        row[place_of(releases[next])] = true;
        next += 1;
    }
    row
}

/// The value of `.nv.reservedSmem.cap`, a symbol for the size of the system's part of shared memory
/// (case syscalls/reserved-shared).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedCap {
    /// 0.
    Zero,
    /// 0, and symbol 0 has the size.
    InNull,
    /// The size.
    Own,
}

/// The second layout of a full bank of constant variables: the size of a variable is its alignment,
/// and what it is sorted by, each up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondLayout {
    /// Of local and weak variables: the limit of what they are sorted by.
    pub key_of_local: u64,
    /// The limit of their alignment.
    pub of_local: u64,
    /// Both limits of global variables.
    pub of_global: u64,
}

/// The contents of `.nv.rel.action`, the same in every file nvlink was seen to make.
const ACTIONS: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

/// The same of 11.8: the first eight bytes, an action, 24 actions that count in steps of eight
/// bits, and two more.
const ACTIONS_OF_11_8: [u8; 224] = {
    let mut bytes = [0; 224];
    let (first, last) = ([0x4b, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 8, 0x10, 0x0a, 0x2f, 0x22], 208);
    let mut at = 0;
    while at < first.len() {
        bytes[at] = first[at];
        at += 1;
    }
    let mut action = 0;
    while action < 24 {
        let at = 16 + 8 * action;
        (bytes[at], bytes[at + 2], bytes[at + 3]) = ((action / 8) as u8, (action % 8 * 8) as u8, 8);
        action += 1;
    }
    let tail = [0, 0, 0, 0x14, 0x2c, 0, 0, 0, 3, 0, 0, 0x0c, 0, 0, 0, 0];
    let mut at = 0;
    while at < tail.len() {
        bytes[last + at] = tail[at];
        at += 1;
    }
    bytes
};

#[rustfmt::skip]
dialects! {
    /// The release as notes store it: 130 is 13.0.
    toolkit: u16 = RELEASES;
    /// The build that culd was compared with.
    build: &'static str = BUILDS;
    /// Bytes of the strings in nvlink's own tool record, without the option line. culd pads its own
    /// record to this length, so that all later offsets are equal.
    tool_strings: usize = steps(97, &[(131, 98), (132, 97)]);

    /// Files for sm_90a and older have no notes: release and target are in their header. Those for
    /// sm_100 and later have notes of their own form.
    all_in_header: bool = before(130);

    /// `.note.nv.cuver` names the virtual architecture of a file, not the target.
    names_files_target: bool = since(129);

    /// A Mercury section without bytes of its own leaves room for its alignment.
    aligns_shared_bytes: bool = before(129);

    /// `-v` prints the barriers of entries.
    prints_barriers: bool = since(126);
    /// Kernels that only the driver defines are entries.
    has_undefined_entries: bool = before(129);
    /// The register count of such a kernel that is the only entry is in front of its stack size.
    counts_registers_first: bool = before(124);
    /// Conflicting options are reported before a missing target, output or input.
    checks_conflicts_first: bool = before(130);
    /// `-w` silences the linker's own warnings.
    silences_warnings: bool = before(130);
    /// How unified functions and variables are linked is known.
    knows_unified: bool = since(124);
    /// In a program, all jump slots are one function with several names, so that they share the
    /// attributes of the first slot. Later, the table of slots has attributes of its own.
    slots_are_aliases: bool = before(126);
    /// Index files of version 2 and later have more bytes at their end.
    knows_index_tail: bool = since(130);
    /// Jump slots that are entries have register counts, behind all else in the program's
    /// attributes, and barriers in the flags of their table.
    counts_registers_of_slots: bool = before(128);
    /// The section of unified variables has a type of its own in programs.
    types_unified_data: bool = since(128);
    /// Records about `__UFT_OFFSET` stay in programs without unified functions.
    keeps_offset_of_slots: bool = before(126);
    /// Relocations that stay in a program keep types for unified addresses.
    keeps_unified_types: bool = before(120);
    /// `-r` makes an object; older releases accept the option and make a program.
    makes_objects: bool = since(130);

    /// The string table of symbols has three lists: prototypes, what is local, and what is global.
    /// Older releases have one, from which nothing is taken out.
    has_three_lists: bool = since(124);
    /// Headers of sections that belong to a function or a section say so.
    marks_owners: bool = since(124);
    /// `sh_link` of all sections with symbols.
    symbols_link: u32 = steps(3, &[(120, 5), (123, 3)]);
    /// The string tables begin with the name of the table of unified functions, too.
    names_unified_table: bool = of(&[120, 121, 122, 123]);
    /// `.nv.rel.action` of executables; none is written if it is empty.
    rel_action: &'static [u8] = steps(&ACTIONS_OF_11_8, &[(120, &[]), (122, &ACTIONS)]);
    /// `.nv.callgraph` lists calls of the driver's functions.
    lists_system_calls: bool = steps(true, &[(122, false), (123, true)]);
    /// `.nv.callgraph` lists what indirect calls may reach, as calls.
    lists_indirect_calls: bool = before(121);
    /// `.nv.callgraph` lists the addresses that functions name.
    lists_references: bool = since(120);
    /// An alias that nothing uses stays if its function does. Later nvlink ends in such links.
    keeps_unused_aliases: bool = before(124);
    /// `.nv.prototype` lists the aliases of dead functions, against symbol 0.
    lists_dead_aliases: bool = of(&[123]);
    /// `sh_info` of an entry's code has the registers of all that it reaches.
    raises_registers_of_code: bool = before(124);

    // Accepted inputs.
    /// Objects for an `a` target may go into a target without that letter.
    mixes_accelerated: bool = before(131);
    /// A virtual target for a family takes its members only, not every older object.
    families_take_members: bool = since(133);
    /// sm_87 and sm_88 take objects of the sm_80 family, and later members of it take theirs.
    whole_ampere_family: bool = since(132);
    /// sm_75 takes objects of sm_70.
    takes_volta: bool = before(130);
    /// Options, and values of options, that 11.8 does not have.
    words: &'static [&'static [&'static str]] = steps(&[UNTIL_129], &[
        (120, &[UNTIL_129, SINCE_120]),
        (126, &[UNTIL_129, SINCE_120, SINCE_126]),
        (130, &[SINCE_120, SINCE_126, SINCE_130]),
        (132, &[SINCE_120, SINCE_126, SINCE_130, SINCE_132]),
        (133, &[SINCE_120, SINCE_126, SINCE_130, SINCE_132, SINCE_133]),
        (135, &[SINCE_120, SINCE_126, SINCE_130, SINCE_132, SINCE_133, SINCE_135]),
    ]);
    /// The name of the option in the message about a function without the attribute of a tools
    /// patch; older releases do not have the option.
    tools_patch: &'static str = steps(PATCH, &[(133, "--astoolspatch"), (134, PATCH)]);
    /// A weak symbol that nothing defines is an error.
    weak_must_be_defined: bool = since(134);
    /// With a register file, a line reports each file that has device code only.
    reports_missing_host_code: bool = since(133);
    /// How many of the functions that the driver got after the oldest release are known.
    later_driver_functions: usize = steps(0, &[(120, 1), (123, 2), (124, 6), (133, 8), (135, 10)]);

    /// LTO-IR and PTX of an `a` target suit only that target. Before, they suit each target of that
    /// number (13.0, 12.4; libnvJitLink 12.6 and 12.9).
    binds_accelerated_ptx: bool = since(130);
    /// ptxas gets `-split-compile`, and libnvvm `-split-compile-extended`. The first ptxas that
    /// knows the option is that of 12.8.
    compilers_split: bool = since(128);
    /// The threads that LTO-IR was compiled with must be those of the link; before, they take their
    /// place (docs/rules/lto.md, 8).
    compares_threads: bool = since(131);
    /// A limit of registers of four digits is an error where it is handed on. Before, ptxas warns.
    limits_registers: bool = since(130);

    // Link-time optimization in links with other code.
    /// LTO-IR outside host objects is an input without lists of kernels, so that all kernels stay.
    lto_files_keep_kernels: bool = before(130);
    /// LTO-IR outside host objects asks for libcudadevrt, too: without a kernel it is a part of the
    /// program.
    lto_always_asks: bool = before(130);
    /// The object made of LTO-IR is the first input; else it stands where the last LTO-IR stood.
    lto_comes_first: bool = since(135);
    /// References of host code do not count.
    lto_ignores_host: bool = since(135);
    /// The logs of libnvJitLink have a time for each cubin, and end a link without `-lto` that
    /// fails with `ERROR 9: complete`, not `ERROR 9: finish`.
    jit_logs_cubins: bool = since(131);
    /// An object of LTO-IR has not nvlink's order: it takes a second piece to make it.
    lto_object_lacks_order: bool = of(&[132]);

    // `.nv.compat`.
    /// COMMON is written, and PAIR even if it is 0.
    compat_keeps_common: bool = before(131);
    /// FINALIZER is written on targets without Mercury, too. On targets with Mercury it keeps its
    /// place instead of being added last.
    compat_keeps_finalizer: bool = since(132);
    /// ISA_VERSION is known, VERSION is left out if it has no information, and FINALIZER is the
    /// target's own.
    compat_isa_version: bool = since(133);
    /// FINALIZER of an accelerated target has the target's own bit only, unless PAIR says that the
    /// code suits the family.
    compat_asks_pair: bool = since(131);
    /// ISA_LEVEL and FINALIZER_VERSION are known. The value is FINALIZER_VERSION on targets with
    /// Mercury.
    compat_finalizer_version: Option<u16> = steps(None, &[(134, Some(0x400)), (135, Some(0x440))]);

    /// A zeroed variable is a definition like an initialised one, not a tentative one.
    zeroed_is_definition: bool = since(133);

    // Memory and attributes.
    /// The limit of the shared memory of an entry is that of the device.
    large_shared_limits: bool = of(&[124, 125, 126]);
    /// Limits of registers are checked before those of memory, behind the call graph's dump.
    checks_registers_first: bool = before(123);
    /// Where the size of the system's part of shared memory is written on sm_90.
    reserved_cap: ReservedCap =
        steps(ReservedCap::Zero, &[(125, ReservedCap::InNull), (129, ReservedCap::Own)]);
    /// The alignment of arrays without size counts, and the section of an entry that reaches such
    /// an array ends at a multiple of its alignment.
    aligns_dynamic_shared: bool = since(131);
    /// The shared section of an entry gets its size if an object has no variable in it.
    counts_unnamed_shared: bool = since(134);
    /// Records against the shared variables of a whole program compiled with `-sanitize` meet the
    /// places of the variables (docs/DIFFERENCES.md, whole-program-sanitized).
    places_sanitized: bool = since(132);
    /// A program's only entry lists its own EXTERNS in reading order.
    externs_in_order: bool = since(132);
    /// Entries must not use tensor memory both of one block and of a pair.
    checks_tensor_memory: bool = since(130);
    /// A program's only entry must not reach tensor memory of both kinds, even if it uses none
    /// itself.
    asks_single_entry: bool = since(132);
    /// Constant variables that do not fit are laid out anew.
    lays_constants_out_again: bool = since(122);
    /// How (docs/rules/diagnostics.md, 4.1; case dialects/second-layout-12-2).
    second_layout: SecondLayout = steps(
        SecondLayout { key_of_local: 16, of_local: 16, of_global: u64::MAX },
        &[(123, SecondLayout { key_of_local: 0, of_local: 8, of_global: 8 })],
    );
    /// With a kernel selection, constants are looked up by their contents.
    looks_constants_up: bool = before(135);

    /// The ATTRIBUTE_64 records of functions and files become one record of the file.
    gathers_64: bool = since(133);

    // Definitions that lost.
    /// In tables of code addresses, records about copies that lost are kept, for the copy that
    /// counts.
    keeps_lost_addresses: bool = before(128);
    /// Of several weak copies, the one with the smallest register count in `sh_info` of its code
    /// counts. On sm_90 that is 0 in all.
    counts_registers_of_code: bool = before(130);

    // Symbols and names.
    /// A link that keeps dead functions has a function without name, created where the first
    /// function is named before its definition.
    has_nameless_function: bool = before(130);
    /// Weak symbols are always in the global part of the symbol table.
    weak_is_global: bool = since(134);
    /// Shared variables of one entry that keep their symbols are local.
    own_shared_is_local: bool = since(134);
    /// A RELA section with a record without addend also leaves the name of a REL section.
    leaves_rel_names: bool = before(135);

    /// A variable of the pool keeps its symbol where one entry alone uses it.
    keeps_moved_shared: bool = since(120);
    /// With `-g` too, the shared memory of a whole program's kernel counts, beside that of its
    /// variables with symbols.
    counts_memory_with_g: bool = before(128);
    /// The sizes of descriptors of textures and `.nv.reservedSmem.cap` are symbols of the system.
    /// In older releases they are variables like others.
    knows_later_variables: bool = since(120);
    /// Variables that may stay undefined have the value -1.
    marks_undefined_variables: bool = before(120);

    /// `-Xptxas` takes a list and adds up. Before, a further value takes the place of the first, as
    /// it does with options that take one value.
    lists_ptxas_options: bool = since(120);
    /// An empty input is no error.
    ignores_empty_files: bool = since(120);
    /// In the lines of the call graph, functions inside the code of others are `[clone F]`.
    brackets_clones: bool = since(120);

    // Objects (`-r`).
    /// An object keeps records against shared variables.
    keeps_shared_records: bool = since(132);

    // Mercury.
    /// The oldest release with the same finalizer. A finalizer leaves code of its own compiler as
    /// it is.
    finalizer: u16 = steps_of(RELEASES, &[(135, 134)]);
    /// The finalizer identifies code by its function, not by its first symbol.
    knows_code_by_function: bool = since(135);
    /// In the table of jump slots each slot keeps its padding, and nothing follows the last slot.
    slots_keep_padding: bool = since(131);
    /// In a line table, a unit that has lost all its sequences gets one without rows.
    empty_units_end: bool = since(135);
    /// Symbols of literals are renamed to the name of their section and their number.
    renames_literals: bool = before(135);
    /// A bank that a replaced copy leaves empty loses its relocations, too.
    emptied_banks_lose_records: bool = since(135);
    /// Entries inherit the flag ATTRIBUTE_6D from functions that they reach.
    entries_take_flag: bool = since(134);
    /// They also inherit it where an alias of such a function is called or named.
    flag_through_aliases: bool = since(135);
    /// Mercury has its own call graph and prototypes.
    mercury_callgraph: bool = since(134);
    /// A new writer makes the file: Mercury's names are collected when they are written, and in
    /// Mercury's half the symbol table comes first and code last.
    new_writer: bool = since(135);
}

/// All releases, oldest first.
pub static DIALECTS: [Dialect; COUNT] = [
    dialect(0),
    dialect(1),
    dialect(2),
    dialect(3),
    dialect(4),
    dialect(5),
    dialect(6),
    dialect(7),
    dialect(8),
    dialect(9),
    dialect(10),
    dialect(11),
    dialect(12),
    dialect(13),
    dialect(14),
    dialect(15),
];

impl Dialect {
    /// The rules that are followed if nothing says which: those of 13.0.
    pub fn usual() -> &'static Dialect {
        &DIALECTS[place_of(USUAL)]
    }

    /// The rules of the newest release.
    pub fn newest() -> &'static Dialect {
        &DIALECTS[COUNT - 1]
    }

    /// The rules for objects of release `toolkit`, numbered as in notes: those of that release,
    /// else of the oldest that takes such objects, else of the newest.
    pub fn for_toolkit(toolkit: u16) -> &'static Dialect {
        DIALECTS.iter().find(|dialect| dialect.toolkit >= toolkit).unwrap_or(Dialect::newest())
    }

    /// True when an object made for SM number `sm` may be linked for `target`.
    pub fn takes(&self, target: &Arch, sm: u32) -> bool {
        let ampere = self.whole_ampere_family && (87..=89).contains(&target.sm);
        let volta = self.takes_volta && (target.sm, sm) == (75, 70);
        target.takes(sm) || volta || ampere && (80..=target.sm).contains(&sm)
    }

    /// True for a target that the release knows.
    pub fn knows(&self, target: &Arch) -> bool {
        target.is_known_to(self.toolkit)
    }

    /// The most bytes of its own that a block may declare statically on `target`.
    pub(crate) fn shared_limit(&self, target: &Arch) -> u64 {
        if self.large_shared_limits {
            return target.device_shared;
        }
        // CUDA 12 has no larger limit for `a` targets.
        if self.all_in_header { 0xc000 } else { target.shared_limit }
    }

    /// True for an option, or a value of one, that the release has and 11.8 does not have.
    pub fn has_word(&self, word: &str) -> bool {
        self.words.iter().any(|words| words.contains(&word))
    }

    /// The rules for a link of the cubins `files` to `target`: those of the newest file by
    /// [`Dialect::for_toolkit`], or of the next release that knows the target, else of the last one
    /// that does.
    pub fn for_cubins<'d>(
        target: &Arch,
        files: impl IntoIterator<Item = &'d [u8]>,
    ) -> &'static Dialect {
        let newest = files.into_iter().filter_map(note::toolkit).max();
        let chosen = newest.map_or(Dialect::usual(), Dialect::for_toolkit);
        let knows = |dialect: &&Dialect| dialect.toolkit >= chosen.toolkit && dialect.knows(target);
        let known = || DIALECTS.iter().rev().find(|dialect| dialect.knows(target));
        DIALECTS.iter().find(knows).or_else(known).unwrap_or(Dialect::newest())
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

/// A text that names none of the releases.
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
        assert!("12.7".parse::<&Dialect>().is_err());
    }

    #[test]
    fn objects_choose_the_oldest_release_that_takes_them() {
        let chosen = |toolkit| Dialect::for_toolkit(toolkit).toolkit;
        assert_eq!([112, 121, 127, 130, 135, 140].map(chosen), [118, 121, 128, 130, 135, 135]);
    }
}
