//! Hosts that take batches ahead. A host submits a GPU's next steps while the GPU still computes, so it asks the loader for their
//! batches before the GPU needs them, and copies these batches to the GPU meanwhile, one after the other, if the trainer copies
//! batches. What `launch` does for a step is not done ahead, and buffers of a GPU are counted only for batches of steps that have
//! begun.

use std::collections::VecDeque;

use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::device::State;
use super::env::Env;
use super::ids::DeviceId;
use super::invariant::broken;
use super::jobs::Jobs;

/// The host of a device, and the batches that it has taken for steps that the device has not begun.
#[derive(Debug)]
pub(super) struct Host {
    /// Maximum number of steps that the host is ahead of the device's step in progress.
    ahead: u64,
    /// Number of the step that the host prepares next.
    step: u64,
    /// Number of steps before `step` on the last batch that was taken.
    on_batch: u64,
    /// Whether the host waits for a batch.
    waits: bool,
    taken: VecDeque<Taken>,
}

/// A batch that a host has taken for a step that has not begun.
#[derive(Debug, Clone, Copy)]
struct Taken {
    step: u64,
    /// Number of samples that the batch lacks.
    missing: u64,
    /// Whether the batch is on the device; true at once if the trainer copies no batches.
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

    /// Ends the host's wait for a batch; returns whether it has waited.
    pub(super) fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// Returns the batch for `step`, which is the oldest one, if there is one.
    fn batch_of(&self, step: u64) -> Option<Taken> {
        self.taken.front().copied().filter(|taken| taken.step == step)
    }

    /// Returns the oldest batch that is not on the device, if there is one.
    fn uncopied(&mut self) -> Option<&mut Taken> {
        self.taken.iter_mut().find(|taken| !taken.copied)
    }
}

impl Jobs {
    /// Lets device `d`, which has a host and may begin its next step, begin the step on the batch that its host has taken, or wait
    /// for that batch.
    pub(super) fn next_of_host(&mut self, env: &mut Env, d: DeviceId) {
        self.look_ahead(env, d);
        let device = &mut self.devices[d];
        let step = device.next;
        if device.input.host.as_ref().is_none_or(|host| host.step > step) {
            return self.begin_on_taken(env, d);
        }
        self.starve(env, d);
    }

    /// Begins the step of device `d` on the batch that its host has taken for it, once the batch is on the device. Without such a
    /// batch, the step uses the last batch again.
    fn begin_on_taken(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let Some(host) = &mut device.input.host else {
            return broken("only devices whose hosts take batches ahead come here");
        };
        match host.batch_of(device.next) {
            Some(Taken { copied: false, .. }) => {
                (device.state, device.since) = (State::Loading, env.now);
                return self.trace_device(env, d, Cause::Copy.name());
            }
            Some(Taken { missing, .. }) => {
                host.taken.pop_front();
                (device.input.missing, device.input.on_batch) = (missing, 0);
                self.hold_input(d);
            }
            None => {}
        }
        self.begin_on_batch(env, d);
    }

    /// Lets the host of device `d`, whose step in progress is its next one, take the batches of that step and of the steps behind
    /// it, as far as the loader has them; for the first one that the loader does not have, the host begins to wait. While the
    /// number of learners may change, hosts take no batch ahead, so that a learner that leaves leaves none behind.
    fn look_ahead(&mut self, env: &mut Env, d: DeviceId) {
        loop {
            let device = &mut self.devices[d];
            let (l, job) = (device.loader, &self.jobs[device.job]);
            let Some(host) = &mut device.input.host else {
                return broken("only devices whose hosts take batches ahead come here");
            };
            let ahead = if job.learners.may_change() { 0 } else { host.ahead };
            if host.waits || host.step > device.next + ahead || job.is_beyond(host.step) {
                return;
            }
            let level = self.loaders[l].queue.level();
            if !job.plan.batches.interval.is_fresh(host.step, host.on_batch, level) {
                (host.step, host.on_batch) = (host.step + 1, host.on_batch + 1);
                continue;
            }
            if !self.loaders.has_batch_for(env, l) {
                host.waits = true;
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
        if self.devices[d].state == State::Starving {
            self.begin_on_taken(env, d);
        }
    }

    /// Lets the host of device `d` take the batch of its next step from the loader's queue, and begins to copy the batch to the
    /// device if the trainer does that and no other batch is on its way.
    fn take_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let Some(mut host) = self.devices[d].input.host.take() else {
            return broken("only devices whose hosts take batches ahead come here");
        };
        let missing = self.take_from_queue(env, d, host.step);
        let behind = host.uncopied().is_some();
        let copied = !behind && !self.copy_batch(env, d, missing);
        host.taken.push_back(Taken { step: host.step, missing, copied });
        (host.step, host.on_batch, host.waits) = (host.step + 1, 1, false);
        self.devices[d].input.host = Some(host);
    }

    /// Records that the batch that the host of device `d` copies is on the device, which begins its step if it has waited for this
    /// batch. Begins to copy the next batch.
    pub(super) fn copied_ahead(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.state == State::Off {
            // The device's job ended during the copy.
            return;
        }
        let Some(host) = &mut device.input.host else {
            return broken("only devices whose hosts take batches ahead come here");
        };
        host.uncopied().into_iter().for_each(|taken| taken.copied = true);
        let next = host.uncopied().map(|taken| taken.missing);
        if let Some(missing) = next {
            self.copy_batch(env, d, missing);
        }
        let device = &mut self.devices[d];
        if device.state == State::Loading {
            let cause = StallCause::own(Cause::Copy);
            let wait = Segment { start: device.since, end: env.now, cause };
            self.jobs[device.job].steps.add_stall(wait);
            self.begin_on_taken(env, d);
        }
    }
}
