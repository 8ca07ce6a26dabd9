//! Causes of the stalls of devices that hold parts of a model.

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::op::{Communicator, Op};
use crate::device::{Device, State};
use crate::env::Env;
use crate::ids::{CommunicatorId, DeviceId, Ids, JobId};
use crate::jobs::Jobs;

impl Jobs {
    /// Ends the wait of device `d` for the input of `op`, if it waited, and records the causes of the wait.
    pub(super) fn end_wait(&mut self, now: Time, d: DeviceId, op: Op) {
        let sent = match op {
            Op::Receive(input) => self.part(d).received[input.number()].pop_front(),
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

    /// Returns the cause of the wait of device `d` for the input of its current op.
    pub(crate) fn cause_of_wait(&self, d: DeviceId) -> Cause {
        match self.op_of(d) {
            Some(Op::Receive(_)) => Cause::Bubble,
            Some(Op::AwaitSwap) => Cause::Swap,
            _ => Cause::Communication,
        }
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
        let device = &mut self.devices[d];
        device.times.worked = end;
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
        let (all, step) = (self.communicators_of(d, communicator), self.devices[d].next);
        let started = |c: CommunicatorId| self.communicators.all[c].started_last(step, number);
        let last = all.iter().filter_map(started).max();
        let asked = last.map_or(since, |(asked, _)| asked.clamp(since, now));
        if let Some((_, peer)) = last {
            self.blame_peer(d, peer, (since, asked));
        }
        self.say(d, (asked, now), StallCause::own(Cause::Communication));
    }

    /// Records that device `d` waited for `peer`. The cause is what `peer` waited for in that time, or its computation.
    fn blame_peer(&mut self, d: DeviceId, peer: DeviceId, (from, until): (Time, Time)) {
        let mut pieces = Vec::new();
        self.wait_for_rank(d, peer, (from, until), &mut pieces);
        let steps = &mut self.jobs[self.devices[d].job].steps;
        pieces.iter().for_each(|piece| steps.add_stall(*piece));
    }

    /// Appends to `pieces` the causes of the wait of device `d` for `peer`: what the model copy of `peer` waited for in that
    /// time, or its computation; the pipeline, if both are stages of one model copy.
    pub(crate) fn wait_for_rank(
        &self,
        d: DeviceId,
        peer: DeviceId,
        (from, until): (Time, Time),
        pieces: &mut Vec<Segment>,
    ) {
        if from >= until {
            return;
        }
        let first = self.chain_of(peer);
        if self.chain_of(d) == first {
            let cause = StallCause::own(Cause::Bubble);
            return pieces.push(Segment { start: from, end: until, cause });
        }
        self.wait_for_peer(first, from, (from, until), pieces);
    }

    /// Records the waits of the devices of job copy `j`, all of which have ended the step, and the `last` one just now. Each
    /// waited until all devices of its own model copy had done their work, then until all other model copies had, and then for
    /// communication or swaps that a device awaited at the end of its step.
    pub(crate) fn account_for_ends(&mut self, env: &mut Env, j: JobId, last: DeviceId) {
        let now = env.now;
        let devices = self.jobs[j].parts.devices;
        let stages = self.jobs[j].stages();
        let alone = devices.len() == stages as usize;
        let slowest = self.slowest_chain(j, last);
        let worked = self.worked(slowest, stages);
        let mut pieces: Vec<Segment> = Vec::new();
        for d in devices {
            let Device { state, since, .. } = self.devices[d];
            if since == now || state != State::Idle {
                continue;
            }
            let own = self.worked(self.chain_of(d), stages).clamp(since, now);
            let all = worked.clamp(own, now);
            let wait = |start, end, cause| Segment { start, end, cause: StallCause::own(cause) };
            pieces.clear();
            pieces.push(wait(since, own, Cause::Bubble));
            self.wait_for_rank(d, slowest, (own, all), &mut pieces);
            let cause = if alone { Cause::Swap } else { Cause::Communication };
            pieces.push(wait(all, now, cause));
            pieces.retain(|piece| piece.start < piece.end);
            pieces.iter().for_each(|piece| self.jobs[j].steps.add_stall(*piece));
            self.trace_causes(env, d, &pieces);
        }
    }

    /// Returns the time when the last device of a model copy of `stages` stages had done its work; `first` is its first stage.
    fn worked(&self, first: DeviceId, stages: u32) -> Time {
        let all = self.devices[Ids::new(first, first + stages)].iter();
        all.map(|device| device.times.worked).max().unwrap_or_default()
    }

    /// Returns the slowest model copy of job copy `j`, given by its first stage: the model copy with the device that finished its
    /// own work last. If several devices finished at the same time, device `last` decides.
    fn slowest_chain(&self, j: JobId, last: DeviceId) -> DeviceId {
        let all = self.devices[self.jobs[j].parts.devices].iter().zip(self.jobs[j].parts.devices);
        let in_use = all.filter(|(device, _)| device.state != State::Off);
        let slowest = in_use.max_by_key(|(device, d)| (device.times.worked, *d == last));
        self.chain_of(slowest.map_or(last, |(_, d)| d))
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
