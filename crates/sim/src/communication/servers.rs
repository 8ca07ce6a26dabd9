//! Servers that have the parameters, and where each model copy is with them.
//!
//! A model copy pushes each bucket in parts, one to each server, as its backward pass makes them. A server adds a part
//! when it is there and a core has done the work; from then on the model copy that pushed it may pull that part again,
//! once the slowest is no more behind than the slack allows. It goes on when it has pulled all.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::index::{Id, IdVec, JobId, MessageId};
use forebay_collective::{Hop, Kind};
use forebay_engine::{Span, Time};
use forebay_report::SyncOutcome;
use forebay_scenario::Members;

use super::exchange::Exchange;
use super::lines::Lines;
use super::pieces::Pieces;
use super::shard::Shard;
use super::worker::{Held, WorkerRun};

/// What the model copies of a job copy, and its servers, are at.
#[derive(Debug)]
pub(crate) struct ServerRun {
    pub(crate) pieces: Pieces,
    /// Exchanges that a model copy may be ahead of the slowest.
    slack: u64,
    workers: IdVec<WorkerRun>,
    shards: IdVec<Shard>,
    /// The first shard of each bucket, and one beyond the last.
    first: Vec<u32>,
    /// Time before each bucket is pushed, for its tensors.
    overhead: Vec<Span>,
    pub(super) exchange: Exchange,
    pub(super) lines: Lines,
    /// What messages carry.
    pub(super) parcels: BTreeMap<MessageId, Parcel>,
    /// Steps of single model copies that are done, and samples of those since the last step of all.
    done: u64,
    samples: u64,
    pub(crate) books: SyncOutcome,
    pub(crate) tracks: Option<ServerTracks>,
}

/// Tracks of a job copy's exchanges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTracks {
    /// Bytes on their way to servers, and from them [B].
    pub(crate) moving: u32,
    /// Steps by which the fastest model copy is ahead of the slowest.
    pub(crate) ahead: u32,
}

/// A message: a part of a bucket on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parcel {
    pub(super) worker: u32,
    pub(super) shard: u32,
    /// From its server.
    pub(super) pulled: bool,
    /// Whether its bytes are still to come.
    pub(super) moving: bool,
}

impl ServerRun {
    /// Of so many model copies of job copy `job` and servers, and the shards of each bucket.
    pub(crate) fn new(
        job: JobId,
        pieces: Pieces,
        slack: u64,
        [workers, servers]: [u32; 2],
        buckets: Vec<(Span, Vec<Shard>)>,
    ) -> ServerRun {
        let (mut first, mut shards, mut overhead) = (vec![0], Vec::new(), Vec::new());
        for (before, parts) in buckets {
            overhead.push(before);
            shards.extend(parts);
            first.push(shards.len() as u32);
        }
        let all = Members::new(0, 1, workers + servers);
        let worker = WorkerRun::new(shards.len() as u32);
        ServerRun {
            pieces,
            slack,
            workers: (0..workers).map(|_| worker.clone()).collect(),
            shards: shards.into_iter().collect(),
            first,
            overhead,
            exchange: Exchange::new((job, None), all),
            lines: Lines::new(workers, servers),
            parcels: BTreeMap::new(),
            done: 0,
            samples: 0,
            books: SyncOutcome::default(),
            tracks: None,
        }
    }

    /// Whether all gradients of a step make one update.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.slack == 0
    }

    /// All shards.
    pub(super) fn all(&self) -> Range<u32> {
        0..self.shards.len() as u32
    }

    /// The shards of a bucket.
    pub(super) fn of_bucket(&self, bucket: u32) -> Range<u32> {
        self.first[bucket as usize]..self.first[bucket as usize + 1]
    }

    /// One of them.
    pub(super) fn shard(&self, shard: u32) -> &Shard {
        &self.shards[Id::new(shard)]
    }

    fn worker(&mut self, worker: u32) -> &mut WorkerRun {
        &mut self.workers[Id::new(worker)]
    }

    /// Nothing of it is on its way any more.
    pub(crate) fn abort(&mut self) {
        self.exchange.abort();
        self.lines.clear();
        self.parcels.clear();
    }

    /// Its model copies have done so many steps each, whose updates were as stale as `staleness` says; nobody has any
    /// parameters, and nothing is on its way.
    pub(crate) fn restart(&mut self, finished: &[u64], staleness: BTreeMap<u64, u64>) {
        let pushes: Vec<u64> = finished.iter().map(|steps| self.pieces.round(*steps)).collect();
        for (worker, (steps, exchanges)) in
            self.workers.iter_mut().zip(finished.iter().zip(&pushes))
        {
            *worker = worker.again(*steps, *exchanges);
        }
        self.shards.iter_mut().for_each(|shard| shard.restart(&pushes));
        (self.done, self.samples) = (finished.iter().sum(), 0);
        self.books.updates = staleness.values().sum();
        self.books.staleness = staleness;
    }

    /// Steps that each model copy has done.
    pub(crate) fn finished(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.iter().map(|worker| worker.finished)
    }

    /// The same of `worker`.
    pub(crate) fn finished_by(&self, worker: u32) -> u64 {
        self.workers[Id::new(worker)].finished
    }

    /// All model copies want all parameters: who may pull them now. All have pushed as often to one shard as to another.
    pub(super) fn begin_all(&mut self) -> Vec<u32> {
        let released = self.shards.iter_mut().map(|shard| shard.begin(self.slack));
        released.last().unwrap_or_default()
    }

    /// Whether `worker` has the parameters for `step`.
    pub(crate) fn may_begin(&self, worker: u32, step: u64) -> bool {
        self.workers[Id::new(worker)].may_begin(self.pieces.round(step))
    }

    /// `worker` begins to compute for `step`.
    pub(crate) fn begin(&mut self, now: Time, worker: u32, step: u64) {
        // Of several steps before an exchange the first one counts.
        if self.pieces.opens(step) {
            let worker = self.worker(worker);
            (worker.began, worker.computed) = (now, None);
        }
    }

    /// `worker` has computed a piece of `step`; buckets that it has made by that.
    pub(super) fn segment_done(
        &mut self,
        now: Time,
        worker: u32,
        step: u64,
        piece: u32,
    ) -> Range<u32> {
        let (made, buckets) = (self.pieces.at(step, piece).made, self.overhead.len() as u32);
        let ends = self.pieces.exchanges(step) && self.pieces.is_last(step, piece);
        let worker = self.worker(worker);
        if ends {
            worker.computed = Some(now);
        }
        worker.makes(made, buckets)
    }

    /// `worker` has one more bucket to push: how long that takes before, where nothing is before it.
    pub(super) fn queue(&mut self, worker: u32, bucket: u32) -> Option<Span> {
        let queue = &mut self.workers[Id::new(worker)].queue;
        queue.push_back(bucket);
        (queue.len() == 1).then(|| self.overhead[bucket as usize])
    }

    /// The bucket of `worker` that is pushed now, and what the next one takes before.
    pub(super) fn unqueue(&mut self, worker: u32) -> Option<(u32, Option<Span>)> {
        let queue = &mut self.workers[Id::new(worker)].queue;
        let bucket = queue.pop_front()?;
        Some((bucket, queue.front().map(|next| self.overhead[*next as usize])))
    }

    /// What `worker` pushed to `shard` is added: who may pull it now, and whether its exchange is over by that.
    pub(super) fn add(&mut self, now: Time, shard: u32, worker: u32) -> (Vec<u32>, bool) {
        let over = self.count(worker);
        let of = &mut self.shards[Id::new(shard)];
        let freed = of.add(worker);
        let released = of.release(self.slack);
        if freed {
            let WorkerRun { began, computed, .. } = self.workers[Id::new(worker)];
            let held = Held { by: worker, began, until: computed.unwrap_or(now) };
            for other in released.iter().filter(|other| **other != worker) {
                self.workers[Id::new(*other)].held = Some(held);
            }
        }
        (released, over)
    }

    /// One more part of what `worker` pushed is added; whether it was the last one.
    fn count(&mut self, worker: u32) -> bool {
        let updates = self.books.updates;
        let worker = self.worker(worker);
        if !worker.adds() {
            return false;
        }
        let missed = updates - worker.read;
        let staleness = if self.is_synchronous() { 0 } else { missed };
        self.books.updates += 1;
        *self.books.staleness.entry(staleness).or_default() += 1;
        true
    }

    /// The step of `worker` that its last whole exchange ended.
    pub(super) fn exchanged(&self, worker: u32) -> u64 {
        self.pieces.last_of(self.workers[Id::new(worker)].added - 1)
    }

    /// `parcel` sets out: its transfer.
    pub(super) fn set_out(&mut self, parcel: Parcel) -> Hop {
        let Parcel { worker, shard, pulled, .. } = parcel;
        let Shard { server, part, .. } = &self.shards[Id::new(shard)];
        let (server, part) = (*server, *part);
        if !pulled {
            self.books.pushed = self.books.pushed.saturating_add(part.push);
            return Hop { from: worker, to: server, bytes: part.push, kind: Kind::Copy };
        }
        self.books.pulled = self.books.pulled.saturating_add(part.pull);
        let updates = self.books.updates;
        self.worker(worker).sends(updates);
        Hop { from: server, to: worker, bytes: part.pull, kind: Kind::Copy }
    }

    /// The bytes of message `m` are there: which parcel sets out behind it, unless that was so before.
    pub(super) fn arrives(&mut self, m: MessageId) -> Option<Parcel> {
        let parcel = self.parcels.get_mut(&m)?;
        if !std::mem::replace(&mut parcel.moving, false) {
            return None;
        }
        let parcel = *parcel;
        let server = self.shards[Id::new(parcel.shard)].server;
        self.lines.leave(parcel, server)
    }

    /// One more part is there; whether `worker` has all now.
    pub(super) fn pulled(&mut self, worker: u32) -> bool {
        self.worker(worker).pulls()
    }

    /// Whom `worker` waited for last.
    pub(crate) fn held(&self, worker: u32) -> Option<Held> {
        self.workers[Id::new(worker)].held
    }

    /// `worker` has taken fresh samples for `step`.
    pub(crate) fn add_fresh(&mut self, worker: u32, step: u64, samples: u64) {
        self.worker(worker).add_fresh(step, samples);
    }

    /// `worker` has done `step` with so many samples: the fresh ones of them.
    pub(super) fn finish(&mut self, worker: u32, step: u64, samples: u64) -> u64 {
        self.done += 1;
        self.samples += samples;
        self.worker(worker).finish(step)
    }

    /// The samples of a step of all, if as many model copies' steps are done as there are.
    pub(super) fn whole(&mut self) -> Option<u64> {
        let whole = self.done.is_multiple_of(self.workers.len() as u64);
        whole.then(|| std::mem::take(&mut self.samples))
    }

    /// Exchanges by which the fastest model copy is ahead of the slowest.
    pub(super) fn lead(&self) -> u64 {
        let added = self.workers.iter().map(|worker| worker.added);
        added.clone().max().unwrap_or(0) - added.min().unwrap_or(0)
    }

    /// Bytes on their way.
    pub(super) fn moving(&self) -> u64 {
        let bytes = |parcel: &Parcel| {
            let part = self.shards[Id::new(parcel.shard)].part;
            if parcel.pulled { part.pull } else { part.push }
        };
        self.parcels.values().map(bytes).fold(0, u64::saturating_add)
    }
}
