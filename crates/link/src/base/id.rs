//! Dense identifiers and the vectors they index.
//!
//! An id is an index into one kind of table and cannot index another. It stores the index plus one,
//! so that an `Option` of an id takes four bytes too (docs/PERFORMANCE.md, memory). Without that,
//! many1000 takes 3.7 % more memory, and 1.4 % fewer instructions.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// A dense index.
pub(crate) trait DenseId: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(NonZeroU32);

        impl DenseId for $name {
            fn from_index(index: usize) -> Self {
                let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
                $name(number.expect("fewer than 2^32 of everything"))
            }

            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

ids! {
    /// An input file.
    ObjectId;
    /// A string: a symbol's or section's name, or a prototype.
    NameId;
    /// A symbol of the program: one per global name, one per local symbol of a file.
    SymbolId;
    /// A live function in the order of creation.
    NodeId;
    /// A section of the output, in the order of creation.
    SectionId;
    /// A symbol of the output, in the order of creation.
    OutSymbolId;
    /// A constant bank of a function that is no entry.
    BankId;
    /// A relocation section of the output.
    RelocId;
    /// A shared variable, or shared memory without a symbol.
    SharedId;
    /// An allocation in shared memory: a variable with several accepted definitions has several.
    AllocationId;
}

/// A vector indexed by one kind of id.
#[derive(Debug, Clone)]
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<I>,
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        IdVec { items: Vec::new(), id: PhantomData }
    }
}

impl<I: DenseId, T> IdVec<I, T> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn filled(value: T, len: usize) -> Self
    where
        T: Clone,
    {
        IdVec { items: vec![value; len], id: PhantomData }
    }

    pub(crate) fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::from_index(self.items.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(index, item)| (I::from_index(index), item))
    }

    pub(crate) fn values(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub(crate) fn into_values(self) -> std::vec::IntoIter<T> {
        self.items.into_iter()
    }

    pub(crate) fn values_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Makes room for `more` items.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.items.reserve(more);
    }

    pub(crate) fn resize(&mut self, len: usize, value: T)
    where
        T: Clone,
    {
        self.items.resize(len, value);
    }
}

/// A map from dense ids as a vector, which ends at the largest id. For maps that hold many of the
/// ids.
pub(crate) struct IdMap<I, T> {
    items: IdVec<I, Option<T>>,
}

impl<I, T> Default for IdMap<I, T> {
    fn default() -> Self {
        IdMap { items: IdVec::default() }
    }
}

impl<I: DenseId, T: Copy> IdMap<I, T> {
    pub(crate) fn get(&self, id: I) -> Option<T> {
        self.items.items.get(id.index()).copied().flatten()
    }

    /// Returns the previous value.
    pub(crate) fn insert(&mut self, id: I, value: T) -> Option<T> {
        if self.items.len() <= id.index() {
            self.items.resize(id.index() + 1, None);
        }
        self.items[id].replace(value)
    }
}

impl<I: DenseId, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Self {
        IdVec { items: items.into_iter().collect(), id: PhantomData }
    }
}

impl<I: DenseId, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        IdVec { items, id: PhantomData }
    }
}

impl<I: DenseId, T> Index<I> for IdVec<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: DenseId, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
