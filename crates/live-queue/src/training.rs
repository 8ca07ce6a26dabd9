//! Devices and steps: model copies, the barrier between them and batch intervals, by the rules of the simulation (`sim::trainer`)
//! without pipelines.

use super::content::Buffer;
use super::state::State;
use forebay_engine::Time;
use forebay_metrics::{Segment, Steps};
use forebay_report::{Cause, QueueTotals, StallCause};
use forebay_scenario::{BatchInterval, Goal};

/// The model copies of a job copy, and the steps that they have executed.
#[derive(Debug)]
pub struct Training {
    /// Number of steps with each batch.
    pub interval: BatchInterval,
    /// Condition for the end of the job.
    pub goal: Goal,
    /// Devices, one for each model copy.
    pub devices: Vec<Device>,
    /// Steps that all devices have completed.
    pub steps: Steps,
    /// Number of devices that have finished the current step.
    arrived: usize,
    /// Scratch space for the causes of stalls.
    pub(super) segments: Vec<Segment>,
}

/// An accelerator with one model copy.
#[derive(Debug, Default)]
pub struct Device {
    /// Loader that feeds the device.
    pub(super) loader: usize,
    /// Number of the device's current step.
    pub step: u64,
    /// Start of the device's current activity.
    pub since: Time,
    /// Whether the device's thread is to execute a step.
    pub go: bool,
    /// Whether the device's thread sleeps until it is woken.
    pub parked: bool,
    /// Time until which the device sleeps before it looks for a batch; `None` if the device does not sleep.
    pub(super) asleep: Option<Time>,
    /// Whether the device still computes a submitted step, although its thread waits for the next one.
    busy: bool,
    /// Samples in the current batch, and steps executed with it.
    pub samples: u64,
    on_batch: u64,
    /// Bytes of the current batch that the device's thread has not got yet.
    pub(super) content: Vec<Buffer>,
    /// Waits of the device in the current step.
    pub(super) waits: Vec<Segment>,
    /// The device's track in the trace.
    pub track: Option<u32>,
}

/// A step for a device to execute.
#[derive(Debug)]
pub struct Step {
    /// Number of the step, from 0.
    pub number: u64,
    /// Time since which the step's batch is available.
    pub since: Time,
    /// Samples in the batch.
    pub samples: u64,
    /// Whether the batch differs from that of the previous step.
    pub fresh: bool,
    /// Bytes of the batch, if the device itself copies them to a real GPU; empty otherwise.
    pub content: Vec<Buffer>,
}

impl Device {
    /// Returns whether the device still computes a submitted step, although its thread waits for the next one.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Returns the step that the device is to execute, if there is one; each step is returned once.
    pub fn next_step(&mut self) -> Option<Step> {
        if !std::mem::take(&mut self.go) {
            return None;
        }
        let Device { step: number, since, samples, on_batch, .. } = *self;
        let content = std::mem::take(&mut self.content);
        Some(Step { number, since, samples, fresh: on_batch == 1, content })
    }
}

impl Training {
    /// Returns a training state without devices.
    pub fn new(interval: BatchInterval, goal: Goal) -> Training {
        Training {
            interval,
            goal,
            devices: Vec::new(),
            steps: Steps::new(Time::ZERO),
            arrived: 0,
            segments: Vec::new(),
        }
    }

    /// Adds `number` devices that `loader` feeds.
    pub(super) fn add_devices(&mut self, loader: usize, number: u32) {
        let device = |_| Device { loader, ..Device::default() };
        self.devices.extend((0..number).map(device));
    }

    fn is_complete(&self) -> bool {
        self.steps.completed() >= self.goal.steps || self.steps.fresh() >= self.goal.fresh
    }
}

impl State {
    /// Starts the first step of all devices.
    pub fn start_training(&mut self, now: Time) {
        for d in 0..self.training.devices.len() as u32 {
            self.begin_step(now, d);
        }
    }

    /// Starts the next step of device `d`: it computes, or waits for a fresh batch.
    fn begin_step(&mut self, now: Time, d: u32) {
        let training = &mut self.training;
        let device = &mut training.devices[d as usize];
        device.since = now;
        let level = self.loaders[device.loader].queue.level();
        if !training.interval.is_fresh(device.step, device.on_batch, level) {
            self.compute(now, d);
            return;
        }
        device.on_batch = 0;
        self.want_batch(now, d);
    }

    pub(super) fn compute(&mut self, now: Time, d: u32) {
        let device = &mut self.training.devices[d as usize];
        (device.since, device.go, device.busy) = (now, true, false);
        device.on_batch += 1;
        self.wake_device(d);
        self.trace_device(now, d, "compute");
    }

    /// Reports that device `d` has finished its part of the step; `waits` are the device's waits in this step, in order.
    pub fn stepped(&mut self, now: Time, d: u32, waits: &[Segment]) {
        let training = &mut self.training;
        let device = &mut training.devices[d as usize];
        let mut at = device.since;
        for wait in waits {
            training.steps.add_compute(at, wait.start);
            training.steps.add_stall(*wait);
            at = wait.end;
        }
        training.steps.add_compute(at, now);
        device.since = now;
        device.step += 1;
        training.arrived += 1;
        let last = training.arrived == training.devices.len();
        self.trace_device(now, d, "waiting");
        if last {
            self.complete_step(now, d);
            self.settle(now);
        }
    }

    /// Reports that a step has been submitted to device `d`, which may get the next step before this one has ended.
    pub fn given(&mut self, now: Time, d: u32) {
        self.training.devices[d as usize].busy = true;
        self.stepped(now, d, &[]);
    }

    /// Records that device `d`, whose thread waits for its next step, has been idle since `end`.
    pub fn ran_dry(&mut self, now: Time, d: u32, end: Time) {
        if self.training.devices[d as usize].busy {
            self.catch_up(end.min(now), d);
            let device = &mut self.training.devices[d as usize];
            device.busy = false;
            let loader = &mut self.loaders[device.loader];
            // A device that waits for other devices does not wait for a batch yet.
            if loader.waiters.contains(&d) {
                loader.queue.begin_wait(now);
            }
            self.trace_device(now, d, "starving");
        }
    }

    /// Counts the time until `until` as computation, if device `d` is busy although its thread waits.
    pub(super) fn catch_up(&mut self, until: Time, d: u32) {
        let training = &mut self.training;
        let device = &mut training.devices[d as usize];
        if device.busy && until > device.since {
            training.steps.add_compute(device.since, until);
            device.since = until;
        }
    }

    /// Completes the step, which device `last` was the last to finish.
    fn complete_step(&mut self, now: Time, last: u32) {
        self.blame_peers(now, last);
        self.record_step(now);
        if self.training.is_complete() {
            self.end(now);
            return;
        }
        for d in 0..self.training.devices.len() as u32 {
            self.training.devices[d as usize].waits.clear();
            self.begin_step(now, d);
        }
    }

    /// Records the stalls of all devices that waited for device `last`. Their causes are the causes for which `last` waited, and
    /// the computation of `last` after its last wait.
    fn blame_peers(&mut self, now: Time, last: u32) {
        for d in 0..self.training.devices.len() as u32 {
            self.catch_up(now, d);
        }
        let training = &mut self.training;
        let waits = std::mem::take(&mut training.devices[last as usize].waits);
        let busy = waits.last().map_or(Time::ZERO, |wait| wait.end);
        for d in 0..training.devices.len() {
            let from = training.devices[d].since;
            for wait in &waits {
                let (start, end) = (wait.start.max(from), wait.end.max(from));
                let cause = StallCause::peer(wait.cause.cause);
                training.steps.add_stall(Segment { start, end, cause });
            }
            let cause = StallCause::peer(Cause::Compute);
            training.steps.add_stall(Segment { start: from.max(busy), end: now, cause });
        }
    }

    fn record_step(&mut self, now: Time) {
        let mut queue = QueueTotals::default();
        for loader in &mut self.loaders {
            queue += QueueTotals { started: loader.started, ..loader.queue.totals(now) };
        }
        let training = &mut self.training;
        training.arrived = 0;
        let samples = training.devices.iter().map(|device| device.samples).sum();
        training.steps.complete(now, samples, queue, 0);
    }

    /// Ends the job.
    pub fn end(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(now);
        for loader in &mut self.loaders {
            let idle = |d: &u32| !self.training.devices[*d as usize].busy;
            loader.waiters.drain(..).filter(idle).for_each(|_| loader.queue.end_wait(now));
        }
        self.wakes.extend(0..(self.workers.len() + self.training.devices.len()) as u32);
        for d in 0..self.training.devices.len() as u32 {
            self.trace_device(now, d, "done");
        }
    }

    pub(super) fn trace_device(&mut self, now: Time, d: u32, name: &'static str) {
        let track = self.training.devices[d as usize].track;
        if let (Some(recorder), Some(track)) = (&mut self.recorder, track) {
            recorder.begin(track, now, name);
        }
    }
}
