//! Steps: when a device begins one, and when all have done it. What it does in between is its `program`.
//!
//! A model copy is a chain of one or more devices (pipeline stages). All model copies of a job copy
//! train in step: the first device of each may begin step `s` once step `s − window` is complete
//! everywhere, where the window is the number of stages if they overlap and 1 if not.

use super::index::{DeviceId, Ids, JobId};
use super::loader::LoaderRun;
use super::staging::Staging;
use std::collections::BTreeMap;

use crate::account::Steps;
use crate::engine::Time;
use crate::law::StepLaw;
use crate::random::{Purpose, Sampler};
use crate::report::QueueTotals;
use crate::scenario::{BatchInterval, Goal};

use super::averaging::AveragingRun;
use super::barrier::Barrier;
use super::communication::{CommunicatorRun, ServerRun, SyncRun};
use super::core_steps::CpuThreads;
use super::device::{Device, State};
use super::env::Env;
use super::event::{Delay, Event};
use super::jobs::Jobs;
use super::launch::LaunchRun;
use super::learners::LearnersRun;
use super::program::{ParallelRun, Programs};
use super::recovery::RecoveryRun;

/// One copy of a job: what it is made of, what its ranks do, and how far they are.
#[derive(Debug)]
pub(super) struct JobRun {
    /// Index into the scenario's jobs.
    pub(super) job: usize,
    pub(super) copy: u32,
    /// When it starts; where its data set is copied first, from then on when that was done.
    pub(super) start: Time,
    pub(super) parts: Parts,
    pub(super) plan: Plan,
    /// What its model copies do with their gradients, if they do anything.
    pub(super) sync: Option<Box<SyncRun>>,
    /// How its learners average their models, if they do.
    pub(super) averaging: Option<Box<AveragingRun>>,
    /// Its learners on each GPU, and the policy that finds how many there are.
    pub(super) learners: LearnersRun,
    /// Where its model copies are with parameter servers, if they exchange with these.
    pub(super) servers: Option<Box<ServerRun>>,
    /// What its GPUs do, where a model copy is spread over several and followed piece by piece.
    pub(super) parallel: Option<Box<ParallelRun>>,
    /// What it has against failures, if they are simulated.
    pub(super) recovery: Option<Box<RecoveryRun>>,
    pub(super) open: OpenSteps,
    pub(super) barrier: Barrier,
    pub(super) finished: bool,
    pub(super) steps: Steps,
}

/// What a job copy is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    /// Data sets that are copied to its nodes before it trains.
    pub(super) stagings: Ids<Staging>,
    pub(super) loaders: Ids<LoaderRun>,
    pub(super) devices: Ids<Device>,
    /// The communicators of its ranks.
    pub(super) communicators: Ids<CommunicatorRun>,
}

/// What the ranks of a job copy do; the same from beginning to end, but for the goal, which steps that are done again move.
#[derive(Debug)]
pub(super) struct Plan {
    /// Samples of a model copy's step.
    pub(super) batch: u64,
    pub(super) interval: BatchInterval,
    /// Time of a step by batch, on all pipeline stages.
    pub(super) step: StepLaw,
    /// Time of each pipeline stage before jitter.
    pub(super) stage_times: Vec<Delay>,
    pub(super) jitter: Option<Sampler>,
    /// What each of its devices does in a step.
    pub(super) programs: Programs,
    /// Threads of each model copy on the node's cores, where it trains there.
    pub(super) threads: Option<CpuThreads>,
    /// What each trainer does on them beside its device, if anything.
    pub(super) launch: Option<Box<LaunchRun>>,
    /// Bytes from one pipeline stage to the next, and the latency before they flow.
    pub(super) activations: f64,
    pub(super) hand_over: Delay,
    pub(super) goal: Goal,
    /// Steps that may be in progress at once.
    pub(super) window: u64,
    /// Steps from one exchange between model copies to the next; they are in step there.
    pub(super) period: u64,
}

/// Steps of a job copy that are not over.
#[derive(Debug, Default)]
pub(super) struct OpenSteps {
    /// Where model copies are at different steps: fresh samples of those that are not over, by step.
    pub(super) fresh: BTreeMap<u64, u64>,
    /// Those on smaller batches.
    pub(super) smaller: Vec<SmallerBatch>,
}

/// A model copy's step on a batch that is smaller than others.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallerBatch {
    model: u32,
    step: u64,
    /// Samples by which it is smaller.
    missing: u64,
}

impl JobRun {
    /// Whether nothing of it begins, because its state is being saved.
    pub(super) fn is_held(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.is_saving())
    }

    /// Whether a step in progress is on a smaller batch.
    pub(super) fn has_smaller_batch(&self) -> bool {
        !self.open.smaller.is_empty()
    }

    /// Samples that the batch of `model` lacks in `step`.
    pub(super) fn missing(&self, model: u32, step: u64) -> u64 {
        let of = |smaller: &&SmallerBatch| smaller.model == model && smaller.step == step;
        self.open.smaller.iter().find(of).map_or(0, |smaller| smaller.missing)
    }

    /// For a batch that lacks so many samples, what takes `full` for a full one.
    pub(super) fn time_of_smaller(&self, full: Delay, missing: u64) -> Delay {
        let of = |batch: u64| self.plan.step.seconds(batch as f64);
        let part = of(self.plan.batch - missing) / of(self.plan.batch);
        if missing == 0 || !part.is_finite() {
            return full;
        }
        Delay::once(full.span.seconds() * part)
    }

    /// Whether it has one device, which waits for input and has it before anything else happens to it.
    pub(super) fn waits_alone(&self) -> bool {
        self.parts.devices.len() == 1 && !self.is_loose() && self.averaging.is_none()
    }

    /// Whether its model copies are at different steps at times.
    pub(super) fn is_loose(&self) -> bool {
        self.plan.period > 1 || self.servers.is_some()
    }

    /// A model copy takes so many fresh samples for `step`.
    pub(super) fn add_fresh(&mut self, step: u64, samples: u64) {
        match self.plan.period > 1 || self.averaging.is_some() {
            true => *self.open.fresh.entry(step).or_default() += samples,
            false => self.steps.add_fresh(samples),
        }
    }

    /// Whether a model copy may begin `step`, as far as others are.
    fn may_begin(&self, step: u64) -> bool {
        let round = step - step % self.plan.period;
        let others = self.servers.is_some() || round < self.steps.completed() + self.plan.window;
        others && step < self.learners.held_at
    }

    /// Whether all model copies wait for each other when so many steps are complete.
    fn meets_after(&self, steps: u64) -> bool {
        self.plan.window == 1
            && (steps.is_multiple_of(self.plan.period) || steps == self.plan.goal.steps)
    }

    /// Whether none of its model copies has begun the step after those that are complete.
    fn is_in_step(&self) -> bool {
        self.servers.is_none() && self.meets_after(self.steps.completed())
    }

    /// Whether `step` is none of a model copy's.
    pub(super) fn is_beyond(&self, step: u64) -> bool {
        let together = self.servers.as_ref().is_none_or(|servers| servers.is_synchronous());
        together && step == self.plan.goal.steps
    }

    /// Samples of `step` of `model`, which has done it.
    pub(super) fn take_samples(&mut self, model: u32, step: u64) -> u64 {
        let missing = self.missing(model, step);
        self.open.smaller.retain(|smaller| smaller.model != model || smaller.step != step);
        self.plan.batch - missing
    }

    /// Samples of a step that all model copies have done.
    fn samples_of_step(&mut self) -> u64 {
        let step = self.steps.completed();
        let full = self.plan.batch * self.barrier.parties() as u64;
        let missing = self.open.smaller.iter().filter(|smaller| smaller.step == step);
        let missing: u64 = missing.map(|smaller| smaller.missing).sum();
        self.open.smaller.retain(|smaller| smaller.step != step);
        full - missing
    }
}

impl Jobs {
    /// A job copy begins to train.
    pub(super) fn start_job(&mut self, env: &mut Env, j: JobId) {
        self.begin_recovery(env, j);
        self.set_going(env, j);
    }

    /// Its workers read, its devices wait.
    pub(super) fn set_going(&mut self, env: &mut Env, j: JobId) {
        for l in self.jobs[j].parts.loaders {
            self.loaders.wake_all(l);
        }
        let learners = self.jobs[j].learners.number;
        for d in self.jobs[j].parts.devices {
            let device = &mut self.devices[d];
            if device.learner < learners {
                (device.state, device.since) = (State::Idle, env.now);
            }
        }
        let job = &mut self.jobs[j];
        job.learners.begin_window(env.now, job.steps.completed());
        for l in self.jobs[j].parts.loaders {
            if let Some(tuner) = &mut self.loaders[l].tuner {
                tuner.start(env.now);
            }
            if let Some(requests) = &mut self.loaders[l].requests {
                requests.start(env.now);
                self.loaders.ask(env, l);
            }
        }
        self.begin_collectives(env, j);
        self.pull_all(env, j);
        for d in self.jobs[j].parts.devices {
            self.try_start(env, d);
        }
    }

    /// Device `d` begins the program of its next step if it is between steps and may.
    pub(super) fn try_start(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let between = device.state == State::Idle && device.op.at == 0 && !device.op.waits;
        if between && !job.is_beyond(device.next) && !job.is_held() {
            self.run_program(env, d);
        }
    }

    /// Whether device `d` may begin its next step as far as other devices are; ends its wait for them.
    pub(super) fn may_begin_step(&mut self, now: Time, d: DeviceId) -> bool {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let may = job.may_begin(device.next);
        if may && job.plan.window > 1 {
            self.end_gate_wait(now, d);
        }
        may
    }

    /// Device `d` takes a batch, or keeps the one that it has.
    pub(super) fn next_batch(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let job = &self.jobs[device.job];
        let queue = &self.loaders[device.loader].queue;
        if !job.plan.interval.is_fresh(device.next, device.input.on_batch, queue.level()) {
            return self.begin_on_batch(env, d);
        }
        device.input.on_batch = 0;
        self.want_batch(env, d);
    }

    /// Device `d` begins a step on the batch that it has taken.
    pub(super) fn begin_on_batch(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        device.input.on_batch += 1;
        if device.input.missing > 0 {
            let (model, step, missing) = (device.model, device.next, device.input.missing);
            self.jobs[device.job].open.smaller.push(SmallerBatch { model, step, missing });
        }
        self.end_op(env, d);
    }

    /// Device `d` computes for so long, but for jitter and faults; a timeline says `name`.
    pub(super) fn compute_for(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        mut delay: Delay,
        name: &'static str,
    ) {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        if let Some(jitter) = &job.plan.jitter {
            let (owner, entity) = (device.job.number() as u64, device.model as u64);
            let mut generator = env.streams.at(Purpose::Jitter, owner, entity, device.next);
            delay = Delay::once(delay.span.seconds() * jitter.draw(&mut generator));
        }
        let device = &mut self.devices[d];
        if device.on_gpu.pace != 1.0 {
            delay = Delay::once(delay.span.seconds() / device.on_gpu.pace);
        }
        device.state = State::Busy;
        device.since = env.now;
        match job.plan.threads {
            None if !self.loaders[device.loader].gpus.is_empty() => {
                self.compute_on_gpu(env, d, delay);
            }
            None => env.after(delay, Event::Stepped(d)),
            Some(threads) => self.compute_on_cores(env, d, threads, delay),
        }
        self.trace_device(env, d, name);
    }

    /// Device `d` has done its part of a step.
    pub(super) fn stepped(&mut self, env: &mut Env, d: DeviceId) {
        self.leave_cores(env, d);
        let device = &mut self.devices[d];
        if device.state == State::Off {
            // Its job ended while it was at a step beyond the last one.
            return;
        }
        let job = device.job;
        device.times.busy += env.now.since(device.since).seconds();
        self.jobs[job].steps.add_compute(device.since, env.now);
        (device.state, device.since) = (State::Idle, env.now);
        if let Some(parallel) = &mut self.jobs[job].parallel {
            parallel.part(d).computed = env.now;
        }
        self.end_op(env, d);
    }

    /// All that device `d` and its trainer do for a step is done.
    pub(super) fn end_step(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        device.op.at = 0;
        let (j, step) = (device.job, device.next);
        if self.jobs[j].parallel.is_some() {
            return self.end_part(env, d);
        }
        self.leave_input(d);
        let device = &mut self.devices[d];
        device.next += 1;
        device.state = State::Idle;
        device.since = env.now;
        let last_stage = device.stage as usize + 1 == self.jobs[j].plan.stage_times.len();
        let averages = self.jobs[j].averaging.as_ref().is_some_and(|of| of.is_due(step + 1));
        if averages {
            device.state = State::Averaging;
        }
        self.trace_device(env, d, "waiting");
        if self.jobs[j].servers.is_some() {
            self.end_step_by_itself(env, d, step);
        } else if last_stage && self.jobs[j].barrier.arrive(step) {
            self.complete_step(env, j, d);
        } else {
            self.try_start(env, d);
        }
        if averages {
            self.average(env, d);
        }
    }

    /// Device `d`, which exchanges with servers, has computed `step`; what it pushes after that may still be on its way.
    fn end_step_by_itself(&mut self, env: &mut Env, d: DeviceId, step: u64) {
        let Device { job, model, .. } = self.devices[d];
        let servers = self.jobs[job].servers.as_ref();
        let pushes = servers.is_some_and(|servers| servers.pieces.exchanges(step));
        if pushes || !self.end_own_step(env, job, model, step) {
            self.try_start(env, d);
        }
    }

    /// Device `last` was the last to finish the step.
    fn complete_step(&mut self, env: &mut Env, j: JobId, last: DeviceId) {
        let job = &self.jobs[j];
        let done = job.steps.completed() + 1;
        if job.meets_after(done) {
            self.blame_peers(env, j, last);
        }
        let over =
            self.jobs[j].averaging.is_some() || !done.is_multiple_of(self.jobs[j].plan.period);
        if over || !self.awaits_gradients(env, j) {
            self.end_of_step(env, j);
        }
    }

    /// All devices have done the step, and have the same model again.
    pub(super) fn end_of_step(&mut self, env: &mut Env, j: JobId) {
        let job = &mut self.jobs[j];
        let samples = job.samples_of_step();
        let fresh = job.open.fresh.remove(&job.steps.completed()).unwrap_or_default();
        job.steps.add_fresh(fresh);
        self.record_samples(env.now, j, samples);
        if self.jobs[j].is_in_step() {
            // All is told of what came before.
            for d in self.jobs[j].parts.devices {
                self.devices[d].since = env.now;
            }
        }
        if self.ends(env, j) {
            return;
        }
        let job = &self.jobs[j];
        if job.learners.is_due(job.steps.completed()) {
            self.look_at_throughput(env, j);
        }
        let job = &mut self.jobs[j];
        let saves = job.recovery.is_some() && job.has_state();
        if saves && self.begins_checkpoint(env, j) {
            return;
        }
        self.next_step(env, j);
    }

    /// Job copy `j` has done a step; true if it is over by that.
    pub(super) fn ends(&mut self, env: &mut Env, j: JobId) -> bool {
        let job = &self.jobs[j];
        let over = job.steps.completed() == job.plan.goal.steps
            || job.steps.fresh() >= job.plan.goal.fresh;
        if over {
            self.finish_job(env, j);
            if !self.waiting.is_empty() {
                self.release_jobs(env);
            }
        }
        over
    }

    /// All devices of job copy `j` go on to the next step as soon as they can.
    pub(super) fn next_step(&mut self, env: &mut Env, j: JobId) {
        let in_step = self.jobs[j].is_in_step();
        self.begin_collectives(env, j);
        for d in self.jobs[j].parts.devices {
            if in_step {
                self.devices[d].since = env.now;
            }
            self.try_start(env, d);
        }
    }

    /// Job copy `j` has done a step on so many samples.
    pub(super) fn record_samples(&mut self, now: Time, j: JobId, samples: u64) {
        let job = &mut self.jobs[j];
        let mut queue = QueueTotals::default();
        for loader in &mut self.loaders[job.parts.loaders] {
            queue += QueueTotals { started: loader.started, ..loader.queue.totals(now) };
        }
        job.steps.complete(now, samples, queue);
    }

    fn finish_job(&mut self, env: &mut Env, j: JobId) {
        self.jobs[j].finished = true;
        self.unfinished -= 1;
        for l in self.jobs[j].parts.loaders {
            let loader = &mut self.loaders[l];
            loader.quota = loader.started;
        }
        self.close_open(j);
        for d in self.jobs[j].parts.devices {
            let device = &mut self.devices[d];
            if device.state == State::Starving {
                let loader = &mut self.loaders[device.loader];
                loader.waiters.retain(|waiter| waiter.device != d);
                loader.queue.end_wait(env.now);
            }
            if device.state == State::Busy {
                device.times.busy += env.now.since(device.since).seconds();
            }
            let idle = device.learner >= self.jobs[j].learners.number;
            device.state = State::Off;
            if !idle {
                self.trace_device(env, d, "done");
            }
        }
    }
}
