//! The rule for make: the files on which the output depends.
//!
//! In: options, the gathered inputs. Out: the rule, and an empty one for each file, so that make
//! does not stop if a file was deleted. The words are those of lld and gcc.

use culd_text::os::OsStrExt;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::input::Inputs;
use crate::options::{CommandOptions, OptionId};

/// The rule for the output of a link. Names are the bytes of the files.
pub(super) fn rule(options: &CommandOptions, gathered: &Inputs<'_>) -> Vec<u8> {
    let output = options.output().map(Path::as_os_str).unwrap_or_default();
    let index = options.path(OptionId::Uidx).map(PathBuf::from);
    let mut seen = HashSet::new();
    let files = gathered.files.iter().chain(&index).filter(|file| seen.insert(*file));
    let files: Vec<&OsStr> = files.map(|file| file.as_os_str()).collect();
    let mut rule = [&escaped(output, Side::Target)[..], b":"].concat();
    for &file in &files {
        rule.extend([b" \\\n  ", &escaped(file, Side::Prerequisite)[..]].concat());
    }
    rule.push(b'\n');
    for &file in &files {
        rule.extend([b"\n", &escaped(file, Side::Target)[..], b":\n"].concat());
    }
    rule
}

/// The side of a rule's colon on which a name stands.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Target,
    Prerequisite,
}

/// A path as GNU make reads it. A backslash means itself, except in front of what it quotes; a
/// percent sign is special in targets only.
fn escaped(path: &OsStr, side: Side) -> Vec<u8> {
    // Make knows no text: the name of a file is its bytes.
    let mut bytes = path.as_bytes().iter().copied().peekable();
    let mut text = Vec::new();
    let mut backslashes = 0;
    while let Some(byte) = bytes.next() {
        let is_quoted =
            matches!(byte, b' ' | b'\t' | b'#' | b':') || byte == b'%' && side == Side::Target;
        match byte {
            _ if is_quoted => {
                text.extend(std::iter::repeat_n(b'\\', backslashes + 1));
                text.push(byte);
            }
            b'$' => text.extend(b"$$"),
            // A line's end would end the rule, and a terminal obeys others.
            _ if byte.is_ascii_control() => text.push(b'?'),
            // Controls of Latin 1 have two bytes.
            0xc2 if bytes.next_if(|next| (0x80..0xa0).contains(next)).is_some() => text.push(b'?'),
            _ => text.push(byte),
        }
        backslashes = if byte == b'\\' { backslashes + 1 } else { 0 };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names without controls are those that GNU make 4.3 reads.
    #[test]
    fn paths_are_escaped() {
        for (name, target, prerequisite) in [
            ("a b#c$d\ne\x1bf", r"a\ b\#c$$d?e?f", r"a\ b\#c$$d?e?f"),
            (r"a\b\\ c", r"a\b\\\\\ c", r"a\b\\\\\ c"),
            (r"a%b\%c:d", r"a\%b\\\%c\:d", r"a%b\%c\:d"),
            ("gr\u{f6}\u{9b}", "gr\u{f6}?", "gr\u{f6}?"),
        ] {
            let shown = |side| String::from_utf8(escaped(OsStr::new(name), side)).unwrap();
            assert_eq!(shown(Side::Target), target);
            assert_eq!(shown(Side::Prerequisite), prerequisite);
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_text_stay_bytes() {
        let path = OsStr::from_bytes(b"\xff a\xe9");
        assert_eq!(escaped(path, Side::Target), b"\xff\\ a\xe9");
    }
}
