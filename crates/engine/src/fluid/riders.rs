//! Numbered things under keys that change: groups by the value at which their first flow is done.

use crate::Time;

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

/// Who rides under which key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rider<K> {
    pub(super) key: K,
    /// Its number, and above it the slot of its first flow, where it has flows: together, because parts
    /// that were just written apart are slow to be read at once.
    who: u64,
}

impl<K: Order> Rider<K> {
    const NOBODY: Self = Rider { key: K::LAST, who: u64::MAX };

    #[inline(always)]
    pub(super) fn new(key: K, id: u32, slot: u32) -> Self {
        Rider { key, who: u64::from(id) | u64::from(slot) << 32 }
    }

    #[inline(always)]
    pub(super) fn id(self) -> u32 {
        self.who as u32
    }

    /// To be foreseen, not to be relied on.
    #[inline(always)]
    pub(super) fn slot(self) -> u32 {
        (self.who >> 32) as u32
    }
}

/// The children of one rider, in one cache line. Empty places have the last of keys.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Family<K>([Rider<K>; ARITY]);

/// A 4-ary heap whose entries can be moved, because everyone knows its place (`places`, by number).
///
/// The root has place 0 and lies here, so that a single rider has no family. The children of place `at` are
/// family `at`, whose first has place `4 at + 1`.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Riders<K> {
    /// Nobody if there is no rider.
    root: Rider<K>,
    len: u32,
    families: Vec<Family<K>>,
}

impl<K: Order> Default for Riders<K> {
    fn default() -> Self {
        Riders { root: Rider::NOBODY, len: 0, families: Vec::new() }
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
        self.root.key
    }

    /// The first; nobody if there is none.
    #[inline]
    pub(super) fn foremost(&self) -> Rider<K> {
        self.root
    }

    /// The second, or nobody, and those of whom it is one.
    #[inline]
    pub(super) fn next(&self) -> Option<(Rider<K>, &[Rider<K>])> {
        self.families.first().map(|family| (smallest(&family.0).1, &family.0[..]))
    }

    #[inline]
    fn entry(&self, at: usize) -> Rider<K> {
        if at == 0 { self.root } else { self.families[parent(at)].0[(at - 1) % ARITY] }
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Rider<K>) {
        if at == 0 {
            self.root = entry;
        } else {
            self.families[parent(at)].0[(at - 1) % ARITY] = entry;
        }
    }

    pub(super) fn insert(&mut self, places: &mut [u32], rider: Rider<K>) {
        let at = self.len as usize;
        if at > 0 && parent(at) == self.families.len() {
            self.families.push(Family([Rider::NOBODY; ARITY]));
        }
        self.len += 1;
        self.sift_up(places, at, rider);
    }

    pub(super) fn remove(&mut self, places: &mut [u32], id: u32) {
        let at = std::mem::replace(&mut places[id as usize], NONE) as usize;
        self.len -= 1;
        let end = self.len as usize;
        let last = self.entry(end);
        self.put(end, Rider::NOBODY);
        if at < end {
            self.sift(places, at, last);
        }
    }

    /// A rider has another key.
    #[inline]
    pub(super) fn update(&mut self, places: &mut [u32], rider: Rider<K>) {
        let at = places[rider.id() as usize] as usize;
        if at == 0 && self.len == 1 {
            self.root = rider;
        } else {
            self.sift(places, at, rider);
        }
    }

    /// The first rider, whose key is not above `limit`, if that holds for no other.
    #[inline]
    pub(super) fn only_up_to(&self, limit: K) -> Option<u32> {
        (self.len == 1 || !self.has_second_up_to(limit)).then_some(self.root.id())
    }

    #[inline]
    fn has_second_up_to(&self, limit: K) -> bool {
        let any =
            |family: &Family<K>| family.0.iter().fold(false, |any, of| any | (of.key <= limit));
        self.families.first().is_some_and(any)
    }

    /// All riders up to `limit`, found without visiting the others; the first one is.
    #[inline]
    pub(super) fn up_to(&self, limit: K, found: &mut Vec<u32>) {
        found.push(self.root.id());
        if self.has_second_up_to(limit) {
            self.children_up_to(0, limit, found);
        }
    }

    fn children_up_to(&self, at: usize, limit: K, found: &mut Vec<u32>) {
        let Some(family) = self.families.get(at) else { return };
        for (i, rider) in family.0.iter().enumerate() {
            if rider.key <= limit && rider.id() != NONE {
                found.push(rider.id());
                self.children_up_to(ARITY * at + 1 + i, limit, found);
            }
        }
    }

    /// Gives every rider a new key.
    pub(super) fn rekey(&mut self, places: &mut [u32], key: impl Fn(u32) -> K) {
        for at in (0..self.len as usize).rev() {
            let rider = self.entry(at);
            self.sift_down(places, at, Rider { key: key(rider.id()), ..rider });
        }
    }

    #[inline]
    fn sift(&mut self, places: &mut [u32], at: usize, entry: Rider<K>) {
        if at > 0 && entry.key < self.entry(parent(at)).key {
            self.sift_up(places, at, entry);
        } else {
            self.sift_down(places, at, entry);
        }
    }

    #[inline]
    fn sift_up(&mut self, places: &mut [u32], mut at: usize, moving: Rider<K>) {
        while at > 0 {
            let above = self.entry(parent(at));
            if above.key <= moving.key {
                break;
            }
            self.settle(places, at, above);
            at = parent(at);
        }
        self.settle(places, at, moving);
    }

    #[inline]
    fn sift_down(&mut self, places: &mut [u32], mut at: usize, moving: Rider<K>) {
        while let Some(family) = self.families.get(at) {
            let (i, least) = smallest(&family.0);
            if moving.key <= least.key {
                break;
            }
            self.settle(places, at, least);
            at = ARITY * at + 1 + i;
        }
        self.settle(places, at, moving);
    }

    #[inline]
    fn settle(&mut self, places: &mut [u32], at: usize, entry: Rider<K>) {
        self.put(at, entry);
        places[entry.id() as usize] = at as u32;
    }
}

/// The first of the smallest: two matches and a final, which needs no branches.
#[inline]
fn smallest<K: Order>(family: &[Rider<K>; ARITY]) -> (usize, Rider<K>) {
    let semifinal = |a: usize, b: usize| if family[b].key < family[a].key { b } else { a };
    let (left, right) = (semifinal(0, 1), semifinal(2, 3));
    let best = semifinal(left, right);
    (best, family[best])
}
