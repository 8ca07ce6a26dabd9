//! A heap for keys that never lie before the key that left last: a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, *Faster
//! algorithms for the shortest path problem*, 1990) with a sorted front.
//!
//! Entries wait unsorted in buckets. A bucket is a digit of the time, at the highest place in which the time differs from
//! `base`, a time that is not after the first entry. When the first bucket is needed, it is sorted if it is small, and else
//! spread over buckets of the next digit. So an entry is moved a few times in its life, to the end of a list each time, where a
//! binary or 4-ary heap of as many entries compares it with entries all over the heap.

/// The instant [ps] in the upper 64 bits, the order of scheduling in the lower 64.
pub(super) type Key = u128;
pub(super) const NO_KEY: Key = Key::MAX;

/// Bits of a digit: the number of buckets of each place is 2 to this power.
const BITS: u32 = 6;
const DIGITS: usize = 1 << BITS;
const PLACES: usize = u64::BITS.div_ceil(BITS) as usize;
/// Largest number of entries that are sorted at once.
const SORTED: usize = 64;
/// Number of entries of a block.
const BLOCK: usize = 8;
const NONE: u32 = u32::MAX;

/// Entries in no order, as a chain of blocks, all full except the first.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Smallest key; [`NO_KEY`] if the bucket is empty.
    least: Key,
    block: u32,
    len: u32,
}

impl Bucket {
    const EMPTY: Bucket = Bucket { least: NO_KEY, block: NONE, len: 0 };
}

/// The blocks of all buckets. They are shared, so that those in use lie close together in memory.
#[derive(Debug, Clone)]
struct Blocks<E> {
    entries: Vec<(Key, E)>,
    /// For each block, the next one of its bucket, or of the list of free blocks.
    next: Vec<u32>,
    free: u32,
}

impl<E: Copy> Blocks<E> {
    #[inline]
    fn push(&mut self, bucket: &mut Bucket, key: Key, event: E) {
        let place = bucket.len as usize % BLOCK;
        if place == 0 {
            bucket.block = self.take_block(bucket.block, (key, event));
        }
        self.entries[bucket.block as usize * BLOCK + place] = (key, event);
        bucket.len += 1;
        bucket.least = bucket.least.min(key);
    }

    /// Takes a free block, before which `next` was the first of its bucket.
    fn take_block(&mut self, next: u32, fill: (Key, E)) -> u32 {
        if self.free == NONE {
            self.entries.resize(self.entries.len() + BLOCK, fill);
            self.next.push(next);
            return self.next.len() as u32 - 1;
        }
        let block = self.free;
        self.free = std::mem::replace(&mut self.next[block as usize], next);
        block
    }

    /// Moves the entries of a bucket to the end of `to`.
    fn drain(&mut self, bucket: Bucket, to: &mut Vec<(Key, E)>) {
        let (mut block, mut left) = (bucket.block, bucket.len as usize);
        while left > 0 {
            let (first, full) = (block as usize * BLOCK, left.is_multiple_of(BLOCK));
            let here = if full { BLOCK } else { left % BLOCK };
            to.extend_from_slice(&self.entries[first..first + here]);
            left -= here;
            let next = std::mem::replace(&mut self.next[block as usize], self.free);
            self.free = block;
            block = next;
        }
    }
}

/// A min-heap of events under keys, none of which may lie before the key that left last.
#[derive(Debug, Clone)]
pub(super) struct RadixHeap<E> {
    /// The entries before `until`, in order; those before `head` have left.
    front: Vec<(Key, E)>,
    head: usize,
    until: Key,
    /// A time [ps] that is not after any entry, and that decides the bucket of each.
    base: u64,
    buckets: Box<[Bucket]>,
    /// Bit sets: for each place, the digits whose buckets are not empty; and the places that have such buckets.
    digits: [u64; PLACES],
    places: u32,
    blocks: Blocks<E>,
    len: usize,
}

impl<E: Copy> RadixHeap<E> {
    pub(super) fn new() -> Self {
        RadixHeap {
            front: Vec::new(),
            head: 0,
            until: 0,
            base: 0,
            buckets: vec![Bucket::EMPTY; PLACES * DIGITS].into(),
            digits: [0; PLACES],
            places: 0,
            blocks: Blocks { entries: Vec::new(), next: Vec::new(), free: NONE },
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the smallest key; [`NO_KEY`] if there is no entry.
    #[inline]
    pub(super) fn first(&self) -> Key {
        match self.front.get(self.head) {
            Some(first) => first.0,
            None if self.places == 0 => NO_KEY,
            None => self.buckets[self.first_bucket()].least,
        }
    }

    /// Returns entry `number` of those in order at the front; `None` if they are fewer.
    #[inline]
    pub(super) fn peek(&self, number: usize) -> Option<E> {
        self.front.get(self.head + number).map(|entry| entry.1)
    }

    #[inline]
    pub(super) fn push(&mut self, key: Key, event: E) {
        self.len += 1;
        if key < self.until {
            self.insert(key, event);
        } else {
            self.file(key, event);
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<E> {
        if self.head == self.front.len() {
            self.refill();
        }
        let event = self.front.get(self.head)?.1;
        self.head += 1;
        self.len -= 1;
        if self.front.len() - self.head == SORTED / 4 {
            self.lengthen();
        }
        Some(event)
    }

    /// Removes all entries except those for which `keep` holds.
    pub(super) fn retain(&mut self, keep: impl FnMut(&(Key, E)) -> bool) {
        let mut all = self.front.split_off(self.head);
        while self.places != 0 {
            self.empty_first_bucket(&mut all);
        }
        all.retain(keep);
        self.front.clear();
        (self.head, self.until, self.len) = (0, 0, 0);
        all.into_iter().for_each(|(key, event)| self.push(key, event));
    }

    #[inline]
    fn first_bucket(&self) -> usize {
        let place = self.places.trailing_zeros() as usize;
        place * DIGITS + self.digits[place].trailing_zeros() as usize
    }

    /// Puts an entry into its bucket.
    #[inline]
    fn file(&mut self, key: Key, event: E) {
        let time = (key >> 64) as u64;
        // Without a difference, the place is that of the last digit.
        let place = ((time ^ self.base) | 1).ilog2() / BITS;
        let digit = (time >> (place * BITS)) as usize % DIGITS;
        let bucket = &mut self.buckets[place as usize * DIGITS + digit];
        self.blocks.push(bucket, key, event);
        self.digits[place as usize] |= 1 << digit;
        self.places |= 1 << place;
    }

    /// Puts an entry among those at the front.
    #[inline]
    fn insert(&mut self, key: Key, event: E) {
        self.forget_left();
        let at = self.head + self.front[self.head..].partition_point(|entry| entry.0 < key);
        if at < self.front.len() && self.front.len() - self.head >= 2 * SORTED {
            self.shorten();
            return if key < self.until { self.insert(key, event) } else { self.file(key, event) };
        }
        self.front.insert(at, (key, event));
    }

    /// Moves all entries but the first few from the front back to buckets, because entries are inserted before them.
    #[cold]
    fn shorten(&mut self) {
        let rest = self.front.split_off(self.head + SORTED / 2);
        self.until = rest.first().map_or(self.until, |entry| entry.0);
        rest.into_iter().for_each(|(key, event)| self.file(key, event));
    }

    /// Empties the first bucket into `to`; returns the place of its digit.
    fn empty_first_bucket(&mut self, to: &mut Vec<(Key, E)>) -> u32 {
        let (number, place) = (self.first_bucket(), self.places.trailing_zeros());
        let bucket = std::mem::replace(&mut self.buckets[number], Bucket::EMPTY);
        self.blocks.drain(bucket, to);
        let digits = &mut self.digits[place as usize];
        *digits &= *digits - 1;
        if *digits == 0 {
            self.places &= self.places - 1;
        }
        place
    }

    /// Adds the buckets that come next to the front, as long as there are few entries in it, so that the events after the next one
    /// are known. `base` stays: events before these buckets may yet be scheduled.
    fn lengthen(&mut self) {
        self.forget_left();
        let mut front = std::mem::take(&mut self.front);
        while self.places != 0 {
            let Bucket { least, len, .. } = self.buckets[self.first_bucket()];
            let sorted = front.len();
            if sorted - self.head + len as usize > SORTED {
                break;
            }
            let place = self.empty_first_bucket(&mut front);
            self.until = self.end_of_digit((least >> 64) as u64, place);
            front[sorted..].sort_unstable_by_key(|entry| entry.0);
        }
        self.front = front;
    }

    /// Frees the memory of entries that have left the front, once there are many of them.
    fn forget_left(&mut self) {
        if self.head >= 2 * SORTED {
            self.front.drain(..std::mem::take(&mut self.head));
        }
    }

    /// Returns the first key after those with the same digit as `time` at `place`, and the same digits before it.
    fn end_of_digit(&self, time: u64, place: u32) -> Key {
        let digits = u128::from(time >> (place * BITS)) + 1;
        (digits << (place * BITS)).checked_mul(1 << 64).unwrap_or(NO_KEY)
    }

    /// Moves the entries that come first to the front, which is empty.
    fn refill(&mut self) {
        self.head = 0;
        self.front.clear();
        while self.places != 0 {
            let mut front = std::mem::take(&mut self.front);
            let place = self.empty_first_bucket(&mut front);
            let time = (front[0].0 >> 64) as u64;
            self.base = time >> (place * BITS) << (place * BITS);
            if place == 0 || front.len() <= SORTED {
                self.until = self.end_of_digit(time, place);
                front.sort_unstable_by_key(|entry| entry.0);
                self.front = front;
                return self.lengthen();
            }
            front.drain(..).for_each(|(key, event)| self.file(key, event));
            self.front = front;
        }
    }
}
