//! Steps: when a device begins one, and when all have done it. What it does in between is its `program`.
//!
//! A model copy is a chain of one or more devices (pipeline stages). All model copies of a job copy
//! train in step: the first device of each may begin step `s` once step `s − window` is complete
//! everywhere, where the window is the number of stages if they overlap and 1 if not.

use super::index::{DeviceId, Ids, JobId};
use super::staging::Staging;
use super::world::LoaderRun;
use std::collections::BTreeMap;

use crate::account::Steps;
use crate::engine::Time;
use crate::law::StepLaw;
use crate::random::{Purpose, Sampler};
use crate::report::QueueTotals;
use crate::scenario::{BatchInterval, Goal};

use super::averaging::AveragingRun;
use super::barrier::Barrier;
use super::communication::{CommunicatorRun, ServerRun, SyncRun, Ways};
use super::core_steps::CpuThreads;
use super::device::{Device, State};
use super::event::{Clock, Delay, Event};
use super::launch::LaunchRun;
use super::learners::LearnersRun;
use super::program::{ParallelRun, Programs};
use super::recovery::RecoveryRun;
use super::world::World;

/// One copy of a job.
#[derive(Debug)]
pub(super) struct JobRun {
    /// Index into the scenario's jobs.
    pub(super) job: usize,
    pub(super) copy: u32,
    /// When it starts; where its data set is copied first, from then on when that was done.
    pub(super) start: Time,
    /// What is copied to its nodes before, their loaders and its devices, as ranges of the world's.
    pub(super) stagings: Ids<Staging>,
    pub(super) loaders: Ids<LoaderRun>,
    pub(super) devices: Ids<Device>,
    pub(super) batch: u64,
    pub(super) interval: BatchInterval,
    /// Time of a step by batch, on all pipeline stages.
    pub(super) step: StepLaw,
    /// Time of each pipeline stage before jitter.
    pub(super) stage_times: Vec<Delay>,
    pub(super) jitter: Option<Sampler>,
    /// What each of its devices does in a step.
    pub(super) programs: Programs,
    /// The links between its ranks, if these exchange anything, and its communicators, as a range of the world's.
    pub(super) ways: Option<Box<Ways>>,
    pub(super) communicators: Ids<CommunicatorRun>,
    /// What its model copies do with their gradients, if they do anything.
    pub(super) sync: Option<Box<SyncRun>>,
    /// How its learners average their models, if they do.
    pub(super) averaging: Option<Box<AveragingRun>>,
    /// Its learners on each GPU, and the policy that finds how many there are.
    pub(super) learners: LearnersRun,
    /// The same with servers.
    pub(super) servers: Option<Box<ServerRun>>,
    /// What its GPUs do, where a model copy is spread over several and followed piece by piece.
    pub(super) parallel: Option<Box<ParallelRun>>,
    /// What it has against failures, if they are simulated.
    pub(super) recovery: Option<Box<RecoveryRun>>,
    /// Where model copies are at different steps: fresh samples of those that are not over, by step.
    pub(super) fresh_ahead: BTreeMap<u64, u64>,
    /// Steps in progress on smaller batches.
    pub(super) smaller: Vec<SmallerBatch>,
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
    pub(super) barrier: Barrier,
    pub(super) finished: bool,
    pub(super) steps: Steps,
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

    /// Samples that the batch of `model` lacks in `step`.
    pub(super) fn missing(&self, model: u32, step: u64) -> u64 {
        let of = |smaller: &&SmallerBatch| smaller.model == model && smaller.step == step;
        self.smaller.iter().find(of).map_or(0, |smaller| smaller.missing)
    }

    /// For a batch that lacks so many samples, what takes `full` for a full one.
    pub(super) fn time_of_smaller(&self, full: Delay, missing: u64) -> Delay {
        let of = |batch: u64| self.step.seconds(batch as f64);
        let part = of(self.batch - missing) / of(self.batch);
        if missing == 0 || !part.is_finite() {
            return full;
        }
        Delay::once(full.span.seconds() * part)
    }

    /// Whether it has one device, which waits for input and has it before anything else happens to it.
    pub(super) fn waits_alone(&self) -> bool {
        self.devices.len() == 1 && !self.is_loose() && self.averaging.is_none()
    }

    /// Whether its model copies are at different steps at times.
    pub(super) fn is_loose(&self) -> bool {
        self.period > 1 || self.servers.is_some()
    }

    /// A model copy takes so many fresh samples for `step`.
    pub(super) fn add_fresh(&mut self, step: u64, samples: u64) {
        match self.period > 1 || self.averaging.is_some() {
            true => *self.fresh_ahead.entry(step).or_default() += samples,
            false => self.steps.add_fresh(samples),
        }
    }

    /// Whether a model copy may begin `step`, as far as others are.
    fn may_begin(&self, step: u64) -> bool {
        let round = step - step % self.period;
        let others = self.servers.is_some() || round < self.steps.completed() + self.window;
        others && step < self.learners.held_at
    }

    /// Whether all model copies wait for each other when so many steps are complete.
    fn meets_after(&self, steps: u64) -> bool {
        self.window == 1 && (steps.is_multiple_of(self.period) || steps == self.goal.steps)
    }

    /// Whether none of its model copies has begun the step after those that are complete.
    fn is_in_step(&self) -> bool {
        self.servers.is_none() && self.meets_after(self.steps.completed())
    }

    /// Whether `step` is none of a model copy's.
    pub(super) fn is_beyond(&self, step: u64) -> bool {
        let together = self.servers.as_ref().is_none_or(|servers| servers.is_synchronous());
        together && step == self.goal.steps
    }

    /// Samples of `step` of `model`, which has done it.
    pub(super) fn take_samples(&mut self, model: u32, step: u64) -> u64 {
        let missing = self.missing(model, step);
        self.smaller.retain(|smaller| smaller.model != model || smaller.step != step);
        self.batch - missing
    }

    /// Samples of a step that all model copies have done.
    fn samples_of_step(&mut self) -> u64 {
        let step = self.steps.completed();
        let full = self.batch * self.barrier.parties() as u64;
        let missing = self.smaller.iter().filter(|smaller| smaller.step == step);
        let missing: u64 = missing.map(|smaller| smaller.missing).sum();
        self.smaller.retain(|smaller| smaller.step != step);
        full - missing
    }
}

impl World<'_> {
    /// A job copy begins to train.
    pub(super) fn start_job(&mut self, clock: &mut Clock, j: JobId) {
        self.begin_recovery(clock, j);
        self.set_going(clock, j);
    }

    /// Its workers read, its devices wait.
    pub(super) fn set_going(&mut self, clock: &mut Clock, j: JobId) {
        for l in self.jobs[j].loaders {
            for s in self.loaders[l].stages {
                for w in self.loaders[l].workers_of(s) {
                    self.make_ready(w);
                }
            }
        }
        let learners = self.jobs[j].learners.number;
        for d in self.jobs[j].devices {
            let device = &mut self.devices[d];
            if device.learner < learners {
                (device.state, device.since) = (State::Idle, clock.now);
            }
        }
        let job = &mut self.jobs[j];
        job.learners.begin_window(clock.now, job.steps.completed());
        for l in self.jobs[j].loaders {
            if let Some(tuner) = &mut self.loaders[l].tuner {
                tuner.start(clock.now);
            }
            if let Some(requests) = &mut self.loaders[l].requests {
                requests.start(clock.now);
                self.ask(clock, l);
            }
        }
        self.begin_collectives(clock, j);
        self.pull_all(clock, j);
        for d in self.jobs[j].devices {
            self.try_start(clock, d);
        }
    }

    /// Device `d` begins the program of its next step if it is between steps and may.
    pub(super) fn try_start(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let between = device.state == State::Idle && device.at == 0 && !device.waits_at_op;
        if between && !job.is_beyond(device.next) && !job.is_held() {
            self.run_program(clock, d);
        }
    }

    /// Whether device `d` may begin its next step as far as other devices are; ends its wait for them.
    pub(super) fn may_begin_step(&mut self, now: Time, d: DeviceId) -> bool {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        let may = job.may_begin(device.next);
        if may && job.window > 1 {
            self.end_gate_wait(now, d);
        }
        may
    }

    /// Device `d` takes a batch, or keeps the one that it has.
    pub(super) fn next_batch(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &mut self.devices[d];
        let job = &self.jobs[device.job];
        let queue = &self.loaders[device.loader].queue;
        if !job.interval.is_fresh(device.next, device.on_batch, queue.level()) {
            return self.begin_on_batch(clock, d);
        }
        device.on_batch = 0;
        self.want_batch(clock, d);
    }

    /// Device `d` begins a step on the batch that it has taken.
    pub(super) fn begin_on_batch(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &mut self.devices[d];
        device.on_batch += 1;
        if device.missing > 0 {
            let (model, step, missing) = (device.model, device.next, device.missing);
            self.jobs[device.job].smaller.push(SmallerBatch { model, step, missing });
        }
        self.end_op(clock, d);
    }

    /// Device `d` computes for so long, but for jitter and faults; a timeline says `name`.
    pub(super) fn compute_for(
        &mut self,
        clock: &mut Clock,
        d: DeviceId,
        mut delay: Delay,
        name: &'static str,
    ) {
        let device = &self.devices[d];
        let job = &self.jobs[device.job];
        if let Some(jitter) = &job.jitter {
            let (owner, entity) = (device.job.number() as u64, device.model as u64);
            let mut generator = self.streams.at(Purpose::Jitter, owner, entity, device.next);
            delay = Delay::once(delay.span.seconds() * jitter.draw(&mut generator));
        }
        let device = &mut self.devices[d];
        if device.pace != 1.0 {
            delay = Delay::once(delay.span.seconds() / device.pace);
        }
        device.state = State::Busy;
        device.since = clock.now;
        match job.threads {
            None if !self.loaders[device.loader].gpus.is_empty() => {
                self.compute_on_gpu(clock, d, delay);
            }
            None => clock.after(delay, Event::Stepped(d)),
            Some(threads) => self.compute_on_cores(clock, d, threads, delay),
        }
        self.trace_device(clock.now, d, name);
    }

    /// Device `d` has done its part of a step.
    pub(super) fn stepped(&mut self, clock: &mut Clock, d: DeviceId) {
        self.leave_cores(clock, d);
        let device = &mut self.devices[d];
        if device.state == State::Off {
            // Its job ended while it was at a step beyond the last one.
            return;
        }
        let job = device.job;
        device.busy += clock.now.since(device.since).seconds();
        self.jobs[job].steps.add_compute(device.since, clock.now);
        (device.state, device.since) = (State::Idle, clock.now);
        if let Some(parallel) = &mut self.jobs[job].parallel {
            parallel.part(d).computed = clock.now;
        }
        self.end_op(clock, d);
    }

    /// All that device `d` and its trainer do for a step is done.
    pub(super) fn end_step(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &mut self.devices[d];
        device.at = 0;
        let (j, step) = (device.job, device.next);
        if self.jobs[j].parallel.is_some() {
            return self.end_part(clock, d);
        }
        self.leave_input(d);
        let device = &mut self.devices[d];
        device.next += 1;
        device.state = State::Idle;
        device.since = clock.now;
        let last_stage = device.stage as usize + 1 == self.jobs[j].stage_times.len();
        let averages = self.jobs[j].averaging.as_ref().is_some_and(|of| of.is_due(step + 1));
        if averages {
            device.state = State::Averaging;
        }
        self.trace_device(clock.now, d, "waiting");
        if self.jobs[j].servers.is_some() {
            self.end_step_by_itself(clock, d, step);
        } else if last_stage && self.jobs[j].barrier.arrive(step) {
            self.complete_step(clock, j, d);
        } else {
            self.try_start(clock, d);
        }
        if averages {
            self.average(clock, d);
        }
    }

    /// Device `d`, which exchanges with servers, has computed `step`; what it pushes after that may still be on its way.
    fn end_step_by_itself(&mut self, clock: &mut Clock, d: DeviceId, step: u64) {
        let Device { job, model, .. } = self.devices[d];
        let servers = self.jobs[job].servers.as_ref();
        let pushes = servers.is_some_and(|servers| servers.pieces.exchanges(step));
        if pushes || !self.end_own_step(clock, job, model, step) {
            self.try_start(clock, d);
        }
    }

    /// Device `last` was the last to finish the step.
    fn complete_step(&mut self, clock: &mut Clock, j: JobId, last: DeviceId) {
        let job = &self.jobs[j];
        let done = job.steps.completed() + 1;
        if job.meets_after(done) {
            self.blame_peers(clock.now, j, last);
        }
        let over = self.jobs[j].averaging.is_some() || !done.is_multiple_of(self.jobs[j].period);
        if over || !self.awaits_gradients(clock, j) {
            self.end_of_step(clock, j);
        }
    }

    /// All devices have done the step, and have the same model again.
    pub(super) fn end_of_step(&mut self, clock: &mut Clock, j: JobId) {
        let job = &mut self.jobs[j];
        let samples = job.samples_of_step();
        let fresh = job.fresh_ahead.remove(&job.steps.completed()).unwrap_or_default();
        job.steps.add_fresh(fresh);
        self.record_samples(clock.now, j, samples);
        if self.jobs[j].is_in_step() {
            // All is told of what came before.
            for d in self.jobs[j].devices {
                self.devices[d].since = clock.now;
            }
        }
        if self.ends(clock, j) {
            return;
        }
        let job = &self.jobs[j];
        if job.learners.is_due(job.steps.completed()) {
            self.look_at_throughput(clock.now, j);
        }
        let job = &mut self.jobs[j];
        let saves = job.recovery.is_some() && job.has_state();
        if saves && self.begins_checkpoint(clock, j) {
            return;
        }
        self.next_step(clock, j);
    }

    /// Job copy `j` has done a step; true if it is over by that.
    pub(super) fn ends(&mut self, clock: &mut Clock, j: JobId) -> bool {
        let job = &self.jobs[j];
        let over = job.steps.completed() == job.goal.steps || job.steps.fresh() >= job.goal.fresh;
        if over {
            self.finish_job(clock.now, j);
            if !self.waiting.is_empty() {
                self.release_jobs(clock);
            }
        }
        over
    }

    /// All devices of job copy `j` go on to the next step as soon as they can.
    pub(super) fn next_step(&mut self, clock: &mut Clock, j: JobId) {
        let in_step = self.jobs[j].is_in_step();
        self.begin_collectives(clock, j);
        for d in self.jobs[j].devices {
            if in_step {
                self.devices[d].since = clock.now;
            }
            self.try_start(clock, d);
        }
    }

    /// Job copy `j` has done a step on so many samples.
    pub(super) fn record_samples(&mut self, now: Time, j: JobId, samples: u64) {
        let job = &mut self.jobs[j];
        let mut queue = QueueTotals::default();
        for loader in &mut self.loaders[job.loaders] {
            queue += QueueTotals { started: loader.started, ..loader.queue.totals(now) };
        }
        job.steps.complete(now, samples, queue);
    }

    fn finish_job(&mut self, now: Time, j: JobId) {
        self.jobs[j].finished = true;
        self.unfinished -= 1;
        for l in self.jobs[j].loaders {
            let loader = &mut self.loaders[l];
            loader.quota = loader.started;
        }
        self.close_open(j);
        for d in self.jobs[j].devices {
            let device = &mut self.devices[d];
            if device.state == State::Starving {
                let loader = &mut self.loaders[device.loader];
                loader.waiters.retain(|waiter| *waiter != d);
                loader.queue.end_wait(now);
            }
            if device.state == State::Busy {
                device.busy += now.since(device.since).seconds();
            }
            let idle = device.learner >= self.jobs[j].learners.number;
            device.state = State::Off;
            if !idle {
                self.trace_device(now, d, "done");
            }
        }
    }
}
