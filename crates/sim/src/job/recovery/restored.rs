//! What restarts restore of each loader, and the samples of the epoch that are read again after them.

use std::ops::Range;

use forebay_engine::Time;
use forebay_report::SampleCounts;
use forebay_scenario::Resume;

use crate::ids::LoaderId;
use crate::loader::{Cursor, InitialLoader, Loaders};

/// A loader's initial state, to which restarts restore it, and counts of the work that failures threw away.
#[derive(Debug)]
pub(crate) struct Restored {
    initial: InitialLoader,
    /// Number of samples in the queue at the start; `quota` is the number of samples to be read in addition.
    prefill: u64,
    quota: u64,
    /// Number of samples that had left the queue before the last restart and were read once more after it; they do not count
    /// towards the position in the reading order.
    base: u64,
    /// Position up to which samples had left the queue before, so that they are not fresh when they come again.
    known: u64,
    /// The work that failures threw away.
    counts: SampleCounts,
}

impl Restored {
    /// Returns the state of loader `l` before it reads, with `prefill` samples in its queue.
    pub(crate) fn new(loaders: &Loaders, l: LoaderId, prefill: u64) -> Restored {
        Restored {
            initial: loaders.initial(l),
            prefill,
            quota: loaders[l].progress.quota,
            base: 0,
            known: 0,
            counts: SampleCounts::default(),
        }
    }

    /// Returns the number of samples that had left the queue before the last restart and were read once more after it.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns how many of the last `taken` samples had not come before; `passed` is the number of all samples that have left the
    /// queue so far.
    pub(super) fn fresh(&self, passed: u64, taken: u64) -> u64 {
        let position = passed - self.base;
        position.saturating_sub(self.known.max(position - taken))
    }

    /// Makes all samples fresh again.
    pub(super) fn forget_known(&mut self) {
        self.known = 0;
    }

    /// Adds the samples that failures threw away to `counts`.
    pub(super) fn count(&self, counts: &mut SampleCounts) {
        counts.started += self.counts.started;
        counts.dropped += self.counts.dropped;
        counts.cleared += self.counts.cleared;
    }

    /// Lets the loader `l` read again from `kept` on. The saved state has trained on `saved` of its samples; `more` batches of
    /// `batch` samples are to come at least.
    pub(super) fn restore(
        &mut self,
        now: Time,
        (loaders, l): (&mut Loaders, LoaderId),
        (saved, kept): (u64, Cursor),
        (more, batch): (u64, u64),
    ) {
        let all = self.quota.saturating_add(self.prefill).saturating_sub(kept.samples);
        let coming = all.max(more.saturating_mul(batch));
        let samples = kept.samples;
        let (thrown, passed) = loaders.restart(now, l, &self.initial, kept, (coming, more));
        self.counts.started += thrown.started;
        self.counts.dropped += thrown.dropped;
        self.counts.cleared += thrown.cleared;
        self.base = passed - samples;
        self.known = self.known.max(saved);
    }
}

/// The size of an epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpochRun {
    /// Number of samples in an epoch, over all loaders.
    pub(crate) samples: u64,
    /// Number of units in the reading order (files, or groups of samples treated as files); `per_place` is the number of
    /// samples in each.
    pub(crate) places: u64,
    pub(crate) per_place: u64,
    /// Whether the goal is a number of epochs, so that steps on repeated samples are additional steps.
    pub(crate) goal: bool,
    /// Number of steps on each batch; `copies` is the number of model copies that a loader feeds.
    pub(crate) interval: f64,
    pub(crate) copies: u64,
    /// Number of samples in a batch; `batches` is the number of batches in a loader's epoch, if the loader counts batches.
    pub(crate) batch: u64,
    pub(crate) batches: u64,
}

impl EpochRun {
    /// Returns the position of loader number `index` of `loaders` before the epoch of its saved position `saved`. The samples
    /// that the loader has handed out in that epoch are read again.
    pub(super) fn start_of(&self, saved: &Cursor, index: usize, loaders: u64) -> Cursor {
        let (begin, epoch) = (self.begin_of(saved, index, loaders), saved.batches / self.batches);
        // Samples left over from the epoch before, which were read at the same time, come first.
        let passed = saved.passed.below(begin);
        let again = saved.passed.samples.count() - passed.samples.count();
        Cursor {
            // Of a sample of a circular queue that a saved step and a later step took, the count may be that of the later step.
            samples: saved.samples.saturating_sub(again),
            batches: saved.batches.saturating_sub(saved.begun.trained_from(epoch)),
            passed,
            begun: saved.begun.before(epoch),
        }
    }

    /// Returns the position in the reading order of loader number `index` of `loaders` at which the epoch of its saved position
    /// `saved` began.
    fn begin_of(&self, saved: &Cursor, index: usize, loaders: u64) -> u64 {
        let (read, batches) = (saved.passed.samples.count(), saved.batches);
        // If samples are distributed one by one, the epoch is padded so that all loaders have the same number.
        let padded = |places: u64| match self.per_place {
            1 => places.div_ceil(loaders).saturating_mul(loaders),
            _ => places,
        };
        let (samples, places) = (padded(self.samples), u128::from(padded(self.places)));
        let loaders = u128::from(loaders);
        let first = match batches {
            // Loaders take places in turn; if their number does not divide the places, an epoch does not begin with the first
            // loader.
            0 => {
                let read = u128::from(read) * places / u128::from(samples.max(1));
                let epochs = (read * loaders + index as u128) / places.max(1);
                (epochs * places).saturating_sub(index as u128).div_ceil(loaders)
            }
            _ => (u128::from(batches / self.batches) * places).div_ceil(loaders),
        };
        u64::try_from(first * u128::from(self.per_place)).unwrap_or(u64::MAX)
    }

    /// Returns the number of steps on repeated samples if the job restarts with its loaders at the positions `saved`: the maximum
    /// over its loaders.
    pub(super) fn steps_again(&self, saved: &[Cursor], resume: Resume) -> u64 {
        if resume == Resume::Position {
            return 0;
        }
        let loaders = saved.len() as u64;
        let again = |(index, cursor): (usize, &Cursor)| {
            let start = self.start_of(cursor, index, loaders);
            match cursor.batches {
                0 => (cursor.samples - start.samples).div_ceil(self.batch.max(1)),
                batches => batches - start.batches,
            }
        };
        let most = saved.iter().enumerate().map(again).max().unwrap_or(0);
        (most.div_ceil(self.copies.max(1)) as f64 * self.interval).ceil() as u64
    }

    /// Returns the number of batches that all model copies of a loader take in `steps`.
    pub(super) fn batches(&self, steps: Range<u64>) -> u64 {
        let until = |steps: u64| match steps.checked_sub(1) {
            Some(last) => ((last as f64 / self.interval).floor() as u64).saturating_add(1),
            None => 0,
        };
        until(steps.end).saturating_sub(until(steps.start)).saturating_mul(self.copies)
    }
}
