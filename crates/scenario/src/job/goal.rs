//! How far a job copy goes: in steps or fresh samples, and what its nodes read for that.

use super::{BatchInterval, Job, QueueKind};
use crate::{Scenario, Stop};

/// Never ends: for runs that end at an instant.
pub const ENDLESS: u64 = u64::MAX;

/// How far a job copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// Steps, or [`ENDLESS`].
    pub steps: u64,
    /// Fresh samples, or [`ENDLESS`].
    pub fresh: u64,
    /// Samples that each loader reads, or [`ENDLESS`].
    pub quota: u64,
}

impl Scenario {
    /// Samples of an epoch that are trained on, and its batches: what loaders on request make of
    /// theirs, otherwise all.
    fn of_epoch(&self, job: &Job) -> (f64, f64) {
        let dataset = &self.datasets[job.dataset];
        if job.loader.requests.is_none() {
            return (dataset.samples as f64, dataset.samples as f64 / job.batch as f64);
        }
        let samples: u64 = job.samples_of_epoch(dataset).iter().sum();
        let loaders = f64::from(job.loaders());
        (samples as f64 * loaders, job.batches_of_epoch(dataset) as f64 * loaders)
    }

    /// Samples of an epoch of a copy of `job` as its loaders make it: without those that fill no batch where these are
    /// dropped, and with those that come twice so that all ranks have as many.
    #[must_use]
    pub fn samples_of_epoch(&self, job: &Job) -> u64 {
        self.of_epoch(job).0 as u64
    }

    /// How far each copy of `job` goes.
    #[must_use]
    pub fn goal(&self, job: &Job) -> Goal {
        let models = u64::from(job.models());
        let predictable = match job.batch_interval {
            // How many samples a step has changes with the number of learners.
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
            // Loaders read on until the last step is over, so that no work in progress drains before.
            (Stop::Steps(steps), _) => Goal { steps, fresh: ENDLESS, quota: ENDLESS },
            (Stop::Epochs(epochs), known) => {
                let (samples, batches) = self.of_epoch(job);
                let samples = epochs * samples;
                let batches = (epochs * batches / models as f64).ceil().max(1.0);
                match known {
                    Some(k) => {
                        let mut steps = (batches * k).ceil() as u64;
                        // Rounded up, the product may reach the step that takes one batch more.
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
    /// Whether a model copy takes a fresh batch for `step`, its `on_batch` last steps having been on
    /// one batch, with `level` samples in the queue.
    #[must_use]
    pub fn is_fresh(&self, step: u64, on_batch: u64, level: u64) -> bool {
        match *self {
            _ if step == 0 => true,
            BatchInterval::Every(k) => (step as f64 / k).floor() != ((step - 1) as f64 / k).floor(),
            BatchInterval::Adaptive { level: enough, max } => on_batch >= max || level >= enough,
        }
    }
}
