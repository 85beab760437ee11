//! Names as dense ids: every distinct string is hashed once and then is a number.

use std::borrow::Cow;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::id::{Id, IdVec, NameId};

/// All names of a link.
pub(crate) struct Names<'d> {
    hasher: DefaultHashBuilder,
    table: HashTable<NameId>,
    strings: IdVec<NameId, Cow<'d, [u8]>>,
    scratch: Vec<u8>,
}

impl<'d> Names<'d> {
    pub(crate) fn new() -> Self {
        Names {
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            strings: IdVec::new(),
            scratch: Vec::new(),
        }
    }

    /// Makes room for `more` names.
    pub(crate) fn reserve(&mut self, more: usize) {
        let (hasher, strings) = (&self.hasher, &self.strings);
        self.table.reserve(more, |&id| hasher.hash_one(strings[id].as_ref()));
        self.strings.reserve(more);
    }

    /// The id of `name`.
    pub(crate) fn intern(&mut self, name: &'d [u8]) -> NameId {
        let hash = self.hasher.hash_one(name);
        match self.find(hash, name) {
            Some(id) => id,
            None => self.insert(hash, Cow::Borrowed(name)),
        }
    }

    /// The id of the name made of `parts` one after the other.
    pub(crate) fn join(&mut self, parts: &[&[u8]]) -> NameId {
        let mut name = std::mem::take(&mut self.scratch);
        name.clear();
        parts.iter().for_each(|part| name.extend_from_slice(part));
        let hash = self.hasher.hash_one(&name[..]);
        let id = match self.find(hash, &name) {
            Some(id) => id,
            None => self.insert(hash, Cow::Owned(name.clone())),
        };
        self.scratch = name;
        id
    }

    /// The id of `prefix` followed by the name `id`.
    pub(crate) fn prefixed(&mut self, prefix: &[u8], id: NameId) -> NameId {
        let name = self.strings[id].clone();
        self.join(&[prefix, &name])
    }

    /// A new id for the name made of `parts`, which stays apart from equal names.
    pub(crate) fn separate(&mut self, parts: &[&[u8]]) -> NameId {
        self.strings.push(Cow::Owned(parts.concat()))
    }

    /// The id of `name`, if it has one.
    pub(crate) fn lookup(&self, name: &[u8]) -> Option<NameId> {
        self.find(self.hasher.hash_one(name), name)
    }

    pub(crate) fn get(&self, id: NameId) -> &[u8] {
        &self.strings[id]
    }

    /// The name for a message.
    pub(crate) fn text(&self, id: NameId) -> String {
        String::from_utf8_lossy(self.get(id)).into_owned()
    }

    pub(crate) fn len(&self) -> usize {
        self.strings.len()
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<NameId> {
        self.table.find(hash, |&id| self.strings[id].as_ref() == name).copied()
    }

    fn insert(&mut self, hash: u64, name: Cow<'d, [u8]>) -> NameId {
        let id = self.strings.push(name);
        let (hasher, strings) = (&self.hasher, &self.strings);
        self.table.insert_unique(hash, id, |&id| hasher.hash_one(strings[id].as_ref()));
        id
    }
}

/// Interns strings of one file, of which records in a row mostly name the same.
#[derive(Default)]
pub(crate) struct Repeated {
    /// Where the last string is in the file's table, and its id.
    last: Option<(u32, NameId)>,
}

impl Repeated {
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

/// Names in order of first use.
#[derive(Default)]
pub(crate) struct NameList {
    /// `None` where a name was removed.
    order: Vec<Option<NameId>>,
    /// Place in `order` plus one by name; 0 for names that are not listed.
    places: Vec<u32>,
    /// Later places plus one of names that were added again, the last one first.
    again: HashMap<NameId, Vec<u32>>,
}

impl NameList {
    /// Adds `name` unless it is there already.
    pub(crate) fn add(&mut self, name: NameId) {
        let index = name.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, 0);
        }
        if self.places[index] == 0 {
            self.order.push(Some(name));
            self.places[index] = self.order.len() as u32;
        }
    }

    /// Adds `name` once more at the end: its place if the first one is removed.
    pub(crate) fn add_again(&mut self, name: NameId) {
        self.order.push(Some(name));
        self.again.entry(name).or_default().insert(0, self.order.len() as u32);
    }

    /// Takes `name` out of its first place.
    pub(crate) fn remove(&mut self, name: NameId) {
        let Some(place @ 1..) = self.places.get_mut(name.index()) else { return };
        self.order[*place as usize - 1] = None;
        *place = self.again.get_mut(&name).and_then(Vec::pop).unwrap_or(0);
    }

    /// All names; one that was added again comes twice.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NameId> + '_ {
        self.order.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_is_named_again_is_not_read_again() {
        let (mut names, mut repeated) = (Names::new(), Repeated::default());
        let first = repeated.intern(&mut names, 4, |_| b"v");
        assert_eq!(repeated.intern(&mut names, 4, |_| unreachable!()), first);
        assert_ne!(repeated.intern(&mut names, 6, |_| b"i"), first);
        assert_eq!(repeated.intern(&mut names, 4, |_| b"v"), first);
    }

    #[test]
    fn a_removed_name_has_the_place_where_it_was_added_again() {
        let mut names = Names::new();
        let [a, b] = [names.intern(b"a"), names.join(&[b"b", b"c"])];
        assert_eq!(names.intern(b"bc"), b);
        let mut list = NameList::default();
        [a, b, a].into_iter().for_each(|name| list.add(name));
        assert_eq!(list.iter().collect::<Vec<_>>(), [a, b]);
        list.add_again(a);
        assert_eq!(list.iter().collect::<Vec<_>>(), [a, b, a]);
        list.remove(a);
        assert_eq!(list.iter().collect::<Vec<_>>(), [b, a]);
        list.remove(a);
        list.remove(a);
        assert_eq!(list.iter().collect::<Vec<_>>(), [b]);
    }
}
