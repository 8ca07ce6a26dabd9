//! The smallest of many keys, of which a few change at a time.
//!
//! A complete binary tree of minima over fixed places: a change costs one comparison per
//! level, and stops where the minimum stays.

/// The smallest key over numbered places.
#[derive(Debug, Clone)]
pub struct Tournament<K> {
    /// Node 1 is the root, node i has the children 2i and 2i + 1; the second half are places.
    nodes: Vec<K>,
    idle: K,
}

impl<K: Copy + Ord> Tournament<K> {
    /// No places yet; `idle` is the key of a place without one, above all others.
    pub fn new(idle: K) -> Self {
        Tournament { nodes: vec![idle; 2], idle }
    }

    /// Makes room for `places` places.
    pub fn grow(&mut self, places: usize) {
        let old = self.width();
        if places <= old {
            return;
        }
        let width = places.next_power_of_two();
        let mut nodes = vec![self.idle; 2 * width];
        nodes[width..width + old].copy_from_slice(&self.nodes[old..]);
        for at in (1..width).rev() {
            nodes[at] = nodes[2 * at].min(nodes[2 * at + 1]);
        }
        self.nodes = nodes;
    }

    fn width(&self) -> usize {
        self.nodes.len() / 2
    }

    /// The smallest key.
    #[inline]
    pub fn min(&self) -> K {
        self.nodes[1]
    }

    /// The key at `place`.
    #[inline]
    pub fn get(&self, place: usize) -> K {
        self.nodes[self.width() + place]
    }

    /// Puts `key` at `place`.
    #[inline]
    pub fn set(&mut self, place: usize, key: K) {
        let mut at = self.width() + place;
        self.nodes[at] = key;
        while at > 1 {
            at /= 2;
            let best = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
            if self.nodes[at] == best {
                break;
            }
            self.nodes[at] = best;
        }
    }

    /// The first place that holds the smallest key.
    #[inline]
    pub fn first(&self) -> usize {
        let (width, best) = (self.width(), self.min());
        let mut at = 1;
        while at < width {
            at = if self.nodes[2 * at] == best { 2 * at } else { 2 * at + 1 };
        }
        at - width
    }

    /// All places that hold the smallest key, ascending; found without visiting the others.
    #[inline]
    pub fn all_first(&self, found: &mut Vec<u32>) {
        let (width, best) = (self.width(), self.min());
        let mut at = 1;
        while at < width {
            let [left, right] = [self.nodes[2 * at], self.nodes[2 * at + 1]];
            if left == best && right == best {
                return self.collect(at, found);
            }
            at = 2 * at + usize::from(left != best);
        }
        found.push((at - width) as u32);
    }

    #[cold]
    fn collect(&self, at: usize, found: &mut Vec<u32>) {
        if self.nodes[at] != self.min() {
            return;
        }
        if at >= self.width() {
            return found.push((at - self.width()) as u32);
        }
        self.collect(2 * at, found);
        self.collect(2 * at + 1, found);
    }
}
