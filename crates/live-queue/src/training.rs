//! Devices and steps: model copies, the barrier between them, batch intervals; the rules of the
//! simulated world (`sim::trainer`) without pipelines.

use super::state::State;
use forebay_engine::Time;
use forebay_metrics::{Segment, Steps};
use forebay_report::{Cause, QueueTotals, StallCause};
use forebay_scenario::{BatchInterval, Goal};

/// The model copies of a job copy and what they have done.
#[derive(Debug)]
pub struct Training {
    /// Steps for each batch.
    pub interval: BatchInterval,
    /// When the job is over.
    pub goal: Goal,
    /// One for each model copy.
    pub devices: Vec<Device>,
    /// Steps that all of them have done.
    pub steps: Steps,
    /// Devices that have done the step in progress.
    arrived: usize,
    /// Scratch space for causes.
    pub(super) segments: Vec<Segment>,
}

/// An accelerator with one model copy.
#[derive(Debug, Default)]
pub struct Device {
    /// The loader that feeds it.
    pub(super) loader: usize,
    /// The step that it is at.
    pub step: u64,
    /// Since when it does what it does.
    pub since: Time,
    /// Whether its thread is to carry out a step.
    pub go: bool,
    /// Whether its thread sleeps until it is woken.
    pub parked: bool,
    /// Until when it sleeps before it looks for a batch, if it does.
    pub(super) asleep: Option<Time>,
    /// Whether it still computes what was given to it, although it waits for more.
    busy: bool,
    /// Samples of the batch at hand, and steps on it.
    pub samples: u64,
    on_batch: u64,
    /// Its waits in the step in progress.
    pub(super) waits: Vec<Segment>,
    /// Its track of the trace.
    pub track: Option<u32>,
}

/// A step that a device is to carry out.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Number of the step, from 0.
    pub number: u64,
    /// Since when its batch is there.
    pub since: Time,
    /// Samples in the batch.
    pub samples: u64,
    /// Whether the batch is another one than in the step before.
    pub fresh: bool,
}

impl Device {
    /// The step that it is to carry out, once.
    pub fn next_step(&mut self) -> Option<Step> {
        let Device { step: number, since, samples, .. } = *self;
        let fresh = self.on_batch == 1;
        std::mem::take(&mut self.go).then_some(Step { number, since, samples, fresh })
    }
}

impl Training {
    /// Without devices.
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

    /// Adds so many devices, fed by `loader`.
    pub(super) fn add_devices(&mut self, loader: usize, number: u32) {
        let device = |_| Device { loader, ..Device::default() };
        self.devices.extend((0..number).map(device));
    }

    fn is_complete(&self) -> bool {
        self.steps.completed() >= self.goal.steps || self.steps.fresh() >= self.goal.fresh
    }
}

impl State {
    /// All devices begin their first step.
    pub fn start_training(&mut self, now: Time) {
        for d in 0..self.training.devices.len() as u32 {
            self.begin_step(now, d);
        }
    }

    /// Device `d` begins its next step.
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

    /// Device `d` has done its part of a step, except for `waits` while it was at it, in order.
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

    /// Device `d` has been given its step, and may be given the next one before it has ended.
    pub fn given(&mut self, now: Time, d: u32) {
        self.training.devices[d as usize].busy = true;
        self.stepped(now, d, &[]);
    }

    /// Device `d`, which waits for its next step, has had nothing to do since `end`.
    pub fn ran_dry(&mut self, now: Time, d: u32, end: Time) {
        if self.training.devices[d as usize].busy {
            self.catch_up(end.min(now), d);
            self.training.devices[d as usize].busy = false;
            self.trace_device(now, d, "starving");
        }
    }

    /// Up to `until` a device that waits has computed, if it is busy.
    pub(super) fn catch_up(&mut self, until: Time, d: u32) {
        let training = &mut self.training;
        let device = &mut training.devices[d as usize];
        if device.busy && until > device.since {
            training.steps.add_compute(device.since, until);
            device.since = until;
        }
    }

    /// Device `last` was the last to finish the step.
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

    /// Everyone who was done earlier waited for `last`: for what it waited, or its computation.
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

    /// The job is over.
    pub fn end(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(now);
        for loader in &mut self.loaders {
            loader.waiters.drain(..).for_each(|_| loader.queue.end_wait(now));
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
