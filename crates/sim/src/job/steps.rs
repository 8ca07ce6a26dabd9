//! Steps: when a device begins a step, and when all devices have done it. What a device does in between is its `program`.
//!
//! A model copy is a chain of one or more devices (pipeline stages). Model copies that train together (`Tally::Together`) begin
//! step `s` once step `s − window` is complete everywhere, where the window is the number of stages if they overlap and 1 if not.

use forebay_report::QueueTotals;

use super::jobs::Jobs;
use crate::device::State;
use crate::env::{Delay, Env, Event};
use crate::ids::{DeviceId, JobId};

impl Jobs {
    /// Begins the training of job copy `j`.
    pub(super) fn start_job(&mut self, env: &mut Env, j: JobId) {
        self.begin_recovery(env, j);
        self.set_going(env, j);
    }

    /// Starts the workers and devices of job copy `j`, at the beginning of training or after a restart.
    pub(super) fn set_going(&mut self, env: &mut Env, j: JobId) {
        for l in self.jobs[j].parts.loaders {
            self.loaders.wake_all(l);
        }
        let learners = self.jobs[j].learners.number();
        for d in self.jobs[j].parts.devices {
            let device = &mut self.devices[d];
            if device.learner < learners {
                device.account.start(env.now);
            }
        }
        let job = &mut self.jobs[j];
        job.learners.begin_window(env.now, job.steps.completed());
        if let Some(sampled) = &mut job.sampled {
            sampled.begin_step(env.now);
        }
        for c in self.jobs[j].parts.communicators {
            self.communicators.begin_step(env.now, c);
        }
        for l in self.jobs[j].parts.loaders {
            self.loaders.start(env, l);
        }
        self.pull_all(env, j);
        for d in self.jobs[j].parts.devices {
            self.try_start(env, d);
        }
    }

    /// Lets device `d` begin the program of its next step if the device is between steps and may begin, given how far other
    /// devices are.
    #[inline]
    pub(super) fn try_start(&mut self, env: &mut Env, d: DeviceId) {
        let device = &self.devices[d];
        if device.account.state() != State::Idle || device.op.at() > 0 {
            return;
        }
        let job = &self.jobs[device.job];
        let may = job.may_begin(device.step()) && !job.is_beyond(device.step());
        if may && !self.recoveries.is_saving(job.parts.checkpoints) {
            self.run_program(env, d);
        }
    }

    /// Lets device `d`, which may begin its next step, take its next batch, or keep its present batch for one more step.
    pub(super) fn next_batch(&mut self, env: &mut Env, d: DeviceId) {
        self.settle(d, env.now);
        let device = &mut self.devices[d];
        if device.input.has_host() {
            return self.next_of_host(env, d);
        }
        let job = &self.jobs[device.job];
        let (level, steps) = (self.loaders.level(device.loader), device.input.on_batch());
        if !job.plan.batches.interval.is_fresh(device.step(), steps, level) {
            return self.begin_on_batch(env, d);
        }
        self.want_batch(env, d);
    }

    /// Begins a step of device `d` on the batch that it has taken.
    pub(super) fn begin_on_batch(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        device.input.count_step();
        let (model, step, missing) = (device.model, device.step(), device.input.missing());
        if missing > 0 {
            self.jobs[device.job].add_smaller(model, step, missing);
        }
        self.end_op(env, d);
    }

    /// Begins a computation of device `d` that takes `delay` without faults; the timeline calls it `name`. `kernels` says whether
    /// it runs kernels of the model, which may share the GPU with others.
    pub(super) fn compute_for(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        (mut delay, kernels): (Delay, bool),
        name: &'static str,
    ) {
        let device = &mut self.devices[d];
        delay = delay.at_pace(device.pace());
        device.account.begin(env.now, State::Busy);
        match self.jobs[device.job].plan.threads {
            None if kernels && !self.loaders[device.loader].gpus.shared.is_empty() => {
                self.compute_on_gpu(env, d, delay);
            }
            None => env.after(delay, Event::Stepped(d)),
            Some(threads) => self.devices.begin_threads(env, d, threads, delay),
        }
        self.devices.trace(env, d, name);
    }

    /// Begins an update of device `d` that takes `seconds` without faults.
    pub(super) fn update_for(&mut self, env: &mut Env, d: DeviceId, seconds: f64) {
        let device = &mut self.devices[d];
        device.account.begin(env.now, State::Updating);
        env.after(Delay::once(seconds).at_pace(device.pace()), Event::Stepped(d));
        self.devices.trace(env, d, "compute");
    }

    /// Ends the computation or the update of device `d`.
    pub(crate) fn end_work(&mut self, env: &mut Env, d: DeviceId) {
        let updates = self.devices[d].account.state() == State::Updating;
        if !updates && self.trains_on_cores(d) && !self.devices.end_threads(env, d) {
            return;
        }
        if self.devices[d].account.state() == State::Off {
            // The device's job ended while the device computed a step beyond the last one.
            return;
        }
        self.charge_step(d, env.now);
        let device = &mut self.devices[d];
        device.account.begin(env.now, State::Idle);
        device.note_work(env.now);
        self.end_op(env, d);
    }

    /// Lets device `d` leave its step for the next one; returns the step.
    fn leave_step(&mut self, env: &mut Env, d: DeviceId) -> u64 {
        self.leave_input(d);
        self.devices[d].leave_step(env.now)
    }

    /// Lets device `d` go on to its next step. The step that it leaves counts as done once the parameter servers have added its
    /// gradients.
    pub(super) fn go_on(&mut self, env: &mut Env, d: DeviceId) {
        self.leave_step(env, d);
        self.devices.trace(env, d, "waiting");
        self.try_start(env, d);
    }

    /// Ends the step of device `d`: device and trainer have finished.
    pub(super) fn end_step(&mut self, env: &mut Env, d: DeviceId) {
        let step = self.leave_step(env, d);
        let device = &mut self.devices[d];
        let (j, model) = (device.job, device.model);
        self.devices.trace(env, d, "waiting");
        if self.end_of_device(env, d, step) {
            self.complete_step(env, j, d);
        } else if !self.jobs[j].trains_apart() || !self.end_own_step(env, j, model, step) {
            self.try_start(env, d);
        }
    }

    /// Counts the step of device `d`, which has finished it and stays in it.
    pub(super) fn count_step(&mut self, env: &mut Env, d: DeviceId) {
        self.leave_input(d);
        let device = &mut self.devices[d];
        device.account.begin(env.now, State::Idle);
        let (j, step) = (device.job, device.step());
        if self.end_of_device(env, d, step) {
            self.complete_step(env, j, d);
        }
    }

    /// Ends a step of job copy `j`, which all devices have finished, device `last` as the last one: records the step, and then ends
    /// the job, begins a checkpoint or goes on to the next step.
    pub(super) fn complete_step(&mut self, env: &mut Env, j: JobId, last: DeviceId) {
        let job = &self.jobs[j];
        if job.meets_after(job.steps.completed() + 1) {
            self.charge_ends(env, j, last);
        }
        let samples = self.jobs[j].close_step();
        self.record_samples(env, j, samples);
        if self.finish_if_over(env, j) {
            return;
        }
        let job = &self.jobs[j];
        if job.learners.is_due(job.steps.completed()) {
            self.look_at_throughput(env, j);
        }
        self.resume_learners(env, j);
        if self.save_if_due(env, j) || self.halt(env, j) {
            return;
        }
        self.next_step(env, j);
    }

    /// Ends job copy `j` if it has reached its goal; returns true if so.
    pub(super) fn finish_if_over(&mut self, env: &mut Env, j: JobId) -> bool {
        let over = self.jobs[j].has_reached_goal();
        if over {
            self.finish_job(env, j);
            self.workflow.release(env, &self.jobs);
        }
        over
    }

    /// Lets all devices of job copy `j` begin the next step, each as soon as it may.
    pub(super) fn next_step(&mut self, env: &mut Env, j: JobId) {
        for d in self.jobs[j].parts.devices {
            self.try_start(env, d);
        }
    }

    /// Records a complete step of job copy `j` on `samples` samples.
    pub(super) fn record_samples(&mut self, env: &Env, j: JobId, samples: u64) {
        let now = env.now;
        let job = &mut self.jobs[j];
        let mut queue = QueueTotals::default();
        for l in job.parts.loaders {
            queue += self.loaders.totals(now, l);
        }
        job.steps.complete(now, samples, queue, env.calendar.past() + env.flows + env.before);
    }

    fn finish_job(&mut self, env: &mut Env, j: JobId) {
        self.jobs[j].finish();
        self.workflow.count_finished(&self.jobs[j]);
        for l in self.jobs[j].parts.loaders {
            self.loaders.finish(l);
        }
        self.close_open(j);
        for d in self.jobs[j].parts.devices {
            self.stop_waiting(env, d);
            let device = &mut self.devices[d];
            let idle = device.learner >= self.jobs[j].learners.number();
            device.account.stop(env.now);
            if !idle {
                self.devices.trace(env, d, "done");
            }
        }
    }
}
