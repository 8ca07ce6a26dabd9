//! A heap whose entries have numbers, so that the key of each can be changed. It orders groups by when their first
//! flow ends, and clocks by when their first entry is due.

use crate::Time;

/// The number that stands for no place, clock or member.
pub(super) const NONE: u32 = u32::MAX;

/// A key by which entries are sorted.
pub(super) trait Order: Copy + PartialOrd {
    /// The largest key.
    const LAST: Self;
}

impl Order for f64 {
    const LAST: f64 = f64::INFINITY;
}

impl Order for Time {
    const LAST: Time = Time::NEVER;
}

const ARITY: usize = 4;

/// A key, and the number of the group or clock that has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeapEntry<K> {
    pub(super) key: K,
    /// The number in the low 32 bits and, for a group, the slot of its first flow in the high 32 bits. They share one
    /// word, because two halves that were just written separately are slow to be read at once.
    packed: u64,
}

impl<K: Order> HeapEntry<K> {
    const EMPTY: Self = HeapEntry { key: K::LAST, packed: u64::MAX };

    #[inline(always)]
    pub(super) fn new(key: K, id: u32, slot: u32) -> Self {
        HeapEntry { key, packed: u64::from(id) | u64::from(slot) << 32 }
    }

    #[inline(always)]
    pub(super) fn id(self) -> u32 {
        self.packed as u32
    }

    /// Returns the slot of the group's first flow: a hint for prefetching, which may be stale.
    #[inline(always)]
    pub(super) fn slot(self) -> u32 {
        (self.packed >> 32) as u32
    }
}

/// The four children of an entry, in one cache line. Empty places have the largest key.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct HeapNode<K>([HeapEntry<K>; ARITY]);

/// A 4-ary heap in which the key of an entry can change: the caller's `places` has the place of each entry, by its
/// number.
///
/// The root has place 0 and lies outside the nodes, so that a heap of one entry needs no node. The children of place
/// `at` are node `at`; the first of them has place `4 at + 1`.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct IndexedHeap<K> {
    /// [`HeapEntry::EMPTY`] if there is no entry.
    root: HeapEntry<K>,
    len: u32,
    nodes: Vec<HeapNode<K>>,
}

impl<K: Order> Default for IndexedHeap<K> {
    fn default() -> Self {
        IndexedHeap { root: HeapEntry::EMPTY, len: 0, nodes: Vec::new() }
    }
}

#[inline]
fn parent(at: usize) -> usize {
    (at - 1) / ARITY
}

impl<K: Order> IndexedHeap<K> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the smallest key; the largest possible one if there is no entry.
    #[inline]
    pub(super) fn first(&self) -> K {
        self.root.key
    }

    /// Returns the entry of the smallest key; [`HeapEntry::EMPTY`] if there is none.
    #[inline]
    pub(super) fn first_entry(&self) -> HeapEntry<K> {
        self.root
    }

    /// Returns the entry with the second-smallest key, and all children of the root, which include this entry. Removed
    /// entries show as `EMPTY`; `None` if there never was a second entry.
    #[inline]
    pub(super) fn next(&self) -> Option<(HeapEntry<K>, &[HeapEntry<K>])> {
        self.nodes.first().map(|node| (smallest(&node.0).1, &node.0[..]))
    }

    #[inline]
    fn entry(&self, at: usize) -> HeapEntry<K> {
        if at == 0 { self.root } else { self.nodes[parent(at)].0[(at - 1) % ARITY] }
    }

    #[inline]
    fn put(&mut self, at: usize, entry: HeapEntry<K>) {
        if at == 0 {
            self.root = entry;
        } else {
            self.nodes[parent(at)].0[(at - 1) % ARITY] = entry;
        }
    }

    pub(super) fn insert(&mut self, places: &mut [u32], entry: HeapEntry<K>) {
        let at = self.len as usize;
        if at > 0 && parent(at) == self.nodes.len() {
            self.nodes.push(HeapNode([HeapEntry::EMPTY; ARITY]));
        }
        self.len += 1;
        self.sift_up(places, at, entry);
    }

    pub(super) fn remove(&mut self, places: &mut [u32], id: u32) {
        let at = std::mem::replace(&mut places[id as usize], NONE) as usize;
        self.len -= 1;
        let end = self.len as usize;
        let last = self.entry(end);
        self.put(end, HeapEntry::EMPTY);
        if at < end {
            self.sift(places, at, last);
        }
    }

    /// Gives an entry another key.
    #[inline]
    pub(super) fn update(&mut self, places: &mut [u32], entry: HeapEntry<K>) {
        let at = places[entry.id() as usize] as usize;
        if at == 0 && self.len == 1 {
            self.root = entry;
        } else {
            self.sift(places, at, entry);
        }
    }

    /// Returns the number of the first entry if no other entry has a key up to `limit`; the first one must have such
    /// a key.
    #[inline]
    pub(super) fn only_up_to(&self, limit: K) -> Option<u32> {
        (self.len == 1 || !self.has_second_up_to(limit)).then_some(self.root.id())
    }

    #[inline]
    fn has_second_up_to(&self, limit: K) -> bool {
        let any = |node: &HeapNode<K>| node.0.iter().fold(false, |any, of| any | (of.key <= limit));
        self.nodes.first().is_some_and(any)
    }

    /// Adds to `found` the numbers of all entries with keys up to `limit`, without visiting all others; the first
    /// entry must have such a key.
    #[inline]
    pub(super) fn up_to(&self, limit: K, found: &mut Vec<u32>) {
        found.push(self.root.id());
        if self.has_second_up_to(limit) {
            self.children_up_to(0, limit, found);
        }
    }

    fn children_up_to(&self, at: usize, limit: K, found: &mut Vec<u32>) {
        let Some(node) = self.nodes.get(at) else { return };
        for (i, entry) in node.0.iter().enumerate() {
            if entry.key <= limit && entry.id() != NONE {
                found.push(entry.id());
                self.children_up_to(ARITY * at + 1 + i, limit, found);
            }
        }
    }

    /// Gives every entry a new key.
    pub(super) fn rekey(&mut self, places: &mut [u32], key: impl Fn(u32) -> K) {
        for at in (0..self.len as usize).rev() {
            let entry = self.entry(at);
            self.sift_down(places, at, HeapEntry { key: key(entry.id()), ..entry });
        }
    }

    #[inline]
    fn sift(&mut self, places: &mut [u32], at: usize, entry: HeapEntry<K>) {
        if at > 0 && entry.key < self.entry(parent(at)).key {
            self.sift_up(places, at, entry);
        } else {
            self.sift_down(places, at, entry);
        }
    }

    #[inline]
    fn sift_up(&mut self, places: &mut [u32], mut at: usize, moving: HeapEntry<K>) {
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
    fn sift_down(&mut self, places: &mut [u32], mut at: usize, moving: HeapEntry<K>) {
        while let Some(node) = self.nodes.get(at) {
            let (i, least) = smallest(&node.0);
            if moving.key <= least.key {
                break;
            }
            self.settle(places, at, least);
            at = ARITY * at + 1 + i;
        }
        self.settle(places, at, moving);
    }

    #[inline]
    fn settle(&mut self, places: &mut [u32], at: usize, entry: HeapEntry<K>) {
        self.put(at, entry);
        places[entry.id() as usize] = at as u32;
    }
}

/// Returns the index and the entry of the smallest key, the first of equal ones. The entries are compared in two
/// pairs, then the smaller ones with each other, which needs no branches.
#[inline]
fn smallest<K: Order>(node: &[HeapEntry<K>; ARITY]) -> (usize, HeapEntry<K>) {
    let semifinal = |a: usize, b: usize| if node[b].key < node[a].key { b } else { a };
    let (left, right) = (semifinal(0, 1), semifinal(2, 3));
    let best = semifinal(left, right);
    (best, node[best])
}
