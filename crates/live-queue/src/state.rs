//! What the threads of a job copy share: loaders, devices; all under one lock.
//!
//! The hand-over rules are those of the simulated world (`sim::stages`). Whoever makes something
//! possible does it, under the lock and with one time stamp, on behalf of the thread that waits for
//! it: who takes from a buffer puts in what a blocked worker holds, who puts gives an idle worker
//! its input and a starving device its batch. A thread is woken only when it has something to do.

use super::loader::{LoaderRun, StageRun};
use super::training::Training;
use forebay_engine::{Span, Time};
use forebay_metrics::{Activity, Recorder, StageBuffer, Timeline};
use forebay_report::Cause;
use std::collections::VecDeque;

/// What the threads of a job copy share.
#[derive(Debug)]
pub struct State {
    /// Loaders of the job copy.
    pub loaders: Vec<LoaderRun>,
    /// By loader, first to last.
    pub(super) stages: Vec<StageRun>,
    /// By stage.
    pub workers: Vec<WorkerRun>,
    /// Its model copies, and the steps that they have done.
    pub training: Training,
    /// Time that workers were reading.
    pub reading: Span,
    /// When the job began.
    pub began: Time,
    /// Workers that may look for input.
    pub(super) runnable: VecDeque<u32>,
    /// Threads to wake once the lock is free: workers, then devices behind them.
    pub(super) wakes: Vec<u32>,
    /// The trace, if one is recorded.
    pub recorder: Option<Recorder>,
    /// When the job was over; nothing changes after that.
    pub ended: Option<Time>,
    /// Why it ended early.
    pub failure: Option<String>,
}

/// A worker, as the others see it.
#[derive(Debug, Default)]
pub struct WorkerRun {
    pub(super) loader: usize,
    pub(super) stage: usize,
    /// What it works on.
    pub item: Item,
    /// Since when it works on its item.
    pub since: Time,
    /// Whether it has an item to work on.
    pub working: bool,
    /// Whether its thread sleeps until it is woken.
    pub parked: bool,
    /// Until when it sleeps before it looks for input, if it does.
    pub(super) asleep: Option<Time>,
    /// What it did when.
    pub timeline: Timeline,
    /// Its track of the trace.
    pub track: Option<u32>,
}

/// What a stage hands on.
#[derive(Debug, Default)]
pub struct Item {
    /// Position of its first sample in the reading of its loader.
    pub first: u64,
    /// Samples in it.
    pub samples: u64,
    /// Bytes as stored.
    pub bytes: u64,
    /// Its place in the order of inputs of its stage.
    pub sequence: u64,
    /// When its worker is there.
    pub ready: Time,
    /// Who made it.
    pub worker: u32,
    /// Its samples as stored, where a later stage decodes them.
    pub stored: Vec<Vec<u8>>,
}

impl State {
    /// Before the start, without loaders.
    pub fn new(training: Training) -> State {
        State {
            loaders: Vec::new(),
            stages: Vec::new(),
            workers: Vec::new(),
            training,
            reading: Span::ZERO,
            began: Time::ZERO,
            runnable: VecDeque::new(),
            wakes: Vec::new(),
            recorder: None,
            ended: None,
            failure: None,
        }
    }

    /// Adds a loader that reads `quota` samples for so many devices, with so many workers for each of its
    /// stages.
    pub fn add_loader(
        &mut self,
        quota: u64,
        stages: impl IntoIterator<Item = (StageBuffer<Item>, u32)>,
        devices: u32,
    ) -> &mut LoaderRun {
        let (loader, first) = (self.loaders.len(), self.stages.len());
        let first_worker = self.workers.len() as u32;
        for (buffer, workers) in stages {
            let stage = self.stages.len();
            let worker = |_| WorkerRun { loader, stage, ..WorkerRun::default() };
            self.workers.extend((0..workers).map(worker));
            self.stages.push(StageRun { loader, buffer });
        }
        self.training.add_devices(loader, devices);
        let workers = first_worker..self.workers.len() as u32;
        self.loaders.push(LoaderRun::new(quota, first..self.stages.len(), workers));
        &mut self.loaders[loader]
    }

    /// Workers of loader `l` that wait where what they make is not wanted: where batches are made on request,
    /// those who might be asked, otherwise those who put them in.
    pub fn deliverers(&self, l: usize) -> u64 {
        let LoaderRun { requests, stages, .. } = &self.loaders[l];
        let stage = if requests.is_some() { stages.start } else { stages.end - 1 };
        self.workers.iter().filter(|worker| worker.stage == stage).count() as u64
    }

    /// All workers look for input: the job begins.
    pub fn start(&mut self, now: Time) {
        self.began = now;
        self.runnable.extend(0..self.workers.len() as u32);
        for l in 0..self.loaders.len() {
            self.start_loader(now, l);
        }
        self.start_training(now);
        self.settle(now);
    }

    fn start_loader(&mut self, now: Time, l: usize) {
        let loader = &mut self.loaders[l];
        if let Some(tuner) = &mut loader.tuner {
            tuner.start(now);
        }
        if let Some(requests) = &mut loader.requests {
            requests.start(now);
            self.ask(now, l);
        }
    }

    /// Worker `w` has done with `item` what its stage does, as `log` says.
    pub fn finish(&mut self, now: Time, w: u32, item: Item, log: &[(Time, Activity)]) {
        let ends = log.iter().skip(1).map(|(start, _)| *start).chain([now]);
        for (&(start, activity), end) in log.iter().zip(ends) {
            self.note(start, w, activity);
            if let Activity::Doing(Cause::Open | Cause::Transfer) = activity {
                self.reading += end.since(start);
            }
        }
        let worker = &mut self.workers[w as usize];
        (worker.item, worker.working) = (item, false);
        self.tune(now, w);
        self.finish_item(now, w);
        self.settle(now);
    }

    /// Lets everyone act who can at this instant.
    pub fn settle(&mut self, now: Time) {
        while let Some(w) = self.runnable.pop_front() {
            self.take_input(now, w);
        }
    }

    /// The thread of worker `w` has something to do, or to sleep for.
    pub(super) fn wake_worker(&mut self, w: u32) {
        if std::mem::take(&mut self.workers[w as usize].parked) {
            self.wakes.push(w);
        }
    }

    /// The same of device `d`.
    pub(super) fn wake_device(&mut self, d: u32) {
        if std::mem::take(&mut self.training.devices[d as usize].parked) {
            self.wakes.push(self.workers.len() as u32 + d);
        }
    }

    /// From `start` on worker `w` does `activity`.
    #[inline]
    pub(super) fn note(&mut self, start: Time, w: u32, activity: Activity) {
        let worker = &mut self.workers[w as usize];
        if self.loaders[worker.loader].waiters.is_empty() {
            worker.timeline.clear();
        }
        worker.timeline.push(start, activity);
        if let (Some(recorder), Some(track)) = (&mut self.recorder, worker.track) {
            recorder.begin(track, start, activity.name());
        }
    }

    /// What ended the idleness or blocking of worker `w`.
    pub(super) fn link(&mut self, w: u32, by: u32) {
        self.workers[w as usize].timeline.link(by);
    }
}
