//! Batches that a trainer copies to its device itself: while the device waits for the batch, or, if the device has a host that
//! takes batches ahead, while the device computes.

use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::device::State;
use super::env::Env;
use super::event::ActivityId;
use super::ids::DeviceId;
use super::jobs::Jobs;

impl Jobs {
    /// Begins to copy the batch of device `d` to the device, if its trainer copies batches; otherwise begins the step.
    pub(super) fn use_batch(&mut self, env: &mut Env, d: DeviceId) {
        let missing = self.devices[d].input.missing;
        if !self.copy_batch(env, d, missing) {
            return self.begin_on_batch(env, d);
        }
        let device = &mut self.devices[d];
        (device.state, device.since) = (State::Loading, env.now);
        self.trace_device(env, d, Cause::Copy.name());
    }

    /// Begins to copy a batch that lacks `missing` samples to device `d`; returns false if its trainer copies no batches.
    pub(super) fn copy_batch(&mut self, env: &mut Env, d: DeviceId, missing: u64) -> bool {
        let device = &self.devices[d];
        let loader = &self.loaders[device.loader];
        let route = loader.gpus.route(device.model.into());
        let (Some(bytes), Some(group)) = (loader.copied, route) else { return false };
        let batch = self.jobs[device.job].plan.batch as f64;
        let bytes = bytes * ((batch - missing as f64) / batch);
        env.network.start(env.now, group, bytes, ActivityId::Load(d));
        true
    }

    /// Ends the copy of the batch of device `d`.
    pub(super) fn loaded(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        if device.input.host.is_some() {
            return self.copied_ahead(env, d);
        }
        if device.state != State::Loading {
            // The device's job ended during the copy.
            return;
        }
        let cause = StallCause::own(Cause::Copy);
        let wait = Segment { start: device.since, end: env.now, cause };
        self.jobs[device.job].steps.add_stall(wait);
        self.begin_on_batch(env, d);
    }
}
