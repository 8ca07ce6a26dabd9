//! First batches of epochs: a loader begins an epoch with an empty queue, so that each rank waits until its first batch is made. Here it is
//! recorded which ranks take these batches, for which step, and how long they waited.

use forebay_engine::{Span, Time};
use forebay_report::{Cause, FirstBatch, StallCause};
use forebay_scenario::{Dataset, Job};

use super::pages::Pages;
use super::timeline::{Segment, Timeline, blame};

/// Maximum number of first batches of a loader that are kept.
const MOST_KEPT: usize = 10_000;

/// The first batches of a loader: in each epoch as many as model copies take batches from the loader.
#[derive(Debug, Clone, Default)]
pub struct FirstBatches {
    /// Number of batches in an epoch of the loader.
    epoch: u64,
    /// Number of model copies that take batches from the loader.
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
            models: (job.copies_per_loader() * job.learners.first()).into(),
            loader: loader.into(),
            begins_anew: job.loader.requests.is_some() || job.loader.rebuilt.is_some(),
            ..FirstBatches::default()
        }
    }

    /// Returns whether the batch that is taken next is one that the loader makes without another ready. A loader whose epochs are not
    /// known has none.
    #[inline]
    #[must_use]
    pub fn is_next(&self) -> bool {
        self.epoch > 0 && self.place(self.taken)[1] < self.models
    }

    /// Returns the epoch of batch number `batch`, and the batch's place in it. A loader that reads on across the ends of epochs begins once.
    fn place(&self, batch: u64) -> [u64; 2] {
        match self.begins_anew {
            true => [batch / self.epoch.max(1), batch % self.epoch.max(1)],
            false => [0, batch],
        }
    }

    /// Ends a wait of this length for the batch that is taken next.
    pub fn end_wait(&mut self, waited: Span) {
        self.waited = waited;
    }

    /// Records that a model copy takes the next batch, for `step`.
    #[inline]
    pub fn take(&mut self, step: u64) {
        if self.is_next() && self.kept.len() < MOST_KEPT {
            let [epoch, place] = self.place(self.taken);
            self.kept.push(FirstBatch {
                epoch,
                rank: self.loader * self.models + place,
                step,
                steps: self.epoch.div_ceil(self.models.max(1)),
                seconds: self.waited.seconds(),
            });
        }
        self.waited = Span::ZERO;
        self.taken += 1;
    }

    /// Goes on as if `batches` batches had been taken, after a restart of the job. First batches that came later are taken again.
    pub fn resume(&mut self, batches: u64) {
        self.taken = batches;
        let (next, models) = (self.place(batches), self.models.max(1));
        self.kept.retain(|of| [of.epoch, of.rank % models] < next);
    }

    /// Returns the first batches that were taken so far, in order of time.
    #[must_use]
    pub fn taken(&self) -> &[FirstBatch] {
        &self.kept
    }

    /// Appends to `segments`, latest first, why the model copy that takes the next batch waited for worker `worker` from `from` to `to`,
    /// as [`blame`] does. The wait for a first batch is one cause, except for the time that workers took to start.
    pub fn blame<'t>(
        &self,
        timelines: (&Pages, impl Fn(u32) -> &'t Timeline),
        worker: u32,
        from: Time,
        to: Time,
        segments: &mut Vec<Segment>,
    ) {
        if !self.is_next() {
            return blame(timelines, worker, from, to, segments);
        }
        // In a list of their own: what is in `segments` belongs to other waits.
        let mut waits = Vec::new();
        blame(timelines, worker, from, to, &mut waits);
        for wait in waits.iter_mut().filter(|of| of.cause.cause != Cause::Restart) {
            wait.cause = StallCause::own(Cause::FirstBatch);
        }
        segments.extend(waits);
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Activity;
    use super::*;

    const TWO: FirstBatches = FirstBatches {
        epoch: 5,
        models: 2,
        loader: 1,
        begins_anew: true,
        taken: 0,
        waited: Span::ZERO,
        kept: Vec::new(),
    };

    fn found(of: &FirstBatches) -> Vec<(u64, u64, u64, f64)> {
        of.taken().iter().map(|of| (of.epoch, of.rank, of.step, of.seconds)).collect()
    }

    #[test]
    fn each_epoch_has_one_first_batch_for_each_model_copy_of_its_loader() {
        // System: a loader that feeds two model copies, five batches an epoch, with waits of 4 s and 1 s for the first two of the second
        // epoch. Expectation: batches 0, 1, 5 and 6 are first batches, of ranks 2 and 3; only 0 and 1 of a loader that reads on.
        for begins_anew in [true, false] {
            let mut first = FirstBatches { begins_anew, ..TWO };
            for batch in 0..8 {
                if batch == 5 || batch == 6 {
                    first.end_wait(Span::from_seconds(if batch == 5 { 4.0 } else { 1.0 }));
                }
                first.take(batch / 2);
            }
            let all = [(0, 2, 0, 0.0), (0, 3, 0, 0.0), (1, 2, 2, 4.0), (1, 3, 3, 1.0)];
            assert_eq!(found(&first), all[..if begins_anew { 4 } else { 2 }]);
            assert!(first.taken().iter().all(|of| of.steps == 3));
        }
    }

    #[test]
    fn first_batches_that_a_restart_takes_again_count_once() {
        // System: a job that took six batches, and goes on after three or five. Expectation: the sixth batch, a first one, is kept once.
        for resumed in [3, 5] {
            let mut first = TWO;
            (0..6).for_each(|batch| first.take(batch / 2));
            first.resume(resumed);
            (resumed..7).for_each(|batch| first.take(10 + batch));
            assert_eq!(
                found(&first),
                [(0, 2, 0, 0.0), (0, 3, 0, 0.0), (1, 2, 15, 0.0), (1, 3, 16, 0.0)]
            );
        }
    }

    #[test]
    fn a_wait_for_a_first_batch_is_one_cause_beside_the_start_of_workers_and_other_waits() {
        // System: a worker that starts at 2 s and reads from then on; the device overslept from 9 to 10 s. Expectation: what was there
        // stays, though it has the cause of reading; 7 s for the first batch, 2 s for the start. Later batches have the reading's cause.
        let second = |seconds: f64| Time::ZERO + Span::from_seconds(seconds);
        let (mut pages, mut timeline) = (Pages::default(), Timeline::default());
        timeline.push(&mut pages, second(2.0), Activity::Doing(Cause::Latency));
        let slept = Segment {
            start: second(9.0),
            end: second(10.0),
            cause: StallCause::own(Cause::Latency),
        };
        let causes = |first: &FirstBatches| -> Vec<(Cause, f64)> {
            let mut segments = vec![slept];
            let timelines = (&pages, |_| &timeline);
            first.blame(timelines, 0, Time::ZERO, second(9.0), &mut segments);
            segments.iter().map(|of| (of.cause.cause, of.end.since(of.start).seconds())).collect()
        };
        let mut first = FirstBatches { models: 1, ..TWO };
        assert_eq!(
            causes(&first),
            [(Cause::Latency, 1.0), (Cause::FirstBatch, 7.0), (Cause::Restart, 2.0)]
        );
        first.take(0);
        assert_eq!(causes(&first), [(Cause::Latency, 8.0), (Cause::Restart, 2.0)]);
        // The next epoch: a loader that begins anew has no batch ready; one that reads on has.
        first.taken = 5;
        assert_eq!(causes(&first)[1], (Cause::FirstBatch, 7.0));
        first.begins_anew = false;
        assert_eq!(causes(&first)[0], (Cause::Latency, 8.0));
    }
}
