//! Learners that average their models: waits, corrections, and the averages among GPUs.

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::jobs::Jobs;
use crate::communication::Averages;
use crate::device::{Device, State};
use crate::env::{ActivityId, Delay, Env, Event, Notice, broken};
use crate::ids::{CommunicatorId, DeviceId, JobId, PartId};

impl Jobs {
    /// Returns the averages of the models of job copy `j`; `None` if its model copies do not average their models.
    pub(super) fn averages(&self, j: JobId) -> Option<&Averages> {
        self.communicators.averages[self.jobs[j].parts.averages].first()
    }

    fn averages_mut(&mut self, j: JobId) -> Option<&mut Averages> {
        self.communicators.averages[self.jobs[j].parts.averages].first_mut()
    }

    /// Begins the wait of device `d`, which has trained for a period, for the average before its own correction; returns false if
    /// the reference model is up to date already.
    pub(super) fn begin_average_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let step = self.devices[d].next;
        self.begin_wait_for_average_of(env, d, step)
    }

    /// Begins the wait of device `d`, which has corrected its model, for the average with this correction; returns false if
    /// learners do not wait for it, or if it is done.
    pub(super) fn begin_own_average_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let Device { next, job, .. } = self.devices[d];
        let waits = self.averages(job).is_some_and(|run| !run.overlap);
        waits && self.begin_wait_for_average_of(env, d, next + 1)
    }

    /// Begins the wait of device `d` for the last average that is due after `step` steps; returns false if it is done.
    fn begin_wait_for_average_of(&mut self, env: &mut Env, d: DeviceId, step: u64) -> bool {
        let Some(run) = self.averages_mut(self.devices[d].job) else {
            broken("only learners that average models wait for averages");
            return false;
        };
        let early = step / run.period > run.over;
        if early {
            run.waiting.push_back(d);
            self.begin_averaging(env, d);
        }
        early
    }

    /// Records that device `d` averages its model, or waits to do so, from now on.
    fn begin_averaging(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.state != State::Averaging {
            (device.state, device.since) = (State::Averaging, env.now);
            self.trace_device(env, d, "averaging");
        }
    }

    /// Begins the correction of the model of device `d`, whose reference model is up to date.
    pub(super) fn draw_model(&mut self, env: &mut Env, d: DeviceId) {
        self.begin_averaging(env, d);
        let j = self.devices[d].job;
        let Some(run) = self.averages(j) else {
            return broken("only learners that average models come here");
        };
        let pace = self.devices[d].on_gpu.pace;
        let latency = Delay::once(run.latency * f64::from(self.jobs[j].learners.number) / pace);
        if latency.span.0 == 0 {
            return self.move_model(env, d);
        }
        env.after(latency, Event::Waited(ActivityId::Average(d)));
    }

    /// Begins to move the bytes of the correction of the model of device `d`, whose latency is over.
    pub(crate) fn move_model(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        let Some(run) = self.averages(device.job) else {
            return broken("only learners that average models come here");
        };
        if device.state != State::Averaging {
            return;
        }
        let bytes = run.own[PartId::new(device.stage)];
        match self.gpu_of(d).and_then(|gpu| gpu.memory).filter(|_| bytes > 0.0) {
            Some((group, ..)) => {
                env.network.start(env.now, group, bytes, ActivityId::Average(d));
            }
            None => self.drawn(env, d),
        }
    }

    /// Ends the correction of the model of device `d`, which goes on with its program.
    pub(crate) fn drawn(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.state != State::Averaging {
            return;
        }
        let j = device.job;
        device.state = State::Idle;
        let start = std::mem::replace(&mut device.since, env.now);
        let cause = StallCause::own(Cause::Communication);
        self.jobs[j].steps.add_stall(Segment { start, end: env.now, cause });
        self.trace_device(env, d, "waiting");
        let parties = self.jobs[j].models() * self.jobs[j].stages();
        let Some(run) = self.averages_mut(j) else {
            return broken("only learners that average models come here");
        };
        run.drawn += 1;
        if run.drawn == parties {
            run.last = Some((d, start));
            self.average_among_gpus(env, j);
        }
        // If the average takes no time, it is done before the device goes on.
        env.notices.push_back(Notice::OpOver(d));
    }

    /// Starts the allreduce of the learners' corrections among the GPUs of job copy `j`, now that all learners have corrected
    /// their models; with a single GPU there is nothing to reduce.
    fn average_among_gpus(&mut self, env: &mut Env, j: JobId) {
        let all = self.jobs[j].parts.communicators;
        let averages = |c: &CommunicatorId| self.communicators.all[*c].averages_models();
        let all: Vec<CommunicatorId> = all.iter().filter(averages).collect();
        if all.is_empty() {
            return self.exchanged(env, j);
        }
        for c in &all {
            self.communicators.all[*c].start_all(env.now);
        }
        for c in all {
            self.communicators.begin_next(env, c);
        }
    }

    /// Begins to update the reference models of job copy `j`, since every GPU has the sum of corrections.
    pub(super) fn exchanged(&mut self, env: &mut Env, j: JobId) {
        let Some(run) = self.averages(j) else {
            return broken("only learners that average models come here");
        };
        let shared = run.shared;
        if shared.span.0 == 0 {
            return self.averaged(env, j);
        }
        let delay = shared.at_pace(self.slowest_of(self.jobs[j].parts.devices));
        env.after(delay, Event::Waited(ActivityId::Averaged(j)));
    }

    /// Ends an average of job copy `j`: every GPU's reference model is up to date.
    pub(crate) fn averaged(&mut self, env: &mut Env, j: JobId) {
        let Some(run) = self.averages_mut(j) else {
            return broken("only learners that average models come here");
        };
        run.over += 1;
        run.drawn = 0;
        let (last, waiting) = (run.last, std::mem::take(&mut run.waiting));
        if !self.jobs[j].finished {
            self.begin_checkpoint_if_due(env, j);
        }
        for d in waiting {
            if self.devices[d].state == State::Averaging {
                self.end_wait_for_average(env.now, d, last);
                self.end_op(env, d);
            }
        }
        self.resume_learners(env, j);
    }

    /// Records the causes of the wait of device `d` for an average. Until the `last` learner began its correction, the device
    /// waited for this learner; after that, for communication.
    fn end_wait_for_average(&mut self, now: Time, d: DeviceId, last: Option<(DeviceId, Time)>) {
        let device = &mut self.devices[d];
        let j = device.job;
        let since = std::mem::replace(&mut device.since, now);
        let (mut pieces, mut start) = (Vec::new(), since);
        if let Some((peer, began)) = last {
            start = began.clamp(since, now);
            self.wait_for_rank(d, peer, (since, start), &mut pieces);
        }
        let cause = StallCause::own(Cause::Communication);
        pieces.push(Segment { start, end: now, cause });
        pieces.iter().for_each(|piece| self.jobs[j].steps.add_stall(*piece));
    }
}
