//! Tables indexed by typed ids.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::{Id, Ids};

/// A table with a `T` for each entity of a kind, indexed by the entity's id.
pub(crate) struct IdVec<I, T> {
    all: Vec<T>,
    of: PhantomData<fn() -> I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Returns a table of the first `number` ids, with the same `T` for each.
    pub(crate) fn filled(one: T, number: u32) -> IdVec<I, T>
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
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.all.get(id.number() as usize)
    }

    /// Returns the `T` of `id`, to change it; `None` if the table has none.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.all.get_mut(id.number() as usize)
    }

    /// Returns all `T`s, in order of their ids.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.all
    }

    /// Adds a `T` for the next id and returns its id.
    pub(crate) fn push(&mut self, one: T) -> I {
        let id = self.next_id();
        self.all.push(one);
        id
    }

    /// Returns the id that the next `T` to be pushed will get.
    pub(crate) fn next_id(&self) -> I {
        I::new(self.all.len() as u32)
    }

    /// Returns the ids from `first` to the last of the table.
    pub(crate) fn ids_from(&self, first: I) -> Ids<I> {
        Ids::new(first, self.next_id())
    }

    /// Returns the ids of all entries.
    pub(crate) fn ids(&self) -> Ids<I> {
        self.ids_from(I::new(0))
    }

    /// Returns the number of `T`s.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the id for turn number `turn` in round-robin order; `None` if the table is empty.
    pub(crate) fn in_turn(&self, turn: u64) -> Option<I> {
        let number = turn.checked_rem(self.all.len() as u64)?;
        Some(I::new(number as u32))
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

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: I) -> &T {
        &self.all[id.number() as usize]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.all[id.number() as usize]
    }
}

impl<I: Id, T> Index<Ids<I>> for IdVec<I, T> {
    type Output = [T];

    fn index(&self, ids: Ids<I>) -> &[T] {
        &self.all[ids.start.number() as usize..ids.end.number() as usize]
    }
}

impl<I: Id, T> IndexMut<Ids<I>> for IdVec<I, T> {
    fn index_mut(&mut self, ids: Ids<I>) -> &mut [T] {
        &mut self.all[ids.start.number() as usize..ids.end.number() as usize]
    }
}

impl<I: Id, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(all: A) -> IdVec<I, T> {
        IdVec { all: all.into_iter().collect(), of: PhantomData }
    }
}

impl<I: Id, T> Extend<T> for IdVec<I, T> {
    fn extend<A: IntoIterator<Item = T>>(&mut self, more: A) {
        self.all.extend(more);
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.all.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut IdVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> std::slice::IterMut<'a, T> {
        self.all.iter_mut()
    }
}

impl<I: Id, T> Default for IdVec<I, T> {
    fn default() -> IdVec<I, T> {
        IdVec { all: Vec::new(), of: PhantomData }
    }
}

impl<I: Id, T: Clone> Clone for IdVec<I, T> {
    fn clone(&self) -> IdVec<I, T> {
        IdVec { all: self.all.clone(), of: PhantomData }
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

/// A table with a `T` for each entity of a range of consecutive ids, indexed by the entity's id.
pub(crate) struct RangeVec<I, T> {
    first: I,
    all: IdVec<I, T>,
}

impl<I: Id, T> RangeVec<I, T> {
    /// Returns the table of the ids from `first` on.
    pub(crate) fn new(first: I, all: impl IntoIterator<Item = T>) -> RangeVec<I, T> {
        RangeVec { first, all: all.into_iter().collect() }
    }

    /// Returns the `T` of `id`; `None` if the table has none.
    #[inline]
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.all.get(I::new(id.number() - self.first.number()))
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

impl<I: Id, T> Index<I> for RangeVec<I, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: I) -> &T {
        &self.all[I::new(id.number() - self.first.number())]
    }
}

impl<I: Id, T> IndexMut<I> for RangeVec<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.all[I::new(id.number() - self.first.number())]
    }
}

impl<I: Id, T: Clone> Clone for RangeVec<I, T> {
    fn clone(&self) -> RangeVec<I, T> {
        RangeVec { first: self.first, all: self.all.clone() }
    }
}

impl<I: Id, T> Default for RangeVec<I, T> {
    fn default() -> RangeVec<I, T> {
        RangeVec { first: I::new(0), all: IdVec::default() }
    }
}

impl<I, T: fmt::Debug> fmt::Debug for RangeVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
