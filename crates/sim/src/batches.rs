//! Hand-over of batches from a loader's queue to devices.

use forebay_metrics::Segment;

use super::device::State;
use super::env::Env;
use super::ids::{DeviceId, Ids, LoaderId, WorkerId};
use super::invariant::broken;
use super::jobs::Jobs;
use super::recovery::RecoveryRun;

impl Jobs {
    /// Lets device `d` take a batch; if the queue has none, the device begins to wait for one.
    pub(super) fn want_batch(&mut self, env: &mut Env, d: DeviceId) {
        let l = self.devices[d].loader;
        if self.loaders.has_batch_for(env, l) {
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
        (device.state, device.since) = (State::Starving, env.now);
        self.loaders[device.loader].queue.begin_wait(env.now);
        self.trace_device(env, d, "starving");
    }

    pub(super) fn take_batch(&mut self, env: &mut Env, d: DeviceId) {
        if self.devices[d].input.host.is_some() {
            return self.serve_host(env, d);
        }
        let device = &self.devices[d];
        let step = device.next;
        self.devices[d].input.missing = self.take_from_queue(env, d, step);
        self.hold_input(d);
        self.use_batch(env, d);
    }

    /// Takes a batch for `step` of device `d` from its loader's queue; returns the number of samples that the batch lacks.
    pub(super) fn take_from_queue(&mut self, env: &mut Env, d: DeviceId, step: u64) -> u64 {
        let device = &self.devices[d];
        let (l, job) = (device.loader, &mut self.jobs[device.job]);
        let loader = &mut self.loaders[l];
        let batch = loader.queue.batch();
        let missing = job.plan.batch - batch;
        let taken = loader.queue.take(env.now);
        let recovery = self.recoveries.of(job.parts.recoveries);
        let fresh = |recovery: &RecoveryRun| recovery.fresh(l, loader.queue.passed(), taken);
        let new = recovery.map_or(taken, fresh);
        let fresh = loader.pacing.polling.as_mut().map_or(new, |polling| polling.fresh(new));
        let device = &mut self.devices[d];
        if loader.features.followed
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.take(device.model, step, batch);
        }
        job.add_fresh(device.model, step, fresh);
        if recovery.is_some() && job.takes_ahead() {
            let averaged = self.communicators.averaged_steps(job.parts.averages);
            let saved = job.saved_steps(averaged, device.model);
            device.input.ahead.retain(|(step, ..)| *step >= saved);
            device.input.ahead.push((step, taken, fresh));
        }
        self.loaders.trace_level(env, l);
        if self.loaders[l].requests.is_some() {
            self.loaders.replace_request(env, l);
        }
        missing
    }

    /// Lets waiting devices take the batches that are ready in the queue of loader `l`; worker `w` made the last sample.
    pub(super) fn serve(&mut self, env: &mut Env, l: LoaderId, w: WorkerId) {
        while let Some(d) = self.loaders.next_served(l) {
            self.end_starving(env, d, w, None);
            self.take_batch(env, d);
        }
        self.loaders.unblock_last(env, l);
        self.loaders.hand_out(env, l, w);
    }

    /// Lets device `d` take the batch that was promised to it, at the end of its sleep between polls.
    pub(super) fn awake(&mut self, env: &mut Env, d: DeviceId) {
        let l = self.devices[d].loader;
        let Some(found) = self.loaders.find_promised(l, d) else {
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
        let device = &mut self.devices[d];
        if device.state != State::Starving {
            // Only the device's host has waited.
            return;
        }
        self.loaders[device.loader].queue.end_wait(env.now);
        let (since, step, j) = (device.since, device.next, device.job);
        // A host may have begun to wait before its device did.
        let slept = slept.map(|slept| Segment { start: slept.start.max(since), ..slept });
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        segments.extend(slept);
        let came = slept.map_or(env.now, |slept| slept.start);
        self.loaders.causes(w, since, came, &mut segments);
        segments.iter().rev().for_each(|segment| self.jobs[j].steps.add_stall(*segment));
        self.trace_causes(env, d, &segments);
        if self.jobs[j].parts.devices.len() > 1 {
            let chain = Ids::new(d, d + self.jobs[j].stages());
            let oldest = chain.iter().map(|d| self.devices[d].since).min().unwrap_or(env.now);
            let (waits, period) = (&mut self.devices[d].input.waits, self.jobs[j].plan.period);
            // Waits since the previous exchange may still be needed.
            let known = |of: u64| of / period + 1 >= step / period;
            let loose = self.jobs[j].ranks_may_diverge();
            waits.retain(|(of, wait)| wait.end > oldest || loose && known(*of));
            waits.extend(segments.iter().rev().map(|segment| (step, *segment)));
        }
        self.segments = segments;
    }

    /// Ends the wait of device `d` and of its host for a batch, because the job copy ends or stops.
    pub(super) fn stop_waiting(&mut self, env: &Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let loader = &mut self.loaders[device.loader];
        if device.state == State::Starving {
            loader.queue.end_wait(env.now);
        }
        let host = device.input.host.as_mut();
        let waits = host.is_some_and(|host| host.stop_waiting());
        if waits || device.state == State::Starving {
            loader.waiters.remove(d);
        }
    }
}
