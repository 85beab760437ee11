//! Names as text, and text as it is printed.
//!
//! In: names of files, members, sections and symbols, which are any bytes; lines that have such
//! names in them. Out: text. Guaranteed: no I/O; printable UTF-8 stays as it is, so that a line
//! with ordinary names is the one that nvlink prints; what [`escaped`] returns has no character
//! that a terminal obeys, that ends a line, or that changes the order of others.
//!
//! A name becomes text once, where it is read ([`name`]), and a line is escaped once, where it
//! leaves the program.
//!
//! [`message`] carries bytes between `culd` and a program that it keeps running; [`os`] makes names
//! of files of bytes.
#![forbid(unsafe_code)]

pub mod message;
pub mod os;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;

/// `bytes` as text: UTF-8 as it is, any other byte as `\xe9`. The text is made of a copy, because
/// the bytes may be those of a mapped file that another process writes into.
pub fn name(name: impl AsRef<OsStr>) -> String {
    bytes(name.as_ref().as_encoded_bytes())
}

/// The same for bytes that are not a path.
pub fn bytes(bytes: &[u8]) -> String {
    // Nearly every name is UTF-8: the copy becomes the text.
    let bytes = match String::from_utf8(copied(bytes)) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A copy of `bytes` as text, if it is UTF-8. An input may change while it is read: as in [`bytes`]
/// the copy is checked.
pub fn utf8(bytes: &[u8]) -> Option<String> {
    String::from_utf8(copied(bytes)).ok()
}

/// A copy of `bytes` that is other bytes for the compiler, too.
fn copied(bytes: &[u8]) -> Vec<u8> {
    std::hint::black_box(bytes.to_vec())
}

/// `line` for a terminal, a file or a pipe: controls and what reorders or hides text become `\n`,
/// `\x1b`, `\u{202e}`. A backslash stays as it is.
pub fn escaped(line: &str) -> Cow<'_, str> {
    if is_plain(line.as_bytes()) || !line.chars().any(is_hidden) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len() + 8);
    for char in line.chars() {
        let _ = match char {
            '\n' => text.write_str("\\n"),
            '\r' => text.write_str("\\r"),
            '\t' => text.write_str("\\t"),
            _ if !is_hidden(char) => text.write_char(char),
            '\0'..='\x7f' => write!(text, "\\x{:02x}", u32::from(char)),
            _ => write!(text, "\\u{{{:x}}}", u32::from(char)),
        };
    }
    Cow::Owned(text)
}

/// Appends `escaped(&bytes(name))` to a line.
pub fn push_escaped(line: &mut Vec<u8>, name: &[u8]) {
    let start = line.len();
    line.extend_from_slice(name);
    // The copy is looked at: `name` may be in a mapped file that another process writes into.
    let copy = std::hint::black_box(&mut *line).get(start..).unwrap_or_default();
    if !is_plain(copy) {
        let text = escaped(&bytes(copy)).into_owned();
        line.truncate(start);
        line.extend_from_slice(text.as_bytes());
    }
}

/// True for printable ASCII, as nearly every line and name is. All bytes are looked at, without a
/// jump for each, so that the compiler takes many at once.
fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(true, |plain, byte| plain & (b' '..=b'~').contains(byte))
}

/// True for what a reader does not see: controls (C0, DEL, C1), ends of lines and paragraphs, marks
/// of direction, characters without width that join no letters, and tags.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_what_is_text() {
        assert_eq!(name("größe\u{1b}[2J\\"), "größe\u{1b}[2J\\");
        assert_eq!(bytes(b"caf\xe9\xff.cubin"), "caf\\xe9\\xff.cubin");
        assert_eq!(bytes(b""), "");
        // A surrogate and an overlong slash are no UTF-8.
        assert_eq!(bytes(b"\xed\xa0\x80\xc0\xaf"), "\\xed\\xa0\\x80\\xc0\\xaf");
    }

    #[test]
    fn a_line_with_ordinary_names_is_not_copied() {
        for line in
            ["", "nvlink error   : 'a b.o' ~", "größe/é/e\u{301}/日本/می\u{200c}خواهم", "a\\nb"]
        {
            assert!(matches!(escaped(line), Cow::Borrowed(same) if same == line), "{line}");
        }
    }

    #[test]
    fn what_is_not_seen_is_escaped() {
        for (line, shown) in [
            ("\u{1b}[2J\u{7}", "\\x1b[2J\\x07"),
            ("a\r\n\tb\0\u{7f}", "a\\r\\n\\tb\\x00\\x7f"),
            // CSI as one character of Latin 1.
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}cod.exe\u{2069}", "a\\u{202e}cod.exe\\u{2069}"),
            ("\u{feff}\u{e0041}\u{2028}ß", "\\u{feff}\\u{e0041}\\u{2028}ß"),
        ] {
            assert_eq!(escaped(line), shown);
        }
    }

    #[test]
    fn a_name_is_appended_as_it_is_shown() {
        let long = "x".repeat(100);
        for name in
            [&b""[..], b"_Z3foov", b"caf\xe9\n", "größe\u{202e}".as_bytes(), long.as_bytes()]
        {
            let mut line = b"sm_90 ".to_vec();
            push_escaped(&mut line, name);
            assert_eq!(line, format!("sm_90 {}", escaped(&bytes(name))).as_bytes());
        }
    }

    #[test]
    fn nothing_hidden_is_left_of_any_character() {
        for char in '\0'..=char::MAX {
            let line = char.to_string();
            let shown = escaped(&line);
            assert!(!shown.chars().any(is_hidden), "{char:?}");
            assert!(shown == line || shown.is_ascii(), "{char:?}");
        }
    }
}
