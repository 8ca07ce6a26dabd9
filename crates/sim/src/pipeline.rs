//! Transfer of a whole batch's activations from one pipeline stage to the next.

use forebay_engine::Time;

use super::env::Env;
use super::event::{ActivityId, Event};
use super::index::DeviceId;
use super::jobs::Jobs;

impl Jobs {
    /// Begins the hand-over of a batch's activations from the previous stage to device `d`.
    pub(super) fn hand_over(&mut self, env: &mut Env, d: DeviceId) {
        self.devices[d].input.sent.push_back(env.now);
        let job = &self.jobs[self.devices[d].job];
        if job.plan.activations > 0.0 {
            env.after(job.plan.hand_over, Event::Waited(ActivityId::Activations(d)));
        } else {
            self.handed_over(env, d);
        }
    }

    /// Begins the transfer of activations to device `d` after the latency.
    pub(super) fn hand_over_bytes(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        let bytes = self.jobs[device.job].plan.activations;
        match self.loaders[device.loader].intra {
            Some(group) => {
                env.network.start(env.now, group, bytes, ActivityId::Activations(d));
            }
            None => self.handed_over(env, d),
        }
    }

    /// Takes the activations for the next step of device `d`, if they have arrived, and records the device's wait for them;
    /// returns false if they have not arrived.
    pub(super) fn receive_batch(&mut self, now: Time, d: DeviceId) -> bool {
        let device = &self.devices[d];
        let there = device.input.received > device.next;
        if there {
            self.end_stage_wait(now, d);
        }
        there
    }

    /// Ends the transfer of a batch's activations to device `d`.
    pub(super) fn handed_over(&mut self, env: &mut Env, d: DeviceId) {
        self.devices[d].input.received += 1;
        self.try_start(env, d);
    }
}
