//! The owner of all loaders: what their workers read, make and hand over.
//!
//! Trainers ask for batches; what they wait for and get is told by [`Notice`]s.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY, Segment, blame};

use super::env::Env;
use super::index::{DeviceId, IdVec, Ids, LoaderId, WorkerId};
use super::loader::{LoaderRun, Waiter};
use super::notice::Notice;
use super::prefetch::Reader;
use super::ranges::Fetches;
use super::read::ShardCursor;
use super::stages::StageRun;
use super::worker::{Item, Phase, Work, Worker};

/// The tables of all loaders.
#[derive(Debug, Default)]
pub(super) struct Loaders {
    pub(super) loaders: IdVec<LoaderRun>,
    pub(super) stages: IdVec<StageRun>,
    /// By stage of a job; its copies share them.
    pub(super) works: IdVec<Work>,
    pub(super) workers: IdVec<Worker>,
    /// By worker, for data sets in shards.
    pub(super) shards: IdVec<Worker, ShardCursor>,
    /// What is fetched in several requests.
    pub(super) fetches: Fetches,
    /// By worker, where a timeline is recorded.
    pub(super) tracks: IdVec<Worker, u32>,
    /// Workers that have something to do at this instant.
    pub(super) runnable: VecDeque<WorkerId>,
    /// Devices that take batches, of all loaders.
    pub(super) devices: usize,
    /// Whether state is far from the core, so that it pays to fetch it ahead.
    pub(super) is_far: bool,
    /// Then, by group of flows, who reads through it.
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

impl Index<Ids<LoaderRun>> for Loaders {
    type Output = [LoaderRun];

    fn index(&self, ids: Ids<LoaderRun>) -> &[LoaderRun] {
        &self.loaders[ids]
    }
}

impl IndexMut<Ids<LoaderRun>> for Loaders {
    fn index_mut(&mut self, ids: Ids<LoaderRun>) -> &mut [LoaderRun] {
        &mut self.loaders[ids]
    }
}

impl Loaders {
    /// The next worker that has something to do at this instant does it; false if there is none.
    #[inline]
    pub(super) fn run_next(&mut self, env: &mut Env) -> bool {
        let Some(w) = self.runnable.pop_front() else { return false };
        self.run_worker(env, w);
        true
    }

    /// All workers of a loader look for input.
    pub(super) fn wake_all(&mut self, l: LoaderId) {
        for s in self.loaders[l].stages {
            for w in self.loaders[l].workers_of(s) {
                self.make_ready(w);
            }
        }
    }

    /// Whether there is a batch for one more trainer of loader `l`, which makes it to order if it works so.
    pub(super) fn has_batch_for(&mut self, env: &mut Env, l: LoaderId) -> bool {
        if self.loaders[l].requests.is_some() {
            self.want_request(env, l);
        }
        let loader = &mut self.loaders[l];
        // What sleepers will find is theirs.
        let promised = loader.polling.as_ref().map_or(0, |polling| polling.promised());
        let has = loader.waiters.len() == promised && loader.queue.has_batches(promised as u64 + 1);
        if has {
            loader.queue.served_at_once();
        }
        has
    }

    /// Device `d` waits for a batch of loader `l` from now on.
    pub(super) fn begin_wait(&mut self, env: &Env, l: LoaderId, d: DeviceId) {
        let loader = &mut self.loaders[l];
        if loader.waiters.is_empty() && loader.tells {
            // Timelines that stay short find their memory near.
            let workers = loader.workers;
            self.workers[workers].iter_mut().for_each(|worker| worker.timeline.begin_wait(env.now));
        }
        loader.queue.begin_wait(env.now);
        loader.waiters.push_back(Waiter { device: d, since: env.now });
    }

    /// The device that has waited longest for a batch of loader `l`, if one is there for it; it waits no more.
    pub(super) fn next_served(&mut self, l: LoaderId) -> Option<DeviceId> {
        let loader = &mut self.loaders[l];
        if !loader.queue.has_batch() {
            return None;
        }
        loader.waiters.pop_front().map(|waiter| waiter.device)
    }

    /// There may be room again in the last buffer of loader `l`.
    pub(super) fn unblock_last(&mut self, env: &mut Env, l: LoaderId) {
        let last = self.loaders[l].stages.end - 1;
        self.unblock(env, last, WorkerId::new(NOBODY));
    }

    /// Worker `w` has made `item` for the trainer of loader `l`.
    #[inline(always)]
    pub(super) fn deliver(&mut self, env: &mut Env, l: LoaderId, w: WorkerId, item: Item) {
        let Item { first, samples, sequence, .. } = item;
        if self.loaders[l].requests.is_none() {
            self.enqueue(env, l, w, (first, samples.into()));
            return;
        }
        self.answer(env, l, w, sequence);
    }

    /// Worker `w` has made what was requested under number `sequence`.
    #[inline(never)]
    fn answer(&mut self, env: &mut Env, l: LoaderId, w: WorkerId, sequence: u64) {
        if let Some(requests) = &mut self.loaders[l].requests {
            requests.finish(env.now, sequence);
        }
        self.hand_out(env, l, w);
    }

    /// Puts finished batches of loader `l`, the last of which worker `w` has made, into its queue in their order, up to one
    /// for which a device waits: that takes it before the next is put in.
    pub(super) fn hand_out(&mut self, env: &mut Env, l: LoaderId, w: WorkerId) {
        while let Some(requests) = &mut self.loaders[l].requests
            && let Some(batch) = requests.hand_out()
        {
            if self.enqueue(env, l, w, batch) {
                return;
            }
        }
    }

    /// Worker `w` puts samples, so many from turn `first` on, into the queue of loader `l`; whether there is a batch now for a
    /// device that waits.
    #[inline(always)]
    fn enqueue(
        &mut self,
        env: &mut Env,
        l: LoaderId,
        w: WorkerId,
        (first, samples): (u64, u64),
    ) -> bool {
        let loader = &mut self.loaders[l];
        if loader.followed
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.put(first, samples, &loader.source);
        }
        loader.queue.put(env.now, samples);
        loader.in_progress -= samples;
        let served = loader.queue.has_batch() && !loader.waiters.is_empty();
        if env.recorder.is_some() {
            self.trace_level(env, l);
        }
        if served {
            match self.loaders[l].polling {
                None => env.notices.push_back(Notice::BatchReady { loader: l, worker: w }),
                Some(_) => self.promise(env, l, w),
            }
        }
        served && self.loaders[l].polling.is_none()
    }

    /// Worker `w` loses what it was at.
    pub(super) fn stop_worker(&mut self, env: &mut Env, w: WorkerId) {
        self.note(env, w, Activity::Idle(NOBODY)).phase = Phase::Idle;
        self.shards[w] = Default::default();
        let worker = &mut self.workers[w];
        let timeline = std::mem::take(&mut worker.timeline);
        let (stage, loader) = (worker.stage, worker.loader);
        *worker = Worker { stage, loader, timeline, ..Worker::default() };
    }

    /// The timeline says how many samples are in the queue of loader `l`.
    pub(super) fn trace_level(&mut self, env: &mut Env, l: LoaderId) {
        let Some(recorder) = &mut env.recorder else { return };
        let loader = &self.loaders[l];
        if let Some(track) = loader.level_track {
            recorder.count(track, env.now, loader.queue.level() as f64);
        }
    }

    /// What worker `w` of a last stage, and those that it waited for, were at from `since` to `until`, for what a device
    /// waited that long; latest first.
    pub(super) fn causes(&self, w: WorkerId, since: Time, until: Time, causes: &mut Vec<Segment>) {
        let timeline = |w| &self.workers[WorkerId::new(w)].timeline;
        blame(timeline, w.number(), since, until, causes);
    }
}
