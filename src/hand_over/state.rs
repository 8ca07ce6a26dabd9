//! What the threads of a job copy share: stages, the queue, devices; all under one lock.
//!
//! The hand-over rules are those of the simulated world (`sim::stages`). Whoever makes something
//! possible does it, under the lock and with one time stamp, on behalf of the thread that waits for
//! it: who takes from a buffer puts in what a blocked worker holds, who puts gives an idle worker
//! its input and a starving device its batch. A thread is woken only when it has something to do.

use super::training::Training;
use crate::account::{Activity, HandOver, NOBODY, Queue, Recorder, Requests, Timeline, Tuner};
use crate::engine::{Span, Time};
use crate::report::Cause;
use std::collections::VecDeque;

/// What the threads of a job copy share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) stages: Vec<HandOver<Item>>,
    pub(crate) workers: Vec<WorkerRun>,
    pub(crate) queue: Queue,
    pub(crate) training: Training,
    /// What the loader was asked for, if it makes batches on request.
    pub(crate) requests: Option<Requests>,
    /// How many workers of a stage work at once, if that is tuned.
    pub(crate) tuner: Option<Tuner>,
    /// Samples that the reading may take in all.
    pub(crate) quota: u64,
    pub(crate) started: u64,
    pub(crate) in_progress: u64,
    /// Time that workers were reading.
    pub(crate) reading: Span,
    /// When the job began.
    pub(crate) began: Time,
    /// Workers that may look for input.
    pub(super) runnable: VecDeque<u32>,
    /// Threads to wake once the lock is free: workers, then devices behind them.
    pub(super) wakes: Vec<u32>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) level_track: Option<u32>,
    /// When the job was over; nothing changes after that.
    pub(crate) ended: Option<Time>,
    /// Why it ended early.
    pub(crate) failure: Option<String>,
}

/// A worker, as the others see it.
#[derive(Debug, Default)]
pub(crate) struct WorkerRun {
    pub(crate) stage: usize,
    pub(crate) item: Item,
    /// Since when it works on its item.
    pub(crate) since: Time,
    /// Whether it has an item to work on.
    pub(crate) working: bool,
    /// Whether its thread sleeps.
    pub(crate) parked: bool,
    pub(crate) timeline: Timeline,
    pub(crate) track: Option<u32>,
}

/// What a stage hands on.
#[derive(Debug, Default)]
pub(crate) struct Item {
    /// Position of its first sample in the job copy's reading.
    pub(crate) first: u64,
    pub(crate) samples: u64,
    /// Bytes as stored.
    pub(crate) bytes: u64,
    /// Its place in the order of inputs of its stage.
    pub(crate) sequence: u64,
    /// When its worker is there.
    pub(crate) ready: Time,
    /// Who made it.
    pub(crate) worker: u32,
    /// Its samples as stored, where a later stage decodes them.
    pub(crate) stored: Vec<Vec<u8>>,
}

impl State {
    /// Before the start, with a last buffer that holds nothing.
    pub(crate) fn new(
        stages: Vec<HandOver<Item>>,
        workers: Vec<WorkerRun>,
        training: Training,
        quota: u64,
    ) -> State {
        State {
            stages,
            workers,
            queue: Queue::new(1, 1, false, 0, Time::ZERO),
            training,
            requests: None,
            tuner: None,
            quota,
            started: 0,
            in_progress: 0,
            reading: Span::ZERO,
            began: Time::ZERO,
            runnable: VecDeque::new(),
            wakes: Vec::new(),
            recorder: None,
            level_track: None,
            ended: None,
            failure: None,
        }
    }

    /// All workers look for input: the job begins.
    pub(crate) fn start(&mut self, now: Time) {
        self.began = now;
        self.runnable.extend(0..self.workers.len() as u32);
        if let Some(tuner) = &mut self.tuner {
            tuner.start(now);
        }
        if let Some(requests) = &mut self.requests {
            requests.start(now);
            self.ask(now);
        }
        self.start_training(now);
        self.settle(now);
    }

    /// Worker `w` has done with `item` what its stage does, as `log` says.
    pub(crate) fn finish(&mut self, now: Time, w: u32, item: Item, log: &[(Time, Activity)]) {
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
    pub(crate) fn settle(&mut self, now: Time) {
        while let Some(w) = self.runnable.pop_front() {
            self.take_input(now, w);
        }
    }

    /// Gives worker `w` its next input, if there is one.
    fn take_input(&mut self, now: Time, w: u32) {
        let s = self.workers[w as usize].stage;
        if !self.may_work(now, w) {
            return;
        }
        let requested = self.requests.is_some();
        let item = match s {
            0 if requested => self.next_request(w),
            0 => self.next_samples(),
            _ => self.gather(now, w, s),
        };
        self.tuned_input(now, w, item.is_some());
        let Some(mut item) = item else {
            self.note(now, w, Activity::Idle(NOBODY));
            self.stages[s].idle.push_back(w);
            if self.stages.len() == 1 || (requested && s == 0) {
                // Nothing (more) to read: what this worker could deliver is not known from now on.
                self.queue.set_blocked(now, true);
            }
            return;
        };
        if !requested {
            item.sequence = self.stages[s].take_input();
        }
        let worker = &mut self.workers[w as usize];
        (worker.item, worker.since, worker.working) = (item, now, true);
        if worker.parked {
            worker.parked = false;
            self.wakes.push(w);
        }
        // What the stage does overwrites this; what is left is the cost of handing over.
        self.note(now, w, Activity::Doing(Cause::Decode));
    }

    fn next_samples(&mut self) -> Option<Item> {
        let samples = u64::from(self.stages[0].samples()).min(self.quota - self.started);
        if samples == 0 {
            return None;
        }
        let first = self.started;
        self.started += samples;
        self.in_progress += samples;
        Some(Item { first, samples, ..Item::default() })
    }

    /// Takes what one item of stage `s` needs from the buffer before it.
    fn gather(&mut self, now: Time, w: u32, s: usize) -> Option<Item> {
        let takes = self.stages[s].takes();
        let item = self.stages[s - 1].gather(takes, |item, part| {
            item.samples += part.samples;
            item.bytes += part.bytes;
            item.worker = part.worker;
            item.stored.extend(part.stored);
        })?;
        self.link(w, item.worker);
        self.unblock(now, s - 1, w);
        Some(item)
    }

    fn finish_item(&mut self, now: Time, w: u32) {
        let worker = &self.workers[w as usize];
        let (s, sequence) = (worker.stage, worker.item.sequence);
        let stage = &mut self.stages[s];
        if !stage.is_turn(sequence) {
            stage.hold(sequence, w);
            self.note(now, w, Activity::Doing(Cause::Order));
        } else if self.has_room(s) {
            self.put(now, s, w);
            self.release_held(now, s);
        } else {
            self.block(now, s, w);
        }
    }

    fn is_last(&self, s: usize) -> bool {
        s + 1 == self.stages.len()
    }

    fn has_room(&self, s: usize) -> bool {
        let stage = &self.stages[s];
        if self.is_last(s) { self.queue.has_room(stage.samples().into()) } else { stage.has_room() }
    }

    fn block(&mut self, now: Time, s: usize, w: u32) {
        self.note(now, w, Activity::Blocked(NOBODY));
        self.stages[s].blocked.push_back(w);
        if self.is_last(s) {
            self.queue.set_blocked(now, true);
        }
    }

    /// Puts the item of worker `w` into the buffer, which has room; the worker may go on.
    fn put(&mut self, now: Time, s: usize, w: u32) {
        let item = Item { worker: w, ..std::mem::take(&mut self.workers[w as usize].item) };
        let last = self.is_last(s);
        let stage = &mut self.stages[s];
        stage.pass();
        if last {
            self.deliver(now, w, &item);
        } else {
            let last = stage.put(item);
            self.feed(s + 1, w);
            while last && self.feed(s + 1, w) {}
        }
        self.runnable.push_back(w);
    }

    /// Lets an idle worker of stage `s` look for input, which worker `by` has made; false if there is none.
    fn feed(&mut self, s: usize, by: u32) -> bool {
        if self.stages[s - 1].ready() < self.stages[s].takes() {
            return false;
        }
        let Some(w) = self.stages[s].idle.pop_front() else { return false };
        self.link(w, by);
        self.runnable.push_back(w);
        true
    }

    /// There is room again behind stage `s`, made by worker `by`.
    pub(crate) fn unblock(&mut self, now: Time, s: usize, by: u32) {
        while !self.stages[s].blocked.is_empty() && self.has_room(s) {
            let Some(w) = self.stages[s].blocked.pop_front() else { return };
            if self.is_last(s) {
                self.queue.set_blocked(now, false);
            }
            self.link(w, by);
            self.put(now, s, w);
            self.release_held(now, s);
        }
    }

    /// Puts finished items whose turn has come.
    fn release_held(&mut self, now: Time, s: usize) {
        loop {
            let Some(w) = self.stages[s].release() else { return };
            if !self.has_room(s) {
                self.block(now, s, w);
                return;
            }
            self.put(now, s, w);
        }
    }

    /// From `start` on worker `w` does `activity`.
    #[inline]
    pub(super) fn note(&mut self, start: Time, w: u32, activity: Activity) {
        let worker = &mut self.workers[w as usize];
        if self.training.waiters.is_empty() {
            worker.timeline.clear();
        }
        worker.timeline.push(start, activity);
        if let (Some(recorder), Some(track)) = (&mut self.recorder, worker.track) {
            recorder.begin(track, start, activity.name());
        }
    }

    /// What ended the idleness or blocking of worker `w`.
    fn link(&mut self, w: u32, by: u32) {
        self.workers[w as usize].timeline.link(by);
    }
}
