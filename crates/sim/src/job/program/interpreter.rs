//! The interpreter: it runs the program of each device, one op after the other.

use forebay_model::random::Purpose;

use super::op::Op;
use super::spread::{ParallelDevice, Spread};
use crate::communication::Communicator;
use crate::device::State;
use crate::env::{Delay, Env};
use crate::ids::{CommunicatorId, DeviceId, Ids, PartId};
use crate::job::jobs::Jobs;

/// How an op has begun.
enum Begun {
    /// The op is over: it takes no time of its own and needs no input.
    Done,
    /// The op needs an input, which may be there.
    Asked,
    /// The op takes time; [`Jobs::end_op`] is called at its end.
    Busy,
}

impl Jobs {
    pub(in crate::job) fn spread(&mut self, d: DeviceId) -> &mut Spread {
        let job = self.devices[d].job;
        &mut self.jobs[job].spread
    }

    pub(in crate::job) fn part(&mut self, d: DeviceId) -> &mut ParallelDevice {
        self.spread(d).part(d)
    }

    /// Returns the current op of device `d`.
    #[inline(always)]
    pub(in crate::job) fn op_of(&self, d: DeviceId) -> Option<Op> {
        let device = &self.devices[d];
        let programs = &self.jobs[device.job].plan.programs;
        programs.op(device.program, device.step(), device.op.at())
    }

    /// Runs the ops of device `d` one after the other, up to one that takes time or waits.
    pub(in crate::job) fn run_program(&mut self, env: &mut Env, d: DeviceId) {
        while let Some(op) = self.op_of(d) {
            if !self.devices[d].op.waits() {
                match self.begin_op(env, d, op) {
                    Begun::Busy => return,
                    Begun::Done => {
                        self.devices[d].op.advance();
                        continue;
                    }
                    Begun::Asked => {}
                }
            }
            if !self.is_ready(d, op) {
                return self.begin_wait(env, d, op);
            }
            self.end_wait(env.now, d, op);
            self.devices[d].op.advance();
        }
    }

    /// Ends the current op of device `d`, which took time, and goes on with the program.
    #[inline]
    pub(in crate::job) fn end_op(&mut self, env: &mut Env, d: DeviceId) {
        self.devices[d].op.advance();
        self.run_program(env, d);
    }

    /// Ends the current op of device `d`, unless the device's job has ended meanwhile.
    pub(crate) fn end_op_if_on(&mut self, env: &mut Env, d: DeviceId) {
        if self.devices[d].account.state() != State::Off {
            self.end_op(env, d);
        }
    }

    /// Continues the program of device `d` if it waits, since the input that it waits for may have come.
    pub(in crate::job) fn wake_program(&mut self, env: &mut Env, d: DeviceId) {
        let position = self.devices[d].op;
        match position.at() {
            _ if !position.waits() => {}
            // The device has not begun the step, and may have to wait for a checkpoint.
            0 => self.try_start(env, d),
            _ => self.run_program(env, d),
        }
    }

    #[inline]
    fn begin_op(&mut self, env: &mut Env, d: DeviceId, op: Op) -> Begun {
        match op {
            Op::TakeBatch => {
                self.next_batch(env, d);
                return Begun::Busy;
            }
            Op::Compute { share, compress } => {
                let delay = self.time_of_batch(env, d, (share, compress));
                // What only compresses runs no kernels of the model.
                self.compute_for(env, d, (delay, share > 0.0), "compute");
                return Begun::Busy;
            }
            Op::ComputePass { pass, share } => {
                let delay = self.time_of_micro_batch(env, d, share);
                self.compute_for(env, d, (delay, true), pass.name());
                return Begun::Busy;
            }
            Op::Update { seconds, roots } => {
                if self.devices[d].model < roots {
                    self.update_for(env, d, seconds);
                    return Begun::Busy;
                }
            }
            Op::GoOn => {
                self.go_on(env, d);
                return Begun::Busy;
            }
            Op::EndStep => {
                self.end_step(env, d);
                return Begun::Busy;
            }
            Op::CountStep => {
                self.count_step(env, d);
                if self.devices[d].account.state() == State::Off {
                    // The step was the last one of the device's job.
                    return Begun::Busy;
                }
            }
            Op::AwaitAverage if self.begin_average_wait(env, d) => return Begun::Busy,
            Op::AwaitOwnAverage if self.begin_own_average_wait(env, d) => return Begun::Busy,
            Op::Correct => {
                self.begin_correction(env, d);
                return Begun::Busy;
            }
            Op::Launch if !self.begin_launch(env, d) => return Begun::Busy,
            Op::AwaitPull if self.begin_pull_wait(env, d) => return Begun::Busy,
            Op::AwaitLaunch if self.devices.begin_launch_wait(env, d) => return Begun::Busy,
            Op::Offer { piece } => {
                self.offer_gradients(env, d, piece);
                if self.devices[d].account.state() == State::Off {
                    // A push to servers ended at once, and with it the device's job.
                    return Begun::Busy;
                }
            }
            // The learners of a GPU receive what a root broadcasts together: the first one begins to.
            Op::Start(Communicator::Data | Communicator::ExpertData, ..)
                if self.devices[d].learner > 0 => {}
            Op::Start(..) => self.begin_exchange_of(env, d, op),
            Op::Push { experts, buckets } => {
                self.communicators.note_push(env.now, d, (experts, buckets));
                self.begin_exchange_of(env, d, op);
                if self.devices[d].account.state() == State::Off {
                    // A push to servers ended at once, and with it the device's job.
                    return Begun::Busy;
                }
            }
            Op::Send(input) => self.send_part(env, d, input),
            Op::Swap { out, into } => self.begin_swap(env, d, [into, out]),
            Op::Receive(_) | Op::Await(..) | Op::AwaitSwap => return Begun::Asked,
            Op::Launch
            | Op::AwaitPull
            | Op::AwaitLaunch
            | Op::AwaitAverage
            | Op::AwaitOwnAverage => {}
        }
        Begun::Done
    }

    /// Begins the exchange that `op` stands for: collectives, or a push to parameter servers.
    #[inline]
    pub(in crate::job) fn begin_exchange_of(&mut self, env: &mut Env, d: DeviceId, op: Op) {
        match op {
            Op::Push { experts, buckets } => self.push_buckets(env, d, (experts, buckets)),
            Op::Start(communicator, first, end) => {
                let step = self.devices[d].step();
                let waited = self.waited_for(d, step);
                for c in self.communicators_of(d, communicator) {
                    self.communicators.start(env, c, (step, first..end), (d, waited));
                }
            }
            _ => {}
        }
    }

    /// Begins the wait of device `d` for the input of `op`, unless the device waits already.
    fn begin_wait(&mut self, env: &mut Env, d: DeviceId, op: Op) {
        let device = &mut self.devices[d];
        if device.op.waits() {
            return;
        }
        // Before its first op, the device has been idle since the end of its last step.
        if device.op.at() > 0 {
            device.account.begin(env.now, State::Idle);
        }
        device.op.begin_wait();
        let name = match op {
            Op::Receive(_) => "bubble",
            Op::AwaitSwap => "swap",
            _ => "communication",
        };
        self.devices.trace(env, d, name);
    }

    /// Returns whether device `d` has the input that `op` needs.
    fn is_ready(&self, d: DeviceId, op: Op) -> bool {
        let spread = || &self.jobs[self.devices[d].job].spread;
        match op {
            Op::Receive(input) => spread().part_of(d).has_received(input),
            Op::AwaitSwap => !spread().part_of(d).is_swapping(),
            Op::Await(communicator, number) => {
                let step = self.devices[d].step();
                let mut all = self.communicators_of(d, communicator).iter();
                all.all(|c| self.communicators[c].over(step) >= number)
            }
            Op::TakeBatch
            | Op::Launch
            | Op::AwaitPull
            | Op::Compute { .. }
            | Op::ComputePass { .. }
            | Op::Push { .. }
            | Op::Offer { .. }
            | Op::Send(_)
            | Op::Start(..)
            | Op::Update { .. }
            | Op::Swap { .. }
            | Op::CountStep
            | Op::AwaitAverage
            | Op::Correct
            | Op::AwaitOwnAverage
            | Op::AwaitLaunch
            | Op::GoOn
            | Op::EndStep => true,
        }
    }

    /// Returns the time that device `d` needs for the share `share` of a step on a whole batch, plus the time `compress` for
    /// compressing gradients, with the step's jitter.
    fn time_of_batch(&self, env: &Env, d: DeviceId, (share, compress): (f64, f64)) -> Delay {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let mut delay = job.plan.stage_times[PartId::new(device.stage)];
        if job.has_smaller_batch() {
            delay = job.time_of_smaller(delay, job.missing(device.model, device.step()));
        }
        let slowness = self.loaders[device.loader].gpus.slowness;
        if slowness != 1.0 {
            delay = Delay::once(delay.span.seconds() * slowness);
        }
        if share != 1.0 || compress != 0.0 {
            delay = Delay::once(delay.span.seconds() * share + compress);
        }
        self.with_jitter(env, d, delay)
    }

    /// Returns the time that device `d` needs for the share `share` of a step on a micro-batch, with the step's jitter.
    fn time_of_micro_batch(&self, env: &Env, d: DeviceId, share: f64) -> Delay {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let missing = job.missing(device.model, device.step());
        let (batch, law) = (job.plan.batch - missing, job.plan.step);
        let spread = &job.spread;
        let seconds =
            spread.step_of.micro_batch(&law, batch as f64, spread.micro_batches) / spread.speed;
        let delay = Delay::once(seconds * share * spread.part_of(d).slowness);
        self.with_jitter(env, d, delay)
    }

    /// Returns the time of a computation of device `d` that takes `delay` without jitter.
    #[inline]
    fn with_jitter(&self, env: &Env, d: DeviceId, delay: Delay) -> Delay {
        let device = &self.devices[d];
        let Some(jitter) = &self.jobs[device.job].plan.jitter else { return delay };
        let (owner, model) = (device.job.number() as u64, device.model.into());
        let mut generator = env.streams.at(Purpose::Jitter, owner, model, device.step());
        Delay::once(delay.span.seconds() * jitter.draw(&mut generator))
    }

    /// Returns the communicators of kind `name` in which device `d` takes part: one communicator for all GPUs of the device, or
    /// one for each GPU.
    pub(in crate::job) fn communicators_of(
        &self,
        d: DeviceId,
        name: Communicator,
    ) -> Ids<CommunicatorId> {
        let job = &self.jobs[self.devices[d].job];
        let spread = job.spread.get(d);
        spread.map_or(job.parts.communicators, |part| part.communicators[name])
    }
}
