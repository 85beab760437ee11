//! State spaces of PTX and their properties: the PTX ISA, 5.1, tables 6 and 7.
//!
//! In: a state space. Out: the permitted uses of its variables. Guaranteed: the tables say what the
//! document says, its notes included.

use std::fmt;

/// The memory of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub enum StateSpace {
    Reg,
    Sreg,
    Const,
    Global,
    Local,
    Param,
    Shared,
    Tex,
}

impl StateSpace {
    /// All of them, in the order of table 6.
    pub const ALL: [StateSpace; 8] = [
        StateSpace::Reg,
        StateSpace::Sreg,
        StateSpace::Const,
        StateSpace::Global,
        StateSpace::Local,
        StateSpace::Param,
        StateSpace::Shared,
        StateSpace::Tex,
    ];

    /// The name in PTX: `.global`.
    pub const fn name(self) -> &'static str {
        match self {
            StateSpace::Reg => ".reg",
            StateSpace::Sreg => ".sreg",
            StateSpace::Const => ".const",
            StateSpace::Global => ".global",
            StateSpace::Local => ".local",
            StateSpace::Param => ".param",
            StateSpace::Shared => ".shared",
            StateSpace::Tex => ".tex",
        }
    }

    /// The space with this name in PTX, without a sub-qualifier such as `::cta`.
    pub fn by_name(name: &str) -> Option<Self> {
        StateSpace::ALL.into_iter().find(|space| space.name() == name)
    }

    /// Table 6.
    pub const fn description(self) -> &'static str {
        match self {
            StateSpace::Reg => "Registers, fast.",
            StateSpace::Sreg => "Special registers. Read-only; pre-defined; platform-specific.",
            StateSpace::Const => "Shared, read-only memory.",
            StateSpace::Global => "Global memory, shared by all threads.",
            StateSpace::Local => "Local memory, private to each thread.",
            StateSpace::Param => {
                "Kernel parameters, defined per-grid; or Function or local parameters, defined per-thread."
            }
            StateSpace::Shared => {
                "Addressable memory, defined per CTA, accessible to all threads in the cluster throughout \
                 the lifetime of the CTA that defines it."
            }
            StateSpace::Tex => "Global texture memory (deprecated).",
        }
    }

    /// True where variables may stand outside functions. Registers and local variables may not when
    /// the ABI is used (5.1.1, 5.1.5), special registers are predefined, parameters belong to a
    /// function.
    pub const fn at_module_scope(self) -> bool {
        matches!(
            self,
            StateSpace::Const | StateSpace::Global | StateSpace::Shared | StateSpace::Tex
        )
    }
}

impl fmt::Display for StateSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether variables of a space have addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are those of table 7")]
pub enum Addressable {
    No,
    Yes,
    Restricted,
}

/// Whether variables of a space may have initial values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are those of table 7")]
pub enum Initializable {
    No,
    Yes,
    ViaDriver,
}

/// The accesses of programs to variables of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are those of table 7")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// The threads that share a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are those of table 7")]
pub enum Sharing {
    PerThread,
    PerCta,
    PerCluster,
    PerGrid,
    Context,
}

/// A row of table 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// The space.
    pub space: StateSpace,
    /// The use of `.param`.
    pub used: Option<ParamUse>,
    /// Whether it has addresses.
    pub addressable: Addressable,
    /// Whether it has initial values.
    pub initializable: Initializable,
    /// The permitted accesses.
    pub access: Access,
    /// The threads that share it.
    pub sharing: Sharing,
    /// Notes of the table that apply, numbers in [`NOTES`].
    pub notes: &'static [usize],
}

/// The two uses of `.param`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamUse {
    /// A parameter of a kernel.
    Kernel,
    /// In functions.
    Function,
}

/// The notes of table 7; number 1 is the first.
pub const NOTES: [&str; 5] = [
    "Variables in .const and .global state spaces are initialized to zero by default.",
    "Accessible only via the ld.param{::entry} instruction. Address may be taken via mov instruction.",
    "Accessible via ld.param{::func} and st.param{::func} instructions. Device function input and return \
     parameters may have their address taken via mov; the parameter is then located on the stack frame and its \
     address is in the .local state space.",
    "Accessible only via the tex instruction.",
    "Visible to the owning CTA and other active CTAs in the cluster.",
];

const fn row(
    space: StateSpace,
    used: Option<ParamUse>,
    addressable: Addressable,
    initializable: Initializable,
    access: Access,
    sharing: Sharing,
    notes: &'static [usize],
) -> Properties {
    Properties { space, used, addressable, initializable, access, sharing, notes }
}

/// Table 7.
#[rustfmt::skip]
pub const PROPERTIES: [Properties; 9] = {
    use Access::{ReadOnly, ReadWrite};
    use Addressable as A;
    use Initializable as I;
    use Sharing::{Context, PerCluster, PerCta, PerGrid, PerThread};
    use StateSpace as S;
    [
        row(S::Reg, None, A::No, I::No, ReadWrite, PerThread, &[]),
        row(S::Sreg, None, A::No, I::No, ReadOnly, PerCta, &[]),
        row(S::Const, None, A::Yes, I::Yes, ReadOnly, PerGrid, &[1]),
        row(S::Global, None, A::Yes, I::Yes, ReadWrite, Context, &[1]),
        row(S::Local, None, A::Yes, I::No, ReadWrite, PerThread, &[]),
        row(S::Param, Some(ParamUse::Kernel), A::Yes, I::No, ReadOnly, PerGrid, &[2]),
        row(S::Param, Some(ParamUse::Function), A::Restricted, I::No, ReadWrite, PerThread, &[3]),
        row(S::Shared, None, A::Yes, I::No, ReadWrite, PerCluster, &[5]),
        row(S::Tex, None, A::No, I::ViaDriver, ReadOnly, Context, &[4]),
    ]
};

/// Bytes of statically sized constant variables (5.1.3).
pub const CONSTANT_BYTES: u64 = 64 << 10;

/// Bytes of constant memory beyond those, in regions of [`CONSTANT_BYTES`] for buffers of the
/// driver (5.1.3).
pub const CONSTANT_BUFFER_BYTES: u64 = 640 << 10;

/// Banks of constants of PTX before 2.2: `.const[0]` to `.const[10]` (5.1.3.1).
pub const CONSTANT_BANKS: u64 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 7 as text, without its notes.
    const TABLE: &str = "\
.reg No No R/W per-thread
.sreg No No RO per-CTA
.const Yes Yes RO per-grid
.global Yes Yes R/W Context
.local Yes No R/W per-thread
.param (as input to kernel) Yes No RO per-grid
.param (used in functions) Restricted No R/W per-thread
.shared Yes No R/W per-cluster
.tex No Yes, via driver RO Context";

    fn words(row: &Properties) -> String {
        let used = match row.used {
            None => "",
            Some(ParamUse::Kernel) => " (as input to kernel)",
            Some(ParamUse::Function) => " (used in functions)",
        };
        let initializable = match row.initializable {
            Initializable::No => "No",
            Initializable::Yes => "Yes",
            Initializable::ViaDriver => "Yes, via driver",
        };
        let access = if row.access == Access::ReadOnly { "RO" } else { "R/W" };
        let sharing = match row.sharing {
            Sharing::PerThread => "per-thread",
            Sharing::PerCta => "per-CTA",
            Sharing::PerCluster => "per-cluster",
            Sharing::PerGrid => "per-grid",
            Sharing::Context => "Context",
        };
        format!("{}{used} {:?} {initializable} {access} {sharing}", row.space, row.addressable)
    }

    #[test]
    fn the_table_is_the_documents() {
        assert_eq!(PROPERTIES.iter().map(words).collect::<Vec<_>>().join("\n"), TABLE);
        for note in PROPERTIES.iter().flat_map(|row| row.notes) {
            assert!((1..=NOTES.len()).contains(note));
        }
    }

    #[test]
    fn every_space_has_a_name_a_description_and_properties() {
        for space in StateSpace::ALL {
            assert_eq!(StateSpace::by_name(space.name()), Some(space));
            assert!(space.description().ends_with('.'));
            let rows = PROPERTIES.iter().filter(|row| row.space == space).count();
            assert_eq!(rows, if space == StateSpace::Param { 2 } else { 1 });
        }
        assert_eq!(StateSpace::by_name(".heap"), None);
    }
}
