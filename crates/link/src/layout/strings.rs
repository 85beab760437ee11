//! The string tables of the output.
//!
//! In: lists of names. Out: [`StringTable`]: the offset of each name, and the bytes of any range of
//! the table. Most strings are only assembled when they are written: the table in memory would be
//! one more copy of all names.

use hashbrown::HashMap;

use crate::base::id::{IdVec, NameId};
use crate::base::name_list::NameList;
use crate::base::names::Names;
use crate::draft::Draft;

/// A string table: strings, and the offset of each name.
#[derive(Default)]
pub(crate) struct StringTable {
    listed: ListedNames,
    /// Bytes that replace the listed strings at these offsets, in order.
    replaced: Vec<(u32, Vec<u8>)>,
    /// Bytes after the listed strings.
    pub(crate) bytes: Vec<u8>,
    /// Offset of each name; 0, the offset of the empty string, for names that are not in the table.
    pub(crate) offsets: IdVec<NameId, u32>,
}

/// A list of strings, each a prefix and a name with a NUL after it. The table starts with a NUL.
#[derive(Default)]
struct ListedNames {
    names: Vec<NameId>,
    /// Indices of `names`, and the prefix of the names from there on.
    prefixes: Vec<(usize, &'static [u8])>,
    /// Indices of `names`, and the offset of the string there: of the first string, and of one
    /// about every [`STEP`] bytes.
    marks: Vec<(usize, usize)>,
    /// Size of all strings, bytes.
    size: usize,
}

/// Bytes between two marks.
const STEP: usize = 1 << 15;

impl ListedNames {
    fn new(names: usize) -> Self {
        // Without the room here and for the other tables of the layout: +0.6 % instructions and 1 %
        // more memory on many1000.
        let names = Vec::with_capacity(names);
        ListedNames { names, prefixes: Vec::new(), marks: Vec::new(), size: 1 }
    }

    /// Adds a string: `prefix` and the name with the bytes `text`.
    fn push(&mut self, prefix: &'static [u8], name: NameId, text: &[u8]) {
        if self.marks.last().is_none_or(|mark| mark.1 + STEP <= self.size) {
            self.marks.push((self.names.len(), self.size));
        }
        if self.prefixes.last().is_none_or(|last| last.1 != prefix) {
            self.prefixes.push((self.names.len(), prefix));
        }
        self.names.push(name);
        self.size += prefix.len() + text.len() + 1;
    }

    /// Writes the strings to the part of the table that `part` is.
    fn write(&self, names: &Names<'_>, part: &mut TablePart<'_>) {
        let passed = self.marks.partition_point(|mark| mark.1 <= part.skip);
        let place = match passed.checked_sub(1) {
            Some(mark) => {
                let (place, at) = self.marks[mark];
                part.skip -= at;
                place
            }
            None => {
                if self.size > 0 {
                    part.put_nul();
                }
                0
            }
        };
        let behind = self.prefixes.partition_point(|prefix| prefix.0 <= place);
        let (passed, mut later) = self.prefixes.split_at(behind);
        let mut prefix = passed.last().map_or(&b""[..], |passed| passed.1);
        for (place, &name) in (place..).zip(&self.names[place..]) {
            if part.rest.is_empty() {
                return;
            }
            if let [(from, next), rest @ ..] = later
                && *from == place
            {
                (prefix, later) = (next, rest);
            }
            if !prefix.is_empty() {
                part.put(prefix);
            }
            part.put(names.get(name));
            part.put_nul();
        }
    }
}

/// A part of a table that is written from its start to its end.
struct TablePart<'o> {
    /// Bytes that come before the part.
    skip: usize,
    /// The bytes of the part that are still to be written.
    rest: &'o mut [u8],
}

impl TablePart<'_> {
    /// Adds the next bytes of the table.
    fn put(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let bytes = &bytes[skipped..];
        let size = bytes.len().min(self.rest.len());
        let (out, rest) = std::mem::take(&mut self.rest).split_at_mut(size);
        out.copy_from_slice(&bytes[..size]);
        self.rest = rest;
    }

    /// Adds the end of a string.
    fn put_nul(&mut self) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if let Some((nul, rest)) = std::mem::take(&mut self.rest).split_first_mut() {
            *nul = 0;
            self.rest = rest;
        }
    }
}

/// Copies the overlap of `text`, which starts at byte `at` of the table, with `out`, which starts
/// at byte `first`.
fn copy_overlap(text: &[u8], at: usize, first: usize, out: &mut [u8]) {
    let text = text.get(first.saturating_sub(at)..).unwrap_or_default();
    let out = out.get_mut(at.saturating_sub(first)..).unwrap_or_default();
    let size = text.len().min(out.len());
    out[..size].copy_from_slice(&text[..size]);
}

impl StringTable {
    /// A table of the names of `lists`, one list after the other, each name once.
    pub(crate) fn new(draft: &Draft<'_>, lists: &[&NameList]) -> Self {
        let names = || lists.iter().flat_map(|list| list.iter());
        let mut offsets = IdVec::filled(0, draft.names.len());
        let mut listed = ListedNames::new(lists.iter().map(|list| list.len()).sum());
        for name in names() {
            if offsets[name] == 0 {
                offsets[name] = listed.size as u32;
                listed.push(b"", name, draft.names.get(name));
            }
        }
        StringTable { listed, replaced: Vec::new(), bytes: Vec::new(), offsets }
    }

    /// Reserves capacity for `more` strings.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.listed.names.reserve(more);
    }

    /// Appends the string of `prefix` and `name`; returns its offset.
    pub(crate) fn append(&mut self, prefix: &'static [u8], name: NameId, names: &Names<'_>) -> u32 {
        let (at, text) = (self.len() as u32, names.get(name));
        match self.bytes.is_empty() {
            true => self.listed.push(prefix, name, text),
            false => {
                self.append_text(prefix);
                self.bytes.pop();
                self.append_text(text);
            }
        }
        at
    }

    /// As [`StringTable::append`], for a string without a [`NameId`].
    pub(crate) fn append_text(&mut self, text: &[u8]) -> u32 {
        let at = self.len() as u32;
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        at
    }

    /// Sets the bytes that replace strings: offset and bytes, in order.
    pub(crate) fn replace(&mut self, replaced: Vec<(u32, Vec<u8>)>) {
        self.replaced = replaced;
    }

    /// A table of names in the order in which a file uses them, each string once. Each pair has the
    /// name to look up and the name to write.
    pub(crate) fn collected(
        draft: &Draft<'_>,
        names: impl Iterator<Item = (NameId, NameId)>,
    ) -> Self {
        let mut bytes = vec![0];
        let mut offsets = IdVec::filled(0, draft.names.len());
        let mut written: HashMap<NameId, u32> = HashMap::new();
        for (name, own) in names {
            let text = draft.names.get(own);
            if text.is_empty() {
                continue;
            }
            let at = *written.entry(own).or_insert_with(|| {
                let at = bytes.len() as u32;
                bytes.extend_from_slice(text);
                bytes.push(0);
                at
            });
            offsets[name] = at;
        }
        StringTable { listed: ListedNames::default(), replaced: Vec::new(), bytes, offsets }
    }

    /// Bytes of the table.
    pub(crate) fn len(&self) -> usize {
        self.listed.size + self.bytes.len()
    }

    /// Where `name` starts, bytes; 0 for names that are not in the table.
    pub(crate) fn offset(&self, name: NameId) -> u32 {
        self.offsets[name]
    }

    /// Writes the bytes from `first` on.
    pub(crate) fn write(&self, names: &Names<'_>, first: usize, out: &mut [u8]) {
        let mut part = TablePart { skip: first, rest: &mut *out };
        self.listed.write(names, &mut part);
        part.put(&self.bytes);
        let end_of = |replaced: &(u32, Vec<u8>)| replaced.0 as usize + replaced.1.len();
        let passed = self.replaced.partition_point(|replaced| end_of(replaced) <= first);
        let end = first + out.len();
        for (at, text) in self.replaced[passed..].iter().take_while(|next| (next.0 as usize) < end)
        {
            copy_overlap(text, *at as usize, first, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_table_is_written_as_the_whole_is() {
        let mut names = Names::new();
        let mut listed = ListedNames::new(3);
        let mut whole = vec![0];
        // Longer than the distance of two marks.
        let long = vec![b'x'; 2 * STEP];
        let texts = [
            (&b""[..], &b"abc"[..]),
            (b"", b""),
            (b".f", b"d"),
            (b".f", long.as_slice()),
            (b"", b"ef"),
            (b".g", b"h"),
        ];
        for (prefix, text) in texts {
            let name = names.join(&[text]);
            assert_eq!(listed.size, whole.len());
            listed.push(prefix, name, text);
            [prefix, text, &[0]].into_iter().for_each(|part| whole.extend_from_slice(part));
        }
        let bytes = b"behind\0".to_vec();
        whole.extend_from_slice(&bytes);
        let mut strings =
            StringTable { listed, replaced: Vec::new(), bytes, offsets: IdVec::new() };
        whole[2..4].copy_from_slice(b"y\0");
        let far = whole.len() - 11;
        whole[far..far + 2].copy_from_slice(b"zz");
        strings.replace(vec![(2, b"y\0".to_vec()), (far as u32, b"zz".to_vec())]);
        assert_eq!(strings.len(), whole.len());
        for first in (0..12).chain(whole.len() - 14..whole.len()) {
            for end in (first..whole.len().min(first + 9)).chain([whole.len()]) {
                let mut part = vec![1; end - first];
                strings.write(&names, first, &mut part);
                assert_eq!(part, whole[first..end], "{first}..{end}");
            }
        }
    }
}
