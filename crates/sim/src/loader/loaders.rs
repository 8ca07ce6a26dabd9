//! The owner of all loaders: reading, processing and hand-over of samples by their workers.
//!
//! Trainers ask for batches; the loaders report by [`Notice`]s which batches are ready.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY, Segment, blame};

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
    /// For each worker, its position in a data set of shards.
    pub(crate) shards: IdVec<WorkerId, ShardCursor>,
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
    /// Whether there are so many workers that their state does not fit the caches, so that prefetching pays.
    pub(crate) is_far: bool,
    /// For each group of flows, the stage that reads through it; only filled if prefetching pays.
    pub(super) readers: Vec<Option<Reader>>,
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
    pub(crate) fn await_batch(&mut self, env: &Env, l: LoaderId, d: DeviceId) {
        let loader = &mut self.loaders[l];
        if loader.waiters.is_empty() && loader.waiters.tells {
            // If workers drop old timeline entries now, the timelines stay short and their memory stays near the core.
            let workers = loader.stages.workers;
            self.workers[workers].iter_mut().for_each(|worker| worker.timeline.begin_wait(env.now));
        }
        loader.waiters.add(Waiter { device: d, since: env.now });
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

    /// Appends to `causes` the stall causes of a device that waited from `since` to `until` for worker `w` of a last stage:
    /// what the worker, and the workers that it waited for, did in that time. The latest cause comes first.
    pub(crate) fn causes(&self, w: WorkerId, since: Time, until: Time, causes: &mut Vec<Segment>) {
        let timeline = |w| &self.workers[WorkerId::new(w)].timeline;
        blame(timeline, w.number(), since, until, causes);
    }
}
