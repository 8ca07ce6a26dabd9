//! When a job copy ends, in steps or fresh samples, and how many samples its loaders read until then.

use super::{BatchInterval, Job, QueueKind};
use crate::{Scenario, Stop};

/// Stands for a goal that is never reached, in runs that end at a given time.
pub const ENDLESS: u64 = u64::MAX;

/// Goal after which a job copy ends: a number of steps or a number of fresh samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// Number of steps, or [`ENDLESS`].
    pub steps: u64,
    /// Number of fresh samples, or [`ENDLESS`].
    pub fresh: u64,
    /// Number of samples that each loader reads, or [`ENDLESS`].
    pub quota: u64,
}

impl Scenario {
    /// Returns the numbers of samples and batches in an epoch of a copy of `job`. Loaders that make batches on request or build their
    /// pipeline anew may drop or repeat samples; with other loaders, an epoch has all samples of the data set.
    fn of_epoch(&self, job: &Job) -> (f64, f64) {
        let dataset = &self.datasets[job.dataset];
        if job.loader.requests.is_none() && job.loader.rebuilt.is_none() {
            return (dataset.samples as f64, dataset.samples as f64 / job.batch as f64);
        }
        let samples: u64 = job.samples_of_epoch(dataset).iter().sum();
        let loaders = f64::from(job.loaders());
        (samples as f64 * loaders, job.batches_of_epoch(dataset) as f64 * loaders)
    }

    /// Returns the samples of an epoch that the loaders of a copy of `job` deliver: without the samples of incomplete
    /// batches if these are dropped, and with samples that come twice so that all ranks have the same number.
    #[must_use]
    pub fn samples_of_epoch(&self, job: &Job) -> u64 {
        self.of_epoch(job).0 as u64
    }

    /// Returns the goal after which each copy of `job` ends.
    #[must_use]
    pub fn goal(&self, job: &Job) -> Goal {
        let models = u64::from(job.models());
        let predictable = match job.batch_interval {
            // The number of samples in a step changes with the number of learners.
            _ if job.learners.tuning.is_some() => None,
            BatchInterval::Every(k) if job.queue == QueueKind::Bounded && !job.is_uneven() => {
                Some(k)
            }
            _ => None,
        };
        let quota = |batches: u64| {
            let samples = batches.saturating_mul(job.batch * u64::from(job.models_per_loader()));
            samples.saturating_sub(job.prefill)
        };
        match (self.stop_of(job), predictable) {
            (Stop::Duration(_) | Stop::Known { .. }, _) => {
                Goal { steps: ENDLESS, fresh: ENDLESS, quota: ENDLESS }
            }
            // Loaders go on reading until the last step is over: otherwise their stages would drain before it.
            (Stop::Steps(steps), _) => Goal { steps, fresh: ENDLESS, quota: ENDLESS },
            (Stop::Epochs(epochs), known) => {
                let (samples, batches) = self.of_epoch(job);
                let samples = epochs * samples;
                let batches = (epochs * batches / models as f64).ceil().max(1.0);
                match known {
                    Some(k) => {
                        let mut steps = (batches * k).ceil() as u64;
                        // Rounding up can make `steps` one too large: the last step would then take another batch.
                        while steps > 1 && ((steps - 1) as f64 / k).floor() >= batches {
                            steps -= 1;
                        }
                        Goal { steps, fresh: ENDLESS, quota: quota(batches as u64) }
                    }
                    None => Goal { steps: ENDLESS, fresh: samples.ceil() as u64, quota: ENDLESS },
                }
            }
        }
    }
}

impl BatchInterval {
    /// Returns whether a model copy takes a fresh batch for `step`, after `on_batch` steps on its last batch, with
    /// `level` samples in the queue.
    #[must_use]
    pub fn is_fresh(&self, step: u64, on_batch: u64, level: u64) -> bool {
        match *self {
            _ if step == 0 => true,
            BatchInterval::Every(1.0) => true,
            BatchInterval::Every(k) => (step as f64 / k).floor() != ((step - 1) as f64 / k).floor(),
            BatchInterval::Adaptive { level: enough, max } => on_batch >= max || level >= enough,
        }
    }
}
