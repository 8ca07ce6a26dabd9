//! Causes of the stalls of devices that hold parts of a model.

use crate::index::{DeviceId, JobId};
use crate::jobs::Jobs;
use crate::waits::clip;
use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::op::{Communicator, Op};

impl Jobs {
    /// Ends the wait of device `d` for the input of `op`, if it waited, and records the causes of the wait.
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

    /// Ends the pipeline bubble of device `d`. Its input was sent at `sent`, so the time since then was communication, and the
    /// time before it was a wait for the previous stage.
    fn end_bubble(&mut self, d: DeviceId, sent: Time, now: Time) {
        self.say(d, (sent, now), StallCause::own(Cause::Communication));
        self.end_wait_for_stage(sent, d);
    }

    /// Records that device `d` waited for a swap. The swap also explains the stalls of devices that waited for the model copy
    /// of `d`.
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

    /// Records that device `d` waited for collectives of a communicator: first for the last rank to start the last collective,
    /// then for communication.
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

    /// Records that device `d` waited for `peer`. The cause is what `peer` waited for in that time, or its computation.
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

    /// Records the waits at the end of a step of job copy `j`. Each device waited until all devices of its own model copy had
    /// computed, then until all other model copies had computed, and then for communication or swaps at the end of the step.
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

    /// Records a stall of device `d` from `start` to `end`.
    fn say(&mut self, d: DeviceId, (start, end): (Time, Time), cause: StallCause) {
        if start < end {
            let j = self.devices[d].job;
            let segment = Segment { start, end, cause };
            self.jobs[j].steps.add_stall(segment);
        }
    }
}
