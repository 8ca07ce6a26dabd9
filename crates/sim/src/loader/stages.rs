//! Hand-over of items between stages: input, order, and room in buffers.

use forebay_metrics::{Activity, NOBODY, StageBuffer};
use forebay_report::Cause;

use super::loader_run::{LoaderProgress, LoaderRun};
use super::loaders::Loaders;
use super::worker::{Item, Phase, Worker};
use crate::env::{Cores, Env};
use crate::ids::{IdVec, LoaderId, StageId, TokenBucketId, WorkId, WorkerId};

/// A stage of one loader: its workers' common state and the buffer behind it.
///
/// The fields needed for every sample come first and share a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct StageRun {
    pub(crate) loader: LoaderId,
    /// The stage's first operation in the world's table. The operations on each sample of an item come first, then the operations
    /// on the item as a whole.
    pub(crate) first_operation: WorkId,
    /// Number of the stage's operations.
    pub(crate) operations: u32,
    /// Number of the stage's operations on each sample.
    pub(crate) per_sample: u32,
    pub(crate) cores: Cores,
    /// Token bucket of the CPU quota of the loader's job on its node, if the quota has periods.
    pub(crate) quota: Option<TokenBucketId>,
    /// The stage before this one; `None` for the first stage, which reads.
    pub(crate) previous: Option<StageId>,
    /// The stage after this one; `None` for the last stage, which fills the loader's queue.
    pub(crate) next: Option<StageId>,
    pub(crate) buffer: StageBuffer<Item>,
}

impl StageRun {
    /// Returns whether there is room for one more item in the buffer behind the stage.
    #[inline]
    fn has_room(&self, loaders: &IdVec<LoaderId, LoaderRun>) -> bool {
        match self.next {
            Some(_) => self.buffer.has_room(),
            None => loaders[self.loader].queue.has_room(self.buffer.samples().into()),
        }
    }
}

impl LoaderProgress {
    /// Takes the next samples of the reading order, at most `most`, as one item; returns `None` if there are none, or the job needs no more.
    #[inline]
    fn next_samples(&mut self, buffer: &mut StageBuffer<Item>, most: u64) -> Option<Item> {
        let samples = u64::from(buffer.samples()).min(self.left()).min(most);
        if samples == 0 {
            return None;
        }
        let first = self.start(samples);
        let sequence = buffer.take_input();
        Some(Item { first, samples: samples as u32, sequence, ..Item::default() })
    }
}

impl Loaders {
    /// Gives worker `w` its next input; returns false if there is none.
    pub(super) fn take_input(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Worker { stage: s, loader: l, .. } = self.workers[w];
        let rests = self.loaders[l].features.rests;
        if rests && (!self.enter_if_called(env, w) || self.sleep_if_enough(env, w)) {
            return false;
        }
        let (stage, loader) = (&mut self.stages[s], &mut self.loaders[l]);
        let item = match stage.previous {
            None if loader.requests.is_some() => return self.take_request(env, w),
            None => {
                let most = if rests { loader.left_of_epoch() } else { u64::MAX };
                loader.progress.next_samples(&mut stage.buffer, most)
            }
            Some(previous) => self.gather(env, w, s, previous),
        };
        if rests {
            self.tuned_input(env.now, w, item.is_some());
        }
        match item {
            Some(item) => self.workers[w].begin_item(item),
            None => self.be_idle(env, w),
        }
        item.is_some() && !(rests && self.waits_for_pipeline(env, w))
    }

    /// Makes worker `w` idle because there is no input for it.
    fn be_idle(&mut self, env: &mut Env, w: WorkerId) {
        let worker = self.note(env, w, Activity::Idle(NOBODY));
        worker.phase = Phase::Idle;
        let s = worker.stage;
        let stage = &mut self.stages[s];
        stage.buffer.idle.push_back(w.number());
        if stage.previous.is_none() && stage.next.is_none() {
            // Nothing is left to read, so it is unknown from now on what this worker could deliver.
            self.loaders[stage.loader].queue.set_blocked(env.now, true);
        }
    }

    /// Takes the parts of one item from the buffer of stage `previous`, and joins them; returns `None` if some parts are
    /// missing.
    fn gather(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        s: StageId,
        previous: StageId,
    ) -> Option<Item> {
        let Self { stages, loaders, workers, .. } = self;
        let takes = stages[s].buffer.takes();
        let loader = &mut loaders[workers[w].loader];
        let before = &mut stages[previous].buffer;
        if loader.features.followed
            && takes > 1
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.gather(before.first(takes).map(|item| (item.first, item.samples)));
        }
        let mut item = before.gather(takes, |item, part| {
            item.samples += part.samples;
            item.bytes += part.bytes;
            item.worker = part.worker;
        })?;
        if loader.requests.is_none() {
            item.sequence = stages[s].buffer.take_input();
        }
        self.link(w, item.worker);
        self.unblock(env, previous, w);
        Some(item)
    }

    /// Ends the item of worker `w`; returns true if the worker may take its next input at once.
    pub(super) fn finish_item(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Worker { stage: s, loader: l, item: Item { sequence, .. }, .. } = self.workers[w];
        if self.loaders[l].features.rests {
            self.tune(env.now, w);
        }
        let stage = &mut self.stages[s];
        let ordered = stage.buffer.is_ordered();
        if !stage.buffer.is_turn(sequence) {
            stage.buffer.hold(sequence, w.number());
            self.note(env, w, Activity::Doing(Cause::Order)).phase = Phase::Held;
            return false;
        }
        if !stage.has_room(&self.loaders) {
            self.block(env, s, w);
            return false;
        }
        self.put(env, s, w);
        if ordered {
            self.release_held(env, s);
        }
        true
    }

    fn block(&mut self, env: &mut Env, s: StageId, w: WorkerId) {
        self.note(env, w, Activity::Blocked(NOBODY)).phase = Phase::Blocked;
        let stage = &mut self.stages[s];
        stage.buffer.blocked.push_back(w.number());
        if stage.next.is_none() {
            self.loaders[stage.loader].queue.set_blocked(env.now, true);
        }
    }

    /// Puts the item of worker `w` into the buffer, which has room, and makes the worker ready for input.
    #[inline(always)]
    fn put(&mut self, env: &mut Env, s: StageId, w: WorkerId) {
        let worker = &mut self.workers[w];
        worker.phase = Phase::Ready;
        let stage = &mut self.stages[s];
        stage.buffer.pass();
        match stage.next {
            Some(next) => {
                let last = stage.buffer.put(Item { worker: w, ..worker.item });
                self.wake(next, w);
                while last && self.wake(next, w) {}
            }
            None => {
                let (loader, item) = (stage.loader, worker.item);
                self.deliver(env, loader, w, item);
            }
        }
    }

    /// Lets an idle worker of stage `s` look for the input that worker `by` has made; returns false if there is not enough
    /// input or no idle worker.
    fn wake(&mut self, s: StageId, by: WorkerId) -> bool {
        let stage = &self.stages[s];
        let ready = stage.previous.map_or(0, |p| self.stages[p].buffer.ready());
        if ready < stage.buffer.takes() {
            return false;
        }
        let Some(w) = self.stages[s].buffer.idle.pop_front() else { return false };
        let w = WorkerId::new(w);
        self.link(w, by);
        self.make_ready(w);
        true
    }

    pub(super) fn make_ready(&mut self, w: WorkerId) {
        self.workers[w].phase = Phase::Ready;
        self.runnable.push_back(w);
    }

    /// Wakes workers of stage `s` that were blocked by the full output buffer of the stage, one for each free place. Worker `by` made
    /// the places free.
    pub(super) fn unblock(&mut self, env: &mut Env, s: StageId, by: WorkerId) {
        loop {
            let stage = &mut self.stages[s];
            if stage.buffer.blocked.is_empty() || !stage.has_room(&self.loaders) {
                return;
            }
            // A blocked worker is there: the list is not empty.
            let Some(w) = stage.buffer.blocked.pop_front() else { return };
            let w = WorkerId::new(w);
            let ordered = stage.buffer.is_ordered();
            if stage.next.is_none() {
                self.loaders[stage.loader].queue.set_blocked(env.now, false);
            }
            self.link(w, by);
            self.put(env, s, w);
            self.runnable.push_back(w);
            if ordered {
                self.release_held(env, s);
            }
        }
    }

    /// Puts the items that stage `s` has held back into the buffer, as long as the next item in order is among them and there is
    /// room.
    fn release_held(&mut self, env: &mut Env, s: StageId) {
        loop {
            let Some(w) = self.stages[s].buffer.release() else { return };
            let w = WorkerId::new(w);
            if !self.stages[s].has_room(&self.loaders) {
                self.block(env, s, w);
                return;
            }
            self.put(env, s, w);
            self.runnable.push_back(w);
        }
    }
}
