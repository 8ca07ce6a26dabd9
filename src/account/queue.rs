//! The last buffer of a loader: bounded, or circular, with its accounts.

use std::collections::VecDeque;

use crate::engine::{PS_PER_SECOND, Time};
use crate::report::{Exhaustion, QueueOutcome, QueueTotals};
use crate::stats::LogHistogram;

use super::recorder::Snapshots;

/// Samples between a loader and the model copies of one node.
///
/// What every sample needs comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Queue {
    accounts: Accounts,
    capacity: u64,
    /// Samples that are taken together.
    batch: u64,
    level: u64,
    /// Workers that wait for room.
    blocked: u32,
    /// Model copies that wait for a batch.
    waiting: u32,
    /// When the next snapshot is to be taken; never if none are.
    next_snapshot: Time,
    contents: Contents,
    initial: u64,
    /// Whether a model copy has been served at once since the last exhaustion.
    ready: bool,
    exhaustions: Vec<Exhaustion>,
    exhausted_since: Option<Time>,
    snapshots: Option<Snapshots>,
}

/// Integer integrals over time: exact, so that Little's law can be checked to the picosecond.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Accounts {
    level_ps: u128,
    blocked_ps: u128,
    last: Time,
    empty_ps: u64,
    enqueued: u64,
    dequeued: u64,
    residence_ps: u128,
}

#[derive(Debug)]
enum Contents {
    Bounded(Stamps),
    Circular(Box<Ring>),
}

/// When samples came in. They leave batch by batch, so that a sum for each batch is enough.
#[derive(Debug)]
struct Stamps {
    batch: u64,
    /// Of each full batch the sum over its samples [ps], oldest first.
    sums: VecDeque<u128>,
    /// The sum of the batch that is not full, and its number of samples.
    open: u128,
    samples: u64,
}

/// A ring that producers overwrite and the trainer reads round and round.
#[derive(Debug, Default)]
struct Ring {
    slots: Vec<Slot>,
    write: usize,
    read: usize,
    overwritten_unread: u64,
    reuse: Vec<u64>,
    ages: LogHistogram,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    since: Time,
    reads: u32,
}

/// Reads beyond this are counted together.
const MOST_READS: usize = 1024;

impl Queue {
    /// A queue that holds `initial` samples, from which `batch` are taken at a time.
    pub(crate) fn new(capacity: u64, batch: u64, circular: bool, initial: u64, now: Time) -> Queue {
        let contents = if circular {
            let mut ring = Ring::default();
            (0..initial).for_each(|_| ring.put(now, capacity));
            Contents::Circular(Box::new(ring))
        } else {
            let mut stamps = Stamps { batch, sums: VecDeque::new(), open: 0, samples: 0 };
            stamps.put(now, initial);
            Contents::Bounded(stamps)
        };
        Queue {
            capacity,
            batch,
            initial,
            level: initial,
            blocked: 0,
            waiting: 0,
            accounts: Accounts { last: now, ..Accounts::default() },
            contents,
            ready: initial > 0,
            exhaustions: Vec::new(),
            exhausted_since: None,
            next_snapshot: Time::NEVER,
            snapshots: None,
        }
    }

    /// From now on keeps the history for a series that begins at `start`.
    pub(crate) fn record(&mut self, start: Time) {
        let snapshots = Snapshots::new(start);
        self.next_snapshot = snapshots.next();
        self.snapshots = Some(snapshots);
    }

    /// The history, if it was recorded.
    pub(crate) fn snapshots(&self) -> Option<&Snapshots> {
        self.snapshots.as_ref()
    }

    /// Samples that fit in.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Samples that can be taken.
    #[inline]
    pub(crate) fn level(&self) -> u64 {
        self.level
    }

    /// Whether a batch can be taken.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        self.level >= self.batch
    }

    /// Whether `samples` more can be put in.
    #[inline]
    pub(crate) fn has_room(&self, samples: u64) -> bool {
        match self.contents {
            Contents::Bounded(_) => self.level + samples <= self.capacity,
            Contents::Circular(_) => true,
        }
    }

    /// Puts `samples` in; there must be room.
    #[inline]
    pub(crate) fn put(&mut self, now: Time, samples: u64) {
        self.account(now);
        debug_assert!(self.has_room(samples), "no room");
        self.accounts.enqueued += samples;
        match &mut self.contents {
            Contents::Bounded(stamps) => {
                stamps.put(now, samples);
                self.level += samples;
            }
            Contents::Circular(ring) => {
                (0..samples).for_each(|_| ring.put(now, self.capacity));
                self.level = ring.slots.len() as u64;
            }
        }
    }

    /// Takes a batch, which must be there; how many of its samples are fresh.
    pub(crate) fn take(&mut self, now: Time) -> u64 {
        self.account(now);
        debug_assert!(self.has_batch(), "not enough samples");
        let batch = self.batch;
        match &mut self.contents {
            Contents::Bounded(stamps) => {
                self.level -= batch;
                self.accounts.residence_ps += stamps.take(now);
                self.accounts.dequeued += batch;
                batch
            }
            Contents::Circular(ring) => {
                let (fresh, residence_ps) = ring.read(now, batch);
                self.accounts.residence_ps += residence_ps;
                self.accounts.dequeued += fresh;
                fresh
            }
        }
    }

    /// A worker begins or ends waiting for room.
    pub(crate) fn set_blocked(&mut self, now: Time, more: bool) {
        self.account(now);
        self.blocked = if more { self.blocked + 1 } else { self.blocked - 1 };
    }

    /// A model copy was served at once.
    pub(crate) fn served_at_once(&mut self) {
        self.ready = true;
    }

    /// A model copy begins to wait.
    pub(crate) fn begin_wait(&mut self, now: Time) {
        self.account(now);
        self.waiting += 1;
        if self.ready {
            self.ready = false;
            self.exhausted_since = Some(now);
        }
    }

    /// A waiting model copy is served.
    pub(crate) fn end_wait(&mut self, now: Time) {
        self.account(now);
        self.waiting -= 1;
        self.end_exhaustion(now);
    }

    fn end_exhaustion(&mut self, now: Time) {
        if let Some(since) = self.exhausted_since.take() {
            let duration = now.since(since).seconds();
            self.exhaustions.push(Exhaustion { start: since.seconds(), duration });
        }
    }

    /// Brings the integrals up to `now`.
    #[inline]
    fn account(&mut self, now: Time) {
        if now == self.accounts.last {
            return;
        }
        if self.next_snapshot <= now {
            self.take_snapshots(now);
        }
        self.accounts.run(now, self.level, self.blocked, self.waiting);
    }

    #[cold]
    fn take_snapshots(&mut self, now: Time) {
        let Some(snapshots) = &mut self.snapshots else { return };
        while self.next_snapshot <= now {
            self.accounts.run(self.next_snapshot, self.level, self.blocked, self.waiting);
            snapshots.take(self.accounts.totals());
            self.next_snapshot = snapshots.next();
        }
    }

    /// The running totals at `now`.
    pub(crate) fn totals(&mut self, now: Time) -> QueueTotals {
        self.account(now);
        self.accounts.totals()
    }

    /// Samples that were overwritten before anyone read them.
    pub(crate) fn overwritten(&self) -> u64 {
        match &self.contents {
            Contents::Bounded(_) => 0,
            Contents::Circular(ring) => ring.overwritten_unread,
        }
    }

    /// Samples inside that nobody has read.
    pub(crate) fn left(&self) -> u64 {
        match &self.contents {
            Contents::Bounded(_) => self.level,
            Contents::Circular(ring) => ring.slots.iter().filter(|s| s.reads == 0).count() as u64,
        }
    }

    /// Adds what this queue showed to `outcome`.
    pub(crate) fn collect(&mut self, now: Time, outcome: &mut QueueOutcome) {
        self.account(now);
        self.end_exhaustion(now);
        outcome.capacity += self.capacity;
        outcome.initial += self.initial;
        outcome.level += self.level;
        outcome.exhaustions.append(&mut self.exhaustions);
        if let Contents::Circular(ring) = &self.contents {
            outcome.reuse.resize(outcome.reuse.len().max(ring.reuse.len()), 0);
            outcome.reuse.iter_mut().zip(&ring.reuse).for_each(|(sum, n)| *sum += n);
        }
    }

    /// Ages of samples when read, for circular queues.
    pub(crate) fn ages(&self) -> Option<&LogHistogram> {
        match &self.contents {
            Contents::Bounded(_) => None,
            Contents::Circular(ring) => Some(&ring.ages),
        }
    }
}

impl Stamps {
    #[inline]
    fn put(&mut self, now: Time, mut samples: u64) {
        while samples > 0 {
            let put = samples.min(self.batch - self.samples);
            self.open += now.0 as u128 * put as u128;
            self.samples += put;
            samples -= put;
            if self.samples == self.batch {
                self.sums.push_back(self.open);
                (self.open, self.samples) = (0, 0);
            }
        }
    }

    /// Time that the samples of the oldest batch have spent inside [sample·ps]; removes them.
    fn take(&mut self, now: Time) -> u128 {
        let sum = self.sums.pop_front().expect("the level counts what is inside");
        now.0 as u128 * self.batch as u128 - sum
    }
}

impl Ring {
    fn put(&mut self, now: Time, capacity: u64) {
        let slot = Slot { since: now, reads: 0 };
        if (self.slots.len() as u64) < capacity {
            self.slots.push(slot);
            return;
        }
        let old = std::mem::replace(&mut self.slots[self.write], slot);
        self.write = (self.write + 1) % self.slots.len();
        let reads = (old.reads as usize).min(MOST_READS);
        if self.reuse.len() <= reads {
            self.reuse.resize(reads + 1, 0);
        }
        self.reuse[reads] += 1;
        self.overwritten_unread += u64::from(old.reads == 0);
    }

    /// Reads the next `batch` slots; (unread ones among them, time those had spent inside).
    fn read(&mut self, now: Time, batch: u64) -> (u64, u128) {
        let (mut fresh, mut residence_ps) = (0, 0);
        for _ in 0..batch {
            let slot = &mut self.slots[self.read];
            let age = now.since(slot.since);
            self.ages.add(age.seconds(), 1);
            if slot.reads == 0 {
                fresh += 1;
                residence_ps += age.0 as u128;
            }
            slot.reads = slot.reads.saturating_add(1);
            self.read = (self.read + 1) % self.slots.len();
        }
        (fresh, residence_ps)
    }
}

impl Accounts {
    #[inline]
    fn run(&mut self, to: Time, level: u64, blocked: u32, waiting: u32) {
        let dt = to.since(self.last).0;
        self.last = to;
        self.level_ps += level as u128 * dt as u128;
        self.blocked_ps += blocked as u128 * dt as u128;
        if waiting > 0 {
            self.empty_ps += dt;
        }
    }

    fn totals(&self) -> QueueTotals {
        QueueTotals {
            level_seconds: self.level_ps as f64 / PS_PER_SECOND,
            empty_seconds: self.empty_ps as f64 / PS_PER_SECOND,
            enqueued: self.enqueued,
            dequeued: self.dequeued,
            blocked_seconds: self.blocked_ps as f64 / PS_PER_SECOND,
            residence_seconds: self.residence_ps as f64 / PS_PER_SECOND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000_000;

    #[test]
    fn littles_law_holds_exactly_when_the_queue_ends_empty() {
        // System: 2 samples at 0, 1 at 1 s; 1 taken at 2 s, 2 at 5 s. Expectation: the level's
        // integral is 2 + 3 + 2·3 = 11, and so is the time spent inside, 2 + 5 + 4.
        let mut queue = Queue::new(10, 1, false, 0, Time(0));
        queue.put(Time(0), 2);
        queue.put(Time(S), 1);
        assert_eq!(queue.take(Time(2 * S)), 1);
        assert_eq!((queue.take(Time(5 * S)), queue.take(Time(5 * S))), (1, 1));
        let totals = queue.totals(Time(7 * S));
        assert_eq!(totals.level_seconds, 11.0);
        assert_eq!(totals.residence_seconds, 11.0);
        assert_eq!((totals.enqueued, totals.dequeued), (3, 3));
    }

    #[test]
    fn exhaustion_needs_a_queue_that_had_been_ready() {
        let mut queue = Queue::new(4, 1, false, 0, Time(0));
        queue.begin_wait(Time(0)); // never ready before: filling, not exhaustion
        queue.end_wait(Time(S));
        queue.served_at_once();
        queue.begin_wait(Time(2 * S));
        queue.end_wait(Time(3 * S));
        queue.begin_wait(Time(4 * S)); // still starving: the same drought
        queue.end_wait(Time(5 * S));
        let mut outcome = QueueOutcome::default();
        queue.collect(Time(6 * S), &mut outcome);
        assert_eq!(outcome.exhaustions, [Exhaustion { start: 2.0, duration: 1.0 }]);
        assert_eq!(queue.totals(Time(6 * S)).empty_seconds, 3.0);
    }

    #[test]
    fn a_circular_queue_counts_reuse_and_age() {
        // System: 2 slots filled at 0; both read at 1 s and again at 2 s; one overwritten at 3 s,
        // and both read at 4 s. Expectation: fresh 2, 0, then 1 (the new one); the overwritten one
        // had been read twice.
        let mut queue = Queue::new(2, 2, true, 0, Time(0));
        queue.put(Time(0), 2);
        assert_eq!(queue.take(Time(S)), 2);
        assert_eq!(queue.take(Time(2 * S)), 0);
        queue.put(Time(3 * S), 1);
        assert_eq!(queue.take(Time(4 * S)), 1);
        assert_eq!((queue.overwritten(), queue.left()), (0, 0));
        queue.put(Time(5 * S), 2);
        queue.put(Time(5 * S), 1);
        assert_eq!((queue.overwritten(), queue.left()), (1, 2));
        let mut outcome = QueueOutcome::default();
        queue.collect(Time(5 * S), &mut outcome);
        assert_eq!(outcome.reuse, [1, 1, 1, 1], "unread, once, twice and three times read");
    }
}
