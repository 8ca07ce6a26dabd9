//! Slots of a circular queue.

/// Slots that a writer fills and a reader reads, each round and round.
#[derive(Debug, Clone)]
pub struct Cycle<T> {
    slots: Vec<T>,
    /// Slot that is overwritten next once all slots are filled.
    write: usize,
    read: usize,
}

impl<T> Default for Cycle<T> {
    fn default() -> Cycle<T> {
        Cycle { slots: Vec::new(), write: 0, read: 0 }
    }
}

impl<T> Cycle<T> {
    /// Returns the number of filled slots.
    pub fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns whether the circular queue holds no item.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the filled slots.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter()
    }

    /// Fills the next slot with `item`. If there are `capacity` filled slots already, returns the oldest item, which `item`
    /// replaces.
    pub fn put(&mut self, item: T, capacity: u64) -> Option<T> {
        if self.len() < capacity {
            self.slots.push(item);
            return None;
        }
        let old = std::mem::replace(&mut self.slots[self.write], item);
        self.write = (self.write + 1) % self.slots.len();
        Some(old)
    }

    /// Returns the slot that is read next; a slot must be filled.
    pub fn read(&mut self) -> &mut T {
        let slot = self.read;
        self.read = (slot + 1) % self.slots.len();
        &mut self.slots[slot]
    }

    /// Empties all slots.
    pub fn clear(&mut self) {
        self.slots.clear();
        (self.write, self.read) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_replace_the_oldest_item_and_readers_go_round() {
        // System: three slots; items 0 to 4 are put in, and five reads follow. Expectation: items 3 and 4 replace items 0 and 1;
        // the reads go round from the first slot, which holds item 3.
        let mut cycle = Cycle::default();
        let replaced: Vec<Option<u32>> = (0..5).map(|item| cycle.put(item, 3)).collect();
        assert_eq!(replaced, [None, None, None, Some(0), Some(1)]);
        let read: Vec<u32> = (0..5).map(|_| *cycle.read()).collect();
        assert_eq!(read, [3, 4, 2, 3, 4]);
        cycle.clear();
        assert!(cycle.is_empty());
        cycle.put(5, 3);
        assert_eq!(*cycle.read(), 5);
    }
}
