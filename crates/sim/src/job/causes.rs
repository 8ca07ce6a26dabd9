//! Why devices wait: for a batch, for other model copies, for the pipeline, for parameters and for swaps.
//!
//! The causes of a wait that is cut off may depend on how the wait would have ended. They are then those of a wait that ends
//! next: the rank that is furthest behind is the one waited for, and the batch comes from the first worker.

use forebay_engine::Time;
use forebay_metrics::{Segment, launch_waits};
use forebay_report::{Cause, StallCause};

use super::jobs::Jobs;
use super::program::{Input, Op};
use crate::communication::{Communicator, Held};
use crate::device::{Device, State};
use crate::ids::{DeviceId, Ids, JobId, LoaderId, WorkerId};

/// A wait, or the part of it that is not charged yet: its start and its end.
pub(super) type Wait = (Time, Time);

pub(super) fn own(cause: Cause, (start, end): Wait) -> Segment {
    Segment { start, end, cause: StallCause::own(cause) }
}

/// Returns the part of a peer's wait within `[from, to)`, as the stall of a device that waited for that peer; `None` if there
/// is none.
fn clip(wait: &Segment, from: Time, to: Time) -> Option<Segment> {
    let (start, end) = (wait.start.max(from), wait.end.min(to));
    let cause = StallCause::peer(wait.cause.cause);
    (start < end).then_some(Segment { start, end, cause })
}

/// A view of all job copies that tells why their devices wait, and changes nothing.
#[derive(Clone, Copy)]
pub(super) struct Causes<'a> {
    of: &'a Jobs,
}

impl Jobs {
    /// Returns why devices wait at this instant.
    pub(super) fn causes(&self) -> Causes<'_> {
        Causes { of: self }
    }
}

impl Causes<'_> {
    /// Appends to `pieces` the causes for which device `d` has waited from the time that its account has reached up to `until`, in
    /// order of time.
    pub(super) fn of_device(&self, d: DeviceId, until: Time, pieces: &mut Vec<Segment>) {
        let device = &self.of.devices[d];
        let wait = (device.account.clock(), until);
        match device.account.state() {
            State::Off | State::Busy | State::Updating => {}
            State::Idle | State::AwaitingParameters => self.of_idle(d, wait, pieces),
            State::Starving => {
                let next = self.of.loaders.next_batch_of(device.loader, d, until);
                self.of_batch(device.loader, next, wait, pieces);
                pieces.reverse();
            }
            State::Loading => pieces.push(own(Cause::Copy, wait)),
            State::Launching => pieces.extend(self.of_launch(d, wait)),
            State::Averaging if self.of.op_of(d) == Some(Op::Correct) => {
                pieces.push(own(Cause::Communication, wait));
            }
            State::Averaging => self.of_average(d, wait, pieces),
        }
    }

    /// Appends to `pieces` the causes for which device `d` has been idle: for the input of its current op, or between two steps;
    /// for a checkpoint since the job copy has waited for one.
    fn of_idle(&self, d: DeviceId, (since, until): Wait, pieces: &mut Vec<Segment>) {
        let Device { job, ref op, .. } = self.of.devices[d];
        let saving = self.of.recoveries.saving_since(self.of.jobs[job].parts.checkpoints);
        let saving = saving.filter(|_| self.of.is_held(d));
        let before = saving.map_or(until, |saving| saving.clamp(since, until));
        if op.waits() {
            self.of_input(d, (since, before), pieces);
        } else {
            self.between_steps(d, (since, before), pieces);
        }
        if before < until {
            pieces.push(own(Cause::Checkpoint, (before, until)));
        }
    }

    /// Appends to `pieces` the causes of the wait of device `d` before it begins its next step.
    fn between_steps(&self, d: DeviceId, wait: Wait, pieces: &mut Vec<Segment>) {
        let Device { job: j, stage, .. } = self.of.devices[d];
        let job = &self.of.jobs[j];
        match stage {
            _ if job.trains_apart() => self.of_parameters(d, wait, pieces),
            _ if job.plan.window == 1 => {
                let open = self.furthest_behind(d, job.parts.devices);
                let (slowest, worked) = match open {
                    Some(peer) => (self.chain_of(peer), wait.1),
                    None => self.slowest_chain(j, d),
                };
                self.of_step_end(d, wait, (slowest, worked), pieces);
            }
            // The first stage has waited for an earlier step to leave the pipeline; a learner, for the other learners.
            0 => pieces.push(Segment { start: wait.0, end: wait.1, cause: job.plan.gate }),
            _ => self.of_stage(d, wait, pieces),
        }
    }

    /// Appends to `pieces` the causes of the wait of device `d` for the input of its current op.
    fn of_input(&self, d: DeviceId, (since, until): Wait, pieces: &mut Vec<Segment>) {
        let mut at = since;
        match self.of.op_of(d) {
            Some(Op::Receive(input)) => {
                // The time after the input was sent was communication, and the time before it a wait for the previous stage.
                at = self.sent(d, input).unwrap_or(until).clamp(since, until);
                self.of_stage(d, (since, at), pieces);
            }
            Some(Op::AwaitSwap) => {
                at = until;
                pieces.push(own(Cause::Swap, (since, until)));
            }
            Some(Op::Await(communicator, number)) => {
                let last = self.last_rank(d, (communicator, number), until);
                if let Some((asked, peer)) = last.filter(|(asked, _)| *asked > since) {
                    at = asked.min(until);
                    self.of_rank(d, peer, (since, at), pieces);
                }
                let mut of = self.of.communicators_of(d, communicator).iter();
                if let Some(wait) = of.find_map(|c| self.of.communicators[c].barrier_wait()) {
                    for piece in wait.within(at, until) {
                        at = piece.end;
                        pieces.push(piece);
                    }
                }
            }
            _ => {}
        }
        pieces.push(own(Cause::Communication, (at, until)));
    }

    /// Returns when the input that device `d` waits for was sent; `None` if it was not.
    fn sent(&self, d: DeviceId, input: Input) -> Option<Time> {
        let spread = &self.of.jobs[self.of.devices[d].job].spread;
        let first = self.chain_of(d);
        let chain = Ids::new(first, first + self.of.jobs[self.of.devices[d].job].stages());
        let queued = || {
            let mut unsent = chain.iter().flat_map(|d| spread.part_of(d).unsent());
            let (stage, number) = (self.of.devices[d].stage, input.number());
            unsent.find(|(_, of)| of.stage == stage && of.number() == number)
        };
        let known = spread.part_of(d).sent(input);
        known.or_else(|| queued().map(|(sent, _)| sent))
    }

    /// Returns the device of the last rank to start the collective that device `d` waits for, and when that rank starts it, or has
    /// computed the gradients that its GPU sums first: `until` if it has not started it.
    fn last_rank(
        &self,
        d: DeviceId,
        (communicator, number): (Communicator, u32),
        until: Time,
    ) -> Option<(Time, DeviceId)> {
        let (step, mut last) = (self.of.devices[d].step(), None);
        for c in self.of.communicators_of(d, communicator) {
            let communicator = &self.of.communicators[c];
            let started = communicator.started_last(step, number);
            if started.is_none() && communicator.over(step) < number {
                let peer = self.furthest_behind(d, communicator.devices());
                return peer.map(|peer| (until, peer));
            }
            last = last.max(started);
        }
        // What a GPU does with the gradients of its learners after they have computed them is communication.
        let sums = self.of.pieces_of(d) > 0;
        let worked =
            |peer: DeviceId| if sums { self.of.devices[peer].worked() } else { Time::NEVER };
        last.map(|(at, peer)| (at.min(worked(peer)), peer))
    }

    /// Appends to `pieces` the causes of the wait of device `d` for `peer`: what the model copy of `peer` waited for in that
    /// time, or its computation; the pipeline, if both are stages of one model copy.
    fn of_rank(&self, d: DeviceId, peer: DeviceId, (from, until): Wait, pieces: &mut Vec<Segment>) {
        if from >= until {
            return;
        }
        let first = self.chain_of(peer);
        if self.chain_of(d) == first {
            return pieces.push(own(Cause::Bubble, (from, until)));
        }
        self.of_peer(first, from, (from, until), pieces);
    }

    /// Appends to `pieces` the causes of a wait for `peer` from `from` to `to`: while `peer` itself waited for input, the
    /// causes of that wait; otherwise the computation of `peer` from `began` on, and communication before `began`.
    fn of_peer(
        &self,
        peer: DeviceId,
        began: Time,
        (from, to): (Time, Time),
        pieces: &mut Vec<Segment>,
    ) {
        let mut at = from;
        let waits = self.of.devices[peer].input.waits();
        let waits = waits.filter_map(|(_, wait)| clip(&wait, from, to));
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

    /// Appends to `pieces` the causes of the wait of device `d` for the stage before. The cause is the first stage's wait for a
    /// batch while that wait lasted, and the pipeline itself at other times.
    fn of_stage(&self, d: DeviceId, (from, to): Wait, pieces: &mut Vec<Segment>) {
        let step = self.of.devices[d].step();
        let mut at = from;
        for (of, wait) in self.of.devices[self.chain_of(d)].input.waits() {
            let Some(wait) = clip(&wait, from, to).filter(|_| of <= step) else { continue };
            pieces.push(own(Cause::Bubble, (at, wait.start)));
            pieces.push(own(wait.cause.cause, (wait.start, wait.end)));
            at = wait.end;
        }
        pieces.push(own(Cause::Bubble, (at, to)));
    }

    /// Appends to `pieces` the causes of the wait of device `d` for parameters from servers: the computation of the model copy that
    /// held it up, and communication.
    fn of_parameters(&self, d: DeviceId, (from, to): Wait, pieces: &mut Vec<Segment>) {
        let held =
            self.of.communicators.exchanges_of(d).map(|(servers, worker)| servers.held(to, worker));
        // Where the device waited for several parts of the model, the one that was held up last counts.
        let held = held.max_by_key(|held| held[1].map(|held| held.until)).unwrap_or_default();
        let mut start = from;
        for Held { by, began, until } in held.into_iter().flatten().filter(|held| held.by != d) {
            let end = until.clamp(start, to);
            self.of_peer(by, began, (start, end), pieces);
            start = end;
        }
        pieces.push(own(Cause::Communication, (start, to)));
    }

    /// Returns the causes of the wait of device `d` for the host-side work of its trainers.
    fn of_launch(&self, d: DeviceId, (since, until): Wait) -> [Segment; 3] {
        launch_waits(self.of.devices.host_work(d, until), since, until)
    }

    /// Appends to `pieces`, latest first, the causes of a device's wait for a batch of loader `l` that `worker` completes. If the device
    /// polls, `slept` is the time from the completion of the batch to the poll that finds it.
    pub(super) fn of_batch(
        &self,
        l: LoaderId,
        (worker, slept): (WorkerId, Option<Segment>),
        (since, until): Wait,
        pieces: &mut Vec<Segment>,
    ) {
        // A host may have begun to wait before its device did.
        let slept = slept.map(|slept| Segment { start: slept.start.clamp(since, until), ..slept });
        pieces.extend(slept);
        let came = slept.map_or(until, |slept| slept.start);
        self.of.loaders.causes((l, worker), since, came, pieces);
    }

    /// Appends to `pieces` the causes of the wait of device `d` for an average. Until the last learner began its correction, the
    /// device waited for this learner, and after that for communication. As long as learners have not made their corrections, the
    /// device waits for the one that is furthest behind.
    fn of_average(&self, d: DeviceId, (since, until): (Time, Time), pieces: &mut Vec<Segment>) {
        let j = self.of.devices[d].job;
        let job = &self.of.jobs[j];
        let made = self.of.averages(j).and_then(|run| run.last_correction(job.devices_in_use()));
        let open = || self.furthest_behind(d, job.parts.devices).map(|peer| (peer, until));
        let last = made.or_else(open);
        let mut start = since;
        if let Some((peer, began)) = last {
            start = began.clamp(since, until);
            self.of_rank(d, peer, (since, start), pieces);
        }
        let cause = StallCause::own(Cause::Communication);
        pieces.push(Segment { start, end: until, cause });
    }

    /// Appends to `pieces` the causes of the wait of device `d` at the end of a step. It waits until all devices of its own model
    /// copy have done their work, then until all other model copies have, the `slowest` one of which did at `worked`, and then for
    /// communication or swaps that a device awaits at the end of its step.
    pub(super) fn of_step_end(
        &self,
        d: DeviceId,
        (since, until): Wait,
        (slowest, worked): (DeviceId, Time),
        pieces: &mut Vec<Segment>,
    ) {
        let job = &self.of.jobs[self.of.devices[d].job];
        let stages = job.stages();
        let own_end = self.worked(self.chain_of(d), stages).clamp(since, until);
        let all = worked.clamp(own_end, until);
        pieces.push(own(Cause::Bubble, (since, own_end)));
        self.of_rank(d, slowest, (own_end, all), pieces);
        let alone = job.parts.devices.len() == stages as usize;
        let cause = if alone { Cause::Swap } else { Cause::Communication };
        let wait = job.sampled.as_ref().and_then(|sampled| sampled.wait());
        let there = wait.map_or(until, |wait| wait.start().clamp(all, until));
        pieces.push(own(cause, (all, there)));
        pieces.extend(wait.into_iter().flat_map(|wait| wait.within(there, until)));
    }

    /// Returns the time when the last device of a model copy of `stages` stages had done its work; `first` is its first stage.
    fn worked(&self, first: DeviceId, stages: u32) -> Time {
        let all = self.of.devices[Ids::new(first, first + stages)].iter();
        all.map(|device| device.worked()).max().unwrap_or_default()
    }

    /// Returns the slowest model copy of job copy `j`, given by its first stage, and when it had done its work: the model copy with
    /// the device that finished its own work last. If several devices finished at the same time, device `last` decides.
    pub(super) fn slowest_chain(&self, j: JobId, last: DeviceId) -> (DeviceId, Time) {
        let all = self.of.devices[self.of.jobs[j].parts.devices]
            .iter()
            .zip(self.of.jobs[j].parts.devices);
        let in_use = all.filter(|(device, _)| device.account.state() != State::Off);
        let slowest = in_use.max_by_key(|(device, d)| (device.worked(), *d == last));
        let first = self.chain_of(slowest.map_or(last, |(_, d)| d));
        (first, self.worked(first, self.of.jobs[j].stages()))
    }

    /// Returns the device that is furthest behind device `d` in its program, among `devices` that are in use; `None` if none is
    /// behind `d`.
    fn furthest_behind(
        &self,
        d: DeviceId,
        devices: impl IntoIterator<Item = DeviceId>,
    ) -> Option<DeviceId> {
        let place = |d: &DeviceId| (self.of.devices[*d].step(), self.of.devices[*d].op.at());
        let in_use = |d: &DeviceId| self.of.devices[*d].account.state() != State::Off;
        let last = devices.into_iter().filter(in_use).min_by_key(place);
        last.filter(|last| place(last) < place(&d))
    }

    /// Returns the first device of the model copy to which `d` belongs.
    fn chain_of(&self, d: DeviceId) -> DeviceId {
        d - self.of.devices[d].stage
    }
}
