//! Derived names: a known prefix followed by another name.
//!
//! Most sections are named after a function, or after the section that they patch. Such a name is
//! found from the id of its base name, the name behind the prefix. With all names hashed: +5.4 %
//! instructions on many1000.

/// The prefix of a derived name. A string can be split at one of them at most, see
/// [`Prefix::precedes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Prefix {
    /// `.rel`, in front of the name of the patched section.
    Rel,
    /// `.rela`
    Rela,
    /// `.text.`, in front of the name of a function.
    Text,
    /// `.nv.info.`
    Info,
    /// `.nv.shared.`
    Shared,
    /// `.nv.constant0.`
    Parameters,
}

impl Prefix {
    pub(super) const ALL: [Prefix; 6] =
        [Prefix::Rel, Prefix::Rela, Prefix::Text, Prefix::Info, Prefix::Shared, Prefix::Parameters];

    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            Prefix::Rel => b".rel",
            Prefix::Rela => b".rela",
            Prefix::Text => b".text.",
            Prefix::Info => b".nv.info.",
            Prefix::Shared => b".nv.shared.",
            Prefix::Parameters => b".nv.constant0.",
        }
    }

    /// True if a base name that starts with `rest` may follow the prefix. Behind `.rel` and `.rela`
    /// that is the name of a section, but not of a relocation section; behind the others it is a
    /// name without a leading dot. So a string is split in one way only, and in two steps at most.
    pub(super) fn precedes(self, rest: NameStart) -> bool {
        match self {
            Prefix::Rel | Prefix::Rela => rest == NameStart::Section,
            _ => rest == NameStart::Other,
        }
    }

    /// The start of names with this prefix.
    pub(super) fn start(self) -> NameStart {
        match self {
            Prefix::Rel | Prefix::Rela => NameStart::Relocations,
            _ => NameStart::Section,
        }
    }
}

/// What stands in front of a name in a derived name: one prefix, or a second one behind it.
pub(crate) type DerivedPrefix = (Prefix, Option<Prefix>);

/// The start of a name, as far as [`Prefix::precedes`] distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameStart {
    /// `.`, but not `.rel`.
    Section,
    /// `.rel`
    Relocations,
    Other,
}

impl NameStart {
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            [b'.', b'r', b'e', b'l', ..] => NameStart::Relocations,
            [b'.', ..] => NameStart::Section,
            _ => NameStart::Other,
        }
    }
}

/// Splits a derived name into its prefix and its base name.
pub(super) fn split_prefix(name: &[u8]) -> Option<(Prefix, &[u8])> {
    if !name.starts_with(b".") {
        return None;
    }
    Prefix::ALL.into_iter().find_map(|front| {
        let rest = name.strip_prefix(front.bytes())?;
        front.precedes(NameStart::of(rest)).then_some((front, rest))
    })
}
