//! The causes of the stalls of devices: waits for a batch, for other model copies, for the pipeline and for swaps.

use forebay_engine::Time;
use forebay_metrics::{Segment, blame};
use forebay_report::{Cause, StallCause};

use super::jobs::Jobs;
use super::program::Op;
use crate::communication::{Communicator, Held};
use crate::device::{Device, State};
use crate::env::Env;
use crate::ids::{CommunicatorId, DeviceId, Ids, JobId, WorkerId};

impl Jobs {
    /// Returns the first device of the model copy to which `d` belongs.
    pub(super) fn chain_of(&self, d: DeviceId) -> DeviceId {
        d - self.devices[d].stage
    }

    /// Appends to `pieces` the causes of a wait for `peer` from `from` to `to`: while `peer` itself waited for input, the
    /// causes of that wait; otherwise the computation of `peer` from `began` on, and communication before `began`.
    pub(super) fn wait_for_peer(
        &self,
        peer: DeviceId,
        began: Time,
        (from, to): (Time, Time),
        pieces: &mut Vec<Segment>,
    ) {
        let mut at = from;
        let waits = self.devices[peer].input.waits.iter();
        let waits = waits.filter_map(|(_, wait)| clip(wait, from, to));
        let last = Segment { start: to, end: to, cause: StallCause::peer(Cause::Compute) };
        for wait in waits.chain([last]) {
            let middle = began.clamp(at, wait.start.max(at));
            let cause = StallCause::own(Cause::Communication);
            pieces.push(Segment { start: at, end: middle, cause });
            let cause = StallCause::peer(Cause::Compute);
            pieces.push(Segment { start: middle, end: wait.start.max(middle), cause });
            pieces.push(wait);
            at = wait.end;
        }
        pieces.retain(|piece| piece.start < piece.end);
    }

    /// Returns the causes of the wait of device `d` for parameters from servers, from `from` to `to`: the computation of the
    /// model copy that held it up, and communication.
    fn wait_for_parameters(&self, d: DeviceId, from: Time, to: Time) -> Vec<Segment> {
        let mut pieces = Vec::new();
        let held = self.exchanges_of(d).map(|(servers, worker)| servers.held(to, worker));
        // Where the device waited for several parts of the model, the one that was held up last counts.
        let held = held.max_by_key(|held| held[1].map(|held| held.until)).unwrap_or_default();
        let mut start = from;
        for Held { by, began, until } in held.into_iter().flatten().filter(|held| held.by != d) {
            let end = until.clamp(start, to);
            self.wait_for_peer(by, began, (start, end), &mut pieces);
            start = end;
        }
        let cause = StallCause::own(Cause::Communication);
        pieces.push(Segment { start, end: to, cause });
        pieces
    }

    /// Records the causes of the wait of device `d` for parameters, which ended at `end`.
    pub(super) fn end_parameter_wait(&mut self, env: &mut Env, end: Time, d: DeviceId) {
        let Device { job, since, .. } = self.devices[d];
        let pieces = self.wait_for_parameters(d, since, end);
        pieces.iter().for_each(|piece| self.jobs[job].steps.add_stall(*piece));
        self.trace_causes(env, d, &pieces);
    }

    /// Records the causes of the wait of device `d` up to `end`; the device may wait for something else after that. It waits for
    /// the permission to begin a step, for the stage before, or for parameters.
    pub(super) fn end_wait_until(&mut self, env: &mut Env, end: Time, d: DeviceId) {
        let Device { job, stage, .. } = self.devices[d];
        match stage {
            _ if self.jobs[job].trains_apart() => self.end_parameter_wait(env, end, d),
            0 => self.end_gate_wait(end, d),
            _ => self.end_wait_for_stage(end, d),
        }
    }

    /// Records the wait of device `d` for the stage before, up to `now`. The cause is the first stage's wait for a batch while
    /// that wait lasted, and the pipeline itself at other times.
    pub(super) fn end_wait_for_stage(&mut self, now: Time, d: DeviceId) {
        let device = &self.devices[d];
        let (from, step, j) = (device.since, device.next, device.job);
        let bubble = StallCause::own(Cause::Bubble);
        let mut at = from;
        for (of, wait) in &self.devices[d - device.stage].input.waits {
            let Some(wait) = clip(wait, from, now).filter(|_| *of <= step) else { continue };
            let cause = StallCause::own(wait.cause.cause);
            self.jobs[j].steps.add_stall(Segment { start: at, end: wait.start, cause: bubble });
            self.jobs[j].steps.add_stall(Segment { cause, ..wait });
            at = wait.end;
        }
        self.jobs[j].steps.add_stall(Segment { start: at, end: now, cause: bubble });
    }

    /// Records the wait of device `d` for the permission to begin its next step. In a pipeline, a first stage has waited until
    /// an earlier step left the pipeline; with averaged models, a learner has waited for other learners.
    pub(super) fn end_gate_wait(&mut self, now: Time, d: DeviceId) {
        let device = &mut self.devices[d];
        let job = &mut self.jobs[device.job];
        let cause = job.plan.gate;
        job.steps.add_stall(Segment { start: device.since, end: now, cause });
        device.since = now;
    }

    /// Accounts for the activities of job copy `j` up to the end of its last complete step, if pipeline stages overlap or model
    /// copies can be at different steps. Activities for later steps are cut off there; devices that finished early have nothing
    /// left to do.
    pub(super) fn close_open(&mut self, j: JobId) {
        let end = self.jobs[j].steps.last_end();
        self.close_until(j, end);
    }

    /// Accounts for the activities of the devices of job copy `j` up to `end`, if pipeline stages overlap or model copies are
    /// at different steps.
    pub(super) fn close_until(&mut self, j: JobId, end: Time) {
        let loose = self.jobs[j].ranks_may_diverge();
        if self.jobs[j].plan.window == 1 && !loose {
            return;
        }
        for d in self.jobs[j].parts.devices {
            let (start, state) = (self.devices[d].since, self.devices[d].state);
            if start >= end {
                continue;
            }
            match state {
                State::Off => {}
                State::Launching | State::Averaging => {
                    let launching = state == State::Launching;
                    let cause = if launching { Cause::Launch } else { Cause::Communication };
                    let cause = StallCause::own(cause);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
                State::Idle if loose && self.devices[d].op.waits => {
                    let cause = StallCause::own(self.cause_of_wait(d));
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
                State::Idle | State::AwaitingParameters if self.jobs[j].trains_apart() => {
                    let pieces = self.wait_for_parameters(d, start, end);
                    pieces.iter().for_each(|piece| self.jobs[j].steps.add_stall(*piece));
                }
                State::Idle | State::AwaitingParameters if loose => {
                    let cause = StallCause::peer(Cause::Compute);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
                State::Starving if loose => self.close_starving(d, start, end),
                State::Loading => {
                    let cause = StallCause::own(Cause::Copy);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
                State::Busy => self.jobs[j].steps.add_compute(start, end),
                State::Idle | State::AwaitingParameters | State::Starving => {
                    let cause = StallCause::own(Cause::Bubble);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
            }
        }
    }
}

impl Jobs {
    /// Records the part from `start` to `end` of a longer wait of device `d` for a batch. The causes are the activities of a
    /// worker of the device's loader in that time.
    fn close_starving(&mut self, d: DeviceId, start: Time, end: Time) {
        let device = &self.devices[d];
        let loader = &self.loaders[device.loader];
        let worker = loader.stages.workers_of(loader.stages.last()).start;
        let mut segments = Vec::new();
        blame(
            |w| &self.loaders.workers[WorkerId::new(w)].timeline,
            worker.number(),
            start,
            end,
            &mut segments,
        );
        let steps = &mut self.jobs[device.job].steps;
        segments.iter().rev().for_each(|segment| steps.add_stall(*segment));
    }
}

/// Returns the part of a peer's wait within `[from, to)`, as the stall of a device that waited for that peer; `None` if there
/// is none.
fn clip(wait: &Segment, from: Time, to: Time) -> Option<Segment> {
    let (start, end) = (wait.start.max(from), wait.end.min(to));
    let cause = StallCause::peer(wait.cause.cause);
    (start < end).then_some(Segment { start, end, cause })
}

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
    pub(super) fn cause_of_wait(&self, d: DeviceId) -> Cause {
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
    pub(super) fn wait_for_rank(
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
    pub(super) fn account_for_ends(&mut self, env: &mut Env, j: JobId, last: DeviceId) {
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
