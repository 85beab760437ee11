//! Which attributes entries inherit, and how: one row for each attribute.

use culd_cubin::attr::{code, format};

use super::attribute::OutAttribute;
use crate::options::dialect::Dialect;

/// The effect of a callee's attribute on that of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InheritMode {
    /// Present or absent.
    Flag,
    Max,
    /// A sum up to 0xffff, which means unknown.
    Sum,
    /// The last value counts.
    Last,
    /// A set of bits.
    Union,
}

/// One inherited number: its code, how values merge, the format of a new record, and the first
/// release that propagates it.
pub(super) struct InheritRule {
    pub(super) code: u8,
    pub(super) mode: InheritMode,
    pub(super) format: u8,
    pub(super) since: u16,
}

pub(super) const fn rule(code: u8, merge: InheritMode, format: u8) -> InheritRule {
    InheritRule { code, mode: merge, format, since: 0 }
}

/// The inherited numbers, in the order for a single entry.
pub(super) const RULES: [InheritRule; 9] = [
    rule(code::CTAIDZ_USED, InheritMode::Flag, format::NONE),
    rule(code::RESERVED_SMEM_USED, InheritMode::Flag, format::NONE),
    InheritRule { since: 132, ..rule(code::ATTRIBUTE_62, InheritMode::Flag, format::NONE) },
    rule(code::VRC_CTA_INIT_COUNT, InheritMode::Max, format::BYTE),
    InheritRule { since: 130, ..rule(code::TCGEN05_1CTA_USED, InheritMode::Flag, format::NONE) },
    InheritRule { since: 130, ..rule(code::TCGEN05_2CTA_USED, InheritMode::Flag, format::NONE) },
    rule(code::NUM_BARRIERS, InheritMode::Max, format::BYTE),
    rule(code::REG_RECONFIG, InheritMode::Last, format::NONE),
    rule(code::NUM_MBARRIERS, InheritMode::Sum, format::HALF),
];

/// The number that a single entry inherits after everything else. NCCL's functions for sm_90 have
/// it.
pub(super) const LAST_RULE: InheritRule =
    InheritRule { since: 133, ..rule(code::ATTRIBUTE_68, InheritMode::Union, format::HALF) };

/// A sum that saturates at 0xffff (case attributes/many-mbarriers).
pub(super) fn add(a: u32, b: u32) -> u32 {
    a.saturating_add(b).min(0xffff)
}

pub(super) fn rule_of(code: u8) -> Option<&'static InheritRule> {
    RULES.iter().chain([&LAST_RULE]).find(|rule| rule.code == code)
}

/// True for an attribute that entries inherit. They inherit the functions of EXTERNS too.
pub(super) fn is_inherited(code: u8, dialect: &Dialect) -> bool {
    rule_of(code).is_some_and(|rule| rule.since <= dialect.toolkit)
        || matches!(code, code::AT_ENTRY_FRAGMENTS | code::ATTRIBUTE_66)
}

/// True for an attribute that changes nothing if it is inherited twice.
pub(super) fn is_idempotent(code: u8) -> bool {
    rule_of(code).is_some_and(|rule| {
        matches!(rule.mode, InheritMode::Flag | InheritMode::Max | InheritMode::Union)
    })
}

pub(super) fn position(list: &[OutAttribute<'_>], code: u8) -> Option<usize> {
    list.iter().position(|attribute| attribute.code() == code)
}
