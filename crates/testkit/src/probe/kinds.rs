//! Lists of relocation types as text: `0,3-4,72-73`.
//!
//! In: numbers or text. Out: the other. Guaranteed: one form for each set.

use anyhow::{Context, Result, ensure};

/// The text of ascending types.
pub fn text(kinds: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &kind in kinds {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(kind) => *last = kind,
            _ => ranges.push((kind, kind)),
        }
    }
    let word = |(first, last): &(u32, u32)| match first == last {
        true => number(*first),
        false => format!("{}-{}", number(*first), number(*last)),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

/// Types of R_CUDA are decimal, as in most documents, others hexadecimal.
fn number(kind: u32) -> String {
    if kind < 0x1000 { kind.to_string() } else { format!("{kind:#x}") }
}

/// The types of a text.
///
/// # Errors
/// When it is no such list.
pub fn parse(text: &str) -> Result<Vec<u32>> {
    let mut kinds = Vec::new();
    for word in text.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (parse_number(first)?, parse_number(last)?);
        ensure!(first <= last && last - first < 0x1000, "'{word}' is no range of types");
        kinds.extend(first..=last);
    }
    Ok(kinds)
}

fn parse_number(word: &str) -> Result<u32> {
    let number = match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.parse(),
    };
    number.with_context(|| format!("'{word}' is no type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (kinds, form) in [
            (vec![0], "0"),
            (vec![0, 2, 3, 4, 9], "0,2-4,9"),
            (vec![118, 0xffff, 0x10002, 0x10003], "118,0xffff,0x10002-0x10003"),
        ] {
            assert_eq!(text(&kinds), form);
            assert_eq!(parse(form).expect("a list"), kinds);
        }
        for nonsense in ["", "1-", "4-3", "x", "0-0xffffffff"] {
            assert!(parse(nonsense).is_err(), "{nonsense}");
        }
    }
}
