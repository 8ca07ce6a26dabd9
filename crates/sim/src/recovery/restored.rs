//! The state to which loaders are restored at a restart, and the part of a checkpoint that concerns loaders.

use crate::index::{DeviceId, Id, Ids, JobId, LoaderId, RangeVec};
use crate::jobs::Jobs;
use crate::lineage::Trained;
use crate::loader::{LoaderProgress, LoaderRun};
use crate::worker::Item;
use forebay_engine::Time;
use forebay_metrics::{Polling, Requests, StageBuffer, Tuner};
use forebay_report::SampleCounts;
use forebay_scenario::Resume;

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
    /// Number of dequeued samples that do not count towards the position in the reading order, because they came again after a
    /// failure.
    pub(super) base: u64,
    /// Position up to which samples were trained on before and are not fresh when they come again.
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
    /// Restores loader `l` of job copy `j` to the saved state; all its buffers are empty then.
    pub(super) fn restore_loader(&mut self, now: Time, j: JobId, l: LoaderId) {
        let job = &mut self.jobs[j];
        let (first, Some(recovery)) = (job.parts.loaders.start, &mut job.recovery) else { return };
        let Some(failures) = &recovery.failures else { return };
        let index = (l - first) as usize;
        let trained = recovery.saved.taken[index].0;
        let loader = &mut self.loaders[l];
        let (saved, nodes) = (&recovery.saved, u64::from(loader.place.loaders));
        let trained_on = &saved.trained[index];
        let (position, batches, kept) = match failures.resume {
            Resume::Position => {
                let (samples, batches) = saved.taken[index];
                (samples, batches, trained_on.samples.clone())
            }
            Resume::Epoch => {
                let (samples, batches) = failures.epoch.start_of(saved, index, nodes);
                let begin = failures.epoch.begin_of(saved, index, nodes);
                (samples, batches, trained_on.samples.below(begin))
            }
        };
        if let Some(lineage) = &mut loader.lineage {
            lineage.restart(trained_on, kept.clone());
        }
        // The repeated samples may need one batch more than the samples that they are added to.
        let more = failures.epoch.batches(recovery.saved.steps..job.plan.goal.steps);
        let of = &mut recovery.restored[Id::new(l - first)];
        of.counts.dropped += loader.progress.in_progress;
        // Samples in the queue at the start were not read; those that were not trained on are read now.
        let read = kept.count();
        of.counts.started += loader.progress.started - read;
        let all = of.quota.saturating_add(of.prefill).saturating_sub(position);
        let coming = all.max(more.saturating_mul(job.plan.batch));
        let quota = read.saturating_add(coming);
        loader.progress = LoaderProgress { started: read, ..LoaderProgress::new(quota) };
        of.counts.cleared += loader.queue.clear(now, coming);
        of.base = loader.queue.dequeued() - position;
        of.known = of.known.max(trained);
        loader.requests.clone_from(&of.requests);
        loader.pacing.polling.clone_from(&of.polling);
        loader.pacing.tuner.clone_from(&of.tuner);
        // Workers that get requests for samples of shards take the next samples of their shards.
        let by_sample = loader.source.layout.is_by_sample();
        if let Some(requests) = &mut loader.requests {
            let passed = if by_sample { kept.clone() } else { requests.first(batches) };
            requests.skip(batches, passed);
            requests.extend(batches.saturating_add(more));
        }
        if loader.requests.is_none() || !by_sample {
            loader.source.restart(kept);
        }
        for (s, stage) in loader.stages.all.iter().zip(&of.stages) {
            self.loaders.stages[s].buffer = stage.clone().coming(coming);
        }
    }

    /// Returns the numbers of samples and batches of each loader that job copy `j` has trained on: those handed out, without
    /// those taken for incomplete steps.
    pub(crate) fn taken(&mut self, j: JobId) -> Vec<(u64, u64)> {
        let averaged = self.communicators.averaged_steps(self.jobs[j].parts.averages);
        let job = &self.jobs[j];
        let Some(recovery) = &job.recovery else { return Vec::new() };
        let of = |(l, restored): (LoaderId, &Restored)| {
            let loader = &mut self.loaders[l];
            let batches = loader.requests.as_ref().map_or(0, |requests| requests.taken());
            (loader.queue.dequeued() - restored.base, batches)
        };
        let all = job.parts.loaders.iter().zip(&recovery.restored).map(of);
        let mut taken = RangeVec::new(job.parts.loaders.start, all);
        for device in &mut self.devices[job.parts.devices] {
            let saved = averaged.unwrap_or_else(|| job.steps_of(device.model));
            device.input.ahead.retain(|(step, ..)| *step >= saved);
            let (samples, batches) = &mut taken[device.loader];
            *samples -= device.input.ahead.iter().map(|(_, samples, _)| samples).sum::<u64>();
            *batches = batches.saturating_sub(device.input.ahead.len() as u64);
        }
        taken.as_slice().to_vec()
    }

    /// Returns each sample of each loader that job copy `j` has trained on in the steps that a checkpoint would contain if it
    /// began now; empty if samples are not tracked.
    pub(crate) fn trained(&mut self, j: JobId) -> Vec<Trained> {
        let averaged = self.communicators.averaged_steps(self.jobs[j].parts.averages);
        let job = &self.jobs[j];
        let loaders = &mut self.loaders[job.parts.loaders];
        let of = |loader: &mut LoaderRun| {
            let lineage = loader.lineage.as_mut();
            lineage.map_or_else(Trained::default, |lineage| {
                lineage.settle(|model| averaged.unwrap_or_else(|| job.steps_of(model)))
            })
        };
        loaders.iter_mut().map(of).collect()
    }

    /// Returns the number of fresh samples that incomplete steps of job copy `j` have taken; 0 if fresh samples are counted
    /// only when their step is complete.
    pub(crate) fn ahead(&self, j: JobId) -> u64 {
        let job = &self.jobs[j];
        let devices = if job.counts_taken() { job.parts.devices } else { Ids::default() };
        let of = |d: DeviceId| self.devices[d].input.ahead.iter();
        devices.iter().flat_map(of).map(|(_, _, fresh)| fresh).sum()
    }
}
