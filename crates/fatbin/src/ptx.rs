//! PTX as `fatbinary` stores it.
//!
//! In: PTX text. Out: its version, and the text without comments and needless blanks. Guaranteed:
//! lines stay lines, so that a message about line 10 of the stored text is about line 10 of the
//! file.

use culd_cubin::text_of;

/// Major and minor number of the first `.version`, be it in a comment. The minor number is one
/// digit.
pub(crate) fn version(text: &[u8]) -> Option<(u16, u16)> {
    let at = text.windows(8).position(|window| window == b".version")?;
    let number = text.get(at + 8..)?.trim_ascii_start();
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (major, rest) = number.split_at_checked(digits)?;
    let major = text_of(major).parse().ok()?;
    match rest {
        [b'.', minor, ..] if minor.is_ascii_digit() => Some((major, (minor - b'0').into())),
        _ => None,
    }
}

/// The text as `fatbinary` stores it: comments are left out, and blanks and tabs behind white
/// space. A string ends at the first quote that has no backslash before it.
pub(crate) fn condensed(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut last = 0;
    while let Some(&byte) = rest.first() {
        let (length, keep) = match rest {
            [b'"', ..] => (string(rest), true),
            [b'/', b'/', ..] => (find(rest, b"\n").unwrap_or(rest.len()), false),
            [b'/', b'*', inside @ ..] => {
                (find(inside, b"*/").map_or(rest.len(), |at| at + 4), false)
            }
            [b' ' | b'\t', ..] => (1, !is_space(last)),
            _ => (1, true),
        };
        let (token, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        if keep {
            out.extend_from_slice(token);
        }
        last = token.last().copied().unwrap_or(byte);
        rest = behind;
    }
    out
}

/// Length of the string at the start of `text`, quotes included.
fn string(text: &[u8]) -> usize {
    let closes = |pair: &[u8]| matches!(pair, [before, b'"'] if *before != b'\\');
    text.windows(2).position(closes).map_or(text.len(), |at| at + 2)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// White space of C.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each seen with `fatbinary` 13.0.88.
    #[test]
    fn text_is_condensed_as_fatbinary_does_it() {
        let rows: &[(&[u8], &[u8])] = &[
            (b"  a", b" a"),
            (b"a  b\n \t c", b"a b\nc"),
            (b"a\t b \tc", b"a\tb c"),
            (b"a \r\n  b \n \n \nc", b"a \r\nb \n\n\nc"),
            (b"a \x0b b\x0c c", b"a \x0bb\x0cc"),
            (b"a // b\n//c\n  //d\ne// f", b"a \n\n\ne"),
            (b"a /*c*/ b/*\n*/c /*/ x */ /* y", b"a  bc  "),
            (b"\"a  // b\" /* c */ \"d\n  e\"", b"\"a  // b\"  \"d\n  e\""),
            (b"\"a \\\" // b\"  c", b"\"a \\\" // b\" c"),
            (b"\"a\\\\\"  b", b"\"a\\\\\"  b"),
            (b"'  //' a", b"' "),
            (b"a / b */ c /", b"a / b */ c /"),
        ];
        for (text, expected) in rows {
            let found = condensed(text);
            assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    }

    #[test]
    fn the_version_is_where_fatbinary_finds_it() {
        let rows = [
            ("\n .version 8.6\n", Some((8, 6))),
            ("// .version 7.0\n.version 8.6", Some((7, 0))),
            (".version8.6x", Some((8, 6))),
            (".version\n12.34", Some((12, 3))),
            (".version 8", None),
            (".version 8.", None),
            (".versions 8.6", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(version(text.as_bytes()), expected, "{text}");
        }
    }
}
