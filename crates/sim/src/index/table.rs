//! Tables indexed by typed ids.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::{Id, Ids};

/// A table with a `T` for each `K`, indexed by the `K`'s id.
pub(crate) struct IdVec<K, T = K> {
    all: Vec<T>,
    of: PhantomData<fn() -> K>,
}

impl<K, T> IdVec<K, T> {
    /// Returns a table of the first `number` `K`s, with the same `T` for each.
    pub(crate) fn filled(one: T, number: u32) -> IdVec<K, T>
    where
        T: Clone,
    {
        IdVec { all: vec![one; number as usize], of: PhantomData }
    }

    /// Removes `T`s from the end, or adds copies of `one`, until the table has `number` of them.
    pub(crate) fn resize(&mut self, number: u32, one: T)
    where
        T: Clone,
    {
        self.all.resize(number as usize, one);
    }

    /// Removes all `T`s.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    /// Returns the `T` of `id`; `None` if the table has none.
    #[inline]
    pub(crate) fn get(&self, id: Id<K>) -> Option<&T> {
        self.all.get(id.index())
    }

    /// Returns the `T` of `id`, to change it; `None` if the table has none.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id<K>) -> Option<&mut T> {
        self.all.get_mut(id.index())
    }

    /// Returns all `T`s, in order of their ids.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.all
    }

    /// Adds a `T` for the next `K` and returns its id.
    pub(crate) fn push(&mut self, one: T) -> Id<K> {
        let id = self.next_id();
        self.all.push(one);
        id
    }

    /// Returns the id that the next `T` to be pushed will get.
    pub(crate) fn next_id(&self) -> Id<K> {
        Id::new(self.all.len() as u32)
    }

    /// Returns the ids from `first` to the last of the table.
    pub(crate) fn ids_from(&self, first: Id<K>) -> Ids<K> {
        Ids::new(first, self.next_id())
    }

    /// Returns the ids of all `K`s.
    pub(crate) fn ids(&self) -> Ids<K> {
        self.ids_from(Id::new(0))
    }

    /// Returns the number of `T`s.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the id for turn number `turn` in round-robin order; `None` if the table is empty.
    pub(crate) fn in_turn(&self, turn: u64) -> Option<Id<K>> {
        let number = turn.checked_rem(self.all.len() as u64)?;
        Some(Id::new(number as u32))
    }

    /// Returns whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Iterates over all `T`s, in order of their ids.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }

    /// Iterates over all `T`s mutably, in order of their ids.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.all.iter_mut()
    }
}

impl<K, T> Index<Id<K>> for IdVec<K, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: Id<K>) -> &T {
        &self.all[id.index()]
    }
}

impl<K, T> IndexMut<Id<K>> for IdVec<K, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: Id<K>) -> &mut T {
        &mut self.all[id.index()]
    }
}

impl<K, T> Index<Ids<K>> for IdVec<K, T> {
    type Output = [T];

    fn index(&self, ids: Ids<K>) -> &[T] {
        &self.all[ids.start.index()..ids.end.index()]
    }
}

impl<K, T> IndexMut<Ids<K>> for IdVec<K, T> {
    fn index_mut(&mut self, ids: Ids<K>) -> &mut [T] {
        &mut self.all[ids.start.index()..ids.end.index()]
    }
}

impl<K, T> FromIterator<T> for IdVec<K, T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> IdVec<K, T> {
        IdVec { all: all.into_iter().collect(), of: PhantomData }
    }
}

impl<K, T> Extend<T> for IdVec<K, T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        self.all.extend(more);
    }
}

impl<'a, K, T> IntoIterator for &'a IdVec<K, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.all.iter()
    }
}

impl<'a, K, T> IntoIterator for &'a mut IdVec<K, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> std::slice::IterMut<'a, T> {
        self.all.iter_mut()
    }
}

impl<K, T> Default for IdVec<K, T> {
    fn default() -> IdVec<K, T> {
        IdVec { all: Vec::new(), of: PhantomData }
    }
}

impl<K, T: Clone> Clone for IdVec<K, T> {
    fn clone(&self) -> IdVec<K, T> {
        IdVec { all: self.all.clone(), of: PhantomData }
    }
}

impl<K, T: fmt::Debug> fmt::Debug for IdVec<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

/// A table with a `T` for each `K` of a range of consecutive ids, indexed by the `K`'s id.
pub(crate) struct RangeVec<K, T = K> {
    first: Id<K>,
    all: IdVec<K, T>,
}

impl<K, T> RangeVec<K, T> {
    /// Returns the table of the `K`s from `first` on.
    pub(crate) fn new(first: Id<K>, all: impl IntoIterator<Item = T>) -> RangeVec<K, T> {
        RangeVec { first, all: all.into_iter().collect() }
    }

    /// Returns the `T` of `id`; `None` if the table has none.
    #[inline]
    pub(crate) fn get(&self, id: Id<K>) -> Option<&T> {
        self.all.get(Id::new(id - self.first))
    }

    /// Returns all `T`s, in order of their ids.
    pub(crate) fn as_slice(&self) -> &[T] {
        self.all.as_slice()
    }

    /// Iterates over all `T`s mutably, in order of their ids.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.all.iter_mut()
    }
}

impl<K, T> Index<Id<K>> for RangeVec<K, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: Id<K>) -> &T {
        &self.all[Id::new(id - self.first)]
    }
}

impl<K, T> IndexMut<Id<K>> for RangeVec<K, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: Id<K>) -> &mut T {
        &mut self.all[Id::new(id - self.first)]
    }
}

impl<K, T: Clone> Clone for RangeVec<K, T> {
    fn clone(&self) -> RangeVec<K, T> {
        RangeVec { first: self.first, all: self.all.clone() }
    }
}

impl<K, T> Default for RangeVec<K, T> {
    fn default() -> RangeVec<K, T> {
        RangeVec { first: Id::default(), all: IdVec::default() }
    }
}

impl<K, T: fmt::Debug> fmt::Debug for RangeVec<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
