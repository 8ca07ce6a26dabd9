//! The state to which loaders are restored at a restart.

use forebay_engine::Time;
use forebay_metrics::{Polling, Requests, StageBuffer, Tuner};
use forebay_report::SampleCounts;
use forebay_scenario::Resume;

use super::tables::{FailureRun, RecoveryRun};
use crate::ids::{FailuresId, LoaderId};
use crate::jobs::Jobs;
use crate::loader::{LoaderProgress, LoaderRun};
use crate::worker::Item;

/// A loader's initial state, to which restarts restore it, and counts of the work that failures threw away.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(super) stages: Vec<StageBuffer<Item>>,
    pub(super) requests: Option<Box<Requests>>,
    pub(super) polling: Option<Box<Polling>>,
    pub(super) tuner: Option<Box<Tuner>>,
    /// Number of samples in the queue at the start; `quota` is the number of samples to be read in addition.
    pub(super) prefill: u64,
    pub(super) quota: u64,
    /// Number of samples that left the queue and do not count towards the position in the reading order, because they came again
    /// after a failure.
    pub(crate) base: u64,
    /// Position up to which samples had left the queue before, so that they are not fresh when they come again.
    pub(super) known: u64,
    pub(super) counts: SampleCounts,
}

impl Restored {
    /// Returns the initial state of `loader`, with the buffers `stages` and with `prefill` samples in its queue.
    pub(crate) fn new(
        stages: Vec<StageBuffer<Item>>,
        loader: &LoaderRun,
        prefill: u64,
    ) -> Restored {
        Restored {
            stages,
            requests: loader.requests.clone(),
            polling: loader.pacing.polling.clone(),
            tuner: loader.pacing.tuner.clone(),
            prefill,
            quota: loader.progress.quota,
            base: 0,
            known: 0,
            counts: SampleCounts::default(),
        }
    }
}

impl Jobs {
    /// Lets loader `l` of the job copy of failures `f` read again from the saved state on; all its buffers are empty then.
    pub(super) fn restore_loader(&mut self, now: Time, f: FailuresId, l: LoaderId) {
        let FailureRun { job, recovery, settings, .. } = &self.recoveries.failures[f];
        let job = &self.jobs[*job];
        let RecoveryRun { saved, restored, .. } = &mut self.recoveries.all[*recovery];
        let loader = &mut self.loaders[l];
        let cursor = &saved.state.cursors[l];
        let kept = match settings.resume {
            Resume::Position => cursor.clone(),
            Resume::Epoch => {
                let (index, nodes) = (loader.place.rank as usize, u64::from(loader.place.loaders));
                settings.epoch.start_of(cursor, index, nodes)
            }
        };
        // Workers that get requests for samples of shards take the next samples of their shards, whatever their turns are.
        let by_sample = loader.source.layout.is_by_sample();
        let begun = if by_sample { kept.begun } else { kept.begun.renumbered() };
        if let Some(lineage) = &mut loader.lineage {
            lineage.restart(&kept.passed);
            lineage.renumber(&begun.trained());
        }
        // The repeated samples may need one batch more than the samples that they are added to.
        let more = settings.epoch.batches(saved.state.steps..job.plan.goal.steps);
        let of = &mut restored[l];
        of.counts.dropped += loader.progress.in_progress;
        // Samples in the queue at the start were not read; those that were not trained on are read now.
        let read = kept.passed.samples.count();
        of.counts.started += loader.progress.started - read;
        let all = of.quota.saturating_add(of.prefill).saturating_sub(kept.samples);
        let coming = all.max(more.saturating_mul(job.plan.batch));
        let quota = read.saturating_add(coming);
        loader.progress = LoaderProgress { started: read, ..LoaderProgress::new(quota) };
        of.counts.cleared += loader.queue.clear(now, coming);
        of.base = loader.queue.passed() - kept.samples;
        of.known = of.known.max(cursor.samples);
        loader.requests.clone_from(&of.requests);
        loader.pacing.polling.clone_from(&of.polling);
        loader.pacing.tuner.clone_from(&of.tuner);
        if let Some(requests) = &mut loader.requests {
            requests.resume(kept.batches, begun);
            requests.extend(kept.batches.saturating_add(more));
        }
        if loader.requests.is_none() || !by_sample {
            loader.source.restart(kept.passed.samples);
        }
        for (s, stage) in loader.stages.all.iter().zip(&of.stages) {
            self.loaders.stages[s].buffer = stage.clone().coming(coming);
        }
    }
}
