//! The `key=value` words of a line.

use culd_inspect::{name, words};

use super::{Error, error};

/// The keys of one line.
#[derive(Debug, Default)]
pub(super) struct Keys<'t> {
    pub(super) line: usize,
    pairs: Vec<(&'t str, &'t str)>,
}

impl<'t> Keys<'t> {
    pub(super) fn parse(line: usize, words: &[&'t str]) -> Result<Self, Error> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return error(line, format!("expected key=value, found '{word}'"));
            };
            if pairs.iter().any(|pair| pair.0 == key) {
                return error(line, format!("key '{key}' stands twice"));
            }
            pairs.push((key, value));
        }
        Ok(Keys { line, pairs })
    }

    /// The value of `key` as it stands.
    pub(super) fn get(&self, key: &str) -> Option<&'t str> {
        self.pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    /// The value of `key` as read by `read`, which gives `None` when it is not `expected`.
    pub(super) fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'t str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => error(self.line, format!("{key}: expected {expected}, found '{value}'")),
        }
    }

    /// A number that fits `T`.
    pub(super) fn number<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, Error> {
        let bits = 8 * size_of::<T>();
        self.read(key, &format!("a number of {bits} bits"), |value| {
            T::try_from(words::number(value)?).ok()
        })
    }

    /// A quoted text.
    pub(super) fn text(&self, key: &str) -> Result<String, Error> {
        let read = |value| String::from_utf8(name::unquote(value)?).ok();
        Ok(self.read(key, "a text in quotes", read)?.unwrap_or_default())
    }

    /// All keys must be in `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Error> {
        match self.pairs.iter().find(|pair| !known.contains(&pair.0)) {
            Some((key, _)) => {
                let known = known.join(", ");
                error(self.line, format!("unknown key '{key}'; known here: {known}"))
            }
            None => Ok(()),
        }
    }
}

/// Hexadecimal digits as bytes.
pub(super) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u8::from_str_radix(digits, 16).ok()
    };
    pairs.map(byte).collect()
}
