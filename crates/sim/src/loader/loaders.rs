//! The owner of all loaders: reading, processing and hand-over of samples by their workers.
//!
//! Trainers ask for batches; the loaders report by [`Notice`]s which batches are ready.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};

use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY, Pages, Segment};

use super::loader_run::{LoaderRun, Waiter};
use super::prefetch::Reader;
use super::ranges::Fetches;
use super::stages::StageRun;
use super::worker::{Item, Phase, Work, Worker};
use crate::env::{Env, Notice};
use crate::ids::{DeviceId, IdVec, Ids, LoaderId, StageId, WorkId, WorkerId};
use crate::storage::ShardCursor;
use crate::storage::Storages;

/// The tables of all loaders.
#[derive(Debug, Default)]
pub(crate) struct Loaders {
    /// The storages that the loaders read, and the nodes' caches.
    pub(crate) storages: Storages,
    pub(crate) loaders: IdVec<LoaderId, LoaderRun>,
    pub(crate) stages: IdVec<StageId, StageRun>,
    /// Operations of each stage of a job; the copies of the job share them.
    pub(crate) works: IdVec<WorkId, Work>,
    pub(crate) workers: IdVec<WorkerId, Worker>,
    /// The memory of the workers' timelines.
    pub(crate) pages: Pages,
    /// For each worker, its position in a data set of shards.
    pub(crate) shards: IdVec<WorkerId, ShardCursor>,
    /// For each worker, the core-seconds of its computation in progress [s], unless its cores do it in a fixed time.
    pub(crate) work: IdVec<WorkerId, f64>,
    /// For each worker, the number of its threads that have not computed to the end, if they take cores one by one; empty if
    /// there are no such threads.
    pub(crate) threads: IdVec<WorkerId, u32>,
    /// Reads that are split into several requests.
    pub(crate) fetches: Fetches,
    /// Track of each worker in the timeline, if one is recorded.
    pub(crate) tracks: IdVec<WorkerId, u32>,
    /// Track of the number of samples in each loader's queue, if it is recorded.
    pub(crate) level_tracks: IdVec<LoaderId, Option<u32>>,
    /// Workers that have something to do at this instant.
    pub(super) runnable: VecDeque<WorkerId>,
    /// Number of devices that take batches, over all loaders.
    pub(crate) devices: usize,
    /// For each group of flows, the stage that reads through it; `None` unless there are so many workers that their state does not fit the
    /// caches, so that prefetching pays.
    pub(super) readers: Option<Vec<Option<Reader>>>,
}

/// A batch that a device has taken from a loader's queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchTaken {
    /// Number of samples in the batch.
    pub(crate) size: u64,
    /// Number of samples that have left the queue with it; `fresh` is the number of those that had not come before.
    pub(crate) samples: u64,
    pub(crate) fresh: u64,
}

impl Index<LoaderId> for Loaders {
    type Output = LoaderRun;

    #[inline(always)]
    fn index(&self, l: LoaderId) -> &LoaderRun {
        &self.loaders[l]
    }
}

impl IndexMut<LoaderId> for Loaders {
    #[inline(always)]
    fn index_mut(&mut self, l: LoaderId) -> &mut LoaderRun {
        &mut self.loaders[l]
    }
}

impl Index<Ids<LoaderId>> for Loaders {
    type Output = [LoaderRun];

    fn index(&self, ids: Ids<LoaderId>) -> &[LoaderRun] {
        &self.loaders[ids]
    }
}

impl IndexMut<Ids<LoaderId>> for Loaders {
    fn index_mut(&mut self, ids: Ids<LoaderId>) -> &mut [LoaderRun] {
        &mut self.loaders[ids]
    }
}

impl Loaders {
    /// Runs the next worker that has something to do at this instant; returns false if there is none.
    #[inline]
    pub(crate) fn run_next(&mut self, env: &mut Env) -> bool {
        let Some(w) = self.runnable.pop_front() else { return false };
        self.run_worker(env, w);
        true
    }

    /// Lets all workers of loader `l` look for input.
    pub(crate) fn wake_all(&mut self, l: LoaderId) {
        for s in self.loaders[l].stages.all {
            for w in self.loaders[l].stages.workers_of(s) {
                self.make_ready(w);
            }
        }
    }

    /// Looks for a batch for one more trainer in the queue of loader `l`, and counts a batch that is there; returns whether one is.
    /// If the loader makes batches on request, requests a batch first.
    pub(crate) fn look_for_batch(&mut self, env: &mut Env, l: LoaderId) -> bool {
        if self.loaders[l].requests.is_some() {
            self.want_request(env, l);
        }
        let loader = &mut self.loaders[l];
        // Batches promised to sleeping devices are theirs.
        let promised = loader.pacing.polling.as_ref().map_or(0, |polling| polling.promised());
        let has = loader.waiters.len() == promised && loader.queue.has_batches(promised as u64 + 1);
        if has {
            loader.queue.served_at_once();
        }
        has
    }

    /// Adds device `d` to the devices that wait for a batch of loader `l`.
    pub(crate) fn await_batch(&mut self, env: &mut Env, l: LoaderId, d: DeviceId) {
        let loader = &mut self.loaders[l];
        if loader.waiters.is_empty() && loader.waiters.tells {
            // If workers drop old timeline entries now, the timelines stay short and their memory stays near the core.
            let workers = loader.stages.workers;
            for worker in &mut self.workers[workers] {
                worker.timeline.begin_wait(&mut self.pages, env.now);
            }
        }
        loader.waiters.add(Waiter { device: d, since: env.now });
        self.begin_epoch_if_over(env, l);
    }

    /// Records that a device has nothing to compute from `now` on until it gets a batch of loader `l`.
    pub(crate) fn begin_starving(&mut self, now: Time, l: LoaderId) {
        self.loaders[l].queue.begin_wait(now);
    }

    /// Records that a device that had nothing to compute gets a batch of loader `l` at `now`, or does not wait any more.
    pub(crate) fn end_starving(&mut self, now: Time, l: LoaderId) {
        self.loaders[l].queue.end_wait(now);
    }

    /// Removes device `d` from the devices that wait for a batch of loader `l`.
    pub(crate) fn stop_waiting(&mut self, l: LoaderId, d: DeviceId) {
        self.loaders[l].waiters.remove(d);
    }

    /// Takes a batch from the queue of loader `l` for `step` of model copy `model`, and lets the loader make another one, if it makes
    /// batches on request. `fresh` returns how many of the last samples had not come before, from the number of all samples that have
    /// left the queue and the number of the last ones.
    pub(crate) fn take_batch(
        &mut self,
        env: &mut Env,
        l: LoaderId,
        (model, step): (u32, u64),
        fresh: impl FnOnce(u64, u64) -> u64,
    ) -> BatchTaken {
        let loader = &mut self.loaders[l];
        let size = loader.queue.batch();
        let samples = loader.queue.take(env.now);
        loader.first_batches.take(step);
        let new = fresh(loader.queue.passed(), samples);
        let fresh = loader.pacing.polling.as_mut().map_or(new, |polling| polling.fresh(new));
        if loader.features.followed
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.take(model, step, size);
        }
        self.trace_level(env, l);
        if self.loaders[l].requests.is_some() {
            self.replace_request(env, l);
        }
        if !self.loaders[l].waiters.is_empty() {
            self.begin_epoch_if_over(env, l);
        }
        BatchTaken { size, samples, fresh }
    }

    /// Returns the number of samples in the queue of loader `l`.
    pub(crate) fn level(&self, l: LoaderId) -> u64 {
        self.loaders[l].queue.level()
    }

    /// Returns the worker from which the next batch of device `d` from loader `l` comes, and the time that the device has slept up to
    /// `until` since that batch was complete. Where no batch is promised to the device, this is a worker of the last stage.
    pub(crate) fn next_batch_of(
        &self,
        l: LoaderId,
        d: DeviceId,
        until: Time,
    ) -> (WorkerId, Option<Segment>) {
        let loader = &self.loaders[l];
        let polling = loader.pacing.polling.as_ref();
        let found = polling.and_then(|polling| polling.promise_to(d.number()));
        match found {
            Some(found) => (WorkerId::new(found.worker), Some(found.slept(until))),
            None => (loader.stages.workers_of(loader.stages.last()).start, None),
        }
    }

    /// Returns the workers of the consecutive loaders `of`.
    pub(crate) fn workers_of(&self, of: Ids<LoaderId>) -> Ids<WorkerId> {
        let loaders = &self.loaders[of];
        let first = loaders.first().map_or(WorkerId::default(), |of| of.stages.workers.start);
        let last = loaders.last().map_or(WorkerId::default(), |of| of.stages.workers.end);
        Ids::new(first, last)
    }

    /// Returns the numbers of workers of loader `l` in each phase, for developers.
    pub(crate) fn phases(&self, l: LoaderId) -> Vec<String> {
        let mut phases = BTreeMap::<String, u32>::new();
        for worker in &self.workers[self.loaders[l].stages.workers] {
            *phases.entry(format!("{:?}", worker.phase)).or_default() += 1;
        }
        phases.into_iter().map(|(phase, number)| format!("{number} {phase}")).collect()
    }

    /// Starts what paces loader `l`, at the beginning of training or after a restart: its tuner and its requests for batches.
    pub(crate) fn start(&mut self, env: &mut Env, l: LoaderId) {
        if let Some(tuner) = &mut self.loaders[l].pacing.tuner {
            tuner.start(env.now);
        }
        if let Some(requests) = &mut self.loaders[l].requests {
            requests.start(env.now);
            self.ask(env, l);
        }
        self.begin_epoch(env, l);
    }

    /// Lets the queue of loader `l` exist from `now` on.
    pub(crate) fn begin_at(&mut self, now: Time, l: LoaderId) {
        self.loaders[l].queue.restart(now);
    }

    /// Lets loader `l` start no more samples, because its job copy has ended.
    pub(crate) fn finish(&mut self, l: LoaderId) {
        self.loaders[l].progress.stop();
    }

    /// Returns the device that has waited longest for a batch of loader `l` and removes it from the waiters; `None` if there
    /// is no batch or no waiter.
    pub(crate) fn next_served(&mut self, l: LoaderId) -> Option<DeviceId> {
        let loader = &mut self.loaders[l];
        if !loader.queue.has_batch() {
            return None;
        }
        loader.waiters.next().map(|waiter| waiter.device)
    }

    /// Lets blocked workers of the last stage of loader `l` go on if there is room in the last buffer.
    pub(crate) fn unblock_last(&mut self, env: &mut Env, l: LoaderId) {
        let last = self.loaders[l].stages.last();
        self.unblock(env, last, WorkerId::new(NOBODY));
    }

    /// Delivers `item`, which worker `w` has made, to the trainers of loader `l`.
    #[inline(always)]
    pub(super) fn deliver(&mut self, env: &mut Env, l: LoaderId, w: WorkerId, item: Item) {
        let Item { first, samples, sequence, .. } = item;
        if self.loaders[l].requests.is_none() {
            self.enqueue(env, l, w, (first, samples.into()));
            return;
        }
        self.answer(env, l, w, sequence);
    }

    /// Marks the requested batch with number `sequence` as finished by worker `w`.
    #[inline(never)]
    fn answer(&mut self, env: &mut Env, l: LoaderId, w: WorkerId, sequence: u64) {
        if let Some(requests) = &mut self.loaders[l].requests {
            requests.finish(env.now, sequence);
        }
        self.hand_out(env, l, w);
    }

    /// Puts finished batches of loader `l` into its queue, in their order; worker `w` has made the last one. Stops after a
    /// batch for which a device waits, so that the device takes this batch before the next one is put in.
    pub(crate) fn hand_out(&mut self, env: &mut Env, l: LoaderId, w: WorkerId) {
        while let Some(requests) = &mut self.loaders[l].requests
            && let Some(batch) = requests.hand_out()
        {
            if self.enqueue(env, l, w, batch) {
                return;
            }
        }
    }

    /// Puts `samples` samples of worker `w` into the queue of loader `l`; they were read from position `first` on. Returns
    /// whether a waiting device is to be notified of a batch.
    #[inline(always)]
    fn enqueue(
        &mut self,
        env: &mut Env,
        l: LoaderId,
        w: WorkerId,
        (first, samples): (u64, u64),
    ) -> bool {
        let loader = &mut self.loaders[l];
        if loader.features.followed
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.put(first, samples, &loader.source);
        }
        loader.queue.put(env.now, samples);
        loader.progress.in_progress -= samples;
        let served = loader.queue.has_batch() && !loader.waiters.is_empty();
        if env.recorder.is_some() {
            self.trace_level(env, l);
        }
        if served {
            match self.loaders[l].pacing.polling {
                None => env.notices.push_back(Notice::BatchReady { loader: l, worker: w }),
                Some(_) => self.promise(env, l, w),
            }
        }
        served && self.loaders[l].pacing.polling.is_none()
    }

    /// Stops worker `w`; its current item is lost.
    pub(super) fn stop_worker(&mut self, env: &mut Env, w: WorkerId) {
        self.note(env, w, Activity::Idle(NOBODY)).phase = Phase::Idle;
        self.shards[w] = Default::default();
        if let Some(threads) = self.threads.get_mut(w) {
            *threads = 0;
        }
        let worker = &mut self.workers[w];
        let timeline = std::mem::take(&mut worker.timeline);
        let (stage, loader) = (worker.stage, worker.loader);
        *worker = Worker { stage, loader, timeline, ..Worker::default() };
    }

    /// Records the number of samples in the queue of loader `l` in the timeline.
    pub(crate) fn trace_level(&mut self, env: &mut Env, l: LoaderId) {
        let Some(recorder) = &mut env.recorder else { return };
        if let Some(track) = self.level_tracks[l] {
            recorder.count(track, env.now, self.loaders[l].queue.level() as f64);
        }
    }

    /// Appends to `causes` the stall causes of a device that waited from `since` to `until` for worker `w` of a last stage of loader
    /// `l`: what the worker, and the workers that it waited for, did in that time. The latest cause comes first.
    pub(crate) fn causes(
        &self,
        (l, w): (LoaderId, WorkerId),
        since: Time,
        until: Time,
        causes: &mut Vec<Segment>,
    ) {
        let timelines = (&self.pages, |w| &self.workers[WorkerId::new(w)].timeline);
        self.loaders[l].first_batches.blame(timelines, w.number(), since, until, causes);
    }
}
