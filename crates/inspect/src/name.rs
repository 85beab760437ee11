//! Names of sections and symbols as words of a line.
//!
//! In: the names of a table, which may repeat. Out: one distinct word per entry. Guaranteed: a
//! word has no blank, quote (but around the whole name), `=` or `@` (but before its ordinal), and
//! reads back as the same bytes.
//!
//! ```text
//! foo          the first entry called foo
//! foo@2        the second one
//! "a b\x01"@3  the third one called so; escapes: \" \\ \xNN
//! #17          entry 17, which does not exist or has no use for its name
//! *UND*        a place that is no section
//! ```

use std::collections::HashMap;
use std::fmt::Write;

/// `name` as a word: bare where that is unambiguous, else quoted.
pub fn quote(name: &[u8]) -> String {
    let bare = |&byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'@' | b'=' | b'\\');
    let marked = matches!(name.first(), None | Some(b'#' | b'*'));
    if !marked && name.iter().all(bare) {
        return String::from_utf8_lossy(name).into_owned();
    }
    let mut out = String::with_capacity(name.len() + 2);
    out.push('"');
    for &byte in name {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write!(out, "\\x{byte:02x}").unwrap_or_default(),
        }
    }
    out.push('"');
    out
}

/// The bytes that [`quote`] wrote as `word`; `None` when it is no such word.
pub fn unquote(word: &str) -> Option<Vec<u8>> {
    let Some(inner) = word.strip_prefix('"') else {
        return (!word.is_empty()).then(|| word.as_bytes().to_vec());
    };
    let inner = inner.strip_suffix('"')?.as_bytes();
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(&byte) = inner.get(at) {
        at += 1;
        match (byte, inner.get(at)) {
            (b'"', _) => return None,
            (b'\\', Some(b'x')) => {
                let digits = std::str::from_utf8(inner.get(at + 1..at + 3)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
            }
            (b'\\', Some(&escaped @ (b'"' | b'\\'))) => {
                out.push(escaped);
                at += 1;
            }
            (b'\\', _) => return None,
            _ => out.push(byte),
        }
    }
    Some(out)
}

/// The words of `line`: parts between blanks, where quotes hold a part together. `None` when a
/// quote does not end.
pub fn split(line: &str) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    let mut start = None;
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        if !quoted && byte.is_ascii_whitespace() {
            words.extend(start.take().and_then(|start| line.get(start..at)));
            continue;
        }
        start = start.or(Some(at));
        quoted ^= byte == b'"' && !escaped;
        escaped = quoted && byte == b'\\' && !escaped;
    }
    words.extend(start.and_then(|start| line.get(start..)));
    (!quoted).then_some(words)
}

/// One distinct word per name: repeated names get their ordinal.
pub fn distinct<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Vec<String> {
    let mut seen: HashMap<&[u8], u32> = HashMap::new();
    let word = |name| {
        let count = seen.entry(name).or_insert(0);
        *count += 1;
        match *count {
            1 => quote(name),
            n => format!("{}@{n}", quote(name)),
        }
    };
    names.into_iter().map(word).collect()
}

/// The name in a word of [`distinct`], without its ordinal.
pub fn base(word: &str) -> Option<Vec<u8>> {
    let quoted = word.rfind('"').map_or(0, |end| end + 1);
    let tail = word.get(quoted..)?;
    match tail.find('@') {
        Some(at) => unquote(word.get(..quoted + at)?),
        None => unquote(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_whatever_they_hold() {
        let names: [&[u8]; 9] = [
            b"",
            b"foo",
            b"#ii",
            b"a b",
            b"a@2",
            b"x=\"y\"\\",
            b"\xff\x01",
            b"$str",
            b".text._Z1kPi",
        ];
        for name in names {
            assert_eq!(unquote(&quote(name)).as_deref(), Some(name));
        }
        let twice = names.iter().chain(&names).copied();
        let words = distinct(twice.clone());
        for (word, name) in words.iter().zip(twice) {
            assert_eq!(base(word).as_deref(), Some(name), "{word}");
        }
        assert_eq!(words[10], "foo@2");
        assert_eq!(words[9], "\"\"@2");
    }

    #[test]
    fn lines_split_at_blanks_outside_quotes() {
        let words = split("  a  \"b c\"@2 k=\"\\\" \\\\\" d").unwrap();
        assert_eq!(words, ["a", "\"b c\"@2", "k=\"\\\" \\\\\"", "d"]);
        assert_eq!(split("a \"b"), None);
        assert_eq!(split(" ").unwrap(), [""; 0]);
    }

    #[test]
    fn broken_quotes_are_refused() {
        for word in ["", "\"", "\"a", "\"a\\\"", "\"\\x4\"", "\"\\q\"", "\"a\"b\""] {
            assert_eq!(unquote(word), None, "{word}");
        }
    }
}
