//! A circular queue's slots, and how often each is read.

use forebay_engine::Time;
use forebay_engine::stats::LogHistogram;

use crate::cycle::Cycle;

/// Largest number of reads that has an entry of its own in `reuse`; samples that were read more often count as read this often.
const MOST_READS: usize = 1024;

/// The slots of a circular queue: producers overwrite the oldest sample, and the trainer reads the slots round and round.
#[derive(Debug, Default)]
pub(super) struct Ring {
    slots: Cycle<Slot>,
    /// Samples that were overwritten before anyone read them.
    pub(super) overwritten_unread: u64,
    /// Number of samples that were overwritten, by how often they had been read.
    pub(super) reuse: Vec<u64>,
    /// Ages of samples when read.
    pub(super) ages: LogHistogram,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    since: Time,
    reads: u32,
}

impl Ring {
    /// Returns the number of samples in the ring.
    pub(super) fn len(&self) -> u64 {
        self.slots.len()
    }

    /// Returns the number of samples in the ring that nobody has read.
    pub(super) fn unread(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.reads == 0).count() as u64
    }

    /// Discards all samples in the ring; returns the number of those that nobody has read.
    pub(super) fn clear(&mut self) -> u64 {
        let unread = self.unread();
        self.slots.clear();
        unread
    }

    /// Puts a sample in; it replaces the oldest one if there are `capacity` already.
    pub(super) fn put(&mut self, now: Time, capacity: u64) {
        let Some(old) = self.slots.put(Slot { since: now, reads: 0 }, capacity) else { return };
        let reads = (old.reads as usize).min(MOST_READS);
        if self.reuse.len() <= reads {
            self.reuse.resize(reads + 1, 0);
        }
        self.reuse[reads] += 1;
        self.overwritten_unread += u64::from(old.reads == 0);
    }

    /// Reads the next `batch` slots. Returns the number of unread samples among them, and the time that these had spent in the
    /// ring [sample·ps].
    pub(super) fn read(&mut self, now: Time, batch: u64) -> (u64, u128) {
        let (mut fresh, mut residence_ps) = (0, 0);
        for _ in 0..batch {
            let slot = self.slots.read();
            let age = now.since(slot.since);
            self.ages.add(age.seconds(), 1);
            if slot.reads == 0 {
                fresh += 1;
                residence_ps += age.0 as u128;
            }
            slot.reads = slot.reads.saturating_add(1);
        }
        (fresh, residence_ps)
    }
}
