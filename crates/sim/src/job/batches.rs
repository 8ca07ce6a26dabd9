//! Hand-over of batches from a loader's queue to devices: when a step begins, or ahead of it by the device's host; and their
//! copies to the device.

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::Cause;

use super::jobs::Jobs;
use crate::device::{Ahead, State, Taken};
use crate::env::{ActivityId, Env, broken};
use crate::ids::{DeviceId, Ids, LoaderId, WorkerId};
use crate::loader::BatchTaken;

impl Jobs {
    /// Lets device `d` take a batch; if the queue has none, the device begins to wait for one.
    pub(super) fn want_batch(&mut self, env: &mut Env, d: DeviceId) {
        let l = self.devices[d].loader;
        if self.loaders.look_for_batch(env, l) {
            self.take_batch(env, d);
            self.loaders.unblock_last(env, l);
            return;
        }
        self.loaders.await_batch(env, l, d);
        self.starve(env, d);
    }

    /// Records that device `d` has nothing to compute until it gets a batch.
    pub(super) fn starve(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        device.account.begin(env.now, State::Starving);
        self.loaders.begin_starving(env.now, device.loader);
        self.devices.trace(env, d, "starving");
    }

    pub(super) fn take_batch(&mut self, env: &mut Env, d: DeviceId) {
        if self.devices[d].input.has_host() {
            return self.serve_host(env, d);
        }
        let step = self.devices[d].step();
        let missing = self.take_from_queue(env, d, step);
        self.devices[d].input.take(missing);
        self.hold_input(d);
        self.use_batch(env, d);
    }

    /// Takes a batch for `step` of device `d` from its loader's queue; returns the number of samples that the batch lacks.
    pub(super) fn take_from_queue(&mut self, env: &mut Env, d: DeviceId, step: u64) -> u64 {
        let device = &mut self.devices[d];
        let (l, job) = (device.loader, &mut self.jobs[device.job]);
        let recovery = self.recoveries.of(job.parts.recoveries);
        let fresh = |passed: u64, taken: u64| {
            recovery.map_or(taken, |recovery| recovery.fresh(l, passed, taken))
        };
        let taken = self.loaders.take_batch(env, l, (device.model, step), fresh);
        let BatchTaken { size, samples, fresh } = taken;
        job.add_fresh(device.model, step, fresh);
        if recovery.is_some() && job.takes_ahead() {
            let averaged = self.communicators.averaged_steps(job.parts.averages);
            let saved = job.saved_steps(averaged, device.model);
            device.input.note_ahead(saved, Ahead { step, samples, fresh });
        }
        job.plan.batch - size
    }

    /// Lets waiting devices take the batches that are ready in the queue of loader `l`; worker `w` made the last sample.
    pub(crate) fn serve(&mut self, env: &mut Env, l: LoaderId, w: WorkerId) {
        while let Some(d) = self.loaders.next_served(l) {
            self.end_starving(env, d, w, None);
            self.take_batch(env, d);
        }
        self.loaders.unblock_last(env, l);
        self.loaders.hand_out(env, l, w);
    }

    /// Lets device `d` take the batch that was promised to it, at the end of its sleep between polls.
    pub(crate) fn wake_sleeper(&mut self, env: &mut Env, d: DeviceId) {
        let l = self.devices[d].loader;
        let Some(found) = self.loaders.take_promised(l, d) else {
            return broken("a device is woken for the batch that was promised to it");
        };
        self.end_starving(env, d, WorkerId::new(found.worker), Some(found.slept(env.now)));
        self.take_batch(env, d);
        self.loaders.unblock_last(env, l);
    }

    /// Ends the wait of device `d` for a batch, which worker `w` has completed. If the device polls, `slept` is the time from
    /// the completion of the batch to the poll that found it.
    pub(super) fn end_starving(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        w: WorkerId,
        slept: Option<Segment>,
    ) {
        let device = &self.devices[d];
        if device.account.state() != State::Starving {
            // Only the device's host has waited.
            return;
        }
        self.loaders.end_starving(env.now, device.loader);
        let (since, step, j) = (device.account.clock(), device.step(), device.job);
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        let l = device.loader;
        self.causes().of_batch(l, (w, slept), (since, env.now), &mut segments);
        self.loaders[l].first_batches.end_wait(env.now.since(since));
        segments.iter().rev().for_each(|piece| self.charge(d, piece.end, piece.cause));
        self.devices.trace_causes(env, d, &segments);
        if self.jobs[j].parts.devices.len() > 1 {
            let chain = self.devices[Ids::new(d + 1, d + self.jobs[j].stages())].iter();
            let oldest = chain.map(|device| device.account.clock()).fold(since, Time::min);
            let period = self.jobs[j].plan.period;
            // Waits since the previous exchange may still be needed.
            let known = |of: u64| of / period + 1 >= step / period;
            let loose = self.jobs[j].ranks_may_diverge();
            let input = &mut self.devices[d].input;
            input.forget_waits(|of, wait| wait.end > oldest || loose && known(of));
            segments.iter().rev().for_each(|segment| input.note_wait(step, *segment));
        }
        self.segments = segments;
    }

    /// Ends the wait of device `d` and of its host for a batch, because the job copy ends or stops.
    pub(super) fn stop_waiting(&mut self, env: &Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let (l, starves) = (device.loader, device.account.state() == State::Starving);
        if starves {
            self.loaders.end_starving(env.now, l);
        }
        let host = device.input.host();
        let waits = host.is_some_and(|host| host.stop_waiting());
        if waits || starves {
            self.loaders.stop_waiting(l, d);
        }
    }
}

impl Jobs {
    /// Begins to copy the batch of device `d` to the device, if its trainer copies batches; otherwise begins the step.
    pub(super) fn use_batch(&mut self, env: &mut Env, d: DeviceId) {
        let missing = self.devices[d].input.missing();
        if !self.copy_batch(env, d, missing) {
            return self.begin_on_batch(env, d);
        }
        let device = &mut self.devices[d];
        device.account.begin(env.now, State::Loading);
        self.devices.trace(env, d, Cause::Copy.name());
    }

    /// Begins to copy a batch that lacks `missing` samples to device `d`; returns false if its trainer copies no batches.
    pub(super) fn copy_batch(&mut self, env: &mut Env, d: DeviceId, missing: u64) -> bool {
        let device = &self.devices[d];
        let loader = &self.loaders[device.loader];
        let route = loader.gpus.route(device.model.into());
        let (Some(bytes), Some(group)) = (loader.sizes.copied, route) else { return false };
        let batch = self.jobs[device.job].plan.batch as f64;
        let bytes = bytes * ((batch - missing as f64) / batch);
        env.network.start(env.now, group, bytes, ActivityId::Load(d));
        true
    }

    /// Ends the copy of the batch of device `d`.
    pub(crate) fn end_batch_copy(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        if device.input.has_host() {
            return self.end_copy_ahead(env, d);
        }
        if device.account.state() != State::Loading {
            // The device's job ended during the copy.
            return;
        }
        self.settle(d, env.now);
        self.begin_on_batch(env, d);
    }
}

impl Jobs {
    /// Lets device `d`, which has a host and may begin its next step, begin the step on the batch that its host has taken, or wait
    /// for that batch.
    pub(super) fn next_of_host(&mut self, env: &mut Env, d: DeviceId) {
        self.look_ahead(env, d);
        let device = &mut self.devices[d];
        let step = device.step();
        if device.input.host().is_none_or(|host| host.step() > step) {
            return self.begin_on_taken(env, d);
        }
        self.starve(env, d);
    }

    /// Begins the step of device `d` on the batch that its host has taken for it, once the batch is on the device. Without such a
    /// batch, the step uses the last batch again.
    fn begin_on_taken(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let step = device.step();
        let Some(host) = device.input.host() else {
            return broken("only devices whose hosts take batches ahead come here");
        };
        match host.batch_of(step) {
            Some(Taken { copied: false, .. }) => {
                device.account.begin(env.now, State::Loading);
                return self.devices.trace(env, d, Cause::Copy.name());
            }
            Some(Taken { missing, .. }) => {
                host.hand_over();
                device.input.take(missing);
                self.hold_input(d);
            }
            None => {}
        }
        self.begin_on_batch(env, d);
    }

    /// Lets the host of device `d` take the batches of the device's next step and of later ones, up to its limit of steps ahead. At
    /// the first batch that is not ready, the host begins to wait. While the number of learners may change, hosts take no batch
    /// ahead, so that no batch is left over when a learner leaves.
    fn look_ahead(&mut self, env: &mut Env, d: DeviceId) {
        loop {
            let device = &mut self.devices[d];
            let (l, job, next) = (device.loader, &self.jobs[device.job], device.step());
            let Some(host) = device.input.host() else {
                return broken("only devices whose hosts take batches ahead come here");
            };
            let step = host.step();
            if !host.may_prepare(next, job.learners.may_change()) || job.is_beyond(step) {
                return;
            }
            let level = self.loaders.level(l);
            if !job.plan.batches.interval.is_fresh(step, host.on_batch(), level) {
                host.keep_batch();
                continue;
            }
            if !self.loaders.look_for_batch(env, l) {
                host.begin_waiting();
                return self.loaders.await_batch(env, l, d);
            }
            self.take_ahead(env, d);
            self.loaders.unblock_last(env, l);
        }
    }

    /// Lets the host of device `d`, which has waited for a batch, take it. A device that waits too begins its step.
    pub(super) fn serve_host(&mut self, env: &mut Env, d: DeviceId) {
        self.take_ahead(env, d);
        self.look_ahead(env, d);
        if self.devices[d].account.state() == State::Starving {
            self.begin_on_taken(env, d);
        }
    }

    /// Lets the host of device `d` take the batch of its next step from the loader's queue, and begins to copy the batch to the
    /// device if the trainer does that and no other batch is on its way.
    fn take_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let host = self.devices[d].input.host().map(|host| (host.step(), host.is_copying()));
        let Some((step, behind)) = host else {
            return broken("only devices whose hosts take batches ahead come here");
        };
        let missing = self.take_from_queue(env, d, step);
        let copied = !behind && !self.copy_batch(env, d, missing);
        if let Some(host) = self.devices[d].input.host() {
            host.add_batch(missing, copied);
        }
    }

    /// Records that the batch that the host of device `d` copies is on the device, which begins its step if it has waited for this
    /// batch. Begins to copy the next batch.
    pub(super) fn end_copy_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.account.state() == State::Off {
            // The device's job ended during the copy.
            return;
        }
        let Some(host) = device.input.host() else {
            return broken("only devices whose hosts take batches ahead come here");
        };
        if let Some(missing) = host.end_copy() {
            self.copy_batch(env, d, missing);
        }
        if self.devices[d].account.state() == State::Loading {
            self.settle(d, env.now);
            self.begin_on_taken(env, d);
        }
    }
}
