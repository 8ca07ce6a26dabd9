//! The state of a job copy that a checkpoint saves and a restart restores.

use forebay_report::ParallelOutcome;

use super::tables::RecoveryRun;
use crate::communication::Clocks;
use crate::ids::{DeviceId, Ids, JobId, LoaderId, RangeVec};
use crate::job::job_run::JobRun;
use crate::job::jobs::Jobs;
use crate::loader::Cursor;

/// The state of a job copy after some of its steps.
#[derive(Debug, Clone, Default)]
pub(super) struct JobState {
    /// Number of complete steps; `fresh` is the number of fresh samples that they trained on.
    pub(super) steps: u64,
    fresh: u64,
    /// Number of these steps that repeated earlier steps.
    pub(super) replayed: u64,
    /// Number of complete steps of each model copy, if each trains by itself.
    own: Vec<u64>,
    /// For each device, the number of samples that its current batch lacks; it matters if the device keeps this batch for
    /// further steps.
    missing: Vec<u64>,
    /// Bytes that pipeline stages had sent to each other and swapped.
    sent: ParallelOutcome,
    /// Progress of the exchanges between ranks.
    clocks: Clocks,
    /// Position of each loader.
    pub(super) cursors: RangeVec<LoaderId, Cursor>,
}

impl JobState {
    /// Returns the number of complete steps of model copy `model`.
    fn steps_of(&self, model: u32) -> u64 {
        self.own.get(model as usize).copied().unwrap_or(self.steps)
    }
}

impl JobRun {
    /// Returns the number of steps of model copy `model` that a checkpoint would contain if it began now. `averaged` is the
    /// number of steps that averages of models include, if models are averaged.
    pub(in crate::job) fn saved_steps(&self, averaged: Option<u64>, model: u32) -> u64 {
        averaged.unwrap_or_else(|| self.steps_of(model))
    }

    /// Returns the number of complete steps of model copy `model`.
    pub(in crate::job) fn steps_of(&self, model: u32) -> u64 {
        let own = self.own_steps().get(model as usize);
        own.copied().unwrap_or(self.steps.completed())
    }

    /// Returns whether the last complete step left a state that a checkpoint can save: a state on which independently training
    /// model copies agreed, or one that parameter servers hold. Learners that average models begin their checkpoints after
    /// averages instead.
    pub(in crate::job) fn has_state(&self) -> bool {
        let agreed = self.goes_beyond() || self.steps.completed().is_multiple_of(self.plan.period);
        self.parts.averages.is_empty() && agreed
    }

    /// Returns whether a model copy may take batches for later steps while it or other model copies have not completed the steps
    /// that a checkpoint contains.
    pub(in crate::job) fn takes_ahead(&self) -> bool {
        self.plan.window > 1 || self.trains_apart() || self.plan.batches.ahead > 0
    }
}

impl Jobs {
    /// Returns the state of job copy `j` after `steps` steps.
    pub(super) fn state(&mut self, j: JobId, steps: u64) -> JobState {
        let cursors = self.cursors(j);
        let job = &self.jobs[j];
        let recovery = self.recoveries.of(job.parts.recoveries);
        let devices = &self.devices[job.parts.devices];
        let of_device = |d: DeviceId| job.steps_of(self.devices[d].model);
        JobState {
            steps,
            fresh: job.steps.fresh_in(steps) - self.ahead(j),
            replayed: recovery.map_or(0, RecoveryRun::replayed),
            own: job.own_steps().to_vec(),
            missing: devices.iter().map(|device| device.input.missing()).collect(),
            sent: job.spread.books,
            clocks: self.communicators.clocks(job.parts, &of_device),
            cursors,
        }
    }

    /// Sets job copy `j`, which has nothing in progress, back to `state`. Its loaders begin to read again only with
    /// [`Recoveries::restore_loader`](super::Recoveries::restore_loader).
    pub(super) fn restore(&mut self, j: JobId, state: &JobState) {
        let job = &mut self.jobs[j];
        job.roll_back((state.steps, state.fresh), &state.own);
        job.spread.books = state.sent;
        self.communicators.restore(job.parts, &state.clocks);
        for (d, missing) in job.parts.devices.iter().zip(&state.missing) {
            let device = &mut self.devices[d];
            device.input.restore(*missing);
            device.go_to(state.steps_of(device.model));
        }
        for l in job.parts.loaders {
            self.loaders.roll_back(l, &state.cursors[l].passed);
        }
    }

    /// Returns the position of each loader of job copy `j` in a checkpoint that begins now: the samples that it has handed out,
    /// without those taken for steps that the checkpoint does not contain.
    fn cursors(&mut self, j: JobId) -> RangeVec<LoaderId, Cursor> {
        let job = &self.jobs[j];
        let Some(recovery) = self.recoveries.of(job.parts.recoveries) else {
            return RangeVec::default();
        };
        let averaged = self.communicators.averaged_steps(job.parts.averages);
        let steps = |model| job.saved_steps(averaged, model);
        let cursor = |l: LoaderId| self.loaders.cursor(l, recovery.base_of(l), steps);
        let all = job.parts.loaders.iter().map(cursor);
        let mut cursors = RangeVec::new(job.parts.loaders.start, all);
        for device in &mut self.devices[job.parts.devices] {
            let saved = steps(device.model);
            device.input.forget_saved(saved);
            let (ahead, cursor) = (device.input.ahead(), &mut cursors[device.loader]);
            cursor.samples -= ahead.iter().map(|of| of.samples).sum::<u64>();
            cursor.batches = cursor.batches.saturating_sub(ahead.len() as u64);
        }
        cursors
    }

    /// Returns the number of fresh samples that incomplete steps of job copy `j` have taken; 0 if fresh samples are counted
    /// only when their step is complete.
    fn ahead(&self, j: JobId) -> u64 {
        let job = &self.jobs[j];
        let devices = if job.counts_taken() { job.parts.devices } else { Ids::default() };
        let of = |d: DeviceId| self.devices[d].input.ahead().iter();
        devices.iter().flat_map(of).map(|ahead| ahead.fresh).sum()
    }
}
