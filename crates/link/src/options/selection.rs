//! The kernels that a link keeps, if it does not keep all.
//!
//! In: patterns, from the command line or from the references of host code. Out: for each kernel
//! whether it is kept. A kernel that is not kept is dead, like a function without callers
//! (docs/LINKING.md, kernel selection).

use culd_cubin::Symbol;
use culd_cubin::elf::stb;

/// The kernels of the program that are used from outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Those that `-kernels-used` names: none with `-variables-used` alone.
    Named {
        /// Patterns of `-kernels-used`: `*` stands for any characters, and a pattern matches
        /// anywhere in the mangled name.
        kernels: Vec<Vec<u8>>,
        /// Patterns of `-variables-used`, as for kernels.
        variables: Vec<Vec<u8>>,
    },
    /// Those that host code refers to.
    Host(HostReferences),
}

/// The kernels and constants that host objects refer to: patterns for whole mangled names, where
/// `*` stands for any characters. NUL ends each: an object can have millions of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostReferences {
    /// Names in `.nvHRKE`: kernels with external linkage.
    pub external: Vec<u8>,
    /// Names in `.nvHRKI`: kernels with internal linkage.
    pub internal: Vec<u8>,
    /// Names in `.nvHRCE`: constants with external linkage.
    pub constants: Vec<u8>,
    /// Names in `.nvHRCI`: constants with internal linkage.
    pub internal_constants: Vec<u8>,
    /// They are known before the first cubin is read, as options are. nvlink creates other sections
    /// of kernels that are left out then (docs/LINKING.md, kernel selection).
    pub known_first: bool,
}

impl Selection {
    /// True if kernels may be left out.
    pub(crate) fn is_active(&self) -> bool {
        *self != Selection::All
    }

    /// True if the selection is known only when all cubins have been read.
    pub(crate) fn comes_late(&self) -> bool {
        matches!(self, Selection::Host(host) if !host.known_first)
    }

    /// The form of the selection that answers for many names.
    pub(crate) fn matcher(&self) -> Matcher<'_> {
        let lists = match self {
            Selection::Host(host) => {
                [&host.external, &host.internal, &host.constants, &host.internal_constants]
                    .map(Vec::as_slice)
            }
            _ => [&[][..]; 4],
        };
        Matcher { selection: self, host: lists.map(NamePatterns::new) }
    }
}

/// A selection with the names of host code sorted for searches. Programs have tens of thousands of
/// kernels, and as many names: without the order, each kernel would be compared with each name.
pub(crate) struct Matcher<'s> {
    selection: &'s Selection,
    /// In the order of [`HostReferences`].
    host: [NamePatterns<'s>; 4],
}

impl Matcher<'_> {
    /// As [`Selection::comes_late`].
    pub(crate) fn comes_late(&self) -> bool {
        self.selection.comes_late()
    }

    /// True if the kernel that `symbol` defines is kept.
    pub(crate) fn keeps(&self, symbol: &Symbol<'_>) -> bool {
        self.keeps_kernel(symbol.name, symbol.binding() == stb::LOCAL)
    }

    /// True if the kernel `name` is used from outside.
    pub(crate) fn keeps_kernel(&self, name: &[u8], local: bool) -> bool {
        let [external, internal, ..] = &self.host;
        match self.selection {
            Selection::All => true,
            Selection::Named { kernels, .. } => kernels.iter().any(|text| occurs(text, name)),
            Selection::Host(_) if local => internal.describe(name),
            Selection::Host(_) => external.describe(name),
        }
    }

    /// True if the constant `name` is used from outside.
    pub(crate) fn keeps_constant(&self, name: &[u8], local: bool) -> bool {
        let [.., constants, internal] = &self.host;
        match self.selection {
            Selection::All => true,
            Selection::Named { variables, .. } => variables.iter().any(|text| occurs(text, name)),
            Selection::Host(_) if local => internal.describe(name),
            Selection::Host(_) => constants.describe(name),
        }
    }
}

/// Patterns for whole names, as the lists of host code have them: `*` stands for any bytes.
#[derive(Debug)]
pub struct NamePatterns<'s> {
    /// All patterns, each ended by NUL.
    text: &'s [u8],
    /// Offsets of those without `*`, each pattern once, sorted by their bytes. A hash table would
    /// take more memory than the patterns.
    names: Vec<usize>,
    others: Vec<&'s [u8]>,
}

impl<'s> NamePatterns<'s> {
    /// Those in `text`, each ended by NUL.
    pub fn new(text: &'s [u8]) -> Self {
        let pattern = |&at: &usize| pattern_at(text, at);
        let begins = || {
            let behind = |(at, byte): (usize, &u8)| (*byte == 0).then_some(at + 1);
            let begins = std::iter::once(0).chain(text.iter().enumerate().filter_map(behind));
            begins.filter(move |at| !pattern(at).is_empty())
        };
        let mut names = Vec::new();
        names.reserve_exact(begins().count());
        names.extend(begins());
        names.sort_unstable_by_key(pattern);
        names.dedup_by_key(|at| pattern(at));
        let has_star = |at: &usize| pattern(at).contains(&b'*');
        let others = names.iter().filter(|at| has_star(at)).map(pattern).collect();
        names.retain(|at| !has_star(at));
        NamePatterns { text, names, others }
    }

    /// True if one of them describes all of `name`.
    pub fn describe(&self, name: &[u8]) -> bool {
        let found = self.names.binary_search_by(|&at| pattern_at(self.text, at).cmp(name));
        found.is_ok() || self.others.iter().any(|pattern| matches(pattern, name))
    }
}

/// The pattern at offset `at` of `text`.
fn pattern_at(text: &[u8], at: usize) -> &[u8] {
    let rest = text.get(at..).unwrap_or_default();
    rest.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// True if the pieces of `text` between `*` occur in `name`, in order.
fn occurs(text: &[u8], name: &[u8]) -> bool {
    after_pieces(text.split(|&byte| byte == b'*'), name).is_some()
}

/// True if `pattern` matches all of `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else { return pattern == name };
    let (head, rest) = (&pattern[..star], &pattern[star + 1..]);
    let Some(name) = name.strip_prefix(head) else { return false };
    let mut pieces: Vec<&[u8]> = rest.split(|&byte| byte == b'*').collect();
    let tail = pieces.pop().unwrap_or_default();
    after_pieces(pieces.into_iter(), name).is_some_and(|name| name.ends_with(tail))
}

/// The rest of `name` behind the last piece, where each piece is searched behind the one before.
/// `None` if a piece is missing.
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
    fn host_patterns_describe_whole_names() {
        let patterns = NamePatterns::new(b"k\0\0_Z1kPi\0k\0a*\0_Z1kPi\0a*\0\0last");
        assert_eq!((patterns.names.len(), patterns.others.len()), (3, 1));
        for name in ["k", "_Z1kPi", "a", "abc", "last"] {
            assert!(patterns.describe(name.as_bytes()), "{name}");
        }
        for name in ["", "K", "_Z1kP", "_Z1kPii", "ba", "las", "*"] {
            assert!(!patterns.describe(name.as_bytes()), "{name}");
        }
        assert!(!NamePatterns::new(b"").describe(b"") && !NamePatterns::new(b"\0").describe(b""));
    }

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
