//! The string tables of the output.
//!
//! In: lists of names. Out: [`Strings`]: where each name starts, and the bytes, piece by piece. Most names are put together
//! when they are written: a table of them would be one more copy of all names.

use hashbrown::HashMap;

use crate::draft::Draft;
use crate::id::{IdVec, NameId};
use crate::names::{NameList, Names};

/// A string table: the bytes, and where each name starts.
#[derive(Default)]
pub(crate) struct Strings {
    listed: Listed,
    /// What stands at these places, bytes, instead of the names that are listed; in order.
    replaced: Vec<(u32, Vec<u8>)>,
    /// What is behind the names that are listed.
    pub(crate) bytes: Vec<u8>,
    /// 0, where the NUL is, for names that are not in the table.
    pub(crate) offsets: IdVec<NameId, u32>,
}

/// A NUL, and names with one behind each of them.
#[derive(Default)]
struct Listed {
    names: Vec<NameId>,
    /// Places in `names`, and what is in front of the names from there on.
    fronts: Vec<(usize, &'static [u8])>,
    /// Places in `names`, and where the name there starts: the first, and one every [`STEP`] bytes or so.
    marks: Vec<(usize, usize)>,
    /// Bytes.
    size: usize,
}

/// Bytes between two marks.
const STEP: usize = 1 << 15;

impl Listed {
    fn new(names: usize) -> Self {
        let names = Vec::with_capacity(names);
        Listed { names, fronts: Vec::new(), marks: Vec::new(), size: 1 }
    }

    /// Adds `front` and the name whose bytes are `text`.
    fn push(&mut self, front: &'static [u8], name: NameId, text: &[u8]) {
        if self.marks.last().is_none_or(|mark| mark.1 + STEP <= self.size) {
            self.marks.push((self.names.len(), self.size));
        }
        // Most are the very same. To compare the bytes of two that are empty takes the processor 80 ns.
        let is_same = |last: &(usize, &'static [u8])| std::ptr::eq(last.1, front);
        if !self.fronts.last().is_some_and(is_same) {
            self.fronts.push((self.names.len(), front));
        }
        self.names.push(name);
        self.size += front.len() + text.len() + 1;
    }

    /// Writes what is from byte `first` on.
    fn write(&self, names: &Names<'_>, first: usize, out: &mut [u8]) {
        let mark = self.marks.partition_point(|mark| mark.1 <= first).saturating_sub(1);
        let Some(&(place, mut at)) = self.marks.get(mark) else { return };
        let behind = self.fronts.partition_point(|front| front.0 <= place);
        let (passed, mut later) = self.fronts.split_at(behind);
        let mut front = passed.last().map_or(&b""[..], |passed| passed.1);
        for (place, &name) in (place..).zip(&self.names[place..]) {
            if at >= first + out.len() {
                return;
            }
            if let [(from, next), rest @ ..] = later
                && *from == place
            {
                (front, later) = (next, rest);
            }
            for text in [front, names.get(name)] {
                copy_overlap(text, at, first, out);
                at += text.len();
            }
            at += 1;
        }
    }
}

/// Copies to `out`, which starts at byte `first`, what it has of `text`, which starts at byte `at`.
fn copy_overlap(text: &[u8], at: usize, first: usize, out: &mut [u8]) {
    let text = text.get(first.saturating_sub(at)..).unwrap_or_default();
    let out = out.get_mut(at.saturating_sub(first)..).unwrap_or_default();
    let size = text.len().min(out.len());
    out[..size].copy_from_slice(&text[..size]);
}

impl Strings {
    /// Lists one after the other, each name once; the table starts with a NUL.
    pub(crate) fn new(draft: &Draft<'_>, lists: &[&NameList]) -> Self {
        let names = || lists.iter().flat_map(|list| list.iter());
        let mut offsets = IdVec::filled(0, draft.names.len());
        let mut listed = Listed::new(lists.iter().map(|list| list.len()).sum());
        for name in names() {
            if offsets[name] == 0 {
                offsets[name] = listed.size as u32;
                listed.push(b"", name, draft.names.get(name));
            }
        }
        Strings { listed, replaced: Vec::new(), bytes: Vec::new(), offsets }
    }

    /// Makes room for `more` strings.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.listed.names.reserve(more);
    }

    /// Adds `front` and `name` as one more string; where it starts, bytes.
    pub(crate) fn append(&mut self, front: &'static [u8], name: NameId, names: &Names<'_>) -> u32 {
        let (at, text) = (self.len() as u32, names.get(name));
        match self.bytes.is_empty() {
            true => self.listed.push(front, name, text),
            false => {
                self.append_text(front);
                self.bytes.pop();
                self.append_text(text);
            }
        }
        at
    }

    /// The same for a string that no list has.
    pub(crate) fn append_text(&mut self, text: &[u8]) -> u32 {
        let at = self.len() as u32;
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        at
    }

    /// Puts these bytes in the places of names, in order.
    pub(crate) fn replace(&mut self, replaced: Vec<(u32, Vec<u8>)>) {
        self.replaced = replaced;
    }

    /// Names in the order in which a file uses them, each once: what they are looked up by, and what is written.
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
        Strings { listed: Listed::default(), replaced: Vec::new(), bytes, offsets }
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
        out.fill(0);
        self.listed.write(names, first, out);
        let end_of = |replaced: &(u32, Vec<u8>)| replaced.0 as usize + replaced.1.len();
        let passed = self.replaced.partition_point(|replaced| end_of(replaced) <= first);
        let end = first + out.len();
        for (at, text) in self.replaced[passed..].iter().take_while(|next| (next.0 as usize) < end)
        {
            copy_overlap(text, *at as usize, first, out);
        }
        copy_overlap(&self.bytes, self.listed.size, first, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Hasher;

    #[test]
    fn any_part_of_a_table_is_written_as_the_whole_is() {
        let mut names = Names::new(Hasher::default());
        let mut listed = Listed::new(3);
        let mut whole = vec![0];
        // Longer than what is between two marks.
        let long = vec![b'x'; 2 * STEP];
        let texts = [
            (&b""[..], &b"abc"[..]),
            (b"", b""),
            (b".f", b"d"),
            (b".f", long.as_slice()),
            (b"", b"ef"),
            (b".g", b"h"),
        ];
        for (front, text) in texts {
            let name = names.join(&[text]);
            assert_eq!(listed.size, whole.len());
            listed.push(front, name, text);
            [front, text, &[0]].into_iter().for_each(|part| whole.extend_from_slice(part));
        }
        let bytes = b"behind\0".to_vec();
        whole.extend_from_slice(&bytes);
        let mut strings = Strings { listed, replaced: Vec::new(), bytes, offsets: IdVec::new() };
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
