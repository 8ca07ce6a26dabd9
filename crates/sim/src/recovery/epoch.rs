//! Determines which samples of an epoch are read again if the epoch begins again after a failure.

use forebay_scenario::Resume;
use std::ops::Range;

use crate::job_state::Cursor;

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
