//! Which kernels a link keeps, when it does not keep all.
//!
//! In: patterns, from the command line or from what host code refers to. Out: an answer for each
//! kernel. Kernels that are not kept are dead like functions nobody calls (docs/LINKING.md,
//! kernel selection).

use culd_cubin::Symbol;
use culd_cubin::elf::stb;
use hashbrown::HashSet;

/// Which kernels of the program are used from outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Those that `-kernels-used` names. With `-variables-used` alone that is none.
    Named {
        /// Texts of `-kernels-used`, each with `*` for any characters; matched anywhere in the
        /// mangled name.
        kernels: Vec<String>,
        /// Texts of `-variables-used`, likewise.
        variables: Vec<String>,
    },
    /// Those that host code refers to.
    Host(HostReferences),
}

/// What host objects say about the kernels and constants they refer to: patterns for whole mangled names, with
/// `*` for any characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostReferences {
    /// Names in `.nvHRKE`: kernels with external linkage.
    pub external: Vec<Vec<u8>>,
    /// Names in `.nvHRKI`: kernels with internal linkage.
    pub internal: Vec<Vec<u8>>,
    /// Names in `.nvHRCE`: constants with external linkage.
    pub constants: Vec<Vec<u8>>,
    /// Names in `.nvHRCI`: constants with internal linkage.
    pub internal_constants: Vec<Vec<u8>>,
}

impl Selection {
    /// True when kernels may be left out.
    pub(crate) fn is_active(&self) -> bool {
        *self != Selection::All
    }

    /// True when host code decides.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Selection::Host(_))
    }

    /// Ready to be asked about many names.
    pub(crate) fn matcher(&self) -> Matcher<'_> {
        let lists = match self {
            Selection::Host(host) => {
                [&host.external, &host.internal, &host.constants, &host.internal_constants]
                    .map(Vec::as_slice)
            }
            _ => [&[][..]; 4],
        };
        Matcher { selection: self, host: lists.map(Patterns::new) }
    }
}

/// A selection, with what host code names in a table: programs have tens of thousands of kernels, and as many names.
pub(crate) struct Matcher<'s> {
    selection: &'s Selection,
    /// In the order of [`HostReferences`].
    host: [Patterns<'s>; 4],
}

impl Matcher<'_> {
    /// True when host code decides.
    pub(crate) fn is_host(&self) -> bool {
        self.selection.is_host()
    }

    /// True when the kernel that `symbol` defines is kept.
    pub(crate) fn keeps(&self, symbol: &Symbol<'_>) -> bool {
        let [external, internal, ..] = &self.host;
        match self.selection {
            Selection::All => true,
            Selection::Named { kernels, .. } => {
                kernels.iter().any(|text| occurs(text.as_bytes(), symbol.name))
            }
            Selection::Host(_) if symbol.binding() == stb::LOCAL => internal.describe(symbol.name),
            Selection::Host(_) => external.describe(symbol.name),
        }
    }

    /// True when the constant of that name is used from outside.
    pub(crate) fn keeps_constant(&self, name: &[u8], local: bool) -> bool {
        let [.., constants, internal] = &self.host;
        match self.selection {
            Selection::All => true,
            Selection::Named { variables, .. } => {
                variables.iter().any(|text| occurs(text.as_bytes(), name))
            }
            Selection::Host(_) if local => internal.describe(name),
            Selection::Host(_) => constants.describe(name),
        }
    }
}

/// Patterns for whole names.
struct Patterns<'s> {
    /// Those without `*`.
    names: HashSet<&'s [u8]>,
    others: Vec<&'s [u8]>,
}

impl<'s> Patterns<'s> {
    fn new(patterns: &'s [Vec<u8>]) -> Self {
        let (others, names): (Vec<&[u8]>, Vec<&[u8]>) =
            patterns.iter().map(Vec::as_slice).partition(|pattern| pattern.contains(&b'*'));
        Patterns { names: names.into_iter().collect(), others }
    }

    fn describe(&self, name: &[u8]) -> bool {
        self.names.contains(name) || self.others.iter().any(|pattern| matches(pattern, name))
    }
}

/// True when the pieces of `text` between `*` occur in `name`, in order.
fn occurs(text: &[u8], name: &[u8]) -> bool {
    after_pieces(text.split(|&byte| byte == b'*'), name).is_some()
}

/// True when `pattern` describes all of `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else { return pattern == name };
    let (head, rest) = (&pattern[..star], &pattern[star + 1..]);
    let Some(name) = name.strip_prefix(head) else { return false };
    let mut pieces: Vec<&[u8]> = rest.split(|&byte| byte == b'*').collect();
    let tail = pieces.pop().unwrap_or_default();
    after_pieces(pieces.into_iter(), name).is_some_and(|name| name.ends_with(tail))
}

/// What follows in `name` after the first place where each piece occurs behind the one before.
fn after_pieces<'p, 'n>(
    mut pieces: impl Iterator<Item = &'p [u8]>,
    name: &'n [u8],
) -> Option<&'n [u8]> {
    pieces.try_fold(name, |name, piece| {
        let at = find(piece, name)?;
        Some(&name[at + piece.len()..])
    })
}

fn find(piece: &[u8], name: &[u8]) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    name.windows(piece.len()).position(|window| window == piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_patterns_match_anywhere() {
        let name = b"_Z6kernelPiS_";
        for text in ["", "*", "kernel", "6ker*P*_", "_Z6kernelPiS_", "**", "k*l"] {
            assert!(occurs(text.as_bytes(), name), "{text}");
        }
        for text in ["kernels", "P*kernel", "K", "S_*_", "ker?el"] {
            assert!(!occurs(text.as_bytes(), name), "{text}");
        }
    }

    #[test]
    fn host_patterns_match_whole_names() {
        let name = b"_Z6kernelPiS_";
        for text in
            ["_Z6kernelPiS_", "_Z6kernel*", "*", "*kernel*", "_Z*P*S_", "*S_", "_Z6kernelPiS_*"]
        {
            assert!(matches(text.as_bytes(), name), "{text}");
        }
        for text in ["", "_Z6kernel", "kernel*", "*kernel", "_Z6kernelPiS_*_", "*S_*S_", "_Z*K*"] {
            assert!(!matches(text.as_bytes(), name), "{text}");
        }
    }
}
