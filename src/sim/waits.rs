//! What devices waited for, other than a batch: other model copies, and the pipeline.

use crate::account::Segment;
use crate::engine::Time;
use crate::report::{Cause, StallCause};

use super::device::State;
use super::world::World;

impl World<'_> {
    /// Everyone who was done earlier waited for `last`: for what it waited, or its computation.
    pub(super) fn blame_peers(&mut self, now: Time, j: usize, last: u32) {
        let (first_stage, busy) = self.chain_of(last);
        let mut pieces: Vec<Segment> = Vec::new();
        for d in self.jobs[j].devices.clone() {
            let device = &self.devices[d as usize];
            let own = self.chain_of(d).0 == first_stage;
            if device.since == now || device.state != State::Idle {
                continue;
            }
            let from = device.since;
            pieces.clear();
            if own {
                // A stage of the same model copy: the model passes through one stage at a time.
                let cause = StallCause::own(Cause::Bubble);
                pieces.push(Segment { start: from, end: now, cause });
            } else {
                let waits = self.devices[first_stage as usize].waits.iter();
                pieces.extend(waits.filter_map(|(_, wait)| clip(wait, from, now)));
                let start = from.max(busy);
                let cause = StallCause::peer(Cause::Compute);
                pieces.push(Segment { start, end: now.max(start), cause });
            }
            pieces.iter().for_each(|piece| self.jobs[j].steps.add_stall(*piece));
            self.trace_causes(d, &pieces);
        }
    }

    /// The first device of the model copy to which `d` belongs, and when that began to compute.
    fn chain_of(&self, d: u32) -> (u32, Time) {
        let first = d - self.devices[d as usize].stage;
        let ended = self.devices[first as usize].waits.last().map_or(Time::ZERO, |(_, w)| w.end);
        (first, ended)
    }

    /// A later pipeline stage has got its input: while the first stage starved for this batch, that
    /// was the cause; otherwise the pipeline itself was.
    pub(super) fn end_stage_wait(&mut self, now: Time, d: u32) {
        let device = &mut self.devices[d as usize];
        let sent = device.sent.pop_front().unwrap_or(now).max(device.since);
        let arriving = StallCause::own(Cause::Communication);
        self.jobs[device.job as usize].steps.add_stall(Segment {
            start: sent,
            end: now,
            cause: arriving,
        });
        self.end_wait_for_stage(sent, d);
    }

    /// What idle device `d` of stages that overlap waited for up to `now`, whatever it waits for then.
    pub(super) fn end_wait_in_pipeline(&mut self, now: Time, d: u32) {
        match self.devices[d as usize].stage {
            0 => self.end_gate_wait(now, d),
            _ => self.end_wait_for_stage(now, d),
        }
    }

    pub(super) fn end_wait_for_stage(&mut self, now: Time, d: u32) {
        let device = &self.devices[d as usize];
        let (from, step, j) = (device.since, device.next, device.job as usize);
        let bubble = StallCause::own(Cause::Bubble);
        let mut at = from;
        for (of, wait) in &self.devices[(d - device.stage) as usize].waits {
            let Some(wait) = clip(wait, from, now).filter(|_| *of <= step) else { continue };
            let cause = StallCause::own(wait.cause.cause);
            self.jobs[j].steps.add_stall(Segment { start: at, end: wait.start, cause: bubble });
            self.jobs[j].steps.add_stall(Segment { cause, ..wait });
            at = wait.end;
        }
        self.jobs[j].steps.add_stall(Segment { start: at, end: now, cause: bubble });
    }

    /// The first stage may begin a step again because an earlier one has left the pipeline.
    pub(super) fn end_gate_wait(&mut self, now: Time, d: u32) {
        let device = &mut self.devices[d as usize];
        let segment =
            Segment { start: device.since, end: now, cause: StallCause::own(Cause::Bubble) };
        device.since = now;
        self.jobs[device.job as usize].steps.add_stall(segment);
    }

    /// Accounts for what overlapping pipeline stages of job copy `j` were at when its last complete
    /// step ended: those that begin the next steps are cut off, early ones have nothing left to do.
    pub(super) fn close_open(&mut self, j: usize) {
        if self.jobs[j].window == 1 {
            return;
        }
        let end = self.jobs[j].steps.last_end();
        self.close_until(j, end);
    }

    /// The same of all that they were at up to `end`.
    pub(super) fn close_until(&mut self, j: usize, end: Time) {
        if self.jobs[j].window == 1 {
            return;
        }
        for d in self.jobs[j].devices.clone() {
            let (start, state) = (self.devices[d as usize].since, self.devices[d as usize].state);
            if start >= end {
                continue;
            }
            match state {
                // No root where steps overlap.
                State::Off | State::Uninformed => {}
                State::Launching | State::Averaging => {
                    let launching = state == State::Launching;
                    let cause = if launching { Cause::Launch } else { Cause::Communication };
                    let cause = StallCause::own(cause);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
                State::Loading => {
                    let cause = StallCause::own(Cause::Copy);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
                State::Busy => self.jobs[j].steps.add_compute(start, end),
                State::Idle | State::Starving => {
                    let cause = StallCause::own(Cause::Bubble);
                    self.jobs[j].steps.add_stall(Segment { start, end, cause });
                }
            }
        }
    }
}

/// The part of a peer's wait within `[from, to)`, as the wait of those who waited for it.
pub(super) fn clip(wait: &Segment, from: Time, to: Time) -> Option<Segment> {
    let (start, end) = (wait.start.max(from), wait.end.min(to));
    let cause = StallCause::peer(wait.cause.cause);
    (start < end).then_some(Segment { start, end, cause })
}
