//! The last buffer of a loader: bounded, or circular, with its accounts.

mod accounts;
mod ring;
mod stamps;

use forebay_engine::stats::LogHistogram;
use forebay_engine::{Time, prefetch};
use forebay_report::{Exhaustion, QueueOutcome, QueueTotals};
use forebay_scenario::{Job, QueueKind};
use std::collections::VecDeque;

use super::recorder::Snapshots;
use accounts::Accounts;
use ring::Ring;
use stamps::Stamps;

/// Samples between a loader and the model copies of one node.
///
/// What every sample needs are two cache lines: the second half of the stamps with the first of the
/// accounts, and what begins at `capacity`.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    /// Of the samples in a bounded queue.
    stamps: Stamps,
    accounts: Accounts,
    initial: u64,
    stays: u64,
    capacity: u64,
    /// Samples that are taken together next.
    batch: u64,
    level: u64,
    /// Samples that stay as long as fewer than `last` have been put in: `stays`, then none.
    kept: u64,
    last: u64,
    /// When the next snapshot is to be taken; never if none are.
    next_snapshot: Time,
    /// The batches inside, where some are smaller.
    batches: Option<Box<Batches>>,
    /// What a circular queue holds.
    circular: Option<Box<Ring>>,
    /// Workers that wait for room.
    blocked: u32,
    /// Model copies that wait for a batch.
    waiting: u32,
    /// How its room grows, if it does.
    growth: Option<Growth>,
    /// Whether a model copy has been served at once since the last exhaustion.
    ready: bool,
    exhaustions: Vec<Exhaustion>,
    exhausted_since: Option<Time>,
    snapshots: Option<Snapshots>,
}

/// How the room of a prefetch grows that finds its size by itself: twofold, or by so much, whenever it had
/// been full and then was found empty (tf.data's `PrefetchAutotuner`).
#[derive(Debug, Clone, Copy)]
struct Growth {
    /// Samples that it holds at first, and at most.
    least: u64,
    most: u64,
    /// Whether it has been full since it last grew.
    filled: bool,
}

/// Batches of their own sizes.
#[derive(Debug, Clone)]
struct Batches {
    /// Samples of a full one.
    full: u64,
    /// Samples of those inside, oldest first.
    sizes: VecDeque<u64>,
}

impl Growth {
    /// Most batches by which it grows.
    const STEP: u64 = 2048;
}

impl Queue {
    /// The queue of a loader of `job`, which reads `quota` samples in all, as it is at the start.
    pub fn for_job(job: &Job, quota: u64, now: Time) -> Queue {
        let circular = job.queue == QueueKind::Circular;
        let queue = Queue::new(job.queue_capacity(), job.batch, circular, job.prefill, now);
        let drop_last = job.loader.requests.is_none_or(|requests| requests.drop_last);
        let batches = Batches { full: job.batch, sizes: VecDeque::new() };
        let batches = (!drop_last).then(|| Box::new(batches));
        let stays = job.kept_in_queue();
        let queue = Queue { kept: stays, stays, last: quota, batches, ..queue };
        if !job.loader.stages.last().is_some_and(|last| last.grows) {
            return queue;
        }
        let growth = Growth { least: job.batch, most: queue.capacity, filled: false };
        Queue { capacity: job.batch, growth: Some(growth), ..queue }
    }

    /// A queue that holds `initial` samples, from which `batch` are taken at a time.
    pub fn new(capacity: u64, batch: u64, circular: bool, initial: u64, now: Time) -> Queue {
        let mut stamps = Stamps::new(batch);
        let circular = circular.then(|| {
            let mut ring = Ring::default();
            (0..initial).for_each(|_| ring.put(now, capacity));
            Box::new(ring)
        });
        if circular.is_none() {
            stamps.put(now, initial);
        }
        let mut accounts = Accounts::default();
        accounts.level.up(now, initial);
        Queue {
            capacity,
            batch,
            initial,
            level: initial,
            kept: 0,
            stays: 0,
            last: u64::MAX,
            growth: None,
            batches: None,
            blocked: 0,
            waiting: 0,
            accounts,
            stamps,
            circular,
            ready: initial > 0,
            exhaustions: Vec::new(),
            exhausted_since: None,
            next_snapshot: Time::NEVER,
            snapshots: None,
        }
    }

    /// From now on keeps the history for a series that begins at `start`.
    pub fn record(&mut self, start: Time) {
        let snapshots = Snapshots::new(start);
        self.next_snapshot = snapshots.next();
        self.snapshots = Some(snapshots);
    }

    /// As it was at the start, which is now: nothing may have happened to it.
    pub fn restart(&mut self, now: Time) {
        let circular = self.circular.is_some();
        let recorded = self.snapshots.is_some();
        let again = Queue::new(self.capacity, self.batch, circular, self.initial, now);
        let batches = self.batches.take();
        let Queue { stays, last, growth, .. } = *self;
        *self = Queue { kept: stays, stays, last, growth, batches, ..again };
        if recorded {
            self.record(now);
        }
    }

    /// Throws away what is inside, of which nobody waits for room or batches any more; how many samples
    /// that were. So many more will be put in. Bounded queues only.
    pub fn clear(&mut self, now: Time, coming: u64) -> u64 {
        debug_assert!(self.circular.is_none(), "bounded");
        self.snapshot_up_to(now);
        self.end_exhaustion(now);
        let (blocked, waited) = (u64::from(self.blocked), u64::from(self.waiting > 0));
        self.accounts.blocked.down(now, blocked);
        self.accounts.empty.down(now, waited);
        self.accounts.level.down(now, self.level);
        if let Some(batches) = &mut self.batches {
            batches.sizes.clear();
            self.batch = batches.full;
        }
        self.stamps = Stamps::new(self.batch);
        (self.blocked, self.waiting, self.ready) = (0, 0, false);
        self.kept = self.stays;
        self.last = self.accounts.enqueued.saturating_add(coming);
        if let Some(growth) = &mut self.growth {
            growth.filled = false;
            self.capacity = growth.least;
        }
        std::mem::take(&mut self.level)
    }

    /// The history, if it was recorded.
    pub fn snapshots(&self) -> Option<&Snapshots> {
        self.snapshots.as_ref()
    }

    /// Samples that fit in.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Samples that can be taken.
    #[inline]
    pub fn level(&self) -> u64 {
        self.level
    }

    /// Samples of the batch that is taken next.
    #[inline]
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Whether a batch can be taken.
    #[inline]
    pub fn has_batch(&self) -> bool {
        self.level >= self.batch + self.kept
    }

    /// Whether so many batches can be taken.
    pub fn has_batches(&self, batches: u64) -> bool {
        self.level >= self.batch * batches + self.kept
    }

    /// Whether `samples` more can be put in.
    #[inline]
    pub fn has_room(&self, samples: u64) -> bool {
        self.level + samples <= self.capacity || self.circular.is_some()
    }

    /// Samples will be put in soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.accounts);
        prefetch(&self.level);
    }

    /// Puts `samples` in; there must be room.
    #[inline(always)]
    pub fn put(&mut self, now: Time, samples: u64) {
        self.snapshot_up_to(now);
        debug_assert!(self.has_room(samples), "no room");
        self.accounts.enqueued += samples;
        if self.accounts.enqueued >= self.last {
            self.kept = 0;
        }
        match &mut self.circular {
            None => {
                match &mut self.batches {
                    None => self.stamps.put(now, samples),
                    Some(batches) => {
                        self.stamps.put_batch(now, samples);
                        batches.sizes.push_back(samples);
                        self.batch = batches.sizes[0];
                    }
                }
                self.level += samples;
                self.accounts.level.up(now, samples);
            }
            Some(ring) => {
                (0..samples).for_each(|_| ring.put(now, self.capacity));
                self.accounts.level.up(now, ring.len() - self.level);
                self.level = ring.len();
            }
        }
    }

    /// Takes a batch, which must be there; how many of its samples are fresh.
    pub fn take(&mut self, now: Time) -> u64 {
        self.snapshot_up_to(now);
        debug_assert!(self.has_batch(), "not enough samples");
        if let Some(growth) = &mut self.growth {
            growth.filled |= self.level == self.capacity;
        }
        let batch = self.batch;
        match &mut self.circular {
            None => {
                self.level -= batch;
                self.accounts.level.down(now, batch);
                self.accounts.residence_ps += self.stamps.take(now, batch);
                self.accounts.dequeued += batch;
                if let Some(batches) = &mut self.batches {
                    batches.sizes.pop_front();
                    self.batch = batches.sizes.front().copied().unwrap_or(batches.full);
                }
                batch
            }
            Some(ring) => {
                let (fresh, residence_ps) = ring.read(now, batch);
                self.accounts.residence_ps += residence_ps;
                self.accounts.dequeued += fresh;
                fresh
            }
        }
    }

    /// A worker begins or ends waiting for room.
    pub fn set_blocked(&mut self, now: Time, more: bool) {
        self.snapshot_up_to(now);
        if more {
            self.blocked += 1;
            self.accounts.blocked.up(now, 1);
        } else {
            self.blocked -= 1;
            self.accounts.blocked.down(now, 1);
        }
    }

    /// A model copy was served at once.
    pub fn served_at_once(&mut self) {
        self.ready = true;
    }

    /// A model copy begins to wait.
    pub fn begin_wait(&mut self, now: Time) {
        self.snapshot_up_to(now);
        self.grow();
        self.accounts.empty.up(now, (self.waiting == 0).into());
        self.waiting += 1;
        if self.ready {
            self.ready = false;
            self.exhausted_since = Some(now);
        }
    }

    /// A batch was wanted: if there is none and there had been all that fit, room for more is made.
    fn grow(&mut self) {
        if let Some(growth) = &mut self.growth
            && self.level < self.batch
            && growth.filled
        {
            let more = self.capacity.min(Growth::STEP * self.batch);
            self.capacity = self.capacity.saturating_add(more).min(growth.most);
            growth.filled = false;
        }
    }

    /// A waiting model copy is served.
    pub fn end_wait(&mut self, now: Time) {
        self.snapshot_up_to(now);
        self.waiting -= 1;
        self.accounts.empty.down(now, (self.waiting == 0).into());
        self.end_exhaustion(now);
    }

    fn end_exhaustion(&mut self, now: Time) {
        if let Some(since) = self.exhausted_since.take() {
            let duration = now.since(since).seconds();
            self.exhaustions.push(Exhaustion { start: since.seconds(), duration });
        }
    }

    /// Takes the snapshots up to `now`, before anything changes.
    #[inline]
    fn snapshot_up_to(&mut self, now: Time) {
        if self.next_snapshot <= now {
            self.take_snapshots(now);
        }
    }

    #[cold]
    fn take_snapshots(&mut self, now: Time) {
        let Some(snapshots) = &mut self.snapshots else { return };
        while self.next_snapshot <= now {
            let at = self.next_snapshot;
            snapshots.take(self.accounts.totals(at, self.level, self.blocked, self.waiting));
            self.next_snapshot = snapshots.next();
        }
    }

    /// The running totals at `now`.
    pub fn totals(&mut self, now: Time) -> QueueTotals {
        self.snapshot_up_to(now);
        self.accounts.totals(now, self.level, self.blocked, self.waiting)
    }

    /// Samples that were taken out.
    #[inline]
    pub fn dequeued(&self) -> u64 {
        self.accounts.dequeued
    }

    /// Samples that were overwritten before anyone read them.
    pub fn overwritten(&self) -> u64 {
        self.circular.as_ref().map_or(0, |ring| ring.overwritten_unread)
    }

    /// Samples inside that nobody has read.
    pub fn left(&self) -> u64 {
        self.circular.as_ref().map_or(self.level, |ring| ring.unread())
    }

    /// Adds what this queue showed to `outcome`.
    pub fn collect(&mut self, now: Time, outcome: &mut QueueOutcome) {
        self.snapshot_up_to(now);
        self.end_exhaustion(now);
        outcome.capacity += self.capacity;
        outcome.initial += self.initial;
        outcome.level += self.level;
        outcome.exhaustions.append(&mut self.exhaustions);
        if let Some(ring) = &self.circular {
            outcome.reuse.resize(outcome.reuse.len().max(ring.reuse.len()), 0);
            outcome.reuse.iter_mut().zip(&ring.reuse).for_each(|(sum, n)| *sum += n);
        }
    }

    /// Ages of samples when read, for circular queues.
    pub fn ages(&self) -> Option<&LogHistogram> {
        self.circular.as_ref().map(|ring| &ring.ages)
    }
}

#[cfg(test)]
mod tests;
