//! Texts and lists of an account, one behind the other.
//!
//! In: names and lists, row by row. Out: columns, which have them by row. Guaranteed: any bytes
//! give a text.
//!
//! A link of 1,000 files has 18,000 names in its account, and 36,000 lists. As values of their own
//! they take twice the memory, and most of the time of an account.

use culd_cubin::text_of;

/// A text for each row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextColumn {
    text: String,
    /// Where the text of each row ends; a separator follows.
    ends: Vec<usize>,
}

/// Behind each text. A character that two texts shared would have it inside, which is no UTF-8.
const SEPARATOR: u8 = 0;

impl TextColumn {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of a row; empty for a row that does not exist.
    pub fn get(&self, row: usize) -> &str {
        let Some(&end) = self.ends.get(row) else { return "" };
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        &self.text[start..end]
    }

    /// The texts of these names.
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let mut copied = NameBytes::default();
        names.for_each(|name| copied.push(name));
        copied.into_texts()
    }
}

/// Names that become texts.
#[derive(Default)]
pub(super) struct NameBytes<'n> {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Names that are not copied yet.
    waiting: Vec<&'n [u8]>,
}

/// Names that are copied together. Most have left the caches; asked for one after the other, each
/// would wait for memory alone.
const TOGETHER: usize = 64;

impl<'n> NameBytes<'n> {
    /// Appends a row. The name is copied before it is read: it may be in a mapped file that another
    /// process writes into.
    pub(super) fn push(&mut self, name: &'n [u8]) {
        self.waiting.push(name);
        if self.waiting.len() == TOGETHER {
            self.copy();
        }
    }

    fn copy(&mut self) {
        let fetched = |sum: u8, name: &&[u8]| {
            sum ^ name.first().copied().unwrap_or(0) ^ name.last().copied().unwrap_or(0)
        };
        std::hint::black_box(self.waiting.iter().fold(0, fetched));
        for name in self.waiting.drain(..) {
            self.bytes.extend_from_slice(name);
            self.ends.push(self.bytes.len());
            self.bytes.push(SEPARATOR);
        }
    }

    pub(super) fn into_texts(mut self) -> TextColumn {
        self.copy();
        let NameBytes { bytes, mut ends, .. } = self;
        // Nearly all names are UTF-8: the copy becomes the text.
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => return TextColumn { text, ends },
            Err(error) => error.into_bytes(),
        };
        let (mut text, mut start) = (String::new(), 0);
        for end in &mut ends {
            text.push_str(&text_of(&bytes[start..*end]));
            start = *end + 1;
            *end = text.len();
            text.push(char::from(SEPARATOR));
        }
        TextColumn { text, ends }
    }
}

/// A list for each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListColumn<T> {
    items: Vec<T>,
    ends: Vec<u32>,
}

impl<T> Default for ListColumn<T> {
    fn default() -> Self {
        ListColumn { items: Vec::new(), ends: Vec::new() }
    }
}

impl<T> ListColumn<T> {
    /// The list of a row; empty for a row that does not exist.
    pub fn get(&self, row: usize) -> &[T] {
        let Some(&end) = self.ends.get(row) else { return &[] };
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start as usize..end as usize]
    }

    /// Appends a row.
    pub(super) fn push(&mut self, list: impl IntoIterator<Item = T>) {
        self.items.extend(list);
        self.ends.push(u32::try_from(self.items.len()).expect("fewer than 2^32 of everything"));
    }

    pub(super) fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_names_alone() {
        // The halves of a character in two names are two defects, not a character.
        let names: [&[u8]; 6] = [b"", b"a", b"\xc3", b"\xa9", "\u{e9}".as_bytes(), b"\0z\xff"];
        let many = names.repeat(TOGETHER / 4);
        for names in [&names[..], &names[..2], &names[4..5], &[], &many, &many[..TOGETHER]] {
            let texts = TextColumn::of(names.iter().copied());
            assert_eq!(texts.len(), names.len());
            for (row, name) in names.iter().enumerate() {
                assert_eq!(texts.get(row), text_of(name));
            }
            assert_eq!(texts.get(names.len()), "");
        }
    }

    #[test]
    fn lists_are_those_that_were_appended() {
        let mut lists = ListColumn::default();
        let all: [&[u32]; 4] = [&[], &[1, 2], &[], &[3]];
        all.iter().for_each(|list| lists.push(list.iter().copied()));
        assert!((0..4).all(|row| lists.get(row) == all[row]));
        assert!(lists.get(4).is_empty());
    }
}
