//! The string tables of the output.
//!
//! In: lists of names. Out: [`Strings`]: where each name starts, and the bytes, piece by piece. The names of a file without
//! Mercury are put together when they are written: a table of them would be one more copy of all names.

use culd_cubin::arch::Flavour;
use hashbrown::HashMap;

use crate::draft::Draft;
use crate::id::{IdVec, NameId};
use crate::names::{NameList, Names};

/// A string table: the bytes, and where each name starts.
pub(crate) struct Strings {
    listed: Listed,
    /// What is behind the names that are listed.
    pub(crate) bytes: Vec<u8>,
    /// 0, where the NUL is, for names that are not in the table.
    pub(crate) offsets: IdVec<NameId, u32>,
}

/// A NUL, and names with one behind each of them.
#[derive(Default)]
struct Listed {
    names: Vec<NameId>,
    /// Places in `names`, and where the name there starts: the first, and one every [`STEP`] bytes or so.
    marks: Vec<(usize, usize)>,
    /// Bytes.
    size: usize,
}

/// Bytes between two marks.
const STEP: usize = 1 << 15;

impl Listed {
    fn new(names: usize) -> Self {
        Listed { names: Vec::with_capacity(names), marks: Vec::new(), size: 1 }
    }

    fn push(&mut self, name: NameId, text: &[u8]) {
        if self.marks.last().is_none_or(|mark| mark.1 + STEP <= self.size) {
            self.marks.push((self.names.len(), self.size));
        }
        self.names.push(name);
        self.size += text.len() + 1;
    }

    /// Writes what is from byte `first` on.
    fn write(&self, names: &Names<'_>, first: usize, out: &mut [u8]) {
        let mark = self.marks.partition_point(|mark| mark.1 <= first).saturating_sub(1);
        let Some(&(place, mut at)) = self.marks.get(mark) else { return };
        for &name in &self.names[place..] {
            if at >= first + out.len() {
                return;
            }
            let text = names.get(name);
            copy_overlap(text, at, first, out);
            at += text.len() + 1;
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
                listed.push(name, draft.names.get(name));
            }
        }
        let strings = Strings { listed, bytes: Vec::new(), offsets };
        match draft.flavour {
            Flavour::Classic => strings,
            Flavour::Mercury => strings.put_together(&draft.names),
        }
    }

    /// The same with all names in `bytes`: those of the second half follow, which are longer, and some are changed.
    fn put_together(self, names: &Names<'_>) -> Self {
        let mut bytes = Vec::with_capacity(4 * self.listed.size);
        bytes.resize(self.listed.size, 0);
        self.listed.write(names, 0, &mut bytes);
        Strings { listed: Listed::default(), bytes, ..self }
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
        Strings { listed: Listed::default(), bytes, offsets }
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
        copy_overlap(&self.bytes, self.listed.size, first, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_table_is_written_as_the_whole_is() {
        let mut names = Names::new();
        let mut listed = Listed::new(3);
        let mut whole = vec![0];
        // Longer than what is between two marks.
        let long = vec![b'x'; 2 * STEP];
        for text in [&b"abc"[..], b"", b"d", long.as_slice(), b"ef"] {
            let name = names.join(&[text]);
            assert_eq!(listed.size, whole.len());
            listed.push(name, text);
            whole.extend_from_slice(text);
            whole.push(0);
        }
        let bytes = b"behind\0".to_vec();
        whole.extend_from_slice(&bytes);
        let strings = Strings { listed, bytes, offsets: IdVec::new() };
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
