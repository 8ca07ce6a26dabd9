//! Tables whose entries come and go.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::{Id, IdVec};

/// A table whose entries are added and removed: a new entry takes the slot of a removed one.
#[derive(Debug)]
pub(crate) struct Slab<I, T> {
    all: IdVec<I, T>,
    free: Vec<I>,
}

impl<I: Id, T> Slab<I, T> {
    /// Adds an entry and returns its id.
    pub(crate) fn add(&mut self, one: T) -> I {
        match self.free.pop() {
            Some(id) => {
                self.all[id] = one;
                id
            }
            None => self.all.push(one),
        }
    }

    /// Removes `id`; its value stays readable until the next `add` reuses the slot.
    pub(crate) fn remove(&mut self, id: I) {
        self.free.push(id);
    }

    /// Removes all entries for which `applies` is true.
    pub(crate) fn remove_if(&mut self, applies: impl Fn(&T) -> bool) {
        let gone: Vec<I> = self.all_if(applies);
        self.free.extend(gone);
    }

    /// Returns the ids of all entries for which `applies` is true.
    pub(crate) fn all_if(&self, applies: impl Fn(&T) -> bool) -> Vec<I> {
        let free: BTreeSet<I> = self.free.iter().copied().collect();
        let is = |id: &I| !free.contains(id) && applies(&self.all[*id]);
        self.all.ids().into_iter().filter(is).collect()
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.all[id]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.all[id]
    }
}

impl<I: Id, T> Default for Slab<I, T> {
    fn default() -> Slab<I, T> {
        Slab { all: IdVec::default(), free: Vec::new() }
    }
}
