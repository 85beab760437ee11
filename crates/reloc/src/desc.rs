//! The vocabulary of the relocation tables and the checks that every table passes at compile time.
//!
//! In: rows written with the constructors at the end of this module. Out: [`RelocDesc`] values.
//! Guaranteed by `check`: codes dense and ordered; names unique; fields inside the 128-bit word,
//! apart from each other; resolver, observation, rewriting and proof columns that do not contradict
//! each other.
//!
//! ```text
//!  value   63            16 15      0        bank   4  0
//!                          +---------+            +----+
//!  address(0..16, 38)      |         |            |    |  bank(0..5, 54)
//!                          +---------+            +----+
//!  word   127            54 53      38             58 54
//! ```
//!
//! Words are little endian and start at the place's first byte.

use std::fmt;
use std::ops::Range;

/// Number of bits that a relocation type can reach: the widest place is one 128-bit instruction.
pub const WORD_BITS: u8 = 128;

/// First code of the `R_MERCURY_*` types.
pub const MERCURY_BASE: u32 = 0x10000;

/// A relocation type as it stands in a record's `r_info`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelocType(pub u32);

impl RelocType {
    /// The row that describes the type, if it is known.
    pub fn desc(self) -> Option<&'static RelocDesc> {
        crate::lookup(self.0)
    }
}

impl fmt::Display for RelocType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.desc() {
            Some(desc) => f.write_str(desc.name),
            None => write!(f, "R_UNKNOWN_{:#x}", self.0),
        }
    }
}

impl fmt::Debug for RelocType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", self.0)
    }
}

/// The program that fills the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolver {
    /// The type has no fields.
    Nobody,
    /// The linker, always.
    Linker,
    /// The driver when it loads the image; the linker keeps the record.
    Driver,
    /// The linker where it knows the address (constants, shared memory, debug sections); the driver
    /// otherwise (functions, global memory).
    Either,
    /// The step that turns Mercury code into SASS.
    Finalizer,
}

/// The source of a field's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// S + A; the fields of the row together are meant to hold all of it.
    Address,
    /// One part of S + A (low or high half, one byte); other records carry the rest.
    Part,
    /// Number N of the section `.nv.constantN` that holds the symbol.
    Bank,
    /// Slot number of a bound texture, sampler or surface, on architectures before Kepler. nvlink
    /// takes another S here than everywhere else: a shared variable's `st_value` in the object, 0
    /// for a constant.
    Slot,
    /// Generic address.
    Generic,
    /// Address of a function's descriptor.
    Descriptor,
    /// Address in the unified function or data table.
    Unified,
    /// Index of a texture, sampler or surface header.
    Header,
    /// Hardware descriptor of a surface.
    Surface,
    /// Distance from the place.
    PcRel,
    /// A whole instruction, chosen by the driver.
    Instruction,
    /// Nothing: the field becomes zero when the symbol is dead.
    Clear,
    /// Marks bits of an instruction that gives up its time slice. nvlink writes them only where all
    /// files were compiled for virtual architectures before compute_70.
    Hint,
}

/// One field: `width` bits of the source, from bit `shift` on, go to bit `bit` of the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action {
    /// The source of the bits.
    pub source: Source,
    /// First bit taken from the source.
    pub shift: u8,
    /// Number of bits.
    pub width: u8,
    /// First bit of the field in the word.
    pub bit: u8,
}

impl Action {
    /// The bit after the field's last one.
    pub const fn end(&self) -> u8 {
        self.bit + self.width
    }

    /// Whether the field holds bits of the caller's number (not an instruction, or nothing).
    pub const fn is_number(&self) -> bool {
        !matches!(self.source, Source::Instruction | Source::Clear | Source::Hint)
    }
}

/// The observed behaviour of nvlink 13.0 for records of a type in an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// Accepted, nothing written.
    NoEffect,
    /// Applied. Each bit of the value was set on its own and seen to arrive where the row says.
    Bits,
    /// Kept in the output, also when the symbol is a constant. The row's fields are from published
    /// material and not verified. Against a shared variable nvlink stops with "reference to deleted
    /// symbol".
    Kept,
    /// Kept for a function (which it alone keeps alive). nvlink crashes on any other kind of
    /// symbol: refuse.
    FunctionOnly,
    /// Replaced by the type in [`RelocDesc::unified`] in a final link without unified tables, and
    /// treated as that type. Kept unchanged with `-r` or with a uidx file.
    Rewritten,
    /// Nothing written in any link tried.
    Ignored,
    /// Dropped when the symbol is alive; the field becomes zero when the symbol was removed.
    Clears,
    /// Kept for a function; "PC relative branch address should be in the same section" for all
    /// else.
    SameSection,
    /// "unexpected NVRS" or "unexpected reloc" as soon as it has to be applied.
    Rejected,
}

/// The evidence for nvlink's behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Proof {
    /// A recorded case has a record of the type.
    Case(&'static str),
    /// `cargo xtask probe --verify` tries it with nvlink.
    Probe,
    /// No input shows the purpose of the fields.
    NotObservable,
}

/// One relocation type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelocDesc {
    /// The type's code.
    pub code: RelocType,
    /// The type's name, `R_CUDA_*` or `R_MERCURY_*`.
    pub name: &'static str,
    /// The program that fills the fields.
    pub resolver: Resolver,
    /// The fields.
    pub actions: &'static [Action],
    /// The type that it becomes in a link without unified tables.
    pub unified: Option<RelocType>,
    /// The observed behaviour of nvlink.
    pub observed: Observed,
    /// The evidence for it.
    pub proof: Proof,
    /// Bytes from the place to the end of the last field.
    span: u8,
    /// The first bit of the address that the fields are meant to hold and the one after the last,
    /// if they are meant to hold all of it.
    pub(crate) address: Option<(u8, u8)>,
    /// Bits of a bank's number that the fields hold, if one of them is for it.
    pub(crate) bank: Option<u8>,
}

impl RelocDesc {
    /// Whether the record stays in the output even if the symbol is a constant, whose offset the
    /// linker knows. Rewrite unified types before asking.
    pub const fn kept_for_constants(&self) -> bool {
        matches!(self.observed, Observed::Kept)
    }

    /// Whether the symbol has to be a function; the record then stays in the output.
    pub const fn needs_function(&self) -> bool {
        matches!(self.observed, Observed::FunctionOnly)
    }

    /// Whether the place and the symbol have to be in one section.
    pub const fn is_pc_relative(&self) -> bool {
        matches!(self.observed, Observed::SameSection)
    }

    /// Whether a field takes the number of the symbol's constant bank.
    pub fn has_bank(&self) -> bool {
        self.bank.is_some()
    }

    /// Whether a field takes the number of a texture's slot.
    pub fn has_slot(&self) -> bool {
        self.takes(Source::Slot)
    }

    fn takes(&self, source: Source) -> bool {
        self.actions.iter().any(|action| action.source == source)
    }

    /// Bytes from the place to the end of the last field.
    pub const fn span_bytes(&self) -> usize {
        self.span as usize
    }
}

/// Bytes that fields take, from the place on.
const fn span(actions: &[Action]) -> u8 {
    let (mut end, mut i) = (0, 0);
    while i < actions.len() {
        if actions[i].end() > end {
            end = actions[i].end();
        }
        i += 1;
    }
    end.div_ceil(8)
}

/// The bits of an address that fields are meant to hold, if they are meant to hold all of it.
const fn address_bits(actions: &[Action]) -> Option<(u8, u8)> {
    let (mut start, mut end, mut i) = (u8::MAX, 0, 0);
    while i < actions.len() {
        let Action { source, shift, width, .. } = actions[i];
        if matches!(source, Source::Address | Source::Slot) {
            start = if shift < start { shift } else { start };
            end = if shift + width > end { shift + width } else { end };
        }
        i += 1;
    }
    if end == 0 { None } else { Some((start, end)) }
}

/// The bits of a bank's number that fields hold, if one of them is for it.
const fn bank_bits(actions: &[Action]) -> Option<u8> {
    let (mut bits, mut i) = (None, 0);
    while i < actions.len() {
        let Action { source, shift, width, .. } = actions[i];
        if matches!(source, Source::Bank) {
            bits = match bits {
                Some(bits) if bits > shift + width => Some(bits),
                _ => Some(shift + width),
            };
        }
        i += 1;
    }
    bits
}

/// Stops the compilation if a table breaks the guarantees of the module head.
pub(crate) const fn check(table: &[RelocDesc], base: u32) {
    let mut i = 0;
    while i < table.len() {
        let row = &table[i];
        assert!(row.code.0 == base + i as u32, "codes are dense and in order");
        let mut j = 0;
        while j < i {
            assert!(!same(row.name, table[j].name), "names are unique");
            j += 1;
        }
        check_actions(row.actions);
        assert!(columns_agree(row), "resolver, fields and observation contradict each other");
        if let Some(plain) = row.unified {
            let plain = &table[(plain.0 - base) as usize];
            assert!(plain.unified.is_none() && same_fields(row.actions, plain.actions));
        }
        i += 1;
    }
}

const fn check_actions(actions: &[Action]) {
    let mut i = 0;
    while i < actions.len() {
        let action = &actions[i];
        assert!(action.width > 0 && action.end() <= WORD_BITS, "fields are inside the word");
        // Numbers are 64 bits wide; the patcher reads them, and what it clears, as such.
        assert!(
            matches!(action.source, Source::Instruction) || action.shift + action.width <= 64,
            "a field takes bits that its source has",
        );
        assert!(
            !matches!(action.source, Source::Bank) || action.shift + action.width <= 8,
            "a bank's number is one byte",
        );
        let mut j = 0;
        while j < i {
            let apart = action.bit >= actions[j].end() || actions[j].bit >= action.end();
            assert!(apart, "fields do not overlap");
            j += 1;
        }
        i += 1;
    }
}

/// The columns of a row agree with each other where nvlink does what is documented.
const fn columns_agree(row: &RelocDesc) -> bool {
    use Resolver::{Driver, Either, Finalizer, Linker, Nobody};
    let resolver = match row.observed {
        Observed::NoEffect | Observed::Rejected => matches!(row.resolver, Nobody),
        Observed::Bits => matches!(row.resolver, Linker | Either),
        Observed::Kept => matches!(row.resolver, Driver | Finalizer),
        Observed::FunctionOnly | Observed::Rewritten => matches!(row.resolver, Driver),
        Observed::Ignored => matches!(row.resolver, Linker | Nobody),
        Observed::Clears | Observed::SameSection => matches!(row.resolver, Linker),
    };
    // A type that is always refused, or never had an effect, proves nothing about its fields.
    let observable = !matches!(row.observed, Observed::Ignored | Observed::SameSection);
    let rejected = matches!(row.observed, Observed::Rejected | Observed::NoEffect);
    let proven = match row.proof {
        Proof::Case(case) => observable && !case.is_empty(),
        Proof::Probe => observable,
        Proof::NotObservable => !observable || rejected,
    };
    let fields = matches!(row.resolver, Nobody) == row.actions.is_empty();
    let rewritten = matches!(row.observed, Observed::Rewritten) == row.unified.is_some();
    resolver && fields && rewritten && proven
}

const fn same_fields(a: &[Action], b: &[Action]) -> bool {
    let mut same = a.len() == b.len();
    let mut i = 0;
    while same && i < a.len() {
        same = a[i].shift == b[i].shift && a[i].width == b[i].width && a[i].bit == b[i].bit;
        i += 1;
    }
    same
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    // From the end: all names of a table start alike.
    let mut i = a.len();
    while i > 0 {
        i -= 1;
        if a[i] != b[i] {
            return false;
        }
    }
    true
}

// Constructors of rows.

pub(crate) const fn row(
    code: u32,
    name: &'static str,
    resolver: Resolver,
    actions: &'static [Action],
    observed: Observed,
    proof: Proof,
) -> RelocDesc {
    RelocDesc {
        code: RelocType(code),
        name,
        resolver,
        actions,
        unified: None,
        observed,
        proof,
        span: span(actions),
        address: address_bits(actions),
        bank: bank_bits(actions),
    }
}

pub(crate) const fn unified(
    code: u32,
    name: &'static str,
    plain: u32,
    actions: &'static [Action],
    proof: Proof,
) -> RelocDesc {
    let row = row(code, name, Resolver::Driver, actions, Observed::Rewritten, proof);
    RelocDesc { unified: Some(RelocType(plain)), ..row }
}

const fn action(source: Source, bits: Range<u8>, bit: u8) -> Action {
    Action { source, shift: bits.start, width: bits.end - bits.start, bit }
}

/// One constructor per source: `address(0..16, 38)` puts bits 0..16 of the address at bit 38.
macro_rules! constructors {
    ($($name:ident => $source:ident),* $(,)?) => {$(
        pub(crate) const fn $name(bits: Range<u8>, bit: u8) -> Action {
            action(Source::$source, bits, bit)
        }
    )*};
}

constructors! {
    address => Address,
    part => Part,
    bank => Bank,
    slot => Slot,
    generic => Generic,
    descriptor => Descriptor,
    unified_address => Unified,
    header => Header,
    surface => Surface,
    pc_rel => PcRel,
    instruction => Instruction,
    clear => Clear,
    hint => Hint,
}
