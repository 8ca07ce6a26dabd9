//! Activations on their way to the next stage, and their gradients on their way back.

use crate::sim::event::{Clock, Customer, Event};
use crate::sim::world::World;

use super::op::Pass;

impl World<'_> {
    /// Device `d` has something for its neighbour, which goes when what it sent before is there.
    pub(super) fn send_part(&mut self, clock: &mut Clock, d: u32, pass: Pass) {
        let back = pass.is_back();
        let Some(part) = self.part(d) else { return };
        let waiting = &mut part.sending[usize::from(back)].waiting;
        waiting.push_back(clock.now);
        if waiting.len() == 1 {
            self.begin_sending(clock, d, back);
        }
    }

    /// The GPU that GPU `rank` of device `d` sends to, and itself.
    fn between(&mut self, d: u32, back: bool, rank: u32) -> (u32, u32) {
        let Some(parallel) = self.parallel(d) else { return (0, 0) };
        let (ranks, gpu) = (parallel.ranks, parallel.part(d).gpu + rank);
        (gpu, if back { gpu - ranks } else { gpu + ranks })
    }

    /// The first that waits begins with its latency, if there is anything to send.
    fn begin_sending(&mut self, clock: &mut Clock, d: u32, back: bool) {
        let (from, to) = self.between(d, back, 0);
        let j = self.devices[d as usize].job as usize;
        let job = &mut self.jobs[j];
        let (Some(parallel), Some(ways)) = (&job.parallel, &mut job.ways) else { return };
        if parallel.bytes <= 0.0 {
            return self.arrive_part(clock, d, back);
        }
        ways.keep(None);
        let latency = ways.way(&mut self.network, from, to).latency;
        if latency.span.0 == 0 {
            return self.hand_part(clock, d, back);
        }
        clock.after(latency, Event::Waited(Customer::Handed { device: d, back }));
    }

    /// The latency is over; the bytes of each of the device's GPUs follow.
    pub(in crate::sim) fn hand_part(&mut self, clock: &mut Clock, d: u32, back: bool) {
        let ranks = self.parallel(d).map_or(0, |parallel| parallel.ranks);
        let mut flows = 0;
        for rank in 0..ranks {
            let (from, to) = self.between(d, back, rank);
            let j = self.devices[d as usize].job as usize;
            let job = &mut self.jobs[j];
            let (Some(parallel), Some(ways)) = (&mut job.parallel, &mut job.ways) else { return };
            ways.keep(None);
            let way = ways.way(&mut self.network, from, to);
            parallel.books.activations += parallel.bytes;
            if let Some(group) = way.group {
                let token = Customer::Handed { device: d, back };
                self.network.start(clock.now, group, parallel.bytes, token);
                flows += 1;
            }
        }
        if let Some(part) = self.part(d) {
            part.sending[usize::from(back)].flows = flows;
        }
        if flows == 0 {
            self.arrive_part(clock, d, back);
        }
    }

    /// The bytes of one of the GPUs are there.
    pub(in crate::sim) fn handed_part(&mut self, clock: &mut Clock, d: u32, back: bool) {
        let Some(part) = self.part(d) else { return };
        let sending = &mut part.sending[usize::from(back)];
        sending.flows -= 1;
        if sending.flows == 0 {
            self.arrive_part(clock, d, back);
        }
    }

    /// What device `d` sent is there, and the next begins.
    fn arrive_part(&mut self, clock: &mut Clock, d: u32, back: bool) {
        let to = if back { d - 1 } else { d + 1 };
        let Some(part) = self.part(d) else { return };
        let waiting = &mut part.sending[usize::from(back)].waiting;
        let (sent, more) = (waiting.pop_front(), !waiting.is_empty());
        if let (Some(sent), Some(part)) = (sent, self.part(to)) {
            part.received[usize::from(back)].push_back(sent);
        }
        if more {
            self.begin_sending(clock, d, back);
        }
        self.wake_program(clock, to);
    }
}
