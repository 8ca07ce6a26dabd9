//! The interpreter: each device works through its program, one op after the other.

use crate::sim::communication::CommunicatorRun;
use crate::sim::index::{DeviceId, Ids, JobId};

use crate::engine::Time;
use crate::sim::device::{Device, State};
use crate::sim::event::{Clock, Delay};
use crate::sim::world::World;

use super::op::{Communicator, Op};
use super::spread::{ParallelRun, Part};

/// How an op begins.
enum Begun {
    /// It takes no time, or what it waits for may be there.
    Asked,
    /// Its end calls [`World::end_op`].
    Busy,
}

impl World<'_> {
    pub(super) fn parallel(&mut self, d: DeviceId) -> Option<&mut ParallelRun> {
        let job = self.devices[d].job;
        self.jobs[job].parallel.as_deref_mut()
    }

    pub(super) fn part(&mut self, d: DeviceId) -> Option<&mut Part> {
        self.parallel(d).map(|parallel| parallel.part(d))
    }

    /// The op that device `d` is at.
    pub(in crate::sim) fn op_of(&self, d: DeviceId) -> Option<Op> {
        let Device { job, program, next, at, .. } = self.devices[d];
        self.jobs[job].programs.op(program, next, at)
    }

    /// Device `d` does one op after the other, up to one that takes time or waits.
    pub(in crate::sim) fn run_program(&mut self, clock: &mut Clock, d: DeviceId) {
        while let Some(op) = self.op_of(d) {
            if !self.devices[d].waits_at_op
                && let Begun::Busy = self.begin_op(clock, d, op)
            {
                return;
            }
            if !self.is_ready(d, op) {
                return self.begin_wait(clock.now, d, op);
            }
            self.end_wait(clock.now, d, op);
            self.devices[d].at += 1;
        }
    }

    /// The op of device `d` that took time is over.
    #[inline]
    pub(in crate::sim) fn end_op(&mut self, clock: &mut Clock, d: DeviceId) {
        self.devices[d].at += 1;
        self.run_program(clock, d);
    }

    /// Device `d` goes on with its program if it waits there for something that is there now.
    pub(in crate::sim) fn wake_program(&mut self, clock: &mut Clock, d: DeviceId) {
        if self.devices[d].waits_at_op {
            self.run_program(clock, d);
        }
    }

    #[inline]
    fn begin_op(&mut self, clock: &mut Clock, d: DeviceId, op: Op) -> Begun {
        match op {
            Op::TakeBatch => {
                if self.may_begin_step(clock.now, d) {
                    self.next_batch(clock, d);
                }
                return Begun::Busy;
            }
            Op::ReceiveBatch if !self.receive_batch(clock.now, d) => return Begun::Busy,
            Op::SendBatch => self.hand_over(clock, d + 1),
            Op::Compute { share, compress } => {
                let delay = self.time_of_batch(d, share, compress);
                self.compute_for(clock, d, delay, "compute");
                return Begun::Busy;
            }
            Op::ComputePass { pass, share } => {
                let delay = self.time_of_micro_batch(d, share);
                self.compute_for(clock, d, delay, pass.name());
                return Begun::Busy;
            }
            Op::EndStep => {
                self.end_step(clock, d);
                return Begun::Busy;
            }
            Op::Launch if !self.begin_launch(clock, d) => return Begun::Busy,
            Op::AwaitPull if self.awaits_pull(clock.now, d) => return Begun::Busy,
            Op::AwaitLaunch if self.awaits_launch(clock.now, d) => return Begun::Busy,
            Op::Offer { piece } => self.offer_gradients(clock, d, piece),
            Op::Push { piece } => {
                self.push_gradients(clock, d, piece);
                if self.devices[d].state == State::Off {
                    // What it pushed was there at once, and its job ended by that.
                    return Begun::Busy;
                }
            }
            Op::Send(input) => self.send_part(clock, d, input),
            Op::Start(communicator, number) => {
                for c in self.communicators_of(d, communicator) {
                    self.start_collectives(clock, c, number..number + 1, d);
                }
            }
            Op::Swap { out, into } => self.begin_swap(clock, d, [into, out]),
            Op::ReceiveBatch
            | Op::Launch
            | Op::AwaitPull
            | Op::AwaitLaunch
            | Op::Receive(_)
            | Op::Await(..)
            | Op::AwaitSwap => {}
        }
        Begun::Asked
    }

    /// Begins the wait of device `d` for what its op needs.
    fn begin_wait(&mut self, now: Time, d: DeviceId, op: Op) {
        let device = &mut self.devices[d];
        if device.waits_at_op {
            return;
        }
        (device.state, device.since) = (State::Idle, now);
        device.waits_at_op = true;
        let name = match op {
            Op::Receive(_) => "bubble",
            Op::AwaitSwap => "swap",
            _ => "communication",
        };
        self.trace_device(now, d, name);
    }

    /// Whether device `d` has what its op needs.
    fn is_ready(&mut self, d: DeviceId, op: Op) -> bool {
        match op {
            Op::Receive(input) => {
                self.part(d).is_none_or(|part| !part.received[input.number()].is_empty())
            }
            Op::AwaitSwap => self.part(d).is_none_or(|part| part.swapping == 0),
            Op::Await(communicator, number) => self
                .communicators_of(d, communicator)
                .iter()
                .all(|c| self.communicators[c].over() >= number),
            Op::TakeBatch
            | Op::ReceiveBatch
            | Op::SendBatch
            | Op::Launch
            | Op::AwaitPull
            | Op::Compute { .. }
            | Op::ComputePass { .. }
            | Op::Offer { .. }
            | Op::Push { .. }
            | Op::Send(_)
            | Op::Start(..)
            | Op::Swap { .. }
            | Op::AwaitLaunch
            | Op::EndStep => true,
        }
    }

    /// Time of a share of a step on a whole batch, and of compressing after it.
    fn time_of_batch(&self, d: DeviceId, share: f64, compress: f64) -> Delay {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let mut delay = job.stage_times[device.stage as usize];
        if !job.smaller.is_empty() {
            delay = job.time_of_smaller(delay, job.missing(device.model, device.next));
        }
        let slowness = self.loaders[device.loader].slowness;
        if slowness != 1.0 {
            delay = Delay::once(delay.span.seconds() * slowness);
        }
        if share != 1.0 || compress != 0.0 {
            delay = Delay::once(delay.span.seconds() * share + compress);
        }
        delay
    }

    /// Time of a share of a step on a micro-batch.
    fn time_of_micro_batch(&mut self, d: DeviceId, share: f64) -> Delay {
        let device = &self.devices[d];
        let (model, step, j) = (device.model, device.next, device.job);
        let job = &mut self.jobs[j];
        let missing = job.missing(model, step);
        let (batch, law) = (job.batch - missing, job.step);
        let Some(parallel) = &mut job.parallel else { return Delay::once(0.0) };
        let seconds = parallel.step_of.micro_batch(&law, batch as f64, parallel.micro_batches)
            / parallel.speed;
        Delay::once(seconds * share * parallel.part(d).slowness)
    }

    /// The communicators of its program in which device `d` is by this name: one, or one for each of its GPUs.
    pub(super) fn communicators_of(
        &mut self,
        d: DeviceId,
        name: Communicator,
    ) -> Ids<CommunicatorRun> {
        let job = &self.jobs[self.devices[d].job];
        match &job.parallel {
            None => job.communicators,
            Some(parallel) => parallel.part_of(d).communicators[name as usize],
        }
    }

    /// Device `d`, a part of a model copy, has done its step, which is over when all parts have.
    pub(in crate::sim) fn end_part(&mut self, clock: &mut Clock, d: DeviceId) {
        let j = self.devices[d].job;
        let Some(parallel) = &mut self.jobs[j].parallel else { return };
        parallel.part(d).ended = clock.now;
        parallel.done += 1;
        let all = parallel.done as usize == parallel.parts.len();
        let device = &mut self.devices[d];
        (device.state, device.since) = (State::Idle, clock.now);
        self.trace_device(clock.now, d, "waiting");
        if all {
            self.end_parts(clock, j);
        }
    }

    fn end_parts(&mut self, clock: &mut Clock, j: JobId) {
        self.account_for_ends(clock.now, j);
        for d in self.jobs[j].devices {
            self.devices[d].next += 1;
        }
        let Some(parallel) = &mut self.jobs[j].parallel else { return };
        parallel.restart();
        for c in self.jobs[j].communicators {
            self.communicators[c].restart();
        }
        self.end_of_step(clock, j);
    }
}
