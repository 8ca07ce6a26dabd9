//! Learners that average their models: waits, corrections, and the averages among GPUs.

use super::jobs::Jobs;
use crate::communication::Averages;
use crate::device::State;
use crate::env::{ActivityId, Delay, Env, Event, Notice, broken};
use crate::ids::{DeviceId, JobId, PartId};

impl Jobs {
    /// Returns the averages of the models of job copy `j`; `None` if its model copies do not average their models.
    pub(super) fn averages(&self, j: JobId) -> Option<&Averages> {
        self.communicators.averages(self.jobs[j].parts.averages)
    }

    fn averages_mut(&mut self, j: JobId) -> Option<&mut Averages> {
        self.communicators.averages_mut(self.jobs[j].parts.averages)
    }

    /// Begins the wait of device `d`, which has trained for a period, for the average before its own correction; returns false if
    /// the reference model is up to date already.
    pub(super) fn begin_average_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let step = self.devices[d].step();
        self.begin_wait_for_average_of(env, d, step)
    }

    /// Begins the wait of device `d`, which has corrected its model, for the average with this correction; returns false if
    /// learners do not wait for it, or if it is done.
    pub(super) fn begin_own_average_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let (job, next) = (self.devices[d].job, self.devices[d].step());
        let waits = self.averages(job).is_some_and(|run| !run.overlaps());
        waits && self.begin_wait_for_average_of(env, d, next + 1)
    }

    /// Begins the wait of device `d` for the last average that is due after `step` steps; returns false if it is done.
    fn begin_wait_for_average_of(&mut self, env: &mut Env, d: DeviceId, step: u64) -> bool {
        let Some(run) = self.averages_mut(self.devices[d].job) else {
            broken("only learners that average models wait for averages");
            return false;
        };
        let waits = !run.is_made(step);
        if waits {
            run.add_waiting(d);
            self.begin_averaging(env, d);
        }
        waits
    }

    /// Records that device `d` averages its model, or waits to do so, from now on.
    fn begin_averaging(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.account.state() != State::Averaging {
            device.account.begin(env.now, State::Averaging);
            self.devices.trace(env, d, "averaging");
        }
    }

    /// Begins the correction of the model of device `d`, whose reference model is up to date.
    pub(super) fn begin_correction(&mut self, env: &mut Env, d: DeviceId) {
        self.begin_averaging(env, d);
        let j = self.devices[d].job;
        let Some(run) = self.averages(j) else {
            return broken("only learners that average models come here");
        };
        let pace = self.devices[d].pace();
        let latency = Delay::once(run.latency(self.jobs[j].learners.number()) / pace);
        if latency.span.0 == 0 {
            return self.move_correction(env, d);
        }
        env.after(latency, Event::Waited(ActivityId::Average(d)));
    }

    /// Begins to move the bytes of the correction of the model of device `d`, whose latency is over.
    pub(crate) fn move_correction(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        let Some(run) = self.averages(device.job) else {
            return broken("only learners that average models come here");
        };
        if device.account.state() != State::Averaging {
            return;
        }
        let bytes = run.bytes_of(PartId::new(device.stage));
        let gpu = self.gpu_of(d);
        if !gpu.is_some_and(|gpu| gpu.move_bytes(env, bytes, ActivityId::Average(d))) {
            self.end_correction(env, d);
        }
    }

    /// Ends the correction of the model of device `d`, which goes on with its program.
    pub(crate) fn end_correction(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.account.state() != State::Averaging {
            return;
        }
        let (j, start) = (device.job, device.account.clock());
        self.settle(d, env.now);
        self.devices[d].account.begin(env.now, State::Idle);
        self.devices.trace(env, d, "waiting");
        let parties = self.jobs[j].devices_in_use();
        let Some(run) = self.averages_mut(j) else {
            return broken("only learners that average models come here");
        };
        if run.add_correction((d, start), parties) {
            self.average_among_gpus(env, j);
        }
        // If the average takes no time, it is done before the device goes on.
        env.notices.push_back(Notice::OpOver(d));
    }

    /// Starts the allreduce of the learners' corrections among the GPUs of job copy `j`, now that all learners have corrected
    /// their models; with a single GPU there is nothing to reduce.
    fn average_among_gpus(&mut self, env: &mut Env, j: JobId) {
        if !self.communicators.begin_averages(env, self.jobs[j].parts.communicators) {
            self.begin_average_update(env, j);
        }
    }

    /// Begins to update the reference models of job copy `j`, since every GPU has the sum of corrections.
    pub(super) fn begin_average_update(&mut self, env: &mut Env, j: JobId) {
        let Some(run) = self.averages(j) else {
            return broken("only learners that average models come here");
        };
        let shared = run.update();
        if shared.span.0 == 0 {
            return self.end_average(env, j);
        }
        let delay = shared.at_pace(self.devices.slowest(self.jobs[j].parts.devices));
        env.after(delay, Event::Waited(ActivityId::Averaged(j)));
    }

    /// Ends an average of job copy `j`: every GPU's reference model is up to date.
    pub(crate) fn end_average(&mut self, env: &mut Env, j: JobId) {
        let Some(run) = self.averages_mut(j) else {
            return broken("only learners that average models come here");
        };
        let mut waiting = run.take_waiting();
        waiting.retain(|d| self.devices[*d].account.state() == State::Averaging);
        // All waits for the average end before a learner begins its next correction.
        for d in &waiting {
            self.settle(*d, env.now);
        }
        if let Some(run) = self.averages_mut(j) {
            run.end();
        }
        if !self.jobs[j].is_finished() {
            self.begin_checkpoint_if_due(env, j);
        }
        for d in waiting {
            if self.devices[d].account.state() == State::Averaging {
                self.end_op(env, d);
            }
        }
        self.resume_learners(env, j);
    }
}
