//! The state of loaders that a restart restores, and the samples of the epoch that are read again after it.

use std::ops::Range;

use forebay_engine::Time;
use forebay_metrics::{Polling, Requests, StageBuffer, Tuner};
use forebay_report::SampleCounts;
use forebay_scenario::Resume;

use super::state::Cursor;
use super::tables::{FailureRun, RecoveryRun};
use crate::ids::{FailuresId, LoaderId};
use crate::job::jobs::Jobs;
use crate::loader::{Item, LoaderProgress, LoaderRun};

/// A loader's initial state, to which restarts restore it, and counts of the work that failures threw away.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(in crate::job) stages: Vec<StageBuffer<Item>>,
    pub(in crate::job) requests: Option<Box<Requests>>,
    pub(in crate::job) polling: Option<Box<Polling>>,
    pub(in crate::job) tuner: Option<Box<Tuner>>,
    /// Number of samples in the queue at the start; `quota` is the number of samples to be read in addition.
    pub(in crate::job) prefill: u64,
    pub(in crate::job) quota: u64,
    /// Number of samples that left the queue and do not count towards the position in the reading order, because they came again
    /// after a failure.
    pub(in crate::job) base: u64,
    /// Position up to which samples had left the queue before, so that they are not fresh when they come again.
    pub(in crate::job) known: u64,
    pub(in crate::job) counts: SampleCounts,
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
    pub(in crate::job) fn restore_loader(&mut self, now: Time, f: FailuresId, l: LoaderId) {
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
    pub(in crate::job) fn start_of(&self, saved: &Cursor, index: usize, loaders: u64) -> Cursor {
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
    pub(in crate::job) fn steps_again(&self, saved: &[Cursor], resume: Resume) -> u64 {
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
    pub(in crate::job) fn batches(&self, steps: Range<u64>) -> u64 {
        let until = |steps: u64| match steps.checked_sub(1) {
            Some(last) => ((last as f64 / self.interval).floor() as u64).saturating_add(1),
            None => 0,
        };
        until(steps.end).saturating_sub(until(steps.start)).saturating_mul(self.copies)
    }
}
