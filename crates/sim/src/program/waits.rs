//! What the parts of a model waited for.

use crate::index::{DeviceId, JobId};
use crate::jobs::Jobs;
use crate::waits::clip;
use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::op::{Communicator, Op};

impl Jobs {
    /// Device `d` has what its op needs; accounts for its wait, if it waited.
    pub(super) fn end_wait(&mut self, now: Time, d: DeviceId, op: Op) {
        let sent = match op {
            Op::Receive(input) => {
                self.part(d).and_then(|part| part.received[input.number()].pop_front())
            }
            _ => None,
        };
        let device = &mut self.devices[d];
        if !std::mem::take(&mut device.op.waits) {
            return;
        }
        let since = device.since;
        match op {
            Op::Receive(_) => self.end_bubble(d, sent.unwrap_or(now).max(since), now),
            Op::AwaitSwap => self.end_swap(d, (since, now)),
            Op::Await(communicator, number) => {
                self.end_collective_wait(d, (communicator, number), (since, now));
            }
            _ => self.say(d, (since, now), StallCause::own(Cause::Communication)),
        }
        self.devices[d].since = now;
    }

    /// What came to device `d` was `sent` by its neighbour, and was on its way since then.
    fn end_bubble(&mut self, d: DeviceId, sent: Time, now: Time) {
        self.say(d, (sent, now), StallCause::own(Cause::Communication));
        self.end_wait_for_stage(sent, d);
    }

    /// Device `d` has waited for what its node's memory keeps; who waited for its model copy waited for that.
    fn end_swap(&mut self, d: DeviceId, (start, end): (Time, Time)) {
        let cause = StallCause::own(Cause::Swap);
        self.say(d, (start, end), cause);
        if let Some(part) = self.part(d) {
            part.computed = end;
        }
        let device = &mut self.devices[d];
        if device.stage == 0 {
            let step = device.next;
            device.input.waits.retain(|(of, _)| of + 1 >= step);
            device.input.waits.push((step, Segment { start, end, cause }));
        }
    }

    /// Device `d` has waited for collectives of a communicator: first for the last rank to start the last of them.
    fn end_collective_wait(
        &mut self,
        d: DeviceId,
        (communicator, number): (Communicator, u32),
        (since, now): (Time, Time),
    ) {
        let all = self.communicators_of(d, communicator);
        let last = all.iter().filter_map(|c| self.communicators.all[c].started_last(number)).max();
        let asked = last.map_or(since, |(asked, _)| asked.clamp(since, now));
        if let Some((_, peer)) = last {
            self.blame_peer(d, peer, (since, asked));
        }
        self.say(d, (asked, now), StallCause::own(Cause::Communication));
    }

    /// Device `d` waited for `peer`: for what that waited, or its computation.
    fn blame_peer(&mut self, d: DeviceId, peer: DeviceId, (from, until): (Time, Time)) {
        let first = peer - self.devices[peer].stage;
        let own = d - self.devices[d].stage == first;
        let rest =
            if own { StallCause::own(Cause::Bubble) } else { StallCause::peer(Cause::Compute) };
        let waits = &self.devices[first].input.waits;
        let waits: Vec<Segment> = waits.iter().filter_map(|(_, w)| clip(w, from, until)).collect();
        let mut at = from;
        for wait in waits.into_iter().filter(|_| !own) {
            self.say(d, (at, wait.start.max(at)), rest);
            self.say(d, (wait.start.max(at), wait.end), wait.cause);
            at = wait.end.max(at);
        }
        self.say(d, (at, until), rest);
    }

    /// The step of job copy `j` is over, for whose last parts the others waited: those of its own model copy, whose
    /// arithmetic went on; that of others; and then what came after all arithmetic.
    pub(super) fn account_for_ends(&mut self, now: Time, j: JobId) {
        let devices = self.jobs[j].parts.devices;
        let ends: Vec<(Time, Time)> = match &self.jobs[j].parallel {
            Some(parallel) => {
                parallel.parts.iter().map(|part| (part.computed, part.ended)).collect()
            }
            None => return,
        };
        let stages = self.jobs[j].plan.stage_times.len();
        let swaps = self.jobs[j].sync.is_none() && ends.len() == stages;
        let chains: Vec<Time> = ends
            .chunks(stages.max(1))
            .map(|chain| chain.iter().map(|(computed, _)| *computed).max().unwrap_or(now))
            .collect();
        let last = chains.iter().zip(0..).max().map_or(0, |(_, chain)| chain);
        let computed = chains.iter().copied().max().unwrap_or(now);
        for (d, (_, ended)) in devices.iter().zip(&ends) {
            let chain = (d - devices.start) as usize / stages.max(1);
            let own = chains[chain].clamp(*ended, now);
            let all = computed.clamp(own, now);
            self.say(d, (*ended, own), StallCause::own(Cause::Bubble));
            self.blame_peer(d, devices.start + last * stages as u32, (own, all));
            let cause = if swaps { Cause::Swap } else { Cause::Communication };
            self.say(d, (all, now), StallCause::own(cause));
        }
    }

    /// Device `d` waited from one instant to another.
    fn say(&mut self, d: DeviceId, (start, end): (Time, Time), cause: StallCause) {
        if start < end {
            let j = self.devices[d].job;
            let segment = Segment { start, end, cause };
            self.jobs[j].steps.add_stall(segment);
        }
    }
}
