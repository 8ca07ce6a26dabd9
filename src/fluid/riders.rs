//! Numbered things under keys that change: groups by the value at which their first flow is done.

use crate::engine::Time;

/// No place, no clock, no member.
pub(super) const NONE: u32 = u32::MAX;

/// What riders are sorted by.
pub(super) trait Order: Copy + PartialOrd {
    /// No key is larger.
    const LAST: Self;
}

impl Order for f64 {
    const LAST: f64 = f64::INFINITY;
}

impl Order for Time {
    const LAST: Time = Time::NEVER;
}

const ARITY: usize = 4;

/// The children of one rider, in one cache line. Empty places have the last of keys.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Family<K>([(K, u32); ARITY]);

/// A 4-ary heap whose entries can be moved, because everyone knows its place (`places`, by number).
///
/// The root has place 0 and lies here, so that a single rider has no family. The children of place `at` are
/// family `at`, whose first has place `4 at + 1`.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Riders<K> {
    /// The last of keys if there is no rider.
    first: K,
    root: u32,
    len: u32,
    families: Vec<Family<K>>,
}

impl<K: Order> Default for Riders<K> {
    fn default() -> Self {
        Riders { first: K::LAST, root: NONE, len: 0, families: Vec::new() }
    }
}

#[inline]
fn parent(at: usize) -> usize {
    (at - 1) / ARITY
}

impl<K: Order> Riders<K> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The smallest key; the last of all if there is no rider.
    #[inline]
    pub(super) fn first(&self) -> K {
        self.first
    }

    /// The first, if any, and those of whom the next will be one.
    #[inline]
    pub(super) fn foremost(&self) -> (Option<u32>, &[(K, u32)]) {
        let first = (self.len > 0).then_some(self.root);
        (first, self.families.first().map_or(&[], |family| &family.0))
    }

    /// Whose key is the second; none if there is no such.
    #[inline]
    pub(super) fn second(&self) -> u32 {
        self.families.first().map_or(NONE, |family| smallest(&family.0).1.1)
    }

    #[inline]
    fn entry(&self, at: usize) -> (K, u32) {
        if at == 0 {
            (self.first, self.root)
        } else {
            self.families[parent(at)].0[(at - 1) % ARITY]
        }
    }

    #[inline]
    fn put(&mut self, at: usize, entry: (K, u32)) {
        if at == 0 {
            (self.first, self.root) = entry;
        } else {
            self.families[parent(at)].0[(at - 1) % ARITY] = entry;
        }
    }

    pub(super) fn insert(&mut self, places: &mut [u32], group: u32, key: K) {
        let at = self.len as usize;
        if at > 0 && parent(at) == self.families.len() {
            self.families.push(Family([(K::LAST, NONE); ARITY]));
        }
        self.len += 1;
        self.sift_up(places, at, (key, group));
    }

    pub(super) fn remove(&mut self, places: &mut [u32], group: u32) {
        let at = std::mem::replace(&mut places[group as usize], NONE) as usize;
        self.len -= 1;
        let end = self.len as usize;
        let last = self.entry(end);
        self.put(end, (K::LAST, NONE));
        if at < end {
            self.sift(places, at, last);
        }
    }

    /// Gives a rider another key.
    #[inline]
    pub(super) fn update(&mut self, places: &mut [u32], group: u32, key: K) {
        let at = places[group as usize] as usize;
        if at == 0 && self.len == 1 {
            self.first = key;
        } else {
            self.sift(places, at, (key, group));
        }
    }

    /// The first rider, whose key is not above `limit`, if that holds for no other.
    #[inline]
    pub(super) fn only_up_to(&self, limit: K) -> Option<u32> {
        (self.len == 1 || !self.has_second_up_to(limit)).then_some(self.root)
    }

    #[inline]
    fn has_second_up_to(&self, limit: K) -> bool {
        let any = |family: &Family<K>| family.0.iter().fold(false, |any, of| any | (of.0 <= limit));
        self.families.first().is_some_and(any)
    }

    /// All riders up to `limit`, found without visiting the others; the first one is.
    #[inline]
    pub(super) fn up_to(&self, limit: K, found: &mut Vec<u32>) {
        found.push(self.root);
        if self.has_second_up_to(limit) {
            self.children_up_to(0, limit, found);
        }
    }

    fn children_up_to(&self, at: usize, limit: K, found: &mut Vec<u32>) {
        let Some(family) = self.families.get(at) else { return };
        for (i, &(key, group)) in family.0.iter().enumerate() {
            if key <= limit && group != NONE {
                found.push(group);
                self.children_up_to(ARITY * at + 1 + i, limit, found);
            }
        }
    }

    /// Gives every rider a new key.
    pub(super) fn rekey(&mut self, places: &mut [u32], key: impl Fn(u32) -> K) {
        for at in (0..self.len as usize).rev() {
            let rider = self.entry(at).1;
            self.sift_down(places, at, (key(rider), rider));
        }
    }

    #[inline]
    fn sift(&mut self, places: &mut [u32], at: usize, entry: (K, u32)) {
        if at > 0 && entry.0 < self.entry(parent(at)).0 {
            self.sift_up(places, at, entry);
        } else {
            self.sift_down(places, at, entry);
        }
    }

    #[inline]
    fn sift_up(&mut self, places: &mut [u32], mut at: usize, moving: (K, u32)) {
        while at > 0 {
            let above = self.entry(parent(at));
            if above.0 <= moving.0 {
                break;
            }
            self.settle(places, at, above);
            at = parent(at);
        }
        self.settle(places, at, moving);
    }

    #[inline]
    fn sift_down(&mut self, places: &mut [u32], mut at: usize, moving: (K, u32)) {
        while let Some(family) = self.families.get(at) {
            let (i, least) = smallest(&family.0);
            if moving.0 <= least.0 {
                break;
            }
            self.settle(places, at, least);
            at = ARITY * at + 1 + i;
        }
        self.settle(places, at, moving);
    }

    #[inline]
    fn settle(&mut self, places: &mut [u32], at: usize, entry: (K, u32)) {
        self.put(at, entry);
        places[entry.1 as usize] = at as u32;
    }
}

/// The first of the smallest: two matches and a final, which needs no branches.
#[inline]
fn smallest<K: Order>(family: &[(K, u32); ARITY]) -> (usize, (K, u32)) {
    let semifinal = |a: usize, b: usize| if family[b].0 < family[a].0 { b } else { a };
    let (left, right) = (semifinal(0, 1), semifinal(2, 3));
    let best = semifinal(left, right);
    (best, family[best])
}
