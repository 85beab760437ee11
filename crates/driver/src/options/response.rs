//! Quoting: words in options files (`-optf`, `@file`), elements of lists.
//!
//! Neither knows single quotes, comments or variables (docs/rules/command-line.md). Both look at
//! bytes, because a path may have any, and stop at the number of words that a command line may
//! still have.

use culd_text::os::{OsStrExt, OsStringExt};
use std::ffi::{OsStr, OsString};

use super::UsageError;

/// The words of the text of an options file. White space separates; `\c` is `c`, also inside
/// `"..."`; every other `"` is dropped. A NUL ends the file.
pub(crate) fn words(text: &[u8], most: usize) -> Result<Vec<OsString>, UsageError> {
    let mut bytes = text.iter().copied().take_while(|&byte| byte != 0).fuse();
    let mut words = Vec::new();
    while let Some(word) = word(&mut bytes)? {
        if words.len() == most {
            return Err(UsageError::TooManyWords);
        }
        words.push(word);
    }
    Ok(words)
}

fn word(bytes: &mut impl Iterator<Item = u8>) -> Result<Option<OsString>, UsageError> {
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            b'\\' => {
                let next = bytes.next().ok_or(UsageError::Stray(""))?;
                let word = word.get_or_insert_default();
                // nvlink drops a quote even here.
                word.extend(Some(next).filter(|&next| next != b'"'));
            }
            b' ' | b'\t' | b'\r' | b'\n' if !quoted => {
                if word.is_some() {
                    break;
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    if quoted { Err(UsageError::Stray("\"")) } else { Ok(word.map(OsString::from_vec)) }
}

/// The words in an element of a list for a compiler: blanks separate, `\c` is `c`. A backslash at
/// the end is an error.
pub(super) fn split(element: &OsStr) -> Result<Vec<OsString>, UsageError> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    let mut bytes = element.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.push(bytes.next().ok_or(UsageError::Stray(""))?),
            b' ' => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// `element` without the blanks around it.
fn trimmed(element: &[u8]) -> &[u8] {
    let element = element.trim_ascii_start();
    let last = element.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
    &element[..last.map_or(0, |last| last + 1)]
}

/// The elements of a list. Commas separate except inside `"..."`; empty elements and the blanks
/// around one do not count.
pub(crate) fn elements(list: &OsStr, most: usize) -> Result<Vec<OsString>, UsageError> {
    let mut elements = Vec::new();
    let mut element = Vec::new();
    let mut quoted = false;
    let mut bytes = list.as_bytes().iter().copied().peekable();
    loop {
        match bytes.next() {
            Some(b'\\') if quoted && bytes.peek() == Some(&b'"') => {
                element.extend_from_slice(b"\\\"");
                bytes.next();
            }
            Some(b'"') => quoted = !quoted,
            None | Some(b',') if !quoted => {
                if elements.len() == most {
                    return Err(UsageError::TooManyWords);
                }
                let full = OsStr::from_bytes(trimmed(&element));
                elements.extend((!full.is_empty()).then(|| full.to_owned()));
                element.clear();
                if bytes.peek().is_none() {
                    return Ok(elements);
                }
            }
            None => return Err(UsageError::Stray("\"")),
            Some(other) => element.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: impl AsRef<[u8]>) -> Result<Vec<OsString>, UsageError> {
        words(text.as_ref(), 3)
    }

    #[test]
    fn blanks_separate_and_double_quotes_and_backslashes_join() {
        assert_eq!(all("a  b\n\tc\r\n").unwrap(), ["a", "b", "c"]);
        assert_eq!(all(r#""a b" c\ d e"f g"h"#).unwrap(), ["a b", "c d", "ef gh"]);
        assert_eq!(all("'a b' #c").unwrap(), ["'a", "b'", "#c"]);
        assert_eq!(all(r#""" x\"y"#).unwrap(), ["", "xy"]);
        assert_eq!(all(" \n").unwrap(), [""; 0]);
        assert_eq!(all("a\0b c").unwrap(), ["a"]);
        assert_eq!(all("\"a b"), Err(UsageError::Stray("\"")));
        assert_eq!(all("a\\"), Err(UsageError::Stray("")));
        assert_eq!(all("a b c d"), Err(UsageError::TooManyWords));
        assert_eq!(
            all(b"caf\xe9 \xff").unwrap(),
            [&b"caf\xe9"[..], b"\xff"].map(OsStr::from_bytes)
        );
    }

    #[test]
    fn blanks_separate_words_for_a_compiler() {
        let split = |element: &str| split(element.as_ref());
        assert_eq!(split(r"  -a=1 -b\ c\\ 'd' ").unwrap(), ["-a=1", "-b c\\", "'d'"]);
        assert_eq!(split("-a\t-b").unwrap(), ["-a\t-b"]);
        assert_eq!(split(" ").unwrap(), [""; 0]);
        assert_eq!(split(r"-a -b\"), Err(UsageError::Stray("")));
    }

    #[test]
    fn commas_separate_elements_except_in_quotes() {
        let elements = |list: &str| elements(list.as_ref(), 3);
        assert_eq!(elements("a,,b, c").unwrap(), ["a", "b", "c"]);
        assert_eq!(elements(r#"x"y,z"w"#).unwrap(), ["xy,zw"]);
        assert_eq!(elements(r#"a\,b"#).unwrap(), ["a\\", "b"]);
        assert_eq!(elements("").unwrap(), [""; 0]);
        assert_eq!(elements("a\"b"), Err(UsageError::Stray("\"")));
        assert_eq!(elements("a,b,c,d"), Err(UsageError::TooManyWords));
    }
}
