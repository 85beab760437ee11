//! Quoting: words in options files (`-optf`, `@file`), elements of lists.
//!
//! Neither knows single quotes, comments or variables (docs/rules/command-line.md).

use super::UsageError;

/// The words of the text of an options file. White space separates; `\c` is `c`, also inside
/// `"..."`; every other `"` is dropped. A NUL ends the file.
pub(super) fn words(text: &str) -> Result<Vec<String>, UsageError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = text.chars().take_while(|&char| char != '\0');
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => {
                let next = chars.next().ok_or(UsageError::Stray(""))?;
                let word = word.get_or_insert_default();
                // nvlink drops a quote even here.
                word.extend(Some(next).filter(|&next| next != '"'));
            }
            ' ' | '\t' | '\r' | '\n' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if quoted { Err(UsageError::Stray("\"")) } else { Ok(words) }
}

/// The elements of a list. Commas separate except inside `"..."`; empty elements and the blanks
/// in front of one do not count.
pub(super) fn elements(list: &str) -> Result<Vec<String>, UsageError> {
    let mut elements = vec![String::new()];
    let mut quoted = false;
    let mut chars = list.chars().peekable();
    while let Some(char) = chars.next() {
        let element = elements.last_mut().expect("never empty");
        match char {
            '\\' if quoted && chars.peek() == Some(&'"') => {
                element.push_str("\\\"");
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => elements.push(String::new()),
            other => element.push(other),
        }
    }
    if quoted {
        return Err(UsageError::Stray("\""));
    }
    let elements = elements.into_iter().map(|element| element.trim_start().to_owned());
    Ok(elements.filter(|element| !element.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_separate_and_double_quotes_and_backslashes_join() {
        assert_eq!(words("a  b\n\tc\r\n").unwrap(), ["a", "b", "c"]);
        assert_eq!(words(r#""a b" c\ d e"f g"h"#).unwrap(), ["a b", "c d", "ef gh"]);
        assert_eq!(words("'a b' #c").unwrap(), ["'a", "b'", "#c"]);
        assert_eq!(words(r#""" x\"y"#).unwrap(), ["", "xy"]);
        assert_eq!(words(" \n").unwrap(), [""; 0]);
        assert_eq!(words("a\0b c").unwrap(), ["a"]);
        assert_eq!(words("\"a b"), Err(UsageError::Stray("\"")));
        assert_eq!(words("a\\"), Err(UsageError::Stray("")));
    }

    #[test]
    fn commas_separate_elements_except_in_quotes() {
        assert_eq!(elements("a,,b, c").unwrap(), ["a", "b", "c"]);
        assert_eq!(elements(r#"x"y,z"w"#).unwrap(), ["xy,zw"]);
        assert_eq!(elements(r#"a\,b"#).unwrap(), ["a\\", "b"]);
        assert_eq!(elements("").unwrap(), [""; 0]);
        assert_eq!(elements("a\"b"), Err(UsageError::Stray("\"")));
    }
}
