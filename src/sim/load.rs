//! Batches that a trainer copies to its device itself, which waits meanwhile: those that are not
//! pinned, or not copied beside the steps.

use super::device::State;
use super::event::{Clock, Customer};
use super::index::DeviceId;
use super::world::World;
use crate::account::Segment;
use crate::report::{Cause, StallCause};

impl World<'_> {
    /// Device `d` has its batch: copied to it first, where its trainer does that.
    pub(super) fn use_batch(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &mut self.devices[d];
        let loader = &self.loaders[device.loader];
        let (Some(bytes), false) = (loader.load, loader.pcie.is_empty()) else {
            return self.begin_on_batch(clock, d);
        };
        let group = loader.pcie[device.model as usize % loader.pcie.len()];
        let batch = self.jobs[device.job].batch as f64;
        let bytes = bytes * ((batch - device.missing as f64) / batch);
        (device.state, device.since) = (State::Loading, clock.now);
        self.network.start(clock.now, group, bytes, Customer::Load(d));
        self.trace_device(clock.now, d, Cause::Copy.name());
    }

    /// The batch of device `d` is there.
    pub(super) fn loaded(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &self.devices[d];
        if device.state != State::Loading {
            // Its job ended meanwhile.
            return;
        }
        let cause = StallCause::own(Cause::Copy);
        let wait = Segment { start: device.since, end: clock.now, cause };
        self.jobs[device.job].steps.add_stall(wait);
        self.begin_on_batch(clock, d);
    }
}
