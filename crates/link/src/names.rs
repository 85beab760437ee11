//! Names as dense ids: every distinct string is hashed once and then is a number.
//!
//! Most sections are named after a function, or after the section they patch. Such a name is not hashed: it is found
//! from the id of what it ends with. Guaranteed: equal strings have equal ids, however they were made, but for those
//! made by [`Names::separate`].

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::id::{Id, IdVec, NameId};

/// What is in front of names that are found from their ends. A string begins like one of them at most, see
/// [`Front::precedes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// `.rel`, before the name of the section that is patched.
    Rel,
    /// `.rela`
    Rela,
    /// `.text.`, before the name of a function.
    Text,
    /// `.nv.info.`
    Info,
    /// `.nv.shared.`
    Shared,
    /// `.nv.constant0.`
    Parameters,
}

impl Front {
    const ALL: [Front; 6] =
        [Front::Rel, Front::Rela, Front::Text, Front::Info, Front::Shared, Front::Parameters];

    fn bytes(self) -> &'static [u8] {
        match self {
            Front::Rel => b".rel",
            Front::Rela => b".rela",
            Front::Text => b".text.",
            Front::Info => b".nv.info.",
            Front::Shared => b".nv.shared.",
            Front::Parameters => b".nv.constant0.",
        }
    }

    /// Whether the name that ends with one that starts with `rest` is found from there: REL and RELA are before the name
    /// of a section, but not of one with relocations, the others before anything else. So there is one way only to find
    /// a name, and it has two steps at most.
    fn precedes(self, rest: Start) -> bool {
        match self {
            Front::Rel | Front::Rela => rest == Start::Section,
            _ => rest == Start::Other,
        }
    }

    /// What names behind it start with.
    fn start(self) -> Start {
        match self {
            Front::Rel | Front::Rela => Start::Relocations,
            _ => Start::Section,
        }
    }
}

/// What a name starts with, as far as [`Front::precedes`] asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// `.`, but not `.rel`.
    Section,
    /// `.rel`
    Relocations,
    Other,
}

impl Start {
    fn of(name: &[u8]) -> Self {
        match name {
            [b'.', b'r', b'e', b'l', ..] => Start::Relocations,
            [b'.', ..] => Start::Section,
            _ => Start::Other,
        }
    }
}

/// The front of a name that is found from its end, and the end.
fn split(name: &[u8]) -> Option<(Front, &[u8])> {
    if !name.starts_with(b".") {
        return None;
    }
    Front::ALL.into_iter().find_map(|front| {
        let rest = name.strip_prefix(front.bytes())?;
        front.precedes(Start::of(rest)).then_some((front, rest))
    })
}

/// Hashes names, for one link.
#[derive(Clone, Default)]
pub(crate) struct Hasher(DefaultHashBuilder);

impl Hasher {
    /// What [`Names::intern_hashed`] wants to know of `name`, which any thread can find out.
    pub(crate) fn name(&self, name: &[u8]) -> NameHash {
        if name.starts_with(b".") { NameHash::BY_END } else { self.whole(name) }
    }

    /// The hash of a name that is not found from its end.
    fn whole(&self, name: &[u8]) -> NameHash {
        let hash = self.0.hash_one(name);
        // Never that of `BY_END`.
        NameHash(NonZeroU32::MIN | (hash ^ hash >> 32) as u32 | 2)
    }
}

/// The hash of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameHash(NonZeroU32);

impl NameHash {
    /// Of one that may be found from its end.
    const BY_END: NameHash = NameHash(NonZeroU32::MIN);

    /// What the table takes for a hash: its first bits say as much as its last ones.
    fn spread(self) -> u64 {
        let spread = u64::from(self.0.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        spread ^ spread >> 32
    }
}

/// Where the bytes of a name are.
#[derive(Clone, Copy)]
enum Text<'d> {
    Input(&'d [u8]),
    /// In [`Names::made`].
    Made {
        start: u32,
        len: u32,
    },
}

/// How a name that ends with another one is found from that.
#[derive(Clone, Copy)]
struct Link {
    /// The last name found that ends with this one.
    first: Option<NameId>,
    /// The next one that ends with the same name as this one.
    next: Option<NameId>,
    /// What is in front of that in this one, if it is found that way.
    front: Option<Front>,
    /// What this one starts with.
    start: Start,
}

/// All names of a link.
pub(crate) struct Names<'d> {
    hasher: Hasher,
    /// Names that are not found from their ends.
    table: HashTable<NameId>,
    texts: IdVec<NameId, Text<'d>>,
    links: IdVec<NameId, Link>,
    /// Bytes of names that no input has.
    made: Vec<u8>,
}

impl<'d> Names<'d> {
    pub(crate) fn new(hasher: Hasher) -> Self {
        Names {
            hasher,
            table: HashTable::new(),
            texts: IdVec::new(),
            links: IdVec::new(),
            made: Vec::new(),
        }
    }

    /// Makes room for `more` names.
    pub(crate) fn reserve(&mut self, more: usize) {
        let Names { hasher, table, texts, links, made } = self;
        table.reserve(more, |&id| hasher.whole(bytes_of(texts[id], made)).spread());
        texts.reserve(more);
        links.reserve(more);
    }

    /// Makes room for `more` names that are found from their ends.
    pub(crate) fn reserve_derived(&mut self, more: usize) {
        self.texts.reserve(more);
        self.links.reserve(more);
    }

    /// The id of `name`.
    pub(crate) fn intern(&mut self, name: &'d [u8]) -> NameId {
        if let Some((front, rest)) = split(name) {
            let rest = self.intern(rest);
            return self.behind(front, rest, Some(name));
        }
        let hash = self.hasher.whole(name).spread();
        match self.find(hash, name) {
            Some(id) => id,
            None => self.insert(hash, Text::Input(name), Start::of(name)),
        }
    }

    /// The id of `name`, of which `hash` is known. Its bytes are read only where a name like it is there.
    pub(crate) fn intern_hashed(&mut self, name: &'d [u8], hash: NameHash) -> NameId {
        if hash == NameHash::BY_END {
            return self.intern(name);
        }
        let hash = hash.spread();
        match self.find(hash, name) {
            Some(id) => id,
            None => self.insert(hash, Text::Input(name), Start::Other),
        }
    }

    /// The id of `name`, which most likely is `front` followed by the name `id`.
    pub(crate) fn intern_behind(&mut self, name: &'d [u8], front: Front, id: NameId) -> NameId {
        let rest = self.get(id);
        let likely = name.len() == front.bytes().len() + rest.len() && name.ends_with(rest);
        match likely && name.starts_with(front.bytes()) {
            true => self.derived_input(name, front, id),
            false => self.intern(name),
        }
    }

    /// The id of `name`, which is `front` followed by the name `id`.
    pub(crate) fn derived_input(&mut self, name: &'d [u8], front: Front, id: NameId) -> NameId {
        debug_assert_eq!(name, [front.bytes(), self.get(id)].concat());
        match front.precedes(self.links[id].start) {
            true => self.behind(front, id, Some(name)),
            false => self.intern(name),
        }
    }

    /// The id of the name made of `parts` one after the other.
    pub(crate) fn join(&mut self, parts: &[&[u8]]) -> NameId {
        self.join_owned(&parts.concat())
    }

    fn join_owned(&mut self, name: &[u8]) -> NameId {
        if let Some((front, rest)) = split(name) {
            let rest = self.join_owned(rest);
            return self.behind(front, rest, None);
        }
        let hash = self.hasher.whole(name).spread();
        match self.find(hash, name) {
            Some(id) => id,
            None => {
                let text = self.make(name);
                self.insert(hash, text, Start::of(name))
            }
        }
    }

    /// The id of `front` followed by the name `id`.
    pub(crate) fn prefixed(&mut self, front: &[u8], id: NameId) -> NameId {
        match Front::ALL.into_iter().find(|known| known.bytes() == front) {
            Some(front) => self.derived(front, id),
            None => {
                let name = [front, self.get(id)].concat();
                self.join_owned(&name)
            }
        }
    }

    /// The same for a front that names are found behind.
    pub(crate) fn derived(&mut self, front: Front, id: NameId) -> NameId {
        if front.precedes(self.links[id].start) {
            return self.behind(front, id, None);
        }
        let name = [front.bytes(), self.get(id)].concat();
        self.join_owned(&name)
    }

    /// A new id for the name made of `parts`, which stays apart from equal names.
    pub(crate) fn separate(&mut self, parts: &[&[u8]]) -> NameId {
        let name = parts.concat();
        let text = self.make(&name);
        self.push(text, Link { first: None, next: None, front: None, start: Start::of(&name) })
    }

    /// The id of `name`, if it has one.
    pub(crate) fn lookup(&self, name: &[u8]) -> Option<NameId> {
        match split(name) {
            Some((front, rest)) => self.behind_known(front, self.lookup(rest)?),
            None => self.find(self.hasher.whole(name).spread(), name),
        }
    }

    pub(crate) fn get(&self, id: NameId) -> &[u8] {
        bytes_of(self.texts[id], &self.made)
    }

    /// The name for a message.
    pub(crate) fn text(&self, id: NameId) -> String {
        String::from_utf8_lossy(self.get(id)).into_owned()
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<NameId> {
        self.table.find(hash, |&id| self.get(id) == name).copied()
    }

    fn insert(&mut self, hash: u64, text: Text<'d>, start: Start) -> NameId {
        let id = self.push(text, Link { first: None, next: None, front: None, start });
        let Names { hasher, table, texts, made, .. } = self;
        table.insert_unique(hash, id, |&id| hasher.whole(bytes_of(texts[id], made)).spread());
        id
    }

    /// The name of `front` and the name `rest`, if it has an id.
    fn behind_known(&self, front: Front, rest: NameId) -> Option<NameId> {
        let next = |id: &NameId| self.links[*id].next;
        let mut all = std::iter::successors(self.links[rest].first, next);
        all.find(|&id| self.links[id].front == Some(front))
    }

    /// The same; a new one has its bytes from `input`, if that has them.
    fn behind(&mut self, front: Front, rest: NameId, input: Option<&'d [u8]>) -> NameId {
        if let Some(id) = self.behind_known(front, rest) {
            return id;
        }
        let text = match input {
            Some(name) => Text::Input(name),
            None => self.make_behind(front, rest),
        };
        let start = front.start();
        let (next, front) = (self.links[rest].first, Some(front));
        let id = self.push(text, Link { first: None, next, front, start });
        self.links[rest].first = Some(id);
        id
    }

    fn push(&mut self, text: Text<'d>, link: Link) -> NameId {
        self.links.push(link);
        self.texts.push(text)
    }

    fn make(&mut self, name: &[u8]) -> Text<'d> {
        let start = self.made.len();
        self.made.extend_from_slice(name);
        self.made_from(start)
    }

    fn make_behind(&mut self, front: Front, rest: NameId) -> Text<'d> {
        let start = self.made.len();
        self.made.extend_from_slice(front.bytes());
        match self.texts[rest] {
            Text::Input(bytes) => self.made.extend_from_slice(bytes),
            Text::Made { start, len } => {
                self.made.extend_from_within(start as usize..(start + len) as usize);
            }
        }
        self.made_from(start)
    }

    /// What was made from `start` on.
    fn made_from(&self, start: usize) -> Text<'d> {
        let number = |size: usize| u32::try_from(size).expect("less than 4 GiB of made names");
        Text::Made { start: number(start), len: number(self.made.len() - start) }
    }
}

fn bytes_of<'a>(text: Text<'a>, made: &'a [u8]) -> &'a [u8] {
    match text {
        Text::Input(bytes) => bytes,
        Text::Made { start, len } => &made[start as usize..][..len as usize],
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
    /// Makes room for `names` names.
    pub(crate) fn reserve(&mut self, names: usize) {
        self.order.reserve(names);
        self.places.reserve(names);
    }

    /// Adds `name` unless it is there already.
    pub(crate) fn add(&mut self, name: NameId) {
        let index = name.index();
        if self.places.len() <= index {
            self.grow(index);
        }
        let place = &mut self.places[index];
        if *place == 0 {
            self.order.push(Some(name));
            *place = self.order.len() as u32;
        }
    }

    /// Makes room for the place of name number `index` and of some behind it: names come in a row, mostly.
    #[cold]
    fn grow(&mut self, index: usize) {
        self.places.resize(index + 1 + 1024, 0);
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

    /// How many names there are, those that were removed too.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
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
        let (mut names, mut repeated) = (Names::new(Hasher::default()), Repeated::default());
        let first = repeated.intern(&mut names, 4, |_| b"v");
        assert_eq!(repeated.intern(&mut names, 4, |_| unreachable!()), first);
        assert_ne!(repeated.intern(&mut names, 6, |_| b"i"), first);
        assert_eq!(repeated.intern(&mut names, 4, |_| b"v"), first);
    }

    #[test]
    fn a_name_has_one_id_however_it_is_made() {
        let mut names = Names::new(Hasher::default());
        let f = names.intern(b"f");
        for (whole, front, rest) in [
            (&b".text.f"[..], &b".text."[..], &b"f"[..]),
            (b".rela.text.f", b".rela", b".text.f"),
            (b".rel.text.f", b".rel", b".text.f"),
            // What could be taken apart in more than one way.
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
            for known in Front::ALL {
                assert_eq!(names.intern_behind(whole, known, rest), id);
                assert_eq!(names.intern_behind(whole, known, f), id);
            }
            assert_eq!(names.lookup(whole), Some(id));
        }
        assert_eq!(names.lookup(b".nv.shared.f"), None);
        let text = names.intern(b".text.f");
        assert_ne!(names.separate(&[b".text.", b"f"]), text);
        assert_eq!(names.prefixed(b".text.", f), text);
    }

    #[test]
    fn a_removed_name_has_the_place_where_it_was_added_again() {
        let mut names = Names::new(Hasher::default());
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
