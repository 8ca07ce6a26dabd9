//! Tables whose entries come and go.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::{Id, IdVec};

/// A table whose entries are added and removed: a new entry takes the slot of a removed one.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    all: IdVec<T>,
    free: Vec<Id<T>>,
}

impl<T> Slab<T> {
    /// Adds an entry and returns its id.
    pub(crate) fn add(&mut self, one: T) -> Id<T> {
        match self.free.pop() {
            Some(id) => {
                self.all[id] = one;
                id
            }
            None => self.all.push(one),
        }
    }

    /// Removes `id`; its value stays readable until the next `add` reuses the slot.
    pub(crate) fn remove(&mut self, id: Id<T>) {
        self.free.push(id);
    }

    /// Removes all entries for which `applies` is true.
    pub(crate) fn remove_if(&mut self, applies: impl Fn(&T) -> bool) {
        let gone: Vec<Id<T>> = self.all_if(applies);
        self.free.extend(gone);
    }

    /// Returns the ids of all entries for which `applies` is true.
    pub(crate) fn all_if(&self, applies: impl Fn(&T) -> bool) -> Vec<Id<T>> {
        let free: BTreeSet<Id<T>> = self.free.iter().copied().collect();
        let is = |id: &Id<T>| !free.contains(id) && applies(&self.all[*id]);
        self.all.ids().into_iter().filter(is).collect()
    }
}

impl<T> Index<Id<T>> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        &self.all[id]
    }
}

impl<T> IndexMut<Id<T>> for Slab<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.all[id]
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { all: IdVec::default(), free: Vec::new() }
    }
}
