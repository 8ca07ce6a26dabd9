//! A 4-ary min-heap: half the depth of a binary one, and the four children share a cache line.
//!
//! Entries of equal key leave in no promised order; callers make keys unique.

/// Number of children of each node.
const ARITY: usize = 4;

/// A min-heap of values under keys.
#[derive(Debug, Clone)]
pub struct Heap<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Heap<K, V> {
    fn default() -> Self {
        Heap { entries: Vec::new() }
    }
}

impl<K: Copy + PartialOrd, V: Copy> Heap<K, V> {
    /// Creates a heap without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns an entry with the smallest key; `None` if the heap is empty.
    #[inline]
    pub fn peek(&self) -> Option<&(K, V)> {
        self.entries.first()
    }

    /// Returns all entries: the first has the smallest key, the others are in no promised order.
    #[inline]
    pub fn as_slice(&self) -> &[(K, V)] {
        &self.entries
    }

    /// Adds `value` under `key`.
    #[inline]
    pub fn push(&mut self, key: K, value: V) {
        let entry = (key, value);
        self.entries.push(entry);
        // `entry` is passed on, because reading it back would have to wait until both its parts are written.
        self.sift_up(self.entries.len() - 1, entry);
    }

    /// Removes an entry with the smallest key. Always inlined, because most heaps are so shallow that a call would
    /// cost more than its work.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(K, V)> {
        let last = self.entries.pop()?;
        let Some(&top) = self.entries.first() else {
            return Some(last);
        };
        self.sift_down(0, last);
        Some(top)
    }

    /// Removes all entries except those for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&(K, V)) -> bool) {
        self.entries.retain(keep);
        self.rebuild();
    }

    /// Replaces every key by `to(key)`.
    pub fn rekey(&mut self, to: impl Fn(K) -> K) {
        for (key, _) in &mut self.entries {
            *key = to(*key);
        }
        self.rebuild();
    }

    fn rebuild(&mut self) {
        for at in (0..self.entries.len().div_ceil(ARITY)).rev() {
            self.sift_down(at, self.entries[at]);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, moving: (K, V)) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.entries[parent].0 <= moving.0 {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = moving;
    }

    #[inline(always)]
    fn sift_down(&mut self, mut at: usize, moving: (K, V)) {
        while let Some((child, key)) = smallest_child(&self.entries, at) {
            if moving.0 <= key {
                break;
            }
            self.entries[at] = self.entries[child];
            at = child;
        }
        self.entries[at] = moving;
    }
}

/// Returns the position and the key of the smallest child of `at`; `None` if it has no children.
#[inline]
fn smallest_child<K: Copy + PartialOrd, V>(entries: &[(K, V)], at: usize) -> Option<(usize, K)> {
    let first = ARITY * at + 1;
    let children = entries.get(first..)?;
    let smaller = |a: usize, b: usize| if children[b].0 < children[a].0 { b } else { a };
    // Nearly every node has all its children: testing for that first spares a test for each child.
    let best = match children.len() {
        ARITY.. => smaller(smaller(0, 1), smaller(2, 3)),
        3 => smaller(smaller(0, 1), 2),
        2 => smaller(0, 1),
        1 => 0,
        0 => return None,
    };
    Some((first + best, children[best].0))
}
