//! The state that the threads of a job copy share: loaders and devices, under one lock.
//!
//! Items pass from stage to stage by the rules of the simulation (`sim::stages`). The thread that makes a change possible carries
//! out the change for the waiting thread, under the lock and with one time stamp. A thread that takes from a buffer also puts in
//! the item of a blocked worker. A thread that puts into a buffer also gives an idle worker its input and a waiting device its
//! batch. A thread is woken only if it has something to do.

use super::content::Buffer;
use super::loader::{LoaderRun, StageRun};
use super::training::Training;
use forebay_engine::{Span, Time};
use forebay_metrics::{Activity, Pages, Recorder, StageBuffer, Timeline};
use forebay_report::Cause;
use std::collections::VecDeque;

/// The state that the threads of a job copy share.
#[derive(Debug)]
pub struct State {
    /// Loaders of the job copy.
    pub loaders: Vec<LoaderRun>,
    /// Stages of all loaders, in order of loaders and from first to last.
    pub(super) stages: Vec<StageRun>,
    /// Workers of all stages, in order of stages.
    pub workers: Vec<WorkerRun>,
    /// The memory of the workers' timelines.
    pub(super) pages: Pages,
    /// Model copies, and the steps that they have executed.
    pub training: Training,
    /// Time that workers have spent reading.
    pub reading: Span,
    /// Start of the job.
    pub began: Time,
    /// Workers that may look for input.
    pub(super) runnable: VecDeque<u32>,
    /// Threads to wake when the lock is free. Worker `w` has number `w`; device `d` has `d` plus the number of workers.
    pub(super) wakes: Vec<u32>,
    /// Recorder of the trace; `None` if no trace is requested.
    pub recorder: Option<Recorder>,
    /// Time when the job was over; nothing changes after that.
    pub ended: Option<Time>,
    /// Why the job ended early.
    pub failure: Option<String>,
}

/// A worker, as other threads see it.
#[derive(Debug, Default)]
pub struct WorkerRun {
    pub(super) loader: usize,
    pub(super) stage: usize,
    /// Item that the worker works on.
    pub item: Item,
    /// Time since which the worker has had its item.
    pub since: Time,
    /// Whether the worker has an item to work on.
    pub working: bool,
    /// Whether the worker's thread sleeps until it is woken.
    pub parked: bool,
    /// Time until which the worker sleeps before it looks for input; `None` if the worker does not sleep.
    pub(super) asleep: Option<Time>,
    /// Record of the worker's activities.
    pub timeline: Timeline,
    /// The worker's track in the trace.
    pub track: Option<u32>,
}

/// An item that a stage passes on.
#[derive(Debug, Default)]
pub struct Item {
    /// Position of the item's first sample in the loader's order.
    pub first: u64,
    /// Number of samples in the item.
    pub samples: u64,
    /// Stored bytes [B].
    pub bytes: u64,
    /// Sequence number of the item among the inputs of its stage.
    pub sequence: u64,
    /// Time from which the item's worker is ready, after a start or restart.
    pub ready: Time,
    /// Worker that made the item.
    pub worker: u32,
    /// Stored bytes of each sample, if a later stage decodes them.
    pub stored: Vec<Vec<u8>>,
    /// Bytes of the samples in their order, if they are copied to a real GPU; empty otherwise.
    pub content: Vec<Buffer>,
}

impl State {
    /// Returns the state before the start, without loaders.
    pub fn new(training: Training) -> State {
        State {
            loaders: Vec::new(),
            stages: Vec::new(),
            workers: Vec::new(),
            pages: Pages::default(),
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

    /// Adds a loader that reads `quota` samples for `devices` devices. `stages` gives the buffer and the number of workers of
    /// each stage.
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

    /// Returns the number of workers of loader `l` that wait when no more output is wanted. If batches are made on request, these
    /// are the workers of the first stage; otherwise those of the last stage.
    pub fn deliverers(&self, l: usize) -> u64 {
        let LoaderRun { requests, stages, .. } = &self.loaders[l];
        let stage = if requests.is_some() { stages.start } else { stages.end - 1 };
        self.workers.iter().filter(|worker| worker.stage == stage).count() as u64
    }

    /// Starts the job: all workers look for input.
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
        loader.contents.start(loader.queue.level());
        if let Some(tuner) = &mut loader.tuner {
            tuner.start(now);
        }
        if let Some(requests) = &mut loader.requests {
            requests.start(now);
            self.ask(now, l);
        }
        self.begin_epoch(now, l);
    }

    /// Begins the next epoch of loader `l`, if its pipeline is built anew and all batches of the last epoch have been taken.
    pub(super) fn begin_epoch_if_over(&mut self, now: Time, l: usize) {
        let loader = &self.loaders[l];
        let Some(rebuilds) = &loader.rebuilds else { return };
        let taken = loader.in_progress == 0 && !loader.queue.has_batch();
        if rebuilds.left(loader.started) == 0 && taken {
            self.begin_epoch(now, l);
        }
    }

    /// Begins the epoch of the next sample of loader `l`, if its pipeline is built anew: workers of the first stage take samples again.
    fn begin_epoch(&mut self, now: Time, l: usize) {
        let loader = &mut self.loaders[l];
        let Some(rebuilds) = &mut loader.rebuilds else { return };
        let samples = rebuilds.begin(now, loader.started).min(loader.quota - loader.started);
        let ready = rebuilds.ready();
        loader.queue.begin_epoch();
        if let Some(tuner) = &mut loader.tuner {
            tuner.begin_epoch(ready);
        }
        let stages = &mut self.stages[loader.stages.clone()];
        stages.iter_mut().for_each(|stage| stage.buffer.begin_epoch(samples));
        self.runnable.extend(self.stages[loader.stages.start].buffer.idle.drain(..));
    }

    /// Reports that worker `w` has executed its stage on `item`, with the activities in `log`.
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

    /// Lets all workers that may look for input do so at this instant.
    pub fn settle(&mut self, now: Time) {
        while let Some(w) = self.runnable.pop_front() {
            self.take_input(now, w);
        }
    }

    /// Wakes the thread of worker `w` when the lock is free, because the worker has an item or must begin a sleep of known
    /// length.
    pub(super) fn wake_worker(&mut self, w: u32) {
        if std::mem::take(&mut self.workers[w as usize].parked) {
            self.wakes.push(w);
        }
    }

    /// Wakes the thread of device `d` when the lock is free, because the device has a step or must begin a sleep of known length.
    pub(super) fn wake_device(&mut self, d: u32) {
        if std::mem::take(&mut self.training.devices[d as usize].parked) {
            self.wakes.push(self.workers.len() as u32 + d);
        }
    }

    /// Records that worker `w` does `activity` from `start` on.
    #[inline]
    pub(super) fn note(&mut self, start: Time, w: u32, activity: Activity) {
        let worker = &mut self.workers[w as usize];
        if self.loaders[worker.loader].waiters.is_empty() {
            worker.timeline.clear(&mut self.pages);
        }
        worker.timeline.push(&mut self.pages, start, activity);
        if let (Some(recorder), Some(track)) = (&mut self.recorder, worker.track) {
            recorder.begin(track, start, activity.name());
        }
    }

    /// Records in the timeline of worker `w` that worker `by` ended its idleness or blocking.
    pub(super) fn link(&mut self, w: u32, by: u32) {
        self.workers[w as usize].timeline.link(&mut self.pages, by);
    }
}
