//! Transfers of activations to the next stage, and of their gradients back.
//!
//! A transfer uses its links until the last byte has left, and arrives a latency later. Links are free for the next transfer while
//! the latency passes.

use super::op::Input;
use crate::communication::RankRoute;
use crate::device::Device;
use crate::env::{ActivityId, Env, Event, broken};
use crate::ids::DeviceId;
use crate::job::jobs::Jobs;

/// Why a transfer in progress never lacks what sending needs.
const COMPLETE: &str = "a transfer in progress has a receiver and a route";

impl Jobs {
    /// Queues `input` for transfer from device `d` to another stage. The transfer begins when the bytes of everything that the
    /// device has sent before in this direction have left. What a stage hands to itself, or what has no bytes, is there at once.
    pub(in crate::job) fn send_part(&mut self, env: &mut Env, d: DeviceId, input: Input) {
        let to = d - self.devices[d].stage + input.stage;
        if to == d || self.spread(d).bytes <= 0.0 {
            self.part(to).receive(env.now, input);
            return self.wake_program(env, to);
        }
        if self.part(d).queue(env.now, input) {
            self.begin_sending(env, d, input.back);
        }
    }

    /// Returns the device that receives what device `d` is sending, or will send next, in the given direction.
    fn receiver(&self, d: DeviceId, back: bool) -> Option<DeviceId> {
        let Device { job, stage, .. } = self.devices[d];
        let input = self.jobs[job].spread.part_of(d).next_to_send(back)?;
        Some(d - stage + input.stage)
    }

    /// Returns the route from GPU number `rank` of device `d` to the same GPU of device `to`; `None` if there is none.
    fn route(&mut self, env: &mut Env, d: DeviceId, to: DeviceId, rank: u32) -> Option<RankRoute> {
        let j = self.devices[d].job;
        let spread = &self.jobs[j].spread;
        if let Some(latency) = spread.inside {
            let intra = self.loaders[self.devices[d].loader].gpus.intra;
            return Some(RankRoute::inside(latency, intra));
        }
        let (from, to) = (spread.part_of(d).gpu, spread.part_of(to).gpu);
        self.communicators.way(env, j, from + rank, to + rank)
    }

    /// Begins the first waiting transfer of activations (or gradients, if `back`) from each GPU of device `d`.
    fn begin_sending(&mut self, env: &mut Env, d: DeviceId, back: bool) {
        let Some(to) = self.receiver(d, back) else { return broken(COMPLETE) };
        let mut flows = 0;
        for rank in 0..self.spread(d).ranks {
            let Some(route) = self.route(env, d, to, rank) else { return broken(COMPLETE) };
            let spread = self.spread(d);
            spread.count_sent();
            if let Some(group) = route.group {
                let token = ActivityId::Handed { device: d, back };
                env.network.start(env.now, group, spread.bytes, token);
                flows += 1;
            }
        }
        self.part(d).begin_flows(back, flows);
        if flows == 0 {
            self.leave_part(env, d, back);
        }
    }

    /// Records that the bytes of one GPU of device `d` have left. After the last GPU's, the device's transfer has left.
    pub(crate) fn end_part_flow(&mut self, env: &mut Env, d: DeviceId, back: bool) {
        if self.part(d).end_flow(back) {
            self.leave_part(env, d, back);
        }
    }

    /// Begins the latency of the transfer of activations (or gradients, if `back`) whose bytes have left device `d`, and begins the
    /// next transfer.
    fn leave_part(&mut self, env: &mut Env, d: DeviceId, back: bool) {
        let Some(to) = self.receiver(d, back) else { return broken(COMPLETE) };
        let Some(RankRoute { latency, .. }) = self.route(env, d, to, 0) else {
            return broken(COMPLETE);
        };
        let Some(((sent, input), more)) = self.part(d).end_sending(back) else {
            return broken(COMPLETE);
        };
        if more {
            self.begin_sending(env, d, back);
        }
        self.part(to).expect(sent, input);
        let input = input.number() as u16;
        if latency.span.0 == 0 {
            return self.arrive_part(env, to, input);
        }
        env.after(latency, Event::Waited(ActivityId::Arriving { device: to, input }));
    }

    /// Records that the first input on its way to device `d` with this [`Input::number`] has arrived.
    pub(crate) fn arrive_part(&mut self, env: &mut Env, d: DeviceId, input: u16) {
        self.part(d).receive_expected(input);
        self.wake_program(env, d);
    }
}

impl Jobs {
    /// Begins to copy `bytes[0]` from the node's memory to each GPU of device `d`, and `bytes[1]` from each GPU to the node's
    /// memory [B].
    pub(in crate::job) fn begin_swap(&mut self, env: &mut Env, d: DeviceId, bytes: [f64; 2]) {
        let spread = self.spread(d);
        let part = spread.part(d);
        let ways: Vec<_> = part.pcie.iter().flat_map(|ways| ways.iter().zip(bytes)).collect();
        let flows = ways.iter().filter_map(|(group, bytes)| group.zip(Some(*bytes)));
        let flows: Vec<_> = flows.filter(|(_, bytes)| *bytes > 0.0).collect();
        part.add_swaps(flows.len() as u32);
        spread.count_swapped(bytes[0] + bytes[1]);
        for (group, bytes) in flows {
            env.network.start(env.now, group, bytes, ActivityId::Swap(d));
        }
    }

    /// Ends one of the copies of device `d` from or to its node's memory.
    pub(crate) fn end_swap(&mut self, env: &mut Env, d: DeviceId) {
        if self.part(d).end_swap() {
            self.wake_program(env, d);
        }
    }
}
