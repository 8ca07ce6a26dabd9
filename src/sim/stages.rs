//! Hand-over between stages: input, order, room.

use crate::account::{Activity, HandOver, NOBODY};
use crate::engine::Time;
use crate::report::Cause;

use super::event::Clock;
use super::workers::{Cores, Item, Phase, Worker};
use super::world::World;

/// A stage of one loader: its workers' common state and the buffer behind it.
///
/// What every sample needs comes first and shares a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct StageRun {
    pub(super) loader: u32,
    /// The first of its operations among the world's: those on each sample of an item, then those
    /// on the item as a whole.
    pub(super) first_operation: u32,
    /// How many there are.
    pub(super) operations: u32,
    /// How many of them are on each sample.
    pub(super) per_sample: u32,
    pub(super) cores: Cores,
    /// The stage before; the first one reads.
    pub(super) previous: Option<u32>,
    /// The stage behind; the last one fills the loader's queue.
    pub(super) next: Option<u32>,
    pub(super) hand_over: HandOver<Item>,
}

impl World<'_> {
    /// Gives worker `w` its next input; false if there is none.
    pub(super) fn take_input(&mut self, clock: &mut Clock, w: u32) -> bool {
        let Worker { stage: s, loader: l, .. } = self.workers[w as usize];
        let loader = &self.loaders[l as usize];
        if loader.rests && (!self.may_work(clock.now, w) || self.finds_enough(clock, w)) {
            return false;
        }
        let item = match self.stages[s as usize].previous {
            None if self.loaders[l as usize].requests.is_some() => {
                return self.take_request(clock, w);
            }
            None => self.next_samples(s),
            Some(previous) => self.gather(clock, w, s, previous),
        };
        let loader = &self.loaders[l as usize];
        if loader.rests {
            self.tuned_input(clock.now, w, item.is_some());
        }
        let Some(mut item) = item else {
            self.note(clock.now, w, Activity::Idle(NOBODY)).phase = Phase::Idle;
            let stage = &mut self.stages[s as usize];
            stage.hand_over.idle.push_back(w);
            if stage.previous.is_none() && stage.next.is_none() {
                // Nothing more to read: what this worker could deliver is not known from now on.
                self.loaders[stage.loader as usize].queue.set_blocked(clock.now, true);
            }
            return false;
        };
        let stage = &mut self.stages[s as usize];
        if self.loaders[stage.loader as usize].requests.is_none() {
            item.sequence = stage.hand_over.take_input();
        }
        self.begin_item(w, item);
        true
    }

    /// The next samples of the reading, unless the job needs no more.
    fn next_samples(&mut self, s: u32) -> Option<Item> {
        let stage = &self.stages[s as usize];
        let loader = &mut self.loaders[stage.loader as usize];
        let samples = u64::from(stage.hand_over.samples()).min(loader.quota - loader.started);
        if samples == 0 {
            return None;
        }
        let first = loader.started;
        loader.started += samples;
        loader.in_progress += samples;
        Some(Item { first, samples: samples as u32, ..Item::default() })
    }

    /// Takes what one item needs from the buffer of stage `previous`.
    fn gather(&mut self, clock: &mut Clock, w: u32, s: u32, previous: u32) -> Option<Item> {
        let Self { stages, loaders, workers, .. } = self;
        let takes = stages[s as usize].hand_over.takes();
        let loader = &mut loaders[workers[w as usize].loader as usize];
        let before = &mut stages[previous as usize].hand_over;
        if let (Some(lineage), true) = (&mut loader.lineage, loader.followed && takes > 1) {
            lineage.gather(before.first(takes).map(|item| (item.first, item.samples)));
        }
        let item = before.gather(takes, |item, part| {
            item.samples += part.samples;
            item.bytes += part.bytes;
            item.worker = part.worker;
        })?;
        self.link(w, item.worker);
        self.unblock(clock, previous, w);
        Some(item)
    }

    /// Worker `w` has finished its item; true if it may take its next input at once.
    pub(super) fn finish_item(&mut self, clock: &mut Clock, w: u32) -> bool {
        let Worker { stage: s, loader: l, item: Item { sequence, .. }, .. } =
            self.workers[w as usize];
        if self.loaders[l as usize].rests {
            self.tune(clock.now, w);
        }
        let stage = &mut self.stages[s as usize];
        let ordered = stage.hand_over.is_ordered();
        if !stage.hand_over.is_turn(sequence) {
            stage.hand_over.hold(sequence, w);
            self.note(clock.now, w, Activity::Doing(Cause::Order)).phase = Phase::Held;
            return false;
        }
        if !self.has_room(s) {
            self.block(clock.now, s, w);
            return false;
        }
        self.put(clock, s, w);
        if ordered {
            self.release_held(clock, s);
        }
        true
    }

    fn has_room(&self, s: u32) -> bool {
        let stage = &self.stages[s as usize];
        match stage.next {
            Some(_) => stage.hand_over.has_room(),
            None => {
                self.loaders[stage.loader as usize].queue.has_room(stage.hand_over.samples().into())
            }
        }
    }

    fn block(&mut self, now: Time, s: u32, w: u32) {
        self.note(now, w, Activity::Blocked(NOBODY)).phase = Phase::Blocked;
        let stage = &mut self.stages[s as usize];
        stage.hand_over.blocked.push_back(w);
        if stage.next.is_none() {
            self.loaders[stage.loader as usize].queue.set_blocked(now, true);
        }
    }

    /// Puts the item of worker `w` into the buffer, which has room; the worker is ready for input.
    fn put(&mut self, clock: &mut Clock, s: u32, w: u32) {
        let worker = &mut self.workers[w as usize];
        worker.phase = Phase::Ready;
        let stage = &mut self.stages[s as usize];
        stage.hand_over.pass();
        match stage.next {
            Some(next) => {
                let last = stage.hand_over.put(Item { worker: w, ..worker.item });
                self.wake(next, w);
                while last && self.wake(next, w) {}
            }
            None => {
                let (loader, item) = (stage.loader, worker.item);
                self.deliver(clock, loader, w, item);
            }
        }
    }

    /// Lets an idle worker of stage `s` look for input, which worker `by` has made; false if there is none.
    fn wake(&mut self, s: u32, by: u32) -> bool {
        let stage = &self.stages[s as usize];
        let ready = stage.previous.map_or(0, |p| self.stages[p as usize].hand_over.ready());
        if ready < stage.hand_over.takes() {
            return false;
        }
        let Some(w) = self.stages[s as usize].hand_over.idle.pop_front() else { return false };
        self.link(w, by);
        self.make_ready(w);
        true
    }

    pub(super) fn make_ready(&mut self, w: u32) {
        self.workers[w as usize].phase = Phase::Ready;
        self.runnable.push_back(w);
    }

    /// There is room again behind stage `s`, made by worker `by`.
    pub(super) fn unblock(&mut self, clock: &mut Clock, s: u32, by: u32) {
        while !self.stages[s as usize].hand_over.blocked.is_empty() && self.has_room(s) {
            let stage = &mut self.stages[s as usize];
            let Some(w) = stage.hand_over.blocked.pop_front() else { return };
            let ordered = stage.hand_over.is_ordered();
            if stage.next.is_none() {
                self.loaders[stage.loader as usize].queue.set_blocked(clock.now, false);
            }
            self.link(w, by);
            self.put(clock, s, w);
            self.runnable.push_back(w);
            if ordered {
                self.release_held(clock, s);
            }
        }
    }

    /// Puts finished items whose turn has come.
    fn release_held(&mut self, clock: &mut Clock, s: u32) {
        loop {
            let Some(w) = self.stages[s as usize].hand_over.release() else { return };
            if !self.has_room(s) {
                self.block(clock.now, s, w);
                return;
            }
            self.put(clock, s, w);
            self.runnable.push_back(w);
        }
    }
}
