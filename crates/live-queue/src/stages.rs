//! Hand-over between stages: input, order, room.

use super::loader::LoaderRun;
use super::state::{Item, State, WorkerRun};
use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY};
use forebay_report::Cause;

impl State {
    /// Gives worker `w` its next input, if there is one.
    pub(super) fn take_input(&mut self, now: Time, w: u32) {
        if !self.may_work(now, w) || self.finds_enough(now, w) {
            return;
        }
        let item = self.next_input(now, w);
        self.tuned_input(now, w, item.is_some());
        match item {
            Some(item) => self.begin_item(now, w, item),
            None => self.idle(now, w),
        }
    }

    fn next_input(&mut self, now: Time, w: u32) -> Option<Item> {
        let WorkerRun { loader, stage, .. } = self.workers[w as usize];
        let samples = u64::from(self.stages[stage].buffer.samples());
        let loader = &mut self.loaders[loader];
        let (reads, requested) = (stage == loader.stages.start, loader.requests.is_some());
        let item = match (reads, requested) {
            (true, true) => loader.next_request(w),
            (true, false) => loader.next_samples(samples),
            (false, _) => self.gather(now, w, stage),
        }?;
        if requested {
            // Its number among the requests is its place.
            return Some(item);
        }
        let sequence = self.stages[stage].buffer.take_input();
        Some(Item { sequence, ..item })
    }

    /// Takes what one item of stage `s` needs from the buffer before it.
    fn gather(&mut self, now: Time, w: u32, s: usize) -> Option<Item> {
        let takes = self.stages[s].buffer.takes();
        let item = self.stages[s - 1].buffer.gather(takes, |item, part| {
            item.samples += part.samples;
            item.bytes += part.bytes;
            item.worker = part.worker;
            item.stored.extend(part.stored);
        })?;
        self.link(w, item.worker);
        self.unblock(now, s - 1, w);
        Some(item)
    }

    fn begin_item(&mut self, now: Time, w: u32, item: Item) {
        let worker = &mut self.workers[w as usize];
        (worker.item, worker.since, worker.working) = (item, now, true);
        self.wake_worker(w);
        // What the stage does overwrites this; what is left is the cost of handing over.
        self.note(now, w, Activity::Doing(Cause::Decode));
    }

    /// Worker `w` has no input.
    fn idle(&mut self, now: Time, w: u32) {
        self.note(now, w, Activity::Idle(NOBODY));
        let WorkerRun { loader, stage, .. } = self.workers[w as usize];
        self.stages[stage].buffer.idle.push_back(w);
        let loader = &mut self.loaders[loader];
        if stage == loader.stages.start && (loader.requests.is_some() || loader.stages.len() == 1) {
            // Nothing (more) to read: what this worker could deliver is not known from now on.
            loader.queue.set_blocked(now, true);
        }
    }

    pub(super) fn finish_item(&mut self, now: Time, w: u32) {
        let worker = &self.workers[w as usize];
        let (s, sequence) = (worker.stage, worker.item.sequence);
        let stage = &mut self.stages[s].buffer;
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

    /// The loader whose last stage `s` is.
    fn ending_with(&mut self, s: usize) -> Option<&mut LoaderRun> {
        let loader = &mut self.loaders[self.stages[s].loader];
        (s + 1 == loader.stages.end).then_some(loader)
    }

    fn has_room(&mut self, s: usize) -> bool {
        let samples = self.stages[s].buffer.samples().into();
        match self.ending_with(s) {
            Some(loader) => loader.queue.has_room(samples),
            None => self.stages[s].buffer.has_room(),
        }
    }

    fn block(&mut self, now: Time, s: usize, w: u32) {
        self.note(now, w, Activity::Blocked(NOBODY));
        self.stages[s].buffer.blocked.push_back(w);
        if let Some(loader) = self.ending_with(s) {
            loader.queue.set_blocked(now, true);
        }
    }

    /// Puts the item of worker `w` into the buffer, which has room; the worker may go on.
    fn put(&mut self, now: Time, s: usize, w: u32) {
        let item = Item { worker: w, ..std::mem::take(&mut self.workers[w as usize].item) };
        let last = self.ending_with(s).is_some();
        let stage = &mut self.stages[s].buffer;
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
        if self.stages[s - 1].buffer.ready() < self.stages[s].buffer.takes() {
            return false;
        }
        let Some(w) = self.stages[s].buffer.idle.pop_front() else { return false };
        self.link(w, by);
        self.runnable.push_back(w);
        true
    }

    /// There is room again behind the last stage of loader `l`.
    pub(super) fn unblock_last(&mut self, now: Time, l: usize) {
        self.unblock(now, self.loaders[l].stages.end - 1, NOBODY);
    }

    /// There is room again behind stage `s`, made by worker `by`.
    fn unblock(&mut self, now: Time, s: usize, by: u32) {
        while !self.stages[s].buffer.blocked.is_empty() && self.has_room(s) {
            let Some(w) = self.stages[s].buffer.blocked.pop_front() else { return };
            if let Some(loader) = self.ending_with(s) {
                loader.queue.set_blocked(now, false);
            }
            self.link(w, by);
            self.put(now, s, w);
            self.release_held(now, s);
        }
    }

    /// Puts finished items whose turn has come.
    fn release_held(&mut self, now: Time, s: usize) {
        loop {
            let Some(w) = self.stages[s].buffer.release() else { return };
            if !self.has_room(s) {
                self.block(now, s, w);
                return;
            }
            self.put(now, s, w);
        }
    }
}
