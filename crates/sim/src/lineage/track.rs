//! The way of samples from a loader's queue to the end of the step that trains on them.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_metrics::Intervals;
use forebay_scenario::Job;

use super::queued::Queued;

/// Samples from a loader's queue to the end of the step that trains on them, each known by a number.
#[derive(Debug)]
pub(super) struct Track {
    queue: Queued,
    /// Samples taken for steps that may not be complete, with their model copy and step; `keeps` says whether this list is
    /// needed.
    recent: VecDeque<(u32, u64, Range<u64>)>,
    keeps: bool,
    /// All samples that are not to come again: those of complete steps, and those that a circular queue lost, where newer samples
    /// overwrote them before any trainer took them.
    passed: Intervals,
}

impl Track {
    /// Returns the track of the samples of a loader of `job`; `keeps` says whether it is needed which ones have passed.
    pub(super) fn new(job: &Job, keeps: bool) -> Track {
        let (recent, passed) = (VecDeque::new(), Intervals::default());
        Track { queue: Queued::new(job), recent, keeps, passed }
    }

    /// Records that the samples of `run` are put into the queue, in this order.
    pub(super) fn put(&mut self, run: Range<u64>) {
        let Track { queue, passed, keeps, .. } = self;
        queue.put(run, |lost| {
            if *keeps {
                passed.insert(lost..lost + 1);
            }
        });
    }

    /// Records that `samples` samples are taken for `step` of model copy `model`.
    pub(super) fn take(&mut self, model: u32, step: u64, samples: u64) {
        let Track { queue, recent, keeps, .. } = self;
        queue.take(samples, |run| {
            if *keeps {
                recent.push_back((model, step, run));
            }
        });
    }

    /// Lets the samples of complete steps pass, and calls `trained` with each run of them; `steps` returns the number of complete
    /// steps of each model copy. Returns all samples that have passed.
    pub(super) fn settle(
        &mut self,
        steps: impl Fn(u32) -> u64,
        mut trained: impl FnMut(Range<u64>),
    ) -> Intervals {
        for (model, step, run) in std::mem::take(&mut self.recent) {
            if step >= steps(model) {
                self.recent.push_back((model, step, run));
                continue;
            }
            trained(run.clone());
            self.passed.cover(run);
        }
        self.passed.clone()
    }

    /// Begins again after the samples `passed`, with an empty queue.
    pub(super) fn restart(&mut self, passed: &Intervals) {
        self.queue.clear();
        self.recent.clear();
        self.passed.clone_from(passed);
    }
}
