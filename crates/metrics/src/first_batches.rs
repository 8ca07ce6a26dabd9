//! The first batch of each epoch, which a loader makes while it has no other batch ready: when ranks get it, and how long they have
//! waited for it.

use forebay_engine::Span;
use forebay_report::{Cause, FirstBatch, StallCause};
use forebay_scenario::{Dataset, Job};

use super::timeline::Segment;

/// Maximum number of first batches of a loader that are kept.
const MOST_KEPT: usize = 10_000;

/// The first batches of a loader: in each epoch as many as model copies take batches from the loader.
#[derive(Debug, Clone, Default)]
pub struct FirstBatches {
    /// Number of batches in an epoch of the loader.
    epoch: u64,
    models: u64,
    /// Number of the loader among those of its job copy.
    loader: u64,
    /// Whether the loader begins each epoch anew. Other loaders read on across the ends of epochs, and only begin once.
    begins_anew: bool,
    /// Number of batches that have been taken.
    taken: u64,
    /// Time for which the model copy that takes the next batch has waited for it.
    waited: Span,
    kept: Vec<FirstBatch>,
}

impl FirstBatches {
    /// Returns the first batches of loader number `loader` of a copy of `job`, which reads `dataset`.
    #[must_use]
    pub fn for_job(job: &Job, dataset: &Dataset, loader: u32) -> FirstBatches {
        FirstBatches {
            epoch: job.batches_of_epoch(dataset).max(1),
            models: job.models_per_loader().into(),
            loader: loader.into(),
            begins_anew: job.loader.requests.is_some(),
            ..FirstBatches::default()
        }
    }

    /// Returns whether the batch that is taken next is a first one. A loader whose epochs are not known has none.
    #[inline]
    #[must_use]
    pub fn is_next(&self) -> bool {
        self.epoch > 0 && self.taken % self.epoch < self.models
    }

    /// Ends a wait of this length for the batch that is taken next.
    pub fn end_wait(&mut self, waited: Span) {
        self.waited = waited;
    }

    /// Records that a model copy takes the next batch, for `step`.
    #[inline]
    pub fn take(&mut self, step: u64) {
        if self.is_next() && self.kept.len() < MOST_KEPT {
            let place = self.taken % self.epoch;
            self.kept.push(FirstBatch {
                epoch: self.taken / self.epoch,
                rank: self.loader * self.models + place,
                step,
                seconds: self.waited.seconds(),
            });
        }
        self.waited = Span::ZERO;
        self.taken += 1;
    }

    /// Goes on as if `batches` batches had been taken, after a restart of the job.
    pub fn resume(&mut self, batches: u64) {
        self.taken = batches;
    }

    /// Returns the first batches that were taken so far, in order of time.
    #[must_use]
    pub fn taken(&self) -> &[FirstBatch] {
        &self.kept
    }

    /// Charges the wait in `segments` to the first batch, except for the time that workers took to start, if the batch that is taken
    /// next is a first one that the loader makes without another ready.
    pub fn charge(&self, segments: &mut [Segment]) {
        if !self.is_next() || !self.begins_anew && self.taken >= self.models {
            return;
        }
        for segment in segments.iter_mut().filter(|of| of.cause.cause != Cause::Restart) {
            segment.cause = StallCause::own(Cause::FirstBatch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Time;

    #[test]
    fn each_epoch_has_one_first_batch_for_each_model_copy_of_its_loader() {
        // System: a loader that feeds two model copies, five batches an epoch, with waits of 4 s and 1 s for the first two of the second
        // epoch. Expectation: batches 0, 1, 5 and 6 are first batches, of ranks 2 and 3.
        let of = FirstBatches { epoch: 5, models: 2, loader: 1, ..FirstBatches::default() };
        let mut first = of;
        for batch in 0..8 {
            if batch == 5 || batch == 6 {
                first.end_wait(Span::from_seconds(if batch == 5 { 4.0 } else { 1.0 }));
            }
            first.take(batch / 2);
        }
        let found: Vec<_> =
            first.taken().iter().map(|of| (of.epoch, of.rank, of.step, of.seconds)).collect();
        assert_eq!(found, [(0, 2, 0, 0.0), (0, 3, 0, 0.0), (1, 2, 2, 4.0), (1, 3, 3, 1.0)]);
    }

    #[test]
    fn a_wait_for_a_first_batch_is_charged_to_it_except_for_the_start_of_workers() {
        let mut segments = [Cause::Transfer, Cause::Order, Cause::Restart].map(|cause| Segment {
            start: Time(0),
            end: Time(1),
            cause: StallCause::own(cause),
        });
        let mut first = FirstBatches { epoch: 3, models: 1, ..FirstBatches::default() };
        first.charge(&mut segments);
        let causes = segments.map(|of| of.cause.cause);
        assert_eq!(causes, [Cause::FirstBatch, Cause::FirstBatch, Cause::Restart]);
        first.take(0);
        let mut later = [Segment { cause: StallCause::own(Cause::Transfer), ..segments[0] }];
        first.charge(&mut later);
        assert_eq!(later[0].cause.cause, Cause::Transfer);
        // The next epoch: a loader that reads on has batches ready; one that begins anew has not.
        (first.taken, later[0].cause) = (3, StallCause::own(Cause::Transfer));
        first.charge(&mut later);
        assert_eq!(later[0].cause.cause, Cause::Transfer);
        first.begins_anew = true;
        first.charge(&mut later);
        assert_eq!(later[0].cause.cause, Cause::FirstBatch);
    }
}
