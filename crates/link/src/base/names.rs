//! Names as dense ids: each distinct string is hashed once and is a number from then on.
//!
//! Most section names are a known prefix followed by the name of a function or of another section.
//! Such a derived name is not hashed: it is found from the id of its base name
//! (docs/PERFORMANCE.md, names and graphs). Guaranteed: equal strings have equal ids, except for
//! ids made by [`Names::intern_separate`].

use std::hash::BuildHasher;

use culd_cubin::text_of;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::derived_names::{DerivedPrefix, NameStart, Prefix, split_prefix};
use super::id::{IdVec, NameId};

/// The place of a name's bytes.
#[derive(Clone, Copy)]
pub(super) enum NameText<'d> {
    Input(&'d [u8]),
    /// In [`Names::made`].
    Made {
        start: u32,
        len: u32,
    },
}

/// The links between a name and the names derived from it.
#[derive(Clone, Copy)]
struct NameLink {
    /// The last name added that is derived from this one.
    first_derived: Option<NameId>,
    /// The next name derived from the same base name.
    next: Option<NameId>,
    /// The prefix of this name, if it is a derived name.
    prefix: Option<Prefix>,
    /// The start of this name.
    start: NameStart,
}

/// All names of a link.
pub(crate) struct Names<'d> {
    hasher: DefaultHashBuilder,
    /// Names that are not derived.
    table: HashTable<NameId>,
    texts: IdVec<NameId, NameText<'d>>,
    links: IdVec<NameId, NameLink>,
    /// Bytes of names that are in no input.
    made: Vec<u8>,
}

impl<'d> Names<'d> {
    pub(crate) fn new() -> Self {
        Names {
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            texts: IdVec::new(),
            links: IdVec::new(),
            made: Vec::new(),
        }
    }

    /// Makes room for `more` names, and for `derived` names with prefixes.
    pub(crate) fn reserve(&mut self, more: usize, derived: usize) {
        /// Bytes that are made for a derived name; most are in an input.
        const MADE: usize = 16;
        let Names { hasher, table, texts, links, made } = self;
        table.reserve(more, |&id| hasher.hash_one(bytes_of(texts[id], made)));
        texts.reserve(more + derived);
        links.reserve(more + derived);
        made.reserve(MADE * derived);
    }

    /// Makes room for `more` derived names.
    pub(crate) fn reserve_derived(&mut self, more: usize) {
        self.texts.reserve(more);
        self.links.reserve(more);
    }

    /// The id of `name`.
    pub(crate) fn intern(&mut self, name: &'d [u8]) -> NameId {
        if let Some((front, rest)) = split_prefix(name) {
            let rest = self.intern(rest);
            return self.with_prefix(front, rest, Some(name));
        }
        let hash = self.hasher.hash_one(name);
        match self.find(hash, name) {
            Some(id) => id,
            None => self.insert(hash, NameText::Input(name), NameStart::of(name)),
        }
    }

    /// The id of `name`, which most likely is `front` followed by the name `id`.
    pub(crate) fn intern_with_prefix(
        &mut self,
        name: &'d [u8],
        front: Prefix,
        id: NameId,
    ) -> NameId {
        let rest = self.get(id);
        let likely = name.len() == front.bytes().len() + rest.len() && name.ends_with(rest);
        match likely && name.starts_with(front.bytes()) {
            true => self.derived_input(name, front, id),
            false => self.intern(name),
        }
    }

    /// The id of `name`, which is `front` followed by the name `id`.
    pub(crate) fn derived_input(&mut self, name: &'d [u8], front: Prefix, id: NameId) -> NameId {
        debug_assert_eq!(name, [front.bytes(), self.get(id)].concat());
        match front.precedes(self.links[id].start) {
            true => self.with_prefix(front, id, Some(name)),
            false => self.intern(name),
        }
    }

    /// The id of the name made of `parts` one after the other.
    pub(crate) fn join(&mut self, parts: &[&[u8]]) -> NameId {
        self.join_owned(&parts.concat())
    }

    fn join_owned(&mut self, name: &[u8]) -> NameId {
        if let Some((front, rest)) = split_prefix(name) {
            let rest = self.join_owned(rest);
            return self.with_prefix(front, rest, None);
        }
        let hash = self.hasher.hash_one(name);
        match self.find(hash, name) {
            Some(id) => id,
            None => {
                let text = self.make(name);
                self.insert(hash, text, NameStart::of(name))
            }
        }
    }

    /// The id of `front` followed by the name `id`.
    pub(crate) fn prefixed(&mut self, front: &[u8], id: NameId) -> NameId {
        match Prefix::ALL.into_iter().find(|known| known.bytes() == front) {
            Some(front) => self.derived(front, id),
            None => {
                let name = [front, self.get(id)].concat();
                self.join_owned(&name)
            }
        }
    }

    /// The same for a prefix of derived names.
    pub(crate) fn derived(&mut self, front: Prefix, id: NameId) -> NameId {
        if front.precedes(self.links[id].start) {
            return self.with_prefix(front, id, None);
        }
        let name = [front.bytes(), self.get(id)].concat();
        self.join_owned(&name)
    }

    /// A new id for the name made of `parts`, different from the ids of equal names.
    pub(crate) fn intern_separate(&mut self, parts: &[&[u8]]) -> NameId {
        let name = parts.concat();
        let text = self.make(&name);
        self.push(
            text,
            NameLink { first_derived: None, next: None, prefix: None, start: NameStart::of(&name) },
        )
    }

    /// The id of `name`, if it has one.
    pub(crate) fn lookup(&self, name: &[u8]) -> Option<NameId> {
        match split_prefix(name) {
            Some((front, rest)) => self.find_with_prefix(front, self.lookup(rest)?),
            None => self.find(self.hasher.hash_one(name), name),
        }
    }

    pub(crate) fn get(&self, id: NameId) -> &[u8] {
        bytes_of(self.texts[id], &self.made)
    }

    /// What stands in front of the name `rest` in `name`, if one is derived from the other. No name
    /// is read.
    pub(crate) fn derived_prefix(&self, name: NameId, rest: NameId) -> Option<DerivedPrefix> {
        let front = self.links[name].prefix?;
        if self.find_with_prefix(front, rest) == Some(name) {
            return Some((front, None));
        }
        let next = |id: &NameId| self.links[*id].next;
        let mut between = std::iter::successors(self.links[rest].first_derived, next);
        let between = between.find(|&id| self.find_with_prefix(front, id) == Some(name))?;
        Some((front, self.links[between].prefix))
    }

    /// The name for a message.
    pub(crate) fn text(&self, id: NameId) -> String {
        text_of(self.get(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<NameId> {
        self.table.find(hash, |&id| self.get(id) == name).copied()
    }

    fn insert(&mut self, hash: u64, text: NameText<'d>, start: NameStart) -> NameId {
        let id = self.push(text, NameLink { first_derived: None, next: None, prefix: None, start });
        let Names { hasher, table, texts, made, .. } = self;
        table.insert_unique(hash, id, |&id| hasher.hash_one(bytes_of(texts[id], made)));
        id
    }

    /// The name derived from `rest` by prefix `front`, if it has an id.
    fn find_with_prefix(&self, front: Prefix, rest: NameId) -> Option<NameId> {
        let next = |id: &NameId| self.links[*id].next;
        let mut all = std::iter::successors(self.links[rest].first_derived, next);
        all.find(|&id| self.links[id].prefix == Some(front))
    }

    /// The same; a missing name is created, with the bytes `input` if there are some.
    fn with_prefix(&mut self, front: Prefix, rest: NameId, input: Option<&'d [u8]>) -> NameId {
        if let Some(id) = self.find_with_prefix(front, rest) {
            return id;
        }
        let text = match input {
            Some(name) => NameText::Input(name),
            None => self.make_with_prefix(front, rest),
        };
        let start = front.start();
        let (next, front) = (self.links[rest].first_derived, Some(front));
        let id = self.push(text, NameLink { first_derived: None, next, prefix: front, start });
        self.links[rest].first_derived = Some(id);
        id
    }

    fn push(&mut self, text: NameText<'d>, link: NameLink) -> NameId {
        self.links.push(link);
        self.texts.push(text)
    }

    fn make(&mut self, name: &[u8]) -> NameText<'d> {
        let start = self.made.len();
        self.made.extend_from_slice(name);
        self.made_from(start)
    }

    fn make_with_prefix(&mut self, front: Prefix, rest: NameId) -> NameText<'d> {
        let start = self.made.len();
        self.made.extend_from_slice(front.bytes());
        match self.texts[rest] {
            NameText::Input(bytes) => self.made.extend_from_slice(bytes),
            NameText::Made { start, len } => {
                self.made.extend_from_within(start as usize..(start + len) as usize);
            }
        }
        self.made_from(start)
    }

    /// The text that was appended to `made` from `start` on.
    fn made_from(&self, start: usize) -> NameText<'d> {
        let number = |size: usize| u32::try_from(size).expect("less than 4 GiB of made names");
        NameText::Made { start: number(start), len: number(self.made.len() - start) }
    }
}

fn bytes_of<'a>(text: NameText<'a>, made: &'a [u8]) -> &'a [u8] {
    match text {
        NameText::Input(bytes) => bytes,
        NameText::Made { start, len } => &made[start as usize..][..len as usize],
    }
}

/// Interns strings of one file. Consecutive records mostly name the same string, so the last one is
/// kept. Without it: +1.5 % instructions on many1000.
#[derive(Default)]
pub(crate) struct LastInterned {
    /// Offset of the last string in the file's string table, and its id.
    last: Option<(u32, NameId)>,
}

impl LastInterned {
    /// The id of the string at `offset`, which `string` reads.
    pub(crate) fn intern<'d>(
        &mut self,
        names: &mut Names<'d>,
        offset: u32,
        string: impl FnOnce(u32) -> &'d [u8],
    ) -> NameId {
        match self.last {
            Some((last, id)) if last == offset => id,
            _ => {
                let id = names.intern(string(offset));
                self.last = Some((offset, id));
                id
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_is_named_again_is_not_read_again() {
        let (mut names, mut repeated) = (Names::new(), LastInterned::default());
        let first = repeated.intern(&mut names, 4, |_| b"v");
        assert_eq!(repeated.intern(&mut names, 4, |_| unreachable!()), first);
        assert_ne!(repeated.intern(&mut names, 6, |_| b"i"), first);
        assert_eq!(repeated.intern(&mut names, 4, |_| b"v"), first);
    }

    #[test]
    fn a_name_has_one_id_however_it_is_made() {
        let mut names = Names::new();
        let f = names.intern(b"f");
        for (whole, front, rest) in [
            (&b".text.f"[..], &b".text."[..], &b"f"[..]),
            (b".rela.text.f", b".rela", b".text.f"),
            (b".rel.text.f", b".rel", b".text.f"),
            // Strings that could be split in more than one way.
            (b".rela.text.f", b".rel", b"a.text.f"),
            (b".rel.rel.text.f", b".rel", b".rel.text.f"),
            (b".text..text.f", b".text.", b".text.f"),
            (b".rela", b".rel", b"a"),
            (b".nv.info.", b".nv.info.", b""),
            (b".debug_frame", b".debug", b"_frame"),
        ] {
            let rest = names.intern(rest);
            let id = names.prefixed(front, rest);
            assert_eq!(names.get(id), whole);
            assert_eq!(names.intern(whole), id);
            assert_eq!(names.join(&[front, names.get(rest).to_vec().as_slice()]), id);
            for known in Prefix::ALL {
                assert_eq!(names.intern_with_prefix(whole, known, rest), id);
                assert_eq!(names.intern_with_prefix(whole, known, f), id);
            }
            assert_eq!(names.lookup(whole), Some(id));
        }
        assert_eq!(names.lookup(b".nv.shared.f"), None);
        let text = names.intern(b".text.f");
        assert_ne!(names.intern_separate(&[b".text.", b"f"]), text);
        assert_eq!(names.prefixed(b".text.", f), text);
    }
}
