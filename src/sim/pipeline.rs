//! Activations on their way from one pipeline stage to the next.

use crate::engine::Time;

use super::event::{Clock, Customer, Event};
use super::index::DeviceId;
use super::world::World;

impl World<'_> {
    /// The stage before has a batch's activations for device `d`.
    pub(super) fn hand_over(&mut self, clock: &mut Clock, d: DeviceId) {
        self.devices[d].sent.push_back(clock.now);
        let job = &self.jobs[self.devices[d].job];
        if job.activations > 0.0 {
            clock.after(job.hand_over, Event::Waited(Customer::Activations(d)));
        } else {
            self.handed_over(clock, d);
        }
    }

    /// The latency is over; the bytes follow.
    pub(super) fn hand_over_bytes(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &self.devices[d];
        let bytes = self.jobs[device.job].activations;
        match self.loaders[device.loader].intra {
            Some(group) => {
                self.network.start(clock.now, group, bytes, Customer::Activations(d));
            }
            None => self.handed_over(clock, d),
        }
    }

    /// Takes the activations for the next step of device `d`, if they have arrived, and records how long it waited; false if
    /// they have not.
    pub(super) fn receive_batch(&mut self, now: Time, d: DeviceId) -> bool {
        let device = &self.devices[d];
        let there = device.received > device.next;
        if there {
            self.end_stage_wait(now, d);
        }
        there
    }

    /// A batch's activations are there.
    pub(super) fn handed_over(&mut self, clock: &mut Clock, d: DeviceId) {
        self.devices[d].received += 1;
        self.try_start(clock, d);
    }
}
