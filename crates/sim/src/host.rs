//! Hosts that take batches ahead. A host submits a GPU's next steps while the GPU still computes, so it asks the loader for their
//! batches before the GPU needs them, and copies these batches to the GPU meanwhile if the trainer copies batches.

use std::collections::VecDeque;

use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::device::State;
use super::env::Env;
use super::index::DeviceId;
use super::jobs::Jobs;

/// The host of a device, and the batches that it has taken for steps that the device has not begun.
#[derive(Debug)]
pub(super) struct Host {
    /// Maximum number of steps that the host is ahead of the device's step in progress.
    ahead: u64,
    /// Number of the step whose batch the host takes next.
    step: u64,
    /// Number of steps before `step` on the last batch that was taken.
    on_batch: u64,
    /// Whether the host waits for a batch.
    pub(super) waits: bool,
    taken: VecDeque<Taken>,
}

/// A batch that a host has taken for a step that has not begun.
#[derive(Debug, Clone, Copy)]
struct Taken {
    step: u64,
    /// Number of samples that the batch lacks.
    missing: u64,
    /// Whether the batch is on the device, as far as the trainer copies it there.
    copied: bool,
}

impl Host {
    /// Returns a host that is up to `ahead` steps ahead of its device.
    pub(super) fn new(ahead: u64) -> Host {
        Host { ahead, step: 0, on_batch: 0, waits: false, taken: VecDeque::new() }
    }

    /// Forgets all batches; the device's next step is `step`, which needs a new batch.
    pub(super) fn restart(&mut self, step: u64) {
        *self = Host { step, on_batch: u64::MAX / 2, ..Host::new(self.ahead) };
    }

    /// Numbers the steps anew for which batches have been taken: the device's next step is `step`.
    pub(super) fn renumber(&mut self, step: u64) {
        self.step = step + self.taken.len() as u64;
        self.taken.iter_mut().zip(step..).for_each(|(taken, step)| taken.step = step);
    }
}

impl Jobs {
    /// Lets device `d`, which has a host and may begin its next step, begin the step on the batch that its host has taken, or wait
    /// for that batch.
    pub(super) fn next_of_host(&mut self, env: &mut Env, d: DeviceId) {
        let step = self.devices[d].next;
        self.look_ahead(env, d, step);
        let device = &mut self.devices[d];
        if device.input.host.as_ref().is_none_or(|host| host.step > step) {
            return self.begin_on_taken(env, d);
        }
        (device.state, device.since) = (State::Starving, env.now);
        self.trace_device(env, d, "starving");
    }

    /// Begins the step of device `d` on the batch that its host has taken for it, once the batch is on the device. Without such a
    /// batch, the step uses the last batch again.
    fn begin_on_taken(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let step = device.next;
        let Some(host) = &mut device.input.host else { return };
        match host.taken.front() {
            Some(taken) if taken.step == step && !taken.copied => {
                (device.state, device.since) = (State::Loading, env.now);
                return self.trace_device(env, d, Cause::Copy.name());
            }
            Some(taken) if taken.step == step => {
                (device.input.missing, device.input.on_batch) = (taken.missing, 0);
                host.taken.pop_front();
                self.hold_input(d);
            }
            _ => {}
        }
        self.begin_on_batch(env, d);
    }

    /// Lets the host of device `d` take the batches of all steps up to `last`, as far as the loader has them; for the first one
    /// that the loader does not have, the host begins to wait.
    pub(super) fn look_ahead(&mut self, env: &mut Env, d: DeviceId, last: u64) {
        loop {
            let device = &mut self.devices[d];
            let (l, job) = (device.loader, &self.jobs[device.job]);
            let Some(host) = &mut device.input.host else { return };
            let held = job.is_beyond(host.step) || host.step >= job.learners.held_at;
            if host.waits || host.step > last || held {
                return;
            }
            let level = self.loaders[l].queue.level();
            if !job.plan.batches.interval.is_fresh(host.step, host.on_batch, level) {
                (host.step, host.on_batch) = (host.step + 1, host.on_batch + 1);
                continue;
            }
            if !self.loaders.has_batch_for(env, l) {
                host.waits = true;
                return self.loaders.begin_wait(env, l, d);
            }
            self.take_ahead(env, d);
            self.loaders.unblock_last(env, l);
        }
    }

    /// Lets the host of device `d`, which has waited for a batch, take it. A device that waits too begins its step.
    pub(super) fn serve_host(&mut self, env: &mut Env, d: DeviceId) {
        self.take_ahead(env, d);
        let device = &self.devices[d];
        if device.state == State::Starving {
            return self.begin_on_taken(env, d);
        }
        let ahead = device.input.host.as_ref().map_or(0, |host| host.ahead);
        self.look_ahead(env, d, device.next + ahead);
    }

    /// Lets the host of device `d`, which begins a step, take the batches of later steps.
    #[inline]
    pub(super) fn run_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        if let Some(host) = &device.input.host {
            self.look_ahead(env, d, device.next + host.ahead);
        }
    }

    /// Lets the host of device `d` take the batch of its next step from the loader's queue, and copies the batch to the device if
    /// the trainer does that.
    fn take_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let step = self.devices[d].input.host.as_ref().map_or(0, |host| host.step);
        let missing = self.take_from_queue(env, d, step);
        let copied = !self.copy_batch(env, d, missing);
        if let Some(host) = &mut self.devices[d].input.host {
            host.taken.push_back(Taken { step, missing, copied });
            (host.step, host.on_batch, host.waits) = (step + 1, 1, false);
        }
    }

    /// Records that the oldest batch of device `d` that its host copies is on the device, which begins its step if it waits for it.
    pub(super) fn copied_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let Some(host) = &mut device.input.host else { return };
        if let Some(taken) = host.taken.iter_mut().find(|taken| !taken.copied) {
            taken.copied = true;
        }
        let first = host.taken.front().is_some_and(|taken| taken.copied);
        if device.state == State::Loading && first {
            let cause = StallCause::own(Cause::Copy);
            let wait = Segment { start: device.since, end: env.now, cause };
            self.jobs[device.job].steps.add_stall(wait);
            self.begin_on_taken(env, d);
        }
    }

    /// Ends the wait of device `d` or of its host for a batch, because the job copy ends or stops.
    pub(super) fn stop_waiting(&mut self, env: &Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let host = device.input.host.as_mut();
        let waits =
            host.map_or(device.state == State::Starving, |host| std::mem::take(&mut host.waits));
        if waits {
            let loader = &mut self.loaders[device.loader];
            loader.waiters.remove(d);
            loader.queue.end_wait(env.now);
        }
    }
}
