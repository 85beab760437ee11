//! Names in order of first use, from which a string table is made.

use hashbrown::HashMap;

use super::id::NameId;
use crate::base::id::DenseId;

/// A list of names in order of first use.
#[derive(Default)]
pub(crate) struct NameList {
    /// `None` where a name was removed.
    order: Vec<Option<NameId>>,
    /// Place in `order` plus one, by name; 0 for names that are not in the list.
    places: Vec<u32>,
    /// Further places plus one of names that were added again, the last place first.
    again: HashMap<NameId, Vec<u32>>,
    /// The names that were counted, where somebody asks for them.
    counted: Option<Vec<NameId>>,
}

impl NameList {
    /// Makes room for `names` names.
    pub(crate) fn reserve(&mut self, names: usize) {
        self.order.reserve(names);
        self.places.reserve(names);
    }

    /// Adds `name` unless the list has it already.
    pub(crate) fn add(&mut self, name: NameId) {
        let index = name.index();
        if self.places.len() <= index {
            self.grow(index);
        }
        let place = &mut self.places[index];
        if *place == 0 {
            self.order.push(Some(name));
            *place = self.order.len() as u32;
            self.count(name);
        }
    }

    /// Makes room for the place of name number `index`, and of 1024 more as far as they fit: names
    /// mostly come in ascending order. Without the 1024: +1.1 % instructions on many1000; with all
    /// of them in each list: +3.0 % on tiny.
    fn grow(&mut self, index: usize) {
        let least = index + 1;
        self.places.resize(least.max(self.places.capacity().min(least + 1024)), 0);
    }

    /// Adds `name` once more at the end. That becomes its place if the first one is removed.
    pub(crate) fn add_again(&mut self, name: NameId) {
        self.order.push(Some(name));
        self.count(name);
        self.again.entry(name).or_default().insert(0, self.order.len() as u32);
    }

    /// Removes `name` from its first place.
    pub(crate) fn remove(&mut self, name: NameId) {
        let Some(place @ 1..) = self.places.get_mut(name.index()) else { return };
        self.order[*place as usize - 1] = None;
        *place = self.again.get_mut(&name).and_then(Vec::pop).unwrap_or(0);
    }

    /// Keeps the names that are counted, of which those so far are the first.
    pub(crate) fn keep_counted(&mut self) {
        self.counted = Some(self.order.iter().flatten().copied().collect());
    }

    /// Counts a name that the list has already, or does not get.
    pub(crate) fn count(&mut self, name: NameId) {
        if let Some(counted) = &mut self.counted {
            counted.push(name);
        }
    }

    /// The names that were counted: all that were added, and others. None without `keep_counted`.
    pub(crate) fn counted(&self) -> &[NameId] {
        self.counted.as_deref().unwrap_or_default()
    }

    /// True if the list has `name`.
    pub(crate) fn contains(&self, name: NameId) -> bool {
        self.places.get(name.index()).is_some_and(|&place| place != 0)
    }

    /// The number of entries, removed ones included.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// All names; a name that was added again appears twice.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NameId> + '_ {
        self.order.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::names::Names;

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
