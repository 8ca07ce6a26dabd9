//! The last buffer of a loader, bounded or circular, with its running totals.

mod accounts;
mod growth;
mod repeat;
mod ring;
mod stamps;

use forebay_engine::stats::LogHistogram;
use forebay_engine::{Time, prefetch};
use forebay_report::{Exhaustion, QueueOutcome, QueueTotals};
use forebay_scenario::{Job, QueueKind};
use std::collections::VecDeque;

use super::recorder::Snapshots;
use accounts::Accounts;
use growth::Growth;
use repeat::{LeftOut, RecordedCycle, State};
use ring::Ring;
use stamps::Stamps;

/// Samples between a loader and the model copies of one node.
///
/// The fields that are used for every sample lie in two cache lines. One has the second half of `stamps` and the first half of
/// `accounts`; the other has the fields from `capacity` on.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    /// Arrival times of the samples in a bounded queue.
    stamps: Stamps,
    accounts: Accounts,
    initial: u64,
    stays: u64,
    capacity: u64,
    /// Number of samples in the batch that is taken next.
    batch: u64,
    level: u64,
    /// Number of samples that must stay in the queue. It becomes 0 once `last` samples have been put into the queue.
    kept: u64,
    last: u64,
    /// Instant of the next snapshot; [`Time::NEVER`] if no history is recorded.
    next_snapshot: Time,
    /// Sizes of the batches in the queue, if some are smaller than others.
    batches: Option<Box<Batches>>,
    /// Slots of a circular queue.
    circular: Option<Box<Ring>>,
    /// Number of workers that wait for room.
    blocked: u32,
    /// Number of model copies that wait for a batch.
    waiting: u32,
    /// How the capacity grows; `None` if it is fixed.
    growth: Option<Growth>,
    /// Whether a model copy has been served without waiting since the last exhaustion.
    ready: bool,
    exhaustions: Vec<Exhaustion>,
    exhausted_since: Option<Time>,
    snapshots: Option<Snapshots>,
    /// The cycle that is being recorded, so that its repetitions need not be simulated.
    recorded: Option<Box<RecordedCycle>>,
    left_out: Option<Box<LeftOut>>,
}

/// Batches whose sizes may differ.
#[derive(Debug, Clone)]
struct Batches {
    /// Samples of a full batch.
    full: u64,
    /// Samples of each batch in the queue, oldest first.
    sizes: VecDeque<u64>,
}

impl Queue {
    /// Returns the queue of a loader of `job` in its initial state; the loader reads `quota` samples in total.
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

    /// Returns a queue that holds `initial` samples, from which `batch` samples are taken at a time.
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
            recorded: None,
            left_out: None,
        }
    }

    /// Begins to record the queue's history for a time series that begins at `start` and lasts at least `least` seconds.
    pub fn record(&mut self, start: Time, least: f64) {
        let snapshots = Snapshots::new(start, least);
        self.next_snapshot = snapshots.next();
        self.snapshots = Some(snapshots);
    }

    /// Resets the queue to its initial state, as if the job started at `now`; the queue must not have been used before.
    pub fn restart(&mut self, now: Time) {
        let circular = self.circular.is_some();
        let recorded = self.snapshots.is_some();
        let again = Queue::new(self.capacity, self.batch, circular, self.initial, now);
        let batches = self.batches.take();
        let Queue { stays, last, growth, .. } = *self;
        *self = Queue { kept: stays, stays, last, growth, batches, ..again };
        if recorded {
            self.record(now, 0.0);
        }
    }

    /// Discards all samples in the queue, and the records of waiting workers and model copies; returns the number of discarded
    /// samples that nobody has read. `coming` more samples will be put in.
    pub fn clear(&mut self, now: Time, coming: u64) -> u64 {
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
        self.begin_epoch();
        let level = std::mem::take(&mut self.level);
        self.circular.as_mut().map_or(level, |ring| ring.clear())
    }

    /// Gives a capacity that grows its first value again: a new pipeline begins with an empty queue.
    pub fn begin_epoch(&mut self) {
        if let Some(growth) = &mut self.growth {
            growth.filled = false;
            self.capacity = growth.least;
        }
    }

    /// Returns the history, if it was recorded.
    pub fn snapshots(&self) -> Option<&Snapshots> {
        self.snapshots.as_ref()
    }

    /// Returns the capacity [samples].
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of samples in the queue.
    #[inline]
    pub fn level(&self) -> u64 {
        self.level
    }

    /// Returns the number of samples in the batch that is taken next.
    #[inline]
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Whether a batch can be taken.
    #[inline]
    pub fn has_batch(&self) -> bool {
        self.level >= self.batch + self.kept
    }

    /// Whether `batches` batches can be taken.
    pub fn has_batches(&self, batches: u64) -> bool {
        self.level >= self.batch * batches + self.kept
    }

    /// Whether `samples` more samples can be put in.
    #[inline]
    pub fn has_room(&self, samples: u64) -> bool {
        self.level + samples <= self.capacity || self.circular.is_some()
    }

    /// Prefetches the fields that [`Queue::put`] needs: samples will be put in soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.accounts);
        prefetch(&self.level);
    }

    /// Puts `samples` samples in; there must be room.
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

    /// Takes a batch, which must be there, and returns how many of its samples are fresh: had not been read before.
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

    /// Records that one more worker waits for room, or one fewer if `more` is false.
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

    /// Records that a model copy was served without waiting.
    pub fn served_at_once(&mut self) {
        self.ready = true;
    }

    /// Records that a model copy begins to wait for a batch.
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

    /// Records that a waiting model copy is served.
    pub fn end_wait(&mut self, now: Time) {
        self.snapshot_up_to(now);
        self.waiting -= 1;
        self.accounts.empty.down(now, (self.waiting == 0).into());
        self.end_exhaustion(now);
    }

    fn end_exhaustion(&mut self, now: Time) {
        if let Some(since) = self.exhausted_since.take() {
            let duration = now.since(since).seconds();
            let start = (since + self.left_out().span).seconds();
            self.exhaustions.push(Exhaustion { start, duration });
        }
    }

    /// Takes the snapshots that are due up to `now`; to be called before anything changes.
    #[inline]
    fn snapshot_up_to(&mut self, now: Time) {
        if self.next_snapshot <= now {
            self.take_snapshots(now);
        }
    }

    #[cold]
    fn take_snapshots(&mut self, now: Time) {
        let LeftOut { span, totals: left_out } = self.left_out();
        let Queue { accounts, level, blocked, waiting, .. } = *self;
        let Some(snapshots) = &mut self.snapshots else { return };
        let next = |snapshots: &Snapshots| Time(snapshots.next().0 - span.0);
        while next(snapshots) <= now {
            let mut totals = accounts.totals(next(snapshots), level, blocked, waiting);
            totals += left_out;
            snapshots.take(totals);
        }
        self.next_snapshot = match &mut self.recorded {
            None => next(snapshots),
            Some(recorded) => {
                recorded.record(State { until: now, accounts, level, blocked, waiting });
                Time::ZERO
            }
        };
    }

    /// Returns what repeated cycles that were left out have added.
    fn left_out(&self) -> LeftOut {
        self.left_out.as_deref().copied().unwrap_or_default()
    }

    /// Returns the running totals at `now`.
    pub fn totals(&mut self, now: Time) -> QueueTotals {
        self.snapshot_up_to(now);
        let mut totals = self.accounts.totals(now, self.level, self.blocked, self.waiting);
        if let Some(left_out) = &self.left_out {
            totals += left_out.totals;
        }
        totals
    }

    /// Returns the number of samples that were taken out, or overwritten before anyone took them.
    #[inline]
    pub fn passed(&self) -> u64 {
        self.accounts.dequeued + self.overwritten()
    }

    /// Returns the number of samples that were overwritten before anyone read them.
    pub fn overwritten(&self) -> u64 {
        self.circular.as_ref().map_or(0, |ring| ring.overwritten_unread)
    }

    /// Returns the number of samples in the queue that nobody has read.
    pub fn left(&self) -> u64 {
        self.circular.as_ref().map_or(self.level, |ring| ring.unread())
    }

    /// Adds the results of this queue to `outcome`.
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

    /// Returns the ages of samples when read; `None` unless the queue is circular.
    pub fn ages(&self) -> Option<&LogHistogram> {
        self.circular.as_ref().map(|ring| &ring.ages)
    }
}

#[cfg(test)]
mod tests;
