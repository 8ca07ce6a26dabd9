//! Pipelines that each epoch builds anew: no sample of the next epoch is read before a trainer wants its first batch. Simulated and live
//! runs keep here how far the epoch goes, and from when on the pipeline works.

use forebay_engine::{Span, Time};
use forebay_scenario::{Dataset, Job};

/// State of a loader whose pipeline is built anew at the beginning of each epoch.
#[derive(Debug, Clone)]
pub struct Rebuilds {
    /// Number of samples of an epoch, in whole batches.
    epoch: u64,
    /// Time to build the pipeline.
    start: Span,
    /// Number of samples up to the end of the epoch that has begun.
    end: u64,
    /// Instant from which the pipeline works.
    ready: Time,
}

impl Rebuilds {
    /// Returns the state before the first epoch of a loader of `job`, which reads `dataset`; `None` if its pipeline reads on across the ends
    /// of epochs.
    #[must_use]
    pub fn for_job(job: &Job, dataset: &Dataset) -> Option<Rebuilds> {
        let start = Span::from_seconds(job.loader.rebuilt?);
        let epoch = job.batches_of_epoch(dataset).max(1).saturating_mul(job.batch.max(1));
        Some(Rebuilds { epoch, start, end: 0, ready: Time::ZERO })
    }

    /// Begins the epoch of the next sample, after `started` samples have been started; returns the number of its samples that are still to
    /// be started.
    pub fn begin(&mut self, now: Time, started: u64) -> u64 {
        self.end = (started / self.epoch + 1).saturating_mul(self.epoch);
        self.ready = now + self.start;
        self.end - started
    }

    /// Returns the number of samples that may still be started in this epoch, after `started` samples.
    #[inline]
    #[must_use]
    pub fn left(&self, started: u64) -> u64 {
        self.end.saturating_sub(started)
    }

    /// Returns the instant from which the pipeline works.
    #[must_use]
    pub fn ready(&self) -> Time {
        self.ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_is_ready_one_start_after_it_is_wanted() {
        // System: six samples an epoch, half a second to build the pipeline. Expectation: nothing may be started before the epoch begins;
        // a loader that resumes after eight samples is in the middle of the second epoch.
        let half = Span::from_seconds(0.5);
        let mut of = Rebuilds { epoch: 6, start: half, end: 0, ready: Time::ZERO };
        assert_eq!(of.left(0), 0);
        assert_eq!((of.begin(Time::ZERO, 0), of.left(4), of.left(6)), (6, 2, 0));
        assert_eq!(of.ready(), Time::ZERO + half);
        let later = Time::ZERO + Span::from_seconds(9.0);
        assert_eq!((of.begin(later, 6), of.left(6), of.ready()), (6, 6, later + half));
        assert_eq!((of.begin(later, 8), of.left(8)), (4, 4));
    }
}
