//! Passing items between stages: input, order of outputs, room in buffers.

use super::loader::LoaderRun;
use super::state::{Item, State, WorkerRun};
use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY};
use forebay_report::Cause;

impl State {
    /// Gives worker `w` its next input, or makes the worker idle if there is none.
    pub(super) fn take_input(&mut self, now: Time, w: u32) {
        if !self.may_work(now, w) || self.finds_enough(now, w) {
            return;
        }
        let item = self.next_input(now, w);
        // An item of a pipeline that is still being built begins later.
        let since = item.as_ref().map_or(now, |item| now.max(item.ready));
        self.tuned_input(since, w, item.is_some());
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
            // The item's sequence number is that of its request.
            return Some(item);
        }
        let sequence = self.stages[stage].buffer.take_input();
        Some(Item { sequence, ..item })
    }

    /// Takes the parts of one item of stage `s` from the buffer before the stage; `None` if there are too few parts.
    fn gather(&mut self, now: Time, w: u32, s: usize) -> Option<Item> {
        let takes = self.stages[s].buffer.takes();
        let item = self.stages[s - 1].buffer.gather(takes, |item, part| {
            item.samples += part.samples;
            item.bytes += part.bytes;
            item.worker = part.worker;
            item.stored.extend(part.stored);
            item.content.extend(part.content);
        })?;
        self.link(w, item.worker);
        self.unblock(now, s - 1, w);
        Some(item)
    }

    fn begin_item(&mut self, now: Time, w: u32, item: Item) {
        let worker = &mut self.workers[w as usize];
        (worker.item, worker.since, worker.working) = (item, now, true);
        self.wake_worker(w);
        // The activities that the stage logs replace this one; what remains of it is the cost of passing the item.
        self.note(now, w, Activity::Doing(Cause::Decode));
    }

    /// Makes worker `w` idle, because it has no input.
    fn idle(&mut self, now: Time, w: u32) {
        self.note(now, w, Activity::Idle(NOBODY));
        let WorkerRun { loader, stage, .. } = self.workers[w as usize];
        self.stages[stage].buffer.idle.push_back(w);
        let loader = &mut self.loaders[loader];
        if stage == loader.stages.start && (loader.requests.is_some() || loader.stages.len() == 1) {
            // There is nothing to read now, so from now on it is unknown what this worker could deliver.
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

    /// Returns the loader whose last stage is `s`; `None` if `s` is not a last stage.
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

    /// Puts the item of worker `w` into the buffer, which has room, and lets the worker continue.
    fn put(&mut self, now: Time, s: usize, w: u32) {
        let item = Item { worker: w, ..std::mem::take(&mut self.workers[w as usize].item) };
        let last = self.ending_with(s).is_some();
        let stage = &mut self.stages[s].buffer;
        stage.pass();
        if last {
            self.deliver(now, w, item);
        } else {
            let last = stage.put(item);
            self.feed(s + 1, w);
            while last && self.feed(s + 1, w) {}
        }
        self.runnable.push_back(w);
    }

    /// Lets an idle worker of stage `s` take the input that worker `by` has made. Returns false if there is no input or no idle
    /// worker.
    fn feed(&mut self, s: usize, by: u32) -> bool {
        if self.stages[s - 1].buffer.ready() < self.stages[s].buffer.takes() {
            return false;
        }
        let Some(w) = self.stages[s].buffer.idle.pop_front() else { return false };
        self.link(w, by);
        self.runnable.push_back(w);
        true
    }

    /// Lets blocked workers of loader `l` put items into the last buffer, which has room again.
    pub(super) fn unblock_last(&mut self, now: Time, l: usize) {
        self.unblock(now, self.loaders[l].stages.end - 1, NOBODY);
    }

    /// Lets blocked workers put items into the buffer after stage `s`, in which worker `by` has made room.
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

    /// Puts the items whose turn in the order of outputs has come into the buffer after stage `s`, as long as the buffer has
    /// room.
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
